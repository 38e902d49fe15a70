"""Complex numbers and floats of 8 bits where they overflow, are infinite or are NaN.

Each test runs with passes off and on and with ONNX Runtime's optimizations off and on. Denormal
numbers are left out: XLA flushes them on some processors.
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

FINITE = [0, 1, -1, 0.5, -3, 100, -100, 1e20, -1e20, 1e30, -1e30, 1e-20, -1e-20]
INFINITE = [np.inf, -np.inf]

#: Functions that are tested together, with the numbers that their operand consists of.
FUNCTIONS: dict[str, tuple[list[Callable[[Any], Any]], list[float]]] = {
    "exponentials": (
        [jnp.exp, jnp.expm1, jnp.sinh, jnp.cosh, jnp.tanh, jax.nn.sigmoid],
        [*FINITE, *INFINITE, np.nan],
    ),
    "logarithms": ([jnp.log, jnp.log10, jnp.sqrt, jnp.abs], [*FINITE, *INFINITE, np.nan]),
    "log1p": ([jnp.log1p], [x for x in FINITE if abs(x) != 1e-20] + INFINITE),
    "angles": ([jnp.sin, jnp.cos, jnp.tan, jnp.angle], [*FINITE, *INFINITE, np.nan]),
    "quotients": ([lambda z: 1 / z, lambda z: (-1 + 1j) / z], [*FINITE, *INFINITE, np.nan]),
    "roots": ([lax.rsqrt, lambda z: z**-2], [0, 1, -1, 0.5, -3, 100, *INFINITE]),
    "powers": (
        [lambda z: z ** (0.5 - 1j), lambda z: jnp.power(z, 0 * z.real - 2)],
        [0, 1, -1, 0.5, -3, 100, -100],
    ),
    "inverses": (
        [jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.arccosh, jnp.arctanh],
        [*FINITE, *INFINITE],
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_complex_function_has_the_limits_of_xla(name: str, dtype: Any) -> None:
    functions, numbers = FUNCTIONS[name]
    if dtype is np.float64:
        numbers = [*numbers, 1e200, -1e200]
    parts = np.array(numbers, dtype)
    re, im = (part.ravel() for part in np.meshgrid(parts, parts))

    def all_of(re: Any, im: Any) -> Any:
        return [fn(lax.complex(re, im)) for fn in functions]

    bench.check(all_of, (re, im), rtol=3e-5, atol=2e-6, double=dtype is np.float64)


def test_a_quotient_of_infinite_and_zero_numbers_is_that_of_xla() -> None:
    parts = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan], np.float32)
    numbers = [part.ravel() for part in np.meshgrid(*[parts] * 4)]

    def quotient(a: Any, b: Any, c: Any, d: Any) -> Any:
        return lax.complex(a, b) / lax.complex(c, d)

    bench.check(quotient, numbers, rtol=1e-5)


def test_a_complex_number_is_converted_to_its_real_part() -> None:
    z = np.array([1 + 2j, -3.7 + 0j, 0j, 4j, complex(np.nan, 1)], np.complex64)

    def converted(z: Any) -> Any:
        types = (np.float32, np.float16, np.int32, np.bool_)
        return [lax.convert_element_type_p.bind(z, **_to(dtype)) for dtype in types]

    bench.check(converted, (z,))


def _to(dtype: Any) -> dict[str, Any]:
    return {"new_dtype": np.dtype(dtype), "weak_type": False, "sharding": None}


def test_a_refusal_of_complex_numbers_says_what_to_do() -> None:
    z = np.ones(3, np.complex64)
    with pytest.raises(jax2onnx.UnsupportedError, match=r"take `z\.real` and `z\.imag`"):
        jax2onnx.to_onnx(lambda z: lax.cummax(z), [z])


FLOATS_OF_8_BITS = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
)

#: XLA takes the neighbor of their smallest number for NaN, whose bits are those of a negative zero.
NEGATIVE_NAN = (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)


@pytest.mark.parametrize("dtype", FLOATS_OF_8_BITS, ids=lambda dtype: dtype.__name__)
def test_arithmetic_in_8_bits_overflows_like_in_xla(dtype: Any) -> None:
    every = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    x, y = (part.ravel() for part in np.meshgrid(every, every[::5]))

    def results(x: Any, y: Any) -> Any:
        x, y = x.astype(dtype), y.astype(dtype)
        floats = [x + y, x - y, x * y, x / y, -x, abs(x), jnp.square(x), jnp.where(x > y, x, y)]
        if dtype not in NEGATIVE_NAN:
            floats.append(jnp.nextafter(x, y))
        floats += [jnp.exp(jnp.round(x)), x[::3].at[1:3].add(x[-2:])]
        floats += [jnp.cumsum(x[:3]), (x.reshape(-1, 2) + 1).max(1), x[jnp.array([3, 127])]]
        floats += [lax.scan(lambda c, t: (c + c, c), x[60], x[:9])[1], jnp.full(2, 1e6, dtype)]
        return [*(each.astype(np.float32) for each in floats), lax.is_finite(x), x < y]

    bench.check(results, (x, y), rtol=1e-300)
