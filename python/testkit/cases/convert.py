"""Conversion between types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import Case
from .values import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    INTS,
    SHORT,
    array,
    case,
    floats,
    is_float,
    numbers,
    spread,
    subnormals,
)

TYPES = (*FLOATS, *INTS, BOOL)
NARROW = tuple(dtype for dtype in TYPES if dtype.itemsize < 8)


def edges(dtype: np.dtype) -> np.ndarray:
    """Numbers about the ends of every integer type, and halves."""
    if not is_float(dtype):
        return numbers(dtype)
    powers = [2.0**bits for bits in (7, 8, 15, 16, 31, 32, 63, 64)]
    ends = [sign * power for power in powers for sign in (1, -1)]
    if dtype == F64:
        ends += [end + step for end in ends[:12] for step in (-1, 1, -0.5, 0.5)]
    beyond = [1e6, -1e6, 1e12, -1e12, 1e25, -1e25]
    return np.concatenate([floats(dtype), spread(dtype, -3, 3, 13), array([*ends, *beyond], dtype)])


def conversions() -> Iterator[Case]:
    """Every type to every other."""

    def to_all(dtypes: tuple[np.dtype, ...]) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
        return lambda x: tuple(
            lax.convert_element_type(x, dtype) for dtype in dtypes if x.dtype != dtype
        )

    for dtype in NARROW:
        x = edges(dtype)
        yield case("convert_element_type", dtype, to_all(NARROW), x)
    for dtype in TYPES:
        wide = to_all(TYPES if dtype.itemsize == 8 else (F64, *INTS[3::4]))
        yield case("convert_element_type", dtype, wide, edges(dtype), about="wide", double=True)
    for dtype in (F32, BOOL, np.dtype(np.int32)):
        others = to_all(NARROW)
        one = dtype.type(1)
        yield case("convert_element_type", dtype, others, np.asarray(one), about="scalar")
        yield case("convert_element_type", dtype, others, np.zeros((0, 2), dtype), about="empty")


def rounded_once(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


#: What a case of float64 to float16 is compared with.
ROUNDED_ONCE = {
    "reference": rounded_once,
    "because": "XLA rounds twice, first to float32, on CPUs without AVX512-FP16",
}


def roundings() -> Iterator[Case]:
    """Numbers next to the middle between two of the narrower type."""
    digits = {F16: 11, BF16: 8, F32: 24}
    for wide, narrow in ((F32, F16), (F32, BF16), (F64, F16), (F64, BF16), (F64, F32)):
        unit = 2.0 ** (1 - digits[narrow])
        middles = np.array([1 + (n + 0.5) * unit for n in range(4)])
        nudges = [0.0, 2.0**-23, -(2.0**-23)]
        if wide == F64:
            nudges += [2.0**-40, -(2.0**-40), 2.0**-52, -(2.0**-52)]
        x = np.concatenate([middles + nudge for nudge in nudges]).astype(wide)
        x = np.concatenate([x, -x, x * wide.type(512)])
        about = f"{SHORT[narrow]}_ties"
        fn = lambda x, narrow=narrow: lax.convert_element_type(x, narrow)  # noqa: E731
        options = ROUNDED_ONCE if (wide, narrow) == (F64, F16) else {}
        yield case("convert_element_type", wide, fn, x, about=about, **options)
    ends = np.array([65503.9, 65504.0, 65519.99, 65519.999999, 65520.0, 65520.1, 65536.0])
    to_half = lambda x: lax.convert_element_type(x, np.float16)  # noqa: E731
    for dtype in (F32, F64):
        x = np.concatenate([ends, -ends]).astype(dtype)
        options = ROUNDED_ONCE if dtype == F64 else {}
        yield case("convert_element_type", dtype, to_half, x, about="f16_overflow", **options)


def patterns(dtype: np.dtype) -> np.ndarray:
    """Numbers of every kind: zeros, subnormals, powers of two, their neighbours, infinities."""
    parts = [floats(dtype), subnormals(dtype), array([1 / 3, -2 / 3, 1e-3, 65504], dtype)]
    powers = array([2.0**p for p in (-120, -100, -14, -13, -3, 3, 9, 15, 100, 127)], dtype)
    around = [powers, np.nextafter(powers, array([0], dtype)), np.nextafter(powers, -powers)]
    return np.concatenate([*parts, *around])


def bits() -> Iterator[Case]:
    for dtype in FLOATS:
        x = patterns(dtype)
        signed, unsigned = np.dtype(f"i{dtype.itemsize}"), np.dtype(f"u{dtype.itemsize}")
        for integer in (signed, unsigned):
            to_bits = lambda x, integer=integer: lax.bitcast_convert_type(x, integer)  # noqa: E731
            to_float = lambda n, dtype=dtype: lax.bitcast_convert_type(n, dtype)  # noqa: E731
            yield case("bitcast_convert_type", dtype, to_bits, x, about=SHORT[integer])
            yield case(
                "bitcast_convert_type", integer, to_float, x.view(integer), about=SHORT[dtype]
            )
    f32 = patterns(F32)
    to_bits = lambda x: lax.bitcast_convert_type(x, jnp.uint32)  # noqa: E731
    yield case("bitcast_convert_type", F32, to_bits, f32, about="opset_26", opset=26)
    yield case("bitcast_convert_type", F32, to_bits, np.float32(-0.0), about="scalar")
    yield case("bitcast_convert_type", F32, to_bits, np.zeros((0,), F32), about="empty")
    for wide, narrow in ((F32, "u1"), (F32, "i2"), (np.dtype("u8"), "u4"), (np.dtype("i2"), "i1")):
        parts, x = np.dtype(narrow), numbers(wide)
        to_parts = lambda x, parts=parts: lax.bitcast_convert_type(x, parts)  # noqa: E731
        to_whole = lambda n, wide=wide: lax.bitcast_convert_type(n, wide)  # noqa: E731
        split = x.view(parts).reshape(len(x), -1)
        yield case("bitcast_convert_type", wide, to_parts, x, about=f"parts_{SHORT[parts]}")
        yield case(
            "bitcast_convert_type",
            parts,
            to_whole,
            split,
            about=f"whole_{SHORT[wide]}",
            double=True,
        )
    i32 = np.dtype(np.int32)
    to_unsigned = lambda n: lax.bitcast_convert_type(n, jnp.uint32)  # noqa: E731
    yield case("bitcast_convert_type", i32, to_unsigned, numbers(i32), about="u32")


def precisions() -> Iterator[Case]:
    """What is left of a number in fewer bits; below the least normal number nothing is."""
    shapes = ((8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (8, 3), (2, 1), (11, 52))
    for dtype in (F16, BF16, F32, F64):
        sizes = np.array([2.0**p * f for p in range(-28, 20) for f in (1, 1.25, 1.4375, 1.9999)])
        middles = 1 + (np.arange(64) + 0.5) * 2.0**-5
        whole = np.concatenate([sizes, -sizes, middles, 1 + middles * 2.0**-9, [1 + 2.0**-11]])
        x = np.concatenate([floats(dtype), array(whole, dtype)])
        for exponent, mantissa in shapes:

            def reduce(x: jax.Array, e: int = exponent, m: int = mantissa) -> jax.Array:
                return lax.reduce_precision(x, e, m)

            about = f"{exponent}_{mantissa}"
            yield case("reduce_precision", dtype, reduce, x, about=about)


CASES = [*conversions(), *roundings(), *bits(), *precisions()]
