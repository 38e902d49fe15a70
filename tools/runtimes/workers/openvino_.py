"""Runs models in OpenVINO on the CPU, in the precision of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
from frame import Inputs, kept, serve

CORE = openvino.Core()
CORE.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})


@kept
def load(model: Path) -> openvino.CompiledModel:
    return CORE.compile_model(CORE.read_model(model), "CPU")


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    compiled = load(model)
    results = compiled(inputs)
    return [results[output] for output in compiled.outputs]


serve(run)
