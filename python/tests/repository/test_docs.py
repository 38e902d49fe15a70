"""The documentation: every example runs and prints what it says, every link leads somewhere.

The examples run in the order of the site, on a terminal of 80 columns, as in the first hour of a
user.
"""

from __future__ import annotations

import itertools
import linecache
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import jax2onnx
from jax2onnx import __main__
from jax2onnx._plugins import registry
from testkit import ROOT
from testkit.terminal import Terminal

COLUMNS = 80
SITE = (ROOT / "mkdocs.yml").read_text()
#: The README, and the pages in the order of the site.
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in re.findall(r": ([\w-]+\.md)$", SITE, re.MULTILINE)
        if (ROOT / "docs" / name).exists()
    ),
]
MARKDOWN = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"# (\w+\.py)\n")
#: Commands that install or build, belong to the repository, or are run by `tools/test_wheel.py`.
NOT_RUN = re.compile(
    r"pip install |make |python tools/|JAX2ONNX_ENABLE_STACKTRACE_METADATA=1 python - <<"
)
#: A page that needs a library of requirements-libraries.txt; `make test-libraries` runs it.
NEEDS = re.compile(r"<!-- This page needs (\w+)\. -->\n")


@dataclass
class Example:
    """A block that is run, and what it prints where the page shows it."""

    language: str
    code: str
    line: int
    output: str | None


def examples(page: Path) -> Iterator[Example]:
    text = page.read_text()
    blocks = list(FENCED.finditer(text))
    for block, following in itertools.zip_longest(blocks, blocks[1:]):
        language, code = block.groups()
        if language not in ("python", "bash"):
            continue
        is_output = (
            following is not None
            and following[1] == "text"
            and not text[block.end() : following.start()].strip()
        )
        line = text[: block.start()].count("\n") + 2
        yield Example(language, code, line, following[2] if is_output and following else None)


def commands(example: Example) -> list[str]:
    """Return the commands of a block, each on one line."""
    code = re.sub(r"<<'(\w+)'\n.*?^\1$", r"<<\1", example.code, flags=re.MULTILINE | re.DOTALL)
    return [line for line in code.replace("\\\n", "").splitlines() if line]


def run(example: Example, namespace: dict[str, object]) -> None:
    """Run a block; one that begins with the name of a file is in that file, too."""
    if example.language == "bash":
        for line in commands(example):
            if line.startswith("jax2onnx "):
                sys.argv = shlex.split(line, comments=True)
                __main__.main()
        return
    name = NAMED.match(example.code)
    file = Path(name[1] if name else "example.py").resolve()
    file.write_text(example.code)
    linecache.clearcache()
    exec(compile(example.code, str(file), "exec"), namespace)


def matches(found: str, expected: str) -> bool:
    """Return whether the output is the expected one, in which `…` is any text."""
    parts = [re.escape(part) for part in expected.strip().split("…")]
    return re.fullmatch(".*?".join(parts), found.strip(), re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, of whose modules nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", sys.argv)
    # A page keeps what it registers for itself.
    monkeypatch.setattr(registry, "REGISTERED", {})
    yield tmp_path
    for file in tmp_path.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal(COLUMNS)
    yield terminal
    terminal.close()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_prints_what_the_page_says_on_a_terminal(
    page: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = NEEDS.match(page.read_text())
    if needed is not None:
        monkeypatch.setenv("KERAS_BACKEND", "jax")
        pytest.importorskip(needed[1])
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page):
        try:
            with terminal.attached():
                run(example, namespace)
        except Exception as error:
            raise AssertionError(f"{page.name}:{example.line}: {error!r}") from error
        printed = terminal.text()
        if example.output is not None and not matches(printed, example.output):
            raise AssertionError(f"{page.name}:{example.line} prints\n{printed}")
        if example.language == "bash":
            wide = [line for line in printed.splitlines() if len(line) > COLUMNS]
            assert wide == [], f"{page.name}:{example.line} is too wide"


def cells_of(found: Sequence[Example]) -> Iterator[str]:
    """Yield each block as a cell of a notebook, in which a cell takes the place of a file."""
    numbers = {}
    for number, example in enumerate(found, start=1):
        if example.language == "python":
            if name := NAMED.match(example.code):
                numbers[name[1]] = number
            yield example.code
            continue
        lines = [line for line in commands(example) if line.startswith("jax2onnx ")]
        for place, line in enumerate(lines):
            if line.startswith("jax2onnx blame "):
                lines[place] = re.sub(r"\w+\.py", lambda name: f'"In [{numbers[name[0]]}]"', line)
        yield "\n".join(f"!{line}" for line in lines) or "pass"


def without_files(text: str) -> str:
    """Return a text without warnings, and without names of files, whose lengths move columns."""
    text = re.sub(r"^In \[\d+\]:\d+: Jax2OnnxWarning: .*$", "", text, flags=re.MULTILINE)
    named = re.sub(r"\b\w+\.py\b|In \[\d+\]", "FILE", text)
    return " ".join(named.split())


def has_cells(page: Path) -> bool:
    """Return whether the examples of a page run in a notebook: none of them reads its own file."""
    codes = [example.code for example in examples(page) if example.language == "python"]
    return (
        NEEDS.match(page.read_text()) is None
        and any("jax2onnx" in code for code in codes)
        and not any("check_sources" in code for code in codes)
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", list(filter(has_cells, PAGES)), ids=lambda page: page.name)
def test_every_example_prints_what_the_page_says_in_a_notebook(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebooks = pytest.importorskip("testkit.notebooks")
    monkeypatch.setenv("NO_COLOR", "1")
    # IPython forks for a command, and JAX warns of it.
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:os.fork:RuntimeWarning")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    found = list(examples(page))
    for example in found:
        if example.language == "python" and (name := NAMED.match(example.code)):
            (folder / name[1]).write_text(example.code)
    ran = notebooks.Ran(list(cells_of(found)), folder)
    assert ran.errors() == []
    for number, example in enumerate(found, start=1):
        shown = ran.text(number)
        # A name that only IPython knows is never shown.
        assert "ipykernel" not in shown + ran.html(number), f"{page.name}:{example.line}"
        if example.output is not None:
            expected = without_files(example.output)
            assert matches(without_files(shown), expected), f"{page.name}:{example.line}\n{shown}"


def test_every_command_of_the_pages_is_run() -> None:
    blocks = [example for page in PAGES for example in examples(page)]
    lines = [line for each in blocks if each.language == "bash" for line in commands(each)]
    others = [line for line in lines if not line.startswith("jax2onnx ")]
    assert len(lines) - len(others) > 20
    assert [line for line in others if not NOT_RUN.match(line)] == []


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_the_site_leads_to_every_page() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    assert [page.name for page in pages if page not in PAGES] == []


def test_the_reference_contains_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    listed = set(re.findall(r"^::: jax2onnx\.(\w+)$", page, re.MULTILINE))
    assert set(jax2onnx.__all__) - {"__version__"} <= listed
