"""Layers in the spelling of each library, in any order of axes: operators and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import jax2onnx
from testkit import bench

from .test_idioms_convolution import conv
from .test_idioms_small import of_linen, ops

RNG = np.random.default_rng(0)
IMAGE = RNG.standard_normal((2, 6, 6, 16)).astype(np.float32)
CHANNELS = IMAGE.transpose(0, 3, 1, 2)
SCALE = np.linspace(0.5, 1.5, 16).astype(np.float32)
SHIFT = np.linspace(-0.5, 0.5, 16).astype(np.float32)
DENSE = RNG.standard_normal((16, 16)).astype(np.float32)
KERNEL = RNG.standard_normal((3, 3, 16, 16)).astype(np.float32)
BY_GROUP = ["Reshape", "InstanceNormalization", "Reshape", "BatchNormalization"]


def of_haiku(make: Callable[[], Any]) -> Callable[..., Any]:
    """Returns a layer of haiku whose scale and offset are not what they are initialized to."""

    def fn(x: jax.Array) -> jax.Array:
        model = hk.without_apply_rng(hk.transform(lambda x: make()(x)))
        shapes = jax.eval_shape(model.init, jax.random.key(0), x)
        names = {"scale": SCALE, "offset": SHIFT}
        weights = {
            module: {name: names[name].reshape(array.shape) for name, array in arrays.items()}
            for module, arrays in shapes.items()
        }
        return model.apply(weights, x)

    return fn


def of_keras(axis: int, count: int = 4) -> Callable[..., Any]:
    """Returns a group norm as Keras computes it: the factor and the shift first."""

    def fn(x: jax.Array) -> jax.Array:
        shape = list(x.shape)
        groups_of = [count, 16 // count]
        split = [*shape[:axis], *groups_of, *shape[axis + 1 :]]
        own = [1] * len(split)
        own[axis : axis + 2] = groups_of
        groups = x.reshape([-1, *split[1:]])
        axes = tuple(other for other in range(1, len(split)) if other != axis)
        mean, variance = groups.mean(axes, keepdims=True), groups.var(axes, keepdims=True)
        factor = jax.lax.rsqrt(variance + 1e-3) * SCALE.reshape(own)
        return (groups * factor + (-mean * factor + SHIFT.reshape(own))).reshape(x.shape)

    return fn


def layer_norm_by_factor(x: jax.Array) -> jax.Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    factor = jax.lax.rsqrt(variance + 1e-3) * SCALE
    return x * factor + (SHIFT - mean * factor)


def first(make: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    return of_haiku(lambda: make(*arguments, data_format="channels_first"))


def linen_over(axes: Any, features: Any, shape: tuple[int, ...]) -> Callable[..., Any]:
    return of_linen(linen.LayerNorm(reduction_axes=axes, feature_axes=features), shape)


INSTANCE = ["InstanceNormalization"]
TRANSPOSED = ["Transpose", "LayerNormalization", "Transpose"]
LAST, FIRST = (2, 6, 6, 16), (2, 16, 6, 6)
NORMS: dict[str, tuple[Callable[..., Any], np.ndarray, list[str]]] = {
    "haiku groups": (
        of_haiku(lambda: hk.GroupNorm(4)),
        IMAGE,
        ["Transpose", *BY_GROUP[:3], "Transpose", "Mul", "Add"],
    ),
    "haiku groups, channels first": (
        first(hk.GroupNorm, 4),
        CHANNELS,
        BY_GROUP,
    ),
    "haiku instances, channels first": (first(hk.InstanceNorm, True, True), CHANNELS, INSTANCE),
    "haiku whole images": (
        of_haiku(lambda: hk.LayerNorm((1, 2, 3), True, True, param_axis=-1)),
        IMAGE,
        ["LayerNormalization", "Mul", "Add"],
    ),
    "keras groups": (of_keras(3), IMAGE, ["Transpose", *BY_GROUP, "Transpose"]),
    "keras groups, channels first": (
        of_keras(1),
        CHANNELS,
        ["Reshape", *INSTANCE, "Mul", "Add", "Reshape"],
    ),
    "keras groups of one channel": (of_keras(3, 16), IMAGE, ["Transpose", *INSTANCE, "Transpose"]),
    "keras layer": (layer_norm_by_factor, IMAGE, ["LayerNormalization"]),
    "linen channels first": (linen_over(1, 1, FIRST), CHANNELS, TRANSPOSED),
    "linen instances, channels first": (linen_over((2, 3), 1, FIRST), CHANNELS, INSTANCE),
    "linen rows of images": (linen_over(2, 2, LAST), IMAGE[:, :, :, :], TRANSPOSED),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_a_norm_over_any_axes_is_one_operator(name: str, is_symbolic: bool) -> None:
    fn, x, wanted = NORMS[name]
    model = jax2onnx.to_onnx(fn, [("B", *x.shape[1:])]) if is_symbolic else bench.convert(fn, [x])
    assert ops(model) == wanted
    for batch in (0, 1, 2) if is_symbolic else (2,):
        [found], [want] = bench.run(model, [x[:batch]]), bench.expected(fn, [x[:batch]])
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NORMS)
def test_nan_and_infinity_spread_over_a_norm_as_in_jax(name: str) -> None:
    fn, x, _ = NORMS[name]
    x = x.copy()
    x[0, 0, 0, 0], x[1, 3, 3, 3] = np.nan, np.inf
    [found], [want] = bench.run(bench.convert(fn, [x]), [x]), bench.expected(fn, [x])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_groups_of_halves_are_cast_once(dtype: Any) -> None:
    fn = of_linen(linen.GroupNorm(num_groups=4, dtype=dtype), IMAGE.shape)
    x = IMAGE.astype(dtype)
    model = bench.convert(fn, [x])
    assert ops(model) == ["Cast", "Transpose", *BY_GROUP, "Transpose", "Cast"]
    [found], [want] = bench.run(model, [x]), bench.expected(fn, [x])
    error = 2e-3 if dtype == np.float16 else 2e-2
    np.testing.assert_allclose(found.astype("f"), want.astype("f"), rtol=error, atol=error)


def test_a_norm_that_is_mapped_over_images_is_one_operator() -> None:
    norm = of_linen(linen.GroupNorm(num_groups=4), (1, 6, 6, 16))
    fn = jax.vmap(lambda x: norm(x[None])[0])
    model = jax2onnx.to_onnx(fn, [("B", 6, 6, 16)])
    assert ops(model) == ["Transpose", *BY_GROUP, "Transpose"]
    [found], [want] = bench.run(model, [IMAGE]), bench.expected(fn, [IMAGE])
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def shifted_by_another_factor(x: jax.Array) -> jax.Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    factor = jax.lax.rsqrt(variance + 1e-3)
    return x * (factor * SCALE) - mean * factor


def groups_of_a_place(x: jax.Array) -> jax.Array:
    groups = x.reshape(2, 6, 6, 4, 4)
    mean, variance = groups.mean((1, 4), keepdims=True), groups.var((2, 4), keepdims=True)
    return ((groups - mean) * jax.lax.rsqrt(variance + 1e-3)).reshape(x.shape)


@pytest.mark.parametrize("fn", [shifted_by_another_factor, groups_of_a_place])
def test_a_near_miss_of_a_norm_is_not_fused(fn: Any) -> None:
    model = bench.convert(fn, [IMAGE])
    assert not any("Normalization" in op for op in ops(model))
    [found], [want] = bench.run(model, [IMAGE]), bench.expected(fn, [IMAGE])
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_without_fused_norms_a_scale_and_a_shift_stay() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * SCALE[:, None, None] + SHIFT[:, None, None]

    fused, parts = (
        bench.convert(fn, [CHANNELS], normalization_mode=mode)
        for mode in ("auto", "force_decomposed")
    )
    assert ops(fused) == ["Tanh", "BatchNormalization"]
    assert ops(parts) == ["Tanh", "Mul", "Add"]
    [found], [want] = bench.run(fused, [CHANNELS]), bench.expected(fn, [CHANNELS])
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)


def test_a_dense_layer_between_convolutions_is_a_convolution() -> None:
    def block(x: jax.Array) -> jax.Array:
        x = conv(x, KERNEL)
        return conv(jax.nn.relu(x @ DENSE + SHIFT) + x, KERNEL)

    model = jax2onnx.to_onnx(block, [("B", 6, 6, 16)])
    assert ops(model) == ["Transpose", "Conv", "Conv", "Relu", "Add", "Conv", "Transpose"]
    for batch in (0, 1, 2):
        [found], [want] = bench.run(model, [IMAGE[:batch]]), bench.expected(block, [IMAGE[:batch]])
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)


def test_dense_layers_of_tokens_between_convolutions_read_one_transpose() -> None:
    def block(x: jax.Array) -> jax.Array:
        x = conv(x, KERNEL)
        q, k, v = (x @ (DENSE * factor) for factor in (0.01, 0.02, 0.03))
        q, k, v = (one.reshape(2, 36, 16) for one in (q, k, v))
        mixed = jax.nn.softmax(q @ k.swapaxes(1, 2)) @ v
        return conv(x + mixed.reshape(x.shape), KERNEL)

    model = bench.convert(block, [IMAGE])
    assert Counter(ops(model))["Transpose"] <= 5
    [found], [want] = bench.run(model, [IMAGE]), bench.expected(block, [IMAGE])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-2)


def test_a_layer_that_is_mapped_over_rows_is_a_product_of_rows() -> None:
    def row(x: jax.Array) -> jax.Array:
        hidden = jnp.tanh(DENSE @ x + SHIFT)
        return DENSE.T @ hidden

    rows = IMAGE[0, 0]
    model = bench.convert(jax.vmap(row), [rows])
    assert ops(model) == ["Gemm", "Tanh", "MatMul"]
    [found], [want] = bench.run(model, [rows]), bench.expected(jax.vmap(row), [rows])
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


STEPS = RNG.standard_normal((3, 5, 4)).astype(np.float32)


def sines(array: jax.ShapeDtypeStruct) -> np.ndarray:
    return np.sin(np.arange(array.size, dtype=np.float32)).reshape(array.shape)


def of_haiku_core(make: Callable[[], Any]) -> Callable[..., Any]:
    """Returns a core of haiku, unrolled over the second axis."""

    def unroll(x: jax.Array) -> jax.Array:
        core = make()
        x = jnp.swapaxes(x, 0, 1)
        return jnp.swapaxes(hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0], 0, 1)

    def fn(x: jax.Array) -> jax.Array:
        model = hk.without_apply_rng(hk.transform(unroll))
        shapes = jax.eval_shape(model.init, jax.random.key(0), x)

        return model.apply(jax.tree.map(sines, shapes), x)

    return fn


def of_equinox_cell(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a cell of equinox that is scanned over steps and mapped over a batch."""

    cell = eqx.filter_eval_shape(make, 4, 6, key=jax.random.key(0))
    cell = jax.tree.map(lambda leaf: sines(leaf) if hasattr(leaf, "shape") else leaf, cell)

    def row(x: jax.Array) -> jax.Array:
        zeros = jnp.zeros(6)
        start = (zeros, zeros) if make is eqx.nn.LSTMCell else zeros

        def step(state: Any, x: jax.Array) -> Any:
            state = cell(x, state)
            return state, jax.tree.leaves(state)[0]

        return jax.lax.scan(step, start, x)[1]

    return jax.vmap(row)


