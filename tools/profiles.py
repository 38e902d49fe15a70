"""Record the profiles that tests read: models, and the measurements of ONNX Runtime.

    python tools/profiles.py

Times differ between runs, so regenerate the files only if something else changed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from jax import lax

import jax2onnx

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "crates/inspect/tests/profiles"
RUNS = 4


def normalize(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    mean = x.mean(axis=-1, keepdims=True)
    variance = jnp.square(x - mean).mean(axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def attend(x: jax.Array, qkv: jax.Array, out: jax.Array) -> jax.Array:
    batch, length, width = x.shape
    q, k, v = (part.reshape(batch, length, 2, width // 2) for part in jnp.split(x @ qkv, 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return mixed.reshape(x.shape) @ out


def transformer(tokens: jax.Array) -> jax.Array:
    """One layer like those of GPT-2."""
    rng = np.random.default_rng(0)

    def w(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape) * 0.1, jnp.float32)

    table, ones = w(64, 32), w(32)
    x = table[tokens] + w(16, 32)
    for _ in range(2):
        x = x + attend(normalize(x, ones, ones), w(32, 96), w(32, 32))
        hidden = jax.nn.gelu(normalize(x, ones, ones) @ w(32, 128) + w(128))
        x = x + hidden @ w(128, 32) + w(32)
    return normalize(x, ones, ones) @ table.T


def loop(x: jax.Array) -> jax.Array:
    """Products in the body of a loop, and one behind it."""

    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        mixed = jnp.tanh(carry @ carry.T) @ carry
        return mixed + row, mixed.sum()

    last, sums = lax.scan(step, x, jnp.ones((6, 24, 24)))
    return last @ last + sums.sum()


convolve = jax.tree_util.Partial(
    lax.conv_general_dilated,
    window_strides=(1, 1),
    padding="SAME",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
)


def images(x: jax.Array) -> jax.Array:
    """Convolutions with activations on lines of their own, a pool, and a sum."""
    rng = np.random.default_rng(0)

    def w(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape) * 0.1, jnp.float32)

    x = convolve(x, w(3, 3, 3, 16))
    x = jax.nn.relu(x)
    y = convolve(x, w(3, 3, 1, 16), feature_group_count=16)
    y = jax.nn.silu(y)
    y = convolve(y, w(1, 1, 16, 16)) + w(16)
    x = jax.nn.leaky_relu(x + y)
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    x = convolve(x, w(3, 3, 16, 32))
    x = jax.nn.sigmoid(x)
    return x.mean((1, 2)) @ w(32, 4)


def rank(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    mixed = jnp.tanh(carry @ carry) + row
    ranked = lax.sort(mixed, dimension=1)
    return ranked * 0.5, ranked.sum()


def devices(x: jax.Array, tokens: jax.Array) -> jax.Array:
    """Lines that a provider for GPUs leaves to the CPU, in a loop too."""
    hidden = jnp.tanh(x @ x)
    order = jnp.argsort(hidden[:, 0])
    ranked = hidden[order]
    known = jnp.clip(tokens, 0, 5)
    last, sums = lax.scan(rank, ranked, jnp.ones((3, 8, 8)))
    return last @ x + sums.sum() + (known * 2)


#: A provider of `onnxruntime-webgpu` that copies values between devices. It runs without a GPU if
#: Vulkan has a driver for CPUs: set `VK_ICD_FILENAMES` to the file of Chromium's SwiftShader.
DEVICE = "WebGpuExecutionProvider"


def record(
    name: str, fn: Callable[..., Any], *arrays: np.ndarray, provider: str = "CPUExecutionProvider"
) -> None:
    """Record a model, its profile, and for other providers also the runtime's form of the model."""
    path = FOLDER / f"{name}.onnx"
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    jax2onnx.to_onnx(fn, specs, return_mode="file", output_path=path, provenance="indexed")
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.intra_op_num_threads = 1
    if provider != "CPUExecutionProvider":
        options.optimized_model_filepath = str(FOLDER / f"{name}.optimized.onnx")
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(
            str(path), options, providers=list(dict.fromkeys([provider, "CPUExecutionProvider"]))
        )
        feeds = {
            value.name: array for value, array in zip(session.get_inputs(), arrays, strict=True)
        }
        for _ in range(RUNS):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    lines = ",\n".join(json.dumps(event) for event in events)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    os.chdir(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if DEVICE in onnxruntime.get_available_providers():
        square = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
        record("devices", devices, square, np.arange(8, dtype=np.int32), provider=DEVICE)
    else:
        record("transformer", transformer, np.arange(32, dtype=np.int32).reshape(2, 16))
        record("images", images, np.linspace(0, 1, 3072, dtype=np.float32).reshape(1, 32, 32, 3))
        record("loop", loop, np.full((24, 24), 0.1, np.float32))
