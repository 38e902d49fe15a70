"""Runs models that are named on standard input, one folder per line.

A folder has `model.onnx`, `inputs.json` with the name, type and shape of each input in order, and
the elements of input `i` in `input_i.bin`. The answer to a folder is one line of JSON on standard
output: `{"outputs": [{"dtype": …, "shape": …}]}`, with the elements in `output_i.bin`, or
`{"error": …, "log": …}`, where the log is what a program shows that does not catch the error. A
runtime that ends its process answers nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

# What a runtime prints, even while it is imported, must not mix with the answers.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

Inputs = dict[str, np.ndarray]
Loaded = TypeVar("Loaded")


def kept(load: Callable[[Path], Loaded]) -> Callable[[Path], Loaded]:
    """Keeps the last model, because the next inputs are often for the same one."""
    last: dict[bytes, Loaded] = {}

    def loaded(model: Path) -> Loaded:
        data = model.read_bytes()
        if data not in last:
            last.clear()
            last[data] = load(model)
        return last[data]

    return loaded


def serve(run: Callable[[Path, Inputs], list[np.ndarray]]) -> None:
    """Answers until standard input ends."""
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
            said = f"{type(error).__name__}: {error}"
            answer = {"error": said, "log": traceback.format_exc()}
        # What a runtime printed must be in its file before the answer.
        ctypes.CDLL(None).fflush(None)
        print(json.dumps(answer), file=ANSWERS, flush=True)
