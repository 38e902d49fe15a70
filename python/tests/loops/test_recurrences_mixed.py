"""States whose numbers a constant matrix mixes are computed in chunks of steps."""

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
from testkit.accuracy import graphs_of

STEPS, SIZE = 100, 6


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def contraction(size: int, seed: int = 0) -> np.ndarray:
    matrix = draw(size, size, seed=seed)
    return (matrix / np.linalg.norm(matrix, 2) / 1.05).astype(np.float32)


X, H = draw(STEPS, SIZE), draw(SIZE, seed=1)
A, B = contraction(SIZE, seed=2), draw(SIZE, SIZE, seed=3)
POLES = (0.95 * np.exp(1j * np.linspace(0, 3, SIZE))).astype(np.complex64)


def over(step: Callable[..., Any], start: Any, *, reverse: bool = False) -> Callable[..., Any]:
    return lambda x: lax.scan(step, start, x, reverse=reverse)


def linear_network(h: jax.Array, x: jax.Array) -> Any:
    h = A @ h + B @ x
    return h, jnp.tanh(h)


def rotation(state: Any, x: jax.Array) -> Any:
    a, b = state
    a, b = 0.8 * a - 0.6 * b + x, 0.6 * a + 0.8 * b
    return (a, b), a * b


def direct_form(state: Any, x: jax.Array) -> Any:
    """A biquad that keeps its last two inputs and outputs."""
    x1, x2, y1, y2 = state
    y = 0.2 * x + 0.4 * x1 + 0.2 * x2 + 0.5 * y1 - 0.3 * y2
    return (x, x1, y, y1), y


def transposed_form(state: jax.Array, x: jax.Array) -> Any:
    y = 0.2 * x + state[0]
    return jnp.stack([0.4 * x + 0.5 * y + state[1], 0.2 * x - 0.3 * y]), y


def companion(state: jax.Array, x: jax.Array) -> Any:
    """A filter whose state is its last outputs."""
    y = x - state @ jnp.array([0.5, -0.3, 0.1])
    return jnp.concatenate([y[None], state[:-1]]), y


def kalman(state: jax.Array, x: jax.Array) -> Any:
    state = jnp.array([[1.0, 0.1], [0.0, 1.0]]) @ state
    state = state + jnp.array([0.3, 0.2]) * (x[0] - state[0])
    return state, state


def complex_states(state: jax.Array, x: jax.Array) -> Any:
    state = POLES * state + x
    return state, (state * (1 + 2j)).real


def runge_kutta(x: jax.Array, _: Any) -> Any:
    def f(x: jax.Array) -> jax.Array:
        return jnp.array([[0.0, 1.0], [-1.0, -0.1]]) @ x

    k1 = f(x)
    k2 = f(x + 0.05 * k1)
    k3 = f(x + 0.05 * k2)
    x = x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + 0.1 * k3))
    return x, x


def neighbours(h: jax.Array, x: jax.Array) -> Any:
    """A step of diffusion along a ring."""
    h = h + 0.2 * (jnp.roll(h, 1) - 2 * h + jnp.roll(h, -1)) + 0.1 * x
    return h, h


