"""What an export costs, as ratios taken in one run.

    python benches/export.py [--layers 64] [--rounds 15]

Each figure is a median over interleaved rounds, because the machine has other work too. The limit
that a figure must keep stands beside it; the exit code is 1 where one does not.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import models
import numpy as np

import jax2onnx
from jax2onnx import _progress
from testkit.models import gpt2

LEVELS = ("off", "minimal", "full", "indexed")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=64, help="layers of the transformer")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    options = parser.parse_args()
    if os.environ.get("JAX2ONNX_BENCH_CHILD"):
        return child(options.layers)
    results = Results()
    conversion(results, options.layers, options.rounds)
    bytes_per_node(options.layers)
    small_exports(results, options.rounds)
    first_export(results, options.layers)
    imports(results, options.rounds)
    memory(results)
    return results.report()


class Results:
    """Figures with the limit of each."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, str]] = []

    def add(self, name: str, value: float, limit: float, unit: str = "x") -> None:
        self.rows.append((name, value, limit, unit))

    def report(self) -> int:
        width = max(len(row[0]) for row in self.rows)
        failed = 0
        for name, value, limit, unit in self.rows:
            kept = value <= limit
            failed += not kept
            verdict = "" if kept else "   over the limit"
            print(f"{name:{width}}  {value:8.2f} {unit:3} limit {limit:g} {unit}{verdict}")
        return 1 if failed else 0


