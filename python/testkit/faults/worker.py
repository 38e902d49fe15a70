"""A process that exports and strips models, each in a child that a fault may end.

It imports JAX once. Nothing may start threads before the children are forked.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import warnings
from typing import Any

import numpy as np


def perform(task: dict[str, Any]) -> None:
    """Export or strip a model. The large export takes long enough to be interrupted."""
    if task["do"] == "strip":
        from jax2onnx import _core

        if _core.main(["jax2onnx", *task["arguments"]]) != 0:
            raise OSError("strip failed")
        return
    from jax2onnx import to_onnx

    side = task.get("side", 64)
    weight = np.full((side, side), task["value"], np.float32)
    to_onnx(
        lambda x: x @ weight,
        [(1, side)],
        return_mode="file",
        output_path=task["path"],
        weights=task.get("weights", "external"),
        provenance="indexed",
        source_map=task.get("source_map", False),
    )


def child(task: dict[str, Any], report: int) -> None:
    """Perform a task and report its outcome, and the system calls that changed files."""
    shim = ctypes.CDLL(None)
    shim.fault_calls.restype = ctypes.c_char_p
    fault = task.get("fault", {})
    number, kind, error = fault.get("number", 0), fault.get("kind", 0), fault.get("error", 0)
    space = ctypes.c_longlong(fault.get("space", -1))
    shim.fault_set(os.fsencode(task["folder"]), kind, number, error, space)
    outcome = "done"
    try:
        perform(task)
    except OSError as error:
        outcome = f"error: {error}"
    except KeyboardInterrupt:
        outcome = "interrupted"
    calls = shim.fault_calls().decode().split()
    os.write(report, json.dumps({"outcome": outcome, "calls": calls}).encode())


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Perform a task in a child process. Returns what it reported."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # JAX has no threads yet.
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            child(task, write)
        finally:
            os._exit(0)
    os.close(write)
    if "signal" in task:
        time.sleep(task["delay"])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, task["signal"])
    with os.fdopen(read, "rb") as pipe:
        reported = pipe.read()
    os.waitpid(pid, 0)
    report: dict[str, Any] = json.loads(reported) if reported else {"outcome": "killed"}
    return report


def main() -> None:
    import jax.numpy  # noqa: F401

    import jax2onnx  # noqa: F401

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
