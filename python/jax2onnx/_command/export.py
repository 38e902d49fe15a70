"""Run `jax2onnx export`, which the command line passes to Python."""

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from .. import _config, _progress
from .._errors import (
    ConfigError,
    InputSpecError,
    Jax2OnnxError,
    Jax2OnnxWarning,
    UnsupportedError,
)
from .._words import lines, quoted
from . import console
from .inputs import arrays_of
from .target import load

if TYPE_CHECKING:
    import onnx

ArraySpec: TypeAlias = tuple[str, tuple[int | str, ...]]
"""A type and a shape, as the command line parses them."""

_FAILED: Final = 1
_NOT_UNDERSTOOD: Final = 2
_INTERRUPTED: Final = 130
_DRY_OUTPUT: Final = "model.onnx"
"""Stands for the output of a dry run that has none."""
_MAX_SHOWN: Final = 20
"""How many operations the message of `UnsupportedError` shows."""
_NO_LINES: Final = "note: `explain` and `view` cannot show your lines; add `--provenance indexed`"
_WIDE_TYPES: Final = ("float64", "int64", "uint64", "complex128")


def run(
    *,
    function: str,
    inputs: Sequence[tuple[str | None, ArraySpec]],
    input_params: Mapping[str, bool | int | float | ArraySpec],
    output: os.PathLike[str] | None,
    data: Sequence[str],
    budget: float | None,
    dry_run: bool,
    quiet: bool,
    json: bool,
    options: Mapping[str, Any],
) -> int:
    """Export a model and print a summary. Return the exit code."""
    watch = _progress.Stopwatch(show=not quiet and sys.stderr.isatty())
    try:
        with watch.running(), printed_warnings() as said, _summaries(dry_run=dry_run) as found:
            _progress.stage("importing")
            measured = {"data": arrays_of(data, []) if data else None, "budget": budget}
            path = _export(
                function, inputs, input_params, output or _DRY_OUTPUT, {**options, **measured}
            )
        if dry_run:
            summary = _dry_summary(found[0], output, watch.seconds)
        else:
            summary = _summary(path, watch.seconds)
        summary["warnings"] = said
        shown = _dry_text(summary) if dry_run else _text(summary)
        if json:
            console.answer_for_programs(summary)
        else:
            console.answer(shown)
            if not (quiet or dry_run) and _records_nothing(options):
                console.message(_NO_LINES)
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        console.message("interrupted")
        return _INTERRUPTED
    except Jax2OnnxError as error:
        if dry_run and isinstance(error, UnsupportedError) and not json:
            # The report is the answer.
            console.answer(_report(error))
            return _FAILED
        console.message(f"error: {error}")
        _print_for_programs(error, json=json)
        is_users = isinstance(error, ConfigError | InputSpecError)
        return _NOT_UNDERSTOOD if is_users else _FAILED
    except Exception as error:
        # The user's code raised it, so show the traceback.
        console.users_exception(error, quoted(function))
        _print_for_programs(error, json=json)
        return _FAILED
    return 0


