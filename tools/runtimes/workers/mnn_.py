"""Converts models to MNN's format and runs them."""

from __future__ import annotations

import json
from pathlib import Path

import _tools
import MNN
import numpy as np
from frame import Inputs, serve
from MNN import expr, nn


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    converted = model.with_suffix(".mnn")
    converted.unlink(missing_ok=True)
    _tools.mnnconvert(["", "-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(converted)])
    if not converted.exists():
        raise ValueError("the converter wrote no file")
    outputs = json.loads((model.parent / "outputs.json").read_text())
    loaded = nn.load_module_from_file(str(converted), list(inputs), outputs)
    results = loaded.forward([_variable(each) for each in inputs.values()])
    return [np.asarray(each.read()) for each in results]


def _variable(array: np.ndarray) -> MNN.expr.Var:
    kind = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8}.get(array.dtype.name)
    if kind is None:
        array, kind = array.astype(np.int32), expr.int
    return expr.const(array, list(array.shape), expr.NCHW, kind)


serve(run)
