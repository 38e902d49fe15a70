"""Runs models in ONNX Runtime, with its optimizations on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from frame import Inputs, serve


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


serve(run)
