"""Sizes of 0: one model, run at 0, 1, 2 and 7, with ONNX Runtime's optimizations off and on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import linen, nnx
from jax import lax

import jax2onnx
from testkit import bench

Fn = Callable[..., Any]
Shapes = tuple[tuple[Any, ...], ...]

SIZES = (0, 1, 2, 7)
LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)
ROWS = (("B", 4),)
LENGTH = ((2, "B", 3),)
KERNEL = np.random.default_rng(0).normal(size=(3, 3, 2, 5)).astype(np.float32)


def conv(x: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", dimension_numbers=layout)


def step(carry: Any, x: Any) -> Any:
    return carry + x, carry * x


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


W, R, BIAS = weights(3, 12), weights(4, 12), weights(12)


def gru(x: Any, h: Any) -> Any:
    """A GRU over the first axis of `x`, with whatever batch axes the two have."""

    def cell(h: Any, x: Any) -> Any:
        a, b = x @ W + BIAS, h @ R
        r = jax.nn.sigmoid(a[..., :4] + b[..., :4])
        z = jax.nn.sigmoid(a[..., 4:8] + b[..., 4:8])
        h = (1 - z) * jnp.tanh(a[..., 8:] + r * b[..., 8:]) + z * h
        return h, h

    return lax.scan(cell, h, x)


def lstm(x: Any, h: Any) -> Any:
    """An LSTM as [`gru`] is a GRU; the gates share their weights."""

    def cell(carry: Any, x: Any) -> Any:
        c, h = carry
        gates = [x @ W[:, at : at + 4] + h @ R[:, at : at + 4] for at in (0, 4, 8, 2)]
        i, f, g, o = (gate + BIAS[:4] for gate in gates)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    return lax.scan(cell, (h * 0.5, h), x)


def layer(cls: Any, *sizes: int, **options: Any) -> Fn:
    made = cls(*sizes, **options, rngs=nnx.Rngs(0))
    return lambda x: made(x)


def recurrent(cell: Any, **options: Any) -> Fn:
    return lambda x: nnx.RNN(cell(3, 4, rngs=nnx.Rngs(0)), **options)(x)


def attention(x: Any) -> Any:
    return jax.nn.dot_product_attention(x, x, x)


#: The flax for JAX 0.6 lacks `InstanceNorm`.
INSTANCE_NORMS: dict[str, tuple[Fn, Shapes]] = (
    {
        "instance norm": (layer(nnx.InstanceNorm, 4), (("B", 5, 4),)),
        "instance norm of a symbolic area": (layer(nnx.InstanceNorm, 4), ((2, "B", 4),)),
    }
    if hasattr(nnx, "InstanceNorm")
    else {}
)
PROGRAMS: dict[str, tuple[Fn, Shapes]] = {
    "sum": (lambda x: (x.sum(0), x.sum(1), x.sum()), ROWS),
    "prod": (lambda x: (x.prod(0), x.prod(1)), ROWS),
    "mean": (lambda x: (x.mean(0), x.mean(1), x.mean(), x.mean(0, keepdims=True)), ROWS),
    "mean over two axes": (lambda x: x.mean((0, 2)), (("B", 3, "T"),)),
    "var and std": (lambda x: (x.var(0), x.std(1), x.var()), ROWS),
    "any and all": (lambda x: ((x > 0).any(0), (x > 0).all(), (x > 0).all(1)), ROWS),
    "reduce_max and reduce_min": (
        lambda x: (lax.reduce_max(x, (0,)), lax.reduce_min(x, (0,)), x.max(1)),
        ROWS,
    ),
    "logsumexp": (lambda x: (jax.nn.logsumexp(x, 0), jax.nn.logsumexp(x, 1)), ROWS),
    "softmax": (lambda x: (jax.nn.softmax(x, 0), jax.nn.log_softmax(x, 1)), ROWS),
    "standardize the only axis": (lambda x: jax.nn.standardize(x, 0), (("B",),)),
    "standardize": (lambda x: (jax.nn.standardize(x, 0), jax.nn.standardize(x, 1)), ROWS),
    "argmax of each row": (lambda x: (x.argmax(1), x.argmin(1)), ROWS),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.sort(x, 1), jnp.argsort(x, 0)), ROWS),
    "top_k": (lambda x: lax.top_k(x, 2), ROWS),
    "cumsum": (lambda x: (jnp.cumsum(x, 0), lax.cumsum(x, 0, reverse=True)), ROWS),
    "take": (lambda i: jnp.asarray(weights(3, 4))[i.astype(int) % 3], (("B",),)),
    "scatter columns": (lambda x: jnp.asarray(x).at[:, 1].set(3.0), ROWS),
    "scatter rows": (lambda i: jnp.zeros((5, 3)).at[i.astype(int) % 5].add(1.0), (("B",),)),
    "segment_sum": (lambda i: jax.ops.segment_sum(i, i.astype(int) % 3, 3), (("B",),)),
    "dynamic_update_slice": (
        lambda x: lax.dynamic_update_slice(x, jnp.ones((x.shape[0], 2)), (0, 1)),
        ROWS,
    ),
    "concatenate": (lambda x: jnp.concatenate([x, jnp.ones((2, 4)), x]), ROWS),
    "resize": (
        lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 2), "bilinear"),
        (("B", 4, 4, 2),),
    ),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1))), ROWS),
    "slice": (lambda x: (x[:, 1:3], x[::2], x[x.shape[0] // 2 :]), ROWS),
    "flip": (lambda x: jnp.flip(x, 0), ROWS),
    "roll": (lambda x: (jnp.roll(x, 1, 0), jnp.roll(x, -3, 0), jnp.roll(x, 2)), ROWS),
    "roll of two axes": (lambda x: jnp.roll(x, (1, 2), (0, 1)), ROWS),
    "tile and repeat": (lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 0)), ROWS),
    "reshape": (lambda x: (x.reshape(-1), x.reshape(x.shape[0], 2, 2)), ROWS),
    "dot": (lambda x: (x.T @ x, x @ x.T, x @ weights(4, 3), jnp.vdot(x, x)), ROWS),
    "einsum": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (("B", 2, 3), ("B", 3, 4))),
    "dot of a batch": (
        lambda x: (weights(3, 4) @ x, x @ weights(5), weights(4) @ x),
        (("B", 4, 5),),
    ),
    "conv": (conv, (("B", 5, 5, 2),)),
    "max_pool": (lambda x: linen.max_pool(x, (2, 2), (2, 2)), (("B", 6, 6, 2),)),
    "avg_pool": (lambda x: linen.avg_pool(x, (2, 2), (2, 2)), (("B", 6, 6, 2),)),
    "global pool": (lambda x: x.mean((1, 2)), ((2, "B", 6, 2),)),
    "scan": (lambda x: lax.scan(step, jnp.ones(4), x), ROWS),
    "reverse scan": (lambda x: lax.scan(step, jnp.ones(4), x, reverse=True), ROWS),
    "scan of a batch": (
        lambda x: lax.scan(step, jnp.ones((x.shape[1], 4)), x),
        (("T", "B", 4),),
    ),
    "scan in a scan": (
        lambda x: lax.scan(lambda c, y: lax.scan(step, c, y), jnp.ones(4), x),
        (("B", "T", 4),),
    ),
    "fori_loop": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + i, x.sum()), ROWS),
    "map": (lambda x: lax.map(lambda row: row * row.sum(), x), ROWS),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda a: a * 2, lambda a: -a, x), ROWS),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x, axis=1), ROWS),
    "write from the second on": (lambda x: x.at[1:].add(1.0), ROWS),
    "write before the last": (lambda x: x.at[:-1].set(0.0), ROWS),
    "slices": (lambda x: (x[2:], x[-2:], x[1:] - x[:-1], x[::2]), ROWS),
    "shift": (lambda x: lax.pad(x, jnp.float32(0), ((1, -1, 0), (0, 0, 0))), ROWS),
    "layer norm": (layer(nnx.LayerNorm, 4), ROWS),
    "group norm": (layer(nnx.GroupNorm, 4, num_groups=2), (("B", 5, 4),)),
    "group norm of a symbolic area": (layer(nnx.GroupNorm, 4, num_groups=2), ((2, "B", 4),)),
    **INSTANCE_NORMS,
    "attention by hand": (lambda q, k: jax.nn.softmax(q @ k.T) @ k, ((3, 4), ("B", 4))),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x, axis=1)), ROWS),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.mT + 4 * jnp.eye(3)), (("B", 3, 3),)),
    "random": (lambda x: jax.random.uniform(jax.random.key(0), x.shape) + x, ROWS),
    "one_hot": (lambda x: jax.nn.one_hot(x.astype(int), 3), (("B",),)),
    "squared error": (lambda x, y: ((x - y) ** 2).mean(), (("B", 4), ("B", 4))),
    "GRU": (gru, (("T", "B", 3), ("B", 4))),
    "GRU of symbolic length": (gru, (("T", 2, 3), (2, 4))),
    "GRU without a batch": (gru, (("T", 3), (4,))),
    "GRU with two batch axes": (gru, (("T", "B", 2, 3), ("B", 2, 4))),
    "GRU with a broadcast batch": (gru, (("T", 1, 3), ("B", 4))),
    "GRU with a batch of states": (gru, (("T", 3), ("B", 4))),
    "LSTM": (lstm, (("T", "B", 3), ("B", 4))),
    "LSTM of symbolic length": (lstm, (("T", 2, 3), (2, 4))),
    "LSTM with two batch axes": (lstm, (("T", "B", 2, 3), ("B", 2, 4))),
    "LSTM with a broadcast batch": (lstm, (("T", 1, 3), ("B", 4))),
    "GRU in a branch": (
        lambda x, h: lax.cond(h.sum() > 0, gru, lambda x, h: (h, x @ W[:, :4]), x, h),
        (("T", 2, 3), (2, 4)),
    ),
    "RNN of nnx": (recurrent(nnx.GRUCell), LENGTH),
    "reverse RNN of nnx": (recurrent(nnx.OptimizedLSTMCell, reverse=True), (("B", "T", 3),)),
}


def sessions(model: onnx.ModelProto) -> list[onnxruntime.InferenceSession]:
    made = []
    for level in LEVELS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        data = model.SerializeToString()
        made.append(onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"]))
    return made


def feeds(shapes: Shapes) -> list[list[np.ndarray]]:
    """Arrays for every size of one name; of two, for all pairs with a 0, and some without."""
    names = sorted({dim for shape in shapes for dim in shape if isinstance(dim, str)})
    pairs: Sequence[tuple[int, ...]] = [(0, 0), (0, 2), (2, 0), (1, 1), (3, 2)]
    sizes = itertools.product(SIZES) if len(names) == 1 else pairs
    rng = np.random.default_rng(0)
    made = []
    for chosen in sizes:
        known = dict(zip(names, chosen, strict=True))
        concrete = [[known.get(dim, dim) for dim in shape] for shape in shapes]
        made.append([(3 * rng.normal(size=shape)).astype(np.float32) for shape in concrete])
    return made


def check(fn: Fn, model: onnx.ModelProto, inputs: Sequence[list[np.ndarray]]) -> None:
    runs = sessions(model)
    for arrays in inputs:
        want = bench.expected(fn, arrays)
        for session in runs:
            names = [value.name for value in session.get_inputs()]
            found = session.run(None, dict(zip(names, arrays, strict=True)))
            for one_found, one_want in zip(found, want, strict=True):
                bench.assert_same(one_found, one_want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_empty_axis_returns_what_jax_returns(name: str) -> None:
    fn, shapes = PROGRAMS[name]
    check(fn, bench.convert(fn, list(shapes)), feeds(shapes))


def windows(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (3, 3, 3), (2, 2, 2), "VALID")


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda x: x[jnp.arange(0)] @ x.T, (0, 2)),
        (lambda x: jnp.ones((0, 2, 2)) @ x.T, (0, 2)),
        (lambda x: (windows(x), windows(x) * 2, windows(x)), (2, 1, 4)),
        (lambda x: (lax.cumprod(windows(x), 2), jnp.zeros((0, 0, 1))), (2, 1, 4)),
    ],
)
def test_a_result_that_is_always_empty_has_its_name_and_shape(
    fn: Fn, shape: tuple[int, ...]
) -> None:
    model = bench.convert(fn, [shape])
    assert [value.name for value in model.graph.output] == [
        f"out_{number}" for number in range(len(model.graph.output))
    ]
    check(fn, model, [[np.ones(shape, np.float32)]])


#: What has to be positive, and what ONNX Runtime says if it is not.
POSITIVE: dict[str, tuple[Fn, Shapes, str]] = {
    "attention": (attention, (("B", 3, 2, 4),), "must be greater than 0"),
    "attention without queries": (
        lambda q, k: jax.nn.dot_product_attention(q, k, k),
        ((2, "B", 2, 4), (2, 3, 2, 4)),
        "must be greater than 0",
    ),
    "conv of no area": (conv, ((1, "B", 5, 2),), "Invalid input shape"),
    "max_pool of no area": (
        lambda x: linen.max_pool(x, (2, 2), (1, 1), "SAME"),
        ((1, "B", 6, 2),),
        "Invalid input shape",
    ),
    "argmax of nothing": (lambda x: x.argmax(0), ROWS, "ArgMax"),
}


@pytest.mark.parametrize("name", POSITIVE)
def test_a_size_that_must_be_positive_fails_with_a_message(name: str) -> None:
    fn, shapes, message = POSITIVE[name]
    model = bench.convert(fn, list(shapes))
    empty, *others = feeds(shapes)
    check(fn, model, others)
    for session in sessions(model):
        names = [value.name for value in session.get_inputs()]
        with pytest.raises(Exception, match=message):
            session.run(None, dict(zip(names, empty, strict=True)))


STATIC: dict[str, Shapes] = {
    "no batch": ((5, 3), (4,)),
    "one batch axis": ((5, 2, 3), (2, 4)),
    "one step": ((1, 2, 3), (2, 4)),
    "a batch of one": ((5, 1, 3), (1, 4)),
    "two batch axes": ((5, 2, 3, 3), (2, 3, 4)),
    "only the state has a batch": ((5, 3), (2, 4)),
    "the input's batch is broadcast": ((5, 1, 3), (2, 4)),
    "the input's first batch axis is broadcast": ((5, 1, 3, 3), (2, 3, 4)),
}
SPECIAL = (0.0, np.nan, np.inf, -np.inf, 3e38, 1e-42)


@pytest.mark.parametrize("fn", [gru, lstm], ids=["gru", "lstm"])
@pytest.mark.parametrize("name", STATIC)
def test_special_numbers_reach_the_results_of_a_recurrent_cell(fn: Fn, name: str) -> None:
    shapes = STATIC[name]
    inputs = []
    for special, place in itertools.product(SPECIAL, range(2)):
        arrays = [weights(*shape) for shape in shapes]
        arrays[place].flat[-2] = special
        inputs.append(arrays)
    check(fn, bench.convert(fn, inputs[0]), inputs)


def test_nan_in_a_recurrent_cell_may_be_ignored() -> None:
    shapes = STATIC["one batch axis"]
    arrays = [weights(*shape) for shape in shapes]
    model = jax2onnx.to_onnx(gru, arrays, nan="ignore")
    check(gru, model, [arrays])
    assert "If" not in [node.op_type for node in model.graph.node]
