"""Norms, activations, indices and cleaning: the operators that come out, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import jax2onnx
from testkit import bench

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((3, 5, 16)).astype(np.float32)
IMAGE = RNG.standard_normal((2, 6, 6, 16)).astype(np.float32)
W = np.linspace(0.5, 1.5, 16).astype(np.float32)
B = np.linspace(-0.5, 0.5, 16).astype(np.float32)
TABLE = RNG.standard_normal((10, 4)).astype(np.float32)
PLACES = np.array([[0, 9, -1, -10], [10, -11, 2**31 - 1, -(2**31)]], np.int32)
ROUND_ZERO = np.float32([-np.inf, -1e30, -100, -20.5, -3, -1.5, -1e-20, -0.0])
ROUND_ZERO = np.float32([*ROUND_ZERO, 0, 1e-3, 1, 2.5, 3.5, 1e4, np.inf, np.nan])
MASK = RNG.random((4, 6)) < 0.5
MASK[0], MASK[1] = False, True
SCORES = RNG.standard_normal((4, 6)).astype(np.float32)


@dataclass(frozen=True)
class Idiom:
    """A function, what it is run on, and the operators that it becomes."""

    name: str
    fn: Callable[..., Any]
    inputs: Sequence[np.ndarray]
    ops: Sequence[str]
    rtol: float = 2e-6
    atol: float = 2e-6


def of_linen(module: Any, shape: tuple[int, ...] = (3, 5, 16)) -> Callable[..., Any]:
    """The module with weights that are not what they are initialized to."""
    # The shapes alone: modules are made when the file is imported, which must not compile anything.
    shapes = jax.eval_shape(module.init, jax.random.key(0), jax.ShapeDtypeStruct(shape, np.float32))

    def weights(array: jax.ShapeDtypeStruct) -> np.ndarray:
        return np.linspace(0.5, 1.5, array.size).reshape(array.shape).astype(array.dtype)

    variables = jax.tree.map(weights, shapes)
    return lambda x: module.apply(variables, x)


def of_haiku(x: jax.Array) -> jax.Array:
    norm = hk.without_apply_rng(hk.transform(lambda x: hk.LayerNorm(-1, True, True)(x)))
    return norm.apply({"layer_norm": {"scale": jnp.asarray(W), "offset": jnp.asarray(B)}}, x)


def with_weights(module: Any) -> Any:
    return eqx.tree_at(lambda m: (m.weight, m.bias), module, (jnp.asarray(W), jnp.asarray(B)))


def standard(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def by_division(x: jax.Array) -> jax.Array:
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * W + B


def scale_first(x: jax.Array) -> jax.Array:
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return W * (x - mean) * jax.lax.rsqrt(var + 1e-5) + B


def llama(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * W


def llama_of_halves(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return wide.astype(x.dtype) * W.astype(x.dtype)


def trained(x: jax.Array) -> jax.Array:
    return (x - B) * (jax.lax.rsqrt(jnp.asarray(W) + 1e-5) * W) + B


CHANNELS = IMAGE.transpose(0, 3, 1, 2)


def pixels_of_channels(x: jax.Array) -> jax.Array:
    blocks = x.reshape(2, 2, 2, 4, 6, 6).transpose(0, 3, 4, 1, 5, 2)
    return blocks.reshape(2, 4, 12, 12)


def channels_of_pixels(x: jax.Array) -> jax.Array:
    blocks = x.reshape(2, 6, 3, 2, 8, 2).transpose(0, 3, 5, 1, 2, 4)
    return blocks.reshape(2, 24, 3, 8)


EXTREMES = np.stack([ROUND_ZERO, ROUND_ZERO[::-1], np.roll(ROUND_ZERO, 5)] * 2, axis=1)[:, :5]
EXTREMES[3], EXTREMES[4], EXTREMES[5] = -np.inf, np.inf, np.finfo(np.float32).max
LOG_SUM_EXP = ["ReduceMax", "Clip", "Unsqueeze", "Sub", "Exp", "ReduceSum", "Log", "Add"]
LAYER, RMS = ["LayerNormalization"], ["RMSNormalization"]
IN_GROUPS = ["Reshape", "InstanceNormalization", "Reshape", "BatchNormalization"]
IN_GROUPS = ["Transpose", *IN_GROUPS, "Transpose"]
FILLED = ["Clip", "Equal", "Gather", "Unsqueeze", "Where"]

IDIOMS = [
    Idiom("linen.layer", of_linen(linen.LayerNorm()), [ROWS], LAYER),
    Idiom("linen.no_scale", of_linen(linen.LayerNorm(use_scale=False)), [ROWS], LAYER),
    Idiom("linen.no_bias", of_linen(linen.LayerNorm(use_bias=False)), [ROWS], LAYER),
    Idiom("linen.plain", of_linen(linen.LayerNorm(use_bias=False, use_scale=False)), [ROWS], LAYER),
    Idiom("linen.two_pass", of_linen(linen.LayerNorm(use_fast_variance=False)), [ROWS], LAYER),
    Idiom(
        "nnx.two_pass", nnx.LayerNorm(16, use_fast_variance=False, rngs=nnx.Rngs(0)), [ROWS], LAYER
    ),
    Idiom("linen.rms", of_linen(linen.RMSNorm()), [ROWS], RMS),
    Idiom("nnx.layer", nnx.LayerNorm(16, rngs=nnx.Rngs(0)), [ROWS], LAYER),
    Idiom("equinox.layer", jax.vmap(jax.vmap(with_weights(eqx.nn.LayerNorm(16)))), [ROWS], LAYER),
    Idiom("equinox.row", lambda x: with_weights(eqx.nn.LayerNorm(16))(x), [ROWS[0, 0]], LAYER),
    Idiom("haiku.layer", of_haiku, [ROWS], LAYER),
    Idiom("jnp.standard", standard, [ROWS], LAYER),
    Idiom("jnp.division", by_division, [ROWS], LAYER),
    Idiom("jnp.scale_first", scale_first, [ROWS], LAYER),
    Idiom("jnp.llama", llama, [ROWS], RMS),
    Idiom("jnp.llama_zero", lambda x: llama(x) * 0.0, [ROWS * 0], ["RMSNormalization", "Mul"]),
    Idiom(
        "linen.group",
        of_linen(linen.GroupNorm(num_groups=4), (2, 6, 6, 16)),
        [IMAGE],
        IN_GROUPS,
        atol=1e-5,
    ),
    Idiom(
        "linen.group_two_pass",
        of_linen(linen.GroupNorm(num_groups=4, use_fast_variance=False), (2, 6, 6, 16)),
        [IMAGE],
        IN_GROUPS,
        atol=1e-5,
    ),
    Idiom(
        "linen.group_row",
        of_linen(linen.GroupNorm(num_groups=2), (5, 16)),
        [ROWS[0]],
        ["Reshape", "InstanceNormalization", "Reshape", "Mul", "Add"],
        atol=1e-5,
    ),
    Idiom(
        "linen.group_of_one",
        of_linen(linen.GroupNorm(num_groups=16), (2, 6, 6, 16)),
        [IMAGE],
        ["Transpose", "InstanceNormalization", "Transpose"],
        atol=1e-5,
    ),
    Idiom(
        "linen.instance",
        of_linen(linen.InstanceNorm(), (2, 6, 6, 16)),
        [IMAGE],
        ["Transpose", "InstanceNormalization", "Transpose"],
        atol=1e-5,
    ),
    Idiom(
        "equinox.group",
        jax.vmap(with_weights(eqx.nn.GroupNorm(4, 16))),
        [np.moveaxis(IMAGE, -1, 1).copy()],
        ["Reshape", "InstanceNormalization", "Reshape", "BatchNormalization"],
        atol=1e-5,
    ),
    Idiom(
        "equinox.avg_pool",
        eqx.nn.AvgPool2d(2, 2, padding=1),
        [CHANNELS[0]],
        ["Reshape", "AveragePool", "Reshape"],
    ),
    Idiom("equinox.avg_pools", jax.vmap(eqx.nn.AvgPool2d(3, 2)), [CHANNELS], ["AveragePool"]),
    Idiom(
        "equinox.max_pool",
        lambda x: eqx.nn.MaxPool2d(2, 2)(x),
        [np.where(CHANNELS[0] > 2, np.nan, CHANNELS[0])],
        ["Reshape", "Mul", "MaxPool", "Mul", "Relu", "AveragePool", "IsNaN", "Where", "Reshape"],
        0,
        0,
    ),
    Idiom(
        "equinox.max_pool_of_relu",
        jax.vmap(lambda x: eqx.nn.MaxPool2d(3, 2, padding=1)(jax.nn.relu(x))),
        [
            np.select(
                [CHANNELS > 2, CHANNELS > 1, CHANNELS < -1], [np.nan, np.inf, -np.inf], CHANNELS
            )
        ],
        ["Relu", "MaxPool", "AveragePool", "IsNaN", "Where"],
        0,
        0,
    ),
    Idiom("axis", lambda x: jnp.sin(x[None]), [ROWS], ["Unsqueeze", "Sin"]),
    Idiom("axes", lambda x: jnp.broadcast_to(x[None], (4, 3, 5, 16)), [ROWS], ["Expand"], 0, 0),
    Idiom("batch", trained, [ROWS], ["Mul", "Add"], atol=1e-5),
    Idiom("affine", lambda x: ((x - 0.5) / 0.25) * 3.0 + 1.0, [ROWS], ["Mul", "Add"], atol=1e-5),
    Idiom("l2", lambda x: jnp.linalg.norm(x, axis=-1), [ROWS], ["ReduceL2"]),
    Idiom("l2.overflow", lambda x: jnp.linalg.norm(x, axis=0), [ROUND_ZERO[:1]], ["ReduceL2"]),
    Idiom("squares", lambda x: jnp.sum(x * x, 1, keepdims=True), [ROWS], ["ReduceSumSquare"]),
    Idiom(
        "unit",
        lambda x: x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6),
        [ROWS],
        ["ReduceSumSquare", "Add", "Sqrt", "Div"],
    ),
    Idiom("logsumexp", lambda x: jax.nn.logsumexp(x, axis=1), [EXTREMES], LOG_SUM_EXP),
    Idiom(
        "logsumexp.keep",
        lambda x: jax.nn.logsumexp(x, axis=(0, 2), keepdims=True),
        [EXTREMES[:, :, None] + ROWS[:1, :1, :3]],
        [op for op in LOG_SUM_EXP if op != "Unsqueeze"],
    ),
    Idiom("celu", lambda x: jax.nn.celu(x, 2.0), [ROUND_ZERO], ["Celu"]),
    Idiom("selu", jax.nn.selu, [ROUND_ZERO], ["Selu"]),
    Idiom("mish", jax.nn.mish, [ROUND_ZERO], ["Mish"]),
    Idiom("mish.sum", lambda x: jax.nn.mish(x + 1), [ROUND_ZERO], ["Add", "Mish"]),
    Idiom("softplus.sum", lambda x: jax.nn.softplus(x + 1), [ROUND_ZERO], ["Add", "Softplus"]),
    Idiom("soft_sign", jax.nn.soft_sign, [ROUND_ZERO], ["Softsign"]),
    Idiom("prelu", lambda x: jnp.where(x >= 0, x, B * x), [ROUND_ZERO], ["PRelu"]),
    Idiom("prelu.rows", lambda x: jnp.where(x > 0, x, x * W), [ROWS], ["PRelu"]),
    Idiom("turned", lambda x, y: x.T @ y, [ROWS[0], ROWS[1]], ["Gemm"]),
    Idiom("pixels", pixels_of_channels, [CHANNELS], ["Reshape", "Transpose", "Reshape"]),
    Idiom("channels", channels_of_pixels, [IMAGE], ["Reshape", "Transpose", "Reshape"]),
    Idiom("hard_swish", jax.nn.hard_swish, [ROUND_ZERO], ["HardSwish"]),
    Idiom("hard_tanh", jax.nn.hard_tanh, [ROUND_ZERO], ["Clip"]),
    Idiom("relu6", jax.nn.relu6, [ROUND_ZERO], ["Clip"]),
    Idiom(
        "softmax.where",
        lambda x, m: jax.nn.softmax(x, where=m),
        [SCORES, MASK],
        ["Where", "Softmax", "Where"],
    ),
    Idiom("take", lambda i: jnp.take(jnp.asarray(TABLE), i, axis=0), [PLACES], FILLED, 0, 0),
    Idiom("embed", lambda i: jnp.asarray(TABLE)[i], [PLACES], ["Clip", "Gather"], 0, 0),
    Idiom(
        "embed.equinox",
        jax.vmap(eqx.nn.Embedding(weight=jnp.asarray(TABLE))),
        [PLACES[1]],
        ["Clip", "Gather"],
        0,
        0,
    ),
    Idiom("entry", lambda x, i: x[i], [TABLE, PLACES[1, 1]], ["Clip", "Gather"], 0, 0),
    Idiom("entry.last", lambda x: x[:, -1], [TABLE], ["Gather"], 0, 0),
    Idiom(
        "causal",
        lambda x: jnp.where(jnp.tril(jnp.ones((16, 16), bool)), x, -1e9),
        [RNG.standard_normal((2, 16, 16)).astype(np.float32)],
        ["Where"],
        0,
        0,
    ),
    Idiom("tril", lambda x: jnp.tril(x, -1), [PLACES], ["Where"], 0, 0),
    Idiom("triu", lambda x: jnp.triu(x, 2), [np.where(ROWS > 0, np.nan, ROWS)], ["Where"], 0, 0),
    Idiom("tril.flags", jnp.tril, [MASK], ["And"], 0, 0),
    Idiom(
        "select",
        lambda c, d, x: jnp.select([c, d], [x, -x], x[0]),
        [MASK, MASK[::-1], SCORES],
        ["Neg", "Gather", "Where", "Where"],
        0,
        0,
    ),
    Idiom(
        "thresholded_relu",
        lambda x: jnp.where(x > 0.5, x, 0.0),
        [ROUND_ZERO],
        ["ThresholdedRelu"],
        0,
        0,
    ),
    Idiom(
        "thresholded_relu.at_least",
        lambda x: jnp.where(x >= 2.5, x, 0.0),
        [ROUND_ZERO],
        ["GreaterOrEqual", "Where"],
        0,
        0,
    ),
    Idiom(
        "select.constant",
        lambda x: x + jnp.select([MASK, MASK[::-1]], [1 - SCORES, SCORES]),
        [SCORES],
        ["Add"],
        0,
        0,
    ),
    Idiom(
        "cond",
        lambda x: jax.lax.cond(x[0] < x[1], jnp.sin, jnp.cos, x),
        [SCORES[0]],
        ["Gather", "Gather", "Less", "If"],
    ),
    Idiom("less", lambda x: x < x[::-1], [ROUND_ZERO], ["Slice", "Less"], 0, 0),
    Idiom("less_or_equal", lambda x: x <= 1.0, [ROUND_ZERO], ["LessOrEqual"], 0, 0),
    Idiom(
        "leaky_relu.turned",
        lambda x: jnp.where(jax.lax.lt(jnp.zeros(16), x), x, 0.5 * x),
        [ROUND_ZERO],
        ["LeakyRelu"],
    ),
    Idiom(
        "mod",
        lambda x: jnp.mod(x, 3.0),
        [ROUND_ZERO],
        ["Mod", "Less", "Add", "Where"],
        0,
        0,
    ),
    Idiom("nan", lambda x: jnp.where(x != x, 0.0, x), [ROUND_ZERO], ["Equal", "Where"], 0, 0),
    Idiom("flatten", lambda x: x.reshape(5, 48)[None].reshape(48, 5), [ROWS], ["Reshape"], 0, 0),
    Idiom("transposes", lambda x: jnp.sin(x.T.T), [ROWS], ["Sin"]),
    Idiom(
        "det",
        lambda x: x[..., 0, 0] * x[..., 1, 1] - x[..., 0, 1] * x[..., 1, 0],
        [ROWS[:, :2, :2]],
        [*["Slice", "Squeeze"] * 2, "Mul", *["Slice", "Squeeze"] * 2, "Mul", "Sub"],
    ),
    Idiom(
        "det.one",
        lambda x: jnp.sin(x)[1, 2],
        [TABLE],
        ["Sin", "Slice", "Squeeze"],
    ),
    Idiom(
        "loop",
        lambda x: jax.lax.fori_loop(0, 200, lambda i, v: jnp.tanh(v * 0.9), x),
        [ROUND_ZERO],
        ["Scan"],
    ),
    Idiom("crop", lambda x: x[1:, 1:][:, :2], [ROWS], ["Slice"], 0, 0),
]


def ops(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_an_idiom_is_as_lean_as_it_gets_and_as_right(idiom: Idiom) -> None:
    model = bench.convert(idiom.fn, idiom.inputs)
    assert ops(model) == list(idiom.ops)
    [found], [wanted] = bench.run(model, idiom.inputs), bench.expected(idiom.fn, idiom.inputs)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=idiom.rtol, atol=idiom.atol)


def beside_the_root(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)


def variance_of_columns(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(0, keepdims=True) + 1e-5)


def unbiased(x: jax.Array) -> jax.Array:
    var = x.var(-1, keepdims=True, ddof=1)
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(var + 1e-5)


def root_across(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1) + 1e-5)


def groups_in_turn(x: jax.Array) -> jax.Array:
    groups = x.reshape(2, 6, 6, 4, 4)
    mean, square = groups.mean((1, 2, 3)), (groups * groups).mean((1, 2, 3))
    scale = jax.lax.rsqrt(square - mean * mean + 1e-5)
    mean, scale = (jnp.repeat(a, 4, axis=1)[:, None, None] for a in (mean, scale))
    return (x - mean) * scale


def rounded(x: jax.Array) -> jax.Array:
    return (x + 12582912.0) - 12582912.0


@pytest.mark.parametrize(
    ("fn", "x", "absent"),
    [
        (beside_the_root, ROWS, "LayerNormalization"),
        (variance_of_columns, ROWS, "LayerNormalization"),
        (unbiased, ROWS, "LayerNormalization"),
        (root_across, ROWS[:, 0, :3], "LayerNormalization"),
        (groups_in_turn, IMAGE, "InstanceNormalization"),
        (lambda x: jnp.sqrt(jnp.sum(x * jnp.abs(x), -1) + 99), ROWS, "ReduceL2"),
        (lambda x: jnp.where(x > 1, 1, jnp.where(x < -1, -2, x)), ROUND_ZERO, "Clip"),
        (lambda x: x * jax.nn.relu6(x + 3.0) / 5.0, ROUND_ZERO, "HardSwish"),
        (lambda x: jax.nn.relu(x) + 3 * jnp.expm1(jnp.minimum(x, 0) / 2), ROUND_ZERO, "Celu"),
        (lambda x: x / (2 + jnp.abs(x)), ROUND_ZERO, "Softsign"),
        (lambda x: x * jnp.tanh(jax.nn.softplus(2 * x)), ROUND_ZERO, "Mish"),
        (lambda x: jnp.where(x >= 1, x, B * x), ROUND_ZERO, "PRelu"),
        (lambda x: jnp.where(x >= 0, x, x * x), ROUND_ZERO, "PRelu"),
    ],
)
def test_what_only_looks_like_it_is_left(fn: Any, x: np.ndarray, absent: str) -> None:
    model = bench.convert(fn, [x])
    assert absent not in ops(model)
    [found], [wanted] = bench.run(model, [x]), bench.expected(fn, [x])
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def test_a_sum_that_rounds_is_not_merged() -> None:
    x = np.array([0.4, 0.6, 1.5, -2.5], np.float32)
    model = bench.convert(rounded, [x])
    assert ops(model) == ["Add", "Sub"]
    [found] = bench.run(model, [x])
    np.testing.assert_array_equal(found, np.round(x))


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("fn", [standard, by_division, scale_first, llama])
def test_norms_of_rows_far_from_zero_are_nearly_exact(fn: Any, mean: float) -> None:
    x = (RNG.standard_normal((8, 768)) + mean).astype(np.float32)[:, ::48]
    x[0] = mean
    model = bench.convert(fn, [x])
    assert len(ops(model)) == 1
    with bench.precision(True):
        exact = np.asarray(fn(x.astype(np.float64)))
    [found] = bench.run(model, [x])
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6 * (1 + mean))


@pytest.mark.parametrize("fn", [standard, llama, of_linen(linen.LayerNorm())])
def test_infinities_and_nan_spoil_their_row_alone(fn: Any) -> None:
    x = ROWS[0].copy()
    x[0, 3], x[1, 3], x[2] = np.inf, np.nan, -np.inf
    model = bench.convert(fn, [x])
    [found], [wanted] = bench.run(model, [x]), bench.expected(fn, [x])
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("fn", "wanted"),
    [
        (lambda x: jnp.mean(x, 0), ["ReduceMean"]),
        (lambda x: jnp.mean(x, (0, 1), keepdims=True), ["ReduceMean"]),
        (of_linen(linen.LayerNorm()), LAYER),
        (llama, RMS),
        (lambda x: jnp.linalg.norm(x, axis=(0, 1)), ["ReduceL2"]),
        (trained, ["Mul", "Add"]),
    ],
)
def test_sizes_may_be_known_later(fn: Any, wanted: list[str]) -> None:
    # The mean of nothing is NaN, which takes a sum and a quotient where NaN matters.
    assert ops(jax2onnx.to_onnx(fn, [("B", "T", 16)], nan="ignore")) == wanted
    model = jax2onnx.to_onnx(fn, [("B", "T", 16)])
    for rows in (1, 2, 5):
        x = RNG.standard_normal((rows, rows + 1, 16)).astype(np.float32)
        [found], [exact] = bench.run(model, [x]), bench.expected(fn, [x])
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fn", "wanted"),
    [
        (lambda x: jnp.array(x.shape), ["Shape", "Cast", "Shape", "Cast", "Concat"]),
        (lambda x: jnp.array(x.shape[1:]), ["Shape", "Cast", "Concat"]),
        (lambda x: jnp.array([x.shape[0], 15]), ["Shape", "Cast", "Concat"]),
    ],
)
def test_sizes_are_those_of_the_array(fn: Any, wanted: list[str]) -> None:
    model = jax2onnx.to_onnx(fn, [("B", "T", 16)])
    assert ops(model) == wanted
    x = np.zeros((2, 7, 16), np.float32)
    np.testing.assert_array_equal(bench.run(model, [x])[0], fn(x))


def test_a_loop_carries_only_what_is_read() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 200, lambda i, v: jnp.sin(v), x)

    [loop] = bench.convert(fn, [ROWS]).graph.node
    assert len(loop.input) == 2
    assert [node.op_type for node in loop.attribute[0].g.node] == ["Sin"]


def test_groups_need_no_batch_size() -> None:
    fn = of_linen(linen.GroupNorm(num_groups=4), (2, 6, 6, 16))
    model = jax2onnx.to_onnx(fn, [("B", 6, 6, 16)])
    assert ops(model) == IN_GROUPS
    for rows in (1, 2):
        [found], [wanted] = bench.run(model, [IMAGE[:rows]]), bench.expected(fn, [IMAGE[:rows]])
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_halves_are_normalized_in_single_precision(dtype: Any) -> None:
    x = ROWS.astype(dtype)
    model = bench.convert(llama_of_halves, [x])
    assert ops(model).count("RMSNormalization") == 1
    [found], [wanted] = bench.run(model, [x]), bench.expected(llama_of_halves, [x])
    error = 2e-3 if dtype == np.float16 else 2e-2
    np.testing.assert_allclose(found.astype("f"), wanted.astype("f"), rtol=error, atol=error)


def test_a_double_keeps_its_digits() -> None:
    x = ROWS.astype(np.float64)
    for fn in (standard, llama):
        model = bench.convert(fn, [x], double=True)
        [found], [wanted] = bench.run(model, [x]), bench.expected(fn, [x], double=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_an_earlier_opset_has_no_rms_norm() -> None:
    model = bench.convert(llama, [ROWS], opset=21)
    assert "RMSNormalization" not in ops(model)
    [found], [wanted] = bench.run(model, [ROWS]), bench.expected(llama, [ROWS])
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("fn", [of_linen(linen.LayerNorm()), standard])
def test_a_mean_has_its_axes_as_an_attribute_below_opset_18(fn: Any) -> None:
    model = bench.convert(fn, [ROWS], opset=17)
    assert ops(model) == LAYER
    [found], [wanted] = bench.run(model, [ROWS]), bench.expected(fn, [ROWS])
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    mean = bench.convert(lambda x: jnp.mean(x, (0, 2)), [ROWS], opset=17)
    assert ops(mean) == ["ReduceMean"]
    np.testing.assert_allclose(bench.run(mean, [ROWS])[0], ROWS.mean((0, 2)), atol=1e-6)


def test_an_exact_gelu_is_short_before_there_is_an_operator() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.nn.gelu(x, approximate=False)

    x = np.concatenate([ROUND_ZERO, np.linspace(-6, 6, 999, dtype=np.float32)])
    model = bench.convert(fn, [x], opset=18)
    assert ops(model) == ["Div", "Erf", "Add", "Mul", "Mul"]
    [found], [wanted] = bench.run(model, [x]), bench.expected(fn, [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_the_place_of_the_largest_needs_no_bounds() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.take(jnp.asarray(TABLE), jnp.argmax(x, -1), axis=0)

    x = RNG.standard_normal((7, 10)).astype(np.float32)
    model = bench.convert(fn, [x])
    assert "Clip" not in ops(model)
    assert ops(model)[-1] == "Gather"
    [found], [wanted] = bench.run(model, [x]), bench.expected(fn, [x])
    np.testing.assert_array_equal(found, wanted)


def test_a_loop_invariant_is_computed_once() -> None:
    def fn(w: jax.Array, x: jax.Array) -> jax.Array:
        def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(h @ jnp.sin(w).T + row), None

        return jax.lax.scan(step, jnp.zeros(4), x)[0]

    w, x = (RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (6, 4)))
    model = bench.convert(fn, [w, x])
    assert "Sin" in ops(model)
    [found], [wanted] = bench.run(model, [w, x]), bench.expected(fn, [w, x])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
