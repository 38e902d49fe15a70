"""Tools that change models, on models with what passes make: attention, norms, an LSTM, loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import SourceMap, onnx_function
from testkit.accuracy import nodes_of

from .test_resolve import (
    OPTIMIZATIONS,
    check_answers,
    converted,
    inlined,
    optimized,
    quantised,
    simplified,
    slimmed,
)

Tool = Callable[[onnx.ModelProto, Path], onnx.ModelProto]
TOOLS: dict[str, Tool] = {
    **{
        level: functools.partial(lambda level, model, folder: optimized(model, level, folder), each)
        for level, each in OPTIMIZATIONS.items()
    },
    "version converter": converted,
    "inliner": inlined,
    "dynamic quantisation": quantised,
    "onnxslim": slimmed,
    "onnxsim": simplified,
}

#: How much is found by names at least; the rest is found by what is around it. Quantisation puts
#: several nodes in the place of one, and onnxsim makes three nodes, with names of its own, of a
#: product and a sum.
LEAST_BY_NAME = {"dynamic quantisation": 0.5, "onnxsim": 0.7}

#: onnxslim does not end on the body of a function.
BEYOND_THE_TOOL = {("onnxslim", "loops and functions")}


class Block(nnx.Module):
    """Attention and a norm."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.parts = nnx.List([nnx.Linear(8, 8, rngs=rngs) for _ in range(3)])
        self.up = nnx.Linear(8, 16, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.norm(x)
        q, k, v = (part(y).reshape(1, 5, 2, 4) for part in self.parts)
        y = jax.nn.dot_product_attention(q, k, v)
        x = x + y.reshape(1, 5, 8)
        return nnx.gelu(self.up(x))


class Convolution(nnx.Module):
    """A norm that goes into the weights, and the order of axes."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(3, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, use_running_average=True, rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = nnx.relu(self.norm(self.conv(x)))
        pooled = jnp.mean(y, axis=(1, 2))
        return self.head(pooled)


def recurrent() -> Any:
    layer = nnx.RNN(nnx.OptimizedLSTMCell(3, 4, rngs=nnx.Rngs(0)))
    head = nnx.Linear(4, 2, rngs=nnx.Rngs(1))

    def fn(x: jax.Array) -> jax.Array:
        states = layer(x)
        return head(states)

    return fn


@onnx_function
def squash(x: jax.Array) -> jax.Array:
    y = jnp.tanh(x)
    return y * jnp.exp(-x)


@onnx_function
def twice(x: jax.Array) -> jax.Array:
    return squash(squash(x) + 1.0)


def loops(x: jax.Array) -> Any:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.where(row > 0, carry + row, jnp.sin(carry))
        return carry, carry * 2.0

    last, rows = jax.lax.scan(step, x[0], x)
    y = jax.lax.cond(last[0] > 0, jnp.sin, jnp.cos, last)
    return twice(y), rows


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "attention": (Block, (1, 5, 8)),
    "convolution": (Convolution, (1, 8, 8, 3)),
    "recurrent": (recurrent, (2, 5, 3)),
    "loops and functions": (lambda: loops, (5, 4)),
}


def exported(name: str, opset: int, folder: Path) -> tuple[onnx.ModelProto, SourceMap]:
    build, shape = MODELS[name]
    path = folder / "m.map"
    model = jax2onnx.to_onnx(build(), [shape], opset=opset, provenance="minimal", source_map=path)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("bias"):
            # A bias of zeros would be dropped.
            tensor.raw_data = rng.normal(size=tensor.dims).astype(np.float32).tobytes()
    return model, SourceMap.load(path)


def test_the_models_have_what_passes_make(tmp_path: Path) -> None:
    models = [exported(name, 23, tmp_path)[0] for name in MODELS]
    found = {node.op_type for model in models for node in nodes_of(model)}
    wanted = {"Attention", "LayerNormalization", "Gelu", "LSTM", "Conv", "Scan", "If", "twice"}
    assert wanted <= found, wanted - found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tool", TOOLS)
def test_nodes_of_other_tools_are_never_resolved_wrongly(
    tool: str, name: str, tmp_path: Path
) -> None:
    if (tool, name) in BEYOND_THE_TOOL:
        pytest.skip(f"{tool} fails on {name} itself")
    # The other tools know opsets up to 21.
    model, found = exported(name, 23 if tool in OPTIMIZATIONS else 21, tmp_path)
    later = TOOLS[tool](model, tmp_path)
    sures = check_answers(model, later, found)
    print(tool, name, sures)
    resolved = sures.total() - sures["unknown"] - sures["neighbour"]
    assert sures["unknown"] == 0, sures
    assert resolved / sures.total() >= LEAST_BY_NAME.get(tool, 0.75), sures