def gru_of_keras(x: jax.Array) -> jax.Array:
    """A GRU whose products with the inputs are computed before the scan."""
    kernel, state = (np.sin(np.arange(size * 18)).reshape(size, 18) for size in (4, 6))
    gates = jnp.swapaxes(x @ jnp.asarray(kernel, jnp.float32), 0, 1)

    def step(h: jax.Array, x: jax.Array) -> Any:
        xz, xr, xn = jnp.split(x, 3, -1)
        hz, hr, hn = jnp.split(h @ jnp.asarray(state, jnp.float32), 3, -1)
        z, r = jax.nn.sigmoid(xz + hz), jax.nn.sigmoid(xr + hr)
        h = z * h + (1 - z) * jnp.tanh(xn + r * hn)
        return h, h

    return jnp.swapaxes(jax.lax.scan(step, jnp.zeros((x.shape[0], 6)), gates)[1], 0, 1)


def of_linen_cell(cell: Any) -> Callable[..., Any]:
    """Returns a layer of linen."""
    layer = linen.RNN(cell)
    params = jax.eval_shape(layer.init, jax.random.key(0), STEPS)
    params = jax.tree.map(lambda leaf: sines(leaf) / 8, params)
    return lambda x: layer.apply(params, x)


# The weights of the large ones are not joined before the model is written.
RECURRENT = {
    "linen lstm": (of_linen_cell(linen.OptimizedLSTMCell(6)), "LSTM"),
    "large linen lstm": (of_linen_cell(linen.OptimizedLSTMCell(300)), "LSTM"),
    "large linen gru": (of_linen_cell(linen.GRUCell(300)), "GRU"),
    "haiku gru": (of_haiku_core(lambda: hk.GRU(6)), "GRU"),
    "equinox lstm": (of_equinox_cell(eqx.nn.LSTMCell), "LSTM"),
    "equinox gru": (of_equinox_cell(eqx.nn.GRUCell), "GRU"),
    "keras gru": (gru_of_keras, "GRU"),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_layer_is_one_operator(name: str) -> None:
    fn, operator = RECURRENT[name]
    model = jax2onnx.to_onnx(fn, [("B", 5, 4)])
    branches = [a.g for node in model.graph.node for a in node.attribute if a.name == "then_branch"]
    assert [node.op_type for branch in branches for node in branch.node] == [operator]
    nan = STEPS.copy()
    nan[1, 2, 3] = np.nan
    infinite = STEPS.copy()
    infinite[2, 0, 0] = np.inf
    for x in (STEPS, STEPS[:1], STEPS[:0], nan, infinite):
        [found], [want] = bench.run(model, [x]), bench.expected(fn, [x])
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 5])
def test_a_recurrent_layer_with_a_head_in_its_loop_is_one_operator(length: int) -> None:
    cell = linen.GRUCell(6)
    params = jax.eval_shape(cell.init, jax.random.key(0), jnp.zeros((2, 6)), jnp.zeros((2, 4)))
    params = jax.tree.map(lambda leaf: sines(leaf), params)
    head = np.sin(np.arange(18, dtype=np.float32)).reshape(6, 3)

    def fn(xs: jax.Array) -> Any:
        def step(h: jax.Array, x: jax.Array) -> Any:
            h, _ = cell.apply(params, h, x)
            return h, (jax.nn.relu(h @ head + 1.0), h[:, 0] * x[:, 1])

        return jax.lax.scan(step, jnp.zeros((2, 6)), xs)

    xs = np.sin(np.arange(length * 8, dtype=np.float32)).reshape(length, 2, 4)
    model = jax2onnx.to_onnx(fn, [xs])
    branches = [a.g for node in model.graph.node for a in node.attribute if a.name == "then_branch"]
    assert [node.op_type for branch in branches for node in branch.node] == ["GRU"]
    nan = xs.copy()
    nan[-1, 0, 1] = np.nan
    for x in (xs, nan):
        for found, want in zip(bench.run(model, [x]), bench.expected(fn, [x]), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared", [None, (1, 2)])
def test_a_prelu_of_relus_is_one_operator(shared: Any) -> None:
    slope = np.linspace(-0.5, 0.5, 16).astype(np.float32)
    slope = slope if shared else np.resize(slope, IMAGE.shape[1:])

    def fn(x: jax.Array) -> jax.Array:
        return jax.nn.relu(x) + -slope * jax.nn.relu(-x)

    x = IMAGE.copy()
    x[0, 0, 0, :4] = np.nan, np.inf, -np.inf, -0.0
    model = bench.convert(fn, [x])
    assert ops(model) == ["PRelu"]
    [found], [want] = bench.run(model, [x]), bench.expected(fn, [x])
    np.testing.assert_array_equal(found, want)


def test_an_rms_norm_whose_mean_is_broadcast_is_one_operator() -> None:
    fn = of_haiku(lambda: hk.RMSNorm(-1))
    model = jax2onnx.to_onnx(fn, [("B", 6, 6, 16)])
    assert ops(model) == ["RMSNormalization"]
    [found], [want] = bench.run(model, [IMAGE]), bench.expected(fn, [IMAGE])
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_an_image_that_is_enlarged_by_repeating_is_resized() -> None:
    def fn(x: jax.Array) -> jax.Array:
        x = conv(x, KERNEL)
        return conv(jnp.repeat(jnp.repeat(x, 2, axis=1), 3, axis=2), KERNEL)

    model = jax2onnx.to_onnx(fn, [("B", 6, 6, 16)])
    assert ops(model) == ["Transpose", "Conv", "Resize", "Conv", "Transpose"]
    for batch in (1, 2):
        [found], [want] = bench.run(model, [IMAGE[:batch]]), bench.expected(fn, [IMAGE[:batch]])
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-2)


