"""Write a model to a file, with its weights beside it if they are too many for one message."""

import os
from collections.abc import Sequence
from typing import Final

import onnx

from .. import _files
from .._types import StrPath
from .lowered import bytes_of_weights

#: More bytes of weights leave the file.
_MAX_BYTES: Final = 1 << 30
_ALIGNMENT: Final = 4096


def check(path: StrPath, inputs: Sequence[_files.Named]) -> None:
    """Refuse a path before the work that leads to the model."""
    _files.check([("the new model", path)], inputs)


def write_model(
    model: onnx.ModelProto,
    path: StrPath,
    inputs: Sequence[_files.Named],
    *,
    max_bytes: int = _MAX_BYTES,
) -> None:
    """Write a model. More bytes of weights than `max_bytes` go to a file beside it.

    Raises:
        ConfigError: The path may not be written.
        WriteError: The system cannot write the file.
    """
    place = _files.path_of("the new model", path)
    outputs = []
    if bytes_of_weights(model) > max_bytes:
        beside = f"{os.path.basename(place)}.data"
        contents = _moved(model, beside)
        where = os.path.join(os.path.dirname(place), beside)
        outputs.append(_files.Output("its weights", where, contents))
    outputs.append(_files.Output("the new model", place, model.SerializeToString()))
    _files.write(*outputs, inputs=inputs)


def _moved(model: onnx.ModelProto, location: str) -> bytes:
    """Remove the contents of the weights from a model, and return them."""
    contents = bytearray()
    for tensor in model.graph.initializer:
        if not tensor.HasField("raw_data") or not tensor.raw_data:
            continue
        contents += b"\0" * (-len(contents) % _ALIGNMENT)
        known = {
            "location": location,
            "offset": str(len(contents)),
            "length": str(len(tensor.raw_data)),
        }
        contents += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in known.items():
            tensor.external_data.add(key=key, value=value)
    return bytes(contents)
