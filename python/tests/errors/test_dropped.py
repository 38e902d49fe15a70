"""Callbacks that a model leaves out, and reports on operations that it cannot do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax2onnx
from testkit import bench

X = np.linspace(-1.0, 1.0, 6, dtype=np.float32)


def printing(x: jax.Array) -> jax.Array:
    jax.debug.print("x is {x}", x=x)
    return x * 2.0


def calling(x: jax.Array) -> jax.Array:
    jax.debug.callback(lambda value: None, x, ordered=True)
    return x * 2.0


def printing_in_bodies(x: jax.Array) -> jax.Array:
    def step(carry: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        jax.debug.print("carry is {c}", c=carry)
        loud = lambda z: (jax.debug.print("{z}", z=z), z)[1]  # noqa: E731
        return lax.cond(carry > 0, loud, lambda z: -z, carry + y), carry

    return lax.scan(step, x[0], x)[1]


def checking(x: jax.Array) -> jax.Array:
    return eqx.error_if(x, x > 1e6, "too large") * 2.0


def warned(fn: Callable[..., Any]) -> str:
    """Export with exactly one warning, compare the numbers, and return the warning."""
    with pytest.warns(jax2onnx.Jax2OnnxWarning) as record:
        model = jax2onnx.to_onnx(fn, [X.shape])
    bench.assert_same(bench.run(model, [X])[0], bench.expected(fn, [X])[0], rtol=1e-6, atol=1e-6)
    (warning,) = [each for each in record if each.category is jax2onnx.Jax2OnnxWarning]
    assert warning.filename == __file__
    return str(warning.message)


@pytest.mark.parametrize("fn", [printing, calling, checking])
def test_a_callback_without_results_is_left_out_with_a_warning(fn: Callable[..., Any]) -> None:
    line = fn.__code__.co_firstlineno + 1
    assert re.fullmatch(
        r"the model leaves out callbacks such as `jax.debug.print` at "
        rf"\S*test_dropped.py:{line}, in {fn.__name__}",
        warned(fn),
    )


def test_callbacks_in_loops_and_branches_are_named_once_each() -> None:
    first = printing_in_bodies.__code__.co_firstlineno
    message = warned(printing_in_bodies)
    lines = re.findall(r"test_dropped\.py:(\d+)", message)
    assert [int(line) - first for line in lines] == [2, 3]


def test_a_report_names_all_unsupported_operations_with_their_lines() -> None:
    def unsupported(x: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        y = jax.pure_callback(np.sin, shape, x)
        for _ in range(2):
            y = jnp.real(jnp.linalg.eigvals(y[:, None] * y))
        return y

    with pytest.raises(jax2onnx.UnsupportedError) as caught:
        jax2onnx.to_onnx(unsupported, [(4,)])
    first = unsupported.__code__.co_firstlineno
    message = str(caught.value)
    assert f"test_dropped.py:{first + 2}:" in message
    assert f"test_dropped.py:{first + 4}:" in message
    assert "no plugin for `pure_callback`\n" in message
    assert "has no ONNX counterpart, 2 times\n" in message
    assert (
        "hint: a model cannot call Python: compute the same in `jnp`, or write a plugin" in message
    )
    assert message.rstrip().endswith("2 operations cannot be exported")


@pytest.mark.parametrize(
    ("primitive", "hint"),
    [
        ("pallas_call", "a Pallas kernel runs only on its hardware"),
        ("io_callback", "a model cannot call Python"),
    ],
)
def test_a_hint_says_what_to_do_instead(primitive: str, hint: str) -> None:
    def fn(x: jax.Array) -> Any:
        if primitive == "io_callback":
            return jax.experimental.io_callback(lambda v: v, x, x)
        from jax.experimental import pallas

        def kernel(source: Any, target: Any) -> None:
            target[...] = source[...] * 2.0

        return pallas.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with pytest.raises(jax2onnx.UnsupportedError, match=f"no plugin for `{primitive}`") as caught:
        jax2onnx.to_onnx(fn, [(3, 4)])
    assert f"hint: {hint}" in str(caught.value)
