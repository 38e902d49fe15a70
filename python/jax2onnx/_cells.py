"""Find the cells of a notebook, which are source without files.

IPython compiles each cell under the name of a file that does not exist, such as
`/tmp/ipykernel_12/345.py`, `<ipython-input-3-0123456789ab>` or `<timed exec>`. Everything that
names a line of the user asks this module first, so that each line of a cell has the name and the
number that the user sees: `In [3]`, line 2.

This module reads what IPython recorded. It changes nothing, and never imports IPython.
"""

import __future__

import contextlib
import functools
import linecache
import operator
import os
import re
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final, NamedTuple

_NUMBERED: Final = re.compile(r"\bipython-input-(\d+)-")
_MAGIC: Final = "%%"
#: The flags of `from __future__ import annotations` and others.
_FUTURE: Final = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_RUNS_MAGIC: Final = "get_ipython().run_cell_magic("

#: The files of the cell magic `%%time`, which compiles the rest of a cell itself.
_TIMED: Final = ("<timed exec>", "<timed eval>")


class Cell(NamedTuple):
    """A cell of a notebook that was run."""

    name: str
    text: str
    #: How many lines of the cell come before the code: for `%%time` on the first line, 1.
    lines_before: int


Find = Callable[[str, tuple[str, int], CodeType | None], Cell | None]


