"""Primitives without a plugin that are defined by JAX code."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import ad, batching, mlir

import jax2onnx
from jax2onnx._plugins import registry
from testkit import bench

X = np.array([[0.5, -2.0, 3.0], [1.0, 0.0, -1.0]], np.float32)


def primitive(name: str, impl: Any = None) -> Any:
    """Returns a primitive with one result of the type of its first operand."""
    made = jax.extend.core.Primitive(name)
    made.def_abstract_eval(lambda x, *rest, **params: jax.core.ShapedArray(x.shape, x.dtype))
    if impl is not None:
        made.def_impl(impl)
    return made


def softened(x: jax.Array, *, by: float) -> jax.Array:
    return jnp.sign(x) * jnp.maximum(jnp.abs(x) - by, 0.0)


SOFTENED = primitive("softened", softened)


def check(fn: Any, reference: Any, *inputs: Any, **options: Any) -> Any:
    """Exports `fn`, and compares it with a function without the primitive."""
    model = jax2onnx.to_onnx(fn, list(inputs), **options)
    wanted = jax.tree.leaves(reference(*inputs))
    for found, want in zip(bench.run(model, inputs), wanted, strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)
    return model


def test_a_primitive_is_exported_by_its_impl() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return SOFTENED.bind(x * 2.0, by=1.0)

    check(fn, lambda x: softened(x * 2.0, by=1.0), X)


def test_a_definition_has_the_line_of_the_impl_and_of_its_caller() -> None:
    def lines(fn: Any) -> set[str]:
        model = jax2onnx.to_onnx(fn, [X], provenance="minimal")
        found = {prop.value for node in model.graph.node for prop in node.metadata_props}
        return {text for text in found if "Plugin" not in text}

    namespace: dict[str, Any] = {"bind": SOFTENED.bind}
    exec(compile("def fn(x):\n    return bind(x, by=1.0)\n", "user.py", "exec"), namespace)
    assert lines(namespace["fn"]) == {f"softened:{softened.__code__.co_firstlineno + 1}"}
    with jax2onnx.provenance(library_code=[__file__]):
        assert lines(namespace["fn"]) == {"fn:2"}


@pytest.mark.parametrize("transform", [jax.vmap, jax.jit, jax.checkpoint])
def test_a_definition_inside_a_transformation_is_exported(transform: Any) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return transform(lambda row: defined.bind(row))(x)

    defined = primitive("twice_or_sine", lambda x: jnp.where(x > 0, 2 * x, jnp.sin(x)))
    jax.interpreters.batching.primitive_batchers[defined] = lambda operands, axes: (
        defined.bind(*operands),
        axes[0],
    )
    check(fn, lambda x: jnp.where(x > 0, 2 * x, jnp.sin(x)), X)


def test_a_definition_inside_a_loop_with_loops_of_its_own_is_exported() -> None:
    def powers(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 3, lambda i, y: y * x + i, x)

    defined = primitive("powers", powers)

    def fn(x: jax.Array, step: Any) -> jax.Array:
        return lax.scan(lambda carry, row: (carry + step(row), None), x[0], x)[0]

    check(lambda x: fn(x, defined.bind), lambda x: fn(x, powers), X)


def test_a_definition_with_symbolic_sizes_is_exported() -> None:
    defined = primitive("centered", lambda x: x - jnp.mean(x, axis=0))
    model = jax2onnx.to_onnx(lambda x: defined.bind(x), [("B", 3)])
    for rows in (1, 4):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_allclose(bench.run(model, (x,))[0], x - x.mean(0), rtol=1e-6)


def test_a_definition_keeps_double_precision() -> None:
    defined = primitive("thirds", lambda x: x / 3.0)
    x = np.array([1.0, 2.0])
    model = jax2onnx.to_onnx(lambda x: defined.bind(x), [x], enable_double_precision=True)
    np.testing.assert_array_equal(bench.run(model, (x,))[0], x / 3.0)


def test_constants_of_a_definition_are_part_of_the_model() -> None:
    weights = np.arange(3, dtype=np.float32)
    defined = primitive("weighted", lambda x: x * jnp.asarray(weights))
    check(lambda x: defined.bind(x), lambda x: x * weights, X)


def test_a_definition_may_use_other_definitions_and_itself() -> None:
    def halved(x: jax.Array, *, times: int) -> jax.Array:
        return recursive.bind(SOFTENED.bind(x, by=0.1) / 2, times=times - 1) if times else x

    recursive = primitive("halved", halved)

    def want(x: jax.Array) -> jax.Array:
        return functools.reduce(lambda y, _: softened(y, by=0.1) / 2, range(3), x)

    check(lambda x: recursive.bind(x, times=3), want, X)


def lowered(name: str, function: Any, *, platform: str | None = None) -> Any:
    """Returns a primitive without an `impl` that `mlir.lower_fun` defines."""
    made = primitive(name)
    made.multiple_results = multiple = name.endswith("s")
    if multiple:
        made.def_abstract_eval(lambda *operands: list(operands))
    rule = mlir.lower_fun(function, multiple_results=multiple)
    mlir.register_lowering(made, rule, platform=platform)
    return made


LOWERED = lowered("lowered", softened)
LOWERED_PARTS = lowered(
    "lowered_parts", lambda x, y: (x + y, lax.fori_loop(0, 3, lambda i, c: c * y, x))
)
ad.primitive_jvps[LOWERED] = lambda primals, tangents, **params: (
    LOWERED.bind(*primals, **params),
    tangents[0] * 2.0,
)
batching.primitive_batchers[LOWERED] = lambda operands, axes, **params: (
    LOWERED.bind(*operands, **params),
    axes[0],
)


def soft(x: jax.Array) -> jax.Array:
    return LOWERED.bind(x, by=1.0)


def parts(x: jax.Array) -> Any:
    return LOWERED_PARTS.bind(x, x * 2.0)


@pytest.mark.parametrize(
    "fn",
    [
        soft,
        jax.jit(lambda x: soft(x * 2.0) + 1.0),
        jax.vmap(soft),
        jax.checkpoint(soft),
        jax.grad(lambda x: jnp.sum(soft(x) ** 2)),
        lambda x: lax.scan(lambda c, row: (parts(c)[1] + row, soft(c)), x[0], x),
        lambda x: lax.cond(x[0, 0] > 0, soft, lambda x: parts(x)[0], x),
    ],
    ids=["alone", "jit", "vmap", "checkpoint", "grad", "scan", "cond"],
)
def test_a_primitive_is_exported_by_its_lowering_rule(fn: Any) -> None:
    bench.check(fn, [X], rtol=1e-6, atol=1e-6)


def test_the_lowering_rule_for_cpus_takes_precedence_over_the_others_and_over_the_impl() -> None:
    ruled = lowered("ruled", lambda x: x * 2.0)
    mlir.register_lowering(ruled, mlir.lower_fun(lambda x: x * 3.0, False), platform="cpu")
    ruled.def_impl(lambda x: x * 4.0)
    check(lambda x: ruled.bind(x), lambda x: x * 3.0, X)


def test_an_impl_is_used_if_the_lowering_rule_is_not_jax_code() -> None:
    ruled = primitive("ruled_by_hand", lambda x: x * 4.0)
    mlir.register_lowering(ruled, lambda ctx, x: [x])
    check(lambda x: ruled.bind(x), lambda x: x * 4.0, X)


def test_products_of_ragged_groups_are_exported() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((7, 4)), rng.standard_normal((3, 4, 5))
    inputs = [x.astype(np.float32), w.astype(np.float32), np.array([2, 0, 4], np.int32)]
    bench.check(lax.ragged_dot, inputs, rtol=1e-5, atol=1e-6)


def test_functions_of_jax_that_wrap_others_are_exported() -> None:
    @jax.custom_batching.custom_vmap
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    sine.def_vmap(lambda size, batched, x: (jnp.cos(x), True))

    def fn(x: jax.Array) -> jax.Array:
        linear = jax.custom_derivatives.linear_call(lambda by, y: y / by, lambda by, y: y, 2.0, x)
        return linear + sine(x) + jax.vmap(sine)(x)

    bench.check(fn, [X], rtol=1e-6, atol=1e-6)


def refusal(defined: Any, *inputs: Any) -> str:
    with pytest.raises(jax2onnx.UnsupportedError) as caught:
        jax2onnx.to_onnx(lambda x: defined.bind(x), list(inputs) or [X])
    return str(caught.value)


def test_an_impl_that_runs_the_primitive_is_not_a_definition() -> None:
    from jax._src import dispatch

    compiled = primitive("compiled")
    compiled.def_impl(functools.partial(dispatch.apply_primitive, compiled))
    bound = primitive("bound")
    bound.def_impl(jax.jit(lambda x: bound.bind(x)))
    for defined in (primitive("nothing"), compiled, bound):
        assert refusal(defined).startswith(f"no plugin for `{defined.name}`\n")


def test_an_impl_that_calls_itself_forever_is_refused() -> None:
    endless = primitive("endless", lambda x: endless.bind(x + 1.0))
    why = "no plugin for `endless`, and its definition cannot be used: it calls itself"
    assert refusal(endless).startswith(why)


def test_an_impl_that_cannot_be_traced_is_refused_with_the_reason() -> None:
    message = refusal(primitive("of_numpy", lambda x: np.sin(np.asarray(x))))
    assert message.startswith(
        "no plugin for `of_numpy`, and its definition cannot be used: TracerArrayConversionError: "
    )
    assert "hint: write a plugin with `jax2onnx.plugin`" in message
    message = refusal(primitive("sized", lambda x: x * float(x.shape[0])), ("B", 3))
    assert message.startswith("no plugin for `sized`, and its definition cannot be used: ")


def test_an_impl_with_other_results_is_refused() -> None:
    message = refusal(primitive("summed", jnp.sum))
    assert message.startswith(
        "no plugin for `summed`, and its definition cannot be used: "
        "it returns float32[], but JAX expects float32[2,3]"
    )


def test_a_callback_of_jax_is_not_run_for_its_definition() -> None:
    runs = []

    def callback(*values: Any) -> Any:
        runs.append(values)
        return np.float32(1)

    def fn(x: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct((), np.float32)
        y = jax.experimental.io_callback(callback, shape)
        return x + y + jax.pure_callback(callback, shape)

    with pytest.raises(jax2onnx.UnsupportedError, match="no plugin for `io_callback`"):
        jax2onnx.to_onnx(fn, [X])
    assert runs == []


def test_a_plugin_takes_precedence_over_a_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    class Negates:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            return ctx.op.Neg(ctx.inputs[0]) if eqn.params["by"] == 1.0 else NotImplemented

    monkeypatch.setitem(registry.REGISTERED, "softened", [Negates()])
    check(lambda x: SOFTENED.bind(x, by=1.0), lambda x: -x, X)
    check(lambda x: SOFTENED.bind(x, by=2.0), lambda x: softened(x, by=2.0), X)


def test_recorded_calls_show_the_primitive_itself(tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    jax2onnx.to_onnx(lambda x: SOFTENED.bind(x, by=1.0), [X], record_primitive_calls_file=path)
    assert "softened" in path.read_text()
