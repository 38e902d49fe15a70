"""Complex numbers, which travel as pairs, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import Case

random = np.random.default_rng(7)


def draw(*shape: int, dtype: Any = np.complex64) -> np.ndarray:
    return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype)


Z, W = draw(3, 4), draw(3, 4)
REAL = random.normal(size=(3, 8)).astype(np.float32)
FAR = np.array([1, 5, -1, 0], np.int32)
CLOSE = {"rtol": 2e-5, "atol": 1e-5}
FINE = {"rtol": 1e-12, "atol": 1e-12, "double": True}

UNARY: dict[str, Callable[..., Any]] = {
    "abs": lax.abs,
    "acos": lax.acos,
    "acosh": lax.acosh,
    "asin": lax.asin,
    "asinh": lax.asinh,
    "atan": lax.atan,
    "atanh": lax.atanh,
    "conj": lax.conj,
    "cos": lax.cos,
    "cosh": lax.cosh,
    "exp": lax.exp,
    "exp2": lax.exp2,
    "expm1": lax.expm1,
    "imag": lax.imag,
    "integer_pow": lambda z: lax.integer_pow(z, 5),
    "log": lax.log,
    "log1p": lax.log1p,
    "logistic": lax.logistic,
    "neg": lax.neg,
    "real": lax.real,
    "rsqrt": lax.rsqrt,
    "sign": lax.sign,
    "sin": lax.sin,
    "sinh": lax.sinh,
    "sqrt": lax.sqrt,
    "square": lax.square,
    "tan": lax.tan,
    "tanh": lax.tanh,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": lax.add,
    "div": lax.div,
    "eq": lambda z, w: lax.eq(z, jnp.where(z.real > 0, z, w)),
    "max": lambda z, w: lax.max(z, jnp.where(z.real > 0, z + 1j, w)),
    "min": lambda z, w: lax.min(z, jnp.where(z.real > 0, z + 1j, w)),
    "mul": lax.mul,
    "ne": lambda z, w: lax.ne(z, jnp.where(z.real > 0, z, w)),
    "pow": lax.pow,
    "sub": lax.sub,
}
MOVES: dict[str, Callable[..., Any]] = {
    "broadcast": lambda z: jnp.broadcast_to(z, (2, 3, 4)),
    "concatenate": lambda z: jnp.concatenate([z, z * 2], axis=1),
    "convert": lambda z: z + jnp.arange(4.0),
    "cumsum": lambda z: jnp.cumsum(z, axis=0),
    "pad": lambda z: jnp.pad(z, ((1, 0), (0, 2)), constant_values=1 + 2j),
    "power of integers": lambda z: jnp.power(z, jnp.arange(4)),
    "reshape": lambda z: z.reshape(2, 6),
    "reverse": lambda z: z[::-1],
    "select": lambda z: jnp.where(z.real > 0, z, 0),
    "slice": lambda z: z[1:, ::2],
    "sum": lambda z: z.sum(axis=0),
    "transpose": lambda z: z.T,
}


def apart(fn: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """The parts of what a function returns, because a NaN hides the other part."""

    def parts(x: jax.Array) -> jax.Array:
        z = fn(x)
        return jnp.stack([z.real, z.imag])

    return parts


#: Parts that overflow when they are squared, infinities, and NaN: all pairs of them.
PARTS = np.array([0, -2.5, 1e20, -1e30, 3e38, np.inf, -np.inf, np.nan], np.float32)
EXTREMES = np.empty(64, np.complex64)
EXTREMES.real, EXTREMES.imag = np.repeat(PARTS, 8), np.tile(PARTS, 8)
LEFT = np.array([-30 + 0.5j, -100 + 3j, -1e30 + 1j], np.complex64)
DISTANT = np.array([44.5 + 1j, -60 + 2j, 1e4 - 1j, -1e20 + 0.5j], np.complex64)
EDGES = np.array([0, 1, -1, 1j, -1j, 3 - 4j, 1e-20 + 1e-20j, 1e18 - 1e18j], np.complex64)
#: Real numbers with both zeros as imaginary parts.
REALS = np.array([complex(re, im) for re in (0.5, 3.0) for im in (0.0, -0.0)], np.complex64)

CASES = [
    *(Case(f"complex.{name}", fn, (Z,), covers=(name,), **CLOSE) for name, fn in UNARY.items()),
    *(Case(f"complex.{name}", fn, (Z, W), covers=(name,), **CLOSE) for name, fn in BINARY.items()),
    *(Case(f"complex.{name}", fn, (Z,), **CLOSE) for name, fn in MOVES.items()),
    *(
        Case(f"complex128.{name}", UNARY[name], (Z.astype(np.complex128),), **FINE)
        for name in ("abs", "exp", "log", "sqrt", "tanh")
    ),
    *(
        Case(f"complex.extremes.{name}", apart(UNARY[name]), (EXTREMES,), rtol=1e-5, atol=1e-30)
        for name in ("square", "asin", "acos", "asinh", "acosh", "atan", "atanh")
    ),
    *(
        Case(f"fft.of_one.{name}", apart(fn), (x[:, None],))
        for name, fn, x in (
            ("rfft", jnp.fft.rfft, PARTS),
            ("fft", jnp.fft.fft, EXTREMES),
            ("ifft", jnp.fft.ifft, EXTREMES),
        )
    ),
    # XLA has neither the digits of `exp(-30)` beside 1 nor those of `tanh` far from 0.
    Case("complex.left.expm1", apart(lax.expm1), (LEFT,), rtol=1e-5),
    Case("complex.far.tanh", apart(lax.tanh), (DISTANT,), rtol=1e-5),
    Case("complex.far.tan", apart(lax.tan), (DISTANT * 1j,), rtol=1e-5),
    Case("complex.extremes.times_one", apart(lambda z: 1 * z), (EXTREMES,)),
    # XLA returns 0 and not -0 as the imaginary part, which selects a side of the branch cut.
    *(
        Case(f"complex.real.log of -{name}", lambda z, fn=fn: jnp.log(-fn(z)), (REALS,), rtol=1e-5)
        for name, fn in (("exp", lax.exp), ("expm1", lax.expm1), ("cosh", lax.cosh))
    ),
    Case("complex.edges.abs", lax.abs, (EDGES,), rtol=1e-6),
    Case("complex.edges.sqrt", lax.sqrt, (EDGES,), rtol=1e-6, atol=1e-12),
    Case("complex.edges.div", lax.div, (EDGES, EDGES[1:3].repeat(4)), rtol=1e-6),
    Case("complex.of_parts", lambda x: lax.complex(x, x * 2), (REAL,), covers=("complex",)),
    Case("complex.dot", lambda z, w: z @ w.T, (Z, W), **CLOSE),
    Case("complex.dot.of_real", lambda z, x: lax.dot(z, x), (Z, REAL[:, :4].T.copy()), **CLOSE),
    Case("complex.dot.by_real", lambda x, z: lax.dot(x, z), (REAL[:, :3], Z), **CLOSE),
    Case("complex.einsum", lambda z, w: jnp.einsum("ij,kj->ik", z, w.conj()), (Z, W), **CLOSE),
    Case("complex.jit", jax.jit(lambda z: jnp.angle(z) + jnp.abs(z)), (Z,), **CLOSE),
    Case("complex.scan", lambda z: lax.scan(lambda c, y: (c * y, c), z[0], z), (Z,), **CLOSE),
    Case("complex.prod", jnp.prod, (Z,), covers=("reduce_prod",), **CLOSE),
    Case("complex.prod.axes", lambda z: jnp.prod(z, (0, 2)), (draw(2, 3, 5),), **CLOSE),
    Case("complex.prod.of_nothing", lambda z: jnp.prod(z[:0], 0), (Z,)),
    Case("complex.prod.of_one", lambda z: jnp.prod(z[:1], 0), (Z,)),
    Case("complex.cumprod", lambda z: jnp.cumprod(z, 1), (Z,), covers=("cumprod",), **CLOSE),
    Case("complex.cumprod.reverse", lambda z: lax.cumprod(z, 0, reverse=True), (Z,), **CLOSE),
    Case(
        "complex.max.axes", lambda z: jnp.max(z, (0, 2)), (draw(2, 3, 5),), covers=("reduce_max",)
    ),
    Case("complex.min.axis", lambda z: jnp.min(z[:, :1] * 0 + z, 1), (Z,), covers=("reduce_min",)),
    Case("complex.min.of_nothing", lambda z: jnp.min(z[:0], 0, initial=1j), (Z,)),
    Case("complex.iota", lambda z: z * lax.iota(z.dtype, 4), (Z,), covers=("iota",), **CLOSE),
    Case("complex.iota.long", lambda z: lax.iota(z.dtype, 300) + z[0, 0], (Z,), **CLOSE),
    *(
        Case(f"complex.fill.{name}", lambda z, i, fill=fill: fill(z.at[i].get), (Z, FAR))
        for name, fill in {
            "nan": lambda get: get(mode="fill"),
            "zero": lambda get: get(mode="fill", fill_value=0),
            "number": lambda get: get(mode="fill", fill_value=1 + 2j),
        }.items()
    ),
    Case("complex.drop", lambda z, i: z.at[i].set(1j, mode="drop").at[i].add(z[0]), (Z, FAR)),
    Case(
        "complex.grad.abs_fft",
        jax.grad(lambda x: jnp.abs(jnp.fft.fft(x)).sum()),
        (REAL,),
        covers=("convert_element_type",),
        **CLOSE,
    ),
    Case("complex.grad.exp", jax.grad(lambda x: jnp.exp(1j * x).real.sum()), (REAL,), **CLOSE),
    Case(
        "complex.vmap.psum",
        lambda z: jax.vmap(lambda row: lax.psum(row, "i"), axis_name="i")(z),
        (Z,),
        **CLOSE,
    ),
    Case("complex.reshape_transposed", lambda z: lax.reshape(z, (4, 3), (1, 0)), (Z,)),
    *(
        Case(f"fft.{norm}.{name}", lambda x, fn=fn, norm=norm: fn(x, norm=norm), (x,), **CLOSE)
        for norm in ("ortho", "forward")
        for name, fn, x in (
            ("fft", jnp.fft.fft, Z),
            ("irfft", jnp.fft.irfft, Z),
            ("rfft2", jnp.fft.rfft2, REAL),
            ("ifftn", jnp.fft.ifftn, draw(2, 3, 5)),
        )
    ),
    Case("fft.fft", jnp.fft.fft, (Z,), covers=("fft",), **CLOSE),
    Case("fft.ifft", jnp.fft.ifft, (Z,), **CLOSE),
    Case("fft.fft2", jnp.fft.fft2, (Z,), **CLOSE),
    Case("fft.ifftn", jnp.fft.ifftn, (draw(2, 3, 5),), **CLOSE),
    # In ONNX Runtime, the error of a transform of float32 grows with its length.
    *(
        Case(f"fft.long.{name}", fn, (x,), rtol=1e-5, atol=1e-5)
        for name, fn, x in (
            ("fft", jnp.fft.fft, draw(2, 100)),
            ("ifft", jnp.fft.ifft, draw(100)),
            ("rfft", jnp.fft.rfft, draw(2, 100).real),
            ("irfft", lambda z: jnp.fft.irfft(z, 99), draw(50)),
            ("fft2", jnp.fft.fft2, draw(3, 40)),
        )
    ),
    # ONNX Runtime rounds the factor of an inverse transform to float32.
    *(
        Case(f"fft.double.{name}", fn, (x,), rtol=1e-13, atol=1e-13, double=True)
        for name, fn, x in (
            ("ifft_single", jnp.fft.ifft, draw(7, dtype=np.complex128)),
            ("ifft_8", jnp.fft.ifft, draw(2, 8, dtype=np.complex128)),
            ("ifftn", jnp.fft.ifftn, draw(2, 3, 5, dtype=np.complex128)),
            ("irfft", lambda z: jnp.fft.irfft(z, 9), draw(2, 5, dtype=np.complex128)),
        )
    ),
    # ONNX Runtime before 1.27 adds an axis to the transform of a single signal.
    Case("fft.single", jnp.fft.fft, (Z[0],), **CLOSE),
    Case("fft.single.rfft", jnp.fft.rfft, (REAL[0],), **CLOSE),
    Case("fft.single.irfft", lambda z: jnp.fft.irfft(z, 6), (Z[0],), **CLOSE),
    *(
        Case(f"fft.rfft_{n}", lambda x, n=n: jnp.fft.rfft(x, n), (REAL,), **CLOSE)
        for n in (1, 2, 7, 8)
    ),
    *(
        Case(f"fft.irfft_{n}", lambda z, n=n: jnp.fft.irfft(z, n), (Z,), **CLOSE)
        for n in (1, 2, 6, 7)
    ),
    # The first entry, and the last one of an even length, are real, even beside an infinity.
    *(
        Case(
            f"fft.rfft_{n}.is_real",
            lambda x, n=n: jnp.fft.rfft(x, n)[:, [0, -1][: 2 - n % 2]].imag,
            (np.vstack([REAL, np.full_like(REAL[:1], np.inf)]),),
        )
        for n in (2, 5, 7, 8)
    ),
    Case("fft.rfft2", jnp.fft.rfft2, (REAL,), **CLOSE),
    Case("fft.irfft2", lambda z: jnp.fft.irfft2(z, s=(3, 6)), (Z,), **CLOSE),
    Case("fft.double", jnp.fft.fft, (Z.astype(np.complex128),), **FINE),
    Case("fft.shifted", lambda x: jnp.fft.fftshift(jnp.fft.fft(x)), (REAL,), **CLOSE),
    Case("fft.opset_17", jnp.fft.fft, (Z,), opset=17, **CLOSE),
]
