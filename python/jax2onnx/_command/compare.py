"""Run `jax2onnx compare`, which the command line passes to Python."""

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from .. import _files, _progress
from .._errors import ConfigError, Jax2OnnxError
from .._words import quoted
from . import console
from .export import printed_warnings
from .inputs import arrays_of
from .target import load

if TYPE_CHECKING:
    from .._comparing.nan import NanReport
    from .._comparing.report import Report

_DIFFERS: Final = 1
_NOT_UNDERSTOOD: Final = 2
_INTERRUPTED: Final = 130


def run(
    *,
    model: os.PathLike[str],
    other: os.PathLike[str] | None,
    function: str | None,
    nan: bool,
    inputs: Sequence[str],
    providers: Sequence[str],
    runtime: str | None,
    captured: os.PathLike[str] | None,
    rtol: float,
    atol: float,
    top: int,
    reproducer: os.PathLike[str] | None,
    keep_float32: os.PathLike[str] | None,
    double: bool,
    verbose: bool,
    quiet: bool,
    source_map: os.PathLike[str] | None,
    source_roots: Sequence[os.PathLike[str]],
    json: bool,
) -> int:
    """Compare a model and print a report. Return the exit code."""
    watch = _progress.Stopwatch(show=not quiet and sys.stderr.isatty())
    try:
        with watch.running(), printed_warnings():
            _progress.stage("importing")
            _check_is_model(other)
            read: list[_files.Named] = []
            arrays = arrays_of(inputs, read)
            read += [("the model", os.fspath(path)) for path in (model, other) if path is not None]
            if captured is not None:
                from .._comparing.recordings import files

                read += [("the recording", path) for path in files(captured)]
            _check(reproducer, keep_float32, read)
            lines: dict[str, Any] = {"source_map": source_map, "source_roots": source_roots}
            report: Report | NanReport
            if nan:
                from .._comparing.nan import find_nan

                report = find_nan(model, arrays, **lines)
            else:
                from .._comparing.compare import compare

                first: Any = model if function is None else load(function)
                second = model if other is None else other
                if function is not None:
                    lines["enable_double_precision"] = double or None
                report = compare(
                    first,
                    second,
                    arrays,
                    runtime=runtime,
                    captured=captured,
                    providers=list(providers) or ["CPUExecutionProvider"],
                    rtol=rtol,
                    atol=atol,
                    **lines,
                )
                _save(report, reproducer, keep_float32, read)
        if json:
            console.answer_for_programs(report.to_json())
        else:
            console.answer(_text(report, top, verbose=verbose))
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        console.message("interrupted")
        return _INTERRUPTED
    except Jax2OnnxError as error:
        return _failed(error, json=json)
    except Exception as error:
        if function is None:
            return _failed(error, json=json)
        # The user's code raised it, so show the traceback.
        console.users_exception(error, quoted(function))
        if json:
            console.error_for_programs(error)
        return _NOT_UNDERSTOOD
    return 0 if report else _DIFFERS


def _check_is_model(other: os.PathLike[str] | None) -> None:
    """Refuse a function in the place of the second model.

    Raises:
        ConfigError: The text names a function, and not a file.
    """
    text = "" if other is None else os.fspath(other)
    if re.fullmatch(r".*\w:[A-Za-z_][\w.]*(\(.*\))?", text) and not os.path.exists(text):
        raise ConfigError(f"there is no model at {quoted(text)}: for a function, use `--fn {text}`")


def _text(report: "Report | NanReport", top: int, *, verbose: bool) -> str:
    from .._comparing.report import Report

    text = str(report)
    if not isinstance(report, Report):
        return text
    if verbose and report.coverage.of_equations:
        text += f"\n   = {report.coverage.of_equations}"
    if report.rows and top and not report:
        text += f"\n\nlines by error, largest first:\n{report.table(top)}"
    return text


def _check(
    reproducer: os.PathLike[str] | None,
    keep_float32: os.PathLike[str] | None,
    read: Sequence[_files.Named],
) -> None:
    """Refuse outputs before the comparison, which may take long."""
    if keep_float32 is not None:
        _files.check([("the names of nodes", keep_float32)], read)
    if reproducer is not None:
        from .._comparing.reproducer import check_folder

        check_folder(os.fspath(reproducer))


def _save(
    report: "Report",
    reproducer: os.PathLike[str] | None,
    keep_float32: os.PathLike[str] | None,
    read: Sequence[_files.Named],
) -> None:
    if keep_float32 is not None:
        report._write_kept(keep_float32, read)
    if reproducer is not None and report.first is not None:
        report._save_reproducer(reproducer, read)


def _failed(error: Exception, *, json: bool) -> int:
    console.error(error)
    if json:
        console.error_for_programs(error)
    return _NOT_UNDERSTOOD