@contextmanager
def _summaries(*, dry_run: bool) -> Iterator[list[Mapping[str, Any]]]:
    """Write no model in a dry run. Return its summary in a list."""
    found: list[Mapping[str, Any]] = []
    token = _progress.summary_listener.set(found.append if dry_run else None)
    try:
        yield found
    finally:
        _progress.summary_listener.reset(token)


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print the warnings of jax2onnx as messages without a line, and return them in a list."""
    said: list[str] = []

    def print_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, Jax2OnnxWarning):
            said.append(str(message))
            console.message(f"warning: {message}")
        else:
            console.warning(message, category, filename, lineno)

    with warnings.catch_warnings():
        # The filters of the user come first.
        warnings.simplefilter("always", Jax2OnnxWarning, append=True)
        warnings.showwarning = print_warning
        yield said


def _records_nothing(options: Mapping[str, Any]) -> bool:
    """Return whether the model records no lines, although nobody asked for that."""
    found = {each.setting.name: each for each in _config.found(options)}
    return not found["provenance"].sources and not found["source_map"].value


def _export(
    function: str,
    inputs: Sequence[tuple[str | None, ArraySpec]],
    input_params: Mapping[str, bool | int | float | ArraySpec],
    output: os.PathLike[str] | str,
    options: Mapping[str, Any],
) -> str:
    from .. import _api
    from .._tracing.binding import bound

    fn = load(function)
    double = _config.settings(**options).enable_double_precision
    specs = [
        (name, _struct(name or f"input {place}", spec, double=double))
        for place, (name, spec) in enumerate(inputs)
    ]
    positional, by_keyword, names = bound(fn, specs)
    params: dict[str, Any] = dict(by_keyword)
    for name, value in input_params.items():
        if name in params:
            raise ConfigError(f"{quoted(name)} is both an input and a keyword input")
        params[name] = _struct(name, value, double=double) if isinstance(value, tuple) else value
    arguments = {"input_names": names, **options, "enable_double_precision": double}
    path: str = _api.to_onnx(
        fn,
        positional,
        params,
        return_mode="file",
        output_path=output,
        **arguments,
    )
    return path


def _struct(name: str, spec: ArraySpec, *, double: bool) -> Any:
    dtype, shape = spec
    if dtype in _WIDE_TYPES and not double:
        raise InputSpecError(
            f"{quoted(name)} is {dtype}, but JAX keeps 64-bit types only with --double"
        )
    import jax

    struct: Any = jax.ShapeDtypeStruct
    return struct(shape, jax.numpy.dtype(dtype))


def _summary(path: str, seconds: Mapping[str, float]) -> dict[str, Any]:
    """Return the summary for programs."""
    import onnx

    from ..testing import value_type

    model = onnx.load(path, load_external_data=False)
    ops = Counter(node.op_type for node in _nodes(model))
    files = [path, *sorted(_external_files(model, path))]
    return {
        "version": 1,
        "path": path,
        "external_data": files[1:],
        "bytes": sum(Path(file).stat().st_size for file in files),
        "opset": next(entry.version for entry in model.opset_import if entry.domain == ""),
        "inputs": {value.name: value_type(value.type) for value in model.graph.input},
        "outputs": {value.name: value_type(value.type) for value in model.graph.output},
        "nodes": ops.total(),
        "ops": dict(sorted(ops.items())),
        "seconds": {stage: round(taken, 3) for stage, taken in seconds.items()},
    }


def _dry_summary(
    found: Mapping[str, Any], output: os.PathLike[str] | None, seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return the summary of a dry run for programs."""
    return {
        "version": 1,
        "dry_run": True,
        "path": None if output is None else os.fspath(output),
        "opset": found["opset"],
        "inputs": dict(found["inputs"]),
        "outputs": dict(found["outputs"]),
        "nodes": found["nodes"],
        "ops": found["ops"],
        "weights": found["weights"],
        "weight_bytes": found["weight_bytes"],
        "seconds": {stage: round(taken, 3) for stage, taken in seconds.items()},
    }


def _dry_text(summary: Mapping[str, Any]) -> str:
    """Return the summary of a dry run for people."""
    nodes, weights = _count(summary["nodes"], "node"), _count(summary["weights"], "weight")
    path = f"{summary['path']} would have" if summary["path"] else "the model would have"
    size = _size(summary["weight_bytes"])
    first = f"{path} {nodes}, opset {summary['opset']}, {size} in {weights}"
    return lines([first, *_ends(summary), "nothing was written"])


def _report(error: UnsupportedError) -> str:
    """Return everything that cannot be exported: the message, and what it does not show."""
    shown = [f"error: {error}".rstrip()]
    for operation in error.operations[_MAX_SHOWN:]:
        place = (
            f"{operation.file}:{operation.line}, in {operation.function}: "
            if operation.file
            else ""
        )
        times = f", {operation.count} times" if operation.count > 1 else ""
        hint = f" ({operation.hint})" if operation.hint else ""
        shown.append(f"{place}{operation.message}{times}{hint}")
    return "\n".join(shown)


def _count(number: int, thing: str) -> str:
    return f"1 {thing}" if number == 1 else f"{number} {thing}s"


def _ends(summary: Mapping[str, Any]) -> list[str]:
    """Return a line for each input and output, and one for the time."""
    taken = sum(summary["seconds"].values())
    stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in summary["seconds"].items())
    return [
        *(f"  in   {name} {kind}" for name, kind in summary["inputs"].items()),
        *(f"  out  {name} {kind}" for name, kind in summary["outputs"].items()),
        f"  took {taken:.1f} s ({stages})",
    ]


def _nodes(model: "onnx.ModelProto") -> Iterator["onnx.NodeProto"]:
    """Yield every node, including those of bodies and functions."""
    open_nodes = list(model.graph.node)
    for function in model.functions:
        open_nodes += function.node
    while open_nodes:
        node = open_nodes.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                open_nodes += graph.node


def _external_files(model: "onnx.ModelProto", path: str) -> set[str]:
    folder = os.path.dirname(path)
    return {
        os.path.join(folder, entry.value)
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _text(summary: Mapping[str, Any]) -> str:
    """Return the summary for people."""
    nodes = _count(summary["nodes"], "node")
    files = " and ".join([summary["path"], *summary["external_data"]])
    first = f"{files}: {nodes}, opset {summary['opset']}, {_size(summary['bytes'])}"
    return lines([first, *_ends(summary)])


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{count} bytes"
        size /= 1024
    return f"{size:.3g} GiB"


def _print_for_programs(error: Exception, *, json: bool) -> None:
    """Print an error where programs read the answer."""
    if json:
        more: dict[str, Any] = {"notes": getattr(error, "__notes__", [])}
        if isinstance(error, UnsupportedError):
            more["operations"] = [asdict(operation) for operation in error.operations]
        console.error_for_programs(error, **more)
