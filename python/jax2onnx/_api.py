"""The export itself."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from . import _config, _core, _tiers
from ._config import Level, PathPolicy, StrPath
from ._errors import ConfigError, UnsupportedError, errors_of_core

if TYPE_CHECKING:
    import onnx
    import onnx_ir

ReturnMode: TypeAlias = Literal["proto", "ir", "file"]

_RETURN_MODES: Final = ("proto", "ir", "file")
_OPSETS: Final = range(17, 27)


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int = 23,
    *,
    enable_double_precision: bool = False,
    return_mode: Literal["proto"] = "proto",
    output_path: StrPath | None = None,
    provenance: Level | None = None,
    provenance_paths: PathPolicy | None = None,
) -> "onnx.ModelProto": ...


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int = 23,
    *,
    enable_double_precision: bool = False,
    return_mode: Literal["ir"],
    output_path: StrPath | None = None,
    provenance: Level | None = None,
    provenance_paths: PathPolicy | None = None,
) -> "onnx_ir.Model": ...


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int = 23,
    *,
    enable_double_precision: bool = False,
    return_mode: Literal["file"],
    output_path: StrPath,
    provenance: Level | None = None,
    provenance_paths: PathPolicy | None = None,
) -> str: ...


def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int = 23,
    *,
    enable_double_precision: bool = False,
    return_mode: ReturnMode = "proto",
    output_path: StrPath | None = None,
    provenance: Level | None = None,
    provenance_paths: PathPolicy | None = None,
) -> "onnx.ModelProto | onnx_ir.Model | str":
    """Convert a JAX function to an ONNX model.

    Args:
        fn: The function. It is traced as it is; nothing is patched.
        inputs: One spec an argument: a shape with numbers and names such as `("B", 3)`, a
            `jax.ShapeDtypeStruct`, an array, a number, or a container of these.
        input_params: Not supported yet.
        model_name: The name of the graph.
        opset: The ONNX opset, from 17 to 26.
        enable_double_precision: Keep 64-bit types; a shape then means `float64`.
        return_mode: `"proto"` for an `onnx.ModelProto`, `"ir"` for an `onnx_ir.Model`, `"file"`
            to write the model and return its path.
        output_path: Where `"file"` writes.
        provenance: How much each node says about its origin: `"off"`, `"minimal"`, `"full"` or
            `"indexed"`. Comes before `jax2onnx.provenance(...)` and the environment.
        provenance_paths: How files are named: `"relative"`, `"absolute"` or `"basename"`.

    Returns:
        The model, or the path of its file.

    Raises:
        UnsupportedError: Something in the function has no counterpart in ONNX.
        InputSpecError: An input spec cannot be understood.
        ConfigError: An option has a value that it cannot have.
        WriteError: The file could not be written.
    """
    settings = _config.settings(provenance, provenance_paths)
    path = _checked_path(return_mode, output_path)
    _check(fn, model_name, opset, input_params)
    stack = _stack(sys._getframe()) if settings.level == "full" else []

    from . import _trace

    closed_jaxpr = _trace.trace(fn, inputs, double_precision=enable_double_precision)
    data = export_traced(
        closed_jaxpr,
        model_name=model_name,
        opset=opset,
        settings=settings,
        export_stack=stack,
        definition=_trace.definition(fn),
        output_path=path,
    )
    if path is not None:
        return path
    return _model(data or b"", return_mode)


def export_traced(
    closed_jaxpr: Any,
    *,
    model_name: str = "jax_model",
    opset: int = 23,
    settings: _config.Settings | None = None,
    export_stack: Sequence[tuple[str, int, str]] = (),
    definition: tuple[str, int, str] | None = None,
    output_path: str | None = None,
) -> bytes | None:
    """Convert what was traced: the bytes of the model, or nothing where a file was written."""
    from . import _trace

    settings = settings or _config.settings(None, None)
    with errors_of_core():
        return _core.export(
            closed_jaxpr,
            model_name=model_name,
            opset=opset,
            level=settings.level,
            path_policy=settings.paths,
            export_stack=export_stack,
            tiers=_tiers.rules(_trace.folders(), settings.user_code, settings.library_code),
            definition=definition,
            output_path=output_path,
        )


def _checked_path(return_mode: str, output_path: StrPath | None) -> str | None:
    """The path to write to, where one is needed."""
    if return_mode not in _RETURN_MODES:
        allowed = ", ".join(_RETURN_MODES)
        raise ConfigError(f"`{return_mode}` is not a return mode: use {allowed}")
    if return_mode == "file":
        if output_path is None:
            raise ConfigError("`return_mode='file'` needs an `output_path`")
        try:
            return os.fsdecode(output_path)
        except TypeError as error:
            raise ConfigError(f"`output_path` is {output_path!r}, which is not a path") from error
    if output_path is not None:
        raise ConfigError(
            f"`output_path` is written by `return_mode='file'`, and not by '{return_mode}'"
        )
    if return_mode == "ir":
        _onnx_ir()
    return None


def _check(fn: Any, model_name: Any, opset: Any, input_params: Mapping[str, Any] | None) -> None:
    if not callable(fn):
        raise ConfigError(f"`fn` is {fn!r}, which is not a function")
    if not isinstance(model_name, str):
        raise ConfigError(f"`model_name` is {model_name!r}, which is not a text")
    if type(opset) is not int or opset not in _OPSETS:
        raise ConfigError(f"opset {opset!r} is not supported: use {_OPSETS[0]} to {_OPSETS[-1]}")
    if input_params:
        names = ", ".join(f"`{name}`" for name in input_params)
        raise UnsupportedError(
            f"`input_params` is not supported yet, and {names} would be lost: bind the values "
            "with functools.partial, or make them inputs"
        )


def _stack(frame: FrameType | None) -> list[tuple[str, int, str]]:
    """The Python stack down to `frame`, outermost first."""
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append((code.co_filename, frame.f_lineno or 0, code.co_qualname))
        frame = frame.f_back
    return stack[::-1]


def _model(data: bytes, return_mode: str) -> "onnx.ModelProto | onnx_ir.Model":
    import onnx

    proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    if return_mode == "ir":
        ir: onnx_ir.Model = _onnx_ir().from_proto(proto)
        return ir
    return proto


def _onnx_ir() -> Any:
    try:
        import onnx_ir
    except ImportError as error:
        raise ConfigError(
            "`return_mode='ir'` needs onnx-ir: pip install 'jax2onnx-rs[ir]'"
        ) from error
    return onnx_ir
