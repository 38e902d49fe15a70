"""Forms that ONNX Runtime's own optimizers get wrong: an export does not contain them.

Each program is checked with passes and the runtime's optimizations off and on.
`tools/runtime_faults.py` shows that the runtime is wrong about the forms themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax2onnx
from testkit import bench, runtimes

rng = np.random.default_rng(0)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def check(fn: Callable[..., Any], *inputs: Any, double: bool = False) -> None:
    with runtimes.allowed_to_lack_kernels():
        bench.check(fn, inputs, rtol=1e-5, atol=1e-6, double=double)


def scan_over(step: Callable[..., Any]) -> Callable[..., Any]:
    """A scan that has the form in its body."""
    return lambda a, v: lax.scan(lambda c, m: (c * 0.5, step(m, c)), v, a)


@jax2onnx.onnx_function
def times(a: jax.Array, v: jax.Array) -> jax.Array:
    return a @ v


TRANSPOSED = {
    "of a matrix": lambda a, v: (a + 1).T @ v,
    "of an input": lambda a, v: a.T @ v,
    "behind an activation": lambda a, v: jnp.tanh(a.T) @ v,
    "as an einsum": lambda a, v: jnp.einsum("ij,i->j", jnp.sin(a), v),
    "twice": lambda a, v: a.T @ (a @ (a.T @ v)),
    "through a function": lambda a, v: times((a * 2).T, v),
    "by dot_general": lambda a, v: lax.dot_general(a * 2, v, (((0,), (0,)), ((), ()))),
    "of a constant vector": lambda a, v: (a * v).T @ np.arange(3, dtype=np.float32),
}


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_a_transposed_matrix_times_a_vector(name: str, double: bool) -> None:
    dtype = np.float64 if double else np.float32
    check(TRANSPOSED[name], floats(3, 3, dtype=dtype), floats(3, dtype=dtype), double=double)


def test_a_transposed_matrix_times_a_vector_in_a_body() -> None:
    check(scan_over(lambda m, c: (m * m).T @ (c + 1)), floats(3, 2, 2), floats(2))
    branch = lambda flag, a, v: lax.cond(flag, lambda: (a * a).T @ v, lambda: a @ v)  # noqa: E731
    for flag in (True, False):
        check(branch, np.asarray(flag), floats(3, 3), floats(3))


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 2, 3, 3)])
def test_transposed_matrices_times_a_vector(shape: tuple[int, ...]) -> None:
    check(lambda a, v: jnp.swapaxes(a * 2, -1, -2) @ v, floats(*shape), floats(3))
    check(jax.vmap(lambda a, v: (a * 2).T @ v), floats(2, 3, 3), floats(2, 3))


ROTATED = {
    "both": lambda x: jnp.einsum("qbd,kbd->bqk", x, x),
    "one": lambda x: jnp.swapaxes(x, 0, 1) @ np.ones((4, 2), np.float32),
    "behind": lambda x: jnp.tanh(jnp.moveaxis(x, 0, -1)) @ jnp.swapaxes(x, 0, 1),
}


@pytest.mark.parametrize("name", ROTATED)
def test_a_product_of_batches_that_are_moved_and_may_be_empty(name: str) -> None:
    fn = ROTATED[name]
    sizes = [(2, 3), (0, 3), (3, 0), (0, 0), (1, 1)]
    for optimize in (True, False):
        model = jax2onnx.to_onnx(fn, [("N", "M", 4)], optimize=optimize)
        for n, m in sizes:
            x = floats(n, m, 4)
            for runtime in (True, False):
                found = bench.run(model, [x], optimize=runtime)
                bench.assert_all_same(found, bench.expected(fn, [x]), 1e-5, 1e-5)


def test_a_product_of_halves_whose_batch_is_moved() -> None:
    weights = np.linspace(-1.0, 1.0, 20, dtype=np.float32).reshape(4, 5)

    def fn(x: jax.Array) -> jax.Array:
        return x.transpose(1, 0, 2).astype(jnp.float32) @ weights

    x = np.linspace(-1.0, 1.0, 24, dtype=np.float16).reshape(2, 3, 4)
    bench.check(fn, [x], rtol=1e-5, atol=1e-5)
    times_weights = jax2onnx.onnx_function(lambda a: a.astype(jnp.float32) @ weights)
    bench.check(lambda x: times_weights(x.transpose(1, 0, 2)), [x], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("optimize", [True, False])
def test_a_product_that_sums_over_an_empty_axis_is_zero(optimize: bool, dtype: Any) -> None:
    """The runtime does not write the result, so it has the numbers of the run before.

    ONNX Runtime casts a transpose of halves before the product.
    """
    fn = lambda a, b: jnp.einsum("bij,bik->bjk", jnp.tanh(a), jnp.exp(b))  # noqa: E731
    spec = jax.ShapeDtypeStruct((2, "N", 4), dtype)
    model = jax2onnx.to_onnx(fn, [spec, spec], optimize=optimize)
    session = bench.session(model)
    for size in (7, 0, 2, 0):
        x = floats(2, size, 4).astype(dtype)
        (found,) = bench.run_session(session, model, [x, x])
        digits = 1e-5 if dtype == np.float32 else 1e-2
        np.testing.assert_allclose(found, np.asarray(fn(x, x)), rtol=digits, atol=digits)


BROADCAST = {
    "a matrix": (lambda a, b: jnp.einsum("ik,bkj->bij", a, b), [(3, "N"), (4, "N", 5)]),
    "a vector": (lambda a, b: jnp.einsum("k,bkj->bj", a, b), [("N",), (4, "N", 5)]),
    "by a vector": (lambda a, b: jnp.exp(a) @ jnp.exp(b), [(4, 3, "N"), ("N",)]),
    "of a matrix by a vector": (lambda a, b: jnp.exp(a) @ jnp.exp(b), [(4, "N"), ("N",)]),
    "a unit axis": (lambda a, b: jnp.matmul(a, b), [(1, 3, "N"), (4, "N", 5)]),
    "a batch": (lambda a, b: jnp.matmul(a, b), [(2, 3, "N"), (4, 2, "N", 5)]),
    "a unit axis beside a batch": (
        lambda a, b: jnp.einsum("...ij,...jk->...ik", a, b),
        [(3, 1, 4, "N"), (2, "N", 5)],
    ),
    "with a transpose": (lambda a, b: (a * a).T @ b, [("N", 3, 4), ("N",)]),
}


@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize("optimize", [True, False])
def test_a_broadcast_product_that_sums_over_an_empty_axis_is_zero(
    name: str, optimize: bool
) -> None:
    """The runtime writes only the first matrix or number, so the others are from the run before."""
    fn, specs = BROADCAST[name]
    model = jax2onnx.to_onnx(fn, specs, optimize=optimize)
    sessions = [bench.session(model, optimize=runtime) for runtime in (True, False)]
    for size in (7, 0, 2, 0, 7, 0):
        inputs = [
            np.ones([size if extent == "N" else extent for extent in spec], np.float32)
            for spec in specs
        ]
        for session in sessions:
            (found,) = bench.run_session(session, model, inputs)
            np.testing.assert_allclose(found, np.asarray(fn(*map(jnp.asarray, inputs))), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int8])
def test_a_broadcast_product_of_integers_that_sums_over_an_empty_axis_is_zero(dtype: Any) -> None:
    """ONNX Runtime has no empty products of unsigned integers, and no `Where` of them."""
    specs = [jax.ShapeDtypeStruct(shape, dtype) for shape in [(4, "N"), (2, "N", 5)]]
    model = jax2onnx.to_onnx(
        lambda a, b: jnp.einsum("ik,bkj->bij", a, b), specs, enable_double_precision=True
    )
    for size in (3, 0):
        inputs = [np.ones((4, size), dtype), np.ones((2, size, 5), dtype)]
        for optimize in (True, False):
            (found,) = bench.run(model, inputs, optimize=optimize)
            np.testing.assert_array_equal(found, np.full((2, 4, 5), size, dtype))


def test_a_transpose_of_short_integers_next_to_a_product() -> None:
    fn = lambda a, b: (jnp.transpose(a, (1, 2, 0)), b @ b)  # noqa: E731
    model = jax2onnx.to_onnx(fn, [jax.ShapeDtypeStruct((2, "N", 4), np.int16), (2, 2)])
    inputs = [np.arange(24, dtype=np.int16).reshape(2, 3, 4), floats(2, 2)]
    bench.assert_all_same(bench.run(model, inputs), bench.expected(fn, inputs), 1e-6, 1e-6)


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_one_divided_by_an_integer_times_a_number(dtype: Any) -> None:
    x = np.array([1, 2, 3, 100], dtype)
    one = dtype(1)
    check(lambda x: lax.div(one, x) * x, x, double=True)
    check(lambda x, y: y * lax.div(one, x), x, x, double=True)
    check(lambda x: lax.rem(one, x), x, double=True)
    check(lambda x: one // x * x, x, double=True)
    check(lambda x, y: times_number(lax.div(one, x), y), x, x, double=True)


@jax2onnx.onnx_function
def times_number(x: jax.Array, y: jax.Array) -> jax.Array:
    return x * y


def test_one_divided_by_a_float_that_is_not_normal() -> None:
    x = np.array([1e-39, 0.0, -0.0, np.inf, np.nan, 3.0, 1e-45], np.float32)
    y = np.array([1e-39, 0.0, 1.0, np.inf, 1.0, 5.0, 0.0], np.float32)
    # JAX takes numbers that are not normal for zero on the CPU, and the runtime does not.
    is_normal = np.abs(x) >= np.finfo(np.float32).tiny
    keep = is_normal | (x == 0) | ~np.isfinite(x)
    check(lambda x, y: (1 / x) * y, x[keep], y[keep])
    model = bench.convert(lambda x, y: (1 / x) * y, [x, y])
    on, off = (bench.run(model, [x, y], optimize=optimize)[0] for optimize in (True, False))
    np.testing.assert_array_equal(on, off)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)])
def test_the_rank_of_a_number_counts(shape: tuple[int, ...]) -> None:
    number = np.full(shape, 2.5, np.float32)
    x = floats(3, 3)
    check(lambda x: (number / x) * x, x)
    check(lambda x: (x * number) @ x, x)
    check(lambda x: (x @ x) * number, x)
    check(lambda x: (x[0] @ x[1]) * number, x)
    check(lambda x: (np.ones(shape, np.float32) / x[0]) * x[1], x)
    check(lambda x: (x[0, 0] * number) / number, x)


def test_an_infinite_factor() -> None:
    x = np.array([[0.0, 1.0], [2.0, 3.0]], np.float32)
    inf = np.float32(np.inf)
    check(lambda x, y: (x * inf) @ y, x, x)
    check(lambda x, y: (x / np.float32(0)) @ y, x, x)
    check(lambda x, y: (x @ y) * inf, x, x)
    check(lambda x, y: times(x, y) / np.float32(0), x, x)
    x = x.astype(np.float64)
    check(lambda x, y: (x @ y) * np.inf, x, x, double=True)
    check(lambda x, y: times(x, y) * np.inf, x, x, double=True)
    check(lambda x: jnp.cov(x[:, :1]), x, double=True)


SCALED = {
    "an operand": lambda a, b: (a * 0.9) @ b,
    "a divided operand": lambda a, b: a @ (b / 3),
    "a product": lambda a, b: (a @ b) * 0.9,
    "a quotient": lambda a, b: 0.1 * (a.T @ b) / 3,
    "through a function": lambda a, b: times(a * 0.9, b) * 0.7,
    "in a body": lambda a, b: lax.scan(lambda c, m: (c, (m[None] * 0.9) @ c), b, a)[1],
}


@pytest.mark.parametrize("name", SCALED)
def test_a_factor_of_a_product_of_doubles_has_all_its_digits(name: str) -> None:
    a, b = floats(3, 3, dtype=np.float64), floats(3, 3, dtype=np.float64)
    bench.check(SCALED[name], [a, b], rtol=1e-14, atol=1e-14, double=True)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int8])
def test_a_relu_before_a_clip(dtype: Any) -> None:
    x = np.arange(-4, 5).astype(dtype)
    check(lambda x: jnp.clip(jax.nn.relu(x), dtype(-1), dtype(2)), x, double=True)
    check(lambda x: jnp.clip(jnp.maximum(x, dtype(0)), dtype(1), dtype(3)), x, double=True)


def pool(x: jax.Array, kind: str, size: int) -> jax.Array:
    init, op = (-jnp.inf, lax.max) if kind == "max" else (0.0, lax.add)
    return lax.reduce_window(x, init, op, (1, size, size, 1), (1, 1, 1, 1), "VALID")


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", ["max", "add"])
@pytest.mark.parametrize("amount", [1, 3])
def test_a_pool_of_padded_zeros(kind: str, size: int, amount: int) -> None:
    around = ((0, 0), (amount, amount), (amount, 0), (0, 0))
    x = -np.abs(floats(1, 5, 5, 3))
    check(lambda x: pool(jnp.pad(x, around), kind, size), x)
    check(lambda x: pool(jnp.pad(jnp.tanh(x), around), kind, size) / size**2, x)
    check(lambda x: padded_pool(jnp.pad(x, around)), x)


@jax2onnx.onnx_function
def padded_pool(x: jax.Array) -> jax.Array:
    return pool(x, "max", 2)


def test_a_pad_with_axes_that_a_plugin_writes() -> None:
    model = jax2onnx.to_onnx(lambda x: (padded_p.bind(x.T)).T, [(2, 3, 4)])
    x = floats(2, 3, 4)
    for optimize in (True, False):
        (found,) = bench.run(model, [x], optimize=optimize)
        np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (1, 2), (0, 0))))


padded_p = jax.extend.core.Primitive("padded_in_the_middle")
padded_p.def_abstract_eval(
    lambda x: jax.core.ShapedArray((x.shape[0], x.shape[1] + 3, x.shape[2]), x.dtype)
)


@jax2onnx.plugin("padded_in_the_middle")
class Padded:
    def lower(self, ctx: Any, eqn: Any) -> Any:
        (x,) = ctx.inputs
        return ctx.op.Pad(x, np.array([1, 2]), np.float32(0), np.array([1]))


def test_an_expand_to_nothing() -> None:
    empty = lambda x: jnp.broadcast_to(x[:, None], (3, 0))  # noqa: E731
    check(lambda x: jnp.concatenate([empty(x), jnp.outer(x, x)], axis=1), floats(3))
    check(lambda x: jnp.pad(jnp.outer(x, x), ((0, 0), (0, 2)), mode="maximum"), floats(3))


@pytest.mark.parametrize("passes", [True, False])
def test_an_expand_of_an_axis_to_nothing(passes: bool) -> None:
    def empty(x: jax.Array) -> jax.Array:
        return jnp.cos(jnp.broadcast_to(jnp.sin(x), (x.shape[0], 0)))

    model = jax2onnx.to_onnx(empty, [("N", 1)], optimize=passes)
    for size in (0, 2):
        for optimize in (True, False):
            (found,) = bench.run(model, [floats(size, 1)], optimize=optimize)
            assert found.shape == (size, 0)


def test_a_cast_and_back_that_two_branches_read() -> None:
    """Without optimizations, the runtime forgets the second branch when it drops the casts."""
    x = np.arange(5, dtype=np.uint16)

    def fn(y: jax.Array) -> jax.Array:
        same = y.astype(jnp.int32).astype(jnp.uint16)
        branches = (lambda a: jax.nn.one_hot(a, 5), lambda a: jax.nn.one_hot(a, 5) + 1)
        return jax.lax.cond(y.max() > 3, *branches, same)

    check(fn, x)
    check(lambda y: fn(jnp.asarray(x)) + y, x[:1].astype(np.float32))


def test_a_zero_that_is_added_makes_zeros_positive() -> None:
    check(lambda x: jax.lax.erfc(1 / jnp.maximum(x * 0.0 + 0.0, 0)), floats(3, 4))


@jax2onnx.onnx_function
def number(x: jax.Array) -> jax.Array:
    return jnp.exp(-jnp.ones(len(x)))


def test_nested_branches_of_constants_with_loops() -> None:
    """ONNX Runtime reads freed memory if it knows the conditions when it loads the model."""
    check(lambda: jax.scipy.special.exp1(jnp.clip(jnp.asarray(-1.0) ** 0.5, 0.1, 0.9)))
    check(lambda x: jax.scipy.special.exp1(number(x)[0]), floats(3))
