"""Export a small model, and print which line of this file each of its nodes came from.

python examples/demo.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from jax2onnx import to_onnx

random = np.random.default_rng(0)
W1, W2 = (random.normal(size=shape).astype(np.float32) for shape in [(8, 16), (16, 4)])


def normalize(x: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    spread = jnp.std(x, axis=-1, keepdims=True)
    return (x - mean) / (spread + 1e-5)


@jax.jit
def activate(x: jax.Array) -> jax.Array:
    return jnp.where(x > 0, x, 0.1 * jnp.expm1(x))


class Head:
    """The last layer, with a temperature."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    def __call__(self, x: jax.Array) -> jax.Array:
        scores = jnp.einsum("bi,ij->bj", x, W2)
        return jax.nn.softmax(scores / self.temperature, axis=-1)


def predict(x: jax.Array) -> jax.Array:
    hidden = activate(normalize(x) @ W1)
    hidden = activate(hidden) + hidden
    return Head(temperature=0.7)(hidden)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = to_onnx(
            predict,
            [("B", 8)],
            return_mode="file",
            output_path=Path(folder) / "predict.onnx",
            provenance="indexed",
        )
        model = onnx.load(path)
        check(path)
    rows = [("node", "op", "call site", "plugin")]
    for node in model.graph.node:
        origin = {entry.key: entry.value for entry in node.metadata_props}
        callsite, plugin = (origin[f"pkg.jax2onnx.{key}"] for key in ("callsite", "plugin"))
        rows.append((node.name, node.op_type, callsite, plugin))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def check(path: str) -> None:
    """Compare ONNX Runtime with JAX, where it is installed."""
    try:
        import onnxruntime
    except ImportError:
        return
    x = random.normal(size=(3, 8)).astype(np.float32)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(found, predict(x), rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    main()
