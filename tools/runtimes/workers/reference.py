"""Runs models in the reference evaluator of the `onnx` package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from frame import Inputs, serve
from onnx.reference import ReferenceEvaluator


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    return ReferenceEvaluator(str(model)).run(None, inputs)


serve(run)
