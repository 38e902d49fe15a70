"""What must hold on every version of JAX; needs JAX, NumPy and ONNX Runtime alone."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import export, lax

from jax2onnx import ConfigError, to_onnx

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@jax.jit
def helper(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2.0


def calls_twice(x: jax.Array) -> jax.Array:
    y = helper(x)
    return helper(y) + jnp.var(x)


@jax.custom_jvp
def with_jvp(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) + 1


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), tangents[0]))


@jax.custom_vjp
def with_vjp(x: jax.Array) -> jax.Array:
    return jnp.exp(x) - 1


with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda _, g: (g,))

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "calls twice": calls_twice,
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "gelu": jax.nn.gelu,
    "norm": lambda x: (x - x.mean()) / jnp.std(x, axis=0),
    "where": lambda x: jnp.where(x > 0, x, -x),
    "matmul": lambda x: x @ x.T,
    "scan": lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(4), x, reverse=True),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda v: v + 1, lambda v: v * 2, x),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c + 1, x),
    "gather": lambda x: x[jnp.array([2, 0])],
    "scatter": lambda x: x.at[1].add(1.0),
    "sort": lambda x: jnp.sort(x, axis=0)[::-1],
    "log2": lambda x: jnp.log2(jnp.abs(x)),
    "complex log2": lambda x: jnp.log2(lax.complex(x, 1 - x)).imag,
    "top_k": lambda x: lax.top_k(x, 2),
    "determinant": lambda x: jnp.linalg.det(x[:, :3]),
    "grad": jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)),
    "vmap": jax.vmap(lambda row: row / jnp.sum(jnp.abs(row))),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "convolution": lambda x: lax.conv(x[None, None], jnp.ones((1, 1, 2, 2)), (1, 1), "SAME"),
    "random": lambda x: x + jax.random.normal(jax.random.PRNGKey(0), x.shape),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_numbers_are_those_of_jax(name: str) -> None:
    fn = FUNCTIONS[name]
    model = to_onnx(fn, [X])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, {session.get_inputs()[0].name: X})
    for one_found, one_want in zip(found, jax.tree.leaves(jax.jit(fn)(X)), strict=True):
        np.testing.assert_allclose(one_found, one_want, rtol=1e-4, atol=1e-5)


def test_a_symbolic_size_names_the_module_that_jax_does_not_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jax.export", None)
    with pytest.raises(ConfigError, match="pip install absl-py"):
        to_onnx(lambda x: x, [("B",)])


def test_a_batch_of_any_size() -> None:
    pytest.importorskip("absl", reason="old versions of JAX need it for symbolic sizes")
    model = to_onnx(lambda x: (x * 2).reshape(-1), [("B", 4)])
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X[:2]})
    np.testing.assert_array_equal(found, (X[:2] * 2).reshape(-1))


def test_every_call_has_its_own_lines() -> None:
    model = to_onnx(calls_twice, [X], provenance="full")
    first = inspect.getsourcelines(calls_twice)[1]
    line = inspect.getsourcelines(helper)[1] + 2
    sines = [node for node in model.graph.node if node.op_type == "Sin"]
    origins = [{entry.key: entry.value for entry in node.metadata_props} for node in sines]
    assert [origin["pkg.jax2onnx.callsite"] for origin in origins] == [f"helper:{line}"] * 2
    for number, origin in zip((first + 1, first + 2), origins, strict=True):
        assert f":{number} (calls_twice)" in origin["pkg.jax2onnx.jax_traceback"]
    variance = {"pkg.jax2onnx.callsite": f"calls_twice:{first + 2}"}
    divisions = [node for node in model.graph.node if node.op_type == "Div"]
    for node in divisions:
        found = {entry.key: entry.value for entry in node.metadata_props}
        assert variance.items() <= found.items()


@jax.custom_jvp
def with_rule(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


@with_rule.defjvp
def _rule(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    places = jnp.zeros((3, 5, 7), jnp.int16) + x.astype(jnp.int16)
    return with_rule(x), tangent + jnp.where(places < 0, places, places).sum().astype(x.dtype)


def test_what_jax_traced_in_a_rule_of_an_earlier_program_has_no_line_of_it() -> None:
    """JAX keeps its own functions as it traced them first, with the line of that program."""
    jax.make_jaxpr(jax.grad(jax.jit(lambda x: with_rule(x))))(1.0)

    def later(x: jax.Array) -> jax.Array:
        return jnp.where(x < 0, x, x + 1)

    shape = jax.ShapeDtypeStruct((3, 5, 7), np.int16)
    model = to_onnx(later, [shape], provenance="full", optimize=False)
    line = inspect.getsourcelines(later)[1] + 1
    for node in model.graph.node:
        origin = {entry.key: entry.value for entry in node.metadata_props}
        assert origin["pkg.jax2onnx.callsite"].endswith(f"later:{line}"), node.op_type


def test_the_private_names_that_the_reader_knows_are_those_of_jax() -> None:
    """The reader in `crates/python/src/compat.rs` recognizes these classes by their names."""
    (size,) = export.symbolic_shape("B + 1")
    assert type(size).__name__ == "_DimExpr"
    assert type(jax.random.key(0).dtype).__name__ == "KeyTy"

    def fn(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * np.arange(4, dtype=np.float32)

    traced = jax.make_jaxpr(jax.vmap(fn))(X)
    entries = [entry for eqn in traced.jaxpr.eqns for entry in eqn.source_info.name_stack.stack]
    assert {type(entry).__name__ for entry in entries} == {"Transform"}
    constants = [
        *traced.consts,
        *(a.val for e in traced.jaxpr.eqns for a in e.invars if hasattr(a, "val")),
    ]
    arrays = {type(each).__name__ for each in constants if np.shape(each) == (4,)}
    assert arrays
    assert arrays <= {"ArrayImpl", "ndarray", "TypedNdArray", "LiteralArray"}
