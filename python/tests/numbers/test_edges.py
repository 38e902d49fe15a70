"""Every operator on the edge values of every type: extreme integers, infinities, NaN, halves.

Each test runs with passes off and on and with ONNX Runtime's optimizations off and on. Zeros are
compared without their sign. Denormal numbers are left out: XLA flushes them on some processors.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import jax2onnx
from testkit import bench

SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
FLOATS_OF_8_BITS = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
)
INTEGERS_OF_4_BITS = (ml_dtypes.int4, ml_dtypes.uint4)
NUMBERS = (*SIGNED, *UNSIGNED, *FLOATS)

#: Equal, but for the sign of a zero.
EXACT = 1e-300

UNARY: dict[str, Callable[[Any], Any]] = {
    "square": lambda x: x * x,
    "neg": lax.neg,
    "sign": lax.sign,
    "clip": lambda x: jnp.clip(x, 2, 100),
    "remainder": lambda x: x % 7,
}
UNARY_OF_INTEGERS: dict[str, Callable[[Any], Any]] = {
    "abs": jnp.abs,
    "clz": lax.clz,
    "population_count": lax.population_count,
    "not": lax.bitwise_not,
    "pow": lambda x: x**3,
    "floor_divide": lambda x: x // 3,
}
UNARY_OF_FLOATS: dict[str, Callable[[Any], Any]] = {
    "abs": lax.abs,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "round": jnp.round,
    "trunc": jnp.trunc,
    "is_finite": lax.is_finite,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "clip_to_nan": lambda x: jnp.clip(x, np.nan, 1),
    "clip_from_nan": lambda x: jnp.clip(x, -1, np.nan),
    "maximum_with_nan": lambda x: jnp.maximum(x, np.nan),
    "nan_to_num": jnp.nan_to_num,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lax.add,
    "sub": lax.sub,
    "max": lax.max,
    "min": lax.min,
    "eq": lax.eq,
    "lt": lax.lt,
    "le": lax.le,
    "where": lambda x, y: jnp.where(x > y, x, y),
    "clamp": lambda x, y: lax.clamp(x, y, y + 1),
}
BINARY_OF_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "floor_divide": lambda x, y: x // y,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "xor": lax.bitwise_xor,
}
ALONG_AN_AXIS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 1),
    "sort": lambda x: jnp.sort(x, 1),
    "top_k": lambda x: lax.top_k(x, 3),
    "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 1),
    "window": lambda x: lax.reduce_window(x, _least(x), lax.max, (1, 2), (1, 1), "VALID"),
    "padded_window": lambda x: lax.reduce_window(x, _least(x), lax.max, (1, 3), (1, 2), "SAME"),
    "gather": lambda x: x[jnp.array([1, 0, 2])],
    "scatter_max": lambda x: x.at[jnp.array([0, 1, 0])].max(x[:3]),
}
ALONG_AN_AXIS_OF_INTEGERS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1, dtype=x.dtype),
    "prod": lambda x: x.prod(1, dtype=x.dtype),
    "cumsum": lambda x: jnp.cumsum(x, 1, dtype=x.dtype),
    "dot": lambda x: x @ x.T,
}


def _least(x: Any) -> np.ndarray:
    if jnp.issubdtype(x.dtype, jnp.floating):
        return np.array(-np.inf, x.dtype)
    return np.array(np.iinfo(x.dtype).min, x.dtype)


def _is_integer(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iu"


def _edges(dtype: Any) -> np.ndarray:
    """The values of a type where kernels go wrong."""
    powers = (7, 8, 15, 16, 23, 24, 31, 32, 33, 40, 52, 53, 62, 63)
    around = [sign * (2**power + by) for power in powers for by in (-1, 0, 1) for sign in (1, -1)]
    if _is_integer(dtype):
        info = np.iinfo(dtype)
        numbers = {*around, 0, 1, 2, 3, -1, -2, -7, info.min, info.min + 1, info.max, info.max - 1}
        return np.array(sorted(n for n in numbers if info.min <= n <= info.max), dtype)
    largest = float(jnp.finfo(dtype).max)
    numbers = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1,
        -1,
        7,
        -7,
        np.inf,
        np.nan,
        largest,
        -largest,
    ]
    finite = [float(n) for n in around if abs(n) < largest]
    return np.array([*numbers, -np.inf, -np.inf, -np.inf, *finite]).astype(dtype)


def _named(dtype: Any) -> str:
    return np.dtype(dtype).name


def _check_all(operators: dict[str, Any], dtype: Any, *inputs: np.ndarray) -> None:
    """All operators in one model, so that XLA compiles once."""

    def fn(*inputs: Any) -> Any:
        return {f"{name} of {_named(dtype)}": f(*inputs) for name, f in operators.items()}

    bench.check(fn, inputs, double=True, rtol=EXACT)


@pytest.mark.parametrize("dtype", NUMBERS, ids=_named)
def test_operators_on_one_operand_are_right_on_edge_values(dtype: Any) -> None:
    x = _edges(dtype)
    if dtype is np.float16:
        # XLA rounds quotients of half precision otherwise where they are large.
        x = x[~(np.abs(x) > 2048) | np.isinf(x)]
    more = UNARY_OF_INTEGERS if _is_integer(dtype) else UNARY_OF_FLOATS
    _check_all(UNARY | more, dtype, x)


@pytest.mark.parametrize("dtype", NUMBERS, ids=_named)
def test_operators_on_two_operands_are_right_on_edge_values(dtype: Any) -> None:
    edges = _edges(dtype)
    x, y = (axis.ravel().copy() for axis in np.meshgrid(edges, edges))
    _check_all(BINARY | (BINARY_OF_INTEGERS if _is_integer(dtype) else {}), dtype, x, y)


@pytest.mark.parametrize("dtype", NUMBERS, ids=_named)
def test_operators_along_an_axis_are_right_on_edge_values(dtype: Any) -> None:
    edges = _edges(dtype)
    rows = np.stack([np.roll(edges, by)[:6] for by in range(len(edges))])
    more = ALONG_AN_AXIS_OF_INTEGERS if _is_integer(dtype) else {}
    _check_all(ALONG_AN_AXIS | more, dtype, rows)


def _cast_edges(dtype: Any) -> np.ndarray:
    """All values of the small types; of the others also the neighbours of what is half way."""
    if np.dtype(dtype).itemsize <= 2 and not _is_integer(dtype):
        bits = np.arange(256 ** np.dtype(dtype).itemsize)
        x = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
        size = np.abs(x.astype(np.float64))
        # Denormal numbers of bfloat16 are flushed by XLA.
        return x[(size == 0) | ~(size < 1e-37)]
    if _is_integer(dtype):
        return _edges(dtype)
    parts = [_edges(dtype)]
    for narrow in (np.float16, *FLOATS_OF_8_BITS):
        size = np.dtype(narrow).itemsize
        bits = np.arange(0, 256**size, 7 if size == 2 else 1).astype(f"u{size}")
        values = np.unique(np.abs(bits.view(narrow).astype(np.float64)))
        values = values[np.isfinite(values)]
        for points in (values, (values[1:] + values[:-1]) / 2):
            points = points.astype(dtype)
            up, down = np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(-np.inf))
            parts += [points, up, down, -points, -up, -down]
    x = np.concatenate(parts)
    return x[(x == 0) | ~(np.abs(x) < 1e-37)]


def _rounded_twice_by_xla(dtype: Any) -> list[Any]:
    """Return the types to which XLA converts by way of a type in between."""
    if dtype not in (np.float32, np.float64):
        return []
    # XLA rounds a double twice on some processors.
    twice = [np.float16] if dtype is np.float64 else []
    # JAX 0.6 converts by way of float16, which rounds `past` to the midpoint of two results.
    for target in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        midpoint = np.float32(1 + float(ml_dtypes.finfo(target).eps) / 2)
        past = jnp.asarray(np.nextafter(midpoint, np.float32(2)))
        if past.astype(target) == 1:
            twice.append(target)
    return twice


def _rounded_to_odd(x: np.ndarray) -> np.ndarray:
    """Round to float32, to the odd neighbor if inexact, so that the next rounding is right."""
    nearest = x.astype(np.float32)
    limit = np.where(x > nearest, np.float32(np.inf), np.float32(-np.inf))
    is_even = nearest.view(np.uint32) % 2 == 0
    return np.where((nearest != x) & is_even, np.nextafter(nearest, limit), nearest)


@pytest.mark.parametrize("dtype", [*NUMBERS, *FLOATS_OF_8_BITS], ids=_named)
def test_conversions_are_right_on_edge_values(dtype: Any) -> None:
    x = _cast_edges(dtype)

    def to(target: Any) -> Callable[[Any], Any]:
        if target in INTEGERS_OF_4_BITS:
            return lambda x: x.astype(target).astype(np.int32)
        return lambda x: x.astype(target)

    targets = [*NUMBERS, *FLOATS_OF_8_BITS, *INTEGERS_OF_4_BITS, np.bool_]
    for target in _rounded_twice_by_xla(dtype):
        targets.remove(target)
        found = bench.run(bench.convert(to(target), (x,), double=True), (x,))
        with np.errstate(over="ignore"):
            want = _rounded_to_odd(x).astype(target)
        np.testing.assert_array_equal(found[0].astype(dtype), want.astype(dtype))
    _check_all({_named(target): to(target) for target in targets}, dtype, x)


NARROW: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: (x + x).astype(np.int32),
    "mean": lambda x: x.astype(np.float32).mean(),
    "max": lambda x: x.max().astype(np.float32),
    "argmax": lambda x: jnp.argmax(x),
    "sort": lambda x: jnp.sort(x).astype(np.float32),
    "where": lambda x: jnp.where(x > 1, x, x[0]).astype(np.float32),
    "concatenate": lambda x: jnp.concatenate([x, x[::-1]]).astype(np.float32),
    "gather": lambda x: x[jnp.array([2, 0])].astype(np.float32),
    "compare": lambda x: x == x[1],
    "scan": lambda x: lax.scan(lambda c, t: (c + t, c), x[0], x)[1].astype(np.float32),
    "while": lambda x: lax.while_loop(lambda c: (c < 3).all(), lambda c: c + 1, x).astype(
        np.float32
    ),
    "cond": lambda x: lax.cond(x[0] > 0, lambda y: y + y, lambda y: y, x).astype(np.float32),
    "dot": lambda x: lax.dot(x.reshape(2, 2), x.reshape(2, 2), preferred_element_type=np.float32),
    "pad": lambda x: jnp.pad(x, 1).astype(np.float32),
    "window": lambda x: (
        lax.reduce_window(x.astype(np.float32), -np.inf, lax.max, (2,), (1,), "VALID")
        .astype(x.dtype)
        .astype(np.float32)
    ),
    "iota": lambda x: (lax.iota(x.dtype, 4) + x).astype(np.float32),
    "clip": lambda x: jnp.clip(x, 0, 1).astype(np.float32),
    "scatter": lambda x: x.at[1].set(x[0]).astype(np.float32),
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize(
    ("dtype", "opset"),
    [
        (ml_dtypes.int4, 23),
        (ml_dtypes.uint4, 23),
        (ml_dtypes.int2, 26),
        (ml_dtypes.float8_e8m0fnu, 26),
        (ml_dtypes.float8_e4m3fn, 23),
        (ml_dtypes.float8_e5m2fnuz, 23),
    ],
)
def test_a_narrow_type_is_right_or_refused(name: str, dtype: Any, opset: int) -> None:
    x = np.array([1, 0, 1, 1], np.float32)
    if dtype == ml_dtypes.int2 and name == "sort":
        pytest.skip("XLA returns -1 for each 1 that it sorts")

    def narrowed(x: Any) -> Any:
        return NARROW[name](x.astype(dtype))

    try:
        bench.check(narrowed, (x,), rtol=EXACT, opset=opset)
    except jax.errors.JaxRuntimeError:
        pytest.skip("XLA does not compute it")
    except jax2onnx.UnsupportedError as error:
        assert "bug" not in str(error), error  # noqa: PT017
        assert "test_edges.py" in str(error)  # noqa: PT017


@pytest.mark.parametrize("dtype", [ml_dtypes.int2, ml_dtypes.uint2])
def test_a_type_of_a_later_opset_names_the_opset(dtype: Any) -> None:
    with pytest.raises(jax2onnx.UnsupportedError, match=r"needs opset 2\d"):
        bench.convert(lambda x: x.astype(dtype).astype(np.float32), (np.ones(3, np.float32),))


def test_a_window_of_negative_infinity_stays_so_beside_the_least_number() -> None:
    least = np.finfo(np.float32).min
    x = np.array([-np.inf, -np.inf, least, -np.inf, least, least, 1], np.float32)
    for monoid, init in ((lax.max, -np.inf), (lax.min, np.inf)):
        fn = lambda x, m=monoid, i=init: lax.reduce_window(x, i, m, (2,), (1,), "VALID")  # noqa: E731
        bench.check(fn, (x if monoid is lax.max else -x,))


ZEROS: dict[str, Callable[[Any], Any]] = {
    "maximum": lambda x: 1 / jnp.maximum(x, 0),
    "relu": lambda x: 1 / jax.nn.relu(x),
    "clip": lambda x: 1 / jnp.clip(x, 0, 1),
    "reshape": lambda x: 1 / jnp.maximum(0, x).reshape(2, -1),
    "rsqrt": lambda x: lax.rsqrt(jnp.maximum(x, 0)),
    "sqrt": lambda x: 1 / jnp.sqrt(jnp.maximum(x, 0)),
    "power": lambda x: jnp.maximum(x, 0) ** -3,
    "arctan2": lambda x: jnp.arctan2(x, jnp.maximum(x, 0)),
    "negative": lambda x: 1 / jnp.maximum(x, np.float32(-0.0)),
    "threshold": lambda x: 1 / jnp.where(x > 0.5, x, np.float32(-0.0)),
    "hard sigmoid": lambda x: 6 / jnp.minimum(jnp.maximum(x + 3, np.float32(-0.0)), 6),
    "selu": lambda x: 1 / jax.nn.selu(x),
}


@pytest.mark.parametrize("name", ZEROS)
def test_a_zero_has_the_sign_of_jax_where_a_quotient_shows_it(name: str) -> None:
    x = np.array([-0.0, 0.0, 4.0, -4.0], np.float32)
    bench.check(ZEROS[name], (x,), rtol=1e-6)


def test_a_divisor_that_is_never_zero_needs_no_node_for_its_sign() -> None:
    model = bench.convert(lambda x: x / jnp.maximum(x, 1e-12), (np.ones(3, np.float32),))
    assert [node.op_type for node in model.graph.node] == ["Max", "Div"]
