"""Export a JAX function: what `to_onnx` does with its arguments."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from . import _cells, _config, _core, _files, _pairs, _progress, _tiers, _web
from ._errors import ConfigError, InternalError, Jax2OnnxError, errors_of_core
from ._native import imported
from ._options import EXTERNAL_THRESHOLD, ExportOptions, Frame
from ._plugins import registry
from ._types import Settings, StrPath
from ._warn import warn
from ._words import quoted

if TYPE_CHECKING:
    import onnx
    import onnx_ir

_RUNNERS: Final = ("frozen runpy", "runpy.py")
_RETURN_MODES: Final = ("proto", "ir", "file")
#: How many lines a warning names.
_MAX_LINES: Final = 3
_THRESHOLDS: Final = {"inline": sys.maxsize, "external": 0, "auto": EXTERNAL_THRESHOLD}


def export(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None,
    return_mode: str,
    output_path: StrPath | None,
    arguments: Mapping[str, Any],
    data: Mapping[str, Any] | Sequence[Any] | None = None,
    budget: float | None = None,
) -> "onnx.ModelProto | onnx_ir.Model | str":
    """Export a function with the arguments of `to_onnx`. None stands for "not given"."""
    if not callable(fn):
        what = "pass the function, not its result" if hasattr(fn, "shape") else "use a function"
        raise ConfigError(f"`fn` is of type {type(fn).__name__}, which cannot be called: {what}")
    path = _checked_path(return_mode, output_path)
    settings = _config.settings(writes_file=path is not None, **arguments)
    external_threshold = _external_threshold(settings.weights, settings.export_mode, return_mode)
    map_path = _map_path(settings.source_map, path)
    if arguments["sources"] == "embed" and map_path is None:
        raise ConfigError("`sources='embed'` needs a source map: pass `source_map=True`")
    others = [
        ("the record of primitives", settings.record_primitive_calls_file),
        ("the report on the passes", settings.explain_passes),
    ]
    others = [each for each in others if not isinstance(each[1], bool | None)]
    model_files = [("the model", path), ("the source map", map_path)]
    _files.check([*others, *(each for each in model_files if each[1] is not None)])
    is_lowered = settings.precision != "float32" and _progress.summary_listener.get() is None
    _check_precision(settings, data, budget)
    registry.load_installed()
    stack = _stack(sys._getframe(1)) if settings.provenance == "full" else []

    def converted(settings: Settings) -> bytes | None:
        return _converted(
            fn,
            inputs,
            input_params or {},
            settings,
            export_stack=stack,
            output_path=None if is_lowered else path,
            external_threshold=sys.maxsize if is_lowered else external_threshold,
            source_map=map_path,
            others=others,
        )

    contents = converted(settings)
    if is_lowered:
        contents = _lowered(
            contents or b"",
            lambda: converted(settings._replace(provenance="indexed")) or b"",
            settings,
            data,
            budget,
        )
        if path is not None:
            _write_lowered(contents, path, external_threshold)
    return path if path is not None else _model(contents or b"", return_mode)


def _check_precision(settings: Settings, data: Any, budget: float | None) -> None:
    """Refuse a shorter type that nothing can measure, and measurements that nothing needs."""
    name = settings.precision
    if name == "float32":
        given = [each for each, value in (("data", data), ("budget", budget)) if value is not None]
        if given:
            raise ConfigError(
                f"`{given[0]}` is for a shorter type: pass `precision` too, such as 'float16'"
            )
        return
    if data is None:
        raise ConfigError(
            f"`precision={name!r}` needs inputs by which the error is measured: pass `data`, or "
            "lower the exported model with `jax2onnx.lower_precision` or `jax2onnx lower`"
        )
    if settings.source_map is not False:
        raise ConfigError(
            "`precision` changes the model, so that a source map does not belong to it: use "
            "`provenance='indexed'` instead of `source_map`"
        )


def _lowered(
    contents: bytes,
    with_lines: Callable[[], bytes],
    settings: Settings,
    data: Any,
    budget: float | None,
) -> bytes:
    """Return a model in a shorter type."""
    from ._precision.lowering import DEFAULT_BUDGET, lower_precision

    def lowered(model: bytes) -> bytes:
        limit = DEFAULT_BUDGET if budget is None else budget
        return bytes(
            lower_precision(
                model, data, to=settings.precision, budget=limit
            ).model.SerializeToString()
        )

    try:
        return lowered(contents)
    except ConfigError:
        if settings.provenance == "off":
            # The message names the lines in the way, which this model does not know.
            lowered(with_lines())
        raise


def _write_lowered(contents: bytes, path: str, external_threshold: int) -> None:
    from ._precision.saving import write_model

    _progress.stage("writing")
    model = imported("onnx").ModelProto.FromString(contents)
    write_model(model, path, (), max_bytes=external_threshold)


def hide_own_frames(error: Exception) -> None:
    """Drop the frames of this package from the traceback of an error of the user."""
    if not isinstance(error, InternalError):
        error.__traceback__ = _tiers.without_own_frames(
            error.__traceback__, keeps_one=not isinstance(error, Jax2OnnxError)
        )


def _converted(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any],
    settings: Settings,
    *,
    export_stack: Sequence[Frame],
    output_path: str | None,
    external_threshold: int,
    source_map: str | None,
    others: Sequence[tuple[str, Any]],
) -> bytes | None:
    """Trace and convert a function. Returns the model, or writes it to its path."""
    from ._tracing import binding, call, definitions, trace
    from ._tracing.names import chosen_names
    from ._tracing.training import warn_of_dropped_state, warn_of_training
    from ._tracing.weights import weights_of

    inputs, named_inputs, names = binding.from_text(fn, inputs)
    if named_inputs:
        call.check_params(input_params)
        input_params = {**named_inputs, **input_params}
    # Find the weights before tracing, which may replace arrays.
    held = weights_of(fn)
    _progress.stage("tracing")
    traced = trace.trace(
        fn,
        inputs,
        input_params,
        double_precision=settings.enable_double_precision,
        inputs_as_nchw=call.positions(settings.inputs_as_nchw, "inputs_as_nchw"),
        outputs_as_nchw=call.positions(settings.outputs_as_nchw, "outputs_as_nchw"),
        module_scopes=settings.module_scopes,
    )
    in_names, out_names = chosen_names(
        traced.input_names,
        traced.output_names,
        settings.input_names or names,
        settings.output_names,
        input_params,
    )
    if settings.export_mode == "web":
        _web.check_types(traced.closed_jaxpr, in_names, out_names)
    definition = trace.definition(fn)
    summarize = _progress.summary_listener.get()
    options = ExportOptions(
        settings=settings,
        tiers=_tiers.rules(trace.folders(), settings.user_code, settings.library_code, definition),
        definition=definition,
        weight_names=held.names,
        plugins=registry.for_core(settings.opset),
        define=functools.partial(
            definitions.definition, double_precision=settings.enable_double_precision
        ),
        cells=_cells.finder(),
        input_names=in_names,
        output_names=out_names,
        input_paths=traced.input_names,
        output_paths=traced.output_names,
        on_phase=_progress.phase_listener.get(),
        on_training=functools.partial(warn_of_training, dropped=traced.dropped),
        on_dropped=_warn_of_dropped_callbacks,
        on_pairs=_pairs.listener_of(traced.closed_jaxpr),
        explain=_report_writer(settings.explain_passes, is_dry=summarize is not None),
        summarize=summarize,
        export_stack=export_stack,
        output_path=output_path,
        external_threshold=external_threshold,
        source_map=source_map,
        inputs=[
            *((what, _files.path_of(what, path)) for what, path in others),
            *_files.program_inputs(path for path in (output_path, source_map) if path is not None),
        ],
    )
    if settings.record_primitive_calls_file is not None and summarize is None:
        _record(traced.closed_jaxpr, options, settings.record_primitive_calls_file)
    _progress.stage("converting")
    with (
        _web.explaining_size_limit() if settings.export_mode == "web" else contextlib.nullcontext()
    ):
        data = export_traced(traced.closed_jaxpr, options)
    if traced.written:
        warn_of_dropped_state(traced.written, "return y, nnx.state(model)")
    return data


def _warn_of_dropped_callbacks(lines: Sequence[str]) -> None:
    """Warn about `jax.debug.print` and other callbacks that are not part of the model."""
    more = f" and {len(lines) - _MAX_LINES} more lines" if len(lines) > _MAX_LINES else ""
    warn(
        "the model leaves out callbacks such as `jax.debug.print` at "
        f"{'; '.join(lines[:_MAX_LINES])}{more}"
    )


def export_traced(closed_jaxpr: Any, options: ExportOptions) -> bytes | None:
    """Convert a jaxpr. Returns the bytes of the model, or `None` if it was written to a file."""
    with errors_of_core():
        try:
            return _core.export(closed_jaxpr, options)
        except _core.AssumptionError:
            # A weight is extremely large, or its product with a factor is not exact.
            checked = replace(options, checks_weights=True, on_training=None)
            return _core.export(closed_jaxpr, checked)


def _checked_path(return_mode: str, output_path: StrPath | None) -> str | None:
    """Return the path to write to, if any."""
    if return_mode not in _RETURN_MODES:
        raise ConfigError(
            f"{quoted(return_mode)} is not a return mode: use {', '.join(_RETURN_MODES)}"
        )
    if return_mode == "file":
        if output_path is None:
            raise ConfigError("`return_mode='file'` needs an `output_path`")
        try:
            return os.fsdecode(output_path)
        except TypeError as error:
            raise ConfigError(f"`output_path` is {output_path!r}, which is not a path") from error
    if output_path is not None:
        raise ConfigError(f"`output_path` needs `return_mode='file'`, not '{return_mode}'")
    if return_mode == "ir":
        _onnx_ir()
    return None


def _map_path(source_map: Any, output_path: str | None) -> str | None:
    """Return the path of the source map, if any."""
    if source_map is False:
        return None
    if source_map is True:
        if output_path is None:
            raise ConfigError(
                "`source_map=True` writes a file beside the model: use `return_mode='file'`, "
                "or pass the path of the map"
            )
        return f"{output_path}.map"
    try:
        path = os.fsdecode(source_map)
    except TypeError as error:
        raise ConfigError(f"`source_map` is {source_map!r}, which is not a path") from error
    return path


def _record(closed_jaxpr: Any, options: ExportOptions, path: StrPath) -> None:
    """Write every equation as text."""
    with errors_of_core():
        text = _core.recorded_calls(
            closed_jaxpr,
            tiers=options.tiers,
            path_policy=options.settings.provenance_paths,
            definition=options.definition,
            cells=options.cells,
        )
    _files.write_text("the record of primitives", path, text)


def _external_threshold(weights: str, export_mode: str, return_mode: str) -> int:
    """Return how many bytes of weights the file of the model may contain."""
    if weights == "external" and return_mode != "file":
        raise ConfigError(
            f"`weights='external'` writes a file beside the model: use `return_mode='file'`, "
            f"not '{return_mode}'"
        )
    if weights == "external" and export_mode == "web":
        raise ConfigError("`export_mode='web'` writes one file: use `weights='inline'`")
    return _THRESHOLDS["inline" if export_mode == "web" else weights]


def _report_writer(where: bool | StrPath, *, is_dry: bool) -> Callable[[str], object] | None:
    """Return a function that writes the report on the passes, if any. A dry run writes no file."""
    if where is True:
        return lambda text: sys.stderr.write(_core.clean_lines(text))
    if where is False or is_dry:
        return None
    return functools.partial(_files.write_text, "the report on the passes", where)


def _stack(frame: FrameType | None) -> list[Frame]:
    """Return the Python stack down to `frame`, outermost first."""
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append((*_cells.place(code, frame.f_lineno or 0), code.co_qualname))
        frame = frame.f_back
    stack.reverse()
    # `python -m` calls a module from two functions of Python itself.
    while len(stack) > 1 and os.path.basename(stack[0][0]).strip("<>") in _RUNNERS:
        del stack[0]
    return stack


def _model(data: bytes, return_mode: str) -> "onnx.ModelProto | onnx_ir.Model":
    proto: onnx.ModelProto = imported("onnx").ModelProto.FromString(data)
    if return_mode == "ir":
        ir: onnx_ir.Model = _onnx_ir().from_proto(proto)
        return ir
    return proto


def _onnx_ir() -> Any:
    try:
        return imported("onnx_ir")
    except ImportError as error:
        raise ConfigError(
            "`return_mode='ir'` needs onnx-ir: pip install 'jax2onnx-rs[ir]'"
        ) from error
