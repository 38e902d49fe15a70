"""States that each step multiplies by a decay are computed in chunks or in blocks of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from testkit import bench
from testkit.accuracy import graphs_of

STEPS, SIZE = 100, 6
SPECIAL = [0.0, 1.0, 1.5, -0.7, -1.0, 1e-30, 1e-40, 1e30, np.nan, np.inf, -np.inf]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def gates(*shape: int, seed: int = 0) -> np.ndarray:
    return (1.0 / (1.0 + np.exp(-draw(*shape, seed=seed)))).astype(np.float32)


X, A, H = draw(STEPS, SIZE), gates(STEPS, SIZE, seed=1), draw(SIZE, seed=2)
W = draw(SIZE, SIZE, seed=3) / 3


def over(step: Callable[..., Any], *start: Any, reverse: bool = False) -> Callable[..., Any]:
    """The scan of a step whose state is also its result."""

    def run(*xs: jax.Array) -> Any:
        def both(state: Any, x: Any) -> Any:
            state = step(state, *x)
            return state, state

        return lax.scan(both, start[0], xs, reverse=reverse)

    return run


def decayed(h: jax.Array, x: jax.Array, a: jax.Array) -> Any:
    return lax.scan(lambda h, x: (x[0] * h + x[1],) * 2, h, (a, x))


def min_gru(h: jax.Array, x: jax.Array) -> jax.Array:
    z = jax.nn.sigmoid(x @ W)
    return (1 - z) * h + z * (x @ W.T)


def gated_linear(h: jax.Array, x: jax.Array) -> jax.Array:
    """The recurrence of HGRN."""
    f = 0.2 + 0.8 * jax.nn.sigmoid(x @ W)
    return f * h + (1 - f) * jax.nn.silu(x)


def rg_lru(h: jax.Array, x: jax.Array, r: jax.Array) -> jax.Array:
    log = -8.0 * jax.nn.softplus(W[0]) * jax.nn.sigmoid(r)
    return jnp.exp(log) * h + jnp.sqrt(-jnp.expm1(2 * log)) * x


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "average": (over(lambda h, x: 0.9 * h + 0.1 * x, jnp.zeros(SIZE)), (X,)),
    "average-from-a-state": (over(lambda h, x: h + 0.1 * (x - h), H), (X,)),
    "average-of-numbers": (over(lambda h, x: 0.9 * h + 0.1 * x, 0.5), (X[:, 0],)),
    "sum": (over(lambda h, x: h + x, H), (X,)),
    "difference": (over(lambda h, x: x - h, H), (X,)),
    "alternating": (over(lambda h, x: -0.5 * h - x, H), (X,)),
    "decay-of-each-channel": (over(lambda h, x: A[0] * h + x, H), (X,)),
    "decay-of-each-step": (over(lambda h, x, a: a * h + x, H), (X, A[:, 0])),
    "min-gru": (over(min_gru, jnp.zeros(SIZE)), (X,)),
    "hgrn": (over(gated_linear, jnp.zeros(SIZE)), (X,)),
    "rg-lru": (over(rg_lru, jnp.zeros(SIZE)), (X, draw(STEPS, SIZE, seed=4))),
    "gate-of-a-difference": (over(lambda h, x, z: h + z * (x - h), H), (X, A)),
    "matrix": (over(lambda h, x, a: a[:, None] * h + x, draw(3, SIZE)), (X, A[:, :3])),
    "backwards": (over(lambda h, x: 0.9 * h + x, H, reverse=True), (X,)),
    "backwards-by-gates": (over(min_gru, H, reverse=True), (X,)),
    "state": (decayed, (H, X, A)),
}


def operators(graph: onnx.GraphProto) -> list[str]:
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += operators(attribute.g)
    return found


def is_chunked(model: onnx.ModelProto) -> bool:
    branches = [attr for node in model.graph.node for attr in node.attribute if attr.HasField("g")]
    return any(attr.name == "then_branch" for attr in branches)


def check(fn: Callable[..., Any], *inputs: np.ndarray, **options: Any) -> onnx.ModelProto:
    """Convert a function, and compare it with JAX."""
    model = bench.convert(fn, inputs, **options)
    wanted = bench.expected(fn, inputs)
    for found, want in zip(bench.run(model, inputs), wanted, strict=True):
        size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6 * size)
    return model


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_state_that_decays_is_computed_in_chunks(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    assert is_chunked(check(fn, *inputs))


@pytest.mark.parametrize("steps", [32, 37, 64, 97])
def test_the_last_chunk_may_be_shorter(steps: int) -> None:
    for name in ("average-from-a-state", "backwards", "backwards-by-gates", "min-gru"):
        fn, inputs = PROGRAMS[name]
        assert is_chunked(check(fn, *(x[:steps] for x in inputs)))


def test_states_with_the_same_decay_share_their_products() -> None:
    def run(x: jax.Array, y: jax.Array, a: jax.Array) -> Any:
        def step(state: Any, xs: Any) -> Any:
            (h, k), (x, y, a) = state, xs
            h, k = a * h + x, a * k + y
            return (h, k), h / (2 + jnp.abs(k))

        return lax.scan(step, (H, jnp.zeros(SIZE)), (x, y, a))

    model = check(run, X, X[::-1].copy(), A)
    (branch,) = [graph for graph in graphs_of(model) if graph.name == "recurrence/chunks"]
    operators = [node.op_type for node in branch.node]
    # Ten steps multiply two states, nine multiply decays, and ten chunks run one after the other.
    assert "Scan" not in operators
    assert operators.count("Mul") == 2 * 9 + 9 + 2 * 10 + 2 * 10


@pytest.mark.parametrize("special", SPECIAL)
def test_special_decays_and_numbers_give_the_same_results(special: float) -> None:
    decays, numbers, state = A.copy(), X.copy(), H.copy()
    decays[20:23, :3], decays[50, 4] = special, special
    check(decayed, H, X, decays)
    numbers[30, :2] = special
    check(decayed, H, numbers, A)
    check(decayed, H, numbers, decays)
    state[1] = special
    check(decayed, state, X, A)
    fn, _ = PROGRAMS["average-from-a-state"]
    check(fn, numbers)


@pytest.mark.parametrize("decay", [0.0, 1e-30, 1e-10, 1.0, -1.0, 1.5, 1e20])
def test_a_state_that_vanishes_or_grows_within_a_chunk_is_right(decay: float) -> None:
    decays = np.full_like(A, decay)
    decays[::7] = 1.0
    check(decayed, H, X, decays)
    check(decayed, 1e20 * H, X, decays)
    check(over(lambda h, x: decay * h + x, H), X)


def test_results_may_read_the_state_before_and_after_a_step() -> None:
    def run(x: jax.Array, a: jax.Array) -> Any:
        def step(h: jax.Array, xs: Any) -> Any:
            x, a = xs
            after = a * h + x
            return after, (jnp.tanh(after) * x, h @ W, x - 1.0)

        return lax.scan(step, jnp.zeros(SIZE), (x, jax.nn.sigmoid(a)))

    assert is_chunked(check(run, X, A))


def test_moments_are_computed_together() -> None:
    def run(x: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            m, v = state
            m, v = 0.9 * m + 0.1 * x, 0.95 * v + 0.05 * x * x
            return (m, v), m / (jnp.sqrt(v) + 1e-6)

        return lax.scan(step, (jnp.zeros(SIZE), jnp.zeros(SIZE)), x)

    assert is_chunked(check(run, X))


STAYS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "maximum": (over(lambda h, x: jnp.maximum(0.9 * h, x), H), (X,)),
    "tanh": (over(lambda h, x: 0.9 * jnp.tanh(h) + x, H), (X,)),
    "square": (over(lambda h, x: 0.1 * h * h + x, H), (X,)),
    "gate-of-the-state": (over(lambda h, x: jax.nn.sigmoid(h) * h + x, H), (X,)),
    "growth": (over(lambda h, x: 1.1 * h + x, H), (X,)),
    "short": (over(lambda h, x: 0.9 * h + x, H), (X[:8],)),
    "difference-close-to-one": (over(lambda h, x: h + 1e-4 * (x - h), H), (X,)),
    "large": (over(lambda h, x: 0.9 * h + x, jnp.zeros(5000)), (draw(40, 5000),)),
}


@pytest.mark.parametrize("name", STAYS)
def test_other_states_stay_in_their_loops(name: str) -> None:
    fn, inputs = STAYS[name]
    assert not is_chunked(check(fn, *inputs))


CHANNELS, STATES = 72, 16
RATES = -np.exp(draw(CHANNELS, STATES, seed=5))
DT = np.log1p(np.exp(draw(STEPS, CHANNELS, seed=6) - 2)).astype(np.float32)
U, B, C = draw(STEPS, CHANNELS, seed=7), draw(STEPS, STATES, seed=8), draw(STEPS, STATES, seed=9)
START = draw(CHANNELS, STATES, seed=10)


def selective(
    h: jax.Array, u: jax.Array, dt: jax.Array, b: jax.Array, c: jax.Array, *, reverse: bool = False
) -> Any:
    """The selective scan of Mamba."""

    def step(h: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        u, dt, b, c = x
        h = jnp.exp(dt[:, None] * RATES) * h + (dt * u)[:, None] * b
        return h, h @ c + 0.5 * u

    return lax.scan(step, h, (u, dt, b, c), reverse=reverse)


def by_einsum(h: jax.Array, u: jax.Array, dt: jax.Array, b: jax.Array, c: jax.Array) -> Any:
    def step(h: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        u, dt, b, c = x
        decay = jnp.exp(jnp.einsum("d,dn->dn", dt, RATES))
        h = decay * h + jnp.einsum("d,n,d->dn", dt, b, u)
        return h, jnp.einsum("dn,n->d", h, c)

    return lax.scan(step, h, (u, dt, b, c))


def transposed(h: jax.Array, u: jax.Array, dt: jax.Array, b: jax.Array, c: jax.Array) -> Any:
    def step(h: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        u, dt, b, c = x
        before = h
        h = jnp.exp(RATES.T * dt) * h + b[:, None] * (dt * u)
        return h, ((h * c[:, None]).sum(0) - c @ before) * u

    return lax.scan(step, h.T, (u, dt, b, c))


def whole(h: jax.Array, u: jax.Array, dt: jax.Array, b: jax.Array, c: jax.Array) -> Any:
    """Returns the states of all steps."""

    def step(h: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        u, dt, b, c = x
        after = jnp.exp(dt[:, None] * RATES) * h - (dt * u)[:, None] * b
        return after, (jnp.tanh(after) * c).sum(1) + h[:, 0]

    return lax.scan(step, h, (u, dt, b, c))


def batched(h: jax.Array, u: jax.Array, dt: jax.Array, b: jax.Array, c: jax.Array) -> Any:
    two = [jnp.stack([x, 0.5 * x]) for x in (h, u, dt, b, c)]
    return jax.vmap(selective)(*two)


SELECTIVE: dict[str, Callable[..., Any]] = {
    "selective": selective,
    "backwards": lambda *x: selective(*x, reverse=True),
    "einsum": by_einsum,
    "transposed": transposed,
    "whole": whole,
    "batched": batched,
}


def is_in_blocks(model: onnx.ModelProto) -> bool:
    """True if every innermost loop only multiplies the state and adds to it."""
    bodies = list(innermost(model.graph))
    ops = {"Mul", "Add", "Identity"}
    return bool(bodies) and all({node.op_type for node in body.node} <= ops for body in bodies)


def innermost(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                inner = list(innermost(attribute.g))
                yield from inner or [attribute.g]


@pytest.mark.parametrize("steps", [STEPS, 97, 9, 1])
@pytest.mark.parametrize("name", SELECTIVE)
def test_a_large_state_is_computed_in_blocks(name: str, steps: int) -> None:
    inputs = (START, U[:steps], DT[:steps], B[:steps], C[:steps])
    model = check(SELECTIVE[name], *inputs)
    assert is_in_blocks(model) or steps == 1


@pytest.mark.parametrize("special", SPECIAL)
def test_special_numbers_of_a_large_state_give_the_same_results(special: float) -> None:
    state, rates, numbers, keys = START.copy(), DT.copy(), U.copy(), B.copy()
    state[3, 2], rates[5, 7], numbers[50, 9], keys[70, 1] = (special,) * 4
    check(selective, state, U, DT, B, C)
    check(selective, START, U, rates, B, C)
    check(selective, START, numbers, DT, keys, C)


def test_blocks_have_the_lines_of_the_step() -> None:
    model = bench.convert(selective, (START, U, DT, B, C), provenance="minimal")
    (loop,) = [node for node in model.graph.node if node.op_type == "Scan"]
    (body,) = [attr.g for attr in loop.attribute if attr.HasField("g")]
    line = f"selective.<locals>.step:{selective.__code__.co_firstlineno + 7}"
    for node in body.node:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        assert line in about["callsite"] + about.get("fused_from", ""), node.op_type


def test_the_nodes_of_chunks_have_the_lines_of_the_step() -> None:
    model = bench.convert(decayed, (H, X, A), provenance="minimal")
    (branch,) = [
        attr.g for node in model.graph.node for attr in node.attribute if attr.name == "then_branch"
    ]
    line = f"decayed.<locals>.<lambda>:{decayed.__code__.co_firstlineno + 1}"
    for node in branch.node:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        assert line in about["callsite"] + about.get("fused_from", ""), node.op_type


def test_a_number_that_is_not_finite_is_the_same_without_optimizations() -> None:
    numbers = X.copy()
    numbers[40, 2] = np.inf
    fn, _ = PROGRAMS["min-gru"]
    model = bench.convert(fn, (X,))
    (_, found), (_, want) = bench.run(model, (numbers,)), bench.expected(fn, (numbers,))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
