"""Sorting: the order of JAX, where NaN is last and equals keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case, Limit

RNG = np.random.default_rng(7)
NAN, INF = np.nan, np.inf
FEW = np.array([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 2.5, 1e-5, -1e-5], np.float32)
#: Many equals, and everything that compares in a way of its own.
X = RNG.choice(FEW, (3, 4, 20))
PAIRS = np.stack([X[0], X[1]], axis=-1).view(np.complex64)[..., 0]
SPREAD = RNG.normal(size=(4, 6)).astype(np.float32)
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def of(dtype: Any, shape: tuple[int, ...] = (3, 17)) -> np.ndarray:
    """Elements of the type, with its extremes and many equals."""
    if dtype in FLOATS:
        return RNG.choice(FEW, shape).astype(dtype)
    if dtype is np.bool_:
        return RNG.choice([True, False], shape)
    info = np.iinfo(dtype)
    return RNG.choice(np.array([info.min, info.max, 0, 1, 2, info.max - 1], dtype), shape)


def name(dtype: Any) -> str:
    return np.dtype(dtype).name


def with_indices(axis: int) -> Callable[[jax.Array], Any]:
    def fn(x: jax.Array) -> Any:
        return lax.sort((x, lax.broadcasted_iota(jnp.int32, x.shape, axis)), dimension=axis)

    return fn


def by_two(x: jax.Array, y: jax.Array) -> Any:
    return lax.sort((x, y, lax.broadcasted_iota(jnp.int32, x.shape, 1)), num_keys=2)


def by_three(x: jax.Array, y: jax.Array, z: jax.Array) -> Any:
    index = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return lax.sort((x, y, z, index), num_keys=3, dimension=0)


def top(k: int, axis: int = -1) -> Callable[[jax.Array], Any]:
    return lambda x: lax.top_k(x, k, axis=axis)


NARROW = np.array([2, np.nan, -3, 0, np.nan, -0.0, 240, -240], np.float32)


def of_narrow(fn: Callable[..., Any], dtype: str) -> Callable[[jax.Array], Any]:
    """A function of elements of a type that NumPy does not have."""

    def narrowed(x: jax.Array) -> Any:
        first, second = fn(x.astype(dtype))
        return first.astype(np.float32), second

    return narrowed


CASES = [
    *(
        Case(f"sort.{name(d)}", lambda x: lax.sort(x), (of(d),), double=True, covers=("sort",))
        for d in (*FLOATS, *INTS, np.bool_)
    ),
    *(
        Case(f"argsort.{name(d)}", with_indices(1), (of(d),), double=True)
        for d in (*FLOATS, *INTS, np.bool_)
    ),
    *(
        Case(f"{use}.nan_of_{d}", of_narrow(fn, d), (NARROW,), covers=(use,))
        for d in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3fn", "float8_e5m2")
        for use, fn in (("sort", with_indices(0)), ("top_k", lambda x: lax.top_k(x, 4)))
        if use == "sort" or "fnuz" in d
    ),
    *(Case(f"sort.axis_{axis}", with_indices(axis), (X,)) for axis in range(3)),
    Case("sort.two_keys", by_two, (of(np.int8, (4, 30)), of(np.float32, (4, 30)))),
    Case("sort.two_keys.f64", by_two, (of(np.float64), of(np.float64)), double=True),
    Case("sort.three_keys", by_three, (of(np.bool_), of(np.uint8), of(np.float16))),
    Case("sort.complex", lambda x: lax.sort((x, x), dimension=0), (PAIRS,)),
    Case("sort.size_one", with_indices(1), (SPREAD[:, :1],)),
    Case("sort.empty_axis", with_indices(1), (SPREAD[:, :0],)),
    Case("sort.empty", with_indices(1), (SPREAD[:0],)),
    # Zeros of either sign are equal keys, and an unstable sort may leave them in any order.
    Case("sort.unstable", lambda x: lax.sort(x, is_stable=False), (X,), rtol=1e-30),
    Case("sort.descending", lambda x: jnp.sort(x, descending=True), (X,)),
    Case("argsort.descending", lambda x: jnp.argsort(x, axis=0, descending=True), (X,)),
    Case("sort.numpy", lambda x: jnp.sort(x, axis=None), (X,)),
    Case("lexsort", lambda x, y: jnp.lexsort((x, y)), (X[0, 0], X[1, 1])),
    Case("partition", lambda x: jnp.partition(x, 3), (SPREAD,)),
    Case("argsort.vmap", jax.vmap(jnp.argsort), (X[0],)),
    *(
        Case(f"top_k.{name(d)}", top(9), (of(d),), double=True, covers=("top_k",))
        for d in (*FLOATS, *INTS)
    ),
    *(Case(f"top_k.axis_{axis}", top(2, axis), (X,)) for axis in range(3)),
    Case("top_k.all", top(20), (X,)),
    Case("top_k.subnormal", top(9), (np.array([0, -1e-40, -0.0, 1e-40, NAN] * 2, np.float32),)),
    Case(
        "top_k.subnormal.f64",
        top(9),
        (np.array([0, -1e-310, -0.0, 1e-310, NAN] * 2),),
        double=True,
    ),
    Case("top_k.none", top(0), (SPREAD,)),
    Case("top_k.empty", top(0), (SPREAD[:, :0],)),
    Case("top_k.opset_26", top(3), (X,), opset=26),
    Case(
        "partition.nan",
        lambda x: jnp.partition(x, 2),
        (np.array([3, np.nan, -1, 2, -0.0], np.float32),),
    ),
    Case(
        "argpartition.nan",
        lambda x: jnp.argpartition(x, 2),
        (np.array([3, np.nan, -1, 2, np.inf], np.float32),),
    ),
    Case("approx_max_k", lambda x: lax.approx_max_k(x, 3), (SPREAD,), covers=("approx_top_k",)),
    Case(
        "approx_max_k.bf16", lambda x: lax.approx_max_k(x, 1), (SPREAD.astype(ml_dtypes.bfloat16),)
    ),
    Case("approx_min_k", lambda x: lax.approx_min_k(x, 3, reduction_dimension=0), (SPREAD,)),
]

LIMITS = [
    Limit(
        "approx_max_k.not_aggregated",
        lambda x: lax.approx_max_k(x, 2, aggregate_to_topk=False),
        (np.zeros(3000, np.float32),),
        "aggregate_to_topk=False",
    ),
]
