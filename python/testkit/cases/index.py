"""Reading and writing at computed places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case, Limit

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5) - 17.5
M = np.linspace(-3, 3, 24, dtype=np.float32).reshape(6, 4)
V = np.array([3.0, -1.0, np.nan, 7.5, -0.0, 2.0, np.inf], np.float32)
I = np.array([0, 2, 5, -1, 3, 2], np.int32)  # noqa: E741
#: Equal numbers, both zeros, infinities and NaN; the first nine are finite.
TIES = np.array([2, -1, 0.0, 2, -0.0, 2, 5, -1, 3, np.inf, -np.inf, np.nan, np.nan, 2], np.float32)
#: Far out of bounds on both sides.
WILD = np.array([0, 5, 6, -1, -6, -7, 100, -100, 2**31 - 1, -(2**31)], np.int32)
MODES = ("fill", "clip", "promise_in_bounds")
DTYPES: tuple[Any, ...] = (
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.uint8,
    np.uint16,
    np.uint32,
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
)
WIDE: tuple[Any, ...] = (np.int64, np.uint64, np.float64)


def name_of(dtype: Any) -> str:
    return np.dtype(dtype).name


def at(indices: Any, mode: str) -> Callable[..., Any]:
    return lambda x: x.at[indices].get(mode=mode)


def raw_gather(numbers: dict[str, Any], sizes: tuple[int, ...], mode: str, **more: Any):  # noqa: ANN201
    dimension_numbers = lax.GatherDimensionNumbers(**numbers)
    return lambda x, i: lax.gather(x, i, dimension_numbers, sizes, mode=mode, **more)


def raw_scatter(scatter: Callable[..., Any], numbers: dict[str, Any], mode: str):  # noqa: ANN201
    dimension_numbers = lax.ScatterDimensionNumbers(**numbers)
    return lambda x, i, u: scatter(x, i, u, dimension_numbers, mode=mode)


READS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scalar": (lambda x, i: x[i], (A, np.int32(1))),
    "scalar_negative": (lambda x, i: x[i], (A, np.int32(-1))),
    "scalar_outside": (lambda x, i: x[i], (A, np.int32(7))),
    "two_scalars": (lambda x, i: x[i, i], (A, np.int32(2))),
    "rows": (lambda x, i: x[i], (M, I)),
    "rows_2d": (lambda x, i: x[i], (M, I.reshape(2, 3))),
    "columns": (lambda x, i: x[:, i], (M.T.copy(), I)),
    "middle": (lambda x, i: x[:, i], (A, I % 4)),
    "middle_2d": (lambda x, i: x[:, i, :], (A, (I % 4).reshape(3, 2))),
    "pairs": (lambda x, i, j: x[i, j], (M, I, I % 4)),
    "pairs_apart": (lambda x, i, j: x[i, :, j], (A, I % 3, I % 5)),
    "pairs_behind": (lambda x, i, j: x[:, i, j], (A, I % 4, I % 5)),
    "pairs_broadcast": (lambda x, i, j: x[i[:, None], j], (M, I, I % 4)),
    "with_slice": (lambda x, i: x[1:, i, ::2], (A, I % 4)),
    "with_newaxis": (lambda x, i: x[None, i, ..., None], (A, I % 3)),
    "no_indices": (lambda x, i: x[i], (M, I[:0])),
    "empty_rows": (lambda x, i: x[i], (M[:, :0], I)),
    "flags": (lambda x: x[np.array([True, False, True])], (A,)),
    "list": (lambda x: x[jnp.array([2, 0, -1])], (A,)),
    "take": (lambda x, i: jnp.take(x, i, axis=1), (A, I % 4)),
    "take_flat": (jnp.take, (A, WILD)),
    "take_wild": (lambda x, i: jnp.take(x, i, axis=0), (M, WILD)),
    "take_wrap": (lambda x, i: jnp.take(x, i, axis=0, mode="wrap"), (M, WILD[:8])),
    "take_fill": (lambda x, i: jnp.take(x, i, axis=0, fill_value=-2.5), (M, WILD)),
    "take_along_0": (
        lambda x, i: jnp.take_along_axis(x, i, 0),
        (A, (I % 3).reshape(1, 1, 6)[..., :5]),
    ),
    "take_along_1": (
        lambda x, i: jnp.take_along_axis(x, i, 1),
        (M, np.argsort(-M, 1).astype(np.int32)),
    ),
    "take_along_wild": (lambda x, i: jnp.take_along_axis(x, i, 0), (M, np.stack([WILD] * 4, 1))),
    "take_along_flat": (lambda x, i: jnp.take_along_axis(x, i, None), (M, I)),
    "take_along_clip": (
        lambda x, i: jnp.take_along_axis(x, i, 1, mode="clip"),
        (M, np.stack([WILD[:6]] * 2, 1)),
    ),
    "batched_rows": (jax.vmap(lambda x, i: x[i]), (A, (I % 4).reshape(3, 2))),
    "batched_pairs": (jax.vmap(lambda x, i, j: x[i, j]), (A, *[(I % 4).reshape(3, 2)] * 2)),
    "batched_twice": (
        jax.vmap(jax.vmap(lambda x, i: x[i])),
        (A, (np.arange(12, dtype=np.int32) % 5).reshape(3, 4)),
    ),
    "batched_index": (jax.vmap(lambda x, i: x[i], (None, 0)), (M, I)),
    "batched_operand": (jax.vmap(lambda x, i: x[i], (0, None)), (A, I % 4)),
    "batched_behind": (
        jax.vmap(lambda x, i: x[i], (2, 0), 1),
        (A, np.arange(5, dtype=np.int32) % 3),
    ),
    "batched_last": (
        jax.vmap(lambda x, i: x[:, i], (1, 1)),
        (A, (np.arange(8, dtype=np.int32) % 5).reshape(2, 4)),
    ),
    "diagonal": (lambda x: x[jnp.arange(4), jnp.arange(4)], (M,)),
    "of_scalar": (lambda x, i: x[i], (V, np.int32(3))),
    "key_value": (lambda x, i: x[:, i], ({"a": A}["a"], np.int32(2))),
    "grad_of_scatter": (jax.grad(lambda u, i: (jnp.ones((6, 4)).at[i].set(u) * M).sum()), (M, I)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 6), (WILD,)),
    "unravel": (
        lambda i: jnp.stack(jnp.unravel_index(i, (3, 4, 5))),
        (np.array([0, 59, 60, -1, 17], np.int32),),
    ),
    "searchsorted": (lambda x, v: jnp.searchsorted(x, v), (np.sort(M.ravel()), V[:2])),
    "searchsorted_ties": (
        lambda x, v: [jnp.searchsorted(x, v, side=side) for side in ("left", "right")],
        (np.sort(TIES), TIES.reshape(2, 7)),
    ),
    "searchsorted_unsorted": (
        lambda x, v: [jnp.searchsorted(x, v, side=side) for side in ("left", "right")],
        (TIES, TIES[:3]),
    ),
    "searchsorted_constant": (
        lambda v: [jnp.searchsorted(np.sort(TIES[:9]), v, side=side) for side in ("left", "right")],
        (TIES,),
    ),
    "searchsorted_unsorted_constant": (
        lambda v: [jnp.searchsorted(TIES, v, side=side) for side in ("left", "right")],
        (TIES,),
    ),
    "searchsorted_long": (
        lambda x, v: [jnp.searchsorted(x, v, side=side) for side in ("left", "right")],
        (np.sort(np.tile(TIES, 5)), TIES),
    ),
    "searchsorted_scalar": (lambda x, v: jnp.searchsorted(x, v), (V, np.float32(0.1))),
    "searchsorted_nothing": (lambda x, v: jnp.searchsorted(x, v), (V, V[:0])),
    "searchsorted_batched": (jax.vmap(jnp.searchsorted), (np.sort(M, axis=1), M)),
    "digitize": (lambda x, b: jnp.digitize(x, b), (V, np.sort(M[0])[::-1].copy())),
    "interp": (lambda x, p: jnp.interp(x, p, p * p), (V, np.sort(M[0]))),
    "choose": (
        lambda i, x: jnp.choose(i, x, mode="clip"),
        (np.array([0, 2, 5, -1, 1], np.int32), A[:, 0]),
    ),
    "roll": (lambda x, k: jnp.roll(x, k, axis=1), (A, np.int32(-7))),
}

WRITES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "row": (lambda x, i, u: x.at[i].set(u), (M, np.int32(2), M[0])),
    "row_outside": (lambda x, i, u: x.at[i].set(u), (M, np.int32(6), M[0])),
    "row_before": (lambda x, i, u: x.at[i].set(u), (M, np.int32(-7), M[0])),
    "element": (lambda x, i: x.at[i, 3, i].set(7.0), (A, np.int32(1))),
    "middle": (lambda x, i, u: x.at[:, i].set(u), (A, np.int32(2), A[:, 0])),
    "middle_add": (lambda x, i, u: x.at[:, i].add(u), (A, np.int32(2), A[:, 0])),
    "middle_max": (lambda x, i, u: x.at[:, i].max(u), (A, np.int32(2), -A[:, 0])),
    "middle_outside": (lambda x, i, u: x.at[:, i].min(u), (A, np.int32(4), -A[:, 0])),
    "pairs": (lambda x, i, j, u: x.at[i, j].set(u), (M, I[:5], I[:5] % 4, M[1, :1].repeat(5) * 2)),
    "pairs_apart": (
        lambda x, i, j, u: x.at[i, :, j].add(u),
        (A, I % 3, I % 5, np.arange(24, dtype=np.float32).reshape(6, 4)),
    ),
    "columns": (lambda x, i, u: x.at[:, i].add(u), (A, I % 4, np.ones((3, 6, 5), np.float32))),
    "columns_2d": (
        lambda x, i, u: x.at[:, i].multiply(u),
        (A, (I % 4).reshape(2, 3), np.float32(2)),
    ),
    "static": (lambda x, u: x.at[1:5:2, 2].set(u), (M, V[3:5])),
    "static_slice": (lambda x, u: x.at[1:3].add(u), (M, M[0])),
    "static_row": (lambda x, u: x.at[-1].set(u), (M, M[0])),
    "scalar": (lambda x: x.at[()].set(3.0), (np.float32(1),)),
    "scalar_add": (lambda x: x.at[()].add(3.0), (np.float32(1),)),
    "whole": (lambda x, u: x.at[...].multiply(u), (A, A[0])),
    "nothing": (lambda x, i: x.at[i].set(1.0), (M, I[:0])),
    "nothing_add": (lambda x, i: x.at[i].add(1.0), (M, I[:0])),
    "empty_rows": (lambda x, i: x.at[i].set(1.0), (M[:, :0], I)),
    "batched_row": (
        jax.vmap(lambda x, i, u: x.at[i].set(u)),
        (A, np.array([0, 9, -1], np.int32), A[:, 1]),
    ),
    "batched_rows": (jax.vmap(lambda x, i: x.at[i].add(1.0)), (A, (I % 4).reshape(3, 2))),
    "batched_elements": (jax.vmap(lambda x, i: x.at[i].set(1.0)), (M, np.stack([WILD[:6]] * 3, 1))),
    "batched_add": (
        jax.vmap(lambda x, i, u: x.at[i].add(u)),
        (M, np.stack([I] * 3, 1) % 6, M[:, :3]),
    ),
    "batched_index": (jax.vmap(lambda x, i: x.at[i].set(2.0), (None, 0)), (M, I)),
    "put_along": (
        lambda x, i, u: jnp.put_along_axis(x, i, u, 1, inplace=False),
        (M, (np.arange(12) % 4).reshape(6, 2).astype(np.int32), M[:, :2] * 3),
    ),
    "put": (lambda x, i, u: jnp.put(x, i, u, inplace=False), (M, I, V[:3])),
    "place": (lambda x: jnp.where(x > 0, x, 0).at[jnp.array([1, 3])].set(9.0), (M,)),
    "fill_diagonal": (lambda x: jnp.fill_diagonal(x, 5.0, inplace=False), (M,)),
    "grad_of_take": (jax.grad(lambda x, i: (x[i] ** 2).sum()), (M, np.abs(I))),
    "grad_of_pairs": (jax.grad(lambda x, i: (x[i, i % 4] ** 2).sum()), (M, np.abs(I))),
    "grad_of_along": (
        jax.grad(lambda x, i: (jnp.take_along_axis(x, i, 1) ** 2).sum()),
        (M, (np.arange(12) % 3).reshape(6, 2).astype(np.int32)),
    ),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 4), (M, I)),
    "segment_max": (lambda x, i: jax.ops.segment_max(x, i, 4), (M, I)),
    "bincount": (lambda i: jnp.bincount(i, length=5), (np.abs(I),)),
    "histogram": (lambda x: jnp.zeros(4, jnp.int32).at[(x > 0).astype(jnp.int32)].add(1), (M,)),
}

METHODS = ("set", "add", "subtract", "multiply", "min", "max")


def write(method: str, mode: str) -> Callable[..., Any]:
    return lambda x, i, u: getattr(x.at[i], method)(u, mode=mode)


#: Windows narrower than the operand, at wild starts.
WINDOW = {"offset_dims": (1, 3), "collapsed_slice_dims": (1,), "start_index_map": (2, 0, 1)}
UPDATE = {
    "update_window_dims": (1, 3),
    "inserted_window_dims": (1,),
    "scatter_dims_to_operand_dims": (2, 0, 1),
}
#: As numpyro writes it: a range instead of a tuple.
COLUMNS = {
    "update_window_dims": range(1),
    "inserted_window_dims": (1,),
    "scatter_dims_to_operand_dims": (1,),
}
STARTS = np.array([[[0, 0, 0], [3, 1, 3], [1, 2, 0]], [[4, 0, 0], [0, -1, 0], [2, 1, 4]]], np.int32)
PART = {"offset_dims": (1, 2, 3), "collapsed_slice_dims": (), "start_index_map": (1,)}
UNIT = {"offset_dims": (0, 1), "collapsed_slice_dims": (2,), "start_index_map": (0, 2)}
BATCHED = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (),
    "start_index_map": (1,),
    "operand_batching_dims": (0, 2),
    "start_indices_batching_dims": (2, 0),
}
BATCHED_UPDATE = {
    "update_window_dims": (1,),
    "inserted_window_dims": (),
    "scatter_dims_to_operand_dims": (1,),
    "operand_batching_dims": (0, 2),
    "scatter_indices_batching_dims": (2, 0),
}
BATCHED_STARTS = (np.arange(30, dtype=np.int32).reshape(5, 2, 3, 1) % 7) - 2
MEETING = {
    "update_window_dims": (1, 2),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0, 1),
}
MEETING_STARTS = np.array([[0, 0], [0, 1], [2, 2], [2, 3], [1, -1], [0, 1]], np.int32)
MEETING_UPDATES = (np.arange(60, dtype=np.float32).reshape(6, 2, 5) + 1) / 8

RAW = [
    case
    for mode in MODES
    for case in (
        Case(f"gather.window.{mode}", raw_gather(WINDOW, (2, 1, 3), mode), (A, STARTS)),
        Case(f"gather.part.{mode}", raw_gather(PART, (2, 3, 5), mode), (A, I[:, None])),
        Case(f"gather.one_part.{mode}", raw_gather(PART, (3, 2, 5), mode), (A, I[2:3, None])),
        Case(f"gather.unit.{mode}", raw_gather(UNIT, (1, 2, 1), mode), (A, STARTS[..., :2])),
        Case(
            f"gather.batched.{mode}",
            raw_gather(BATCHED, (1, 2, 1), mode),
            (A, BATCHED_STARTS),
            covers=("gather",),
        ),
        Case(
            f"scatter.window.{mode}",
            raw_scatter(lax.scatter, UPDATE, mode),
            (A, STARTS, np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3)),
        ),
        Case(
            f"scatter.window_add.{mode}",
            raw_scatter(lax.scatter_add, UPDATE, mode),
            (A, STARTS, np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3)),
        ),
        Case(
            f"scatter.range_of_axes.{mode}",
            raw_scatter(lax.scatter_add, COLUMNS, mode),
            (M, I[:3, None] % 4, np.arange(3 * len(M), dtype=np.float32).reshape(len(M), 3)),
        ),
        Case(
            f"scatter.batched.{mode}",
            raw_scatter(lax.scatter, BATCHED_UPDATE, mode),
            (A, BATCHED_STARTS, np.arange(60, dtype=np.float32).reshape(5, 2, 2, 3)),
        ),
        Case(
            f"scatter.batched_mul.{mode}",
            raw_scatter(lax.scatter_mul, BATCHED_UPDATE, mode),
            (A, BATCHED_STARTS, np.arange(60, dtype=np.float32).reshape(5, 2, 2, 3)),
        ),
        *(
            Case(
                f"{scatter.__name__}.meeting.{mode}",
                raw_scatter(scatter, MEETING, mode),
                (A, MEETING_STARTS, MEETING_UPDATES),
                rtol=1e-6,
                covers=(scatter.__name__.replace("_", "-"),),
            )
            for scatter in (
                lax.scatter,
                lax.scatter_add,
                lax.scatter_sub,
                lax.scatter_mul,
                lax.scatter_min,
                lax.scatter_max,
            )
        ),
    )
]

SLICES = [
    *(
        Case(
            f"dynamic_slice.one_{start}",
            lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, axis=1),
            (A, np.int32(start)),
            covers=("dynamic_slice",),
        )
        for start in (0, 1, 2, 3, -1, -9, 9)
    ),
    Case("dynamic_slice.entry", lambda x, i: lax.dynamic_index_in_dim(x, i, 2), (A, np.int32(9))),
    Case(
        "dynamic_slice.some",
        lambda x, i: lax.dynamic_slice(x, (i, 0, i), (2, 4, 1)),
        (A, np.int32(4)),
    ),
    Case(
        "dynamic_slice.whole",
        lambda x, i: lax.dynamic_slice(x, (i, i, i), A.shape),
        (A, np.int32(4)),
    ),
    Case(
        "dynamic_slice.empty",
        lambda x, i: lax.dynamic_slice(x, (i, i, i), (3, 0, 2)),
        (A, np.int32(4)),
    ),
    Case("dynamic_slice.u8", lambda x, i: lax.dynamic_slice(x, (i,), (3,)), (V, np.uint8(200))),
    Case(
        "dynamic_slice.i64",
        lambda x, i: lax.dynamic_slice(x, (i,), (3,)),
        (V, np.int64(-(2**40))),
        double=True,
    ),
    Case(
        "dynamic_slice.u64",
        lambda x, i: lax.dynamic_slice(x, (i,), (3,)),
        (V, np.uint64(2**64 - 1)),
        double=True,
    ),
    Case(
        "dynamic_slice.batched",
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 3))),
        (A, np.array([0, 5, -1], np.int32)),
    ),
    *(
        Case(
            f"dynamic_update_slice.{name}",
            lambda x, u, i, j, k: lax.dynamic_update_slice(x, u, (i, j, k)),
            (A, update, *starts),
            covers=("dynamic_update_slice",),
        )
        for name, update, starts in (
            ("first", -A[:2], (np.int32(9), np.int32(0), np.int32(0))),
            ("middle", -A[:, :2], (np.int32(1), np.int32(1), np.int32(0))),
            ("last", -A[:, :, :1], (np.int32(1), np.int32(1), np.int32(-2))),
            ("corner", -A[:2, :2, :2], (np.int32(-1), np.int32(-9), np.int32(3))),
            ("whole", -A, (np.int32(1), np.int32(1), np.int32(1))),
            ("nothing", A[:, :0], (np.int32(1), np.int32(1), np.int32(1))),
        )
    ),
    Case(
        "dynamic_update_slice.large",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)),
        (np.zeros((90, 90), np.float32), np.ones((70, 65), np.float32), np.int32(7)),
    ),
    Case(
        "dynamic_update_slice.batched",
        jax.vmap(lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 1))),
        (A, A[:, :2, :3] * 2, np.array([0, 5, -1], np.int32)),
    ),
]


def values(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return ((np.arange(count) * 37 + 11) % 7).reshape(shape).astype(dtype)


TYPES = [
    case
    for dtype in DTYPES + WIDE
    for double in (dtype in WIDE,)
    for x in (values(dtype, (6, 2)),)
    for u in (values(dtype, (10, 2)) if dtype != np.bool_ else values(np.int32, (10, 2)) > 3,)
    for case in (
        Case(
            f"gather.type.{name_of(dtype)}",
            lambda x, i: jnp.take(x, i, axis=0),
            (x, WILD),
            double=double,
        ),
        Case(f"gather.nd_type.{name_of(dtype)}", lambda x, i: x[i, i % 2], (x, I), double=double),
        Case(
            f"gather.along_type.{name_of(dtype)}",
            lambda x, i: jnp.take_along_axis(x, i, 0),
            (x, np.stack([WILD] * 2, 1)),
            double=double,
        ),
        Case(
            f"dynamic_slice.type.{name_of(dtype)}",
            lambda x, i: x[i],
            (x, np.int32(2)),
            double=double,
        ),
        Case(
            f"dynamic_update_slice.type.{name_of(dtype)}",
            lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)),
            (x, x[:2, :1], np.int32(2)),
            double=double,
        ),
        *(
            Case(
                f"scatter.{method}.{name_of(dtype)}",
                write(method, "fill"),
                (x, WILD, u),
                double=double,
            )
            for method in METHODS
            if dtype != np.bool_ or method in ("set", "min", "max")
        ),
        *(
            Case(
                f"scatter.{method}_one.{name_of(dtype)}",
                write(method, "fill"),
                (x, np.int32(1), u[0]),
                double=double,
            )
            for method in METHODS
            if dtype != np.bool_ or method in ("set", "min", "max")
        ),
    )
]


def added_at_ends(x: np.ndarray, i: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, np.minimum(i[:, 0], len(x) - 1), updates)
    return result


ADDED_AT_ENDS: dict[str, Any] = {
    "reference": added_at_ends,
    "because": "JAX 0.6 drops every update if the indices are unsigned numbers of 32 or 64 bits",
}
INDEX_TYPES = [
    case
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.int64, np.uint64)
    for double in (np.dtype(dtype).itemsize == 8,)
    for mode in MODES
    for i in (np.array([0, 5, 6, 100, -1 if np.dtype(dtype).kind == "i" else 7]).astype(dtype),)
    for i in (np.append(i, np.array([3 * 2**30]).astype(dtype)) if i.itemsize > 2 else i,)
    for case in (
        Case(
            f"gather.index_{name_of(dtype)}.{mode}",
            raw_gather(
                {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,)},
                (1, 4),
                mode,
            ),
            (M, i[:, None]),
            double=double,
        ),
        Case(
            f"scatter.index_{name_of(dtype)}.{mode}",
            raw_scatter(
                lax.scatter_add,
                {
                    "update_window_dims": (1,),
                    "inserted_window_dims": (0,),
                    "scatter_dims_to_operand_dims": (0,),
                },
                mode,
            ),
            (M, i[:, None], M[: len(i)]),
            double=double,
            **(ADDED_AT_ENDS if mode == "clip" and np.dtype(dtype).kind == "u" else {}),
        ),
    )
]

NANS = [
    Case(
        f"scatter.{method}.nan",
        write(method, "fill"),
        (V + 1, WILD % 9, np.concatenate([V, V[:3]]) + 1),
    )
    for method in ("min", "max")
]

Z = (A[0] + 1j * A[1]).astype(np.complex64)
PARTS = [
    Case("gather.complex", lambda x, i: x[i], (Z, I % 4)),
    Case("gather.complex_fill", lambda x, i: jnp.take(x, i, axis=0), (Z, WILD)),
    Case("gather.complex_pairs", lambda x, i: x[i, i], (Z, I % 4)),
    Case(
        "dynamic_slice.complex", lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), (Z, np.int32(1))
    ),
    Case(
        "dynamic_update_slice.complex",
        lambda x, i: lax.dynamic_update_slice(x, x[:2, :3], (i, i)),
        (Z, np.int32(1)),
    ),
    *(
        Case(f"scatter.{method}.complex", write(method, "fill"), (Z, WILD, Z[0]))
        for method in METHODS[:3]
    ),
    Case("scatter.set_one.complex", write("set", "fill"), (Z, np.int32(2), Z[0])),
    Case("scatter.scalar.complex", lambda x: x.at[()].add(3.0), (Z[0, 0],)),
]


def applied(fn: Any, **options: Any) -> Any:
    return lambda x, i: x.at[i].apply(fn, **options)


#: What is written is a function of what is there; a place that is named twice is written twice.
APPLIED = [
    Case("scatter.apply.one", applied(jnp.tanh), (M, np.int32(2)), rtol=1e-6),
    Case("scatter.apply.out_of_bounds", applied(jnp.square), (M, np.int32(99))),
    Case("scatter.apply.clipped", applied(jnp.square, mode="clip"), (M, np.int32(99))),
    Case("scatter.apply.rows", applied(lambda x: x * 0.5 + 1), (M, np.array([1, 3, 1], np.int32))),
    Case("scatter.apply.wild", applied(jnp.square), (M, WILD), rtol=1e-6),
    Case("scatter.apply.scalar", lambda x: x.at[()].apply(jnp.square), (M[0, 0],)),
    Case(
        "scatter.apply.unique",
        applied(jnp.square, unique_indices=True),
        (M, np.array([1, 3], np.int32)),
    ),
    Case("scatter.apply.slice", lambda x: x.at[1:3, ::2].apply(jnp.square), (M,)),
    Case("scatter.apply.complex", applied(lambda z: z * z), (Z, WILD), rtol=1e-5, atol=1e-5),
    Case(
        "scatter-mul.complex",
        write("multiply", "fill"),
        (Z, WILD, Z[0]),
        rtol=1e-5,
        covers=("scatter-mul",),
    ),
    Case("scatter-mul.complex.slice", lambda z: z.at[:, 1:].multiply(2), (Z,)),
    Case("scatter-mul.complex.clip", write("multiply", "clip"), (Z, WILD, Z[0]), rtol=1e-5),
]

LIMITS = [
    Limit(
        "scatter.apply.sorted",
        lambda x: x.at[1].apply(lambda y: jnp.sort(y[None])[0]),
        (M,),
        "a function that is not elementwise",
    ),
]

CASES = [
    *(Case(f"gather.{name}", fn, inputs) for name, (fn, inputs) in READS.items()),
    *(Case(f"scatter.{name}", fn, inputs, rtol=1e-6) for name, (fn, inputs) in WRITES.items()),
    *(
        Case(
            f"scatter.{method}.{mode}",
            write(method, mode),
            (M, WILD, np.ones((10, 4), np.float32) * 2),
        )
        for method in METHODS
        for mode in MODES
    ),
    *RAW,
    *SLICES,
    *TYPES,
    *INDEX_TYPES,
    *NANS,
    *PARTS,
    *APPLIED,
    Case("scatter.no_rows", lambda x, i: x.at[i].add(1.0), (M[:0], I)),
    Case("platform_index.diagonal", jnp.diag, (M[:4],), covers=("platform_index",)),
]
