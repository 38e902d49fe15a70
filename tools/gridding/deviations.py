"""List where a model computes something else than JAX, and why: the grid accepts nothing else."""

from __future__ import annotations

import cmath
import dataclasses
import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any


@dataclasses.dataclass(frozen=True)
class Element:
    """One element that differs from JAX."""

    function: str
    type: str
    inputs: tuple[Any, ...]
    found: Any
    #: With few optimizations of XLA, with all, and one operation after the other.
    wanted: tuple[Any, ...]
    #: What JAX computes in double precision, where the type has less.
    double: Any
    #: Whether the model returns that.
    is_double: bool
    reads_denormal: bool
    returns_denormal: bool

    def __str__(self) -> str:
        wanted = " or ".join(dict.fromkeys(map(str, self.wanted)))
        return f"{self.found} at {', '.join(map(str, self.inputs))} where JAX has {wanted}"


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A difference that is documented."""

    name: str
    #: What JAX returns, what the model returns, and why.
    words: str
    #: Whether the deviation covers an element.
    covers: Callable[[Element], bool]
    #: Patterns of the names of functions and types.
    functions: tuple[str, ...] = ("*",)
    types: tuple[str, ...] = ("*",)

    def excuses(self, element: Element) -> bool:
        return (
            any(fnmatchcase(element.function, one) for one in self.functions)
            and any(fnmatchcase(element.type, one) for one in self.types)
            and self.covers(element)
        )


def _is_zero_sign(element: Element) -> bool:
    """Return whether the model returns what JAX returns, the signs of zeros aside."""
    found = element.found
    if not isinstance(found, complex):
        return any(found == want for want in element.wanted)
    return any(
        all(_is_near(element, a, b) for a, b in zip(_parts(found), _parts(want), strict=True))
        for want in map(complex, element.wanted)
    )


def _is_near(element: Element, one: float, other: float) -> bool:
    """Return whether two parts of complex numbers are the same, the sign of a zero aside."""
    if one == other or (one != one and other != other):
        return True
    digits = 1e-9 if element.type == "complex128" else 2e-5
    return (
        math.isfinite(one)
        and math.isfinite(other)
        and abs(one - other) <= digits * max(abs(other), 1e-6)
    )


def _parts(number: Any) -> tuple[float, float]:
    number = complex(number)
    return number.real, number.imag


def _operand_parts(element: Element) -> list[float]:
    return [abs(part) for one in element.inputs for part in _parts(one)]


def _is_nan_part(element: Element) -> bool:
    """Return whether a part of an operand is NaN, and so is a part of each result."""
    results = (element.found, *element.wanted)
    return any(map(math.isnan, _operand_parts(element))) and all(map(cmath.isnan, results))


def _is_infinite(element: Element) -> bool:
    """Return whether both results are infinite, and an operand is large, tiny or not finite."""
    is_extreme = any(not 1e-9 < part < 80 for part in _operand_parts(element))
    wanted = any(cmath.isinf(want) for want in element.wanted)
    return is_extreme and cmath.isinf(element.found) and wanted


def _is_other_side(element: Element) -> bool:
    """Return whether the operand is huge, and the results are at both sides of a branch cut."""
    if max(_operand_parts(element)) < 1e38:
        return False
    conjugate = complex(element.found).conjugate()
    return all(
        all(_is_near(element, a, b) for a, b in zip(_parts(conjugate), _parts(want), strict=True))
        for want in element.wanted
    )


def _is_denormal(element: Element) -> bool:
    if element.reads_denormal:
        return True
    # XLA has a zero for each of these.
    return element.returns_denormal and any(want == 0 for want in (*element.wanted, element.found))


def _is_denormal_between(element: Element) -> bool:
    """Return whether an infinity is multiplied by a logarithm with a denormal part."""
    parts = _operand_parts(element)
    return math.inf in parts and any(0 < part < 1e-300 for part in parts)


def _is_rounded(element: Element) -> bool:
    """Return whether the model is at least about as close to the exact result as JAX is."""
    if element.is_double:
        return True
    numbers = (element.found, element.double, *element.wanted)
    if element.double is None or not all(cmath.isfinite(number) for number in numbers):
        return False
    error = max(abs(want - element.double) for want in element.wanted)
    return bool(abs(element.found - element.double) <= 4 * error)


def _is_within(error: Callable[[Element], float]) -> Callable[[Element], bool]:
    """Returns whether the model is so close to what JAX returns in double precision."""

    def covers(element: Element) -> bool:
        if element.double is None or not cmath.isfinite(element.double):
            return False
        return bool(abs(element.found - element.double) <= error(element))

    return covers


def _is_right_instead_of_nan(element: Element) -> bool:
    """Return whether JAX has NaN, and the model is within one digit of the exact result."""
    is_nan = all(map(math.isnan, element.wanted))
    return is_nan and _is_within(lambda one: abs(one.double) / 4 + 1e-5)(element)


def _error_of_lgamma(element: Element) -> float:
    """The error of the exponential of a logarithm of a gamma function in float32."""
    size = max(map(abs, element.inputs))
    return abs(element.double) * 2**-22 * math.lgamma(size + 2)


def _is_at_end(element: Element) -> bool:
    """Return whether an operand is near the ends of double precision; the model has a number."""
    numbers = _operand_parts(element)
    is_end = any(0 < number < 1e-300 or 1e300 < number < math.inf for number in numbers)
    return is_end and not cmath.isnan(element.found)


def _named(*names: str) -> tuple[str, ...]:
    """Patterns of functions of any module, and of calls with arguments as they are."""
    return tuple(name if " " in name else f"*.{name}" for name in names)


INVERSES = ("acos", "acosh", "asin", "asinh", "atan", "atanh")
INVERSES = (*INVERSES, *(f"arc{name[1:]}" for name in INVERSES))
POWERS = ("float_power", "pow", "power")
QUOTIENTS = ("div", "divide", "true_divide")

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "zero sign",
        "JAX returns -0.0 and the model 0.0, or the reverse. ONNX Runtime's `Where` adds a zero to "
        "the elements that it selects, and its `Max`, `Min` and `Clip` return either zero. The "
        "signs of complex results come from such a `Where`: `arcsin(-0.0+1j)` has the real part "
        "0.0.",
        _is_zero_sign,
    ),
    Deviation(
        "nan part",
        "A part of a complex operand is NaN. JAX returns NaN in one part and a number in the other "
        "one. The model returns NaN in both parts, or in the other one.",
        _is_nan_part,
        _named(
            *("arctan", "arctanh", "atan", "atanh", "celu", "cos", "cosh", "elu", "exp", "expm1"),
            *("fmax", "leaky_relu", "max", "maximum", "relu", "relu6", "sin", "sinh", "tan"),
            *("tanh", *POWERS),
        ),
        ("complex*",),
    ),
    Deviation(
        "infinite parts",
        "Both results are infinite, and an operand is above 80, below 1e-9 or not finite. JAX has "
        "infinities in both parts, and the model has NaN in one of them, or the reverse: the parts "
        "are differences of infinite products.",
        _is_infinite,
        _named(
            *("boxcox", "boxcox1p", "cos", "cosh", "exp", "exp2", "expm1", "gamma", "leaky_relu"),
            *("log1mexp", "mul", "multiply", "reciprocal", "sin", "sinc", "sinh", "sqrt", "square"),
            *("squareplus", "xlog1py", "xlogy", "integer_pow(*", "jnp.power(x, n)", "x ** *"),
            *(*INVERSES, *POWERS, *QUOTIENTS),
        ),
        ("complex*",),
    ),
    Deviation(
        "branch cut",
        "`logit(-0+3.4e38j)` is the logarithm of a number with a denormal imaginary part. XLA "
        "takes this part for -0.0 and returns -3.14j. The model returns 3.14j, which is right.",
        _is_other_side,
        _named("logit"),
        ("complex*",),
    ),
    Deviation(
        "denormal",
        "XLA takes numbers below the smallest normal number for zeros, in operands and in results. "
        "ONNX Runtime computes with them, so `1 / x` is infinite in JAX and large in the model. A "
        "formula that divides by a denormal number may return another number than at zero, and a "
        "negative one is outside the domain of a logarithm.",
        _is_denormal,
        types=("bfloat16", "float32", "float64", "complex*"),
    ),
    Deviation(
        "denormal logarithm",
        "An operand is infinite, and the logarithm of the other one has a denormal part. Their "
        "product is NaN in JAX, which takes that part for zero, and infinite in the model.",
        _is_denormal_between,
        _named("xlogy", "xlog1py"),
        ("complex128",),
    ),
    Deviation(
        "end of float64",
        "An operand is below 1e-300 or above 1e300. JAX and the model lose digits in different "
        "places, and XLA takes denormal numbers on the way for zeros. For example, "
        "`boxcox(0.5, 2.2e-308)` is 0 in JAX, and log(0.5) in the model. There is no wider type to "
        "judge by.",
        _is_at_end,
        _named(
            *("beta", "betaln", "boxcox", "boxcox1p", "gamma", "gammaincc", "igamma_grad_a"),
            *("igammac", "log1p", "logit", "owens_t", "polygamma", "spence", "zeta", *POWERS),
        ),
        ("float64", "complex128"),
    ),
    Deviation(
        "four bits",
        "XLA counts the bits of the byte that holds a negative number: `population_count(-1)` "
        "is 8, or -8 in another context. The model counts four bits and returns 4.",
        lambda element: element.inputs[0] < 0,
        ("jax.lax.population_count",),
        ("int4",),
    ),
    Deviation(
        "rounding",
        "Large terms cancel, so JAX and the model both lose digits, or JAX overflows on the way. "
        "The model is about as close as JAX, or closer, to what JAX returns in double precision.",
        _is_rounded,
    ),
    Deviation(
        "cancellation",
        "`squareplus(-100+3j)` is the half of a sum of two large numbers with opposite signs. The "
        "model rounds the square root in another place than JAX.",
        _is_within(lambda element: 2**-22 * max(_operand_parts(element))),
        _named("squareplus"),
        ("complex64",),
    ),
    Deviation(
        "logarithm of gamma",
        "JAX and the model compute the exponential of a difference of large logarithms of gamma "
        "functions. The digits before the point of a logarithm are missing in the result.",
        _is_within(_error_of_lgamma),
        _named("comb", "gammainc", "gammaincc"),
        ("int8", "int16", "int32", "uint8", "uint16", "uint32"),
    ),
    Deviation(
        "slow convergence",
        "Both operands are above 1e15, and the true result is near 0.5. JAX and the model stop "
        "the continued fraction after 2000 terms, when it is about 2e-5. Its last terms differ.",
        lambda element: min(element.inputs) > 1e15 and 1e-5 < element.found < 4e-5,
        _named("gammaincc"),
        ("int64", "uint64"),
    ),
    Deviation(
        "half on the way",
        "JAX and the model subtract a number in float16 from 0.25 in float32. The number differs "
        "in its last digit.",
        _is_within(lambda element: 2**-12),
        _named("owens_t"),
        ("float16",),
    ),
    Deviation(
        "no negative zero",
        "The number before zero is the operand. JAX returns NaN, because the bits of -0.0 are NaN "
        "in this type. The model returns 0.",
        lambda element: element.found == 0 and -1e-3 < element.inputs[0] < 0,
        _named("nextafter"),
        ("float8*fnuz",),
    ),
    Deviation(
        "float8 on the way",
        "JAX rounds every number on the way to float8. One of them overflows, and the result is "
        "NaN. The model computes in float32, and returns the right result.",
        _is_right_instead_of_nan,
        _named("igamma_grad_a"),
        ("float8*",),
    ),
)
