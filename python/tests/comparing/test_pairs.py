"""Each value that is paired with a variable of the jaxpr has its contents, in bodies too."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax2onnx
from jax2onnx import _pairs
from testkit import held
from testkit.cases import Case, all_cases
from testkit.models.networks import NETWORKS

random = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def nested_scans(xs: jax.Array, weights: jax.Array) -> Any:
    """A loop that stays in a loop that stays, and one that is unrolled, with a choice."""

    def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden = jnp.tanh(x @ weights + carry)
        hidden, _ = jax.lax.scan(lambda h, _: (jnp.sin(h) * 2 + 1, None), hidden, None, length=3)
        hidden, rows = jax.lax.scan(lambda h, w: (jnp.cos(h * w), h + w), hidden, weights)
        total = rows.sum()
        chosen = jax.lax.cond(total > 0, jnp.cos, lambda h: jnp.exp(-h * h), hidden)
        return chosen, total

    return jax.lax.scan(step, jnp.zeros(4), xs, reverse=True)


def loops_with_conditions(x: jax.Array) -> Any:
    """A `while_loop` in a `scan`, and one under `vmap`, whose lanes end one by one."""

    def halve(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda v: jnp.abs(v) > 0.1, lambda v: v * 0.5 + 0.01, x)

    def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        small = halve(x + carry)
        return carry + small, small

    return jax.vmap(halve)(x), jax.lax.scan(step, jnp.float32(0), x)


def several_branches(index: jax.Array, x: jax.Array) -> jax.Array:
    def step(x: jax.Array, index: jax.Array) -> tuple[jax.Array, None]:
        return jax.lax.switch(index, [jnp.sin, jnp.cos, lambda x: x * 2, jnp.tanh], x), None

    return jax.lax.scan(step, x, index)[0]


@jax2onnx.onnx_function
def block(x: jax.Array, weights: jax.Array) -> jax.Array:
    return x + jnp.tanh(x @ weights) * 0.5


@jax2onnx.onnx_function
def two_blocks(x: jax.Array, weights: jax.Array) -> jax.Array:
    return block(jnp.sin(block(x, weights)), weights)


def functions(x: jax.Array, weights: jax.Array) -> jax.Array:
    """Functions that call functions, in a loop too, and share their bodies."""
    y = two_blocks(x, weights) + block(x, weights.T)

    def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return block(carry, weights), None

    return jax.lax.scan(step, y, None, length=50)[0]


@jax.custom_jvp
def cubed(x: jax.Array) -> jax.Array:
    return x * x * x


cubed.defjvps(lambda t, _, x: 3 * x * x * t)


def derivatives(x: jax.Array, weights: jax.Array) -> Any:
    """A gradient through `checkpoint`, a custom rule and a loop."""

    @jax.checkpoint
    def layer(x: jax.Array) -> jax.Array:
        return cubed(jnp.tanh(x @ weights))

    def loss(x: jax.Array) -> jax.Array:
        y, _ = jax.lax.scan(lambda h, _: (layer(h), None), x, None, length=40)
        return jnp.sum(y**2)

    return jax.value_and_grad(loss)(x)


def complex_numbers(x: jax.Array) -> jax.Array:
    return jnp.abs(jnp.fft.fft(x) * (1 + 2j))


def keys(seed: jax.Array) -> jax.Array:
    key = jax.random.key(seed)
    return jax.random.normal(jax.random.split(key)[1], (3,))


PROGRAMS = {
    "nested scans": (nested_scans, (normal(40, 3), normal(3, 4))),
    "loops with conditions": (loops_with_conditions, (normal(5) * 4,)),
    "several branches": (several_branches, (np.arange(60, dtype=np.int32) % 4, normal(3))),
    "functions": (functions, (normal(2, 4), normal(4, 4))),
    "derivatives": (derivatives, (normal(2, 4), normal(4, 4))),
    "complex numbers": (complex_numbers, (normal(8),)),
    "keys": (keys, (np.uint32(3),)),
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_value_holds_its_variable_in_each_round_of_a_program(name: str, optimize: bool) -> None:
    fn, inputs = PROGRAMS[name]
    checked = held.check(fn, inputs, optimize=optimize)
    assert not checked.wrong
    assert checked.compared > 0


#: The vectors of complex matrices are unique up to a factor, which rounding decides. Of infinity,
#: ONNX Runtime's `DFT` is NaN in other places.
DIFFERING = re.compile(r"linalg\.complex|devices\.gathered|fft\.rfft_\d\.is_real")
UNIQUE = [case for case in all_cases() if not DIFFERING.match(case.name)]


@pytest.mark.parametrize("case", UNIQUE[::40], ids=repr)
def test_a_value_holds_its_variable_in_a_case(case: Case) -> None:
    checked = held.check(case.fn, case.inputs, double=case.double, opset=case.opset)
    assert not checked.wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NETWORKS)[::8])
def test_a_value_holds_its_variable_in_a_network(name: str) -> None:
    fn, inputs = NETWORKS[name]()
    checked = held.check(fn, inputs)
    assert not checked.wrong
    assert checked.compared > 0


def test_pairs_are_noted_only_if_somebody_listens() -> None:
    fn, inputs = PROGRAMS["nested scans"]
    plain = jax2onnx.to_onnx(fn, list(inputs))
    found: list[Any] = []
    with _pairs.listening(lambda jaxpr, pairs: found.append(pairs)):
        listened = jax2onnx.to_onnx(fn, list(inputs))
    jax2onnx.to_onnx(fn, list(inputs))
    assert len(found) == 1
    assert listened.SerializeToString(deterministic=True) == plain.SerializeToString(
        deterministic=True
    )
