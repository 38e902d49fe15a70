"""Record what ONNX Runtime computes on this device, for `jax2onnx compare --captured`.

    python record.py prepare model.onnx tapped.onnx      make every value of the model an output
    python record.py run tapped.onnx inputs.npz folder   run it, and write one file per value

The first command needs onnx. The second one needs onnxruntime and NumPy, and runs on the device.
Then compare where JAX or the model is:

    jax2onnx compare model.onnx --fn model.py:forward -i inputs.npz --captured folder
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np


def prepare(model: str, tapped: str) -> None:
    """Write a model in which every value of the main graph is an output."""
    import onnx

    proto = onnx.shape_inference.infer_shapes(onnx.load(model))
    graph = proto.graph
    known = {value.name: value for value in graph.value_info}
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        for name in node.output:
            if name and name not in outputs:
                graph.output.append(known.get(name) or onnx.ValueInfoProto(name=name))
    onnx.save(proto, tapped)


def write(folder: Path, name: str, array: Any) -> None:
    """Write an array. Its file has the name of the value, escaped as in a URL."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{quote(name, safe='')}.npy", np.asarray(array), allow_pickle=False)


def run(tapped: str, inputs: str, folder: str) -> None:
    """Run a prepared model, and record its outputs."""
    import onnxruntime

    # Name the providers of your device here.
    session = onnxruntime.InferenceSession(tapped, providers=onnxruntime.get_available_providers())
    with np.load(inputs) as arrays:
        feeds = dict(arrays.items())
    names = [value.name for value in session.get_outputs()]
    for name, array in zip(names, session.run(names, feeds), strict=True):
        write(Path(folder), name, array)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", model, tapped]:
            prepare(model, tapped)
        case ["run", tapped, inputs, folder]:
            run(tapped, inputs, folder)
        case _:
            sys.exit(__doc__)