def mean_square(x: jax.Array) -> jax.Array:
    return jnp.mean(jnp.power(x, jnp.float32(2.0)), -1, keepdims=True) + 1e-6


SPELLINGS: dict[str, tuple[Callable[..., Any], str]] = {
    "power": (lambda x: x * jax.lax.rsqrt(mean_square(x)) * SCALE, "RMSNormalization"),
    "quotient": (lambda x: x * (1 / jnp.sqrt(mean_square(x))) * SCALE, "RMSNormalization"),
    "negative power": (lambda x: x * mean_square(x) ** -0.5 * SCALE, "RMSNormalization"),
    "root": (lambda x: x / mean_square(x) ** 0.5 * SCALE, "RMSNormalization"),
    "layer": (
        lambda x: (lambda d: SHIFT + SCALE * d * (1 / jnp.sqrt(mean_square(d))))(
            x - x.mean(-1, keepdims=True)
        ),
        "LayerNormalization",
    ),
    "hard swish": (lambda x: x * jax.nn.relu6(x + 3) / 6, "HardSwish"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_another_spelling_is_the_same_operator(name: str) -> None:
    fn, operator = SPELLINGS[name]
    model = bench.check(fn, [IMAGE * 3], rtol=1e-5, atol=1e-5)
    assert ops(model) == [operator]
