"""Runs models that are named on standard input, one folder per line.

A folder has `model.onnx`, `inputs.json` with the name, type and shape of each input in order, and
the elements of input `i` in `input_i.bin`. The answer to a folder is one line of JSON on standard
output: `{"outputs": [{"dtype": …, "shape": …}]}`, with the elements in `output_i.bin`, or
`{"error": …}`. A runtime that ends its process answers nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

Inputs = dict[str, np.ndarray]


def serve(run: Callable[[Path, Inputs], list[np.ndarray]]) -> None:
    """Answers until standard input ends."""
    # What a runtime prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        folder = Path(line.strip())
        try:
            described = json.loads((folder / "inputs.json").read_text())
            inputs = {
                one["name"]: np.fromfile(folder / f"input_{i}.bin", one["dtype"]).reshape(
                    one["shape"]
                )
                for i, one in enumerate(described)
            }
            outputs = [np.asarray(each) for each in run(folder / "model.onnx", inputs)]
            for i, each in enumerate(outputs):
                np.ascontiguousarray(each).tofile(folder / f"output_{i}.bin")
            types = [{"dtype": each.dtype.name, "shape": each.shape} for each in outputs]
            answer = {"outputs": types}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
