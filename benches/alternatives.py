"""Compare jax2onnx with `jax.export` and `torch.onnx` on two networks.

    python benches/alternatives.py [--rounds 15]

Each network is written in Flax and in PyTorch, with the same layers and random weights. The table
shows the number of ONNX nodes, the size of the file, the time of the export, and the median time of
a run with two threads. `torch.onnx` needs `pip install torch onnxscript`; without them, the table
does not contain its rows.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import logging
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from flax import nnx
from runtime import THREADS, by_turns, count

import jax2onnx

WIDTH, HEADS, LAYERS, LENGTH = 256, 8, 6, 128
CHANNELS = (64, 128, 256, 512)


class EncoderLayer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm1(x))
        return x + self.down(nnx.gelu(self.up(self.norm2(x)), approximate=False))


class Encoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([EncoderLayer(rngs) for _ in range(LAYERS)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return x


class Convolutions(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        sizes = list(zip((3, *CHANNELS), CHANNELS, strict=False))
        convs = [nnx.Conv(n, m, (3, 3), 2, padding=((1, 1), (1, 1)), rngs=rngs) for n, m in sizes]
        self.convs = nnx.List(convs)
        self.norms = nnx.List([nnx.BatchNorm(m, rngs=rngs) for _, m in sizes])
        self.head = nnx.Linear(CHANNELS[-1], 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = nnx.relu(norm(conv(x)))
        return self.head(x.mean((1, 2)))


NETWORKS: dict[str, tuple[type[nnx.Module], tuple[int, ...], tuple[int, ...]]] = {
    "transformer encoder": (Encoder, (1, LENGTH, WIDTH), (1, LENGTH, WIDTH)),
    "convolutions": (Convolutions, (1, 224, 224, 3), (1, 3, 224, 224)),
}
"""The module in Flax, and the shape of its input in JAX and in PyTorch."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    print(f"{'':20} {'':12} {'nodes':>6} {'MB':>6} {'export s':>9} {'run ms':>8}")
    for name in NETWORKS:
        compare(name, rounds)


def compare(name: str, rounds: int) -> None:
    make, shape, torch_shape = NETWORKS[name]
    model = make(nnx.Rngs(0))
    model.eval()
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    exporters: dict[str, Callable[[], tuple[Any, int, Callable[[], Any]]]] = {
        "jax2onnx": lambda: onnx_model(jax2onnx.to_onnx(model, [shape]), x),
        "jax.export": lambda: stablehlo(model, x),
    }
    if importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript"):
        moved = np.moveaxis(x, -1, 1) if shape != torch_shape else x
        exporters["torch.onnx"] = lambda: onnx_model(torch_export(name, moved), moved)
    rows, tasks = {}, {}
    for tool, export in exporters.items():
        export()  # The first call also imports and compiles.
        start = time.perf_counter()
        nodes, size, tasks[tool] = export()
        rows[tool] = (nodes, size, time.perf_counter() - start)
    times = by_turns(tasks, rounds)
    for tool, (nodes, size, seconds) in rows.items():
        median = 1e3 * statistics.median(times[tool])
        print(f"{name:20} {tool:12} {nodes:>6} {size / 1e6:>6.1f} {seconds:>9.2f} {median:>8.2f}")


def onnx_model(model: Any, x: np.ndarray) -> tuple[int, int, Callable[[], Any]]:
    """Return the nodes and the bytes of a model, and a function that runs it."""
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(data, options)
    feeds = {session.get_inputs()[0].name: x}
    return count(model), len(data), lambda: session.run(None, feeds)


def stablehlo(model: nnx.Module, x: np.ndarray) -> tuple[str, int, Callable[[], Any]]:
    """Return the bytes of a serialized StableHLO program, and a function that runs it."""
    data = jax.export.export(jax.jit(lambda x: model(x)))(x).serialize()
    run = jax.jit(jax.export.deserialize(data).call)
    on_device = jnp.asarray(x)
    return "-", len(data), lambda: jax.block_until_ready(run(on_device))


def torch_export(name: str, x: np.ndarray) -> Any:
    """Export the PyTorch module with the same layers."""
    import torch
    from torch import nn

    def encoder() -> nn.Module:
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True, norm_first=True
        )
        return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def convolutions() -> nn.Module:
        parts: list[nn.Module] = []
        for n, m in zip((3, *CHANNELS), CHANNELS, strict=False):
            parts += [nn.Conv2d(n, m, 3, 2, 1), nn.BatchNorm2d(m), nn.ReLU()]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS[-1], 1000)]
        return nn.Sequential(*parts, *head)

    module = {"transformer encoder": encoder, "convolutions": convolutions}[name]().eval()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(module, (torch.from_numpy(x),), dynamo=True, verbose=False)
    return program.model_proto


if __name__ == "__main__":
    main()
