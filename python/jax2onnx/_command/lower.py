"""Run `jax2onnx lower`, which the command line passes to Python."""

import os
import sys
from collections.abc import Sequence

from .. import _files, _progress
from . import console
from .export import printed_warnings
from .inputs import arrays_of
from .sensitivity import INTERRUPTED, failed


def run(
    *,
    model: os.PathLike[str],
    path: os.PathLike[str],
    inputs: Sequence[str],
    to: str,
    budget: float,
    metric: str,
    keep: Sequence[str],
    weights_only: bool,
    dynamic: bool,
    target: str | None,
    convert_inputs_and_outputs: bool,
    quiet: bool,
    source_map: os.PathLike[str] | None,
    source_roots: Sequence[os.PathLike[str]],
    json: bool,
) -> int:
    """Write a model in a shorter type, and print what was done. Return the exit code."""
    watch = _progress.Stopwatch(show=not quiet and sys.stderr.isatty())
    try:
        with watch.running(), printed_warnings():
            _progress.stage("importing")
            read: list[_files.Named] = []
            arrays = arrays_of(inputs, read)
            from .._precision.lowering import lower_precision
            from .._precision.saving import check, write_model

            known = _files.model_input("the model", model, source_map, source_roots)
            check(path, [*read, ("the model", os.fspath(model))])
            made, report = lower_precision(
                model,
                arrays,
                to=to,
                budget=budget,
                metric=metric,
                keep=keep,
                weights_only=weights_only,
                dynamic=dynamic,
                target=target,
                convert_inputs_and_outputs=convert_inputs_and_outputs,
                source_map=source_map,
                source_roots=source_roots,
            )
            _progress.stage("writing")
            write_model(made, path, [*read, *known.files()])
        if json:
            console.answer_for_programs(report.to_json())
        else:
            console.answer(str(report))
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        console.message("interrupted")
        return INTERRUPTED
    except Exception as error:
        return failed(error, json=json)
    return 0
