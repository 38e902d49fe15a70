"""Load a model in ONNX Runtime, and run it with arrays of any type."""

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import onnx

from .. import _files
from .._errors import ConfigError
from .._inspecting.explain import explain
from .._native import imported
from .._types import StrPath
from .._words import quoted
from .arrays import Array

if TYPE_CHECKING:
    import onnx_ir

    AnyModel: TypeAlias = onnx.ModelProto | onnx_ir.Model | bytes | StrPath

#: Types that the runtime's NumPy interface lacks, and the type with the same bits.
AS_BITS: Final[dict[np.dtype[Any], np.dtype[Any]]] = {
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.uint16),
    np.dtype(ml_dtypes.float8_e4m3fn): np.dtype(np.uint8),
    np.dtype(ml_dtypes.float8_e4m3fnuz): np.dtype(np.uint8),
    np.dtype(ml_dtypes.float8_e5m2): np.dtype(np.uint8),
    np.dtype(ml_dtypes.float8_e5m2fnuz): np.dtype(np.uint8),
}


class Session:
    """A loaded model, and its graph without the weights."""

    def __init__(self, model: "AnyModel") -> None:
        """Load the model."""
        self._runtime = onnxruntime_for("allclose")
        if isinstance(model, bytes):
            self._load(model, onnx.ModelProto.FromString(model))
        elif isinstance(model, onnx.ModelProto):
            self._load(_serialized(model), model)
        elif isinstance(model, str | os.PathLike):
            self._load_file(os.fspath(model))
        elif _is_onnx_ir(model):
            self._load_ir(model)
        else:
            raise ConfigError(
                f"the model is of type {type(model).__name__}: use a path, an onnx.ModelProto, "
                "an onnx_ir.Model or bytes"
            )

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the model. Return one array per output, in the order of the graph."""
        binding = self._session.io_binding()
        for value in self.inputs:
            code = value.type.tensor_type.elem_type
            array = np.require(feeds[value.name], requirements="C")
            bits = array.view(AS_BITS.get(array.dtype) or array.dtype)
            make = self._runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
            binding.bind_ortvalue_input(value.name, make(bits, code))
        for value in self.graph.output:
            binding.bind_output(value.name)
        self._session.run_with_iobinding(binding)
        return [
            to_numpy(value, info.type.tensor_type.elem_type)
            for value, info in zip(binding.get_outputs(), self.graph.output, strict=True)
        ]

    def _load(self, source: bytes | str, proto: onnx.ModelProto) -> None:
        options = self._runtime.SessionOptions()
        options.log_severity_level = 3
        with explain(source):
            self._session = self._runtime.InferenceSession(
                source, options, providers=["CPUExecutionProvider"]
            )
        self.graph = proto.graph
        weights = {tensor.name for tensor in proto.graph.initializer}
        #: The inputs that have to be fed.
        self.inputs = [value for value in proto.graph.input if value.name not in weights]

    def _load_file(self, path: str) -> None:
        if not os.path.exists(path):
            raise ConfigError(f"there is no model at {path!r}")
        self._load(path, onnx.load(path, load_external_data=False))

    def _load_ir(self, model: Any) -> None:
        """Load from a temporary file, because the weights may exceed 2 GiB."""
        with _files.Scratch() as scratch:
            self._load_file(str(scratch.save(model)))


def dtype_of(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    """Return the element type of an input or output."""
    return _dtype(value.type.tensor_type.elem_type)


def sizes_of(value: onnx.ValueInfoProto) -> Sequence[int | str]:
    """Return the shape of an input or output: numbers, and names for sizes that are not fixed."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]


def _dtype(code: int) -> np.dtype[Any]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def onnxruntime_for(what: str) -> Any:
    """Import ONNX Runtime, which `what` needs."""
    try:
        return imported("onnxruntime")
    except ImportError as error:
        raise ConfigError(
            f"{quoted(what)} needs ONNX Runtime: pip install 'jax2onnx-rs[runtime]'"
        ) from error


def _is_onnx_ir(model: Any) -> bool:
    return type(model).__module__.partition(".")[0] == "onnx_ir" and hasattr(model, "graph")


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        data: bytes = model.SerializeToString()
    except Exception as error:
        raise ConfigError(
            "the model is too large for one protobuf message: write it with `return_mode='file'`, "
            "and pass its path"
        ) from error
    return data


def to_numpy(value: Any, code: int) -> Array:
    """Return the contents of a value of ONNX Runtime, which has the type `code`."""
    dtype = _dtype(code)
    if dtype not in AS_BITS:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, dtype)
    data = ctypes.string_at(value.data_ptr(), count * dtype.itemsize)
    return np.frombuffer(data, dtype=dtype).reshape(shape)
