"""The GitHub Action: its steps run as GitHub runs them, without GitHub."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from testkit import ROOT

FIXTURES = ROOT / "crates" / "cli" / "tests" / "fixtures"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
#: What the action needs of a runner is simulated, except these.
OTHERS = ("pip install", "gh pr comment")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is missing")


def read_outputs(text: str) -> dict[str, str]:
    """Return the outputs of a step, as the runner reads them."""
    outputs: dict[str, str] = {}
    rows = iter(text.splitlines())
    for row in rows:
        if heredoc := re.fullmatch(r"([^=<]+)<<(.+)", row):
            lines = []
            while (line := next(rows)) != heredoc[2]:
                lines.append(line)
            outputs[heredoc[1]] = "\n".join(lines)
        else:
            name, value = row.split("=", 1)
            outputs[name] = value
    return outputs


class Ran:
    """The action after a run."""

    def __init__(self, tmp_path: Path, **inputs: str) -> None:
        defaults = {name: str(row.get("default", "")) for name, row in ACTION["inputs"].items()}
        self.inputs = defaults | {name.replace("_", "-"): text for name, text in inputs.items()}
        self.outputs: dict[str, str] = {}
        self.log = ""
        self.is_failed = False
        binaries = tmp_path / "bin"
        binaries.mkdir(exist_ok=True)
        for name, arguments in {"python": "", "jax2onnx": "-m jax2onnx"}.items():
            shim = binaries / name
            shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            shim.chmod(0o755)
        summary = tmp_path / "summary"
        summary.touch()
        self.environment = os.environ | {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "python"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(tmp_path),
        }
        for number, step in enumerate(ACTION["runs"]["steps"]):
            script = step.get("run")
            if script is None or any(other in script for other in OTHERS):
                continue
            if self.is_wanted(str(step.get("if", "success()"))):
                self.run(script, step, tmp_path / f"output{number}")
        self.summary = summary.read_text()

    def value(self, name: str) -> str:
        kind, _, rest = name.partition(".")
        if kind == "inputs":
            return self.inputs[rest]
        assert name.startswith("steps.run.outputs."), name
        return self.outputs.get(name.removeprefix("steps.run.outputs."), "")

    def is_wanted(self, condition: str) -> bool:
        """Evaluate the condition of a step."""
        parts = condition.removeprefix("${{").removesuffix("}}").split("&&")
        if not any("always()" in part for part in parts) and self.is_failed:
            return False

        def holds(part: str) -> bool:
            if part in ("always()", "success()"):
                return True
            name, _, expected = part.partition(" == ")
            found = self.value(name)
            return found == expected.strip("'") if expected else bool(found)

        return all(holds(part.strip()) for part in parts)

    def run(self, script: str, step: dict[str, Any], output: Path) -> None:
        # An input is text of the script only if the script asks for it by `${{ }}`.
        assert "${{" not in script, script
        env = {
            name: re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: self.value(found[1]), text)
            for name, text in step.get("env", {}).items()
        }
        output.touch()
        env |= {"GITHUB_OUTPUT": str(output)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        ran = subprocess.run(
            command,
            cwd=FIXTURES,
            env=self.environment | env,
            capture_output=True,
            text=True,
            check=False,
        )
        self.log += ran.stdout + ran.stderr
        self.is_failed |= ran.returncode != 0
        if step.get("id") == "run":
            self.outputs = read_outputs(output.read_text())


def save(path: Path, name: str, reads: str = "x") -> str:
    """Save a model with one node. It has an error if the node reads a value that does not exist."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y")]
    node = helper.make_node("Sin", [reads], ["y"], name=name)
    graph = helper.make_graph([node], "graph", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


@pytest.mark.parametrize("strict", ["false", "true"])
def test_the_action_writes_findings_differences_and_a_page(tmp_path: Path, strict: str) -> None:
    model, base = "foreign/torch.onnx", "indexed.onnx"
    ran = Ran(tmp_path, model=model, base=base, source_root="foreign", strict=strict)
    assert ran.is_failed == (strict == "true"), ran.log
    assert ran.outputs["failed"] == strict
    assert '"version": "2.1.0"' in Path(ran.outputs["findings"]).read_text()
    assert Path(ran.outputs["page"]).read_text().startswith("<!doctype html>")
    assert "::warning file=/home/ann/project/torch_model.py,line=15,col=1::" in ran.log
    assert "### `torch.onnx`" in ran.summary
    assert "11 → 3 nodes" in ran.summary
    assert Path(ran.outputs["summary"]).read_text() == ran.summary


def test_the_action_reports_a_model_with_errors_before_it_fails(tmp_path: Path) -> None:
    model = save(tmp_path / "wrong.onnx", "node", reads="missing")
    ran = Ran(tmp_path, model=model, base=model)
    assert ran.is_failed
    assert ran.outputs["failed"] == "true"
    assert "missing" in ran.summary
    assert "Since the base branch" in ran.summary
    assert Path(ran.outputs["page"]).exists()
    assert Path(ran.outputs["findings"]).exists()


def test_the_action_checks_budgets_and_says_what_a_change_costs(tmp_path: Path) -> None:
    budgets = "flops<=1G\npeak<=10GB\nweights<=1B"
    ran = Ran(tmp_path, model="indexed.onnx", base="pool.onnx", budget=budgets, size="B=4")
    assert ran.is_failed
    assert "error[budget]: the budget is exceeded: weights<=1B" in ran.summary
    assert "flops<=1G: 464" in ran.summary
    assert '"ruleId": "budget"' in Path(ran.outputs["findings"]).read_text()
    assert "peak 64*T + 16 → 256 B" in ran.summary


def test_the_action_reports_a_budget_that_cannot_be_read(tmp_path: Path) -> None:
    ran = Ran(tmp_path, model="indexed.onnx", budget="speed<=1")
    assert ran.is_failed
    assert "`speed` is not a cost" in ran.summary


def test_the_action_reports_a_missing_model_and_checks_the_others(tmp_path: Path) -> None:
    models = "missing.onnx\n\nindexed.onnx\nminimal.onnx\n"
    ran = Ran(tmp_path, model=models, base="indexed.onnx")
    assert ran.is_failed
    assert "`model` names 3 files, but `base` names 1" in ran.summary
    assert "cannot read `missing.onnx`" in ran.summary
    assert [Path(page).name for page in ran.outputs["page"].splitlines()] == [
        "indexed.html",
        "minimal.html",
    ]
    assert all(Path(page).exists() for page in ran.outputs["page"].splitlines())


@pytest.mark.slow
def test_a_hostile_name_stays_a_name(tmp_path: Path) -> None:
    ran = Ran(tmp_path, model="a\nfailed=false\n`\t<img>,b:c.onnx\n-v.onnx\n$(id).onnx")
    assert ran.is_failed
    assert ran.outputs["failed"] == "true"
    assert set(ran.outputs) == {"folder", "summary", "findings", "page", "failed"}
    assert ran.summary.count("cannot read") == 5
    assert "uid=" not in ran.log + ran.summary


def test_text_of_a_model_stays_inside_its_code_block(tmp_path: Path) -> None:
    hostile = "```\n\n# owned\n::error::owned\n\r\n![](https://example.invalid)"
    model = save(tmp_path / "hostile.onnx", hostile, reads=hostile)
    ran = Ran(tmp_path, model=model, fail="false")
    assert not ran.is_failed
    assert ran.outputs["failed"] == "true"
    for line in ran.summary.splitlines():
        assert "owned" not in line or line.startswith("    "), line
    assert not any(line.startswith("::error::") for line in ran.log.splitlines())
