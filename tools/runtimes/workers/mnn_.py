"""Converts models to MNN's format and runs them."""

from __future__ import annotations

import json
import resource
from pathlib import Path

from frame import Inputs, kept, serve  # isort: skip, because MNN prints while it is imported

import _tools
import MNN
import numpy as np
from MNN import expr, nn

# A number that MNN takes for a size must not use up the memory of the machine.
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


@kept
def load(model: Path) -> nn._Module:
    converted = model.with_suffix(".mnn")
    converted.unlink(missing_ok=True)
    _tools.mnnconvert(["", "-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(converted)])
    if not converted.exists():
        raise ValueError("the converter wrote no file")
    names = [one["name"] for one in json.loads((model.parent / "inputs.json").read_text())]
    outputs = json.loads((model.parent / "outputs.json").read_text())
    return nn.load_module_from_file(str(converted), names, outputs)


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    results = load(model).forward([_variable(each) for each in inputs.values()])
    return [np.asarray(each.read()) for each in results]


def _variable(array: np.ndarray) -> MNN.expr.Var:
    kind = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8}.get(array.dtype.name)
    if kind is None:
        is_float = array.dtype.kind == "f"
        array = array.astype(np.float32 if is_float else np.int32)
        kind = expr.float if is_float else expr.int
    return expr.const(array, list(array.shape), expr.NCHW, kind)


serve(run)