def batched(x: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = h @ A.T + x
        return h, h

    return lax.scan(step, jnp.zeros((3, SIZE)), x[:, None] * jnp.array([[1.0], [2.0], [3.0]]))


def of_state(h: jax.Array, x: jax.Array) -> Any:
    return lax.scan(linear_network, h, x)


def several(x: jax.Array) -> Any:
    """Blocks of different sizes, and a state that the step before last determines."""

    def step(state: Any, x: jax.Array) -> Any:
        a, b, c, last = state
        a, b = 0.5 * a - 0.4 * b + last, 0.3 * b + a
        c = contraction(4) @ c + x[:4]
        return (a, b, c, x), (a, c[0] + b)

    zeros = (jnp.zeros(SIZE), jnp.ones(SIZE), jnp.ones(4), jnp.zeros(SIZE))
    return lax.scan(step, zeros, x)


def beside_a_maximum(x: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, top = state
        top = jnp.maximum(top, x)
        h = A @ h + top
        return (h, top), h - top

    return lax.scan(step, (jnp.zeros(SIZE), H), x)


TWO = (jnp.zeros(SIZE), H)
FOUR = (H, 0.5 * H, jnp.ones(SIZE), jnp.zeros(SIZE))
PROGRAMS: dict[str, Callable[..., Any]] = {
    "linear-network": over(linear_network, H),
    "linear-network-backwards": over(linear_network, H, reverse=True),
    "rotation": over(rotation, TWO),
    "rotation-backwards": over(rotation, TWO, reverse=True),
    "direct-form": over(direct_form, FOUR),
    "direct-form-backwards": over(direct_form, FOUR, reverse=True),
    "transposed-form": over(transposed_form, draw(2, SIZE)),
    "companion": lambda x: lax.scan(companion, H[:3], x[:, 0]),
    "kalman": over(kalman, H[:2]),
    "complex-states": over(complex_states, (H * (1 - 1j)).astype(np.complex64)),
    "neighbours": over(neighbours, H),
    "batched": batched,
    "several": several,
}


def has_chunks(model: onnx.ModelProto) -> bool:
    return any(graph.name == "recurrence/chunks" for graph in graphs_of(model))


def check(fn: Callable[..., Any], *inputs: np.ndarray, **options: Any) -> onnx.ModelProto:
    model = bench.convert(fn, inputs, **options)
    same(model, fn, *inputs)
    return model


def same(model: onnx.ModelProto, fn: Callable[..., Any], *inputs: np.ndarray) -> None:
    wanted = bench.expected(fn, inputs)
    for found, want in zip(bench.run(model, inputs), wanted, strict=True):
        size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6 * size)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_state_that_a_matrix_mixes_is_computed_in_chunks(name: str) -> None:
    assert has_chunks(check(PROGRAMS[name], X))


@pytest.mark.parametrize("target", ["onnxruntime>=1.31", "onnxruntime>=1.20"])
def test_chunks_need_no_operator_of_a_new_runtime(target: str) -> None:
    for name in ("linear-network", "direct-form", "complex-states"):
        assert has_chunks(check(PROGRAMS[name], X, target=[target]))


@pytest.mark.parametrize("steps", [1, 2, 31, 32, 33, 63, 64, 65, 257])
def test_the_number_of_steps_may_be_any(steps: int) -> None:
    for name in ("direct-form-backwards", "linear-network", "rotation", "several"):
        model = check(PROGRAMS[name], draw(steps, SIZE, seed=steps))
        assert has_chunks(model) == (steps >= 32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_steps_may_be_symbolic(name: str) -> None:
    fn = PROGRAMS[name]
    model = bench.convert(fn, [("T", SIZE)])
    assert has_chunks(model)
    for steps in (0, 1, 31, 32, 33, 255, 256, 257, 600):
        same(model, fn, draw(steps, SIZE, seed=steps))


def test_a_state_that_no_step_adds_to_is_computed_by_powers() -> None:
    def run(x: jax.Array) -> Any:
        return lax.scan(runge_kutta, x, None, length=200)

    model = check(run, H[:2])
    assert has_chunks(model)
    check(run, np.array([np.nan, 1.0], np.float32))
    loop = lax.fori_loop
    assert has_chunks(check(lambda x: loop(0, 77, lambda _, x: runge_kutta(x, None)[0], x), H[:2]))


def test_a_state_that_is_an_argument_continues() -> None:
    assert has_chunks(check(of_state, H, X))
    check(of_state, np.full_like(H, np.inf), X)


def test_a_state_that_is_not_linear_stays_in_a_smaller_loop() -> None:
    assert has_chunks(check(beside_a_maximum, draw(150, SIZE)))
    assert not has_chunks(check(beside_a_maximum, X))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e30, 1e-40, 1e35])
def test_special_numbers_give_the_same_results(special: float) -> None:
    numbers = X.copy()
    numbers[30, 2], numbers[50, 0] = special, special
    for name in ("linear-network", "rotation", "direct-form", "complex-states", "several"):
        check(PROGRAMS[name], numbers)


def by(matrix: np.ndarray) -> Callable[..., Any]:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = matrix @ h + x
        return h, h

    return lambda x: lax.scan(step, jnp.zeros(len(matrix)), x)[1]


def turn(angle: float, size: float = 1.0) -> np.ndarray:
    c, s = size * np.cos(angle), size * np.sin(angle)
    return np.array([[c, -s], [s, c]])


def resonator(angle: float, radius: float) -> np.ndarray:
    return np.array([[2 * radius * np.cos(angle), -(radius**2)], [1.0, 0.0]])


#: Matrices whose powers vanish, stay, or grow for a while.
MATRICES: dict[str, np.ndarray] = {
    "vanishing": np.array([[0.0, 1e-30], [1e-30, 0.0]]),
    "denormal": np.array([[0.5, 1e-40], [1e-40, 0.5]]),
    "nilpotent": np.triu(np.ones((4, 4)), 1),
    "exchange": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "turn": turn(0.3),
    "slow-turn": turn(1e-3),
    "resonator": resonator(0.5, 0.999),
    "slow-resonator": resonator(0.02, 0.9999),
    "position-and-speed": np.array([[1.0, 0.1], [0.0, 1.0]]),
    "units": np.array([[0.9, 1e4], [-1e-6, 0.9]]),
    "transient": np.array([[0.5, 30.0], [0.001, 0.4]]),
    "orthogonal": np.linalg.qr(draw(8, 8, seed=5))[0],
    "large-orthogonal": np.linalg.qr(draw(64, 64, seed=5))[0],
    "small": 1e-3 * draw(3, 3, seed=6),
}
GROWING: dict[str, np.ndarray] = {
    "growth": np.array([[1.05, 0.1], [0.1, 1.05]]),
    "large": np.array([[0.0, 1e25], [1e25, 0.0]]),
    "oscillation": turn(0.3, 1.05),
    "nan": np.array([[0.5, np.nan], [0.1, 0.5]]),
    "infinity": np.array([[0.5, np.inf], [0.1, 0.5]]),
}


