"""Run `jax2onnx sensitivity`, which the command line passes to Python."""

import os
import sys
from collections.abc import Sequence
from typing import Final

from .. import _files, _progress
from . import console
from .export import printed_warnings
from .inputs import arrays_of

NOT_UNDERSTOOD: Final = 2
INTERRUPTED: Final = 130


def run(
    *,
    model: os.PathLike[str],
    inputs: Sequence[str],
    to: str,
    top: int,
    quiet: bool,
    source_map: os.PathLike[str] | None,
    source_roots: Sequence[os.PathLike[str]],
    json: bool,
) -> int:
    """Rank the lines of a model, and print them. Return the exit code."""
    watch = _progress.Stopwatch(show=not quiet and sys.stderr.isatty())
    try:
        with watch.running(), printed_warnings():
            _progress.stage("importing")
            read: list[_files.Named] = []
            arrays = arrays_of(inputs, read)
            from .._precision.sensitivity import sensitivity

            result = sensitivity(
                model, arrays, to=to, source_map=source_map, source_roots=source_roots
            )
        if json:
            console.answer_for_programs(result.to_json())
        else:
            table = f"\n\nlines by effect, largest first:\n{result.table(top)}"
            console.answer(f"{result}{table if result.lines and top else ''}")
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        console.message("interrupted")
        return INTERRUPTED
    except Exception as error:
        return failed(error, json=json)
    return 0


def failed(error: Exception, *, json: bool) -> int:
    """Print an error. Return the exit code."""
    console.error(error)
    if json:
        console.error_for_programs(error)
    return NOT_UNDERSTOOD
