"""Print what a command says. No other module of the package prints.

Names in models, settings and files come from others. Characters that control a terminal are
replaced here, whatever the text is made from.
"""

import json
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from typing import Any, Final, TextIO

from .. import _core
from .._tiers import without_own_frames

#: A part of the note that JAX adds to every exception.
_NOTE_OF_JAX: Final = "JAX has removed its internal frames"

#: The labels of sentences and facts, which a terminal wraps between words.
_LABEL: Final = re.compile(r"(?:error|warning|note|hint): |   = ")


def answer(text: str) -> None:
    """Print an answer for people."""
    _print(text, sys.stdout)


def answer_for_programs(value: Any) -> None:
    """Print an answer as JSON, in which characters other than ASCII are escaped."""
    _print(json.dumps(value, indent=2, default=str), sys.stdout)


def message(text: str) -> None:
    """Print an error, a warning or a note."""
    _print(text, sys.stderr)


def error(raised: BaseException) -> None:
    """Print an exception of jax2onnx."""
    notes = [str(note) for note in getattr(raised, "__notes__", ())]
    message("\n".join([f"error: {str(raised).strip()}", *notes]))


def error_for_programs(raised: BaseException, **more: Any) -> None:
    """Print an exception where programs read the answer."""
    shown = {"kind": type(raised).__name__, "message": str(raised).strip(), **more}
    answer_for_programs({"version": 1, "error": shown})


def users_exception(raised: BaseException, what: str) -> None:
    """Print an exception of the user's code with its traceback, and the notes at the end.

    Args:
        raised: The exception.
        what: What raised it.
    """
    shown = traceback.TracebackException(
        type(raised), raised, without_own_frames(raised.__traceback__, keeps_one=False)
    )
    shown.__notes__ = None
    notes = [str(note) for note in getattr(raised, "__notes__", ())]
    notes = [note for note in notes if _NOTE_OF_JAX not in note]
    message("".join(shown.format()).rstrip("\n"))
    message("\n".join([f"\nerror: {what} raised {type(raised).__name__}", *notes]))


def warning(said: Warning | str, category: type[Warning], filename: str, lineno: int) -> None:
    """Print a warning of another library with its line."""
    message(warnings.formatwarning(said, category, filename, lineno).rstrip("\n"))


def _print(text: str, stream: TextIO) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if stream.isatty():
        text = "\n".join(map(_wrapped, text.split("\n")))
    cleaned = _core.clean_lines(text).encode(encoding, "replace").decode(encoding)
    stream.write(f"{cleaned}\n")
    stream.flush()


def _wrapped(line: str) -> str:
    """Wrap a sentence with a label, and indent its further lines by the width of the label."""
    label = _LABEL.match(line)
    if label is None:
        return line
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent=" " * label.end(),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
