"""Prints the largest number of bytes that a run of a model allocates, for each model.

The arguments are pairs of a model and a file with its inputs. The process is started by
`measure.py`, which counts its allocations.
"""

from __future__ import annotations

import ctypes
import os
import sys

import numpy as np
import onnxruntime


def most_allocated(model: str, feeds: dict[str, np.ndarray]) -> int:
    """Return the peak of the third run, without the arena and its patterns."""
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in feeds.items()}
    names = [output.name for output in session.get_outputs()]
    for _ in range(2):
        session.run_with_ort_values(names, values)
    counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
    counter.allocations_stop.restype = ctypes.c_longlong
    counter.allocations_start()
    results = session.run_with_ort_values(names, values)
    most = counter.allocations_stop()
    del results
    return int(most)


if __name__ == "__main__":
    for model, inputs in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        print(most_allocated(model, dict(np.load(inputs))), flush=True)
