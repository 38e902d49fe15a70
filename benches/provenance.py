"""What provenance costs: bytes of each level, time of a map, time to load one.

    python benches/provenance.py [--rounds 9]

The models are those of GPT-2 small in structure, 12 layers of 12 heads, and narrow, because weights
say nothing here. The limit that a figure must keep stands beside it; the exit code is 1 where one
does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import models
import numpy as np
from export import LEVELS, Results, interleaved, ratio

import jax2onnx
from jax2onnx import provenance_reader
from testkit.models import gpt2

#: The nodes of the large map, at least.
MANY = 50_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds")
    options = parser.parse_args()
    results = Results()
    plain = models.transformer(layers=12, width=48, heads=12)
    tokens = jax.ShapeDtypeStruct((1, 16), np.int32)
    modules = gpt2.GPT2(layers=12, width=48, heads=12, vocabulary=257, context=64)
    with tempfile.TemporaryDirectory() as folder:
        size(results, "functions", plain, jax.ShapeDtypeStruct((16, 48), np.float32), folder)
        size(results, "nnx modules", modules, tokens, folder)
        times(results, plain, options.rounds, folder)
        loading(results, folder)
    return results.report()


def size(results: Results, name: str, fn: Callable[..., Any], spec: Any, folder: str) -> None:
    """The bytes that each level adds, and those of the map."""
    path = Path(folder) / "size.map"
    exports = {level: jax2onnx.to_onnx(fn, [spec], provenance=level) for level in LEVELS}
    jax2onnx.to_onnx(fn, [spec], source_map=path)
    nodes = len(exports["off"].graph.node)
    added = {
        level: model.ByteSize() - exports["off"].ByteSize() for level, model in exports.items()
    }
    print(f"{name}: {nodes} nodes, map of {path.stat().st_size} bytes")
    for level in LEVELS[1:]:
        share = 100 * added[level] / added["full"]
        each = added[level] / nodes
        print(
            f"  {level:8} adds {added[level]:8} bytes, {each:5.0f} a node, {share:3.0f} % of full"
        )
    # The call sites are text at every level; beyond them is what the stacks cost.
    beyond = {level: added[level] - added["minimal"] for level in LEVELS}
    results.add(f"{name}: indexed / minimal", added["indexed"] / added["minimal"], 1.3)
    results.add(
        f"{name}: stacks of indexed / of full", 100 * beyond["indexed"] / beyond["full"], 6, "%"
    )


def times(results: Results, fn: Callable[..., Any], rounds: int, folder: str) -> None:
    """An export with the table and the map against one with neither."""
    spec = jax.ShapeDtypeStruct((16, 48), np.float32)
    path = Path(folder) / "time.map"
    tasks: dict[str, Callable[[], Any]] = {
        # A new function each time, so that JAX traces it again.
        "off": lambda: jax2onnx.to_onnx(lambda x: fn(x), [spec]),
        "map": lambda: jax2onnx.to_onnx(
            lambda x: fn(x), [spec], provenance="indexed", source_map=path
        ),
    }
    interleaved(2, tasks)
    taken = interleaved(rounds, tasks)
    results.add("to_onnx(indexed, source_map) / to_onnx(off)", ratio(taken, "map", "off"), 1.05)


def loading(results: Results, folder: str) -> None:
    """The map of a large model, by the core and by the reader that stands alone."""
    path = Path(folder) / "large.map"
    spec = jax.ShapeDtypeStruct((16, 48), np.float32)
    layers = 12
    while True:
        jax2onnx.to_onnx(models.transformer(layers, width=48, heads=12), [spec], source_map=path)
        nodes = len(provenance_reader.read_map(path).nodes)
        if nodes >= MANY:
            break
        layers = layers * MANY // nodes + 1
    print(f"large: {nodes} nodes, map of {path.stat().st_size} bytes")
    readers: dict[str, Callable[[], Any]] = {
        "SourceMap.load": lambda: jax2onnx.SourceMap.load(path).resolve("tanh"),
        "provenance_reader.read_map": lambda: provenance_reader.read_map(path).nodes,
    }
    for name, read in readers.items():
        start = time.perf_counter()
        read()
        results.add(f"{name} of {nodes} nodes", time.perf_counter() - start, 1, "s")


if __name__ == "__main__":
    sys.exit(main())