def interleaved(rounds: int, tasks: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """The CPU time of every task in every round."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            # What one task leaves behind is not the next one's to clear away.
            gc.collect()
            start = time.process_time()
            task()
            times[name].append(time.process_time() - start)
    return times


def ratio(times: dict[str, list[float]], one: str, other: str) -> float:
    pairs = zip(times[one], times[other], strict=True)
    return statistics.median(a / b for a, b in pairs)


def equations(jaxpr: Any) -> int:
    inner = [
        param.jaxpr
        for eqn in jaxpr.eqns
        for param in eqn.params.values()
        if hasattr(param, "jaxpr")
    ]
    return len(jaxpr.eqns) + sum(equations(body) for body in inner)


def conversion(results: Results, layers: int, rounds: int) -> None:
    forward = models.transformer(layers)
    spec = jax.ShapeDtypeStruct((16, 64), np.float32)

    def trace() -> Any:
        # A new function each time, so that JAX traces it again.
        return jax.make_jaxpr(lambda x: forward(x))(spec)

    def export(level: str) -> Any:
        return jax2onnx.to_onnx(lambda x: forward(x), [spec], provenance=level)

    print(f"transformer of {layers} layers: {equations(trace().jaxpr)} equations")
    tasks: dict[str, Callable[[], Any]] = {"make_jaxpr": trace}
    for level in LEVELS:
        tasks[level] = lambda level=level: export(level)
    interleaved(1, tasks)
    times = interleaved(rounds, tasks)
    print_phases(lambda: export("off"), rounds)
    results.add("to_onnx(off) / make_jaxpr", ratio(times, "off", "make_jaxpr"), 1.3)
    results.add("to_onnx(full) / to_onnx(off)", ratio(times, "full", "off"), 1.1)


def small_exports(results: Results, rounds: int) -> None:
    """Export small nnx models, and compare the time with that of the trace."""
    for name, (net, spec) in {
        "MLP": (models.mlp(), jax.ShapeDtypeStruct((8, 64), np.float32)),
        "GPT": (
            gpt2.GPT2(layers=4, width=48, heads=4, vocabulary=97, context=16),
            jax.ShapeDtypeStruct((2, 16), np.int32),
        ),
    }.items():
        tasks: dict[str, Callable[[], Any]] = {
            "make_jaxpr": lambda net=net, spec=spec: jax.make_jaxpr(lambda x: net(x))(spec),
            "to_onnx": lambda net=net, spec=spec: jax2onnx.to_onnx(net, [spec]),
        }
        count = equations(tasks["make_jaxpr"]().jaxpr)
        interleaved(2, tasks)
        times = interleaved(rounds, tasks)
        # Milliseconds would measure the machine and its other work.
        title = f"nnx {name} of {count} equations: to_onnx / make_jaxpr"
        results.add(title, ratio(times, "to_onnx", "make_jaxpr"), 1.5)


def print_phases(export: Callable[[], Any], rounds: int) -> None:
    """Which part of an export each phase of the passes takes."""
    parts: dict[str, list[float]] = {}
    for _ in range(rounds):
        begun: list[tuple[str, float]] = []
        token = _progress.phase_listener.set(
            lambda phase, begun=begun: begun.append((phase, time.process_time()))
        )
        start = time.process_time()
        export()
        whole = time.process_time() - start
        _progress.phase_listener.reset(token)
        for (phase, begin), (_, end) in itertools.pairwise(begun):
            parts.setdefault(phase, []).append((end - begin) / whole)
    medians = {phase: statistics.median(values) for phase, values in parts.items()}
    print(f"passes: {sum(medians.values()):.1%} of to_onnx(off)")
    for phase, part in medians.items():
        print(f"  {phase:12} {part:6.2%}")


def bytes_per_node(layers: int) -> None:
    forward = models.transformer(layers)
    spec = jax.ShapeDtypeStruct((16, 64), np.float32)
    for level in LEVELS:
        model = jax2onnx.to_onnx(forward, [spec], provenance=level)
        nodes = sum(node.ByteSize() for node in model.graph.node)
        table = sum(len(entry.value) for entry in model.metadata_props)
        count = len(model.graph.node)
        total = nodes + table
        print(f"{level:8} {total / count:7.0f} bytes a node, {total} in {count} nodes")


def child(layers: int) -> int:
    """In a process of its own: the first export, and a later one of another model."""
    spec = jax.ShapeDtypeStruct((16, 64), np.float32)
    from jax2onnx import _export, _tiers
    from jax2onnx._options import ExportOptions
    from jax2onnx._tracing import trace

    options = ExportOptions(tiers=_tiers.rules(trace.folders()))
    made = [models.transformer(layers) for _ in range(2)]
    traced = [trace.trace(forward, [spec], double_precision=False).closed_jaxpr for forward in made]
    times = []
    for closed in traced:
        start = time.process_time()
        _export.export_traced(closed, options)
        times.append(time.process_time() - start)
    print(times[0] / times[1], times[0] - times[1])
    return 0


def first_export(results: Results, layers: int) -> None:
    command = [sys.executable, __file__, "--layers", str(layers)]
    env = {**os.environ, "JAX2ONNX_BENCH_CHILD": "1"}
    runs = [
        subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(5)
    ]
    results.add(
        "first export / a later one", statistics.median(float(run[0]) for run in runs), 1.25
    )
    over = statistics.median(float(run[1]) for run in runs)
    results.add("first export over a later one", over, 0.15, "s")


def imports(results: Results, rounds: int) -> None:
    script = (
        "import jax, time; start = time.process_time(); import jax2onnx;"
        "print(time.process_time() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        # Compiled modules, as an installation has them.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", script]
        times = [
            float(subprocess.run(command, env=env, check=True, capture_output=True).stdout)
            for _ in range(min(rounds, 5) + 1)
        ][1:]
    results.add("import jax2onnx after import jax", statistics.median(times) * 1000, 20, "ms")


def memory(results: Results) -> None:
    """Export 1 GB of weights to a file, in a process of its own, and see what that needs."""
    with tempfile.TemporaryDirectory() as folder:
        script = f"""
import resource
import jax, jax2onnx, numpy as np
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
weights = [np.full((4096, 4096), i, np.float32) for i in range(16)]
def forward(x):
    for weight in weights:
        x = x @ weight
    return x
spec = jax.ShapeDtypeStruct((1, 4096), np.float32)
jax2onnx.to_onnx(lambda x: x + 1, [spec])
from jax2onnx import _export, _tiers
from jax2onnx._options import ExportOptions
from jax2onnx._tracing import trace
options = ExportOptions(
    tiers=_tiers.rules(trace.folders()), output_path={str(Path(folder) / "model.onnx")!r}
)
closed = jax.make_jaxpr(forward)(spec)
before = peak()
_export.export_traced(closed, options)
print(peak() - before)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True
        )
    results.add("peak memory over 1 GB of weights", float(done.stdout), 64, "MB")


if __name__ == "__main__":
    sys.exit(main())
