"""Check models, compare them with those of the base branch, and write pages, for `action.yml`.

The environment contains the inputs of the action: MODEL, BASE, ROOT, STRICT, BUDGET and SIZE. MODEL
and BASE contain one path per line, BUDGET and SIZE one limit or one size. The report is complete
even if a model has errors or cannot be read: the output `failed` says so, and the last step of the
action fails.

Text of a model is hostile. It reaches the log only as the message of an annotation, and the summary
only in code blocks.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

#: A comment has room for 65,536 characters, and a summary for 1 MiB.
MAX_SUMMARY = 60_000
#: GitHub shows at most 10 errors and 10 warnings of a step.
MAX_ANNOTATIONS = 20


def run(*arguments: str) -> tuple[int, str]:
    """Run `jax2onnx`; return the exit code, and the output or the error."""
    command = ["jax2onnx", *arguments]
    environment = os.environ | {"PYTHONUTF8": "1", "NO_COLOR": "1"}
    ran = subprocess.run(command, capture_output=True, check=False, env=environment)
    return ran.returncode, (ran.stdout or ran.stderr).decode("utf-8", "replace")


def lines(name: str) -> list[str]:
    """Return the lines of an input of the action that are not empty."""
    return [line.strip() for line in os.environ.get(name, "").splitlines() if line.strip()]


def block(text: str, room: int) -> str:
    """Return a text as a code block. Each line is indented, so the text cannot end the block."""
    kept = text[:room]
    rows = ["    " + line for line in kept.splitlines()]
    if len(text) > room:
        rows += ["", "The artifact contains the rest."]
    return "\n".join(rows) + "\n"


def annotations(sarif: str) -> Iterator[str]:
    """Yield a workflow command for each finding that has a line, to show the finding beside it."""
    for finding in json.loads(sarif)["runs"][0]["results"]:
        place = finding["locations"][0].get("physicalLocation", {})
        if "region" in place:
            path = unquote(place["artifactLocation"]["uri"]).removeprefix("file://")
            line, column = place["region"]["startLine"], place["region"].get("startColumn", 1)
            file = escaped(path).replace(":", "%3A").replace(",", "%2C")
            message = escaped(finding["message"]["text"])
            severity = {"error": "error", "warning": "warning"}.get(finding["level"], "notice")
            yield f"::{severity} file={file},line={line},col={column}::{message}"


def escaped(text: str) -> str:
    """Return a text that cannot end the workflow command that contains it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def set_output(name: str, value: str) -> None:
    """Write an output of the step. The value cannot contain the delimiter, which is random."""
    delimiter = secrets.token_hex(16)
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8", newline="\n") as file:
        file.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


class Report:
    """The results of all models, in one folder."""

    def __init__(self, count: int) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("RUNNER_TEMP")))
        self.root = ["--source-root", os.environ.get("ROOT") or "."]
        self.strict = ["--strict"] if os.environ.get("STRICT") == "true" else []
        self.budgets = [f"--budget={budget}" for budget in lines("BUDGET")]
        self.sizes = [f"--size={size}" for size in lines("SIZE")]
        self.room = MAX_SUMMARY // (3 * max(count, 1))
        self.summary = ""
        self.failed = False
        self.findings: list[str] = []
        self.pages: list[str] = []

    def path(self, stem: str, ending: str) -> Path:
        """Return the path of a result; models with the same name get different ones."""
        path = self.folder / f"{stem}{ending}"
        number = 2
        while path.exists():
            path = self.folder / f"{stem}-{number}{ending}"
            number += 1
        return path

    def add(self, model: str, base: str | None) -> None:
        """Check a model, compare it with another one, and write its page."""
        name = re.sub(r"[`\x00-\x1f\x7f]", "_", Path(model).name)
        stem = re.sub(r"[^\w.-]", "_", Path(model).stem)[:100] or "model"
        # The check needs sizes only for budgets.
        limits = [*self.budgets, *self.sizes] if self.budgets else []
        code, text = run("check", *self.root, *self.strict, *limits, "--", model)
        self.failed |= code != 0
        self.path(stem, ".check.txt").write_text(text, encoding="utf-8")
        self.summary += f"### `{name}`\n\n{block(text, self.room)}\n"
        if code > 1:
            return
        _, found = run("check", *self.root, *limits, "--format", "sarif", "--", model)
        sarif = self.path(stem, ".sarif")
        sarif.write_text(found, encoding="utf-8")
        self.findings.append(str(sarif))
        for annotation in islice(annotations(found), MAX_ANNOTATIONS):
            print(annotation)
        if base is not None:
            self.compare(model, base, stem)
        page = self.path(stem, ".html")
        against = [] if base is None else ["--against", base]
        code, text = run("view", *self.root, *against, "--output", str(page), "--", model)
        if code == 0:
            self.pages.append(str(page))
        else:
            self.fail("There is no page:", text)

    def compare(self, model: str, base: str, stem: str) -> None:
        costs = ["--cost", *self.sizes]
        code, text = run("diff", *self.root, *costs, "--", base, model)
        if code > 1:
            # The model of the base branch may have other sizes.
            code, text = run("diff", *self.root, "--", base, model)
        if code > 1:
            return self.fail("The model cannot be compared with the one of the base branch:", text)
        self.path(stem, ".diff.txt").write_text(text, encoding="utf-8")
        self.summary += f"Since the base branch:\n\n{block(text, self.room)}\n"
        return None

    def fail(self, what: str, text: str) -> None:
        self.failed = True
        self.summary += f"{what}\n\n{block(text, self.room)}\n"

    def write(self) -> None:
        summary = self.folder / "summary.md"
        summary.write_text(self.summary[:MAX_SUMMARY], encoding="utf-8")
        with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as file:
            file.write(self.summary[:MAX_SUMMARY])
        set_output("folder", str(self.folder))
        set_output("summary", str(summary))
        set_output("findings", "\n".join(self.findings))
        set_output("page", "\n".join(self.pages))
        set_output("failed", "true" if self.failed else "false")


def main() -> None:
    models, bases = lines("MODEL"), lines("BASE")
    report = Report(len(models))
    if not models:
        report.fail("Nothing was checked:", "the input `model` names no file")
    elif bases and len(bases) != len(models):
        counts = f"`model` names {len(models)} files, but `base` names {len(bases)}"
        report.fail("Nothing was compared:", counts)
        bases = []
    for number, model in enumerate(models):
        report.add(model, bases[number] if bases else None)
    report.write()


if __name__ == "__main__":
    main()
