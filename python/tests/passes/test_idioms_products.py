"""Products, attention and recurrent networks: the operators, and the numbers of JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx

from testkit import bench

Fn = Callable[..., Any]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def check(
    fn: Fn, inputs: Sequence[np.ndarray], specs: Sequence[Any] | None = None, nan: str = "exact"
) -> list[str]:
    """Compare the numbers, and return the operators in order, those of bodies too."""
    model: onnx.ModelProto = bench.convert(fn, specs or inputs, nan=nan)
    found, want = bench.run(model, inputs), bench.expected(fn, inputs)
    assert len(found) == len(want)
    for one_found, one_want in zip(found, want, strict=True):
        bench.assert_same(one_found, one_want, rtol=2e-5, atol=2e-6)
    return list(operators(model.graph))


def operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators(attribute.g)


Q, K, V = array(2, 5, 4, 8), array(2, 7, 4, 8, seed=1), array(2, 7, 4, 8, seed=2)
FUSED = ["Reshape", "Reshape", "Reshape", "Attention", "Reshape"]


def test_attention_is_one_node() -> None:
    assert check(jax.nn.dot_product_attention, (Q, K, V)) == FUSED


def test_attention_of_any_batch_is_one_node() -> None:
    for size in (1, 3):
        inputs = [np.resize(x, (size, *x.shape[1:])) for x in (Q, K, V)]
        specs = [("B", *x.shape[1:]) for x in (Q, K, V)]
        assert check(jax.nn.dot_product_attention, inputs, specs) == FUSED


def test_a_causal_mask_is_an_attribute() -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    assert check(causal, (K, K, V), nan="ignore") == FUSED
    model = bench.convert(causal, (K, K, V), nan="ignore")
    (attention,) = [node for node in model.graph.node if node.op_type == "Attention"]
    assert {a.name: a.i for a in attention.attribute}["is_causal"] == 1
    assert len(attention.input) == 3


def test_grouped_queries_are_one_node() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    inputs = (array(2, 6, 6, 8), array(2, 6, 2, 8, seed=1), array(2, 6, 2, 8, seed=2))
    assert check(grouped, inputs, nan="ignore") == FUSED


@pytest.mark.parametrize("shape", [(2, 1, 5, 7), (2, 4, 5, 7), (1, 1, 5, 7), (2, 1, 1, 7)])
def test_a_row_that_is_masked_as_a_whole_is_the_mean(shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(3).random(shape) < 0.6
    mask[..., 0, :] = False
    mask[0] = False

    def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, mask=mask)

    assert "Attention" in check(masked, (Q, K, V, mask), nan="ignore")


def test_a_mask_of_any_batch() -> None:
    def padded(q: Any, k: Any, v: Any) -> Any:
        mask = k[:, :, 0, 0] > 0
        return jax.nn.dot_product_attention(q, k, v, mask=mask[:, None, None, :])

    key = K.copy()
    key[1, :, 0, 0] = -1.0
    specs = [("B", *x.shape[1:]) for x in (Q, K, V)]
    assert "Attention" in check(padded, (Q, key, V), specs, nan="ignore")


def attention_by_hand(fill: float, mask: np.ndarray) -> Fn:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
        weights = jax.nn.softmax(jnp.where(mask, scores, fill), axis=-1)
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    return attend


def test_attention_by_hand_with_infinity() -> None:
    triangle = np.tril(np.ones((5, 7), np.bool_))
    assert "Attention" in check(attention_by_hand(-np.inf, triangle), (Q, K, V), nan="ignore")


def test_infinity_on_a_whole_row_is_not_a_number() -> None:
    mask = np.tril(np.ones((5, 7), np.bool_))
    mask[2] = False
    assert "Attention" not in check(attention_by_hand(-np.inf, mask), (Q, K, V), nan="ignore")


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_large_number_masks_also_a_whole_row(scale: float) -> None:
    mask = np.tril(np.ones((5, 7), np.bool_))
    for _ in range(2):
        q = np.float32(scale) * Q
        lowest = float(np.finfo(np.float32).min)
        assert "Attention" in check(attention_by_hand(lowest, mask), (q, K, V), nan="ignore")
        mask[2] = False


def test_a_number_that_scores_may_reach_does_not_mask() -> None:
    mask = np.tril(np.ones((5, 7), np.bool_))
    # All kept scores of a row are below the number, so that JAX chooses masked entries.
    q = np.float32(-1e12) * abs(Q)
    assert "Attention" not in check(attention_by_hand(-1e9, mask), (q, abs(K), V), nan="ignore")


def test_a_small_number_does_not_mask() -> None:
    mask = np.tril(np.ones((5, 7), np.bool_))
    for _ in range(2):
        assert "Attention" not in check(attention_by_hand(-5.0, mask), (Q, K, V), nan="ignore")
        mask[2] = False


def test_a_bias_with_rows_of_the_lowest_number() -> None:
    flags = np.random.default_rng(5).random((2, 1, 5, 7)) < 0.5
    flags[1, :, 3] = False

    def biased(q: Any, k: Any, v: Any, flags: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q * 0.3, k)
        bias = jnp.where(flags, 0.0, jnp.finfo(jnp.float32).min)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores + bias), v)

    assert "Attention" in check(biased, (Q, K, V, flags))


def test_a_bias_that_is_given_is_added_in_parts() -> None:
    def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores + bias), v)

    bias = array(2, 4, 5, 7)
    bias[0, 1, 2] = -np.inf
    assert "Attention" not in check(biased, (Q, K, V, bias))


def test_a_scale_for_each_head_is_not_fused() -> None:
    def scaled(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k) * jnp.arange(1.0, 5.0)[:, None, None]
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    assert "Attention" not in check(scaled, (Q, K, V))


def test_a_mask_after_the_softmax_is_not_fused() -> None:
    triangle = np.tril(np.ones((5, 7), np.bool_))

    def masked(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
        return jnp.einsum("bhts,bshd->bthd", jnp.where(triangle, weights, 0.0), v)

    assert "Attention" not in check(masked, (Q, K, V))


def test_a_softmax_over_the_rows_is_not_fused() -> None:
    def rows(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k), axis=2)
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    assert "Attention" not in check(rows, (Q, K, V))


def test_one_head_is_left_in_parts() -> None:
    assert "Attention" not in check(
        jax.nn.dot_product_attention, (Q[:1, :, :1], K[:1, :, :1], V[:1, :, :1])
    )


def test_weights_that_are_given_out_are_not_fused() -> None:
    def both(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
        return jnp.einsum("bhts,bshd->bthd", weights, v), weights

    assert "Attention" not in check(both, (Q, K, V))


def test_double_precision_is_left_in_parts() -> None:
    inputs = [x.astype(np.float64) for x in (Q, K, V)]
    model = bench.convert(jax.nn.dot_product_attention, inputs, double=True)
    assert "Attention" not in [node.op_type for node in model.graph.node]
    (found,) = bench.run(model, inputs)
    (want,) = bench.expected(jax.nn.dot_product_attention, inputs, double=True)
    bench.assert_same(found, want, rtol=1e-6, atol=1e-7)


def test_the_block_of_flax_has_no_transpose() -> None:
    block = nnx.MultiHeadAttention(4, 32, decode=False, rngs=nnx.Rngs(0))
    found = check(lambda x: block(x, deterministic=True), (array(2, 6, 32),))
    assert found == ["MatMul", "Add"] * 3 + ["Attention", "MatMul", "Add"]


def test_the_block_of_linen() -> None:
    block = linen.MultiHeadDotProductAttention(4)
    x = array(2, 6, 32)
    params = block.init(jax.random.key(0), x)
    mask = np.arange(6)[None, None, None] < np.array([4, 0])[:, None, None, None]
    found = check(lambda x, mask: block.apply(params, x, mask=mask), (x, mask), nan="ignore")
    assert "Attention" in found
    assert "Transpose" not in found


def test_the_block_of_haiku() -> None:
    fn = hk.without_apply_rng(
        hk.transform(
            lambda x: hk.MultiHeadAttention(4, 8, w_init=hk.initializers.RandomNormal(0.1))(x, x, x)
        )
    )
    x = array(2, 6, 32)
    params = fn.init(jax.random.PRNGKey(0), x)
    found = check(lambda x: fn.apply(params, x), (x,))
    assert "Attention" in found


def test_repeated_keys_and_values_are_shared() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        k, v = jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2)
        return jax.nn.dot_product_attention(q, k, v)

    assert check(grouped, (Q, K[:, :, :2], V[:, :, :2])) == FUSED


def test_keys_that_are_repeated_in_turn_are_not_shared() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        k, v = jnp.tile(k, (1, 1, 2, 1)), jnp.tile(v, (1, 1, 2, 1))
        return jax.nn.dot_product_attention(q, k, v)

    model = bench.convert(grouped, (Q, K[:, :, :2], V[:, :, :2]))
    (attention,) = [node for node in model.graph.node if node.op_type == "Attention"]
    assert {a.name: a.i for a in attention.attribute}["kv_num_heads"] == 4
    check(grouped, (Q, K[:, :, :2], V[:, :, :2]))


@pytest.mark.parametrize(
    ("spec", "shapes", "operators"),
    [
        ("btd,df->btf", [(2, 3, 4), (4, 5)], ["MatMul"]),
        ("bthd,bshd->bhts", [(2, 3, 4, 5), (2, 6, 4, 5)], ["Transpose", "Transpose", "MatMul"]),
        ("bhts,bshd->bthd", [(2, 4, 3, 6), (2, 6, 4, 5)], ["Transpose", "MatMul", "Transpose"]),
        ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)], ["MatMul", "Transpose"]),
        ("bji,bkj->bki", [(2, 4, 3), (2, 5, 4)], ["MatMul"]),
    ],
)
def test_an_einsum_moves_as_little_as_it_can(
    spec: str, shapes: list[tuple[int, ...]], operators: list[str]
) -> None:
    inputs = [array(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert check(lambda a, b: jnp.einsum(spec, a, b), inputs) == operators


X = array(6, 2, 3)


def over(step: Fn, carry: Any, reverse: bool = False) -> Fn:
    def run(x: Any) -> Any:
        return jax.lax.scan(step, carry, x, reverse=reverse)

    return run


def zeros(*shape: int) -> np.ndarray:
    return np.full(shape, 0.25, np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", [nnx.LSTMCell, nnx.OptimizedLSTMCell])
def test_the_memory_of_flax_is_one_node(cell: Any, reverse: bool) -> None:
    layer = cell(3, 4, rngs=nnx.Rngs(0))
    run = over(lambda c, x: layer(c, x), (zeros(2, 4), zeros(2, 4)), reverse)
    assert "LSTM" in check(run, (X,))
    found = check(run, (X,), nan="ignore")
    assert "LSTM" in found
    assert "Scan" not in found


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gated_unit_of_flax_is_one_node(reverse: bool) -> None:
    layer = nnx.GRUCell(3, 4, rngs=nnx.Rngs(0))
    run = over(lambda c, x: layer(c, x), zeros(2, 4), reverse)
    assert "GRU" in check(run, (X,))
    found = check(run, (X,), nan="ignore")
    assert "GRU" in found
    assert "Scan" not in found


def test_the_memory_of_any_batch() -> None:
    layer = nnx.OptimizedLSTMCell(3, 4, rngs=nnx.Rngs(0))

    def run(x: Any) -> Any:
        start = jnp.zeros((x.shape[1], 4))
        return jax.lax.scan(lambda c, x: layer(c, x), (start, start), x)[1]

    found = check(run, (X,), [(6, "B", 3)])
    assert "LSTM" in found


@pytest.mark.parametrize("cell", [linen.LSTMCell, linen.OptimizedLSTMCell, linen.GRUCell])
def test_the_layers_of_linen(cell: Any) -> None:
    layer = linen.RNN(cell(4))
    x = array(2, 6, 3)
    params = layer.init(jax.random.key(0), x)
    found = check(lambda x: layer.apply(params, x), (x,))
    assert "LSTM" in found or "GRU" in found


@pytest.mark.parametrize("cell", [eqx.nn.LSTMCell, eqx.nn.GRUCell])
def test_the_cells_of_equinox(cell: Any) -> None:
    layer = cell(3, 4, key=jax.random.key(0))

    def step(carry: Any, x: Any) -> Any:
        carry = layer(x, carry)
        return carry, carry[0] if isinstance(carry, tuple) else carry

    start = (zeros(4), zeros(4)) if cell is eqx.nn.LSTMCell else zeros(4)
    found = check(over(step, start), (X[:, 0],))
    assert "LSTM" in found or "GRU" in found


def test_the_memory_of_haiku() -> None:
    def run(x: Any) -> Any:
        core = hk.LSTM(4)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))

    fn = hk.without_apply_rng(hk.transform(run))
    params = fn.init(jax.random.PRNGKey(0), X)
    found = check(lambda x: fn.apply(params, x)[0], (X,))
    assert "LSTM" in found


W, R, B = array(3, 16), array(4, 16, seed=1), array(16, seed=2)


def memory(
    forget: Fn = jax.nn.sigmoid, squash: Fn = jnp.tanh, out: Fn = lambda c, h: h, peep: float = 0.0
) -> Fn:
    def step(carry: Any, x: Any) -> Any:
        c, h = carry
        i, f, g, o = jnp.split(x @ W + h @ R + B, 4, axis=-1)
        c = forget(f + peep * c if peep else f) * c + jax.nn.sigmoid(i) * squash(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), out(c, h)

    return over(step, (zeros(2, 4), zeros(2, 4)))


def test_the_memory_by_hand_is_one_node() -> None:
    assert "LSTM" in check(memory(), (X,))
    assert "LSTM" in check(memory(peep=0.5), (X,))


@pytest.mark.parametrize(
    "options",
    [
        {"forget": jax.nn.hard_sigmoid},
        {"squash": jnp.sin},
        {"out": lambda c, h: c},
    ],
)
def test_a_near_miss_of_a_recurrent_cell_stays_a_scan(options: dict[str, Any]) -> None:
    found = check(memory(**options), (X,))
    assert "LSTM" not in found
    assert "Scan" in found


def test_a_unit_that_resets_before_the_product_is_a_gru() -> None:
    def step(h: Any, x: Any) -> Any:
        z = jax.nn.sigmoid(x @ W[:, :4] + h @ R[:, :4])
        r = jax.nn.sigmoid(x @ W[:, 4:8] + h @ R[:, 4:8])
        n = jnp.tanh(x @ W[:, 8:12] + (r * h) @ R[:, 8:12])
        h = (1 - z) * n + z * h
        return h, h

    assert "GRU" in check(over(step, zeros(2, 4)), (X,))


def test_a_unit_that_mixes_the_other_way_is_a_gru() -> None:
    def step(h: Any, x: Any) -> Any:
        z = jax.nn.sigmoid(x @ W[:, :4] + h @ R[:, :4])
        r = jax.nn.sigmoid(x @ W[:, 4:8] + h @ R[:, 4:8])
        n = jnp.tanh(x @ W[:, 8:12] + r * (h @ R[:, 8:12]))
        h = z * n + (1 - z) * h
        return h, h

    assert "GRU" in check(over(step, zeros(2, 4)), (X,))
