"""Read models whose weights stay in files, so that parts of them are cheap to make."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import onnx

from .. import _core, _files
from .._errors import ConfigError, Jax2OnnxError, errors_of_core
from .._words import quoted

if TYPE_CHECKING:
    from .runtime import AnyModel

#: Weights of at least so many bytes leave the model if all of them are many bytes.
_LARGE_WEIGHT: Final = 1 << 14
_MANY_BYTES: Final = 1 << 24
_SPILLED: Final = "weights.bin"


class Loaded:
    """A model without its large weights, and the folder with their files.

    Attributes:
        proto: The model. It is never changed.
        folder: The folder that the paths of external weights start from; None if there are none.
        source: The path or the bytes of the model as it was given, for the core.
        name: The name of the model in messages.
    """

    def __init__(self, model: "AnyModel") -> None:
        """Read a model: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`."""
        self.folder: str | None = None
        self.path: str | None = None
        self._spill: _files.Scratch | None = None
        self.name = "the model"
        if isinstance(model, bytes):
            proto = _parsed(model, "the bytes")
        elif isinstance(model, onnx.ModelProto):
            proto = model
        elif isinstance(model, str | os.PathLike):
            proto = self._read(os.fspath(model))
        elif type(model).__module__.partition(".")[0] == "onnx_ir":
            proto = self._read(self._saved(model))
        else:
            raise ConfigError(
                f"the model is of type {type(model).__name__}: use a path, an onnx.ModelProto, "
                "an onnx_ir.Model or bytes"
            )
        self.proto = self._light(proto)
        self._given = model if isinstance(model, bytes) else None
        #: The files of weights, read once each.
        self._files: dict[str, Any] = {}

    @property
    def source(self) -> str | bytes:
        """Return the path or the bytes of the model, for the core."""
        if self.path is not None:
            return self.path
        if self._given is not None:
            return self._given
        data: bytes = self.proto.SerializeToString()
        return data

    def change(self, proto: onnx.ModelProto) -> None:
        """Use another model with the same weights."""
        self.proto, self.path, self._given = proto, None, None

    def array(self, tensor: onnx.TensorProto) -> Any:
        """Return the contents of a weight; those in a file are mapped, not read."""
        import numpy as np

        place = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_location != onnx.TensorProto.EXTERNAL or self.folder is None:
            return onnx.numpy_helper.to_array(tensor)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        if dtype.name.startswith(("int4", "uint4", "int2", "uint2", "float4")):
            return onnx.numpy_helper.to_array(tensor, base_dir=self.folder)
        with errors_of_core():
            # A model must not choose which files are read.
            path = _core.locate_weights(self.folder, place.get("location", ""))
        try:
            if path not in self._files:
                self._files[path] = np.memmap(path, np.uint8, "r")
            start = int(place.get("offset", 0))
            end = start + math.prod(tensor.dims) * dtype.itemsize
            contents = self._files[path][start:end]
            return contents.view(dtype).reshape(tuple(tensor.dims))
        except (OSError, ValueError) as error:
            name = quoted(tensor.name)
            raise ConfigError(f"the weight {name} cannot be read: {error}") from error

    def _read(self, path: str) -> onnx.ModelProto:
        if not os.path.isfile(path):
            raise ConfigError(f"there is no model at {quoted(path)}")
        self.path, self.name = path, os.path.basename(path)
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {quoted(path)}: {error.strerror}") from error
        proto = _parsed(data, quoted(path))
        if any(_is_external(tensor) for tensor in _weights(proto.graph)):
            self.folder = os.path.dirname(os.path.abspath(path))
        return proto

    def _saved(self, model: Any) -> str:
        self._spill = _files.Scratch()
        return str(self._spill.save(model))

    def _light(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """Return the model with its large weights in a temporary file."""
        large = [tensor for tensor in _weights(proto.graph) if _size(tensor) >= _LARGE_WEIGHT]
        if self.folder is not None or sum(map(_size, large)) < _MANY_BYTES:
            return proto
        self._spill = self._spill or _files.Scratch()
        self.folder = str(self._spill.path)
        light = _without_weights(proto)
        with self._spill.open(_SPILLED) as file:
            for tensor in proto.graph.initializer:
                light.graph.initializer.append(
                    _moved(tensor, file) if _size(tensor) >= _LARGE_WEIGHT else tensor
                )
        return light


def _problem(data: bytes) -> str:
    """Return why the core cannot read a model, after a colon; empty if it can."""
    try:
        with errors_of_core():
            _core.model_lines(data, source_map=None, source_roots=[])
    except Jax2OnnxError as error:
        return str(error).partition("not an ONNX model")[2]
    return ""


def _parsed(data: bytes, what: str) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except Exception as error:
        raise ConfigError(f"{what} is not an ONNX model{_problem(data)}") from error
    if not data:
        raise ConfigError(f"{what} is not an ONNX model{_problem(data)}")
    if not proto.graph.output:
        raise ConfigError(f"{what} is not an ONNX model: it has no outputs")
    return proto


def _weights(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer


def _is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _size(tensor: onnx.TensorProto) -> int:
    return len(tensor.raw_data)


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model without the initializers of its main graph."""
    light = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.name == "graph":
            for part, content in value.ListFields():
                if part.name != "initializer":
                    _assign(light.graph, part, content)
        else:
            _assign(light, field, value)
    return light


def _assign(message: Any, field: Any, value: Any) -> None:
    if isinstance(value, str | int | bytes | float):
        setattr(message, field.name, value)
    elif hasattr(value, "ListFields"):
        getattr(message, field.name).CopyFrom(value)
    else:
        getattr(message, field.name).extend(value)


def _moved(tensor: onnx.TensorProto, file: Any) -> onnx.TensorProto:
    """Write the contents of a weight to a file, and return a weight that refers to it."""
    padding = -file.tell() % 4096
    file.write(b"\0" * padding)
    moved = onnx.TensorProto(
        name=tensor.name,
        data_type=tensor.data_type,
        dims=tensor.dims,
        data_location=onnx.TensorProto.EXTERNAL,
    )
    moved.metadata_props.extend(tensor.metadata_props)
    for key, value in (
        ("location", _SPILLED),
        ("offset", str(file.tell())),
        ("length", str(len(tensor.raw_data))),
    ):
        moved.external_data.add(key=key, value=value)
    file.write(tensor.raw_data)
    return moved
