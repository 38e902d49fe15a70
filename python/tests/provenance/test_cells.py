"""The names of cells in the shells of other programs, which tests do not start."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from jax2onnx import _cells

Run = Callable[[str, str], dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a cell under the name of a file, in a shell that knows no names of cells."""
    cells = [""]
    shell = SimpleNamespace(
        history_manager=SimpleNamespace(input_hist_raw=cells),
        compile=SimpleNamespace(flags=0),
        transform_cell=lambda text: text,
    )
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    _cells._codes.cache_clear()

    def run(file: str, cell: str) -> dict[str, Any]:
        cells.append(cell)
        body = cell.removeprefix("%%time\n")
        namespace: dict[str, Any] = {}
        exec(compile(body, file, "exec", dont_inherit=True), namespace)
        if body == cell:
            # IPython 7 stores the time of the run.
            lines = body.splitlines(keepends=True)
            linecache.cache[file] = (len(body), 1.0, lines, file)
        return namespace

    yield run
    _cells._codes.cache_clear()


def place(function: Any) -> tuple[str, int]:
    code: CodeType = function.__code__
    return _cells.place(code, code.co_firstlineno)


@pytest.mark.parametrize(
    "name",
    [
        "<ipython-input-{}-0123456789ab>",
        "/tmp/ipython-input-{}-2192630111.py",
        "/tmp/ipython-input-{}0042.py",
        "/tmp/ipykernel_12/{}0042.py",
        "C:\\Users\\me\\AppData\\Local\\Temp\\ipykernel_12\\{}0042.py",
    ],
)
def test_a_cell_has_the_number_of_its_run_under_every_name(run: Run, name: str) -> None:
    old = run(name.format(1), "def f(x):\n    return x\n")["f"]
    new = run(name.format(2), "\ndef f(x):\n    return x + 1\n")["f"]
    assert place(old) == ("In [1]", 1)
    assert place(new) == ("In [2]", 2)
    assert _cells.source_line(old.__code__, 2, {}) == "    return x"
    assert _cells.source_line(new.__code__, 3, {}) == "    return x + 1"


def test_cells_that_share_a_name_are_found_by_their_code(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYKERNEL_CELL_NAME", "/home/me/a.ipynb")
    old = run("/home/me/a.ipynb", "def f(x):\n    return x\n")["f"]
    new = run("/home/me/a.ipynb", "def f(x):\n    return x + 1\n")["f"]
    assert place(old) == ("In [1]", 1)
    assert place(new) == ("In [2]", 1)


def test_a_timed_cell_is_found_by_its_code(run: Run) -> None:
    old = run("<timed exec>", "%%time\ndef f(x):\n    return x\n")["f"]
    new = run("<timed exec>", "%%time\ndef f(x):\n    return x + 1\n")["f"]
    run("<ipython-input-3-0>", "def f(x):\n    return x\n")
    assert place(old) == ("In [1]", 2)
    assert place(new) == ("In [2]", 2)


def test_code_that_is_in_no_cell_keeps_its_file(run: Run) -> None:
    run("<ipython-input-1-0>", "a = 1\n")
    namespace: dict[str, Any] = {}
    exec(compile("def f(x):\n    return x\n", "<string>", "exec"), namespace)
    assert place(namespace["f"]) == ("<string>", 1)
    assert place(place) == (__file__, place.__code__.co_firstlineno)
    assert _cells.find("<timed exec>", ("f", 1)) is None
    # Code that a cell runs as text is not the text of the cell.
    text = "def g(x):\n    return x\n"
    exec(compile(text, "<ipython-input-1-1>", "exec"), namespace)
    linecache.cache["<ipython-input-1-1>"] = (len(text), None, text.splitlines(True), "")
    assert place(namespace["g"]) == ("<ipython-input-1-1>", 1)


def test_nothing_is_looked_up_outside_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert _cells.finder() is None
    assert _cells.find("<ipython-input-1-0>", ("f", 1)) is None
    assert "IPython" not in sys.modules
