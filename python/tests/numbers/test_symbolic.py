"""Symbolic sizes: one model, run at several sizes, against JAX at each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import jax2onnx
from testkit import bench

Shape = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Use:
    """A function of arrays whose shapes have symbols; numbers are exact unless `rtol` says so."""

    name: str
    fn: Callable[..., Any]
    shapes: tuple[Shape, ...]
    sizes: tuple[dict[str, int], ...] = ()
    dtype: Any = np.float32
    rtol: float = 0.0

    def __repr__(self) -> str:
        return self.name


ANY = ({"B": 1}, {"B": 3}, {"B": 0}, {"B": 8})
SOME = ({"B": 1}, {"B": 3}, {"B": 8})
TWO = ({"B": 1, "S": 1}, {"B": 3, "S": 2}, {"B": 0, "S": 4}, {"B": 2, "S": 0})
TWO_SOME = ({"B": 1, "S": 1}, {"B": 3, "S": 2}, {"B": 2, "S": 5})


def use(
    name: str,
    fn: Callable[..., Any],
    *shapes: Shape,
    sizes: tuple[dict[str, int], ...] = ANY,
    **options: Any,
) -> Use:
    return Use(name, fn, shapes, sizes, **options)


def sums(*cases: Use) -> list[Use]:
    """Cases that sum: the order decides the last bit and the sign of a zero."""
    return [dataclasses.replace(case, rtol=1e-6) for case in cases]


def product(contracting: Any, batch: Any = ((), ())) -> Callable[..., Any]:
    return lambda x, y: lax.dot_general(x, y, (contracting, batch))


RESHAPES = [
    use("reshape to a line", lambda x: x.reshape(-1), ("B", 4)),
    use(
        "reshape two symbols to one",
        lambda x: x.reshape(x.shape[0] * x.shape[1], 4),
        ("B", "S", 4),
        sizes=TWO,
    ),
    use(
        "reshape keeping two symbols",
        lambda x: x.reshape(x.shape[0], x.shape[1], 2, 2),
        ("B", "S", 4),
        sizes=TWO,
    ),
    use(
        "reshape heads",
        lambda x: x.reshape(x.shape[0], x.shape[1], 2, 3).transpose(0, 2, 1, 3),
        ("B", "S", 6),
        sizes=TWO,
    ),
    use("reshape beside an empty axis", lambda x: x.reshape(x.shape[0], 0, 2), ("B", 0)),
    use("expand_dims", lambda x: x[:, None], ("B", 4)),
    use("squeeze", lambda x: x.squeeze(1), ("B", 1, 4)),
    use("transpose", lambda x: x.T, ("B", 4)),
    use("flatten and back", lambda x: (x.reshape(-1) * 2).reshape(x.shape), ("B", "S"), sizes=TWO),
]

BROADCASTS = [
    use("broadcast of a scalar", lambda x: jnp.ones((x.shape[0], 3)) + x[:, None], ("B",)),
    use("broadcast of a row", lambda x: jnp.broadcast_to(jnp.arange(4.0), x.shape) * x, ("B", 4)),
    use(
        "broadcast to a symbol",
        lambda x, y: lax.broadcast_in_dim(y, (x.shape[0], 4), (1,)),
        ("B",),
        (4,),
    ),
    use("broadcast an axis of one", lambda x, y: jnp.broadcast_to(y, x.shape), ("B", 4), (1, 4)),
    use("zeros_like", lambda x: jnp.zeros_like(x), ("B", 4)),
    use("add of a bias", lambda x, y: x + y, ("B", 4), (4,)),
    use("outer sum", lambda x, y: x[:, None] + y[None], ("B",), ("S",), sizes=TWO),
    use(
        "mask",
        lambda x: jnp.tril(jnp.ones((x.shape[1], x.shape[1]))) * x[..., None],
        ("B", "S"),
        sizes=TWO,
    ),
]

JOINS = [
    use(
        "concatenate a symbol and a number", lambda x, y: jnp.concatenate([x, y]), ("B", 4), (2, 4)
    ),
    use("concatenate with itself", lambda x: jnp.concatenate([x, x]), ("B", 4)),
    use(
        "concatenate two symbols",
        lambda x, y: jnp.concatenate([x, y]),
        ("B", 4),
        ("S", 4),
        sizes=TWO,
    ),
    use(
        "concatenate along another axis",
        lambda x, y: jnp.concatenate([x, y], 1),
        ("B", 4),
        ("B", 2),
    ),
    use("stack", lambda x, y: jnp.stack([x, y], 1), ("B", 4), ("B", 4)),
    use(
        "a class token",
        lambda x: jnp.concatenate([jnp.zeros((x.shape[0], 1, 4)), x], 1),
        ("B", "S", 4),
        sizes=TWO,
    ),
    use("tile", lambda x: jnp.tile(x, (2, 1)), ("B", 4)),
    use("repeat by a symbol", lambda x, y: jnp.tile(y, (x.shape[0], 1)), ("B",), (2, 3)),
]

PARTS = [
    use("slice from", lambda x: lax.slice_in_dim(x, 1, x.shape[0]), ("B", 4), sizes=SOME),
    use("slice to the last", lambda x: lax.slice_in_dim(x, 0, -1), ("B", 4), sizes=SOME),
    use("slice another axis", lambda x: lax.slice_in_dim(x, 1, 3, axis=1), ("B", 4)),
    use("slice with a stride", lambda x: lax.slice_in_dim(x, 0, None, 2), ("B", 4)),
    use("slice by half", lambda x: lax.slice_in_dim(x, 0, x.shape[0] // 2), ("B", 4)),
    use(
        "slice of a sum of symbols",
        lambda x: lax.slice_in_dim(jnp.concatenate([x, x]), x.shape[0], None),
        ("B", 4),
    ),
    use("rev", lambda x: lax.rev(x, (0, 1)), ("B", 4)),
    use("split another axis", lambda x: jnp.split(x, 2, axis=1), ("B", 4)),
    use(
        "split a symbol",
        lambda x: lax.split(jnp.concatenate([x, x]), (x.shape[0], x.shape[0])),
        ("B", 4),
    ),
    use("unstack", lambda x: jnp.unstack(x, axis=1), ("B", 3)),
    use("pad around", lambda x: jnp.pad(x, ((1, 2), (0, 1))), ("B", 4)),
    use(
        "pad another axis between",
        lambda x: lax.pad(x, jnp.float32(0), ((0, 0, 0), (1, 1, 2))),
        ("B", 4),
    ),
    use(
        "pad negative",
        lambda x: lax.pad(x, jnp.float32(0), ((-1, 0, 0), (0, -1, 0))),
        ("B", 4),
        sizes=SOME,
    ),
    use(
        "pad and cut one axis",
        lambda x: lax.pad(x, jnp.float32(0), ((-1, 2, 0), (3, -2, 0))),
        ("B", "S"),
        sizes=TWO_SOME,
    ),
]

COUNTS = [
    use("iota", lambda x: jnp.arange(x.shape[0]), ("B", 4)),
    use(
        "iota of two axes",
        lambda x: lax.broadcasted_iota(np.int32, x.shape, 1),
        ("B", "S"),
        sizes=TWO,
    ),
    use("iota of a product", lambda x: jnp.arange(x.size), ("B", 4)),
    use("the size itself", lambda x: x * jnp.float32(x.shape[0]), ("B", 4)),
    use("2*B", lambda x: jnp.arange(2 * x.shape[0]), ("B",)),
    use("B+1", lambda x: jnp.ones(x.shape[0] + 1), ("B",)),
    use("B*S", lambda x: jnp.arange(x.shape[0] * x.shape[1]), ("B", "S"), sizes=TWO),
    use("B-1", lambda x: jnp.ones((x.shape[0] - 1, 2)), ("B",), sizes=SOME),
    use("floor of B/2", lambda x: jnp.ones(x.shape[0] // 2), ("B",)),
    use("B mod 3", lambda x: jnp.ones(x.shape[0] % 3), ("B",)),
    use("an input of 2*B", lambda x, y: x.reshape(2, -1) + y, ("2*B",), ("B",)),
    use("an input of B+1", lambda x, y: lax.slice_in_dim(x, 1, None) + y, ("B+1",), ("B",)),
]

PRODUCTS = sums(
    use("matrices", product(((1,), (0,))), ("B", 4), (4, 5)),
    use("many rows", product(((2,), (0,))), ("B", "S", 4), (4, 5), sizes=TWO),
    use("batch", product(((2,), (1,)), ((0,), (0,))), ("B", 3, 4), ("B", 4, 5)),
    use("batch, right transposed", product(((2,), (2,)), ((0,), (0,))), ("B", 3, 4), ("B", 5, 4)),
    use(
        "attention",
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
        ("B", "S", 2, 4),
        ("B", "S", 2, 4),
        sizes=TWO,
    ),
    use("symbol of rows and a vector", product(((1,), (0,))), ("B", 4), (4,)),
    use("a vector and a symbol of columns", product(((0,), (0,))), (4,), (4, "B")),
    use("summed over a symbol", product(((0,), (0,))), ("B", 3), ("B", 5)),
    use("vectors of a symbol", product(((0,), (0,))), ("B",), ("B",)),
    use("vector of a symbol and matrix", product(((0,), (0,))), ("B",), ("B", 4)),
    use("matrix and vector of a symbol", product(((1,), (0,))), (4, "B"), ("B",)),
    use("two symbols summed", product(((0, 1), (0, 1))), ("B", "S", 3), ("B", "S", 2), sizes=TWO),
    use("unsigned over a symbol", product(((0,), (0,))), ("B", 3), ("B", 5), dtype=np.uint32),
    use("integers over a symbol", product(((0,), (0,))), ("B", 3), ("B", 5), dtype=np.int32),
    use("outer", product(((), ())), ("B",), ("S",), sizes=TWO),
    use("no columns, batch", product(((1,), (1,)), ((0,), (0,))), ("B", 4), ("B", 4)),
)

REDUCTIONS = (
    [
        use(
            f"{name} over {axis} of {np.dtype(dtype)}",
            lambda x, f=fn, a=axis: f(x, axis=a),
            ("B", 4),
            dtype=dtype,
            sizes=sizes,
        )
        for name, fn, types, sizes in [
            ("sum", jnp.sum, (np.float32, np.int32, np.uint8), ANY),
            ("mean", jnp.mean, (np.float32,), SOME),
            (
                "max",
                jnp.max,
                (np.float32, np.int32, np.int16, np.uint16, np.uint32, np.bool_),
                SOME,
            ),
            ("min", jnp.min, (np.float32, np.int32, np.uint32), SOME),
            ("all", jnp.all, (np.bool_,), ANY),
            ("any", jnp.any, (np.bool_,), ANY),
            ("argmax", jnp.argmax, (np.float32, np.int32), SOME),
            ("cumsum", jnp.cumsum, (np.float32, np.int32), ANY),
        ]
        for dtype in types
        for axis in (0, 1)
    ]
    + [
        use(
            f"{name} of nothing, {np.dtype(dtype)}",
            lambda x, p=primitive: p.bind(x, axes=(0,)),
            ("B", 4),
            dtype=dtype,
        )
        for name, primitive in [("max", lax.reduce_max_p), ("min", lax.reduce_min_p)]
        for dtype in (
            np.float32,
            np.float16,
            np.int8,
            np.uint8,
            np.int16,
            np.uint16,
            np.int32,
            np.uint32,
            np.bool_,
        )
    ]
    + [
        use("softmax", jax.nn.softmax, ("B", 4), rtol=1e-6),
        use(
            "softmax over a symbol",
            lambda x: jax.nn.softmax(x, axis=0),
            ("B", 4),
            sizes=SOME,
            rtol=1e-6,
        ),
        use("variance", lambda x: jnp.var(x, axis=1), ("B", 4), rtol=1e-6),
        use("global mean", lambda x: x.mean((1, 2)), ("B", "S", 3), sizes=TWO_SOME, rtol=1e-6),
    ]
)

CALLS = [
    use("jit", jax.jit(lambda x: jnp.concatenate([x, x]).reshape(2, -1) * 2), ("B", 4)),
    use("grad", jax.grad(lambda x: jnp.sum(x * x)), ("B", 4)),
    use("checkpoint", jax.checkpoint(lambda x: x.reshape(-1) * 2), ("B", 4)),
]

USES = [*RESHAPES, *BROADCASTS, *JOINS, *PARTS, *COUNTS, *PRODUCTS, *REDUCTIONS, *CALLS]


def concrete(shape: Shape, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(eval(dim, {}, sizes) if isinstance(dim, str) else dim for dim in shape)


def fill(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    count = int(np.prod(shape))
    values = (np.arange(count) * 5) % 7
    if np.dtype(dtype).kind in "fi":
        values = values - 3
    return values.astype(dtype).reshape(shape)


def symbolic(case: Use) -> list[jax.ShapeDtypeStruct]:
    """The shapes of the inputs, with symbols of one scope."""
    scope = export.SymbolicScope()
    shapes = [
        export.symbolic_shape(",".join(map(str, shape)), scope=scope) for shape in case.shapes
    ]
    return [jax.ShapeDtypeStruct(shape, case.dtype) for shape in shapes]


#: Symbols that no axis is by itself: the model solves the size of an axis for them.
USES += [
    use(
        "solve.double",
        lambda x: (x.reshape(-1, 2, 3).sum(1), jnp.arange(x.shape[0] // 2)),
        ("2*B", 3),
    ),
    use("solve.one_more", lambda x: (x[1:] - x[:-1], jnp.zeros(x.shape[0] - 1)), ("B + 1", 3)),
    use(
        "solve.less_two", lambda x: jnp.zeros(x.shape[0] + 2) + x.sum(), ("B - 2",), sizes=SOME[1:]
    ),
    use(
        "solve.one_by_another",
        lambda x, y: (jnp.zeros(x.shape[0] + y.shape[0]), jnp.zeros(y.shape[0] - 2) + x.sum()),
        ("B + 3*S",),
        ("S + 2",),
        sizes=TWO,
    ),
]


def attend(cache: Any, x: Any) -> Any:
    """Attention over the rows of a cache and new rows, of which each sees those before it."""
    rows = jnp.concatenate([cache, x])
    place = jnp.arange(rows.shape[0])
    seen = place[cache.shape[0] :, None] >= place
    return jax.nn.softmax(jnp.where(seen, x @ rows.T, -1e9)) @ rows, rows[-2:]


#: Sizes with more than one term, and amounts that depend on a size.
USES += [
    use("terms.product", lambda x: (x @ x.T) * x.shape[0], ("B + 1", 3), rtol=1e-6),
    use("terms.mean", lambda x: (x @ x.T).mean(0), ("B + 1", 3), rtol=1e-5),
    use("terms.mean of an outer product", lambda x: (x[:, None] * x).mean(), ("2*B + 1",)),
    use("terms.cache", attend, ("B", 3), ("S", 3), sizes=TWO_SOME, rtol=1e-5),
    use(
        "terms.means of a cache",
        lambda x, y: jnp.concatenate([x, y]).mean(0),
        ("B", 3),
        ("S", 3),
        sizes=TWO,
        rtol=1e-6,
    ),
    use(
        "terms.flattened product",
        lambda x, y: (x[:, None] * y).reshape(-1, 3).mean(0),
        ("B + 1", 3),
        ("S", 3),
        sizes=TWO,
        rtol=1e-6,
    ),
    use(
        "pad.by a size",
        lambda x, y: jnp.pad(x, ((y.shape[0], 1), (0, 0)), constant_values=2.0),
        ("B", 3),
        ("S", 3),
        sizes=TWO,
    ),
    use(
        "pad.by a difference",
        lambda x, y: lax.pad(x, jnp.float32(1), ((y.shape[0] - 2, 2 - y.shape[0], 0),)),
        ("B",),
        ("S",),
        sizes=({"B": 4, "S": 0}, {"B": 4, "S": 2}, {"B": 4, "S": 5}),
    ),
    use("pad.between", lambda x: lax.pad(x, jnp.float32(1), ((1, 0, 2),)), ("B",)),
    use("pad.gradient of a stride", jax.grad(lambda x: (x[::3] ** 2).sum()), ("B",)),
]


@pytest.mark.parametrize("case", USES, ids=repr)
def test_one_model_serves_every_size(case: Use) -> None:
    model = bench.convert(case.fn, symbolic(case))
    for sizes in case.sizes:
        inputs = [fill(concrete(shape, sizes), case.dtype) for shape in case.shapes]
        want = bench.expected(case.fn, inputs)
        found = bench.run(model, inputs)
        for one_found, one_want in zip(found, want, strict=True):
            bench.assert_same(one_found, one_want, case.rtol, case.rtol)


def joined_by(fn: Callable[..., Any], start: float) -> Callable[..., Any]:
    """A reduction of the first axis with a function of two elements."""
    return lambda x: lax.reduce(x, jnp.asarray(start, x.dtype), fn, (0,))


JOINED = [
    use("product of integers", lambda x: jnp.prod(x, axis=0), ("B",), dtype=np.int32),
    use("product of bytes", lambda x: jnp.prod(x, axis=(0, 1), dtype=x.dtype), ("B", "B", 2),
        dtype=np.int8),
    use("running product of integers", lambda x: jnp.cumprod(x, axis=1), (2, "B"), dtype=np.int32),
    use("running product", lambda x: lax.cumprod(x, 0), ("B", 2), rtol=1e-6),
    use("running product in reverse", lambda x: lax.cumprod(x, 1, reverse=True), (2, "B"),
        rtol=1e-6),
    use("running extremes", lambda x: (lax.cummax(x), lax.cummin(x, 0, reverse=True)), ("B",)),
    use("running log of sums", lambda x: lax.cumlogsumexp(x, 0), ("B", 3), rtol=1e-6),
    use("bits joined", lambda x: lax.reduce_xor_p.bind(x, axes=(0,)), ("B",), dtype=np.int32),
    use("bits of all", lambda x: lax.reduce_and(x, (0, 1)), ("B", 3), dtype=np.uint8),
    use("the last one", joined_by(lambda a, b: b + a * 0, 0), ("B", 2)),
    use("the length of a vector", joined_by(jnp.hypot, 0), ("B", 2), rtol=1e-6),
    use("the largest complex number", lambda x: (x * (1 - 2j)).max(0).imag, ("B", 2), sizes=SOME),
    use("a product of complex numbers", lambda x: jnp.prod(x * 1j, 0).real, ("B", 2), rtol=1e-6),
]  # fmt: skip


@pytest.mark.parametrize("case", JOINED, ids=repr)
@pytest.mark.parametrize("optimize", [True, False])
def test_elements_along_an_axis_of_unknown_size_are_joined(case: Use, optimize: bool) -> None:
    model = bench.convert(case.fn, symbolic(case), optimize=optimize)
    for sizes in case.sizes:
        inputs = [fill(concrete(shape, sizes), case.dtype) for shape in case.shapes]
        want = bench.expected(case.fn, inputs)
        for found, one in zip(bench.run(model, inputs), want, strict=True):
            bench.assert_same(found, one, case.rtol, case.rtol)


def test_a_parameter_that_depends_on_a_size_is_refused_at_its_line() -> None:
    each = jax.vmap(jnp.convolve)
    with pytest.raises(jax2onnx.UnsupportedError) as raised:
        jax2onnx.to_onnx(lambda x, w: each(x, w), ["f32[B,7]", "f32[B,3]"])
    assert "`feature_group_count=B` of `conv_general_dilated`" in str(raised.value)
    assert "depends on a symbolic size" in str(raised.value)
    assert "test_symbolic.py" in str(raised.value)


def test_a_size_with_a_long_name_is_computed() -> None:
    shapes = export.symbolic_shape(f"{'A' * 9000},B")
    specs = [jax.ShapeDtypeStruct((size,), np.float32) for size in shapes]
    model = jax2onnx.to_onnx(lambda x, y: jnp.concatenate([x, y]) * 2, specs)
    inputs = [np.ones(2, np.float32), np.ones(3, np.float32)]
    np.testing.assert_array_equal(bench.run(model, inputs)[0], np.full(5, 2, np.float32))
    model = jax2onnx.to_onnx(lambda x, y: jnp.arange(x.shape[0] + y.shape[0]), specs)
    np.testing.assert_array_equal(bench.run(model, inputs)[0], np.arange(5))


def test_a_size_that_is_too_long_to_read_is_refused_at_its_line() -> None:
    shapes = export.symbolic_shape(f"{'A' * 9000},{'B' * 9000}")
    specs = [jax.ShapeDtypeStruct((size,), np.float32) for size in shapes]
    with pytest.raises(jax2onnx.UnsupportedError, match="…` cannot be computed") as raised:
        jax2onnx.to_onnx(lambda x, y: jnp.concatenate([x, y]) * 2, specs)
    assert "test_symbolic.py" in str(raised.value)
