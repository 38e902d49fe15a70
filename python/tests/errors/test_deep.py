"""Programs that are nested deeply or long: exported or refused, whatever the stack."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.extend.core import Primitive

import jax2onnx
from jax2onnx._plugins import registry

X = jax.ShapeDtypeStruct((3,), jnp.float32)
SMALL_STACK = 256 * 1024


def nested(level: Callable[[Callable[..., Any]], Callable[..., Any]], count: int) -> Any:
    """Return a function in functions, each of which JAX has traced before the one around it."""
    fn: Callable[..., Any] = jnp.sin
    for _ in range(count):
        fn = jax.jit(level(fn))
        fn.trace(X)
    return fn


def on_small_stack(run: Callable[[], Any]) -> Any:
    """Run on a thread whose stack a recursion over the program would exhaust."""
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(run())
        except Exception as error:
            results.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return results[0]


def test_functions_in_functions_are_exported_on_a_small_stack() -> None:
    fn = nested(lambda inner: lambda x: inner(x) * 2 + 1, 120)
    model = on_small_stack(lambda: jax2onnx.to_onnx(fn, [X], provenance="off"))
    assert not isinstance(model, Exception), model
    assert len(model.graph.node) >= 120


def test_branches_in_branches_are_refused_at_their_line() -> None:
    fn = nested(lambda inner: lambda x: lax.cond(x[0] > 0, inner, lambda x: -x, x), 126)
    error = on_small_stack(lambda: jax2onnx.to_onnx(fn, [X]))
    assert isinstance(error, jax2onnx.UnsupportedError)
    assert "nested 126 levels deep" in str(error)
    assert "test_deep.py" in str(error)


def test_a_long_program_is_exported_on_a_small_stack() -> None:
    def chain(x: Any) -> Any:
        y = x
        for _ in range(400):
            y = lax.max(lax.mul(lax.abs(y), x), x)
        return y

    model = on_small_stack(lambda: jax2onnx.to_onnx(chain, [X], provenance="off"))
    assert not isinstance(model, Exception), model


def test_a_plugin_whose_function_contains_its_primitive_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "REGISTERED", {})
    jaxpr = jax.make_jaxpr(jnp.sin)(X)

    @jax2onnx.plugin("sin")
    class Sin:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            return ctx.lower(jaxpr, *ctx.inputs)

    error = on_small_stack(lambda: jax2onnx.to_onnx(jnp.sin, [X]))
    assert isinstance(error, jax2onnx.PluginError)
    assert "nested too deeply" in str(error)


def test_the_innermost_of_a_nested_parameter_is_not_read() -> None:
    strange = Primitive("strange")
    strange.def_abstract_eval(lambda x, *, of: x)
    deep: tuple[Any, ...] = ()
    for _ in range(500):
        deep = (deep,)
    error = on_small_stack(lambda: jax2onnx.to_onnx(lambda x: strange.bind(x, of=deep), [X]))
    assert isinstance(error, jax2onnx.UnsupportedError)
    assert "no plugin for `strange`" in str(error)
