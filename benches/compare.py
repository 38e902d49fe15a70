"""What `compare` costs on GPT-2 small and on a scan of 10,000 steps.

    python benches/compare.py [--layers 12] [--tokens 64] [--steps 10000]

GPT-2 is compared with JAX and with itself: the time as a multiple of an export and one run of the
model, with everything that a run needs. The scan carries a state of 1 MB, which must not be kept
for each step. Memory is the peak over what was there before. The exit code is 1 if a limit is
not kept.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from jax import lax

import jax2onnx
from testkit.models import gpt2

#: The most that each figure may be.
MAX_RATIO = 10.0
MAX_GPT2_MB = 2500.0
MAX_SCAN_MB = 600.0


def memory() -> float:
    """The memory of this process now, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def measured(task: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds, the peak of memory over that before, and the result of a task."""
    before, peak, done = memory(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], memory() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        result = task()
    finally:
        taken = time.perf_counter() - start
        done.set()
        watcher.join()
    return taken, peak[0], result


def gpt2_small(layers: int, tokens: int, folder: Path) -> bool:
    network = gpt2.GPT2(layers, 768, 12, vocabulary=50257, context=1024)
    network.eval()
    inputs = [np.arange(tokens, dtype=np.int32).reshape(1, tokens)]
    path = folder / "gpt2.onnx"

    def export() -> None:
        spec = jax.ShapeDtypeStruct((1, tokens), np.int32)
        jax2onnx.to_onnx(network, [spec], return_mode="file", output_path=path, weights="external")

    def run() -> None:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        session.run(None, {session.get_inputs()[0].name: inputs[0]})

    exporting, _, _ = measured(export)
    running, _, _ = measured(run)
    is_good = True
    for name, reference in (("JAX", network), ("itself", path)):
        taken, peak, report = measured(
            lambda reference=reference: jax2onnx.compare(reference, path, inputs)
        )
        once = running + (exporting if name == "JAX" else 0)
        ratio = taken / once
        print(
            f"GPT-2 small against {name}: {taken:.1f} s, {ratio:.1f} x of {once:.1f} s, "
            f"{peak:.0f} MB, {report.coverage}"
        )
        if report.first is not None:
            print(report)
        is_good &= report.first is None and ratio <= MAX_RATIO and peak <= MAX_GPT2_MB
    return is_good


def long_scan(steps: int) -> bool:
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8

    def fn(state: Any, rows: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = jnp.tanh(state @ weight + row)
            return state, state[0, 0]

        return lax.scan(step, state, rows)

    state = np.zeros((4096, 64), np.float32)
    rows = np.random.default_rng(1).standard_normal((steps, 64)).astype(np.float32)
    model = jax2onnx.to_onnx(fn, [state, rows])
    feeds = dict(zip([value.name for value in model.graph.input], (state, rows), strict=True))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    running, _, _ = measured(lambda: session.run(None, feeds))
    taken, peak, report = measured(lambda: jax2onnx.compare(fn, model, [state, rows]))
    states = steps * state.nbytes / 1e6
    print(
        f"scan of {steps} steps: {taken:.1f} s, {taken / running:.1f} x of one run, {peak:.0f} MB "
        f"(all states are {states:.0f} MB)"
    )
    if report.first is not None:
        print(report)
    return report.first is None and peak <= MAX_SCAN_MB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        is_good = gpt2_small(arguments.layers, arguments.tokens, Path(folder))
    is_good &= long_scan(arguments.steps)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
