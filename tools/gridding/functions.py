"""The elementwise functions of one, two and three arrays, found by asking JAX."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from sweeping.discover import functions as public
from sweeping.listed import LISTED

from testkit import bench

from .types import TYPES, Kind

MODULES = ("jax.numpy", "jax.nn", "jax.lax", "jax.scipy.special")


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of arrays of one element type, or of the types that `given` names."""

    name: str
    call: Callable[..., Any]
    count: int
    #: Types of the arguments after the first one, where they differ from it.
    others: tuple[str, ...] = ()

    def kinds(self, kind: Kind) -> tuple[Kind, ...]:
        return (kind, *map(Kind, self.others)) if self.others else (kind,) * self.count

    def program(self, kind: Kind) -> Callable[..., list[Any]]:
        """The function of the model's inputs, which returns a list of arrays."""
        kinds = self.kinds(kind)

        def run(*arrays: Any) -> list[Any]:
            given = [array.astype(one.dtype) for array, one in zip(arrays, kinds, strict=True)]
            return [_carried(leaf) for leaf in jax.tree.leaves(self.call(*given))]

        return run

    def takes(self, kind: Kind) -> bool:
        """Return whether JAX accepts the type, and the function works on each element by itself."""
        try:
            for shape in ((), (5,)):
                specs = [jax.ShapeDtypeStruct(shape, one.carrier) for one in self.kinds(kind)]
                found = jax.eval_shape(self.program(kind), *specs)
                if not found or any(leaf.shape != shape for leaf in found):
                    return False
        except Exception:
            return False
        return True


def _carried(leaf: Any) -> Any:
    """An array of four bits as one of eight: ONNX Runtime has no buffers of four bits in Python."""
    leaf = jnp.asarray(leaf)
    carrier = {"int4": np.int8, "uint4": np.uint8}.get(leaf.dtype.name)
    return leaf if carrier is None else leaf.astype(carrier)


def _arity(function: Callable[..., Any]) -> int:
    if isinstance(function, jnp.ufunc):
        return function.nin
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.default is inspect.Parameter.empty and p.kind in places]
    return len(needed)


#: Functions that move, sum or create elements, though one array of five becomes another.
NOT_ELEMENTWISE = frozenset(
    (
        *("array", "array_split", "asarray", "ascontiguousarray", "atleast_1d", "copy", "cumsum"),
        *("cumprod", "cumulative_sum", "cumulative_prod", "nancumsum", "nancumprod", "empty_like"),
        *("flip", "flipud", "fftshift", "full_like", "ones_like", "zeros_like", "sort"),
        *("sort_complex", "argsort", "permute_dims", "transpose", "matrix_transpose", "squeeze"),
        *("ravel", "roll", "softmax", "log_softmax", "standardize", "unwrap", "gradient", "cummax"),
        *("cummin", "cumlogsumexp", "associative_scan", "block", "broadcast_arrays"),
        *("stop_gradient", "optimization_barrier", "diff", "ediff1d", "unique", "unique_values"),
        *("asfortranarray", "moveaxis", "identity", "pvary", "dot", "inner", "vdot", "matmul"),
        *("convolve", "correlate", "outer", "kron", "union1d", "intersect1d", "setdiff1d"),
        *("setxor1d", "resize", "rollaxis", "insert", "append", "delete", "take", "put"),
        *("searchsorted", "digitize", "isin", "interp", "polyadd", "polysub", "polymul", "polydiv"),
        *("polyval", "poly", "vander", "random_gamma_grad", "percentile", "quantile"),
        *("nanpercentile", "nanquantile", "unravel_index", "dot_product_attention"),
        *("broadcast_like", "select"),
    )
)


def _extra() -> list[Function]:
    """Calls with other arguments than one array each."""
    return [
        *[_partial("jax.lax.integer_pow", lax.integer_pow, n) for n in (-2, -1, 0, 1, 2, 3, 5, 8)],
        *[
            Function(f"x {sign} {number}", functools.partial(_constant, call, number), 1)
            for sign, call in {
                "**": operator.pow,
                "/": operator.truediv,
                "//": operator.floordiv,
                "%": operator.mod,
                "*": operator.mul,
            }.items()
            for number in ((2, 3, -1, -2, 0.5, -0.5) if sign == "**" else (2, 3, -2, 0.5))
        ],
        *[
            Function(f"x.astype({to})", functools.partial(_cast, Kind(to).dtype), 1) for to in TYPES
        ],
        *[
            Function(f"lax.bitcast_convert_type(x, {to})", functools.partial(_bits, Kind(to)), 1)
            for to in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float16")
        ],
        Function("jnp.round(x, 1)", lambda x: jnp.round(x, 1), 1),
        Function("jnp.round(x, -1)", lambda x: jnp.round(x, -1), 1),
        Function("jnp.clip(x, 0, 3)", lambda x: jnp.clip(x, 0, 3), 1),
        Function("jnp.nan_to_num(x, nan=1)", lambda x: jnp.nan_to_num(x, nan=1), 1),
        Function("jax.nn.gelu(x, approximate=False)", lambda x: jax.nn.gelu(x, False), 1),
        Function("lax.round(x, TO_NEAREST_EVEN)", lambda x: lax.round(
            x, lax.RoundingMethod.TO_NEAREST_EVEN), 1),
        Function("lax.reduce_precision(x, 5, 10)", lambda x: lax.reduce_precision(x, 5, 10), 1),
        Function("jnp.ldexp(x, n)", jnp.ldexp, 2, ("int32",)),
        Function("jnp.power(x, n)", jnp.power, 2, ("int32",)),
        Function("jax.scipy.special.polygamma(n, x)",
                 lambda x, n: jax.scipy.special.polygamma(n, x), 2, ("int32",)),
        Function("lax.shift_left(x, 1)", lambda x: lax.shift_left(x, jnp.ones_like(x)), 1),
    ]  # fmt: skip


def _partial(name: str, call: Callable[..., Any], *rest: Any) -> Function:
    return Function(f"{name}(x, {', '.join(map(str, rest))})", lambda x: call(x, *rest), 1)


def _constant(call: Callable[..., Any], number: float, x: Any) -> Any:
    return call(x, number)


def _cast(dtype: np.dtype, x: Any) -> Any:
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError("the type needs `jax_enable_x64`")
    return x.astype(dtype)


def _bits(kind: Kind, x: Any) -> Any:
    return lax.bitcast_convert_type(x, kind.dtype)


@functools.cache
def candidates() -> dict[str, Function]:
    """Every function that may be elementwise, by its name."""
    found: dict[str, Function] = {}
    for name, call in public().items():
        module, _, short = name.rpartition(".")
        if module in MODULES and name not in LISTED and short not in NOT_ELEMENTWISE:
            count = _arity(call)
            if 1 <= count <= 3:
                found[name] = Function(name, call, count)
    return found | {function.name: function for function in _extra()}


@functools.cache
def functions() -> dict[str, Function]:
    """Every function of the grid by its name."""
    kinds = [Kind(name) for name in ("float32", "int32", "bool", "complex64")]
    return {
        name: function
        for name, function in candidates().items()
        if "(" in name or " " in name or any(function.takes(kind) for kind in kinds)
    }


def types_of(function: Function, among: Sequence[str] = TYPES) -> list[str]:
    """The element types that JAX accepts."""
    found = []
    for name in among:
        kind = Kind(name)
        with _precision(kind.is_double or "64" in function.name):
            if function.takes(kind):
                found.append(name)
    return found


def _precision(double: bool) -> Any:
    return bench.precision(double)