def by_argument(x: jax.Array, a: jax.Array) -> jax.Array:
    return lax.scan(lambda h, x: (a @ h + x,) * 2, jnp.zeros(len(a)), x)[1]


@pytest.mark.parametrize("name", MATRICES)
def test_chunks_round_as_little_as_the_loop(name: str) -> None:
    matrix, steps = MATRICES[name].astype(np.float32), 1000
    x = draw(steps, len(matrix), seed=7)
    state, wanted = np.zeros(len(matrix)), []
    for row in x.astype(float):
        state = matrix.astype(float) @ state + row
        wanted.append(state)
    size = np.abs(wanted).max(0)
    (loop,) = bench.expected(by(matrix), (x,))
    for fn, inputs in ((by(matrix), (x,)), (by_argument, (x, matrix))):
        model = bench.convert(fn, inputs)
        assert has_chunks(model)
        (found,) = bench.run(model, inputs)
        errors = [np.abs(one - np.array(wanted)).max(0) / size for one in (found, loop)]
        assert (errors[0] <= 2 * errors[1] + 1e-6).all(), errors


@pytest.mark.parametrize("name", GROWING)
def test_a_state_that_may_grow_stays_in_its_loop(name: str) -> None:
    matrix = GROWING[name].astype(np.float32)
    x = draw(300, 2, seed=8)
    assert not has_chunks(check(by(matrix), x))
    # The model checks the powers of an argument.
    assert has_chunks(check(by_argument, x, matrix))


def test_the_last_inputs_are_known_without_a_loop() -> None:
    def run(last: jax.Array, x: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            a, b = state
            return (x, a), 0.5 * x - a + 2.0 * b

        return lax.scan(step, (last, 2.0 * last), x)

    for steps in (1, 2, 5, 100):
        model = check(run, H, X[:steps])
        assert not any(node.op_type in ("Scan", "Loop", "If") for node in model.graph.node)
    numbers = X.copy()
    numbers[30, 2] = np.nan
    check(run, H, numbers)
    model = bench.convert(run, [(SIZE,), ("T", SIZE)])
    for steps in (0, 1, 2, 70):
        same(model, run, H, X[:steps])


def test_the_last_inputs_are_known_without_a_loop_backwards() -> None:
    def run(x: jax.Array) -> Any:
        def step(last: jax.Array, x: jax.Array) -> Any:
            return jnp.sin(x), jnp.cos(last) * x

        return lax.scan(step, H, x, reverse=True)

    for steps in (1, 2, 100):
        assert not any(node.op_type == "Scan" for node in check(run, X[:steps]).graph.node)


def newest_last(s: jax.Array, x: jax.Array) -> Any:
    s = jnp.concatenate([s[1:], x[None]])
    return s, (s * jnp.arange(1.0, 5.0)[:, None]).sum(0)


def newest_first(s: jax.Array, x: jax.Array) -> Any:
    before = s
    s = jnp.concatenate([x[None], s[:-1]])
    return s, jnp.einsum("kc,k->c", s, jnp.arange(4.0)) + before[2]


def of_numbers(s: jax.Array, x: jax.Array) -> Any:
    s = jnp.concatenate([s[1:], x[:1]])
    return s, (s @ jnp.arange(4.0), s)


def in_columns(s: jax.Array, x: jax.Array) -> Any:
    s = jnp.concatenate([s[:, 1:], x[:, None]], axis=1)
    return s, s @ jnp.arange(4.0)


REGISTERS: dict[str, Callable[..., Any]] = {
    "newest-last": over(newest_last, draw(4, SIZE)),
    "newest-first": over(newest_first, draw(4, SIZE)),
    "of-numbers": over(of_numbers, draw(4)),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_a_shift_register_needs_no_loop(name: str) -> None:
    fn, numbers = REGISTERS[name], X.copy()
    for steps in (2, 3, 4, 5, 100):
        model = check(fn, X[:steps])
        assert not any(node.op_type in ("Scan", "Loop", "If") for node in model.graph.node)
    numbers[[30, 40, 50], 0] = np.nan, np.inf, -0.0
    check(fn, numbers)


def test_other_registers_are_computed_in_chunks() -> None:
    assert has_chunks(check(over(in_columns, draw(SIZE, 4)), X))
    assert has_chunks(check(over(newest_last, draw(4, SIZE), reverse=True), X))
    model = bench.convert(REGISTERS["newest-last"], [("T", SIZE)])
    for steps in (0, 1, 5, 70):
        same(model, REGISTERS["newest-last"], X[:steps])


def test_the_nodes_of_chunks_have_the_lines_of_the_step() -> None:
    model = bench.convert(PROGRAMS["linear-network"], (X,), provenance="minimal")
    (branch,) = [
        attr.g for node in model.graph.node for attr in node.attribute if attr.name == "then_branch"
    ]
    line = f"linear_network:{linear_network.__code__.co_firstlineno + 1}"
    for node in branch.node:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        if node.op_type != "Tanh":
            assert line in about["callsite"] + about.get("fused_from", ""), node.op_type