def shell() -> Any:
    """Return the shell of IPython that runs this program, or `None`."""
    ipython = sys.modules.get("IPython")
    get_ipython = getattr(ipython, "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


def is_notebook() -> bool:
    """Return whether a notebook would show the value of a cell."""
    return hasattr(shell(), "kernel")


def finder() -> Find | None:
    """Return a function that finds the cell of a frame, or `None` outside of IPython."""
    return find if shell() is not None else None


def find(file: str, function: tuple[str, int], code: CodeType | None = None) -> Cell | None:
    """Return the cell that a frame runs, or `None` if its file is not a cell.

    Args:
        file: The name of the file in the code.
        function: The qualified name of the function, and the line of its definition.
        code: The code, if it is known.
    """
    cells = _inputs()
    if not cells:
        return None
    if file in _TIMED:
        return _find_code(cells, function, code, "%%time")
    ran = "".join(linecache.getlines(file)) if _is_virtual(file) else ""
    if not ran:
        return None
    if _is_shared(file) and not _contains(ran, function, code):
        return _find_code(cells, function, code)
    number = _number(file)
    if number is not None and number < len(cells):
        return _cell(cells, number, ran) or _whole_cell(cells, number, ran)
    numbers = reversed(range(1, len(cells)))
    return next((cell for number in numbers if (cell := _cell(cells, number, ran))), None)


def find_code(code: CodeType) -> Cell | None:
    """Return the cell that contains a code."""
    return find(code.co_filename, (code.co_qualname, code.co_firstlineno), code)


def place(code: CodeType, line: int) -> tuple[str, int]:
    """Return the name of the file that a frame runs, and the line in it."""
    return moved(find_code(code), code.co_filename, line)


def moved(cell: Cell | None, file: str, line: int) -> tuple[str, int]:
    """Return a place in a file as a place in its cell, if it has one."""
    return (file, line) if cell is None else (cell.name, line + cell.lines_before)


def source_line(code: CodeType, line: int, module: dict[str, Any]) -> str:
    """Return the text of a line that a frame runs, like Python's tracebacks."""
    cell = find_code(code)
    if cell is None:
        return linecache.getline(code.co_filename, line, module)
    return next(iter(cell.text.splitlines()[line + cell.lines_before - 1 :]), "")


def _inputs() -> Sequence[str]:
    """Return the text of all cells as the user wrote them. The index is the number of the cell."""
    history = getattr(shell(), "history_manager", None)
    inputs: Sequence[str] = getattr(history, "input_hist_raw", ())
    return inputs


def _is_virtual(file: str) -> bool:
    """Return whether Python's cache contains a text under this name that is not in a file."""
    entry: Any = linecache.cache.get(file)
    # IPython 8 stores no time, and IPython 7 the time of the run.
    return entry is not None and len(entry) == 4 and (entry[1] is None or not os.path.exists(file))


def _is_shared(file: str) -> bool:
    """Return whether several cells may have this name, of which Python's cache has the last one."""
    return file == os.environ.get("IPYKERNEL_CELL_NAME") or os.path.exists(file)


def _number(file: str) -> int | None:
    """Return the number of a cell by the name of its file, if IPython knows it."""
    compiler = getattr(shell(), "compile", None)
    described = getattr(compiler, "format_code_name", lambda name: None)(file)
    text = described[1] if described else file
    found = re.search(r"\[(\d+)\]", text) if described else _NUMBERED.search(text)
    return int(found[1]) if found else None


def _cell(cells: Sequence[str], number: int, ran: str) -> Cell | None:
    """Return a cell if the code that ran is the cell, or what follows its cell magics."""
    before = _lines_before(cells[number], ran)
    return None if before is None else Cell(f"In [{number}]", cells[number], before)


def _whole_cell(cells: Sequence[str], number: int, ran: str) -> Cell | None:
    """Return the code that IPython made of a cell, if its lines are not those of the cell.

    IPython joins the lines of a long `!` command, and removes indentation.
    """
    transform = getattr(shell(), "transform_cell", None)
    if transform is None or transform(cells[number]) != ran:
        return None
    return Cell(f"In [{number}] as run", ran, 0)


def _lines_before(cell: str, ran: str) -> int | None:
    """Return how many lines of a cell come before the code that ran, if it is from the cell."""
    written, lines = cell.rstrip().splitlines(), ran.rstrip().splitlines()
    if len(lines) == 1 and ran.startswith(_RUNS_MAGIC):
        first = next((i for i, line in enumerate(written) if line.strip()), None)
        return first if first is not None and written[first].startswith(_MAGIC) else None
    before = len(written) - len(lines)
    skipped = written[: max(before, 0)]
    if before < 0 or any(line.strip() and not line.startswith(_MAGIC) for line in skipped):
        return None
    is_same = all(
        text.rstrip() == line.rstrip() or "get_ipython()" in line
        for text, line in zip(written[before:], lines, strict=True)
    )
    return before if is_same else None


def _find_code(
    cells: Sequence[str], function: tuple[str, int], code: CodeType | None, magic: str = ""
) -> Cell | None:
    """Return the newest cell that contains a function, of those that begin with a magic."""
    for number in reversed(range(1, len(cells))):
        lines = cells[number].splitlines()
        before = next((i for i, line in enumerate(lines) if not _is_magic(line)), 0)
        if magic and not any(line.startswith(magic) for line in lines[:before]):
            continue
        # The body of a cell is on the stack only while the cell, which is the newest one, runs.
        is_body = code is not None and code.co_name.startswith("<") and "." not in function[0]
        if is_body or _contains("\n".join(lines[before:]), function, code):
            return Cell(f"In [{number}]", cells[number], before)
    return None


def _contains(text: str, function: tuple[str, int], code: CodeType | None) -> bool:
    """Return whether a text contains a function. Equal codes may be in different files."""
    if code is not None:
        return any(each == code for each in _codes(text))
    return any((each.co_qualname, each.co_firstlineno) == function for each in _codes(text))


def _is_magic(line: str) -> bool:
    return not line.strip() or line.startswith(_MAGIC)


@functools.lru_cache(maxsize=64)
def _codes(body: str) -> Sequence[CodeType]:
    """Return the code of all functions in a text of IPython."""
    found: list[CodeType] = []
    with contextlib.suppress(SyntaxError, ValueError, AttributeError):
        flags = shell().compile.flags & _FUTURE
        text = shell().transform_cell(body)
        found.append(compile(text, "<cell>", "exec", flags, dont_inherit=True))
    for code in found:
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found[1:]
