"""States that outer products update, for runtimes with `LinearAttention` and in chunks of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from testkit import bench
from testkit.accuracy import graphs_of, nodes_of

TARGET, OLDER = "onnxruntime>=1.31", "onnxruntime>=1.30"
STEPS, HEADS, KEYS, VALUES = 40, 3, 5, 4
SPECIAL = [0.0, 1.0, 2.5, -0.7, 1e-40, 1e30, np.nan, np.inf, -np.inf]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def gates(*shape: int, seed: int = 0) -> np.ndarray:
    return (1.0 / (1.0 + np.exp(-draw(*shape, seed=seed)))).astype(np.float32)


S = draw(HEADS, KEYS, VALUES, seed=9)
Q, K = draw(STEPS, HEADS, KEYS), draw(STEPS, HEADS, KEYS, seed=1)
V = draw(STEPS, HEADS, VALUES, seed=2)
A, B = gates(STEPS, HEADS, KEYS, seed=3), gates(STEPS, HEADS, seed=4)
UNIT = K / np.linalg.norm(K, axis=-1, keepdims=True)


def gated(
    s: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, a: jax.Array, *, first: bool = False
) -> Any:
    """A decay for each key. `first` reads the state before its update."""

    def step(s: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, a = x
        after = s * a[..., None] + k[..., :, None] * v[..., None, :]
        return after, jnp.einsum("hd,hde->he", q, s if first else after)

    return lax.scan(step, s, (q, k, v, a))


def delta(s: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, b: jax.Array) -> Any:
    def step(s: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, b = x
        rate = k * b[:, None]
        s = s - rate[:, :, None] * (k[:, None, :] @ s) + rate[:, :, None] * v[:, None, :]
        return s, (q[:, :, None] * s).sum(1)

    return lax.scan(step, s, (q, k, v, b))


def reflected(s: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, b: jax.Array) -> Any:
    def step(s: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, b = x
        matrix = jnp.eye(KEYS) - b[:, None, None] * k[:, :, None] * k[:, None, :]
        s = matrix @ s + b[:, None, None] * k[:, :, None] * v[:, None, :]
        return s, jnp.einsum("hd,hde->he", q, s)

    return lax.scan(step, s, (q, k, v, b))


def gated_delta(
    s: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, b: jax.Array, g: jax.Array
) -> Any:
    def step(s: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, b, g = x
        s = s * jnp.exp(g).reshape(HEADS, -1, 1)
        change = b[:, None] * (v - jnp.einsum("hde,hd->he", s, k))
        s = s + k[:, :, None] * change[:, None, :]
        return s, jnp.einsum("hd,hde->he", q, s)

    return lax.scan(step, s, (q, k, v, b, g))


def transposed(s: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, a: jax.Array) -> Any:
    def step(s: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, a = x
        s = s * a[:, None, :] + v[:, :, None] * k[:, None, :]
        return s, jnp.einsum("hed,hd->he", s, q)

    return lax.scan(step, jnp.swapaxes(s, 1, 2), (q, k, v, a))


def stabilized(q: jax.Array, k: jax.Array, v: jax.Array, i: jax.Array, f: jax.Array) -> Any:
    """The memory of an xLSTM: a matrix, a vector, and the largest gate so far."""

    def step(state: Any, x: Any) -> Any:
        c, n, m = state
        q, k, v, i, f = x
        log = jax.nn.log_sigmoid(f)
        top = jnp.maximum(log + m, i)
        i, f = jnp.exp(i - top), jnp.exp(log + m - top)
        c = f[:, None, None] * c + i[:, None, None] * k[:, :, None] * v[:, None, :]
        n = f[:, None] * n + i[:, None] * k
        scale = jnp.maximum(jnp.abs((n * q).sum(-1)), 1.0)
        return (c, n, top), jnp.einsum("hd,hde->he", q, c) / scale[:, None]

    start = (jnp.zeros((HEADS, KEYS, VALUES)), jnp.zeros((HEADS, KEYS)), jnp.zeros(HEADS))
    return lax.scan(step, start, (q, k, v, i, f))


def learned(w: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, rate: jax.Array) -> Any:
    """A linear model that each step trains."""

    def step(w: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, rate = x
        w = w - rate * jnp.outer(k, k @ w - v)
        return w, q @ w

    return lax.scan(step, w, (q, k, v, rate))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in nodes_of(model)]


def check(
    fn: Callable[..., Any], *inputs: np.ndarray, specs: Any = None, **options: Any
) -> list[str]:
    """Convert a function, compare it with JAX, and return its operators. A model for older releases
    has the same numbers.
    """
    wanted = bench.expected(fn, inputs)
    for target in (OLDER, TARGET):
        model = bench.convert(fn, specs or inputs, target=[target], **options)
        for found, want in zip(bench.run(model, inputs), wanted, strict=True):
            finite = np.isfinite(want)
            size = np.abs(want[finite]).max(initial=1.0)
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6 * size)
    return operators(model)


def is_chunked(fn: Callable[..., Any], *inputs: Any, **options: Any) -> bool:
    """True if a model for older releases has a branch without the loop."""
    model = bench.convert(fn, inputs, target=[OLDER], **options)
    return any(graph.name == "recurrence/fused" for graph in graphs_of(model))


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (lambda *x: gated(*x[:4], jax.nn.sigmoid(x[4])), (S, Q, K, V, A)),
        (delta, (S, Q, UNIT, V, B)),
        (gated_delta, (S, Q, UNIT, V, B, -B)),
        (gated_delta, (S, Q, UNIT, V, B, -A)),
        (learned, (S[0], Q[:, 0], UNIT[:, 0], V[:, 0], B[:, 0])),
    ],
    ids=["gated", "delta", "gated-delta", "delta-with-a-decay-for-each-key", "learned"],
)
def test_a_state_that_outer_products_update_is_one_operator(fn: Any, inputs: Any) -> None:
    found = check(fn, *inputs)
    assert found.count("LinearAttention") == 1
    assert "Scan" not in found
    assert len(found) <= 12
    assert is_chunked(fn, *inputs)


@pytest.mark.parametrize(
    "fn",
    [
        lambda *x: gated(*x[:4], jnp.exp(-x[4]), first=True),
        lambda *x: transposed(*x[:4], jnp.exp(-x[4])),
        lambda s, *x: jax.tree.map(
            lambda y: y[0], jax.vmap(gated)(s[None], *(jnp.exp(-y)[None] for y in x))
        ),
    ],
    ids=["read-first", "transposed", "vmap"],
)
def test_the_state_may_be_read_first_or_be_transposed_or_have_a_batch(fn: Any) -> None:
    found = check(fn, S, Q, K, V, A)
    assert "LinearAttention" in found
    assert "Scan" not in found
    assert is_chunked(fn, S, Q, K, V, A)


@pytest.mark.parametrize("first", [False, True])
def test_a_reverse_scan_reads_later_steps(first: bool) -> None:
    def run(s: jax.Array, *xs: jax.Array) -> Any:
        def step(s: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
            q, k, v, a = x
            after = s * jnp.exp(-a)[..., None] + k[..., :, None] * v[..., None, :]
            return after, jnp.einsum("hd,hde->he", q, s if first else after)

        return lax.scan(step, s, xs, reverse=True)

    found = check(run, S, Q, K, V, A)
    assert "LinearAttention" in found
    assert "Scan" not in found
    assert is_chunked(run, S, Q, K, V, A)


@pytest.mark.parametrize("special", SPECIAL)
def test_special_decays_keys_queries_and_states_give_the_same_numbers(special: float) -> None:
    decays, keys, values, queries, state = (x.copy() for x in (A, K, V, Q, S))
    decays[5:8] = special
    decays[12, 1, 2] = special
    assert "LinearAttention" in check(gated, S, Q, K, V, decays)
    keys[7, 1, 2], values[9, 2] = special, special
    queries[7, 1, 2], state[1, 2, 3] = special, special
    for first in (False, True):
        check(lambda *x, first=first: gated(*x, first=first), S, queries, keys, values, A)
        check(lambda *x, first=first: gated(*x, first=first), state, Q, K, V, A)
    rates = B.copy()
    rates[5] = special
    check(delta, state, queries, UNIT, values, rates)


@pytest.mark.parametrize("special", [1.0, np.nan, np.inf])
def test_a_reflection_of_the_state_is_a_delta_rule_if_numbers_are_finite(special: float) -> None:
    state, values = S.copy(), V.copy()
    state[1, 2, 3], values[9, 2] = special, special
    assert "LinearAttention" in check(reflected, state, Q, UNIT, V, B)
    check(reflected, S, Q, UNIT, values, B)


@pytest.mark.parametrize("steps", [0, 1, 32, STEPS])
def test_the_number_of_steps_may_be_symbolic(steps: int) -> None:
    def run(s: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        decay = jnp.linspace(0.5, 1.0, HEADS)[:, None] * jnp.ones((1, KEYS))
        return gated(s, q, k, v, jnp.broadcast_to(decay, k.shape))

    specs = [S.shape, ("T", HEADS, KEYS), ("T", HEADS, KEYS), ("T", HEADS, VALUES)]
    found = check(run, S, Q[:steps], K[:steps], V[:steps], specs=specs)
    assert "LinearAttention" in found
    assert is_chunked(run, *specs)


@pytest.mark.parametrize("target", [TARGET, OLDER])
def test_a_chunk_after_another_continues_its_state(target: str) -> None:
    specs = [S.shape, *(("T", *array.shape[1:]) for array in (Q, UNIT, V, B))]
    model = bench.convert(delta, specs, target=[target])
    state, found = S, []
    for part in (slice(0, 33), slice(33, 34), slice(34, STEPS)):
        state, read = bench.run(model, (state, Q[part], UNIT[part], V[part], B[part]))
        found.append(read)
    want_state, want = bench.expected(delta, (S, Q, UNIT, V, B))
    np.testing.assert_allclose(state, want_state, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(found), want, rtol=1e-5, atol=1e-5)


def test_a_state_that_the_decay_depends_on_stays_in_the_loop() -> None:
    i, f = draw(STEPS, HEADS, seed=7), draw(STEPS, HEADS, seed=8)
    found = check(stabilized, Q, K, V, i, f)
    assert found.count("LinearAttention") == found.count("Scan") == 1
    assert is_chunked(stabilized, Q, K, V, i, f)


@pytest.mark.parametrize("target", [TARGET, OLDER])
def test_special_numbers_keep_the_results_of_another_state(target: str) -> None:
    i, f = draw(STEPS, HEADS, seed=7), draw(STEPS, HEADS, seed=8)
    model = bench.convert(stabilized, (Q, K, V, i, f), target=[target])
    values = V.copy()
    values[9, 1, 2] = np.nan
    for found, want in zip(
        bench.run(model, (Q, K, values, i, f)),
        bench.expected(stabilized, (Q, K, values, i, f)),
        strict=True,
    ):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decay", [0.0, 1e-30, 1e-40, 1.0, -0.9, 1.5])
@pytest.mark.parametrize("keys", [1, KEYS])
def test_a_state_that_vanishes_or_grows_within_a_chunk_is_right(decay: float, keys: int) -> None:
    decays = np.full((STEPS, HEADS, keys), decay, np.float32)
    decays[::7] = 1.0
    check(gated, S, Q, K, V, decays)
    check(gated, 1e10 * S, Q, K, V, decays)


def test_equal_keys_and_large_rates_of_a_delta_rule_are_right() -> None:
    same = np.broadcast_to(UNIT[:1], UNIT.shape)
    for rate in (0.0, 1.0, 2.0, 2.5, -1.0):
        check(delta, S, Q, same, V, np.full_like(B, rate))
    check(gated_delta, S, Q, same, V, np.full_like(B, 2.0), np.zeros_like(B))


def test_the_nodes_of_chunks_have_the_lines_of_the_step() -> None:
    model = bench.convert(delta, (S, Q, UNIT, V, B), target=[OLDER], provenance="minimal")
    (branch,) = [graph for graph in graphs_of(model) if graph.name == "recurrence/fused"]
    start = delta.__code__.co_firstlineno
    lines = {f"delta.<locals>.step:{start + place}" for place in (3, 4)}
    for node in branch.node:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        assert lines <= {about["callsite"], *about.get("fused_from", "").split()}, node.op_type


@pytest.mark.parametrize("target", ["onnxruntime", "onnxruntime>=1.30", "onnxruntime-cuda"])
def test_other_targets_do_not_get_the_operator(target: str) -> None:
    model = bench.convert(delta, (S, Q, UNIT, V, B), target=[target])
    assert "LinearAttention" not in operators(model)
    assert [entry.domain for entry in model.opset_import] == [""]


def test_the_operator_has_the_lines_of_the_step() -> None:
    model = bench.convert(delta, (S, Q, UNIT, V, B), target=[TARGET], provenance="minimal")
    (node,) = [node for node in model.graph.node if node.op_type == "LinearAttention"]
    about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
    start = delta.__code__.co_firstlineno
    lines = {f"delta.<locals>.step:{start + place}" for place in (3, 4)}
    assert lines <= {about["callsite"], *about["fused_from"].split()}
