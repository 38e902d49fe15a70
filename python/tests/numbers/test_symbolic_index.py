"""Reading and writing at computed places, in arrays whose sizes have names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from testkit import bench

F, I = np.float32, np.int32  # noqa: E741
SIZES = ({"B": 1, "S": 1}, {"B": 3, "S": 5}, {"B": 8, "S": 2})
OR_EMPTY = (*SIZES, {"B": 0, "S": 4})


@dataclasses.dataclass(frozen=True)
class Use:
    """A function of arrays of these shapes and types."""

    name: str
    fn: Callable[..., Any]
    shapes: tuple[tuple[Any, ...], ...]
    dtypes: tuple[Any, ...]
    sizes: tuple[dict[str, int], ...] = SIZES

    def __repr__(self) -> str:
        return self.name


def along(axis: int) -> Callable[..., Any]:
    return lambda x, i: jnp.take_along_axis(x, i, axis)


USES = [
    Use("a row", lambda x, i: x[i], (("B", 4), ()), (F, I)),
    Use("rows by name", lambda x, i: x[i], ((6, 4), ("B",)), (F, I), OR_EMPTY),
    Use("rows of rows by name", lambda x, i: x[i], (("B", 4), ("S",)), (F, I)),
    Use("take", lambda x, i: jnp.take(x, i, axis=1), (("B", "S"), (3,)), (F, I)),
    Use("take along the last", along(1), (("B", "S"), ("B", 3)), (F, I)),
    Use("take along the first", along(0), (("B", "S"), ("B", "S")), (F, I)),
    Use("pairs", lambda x, i, j: x[i, j], (("B", "S"), ("B",), ("B",)), (F, I, I)),
    Use("a batch of rows", jax.vmap(lambda x, i: x[i]), (("B", "S", 3), ("B", 2)), (F, I)),
    Use(
        "a batch of pairs",
        jax.vmap(lambda x, i, j: x[i, j]),
        (("B", "S", 3), ("B", 2), ("B", 2)),
        (F, I, I),
    ),
    Use("the last", lambda x: x[:, -1], (("B", "S", 3),), (F,)),
    Use(
        "one of each",
        lambda x, i: x[jnp.arange(x.shape[0]), i],
        (("B", "S", 3), ("B",)),
        (F, I),
    ),
    Use(
        "a window of a known axis",
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, axis=1),
        (("B", 6, "S"), ()),
        (F, I),
        OR_EMPTY,
    ),
    Use(
        "a window by name",
        lambda x, i: lax.dynamic_slice(x, (i, i), (x.shape[0] - 1, 2)),
        (("B", 6), ()),
        (F, I),
    ),
    Use(
        "a window of a known axis by name",
        lambda x, y: x[: y.shape[0]],
        ((4, 2), ("B",)),
        (F, F),
        OR_EMPTY,
    ),
    Use(
        "a window of a known axis by name at a place",
        lambda x, y, i: lax.dynamic_slice_in_dim(x, i, y[:9].shape[0], 1),
        ((2, 9), ("B",), ()),
        (F, F, I),
        OR_EMPTY,
    ),
    Use(
        "windows of two known axes by name at places",
        lambda x, y, i: lax.dynamic_slice(x, (i, i), (y[:9].shape[0], 3)),
        ((9, 4), ("B",), ()),
        (F, F, I),
        OR_EMPTY,
    ),
    Use(
        "set a window of a known axis by name",
        lambda x, y, i: lax.dynamic_update_slice(x, y[:9], (i,)),
        ((9,), ("B",), ()),
        (F, F, I),
        OR_EMPTY,
    ),
    Use(
        "an entry of two axes",
        lambda x, i: lax.dynamic_slice(x, (i, i), (1, 3)),
        (("B", 6), ()),
        (F, I),
    ),
    Use(
        "a cache",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i, 0)),
        (("B", 9, 4), ("B", 2, 4), ()),
        (F, F, I),
        OR_EMPTY,
    ),
    Use("set a row", lambda x, i, u: x.at[i].set(u), (("B", 4), (), (4,)), (F, I, F)),
    Use(
        "set rows",
        lambda x, i, u: x.at[i].set(u),
        (("B", 4), ("S",), ("S", 4)),
        (F, I, F),
        OR_EMPTY,
    ),
    Use(
        "add rows",
        lambda x, i, u: x.at[i].add(u),
        (("B", 4), ("S",), ("S", 4)),
        (F, I, F),
        OR_EMPTY,
    ),
    Use(
        "the largest of columns",
        lambda x, i, u: x.at[:, i].max(u),
        (("B", "S"), (5,), ("B", 5)),
        (F, I, F),
        OR_EMPTY,
    ),
    Use(
        "set pairs",
        lambda x, i, j: x.at[i, j].set(1.0),
        (("B", "S", 2), ("B",), ("B",)),
        (F, I, I),
    ),
    Use(
        "add to pairs apart",
        lambda x, i, j: x.at[i, :, j].add(1.0),
        (("B", "S", 2), ("B",), ("B",)),
        (F, I, I),
    ),
    Use(
        "add to a batch",
        jax.vmap(lambda x, i: x.at[i].add(1.0)),
        (("B", "S", 2), ("B", 3)),
        (F, I),
    ),
    Use("set in a batch", jax.vmap(lambda x, i: x.at[i].set(1.0)), (("B", "S", 2), ("B",)), (F, I)),
    Use(
        "set a column",
        lambda x, u: x.at[:, 1].set(u),
        (("B", 4), ("B",)),
        (F, F),
        OR_EMPTY,
    ),
    Use(
        "sums of segments",
        lambda x, i: jax.ops.segment_sum(x, i, 4),
        (("B", 3), ("B",)),
        (F, I),
        OR_EMPTY,
    ),
    Use(
        "what reaches the rows",
        lambda x, i: jax.grad(lambda x: (x[i] ** 2).sum())(x),
        (("B", 3), ("S",)),
        (F, I),
    ),
]


@pytest.mark.parametrize("use", USES, ids=repr)
def test_one_model_reads_and_writes_at_every_size(use: Use) -> None:
    scope = export.SymbolicScope()
    specs = [
        jax.ShapeDtypeStruct(
            export.symbolic_shape(",".join(map(str, shape)), scope=scope) if shape else (), dtype
        )
        for shape, dtype in zip(use.shapes, use.dtypes, strict=True)
    ]
    model = bench.convert(use.fn, specs)
    rng = np.random.default_rng(5)
    for sizes in use.sizes:
        inputs = []
        for shape, dtype in zip(use.shapes, use.dtypes, strict=True):
            known = tuple(sizes.get(size, size) for size in shape)
            # Small whole numbers, so that sums do not depend on their order.
            inputs.append(rng.integers(-9, 9, known).astype(dtype))
        found, want = bench.run(model, inputs), bench.expected(use.fn, inputs)
        for one_found, one_want in zip(found, want, strict=True):
            bench.assert_same(one_found, one_want)
