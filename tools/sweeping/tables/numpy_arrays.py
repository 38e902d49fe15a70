"""`jax.numpy`: making, shaping, joining, indexing and sorting arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from sweeping.sets import (
    SPECIAL,
    ArgumentSet,
    array,
    call,
    complexes,
    flags,
    floats,
    ints,
    positive,
    use,
)

X, V, N, Z, B = floats(3, 4), floats(5), ints(3, 4), complexes(3, 4), flags(3, 4)
X3 = floats(2, 3, 4)
FEW = ints(8, low=0, high=4)
AT = ints(5, low=-3, high=3)
PLACES = array(2, 0, -1, 7, dtype=np.int32)


def each(*arrays: np.ndarray, **kwargs: Any) -> list[ArgumentSet]:
    """Returns one set per array."""
    return [call(one, **kwargs) for one in arrays]


def _apply(at: Any) -> Any:
    return at.apply(jnp.square)


MAKING: dict[str, list[ArgumentSet]] = {
    "arange": [call(5), call(1, 7, 2), call(0.0, 1.0, 0.25), call(5, dtype=jnp.int32)],
    "array": [*each(X, N, B, Z), call([V, V]), call(V, ndmin=3), call(X, dtype=jnp.int32)],
    "asarray": [*each(X, N, B, Z), call([V, V]), call(X, dtype=jnp.int32)],
    "astype": [
        *(call(one, jnp.float32) for one in (X, N, B)),
        *(call(one, jnp.int32) for one in (X, N, B, array(2.7, -2.7, 3e9, -3e9, np.inf))),
        *(call(one, bool) for one in (X, N, B, Z, SPECIAL)),
        *(call(one, jnp.complex64) for one in (X, N, B, Z)),
        call(N, jnp.uint8),
        call(X, jnp.float16),
        use(lambda f, x: f(f(x, jnp.bfloat16), jnp.float32), X),
    ],
    "bartlett": [call(0), call(1), call(6)],
    "blackman": [call(0), call(1), call(6)],
    "hamming": [call(0), call(1), call(6)],
    "hanning": [call(0), call(1), call(6)],
    "kaiser": [call(6, 2.5), call(6, array(2.5)), call(1, 2.5)],
    "diag_indices": [call(3), call(3, 3)],
    "diag_indices_from": [call(floats(3, 3))],
    "empty": [call((2, 3)), call(4, dtype=jnp.int32)],
    "eye": [call(3), call(3, 4, 1), call(3, k=-1, dtype=jnp.int32)],
    "fromfunction": [call(lambda i, j: i * 10 + j, (3, 4)), call(jnp.hypot, (2, 3), dtype=float)],
    "full": [call((2, 3), 7), call((3, 4), floats(4)), call((), 2.5), call((2,), 3, dtype=bool)],
    "full_like": [call(X, 7), call(X, floats(4)), call(N, 2.5), call(X, 1, shape=(2,))],
    "identity": [call(3), call(2, dtype=jnp.int32)],
    "indices": [call((2, 3)), call((2, 3), sparse=True)],
    "ix_": [call(ints(3), ints(2)), call(flags(3), ints(2))][:1],
    "linspace": [
        call(0, 1, 5),
        call(floats(3), floats(3, seed=1), 4),
        call(floats(3), floats(3, seed=1), 4, axis=-1),
        call(0, array(2.0), 5, endpoint=False),
        call(0, array(9.0), 4, retstep=True),
        call(array(0.0), array(9.5), 4, dtype=jnp.int32),
        call(array(1.0), array(1.0), 1),
    ],
    "logspace": [call(0, 2, 5).near(1e-4), call(floats(3), positive(3), 4, base=2.0).near(1e-4)],
    "geomspace": [call(1, 100, 5).near(1e-4), call(positive(3), positive(3, seed=1), 4).near(1e-4)],
    "mask_indices": [call(3, jnp.triu, size=6)],
    "meshgrid": [
        call(V, floats(3)),
        call(V, floats(3), indexing="ij"),
        call(V, floats(3), sparse=True),
        call(ints(2), V, flags(3)),
    ],
    "ones": [call((2, 3)), call(4, dtype=bool)],
    "zeros": [call((2, 3)), call(4, dtype=jnp.complex64)],
    "tri": [call(3), call(3, 4, 1), call(3, k=-1, dtype=bool)],
    "tril_indices": [call(3), call(3, 1, 4)],
    "triu_indices": [call(3), call(3, -1, 4)],
    "vander": [call(V), call(V, 3), call(V, increasing=True), call(ints(4), 3), call(complexes(3))],
    "frompyfunc": [
        use(lambda f, x, y: f(jnp.add, 2, 1)(x, y), X, X),
        use(lambda f, x: f(jnp.add, 2, 1, identity=0).reduce(x, axis=1), X),
        use(lambda f, x: f(jnp.multiply, 2, 1).accumulate(x), V),
        use(lambda f, x, y: f(jnp.maximum, 2, 1).outer(x, y), V, V),
        use(lambda f, x, i, y: f(jnp.add, 2, 1).at(x, i, y, inplace=False), V, AT, V),
    ],
    "vectorize": [
        use(lambda f, x, y: f(jnp.dot, signature="(n),(n)->()")(x, y), X, X3),
        use(lambda f, x: f(lambda v: jnp.where(v > 0, v, 0))(x), X),
        use(lambda f, x, y: f(jnp.outer, signature="(n),(m)->(n,m)")(x, y), X, V),
    ],
}

SHAPING: dict[str, list[ArgumentSet]] = {
    **{
        name: [*each(np.array(2.5, np.float32), V, X, X3, N), call(V, X)]
        for name in ("atleast_1d", "atleast_2d", "atleast_3d")
    },
    "broadcast_arrays": [call(V, floats(3, 1)), call(X, N, np.array(True))],
    "broadcast_to": [call(V, (3, 5)), call(floats(3, 1), (2, 3, 4)), call(Z, (2, 3, 4))],
    "expand_dims": [call(X, 0), call(X, -1), call(X, (0, 2)), call(B, 1), call(Z, -1)],
    "moveaxis": [call(X3, 0, -1), call(X3, (0, 1), (-1, -2)), call(complexes(2, 3, 4), 0, 2)],
    "permute_dims": [call(X3, (2, 0, 1)), call(complexes(2, 3, 4), (1, 2, 0))],
    "transpose": [*each(V, X, X3, Z), call(X3, (1, 0, 2)), call(X3, (-1, 0, 1))],
    "reshape": [
        call(X, (2, 6)),
        call(X, -1),
        call(X, (2, -1), order="F"),
        call(Z, (4, 3)),
        call(floats(0, 4), (2, 0)),
        call(B, (12,)),
    ],
    "ravel": [*each(X, N, B, Z), call(X, order="F")],
    "resize": [call(X, (2, 3)), call(X, (5, 4)), call(V, (3, 3)), call(X, (0,))],
    "rollaxis": [call(X3, 2), call(X3, 0, 3), call(X3, -1, 1)],
    "swapaxes": [call(X3, 0, 2), call(X3, -1, -2), call(Z, 0, 1)],
    "squeeze": [
        call(floats(1, 3, 1)),
        call(floats(1, 3, 1), axis=0),
        call(floats(1, 3, 1), axis=-1),
    ],
    "repeat": [
        call(X, 3),
        call(X, 2, axis=0),
        call(X, 2, axis=-1),
        call(V, ints(5, low=0, high=4), total_repeat_length=9),
        call(X, array(1, 0, 2, dtype=np.int32), axis=0, total_repeat_length=3),
        call(Z, 2, axis=1),
        call(B, 2),
    ],
    "tile": [call(X, 2), call(X, (2, 1, 3)), call(V, (2, 2)), call(Z, (1, 2)), call(N, ())],
    "roll": [
        call(X, 1),
        call(X, -2, axis=0),
        call(X, (1, -1), axis=(0, 1)),
        call(X, array(2, dtype=np.int32)[0], axis=1),
        call(X, np.array(-7, np.int32), axis=-1),
        call(V, np.array(3, np.int32)),
        call(floats(0, 4), 1, axis=0),
        call(Z, 1, axis=1),
    ],
    "rot90": [call(X), call(X, 2), call(X3, -1, axes=(1, 2)), call(Z)],
    "flip": [*each(X, N, B, Z), call(X3, axis=1), call(X3, axis=(0, -1)), call(X, axis=-1)],
    "pad": [
        call(X, 1),
        call(X, ((1, 2), (0, 3)), constant_values=2.5),
        call(X, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4))),
        call(N, 2, mode="constant", constant_values=-1),
        call(B, 1, constant_values=True),
        call(Z, 1, constant_values=1 + 2j),
        *(
            call(X, ((1, 2), (2, 0)), mode=mode)
            for mode in ("edge", "reflect", "symmetric", "wrap", "empty")
        ),
        call(X, 2, mode="reflect", reflect_type="odd"),
        call(X, 2, mode="symmetric", reflect_type="odd"),
        call(V, 9, mode="reflect"),
        call(V, 9, mode="wrap"),
        call(V, 9, mode="symmetric"),
        call(X, 2, mode="linear_ramp", end_values=1.5),
        *(
            call(X, ((2, 1), (0, 3)), mode=mode)
            for mode in ("maximum", "minimum", "mean", "median")
        ),
        call(X, 2, mode="maximum", stat_length=2),
        call(N, 2, mode="mean"),
    ],
    "split": [call(X, 2, axis=1), call(V, [2, 3]), call(X, 3), call(Z, 2, axis=-1)],
    "array_split": [call(V, 3), call(X, 3, axis=1), call(X, [1, 3], axis=-1)],
    "hsplit": [call(X, 2), call(V, [2])],
    "vsplit": [call(X, 3), call(X, [1])],
    "dsplit": [call(X3, 2), call(X3, [1, 2])],
    "unstack": [call(X), call(X, axis=-1), call(Z, axis=1)],
    "trim_zeros": [],
}

JOINING: dict[str, list[ArgumentSet]] = {
    name: [
        call([X, floats(3, 4, seed=1)]),
        call([N, X]),
        call([Z, X]),
        call([B, B]),
        call(X),
        call(Z),
    ]
    for name in ("column_stack", "concat", "concatenate", "dstack", "hstack", "stack", "vstack")
}
for _name in ("concat", "concatenate", "stack"):
    JOINING[_name] += [call([X, X], axis=-1), call([X, N, B], axis=1)]
JOINING |= {
    "append": [call(X, V), call(X, X, axis=0), call(X, floats(3, 2), axis=-1), call(N, X)],
    "block": [call([[X, floats(3, 2)], [floats(1, 4), floats(1, 2)]]), call([V, V]), call(Z)],
    "delete": [
        call(V, 1),
        call(X, 1, axis=0),
        call(X, slice(0, 3, 2), axis=1),
        call(V, array(0, -1, dtype=np.int32), assume_unique_indices=True),
    ],
    "insert": [
        call(V, 1, 9.0),
        call(X, 1, floats(4), axis=0),
        call(X, np.array([1, 3], np.int32), 5.0, axis=1),
        call(V, np.array(2, np.int32), np.array(7, np.float32)),
        call(V, slice(1, 4), 0.0),
    ],
}

INDEXING: dict[str, list[ArgumentSet]] = {
    "argwhere": [call(X, size=5), call(ints(3, 4, low=0, high=2), size=8, fill_value=-1)],
    "flatnonzero": [call(ints(9, low=0, high=2), size=4), call(B, size=12, fill_value=99)],
    "nonzero": [call(ints(3, 4, low=0, high=2), size=4), call(B, size=12, fill_value=-1)],
    "where": [
        call(B, X, N),
        call(B, 1.0, X),
        call(B, Z, X),
        call(flags(3, 1), V[:4], array(2.0)),
        call(B, size=5),
        call(SPECIAL > 0, SPECIAL, -SPECIAL),
    ],
    "choose": [
        call(ints(4), [floats(4), floats(4, seed=1), floats(4, seed=2)], mode="clip"),
        call(ints(4), [floats(4), floats(4, seed=1)], mode="wrap"),
        call(ints(4), [floats(4), floats(4, seed=1)], mode="clip"),
    ],
    "compress": [
        call(flags(3), X, axis=0, size=2),
        call(flags(12), X, size=5, fill_value=7.0),
        call(array(True, False, True, dtype=bool), X, axis=0, size=2),
    ],
    "extract": [call(B, X, size=4), call(B, X, size=12, fill_value=1.5)],
    "fill_diagonal": [
        call(X, 5.0, inplace=False),
        call(floats(4, 4), floats(4), inplace=False),
        call(floats(5, 3), array(1.0, 2.0), inplace=False),
        call(floats(3, 3, 3), 1.0, inplace=False),
    ],
    "place": [
        call(X, B, floats(3), inplace=False),
        call(N, B, ints(2), inplace=False),
    ],
    "put": [
        call(X, PLACES, floats(4), inplace=False),
        call(X, PLACES + 20, floats(2), mode="clip", inplace=False),
        call(X, PLACES - 30, floats(2), mode="wrap", inplace=False),
    ],
    "put_along_axis": [
        call(X, ints(3, 1, low=0, high=4), 9.0, axis=1, inplace=False),
        call(X, ints(1, 4, low=-3, high=3), floats(1, 4), axis=0, inplace=False),
    ],
    "select": [
        call([B, X > 0], [X, N]),
        call([B, X > 0], [X, -X], default=5.0),
        call([B], [Z]),
    ],
    "piecewise": [
        call(X, [X < 0, X >= 0], [-1.0, 1.0]),
        call(X, [X < -0.5, X > 0.5], [lambda x: -x, lambda x: x * 2, 0.25]),
        call(N, [N < 0], [lambda n: -n, lambda n: n + 1]),
    ],
    "take": [
        call(X, AT, axis=0),
        call(X, PLACES),
        call(X, ints(2, 2, low=0, high=4), axis=-1),
        call(X, PLACES + 20, mode="clip"),
        call(X, PLACES + 20, mode="wrap"),
        call(X, PLACES + 20, mode="fill"),
        call(X, PLACES + 20, axis=0, fill_value=-1.0),
        call(N, PLACES + 20, mode="fill"),
        call(Z, AT, axis=0),
        call(B, PLACES, axis=1, mode="wrap"),
        call(X, array(0, 2, 1, dtype=np.int32), axis=0, unique_indices=True),
    ],
    "take_along_axis": [
        call(X, ints(3, 2, low=-4, high=4), axis=1),
        call(X, ints(1, 4, low=0, high=3), axis=0),
        call(X, ints(7, low=0, high=12), axis=None),
        call(X, ints(3, 2, low=0, high=9), axis=-1, mode="clip"),
        call(X, ints(3, 2, low=0, high=9), axis=-1, mode="fill"),
        call(Z, ints(3, 2, low=0, high=4), axis=1),
    ],
    "ravel_multi_index": [
        call((ints(4), ints(4)), (3, 4), mode="wrap"),
        call((ints(4), ints(4)), (3, 4), mode="clip"),
        call((ints(4, low=0, high=3), ints(4, low=0, high=4)), (3, 4), order="F", mode="clip"),
    ],
    "unravel_index": [call(ints(5, low=0, high=12), (3, 4)), call(ints(5, low=-12), (3, 4))],
    "tril_indices_from": [call(floats(3, 4)), call(floats(3, 4), 1)],
    "triu_indices_from": [call(floats(3, 4)), call(floats(3, 4), -1)],
    "ndarray": [
        use(lambda _, x, i: x.at[i].set(7.0), V, AT[:1]),
        use(lambda _, x, i, y: x.at[i].add(y), V, AT, V),
        use(lambda _, x, i, y: x.at[i].subtract(y), V, AT, V),
        use(lambda _, x, i, y: x.at[i].multiply(y), V, AT, V),
        use(lambda _, x, i: x.at[i].divide(2.0), V, array(1, 3, dtype=np.int32)),
        use(lambda _, x, i: x.at[i].power(2.0), V, array(1, 3, dtype=np.int32)),
        use(lambda _, x, i, y: x.at[i].min(y), V, AT, V),
        use(lambda _, x, i, y: x.at[i].max(y), V, AT, V),
        use(lambda _, x, i: _apply(x.at[i]), V, array(1, 3, dtype=np.int32)),
        use(lambda _, x, i: _apply(x.at[:, i]), X, array(1, 3, 3, dtype=np.int32)),
        use(lambda _, x: _apply(x.at[1]), X),
        use(lambda _, x, i: x.at[i].apply(jnp.sin), V, np.array(-2, np.int32)),
        use(lambda _, x, i: x.at[i].get(mode="fill", fill_value=0.5), V, PLACES + 1),
        use(lambda _, x, i: x.at[i].get(mode="clip"), V, PLACES + 1),
        use(lambda _, x, i: x.at[i].set(1.0, mode="drop"), V, PLACES + 1),
        use(lambda _, x, i, y: x.at[i].mul(y), complexes(5), AT, complexes(5)),
        use(lambda _, x, i, y: x.at[i].add(y), complexes(5), AT, complexes(5)),
        use(lambda _, x, i: x[i, ::-1], X, AT),
        use(lambda _, x, i: x[..., i, None], X, AT),
        use(lambda _, x: x[1:, -2::-1], X),
        use(lambda _, x, m: jnp.where(m, x, 0)[:, 0], X, B),
    ],
}

SORTING: dict[str, list[ArgumentSet]] = {
    **{
        name: [call(X, 1), call(X, 2, axis=0), call(V, -1), call(N, 2), call(SPECIAL, 4)]
        for name in ("partition", "argpartition")
    },
    "lexsort": [call((FEW, floats(8))), call(ints(2, 8, low=0, high=3)), call((X, N), axis=0)],
    "searchsorted": [
        call(np.sort(V), floats(7)),
        call(np.sort(FEW), ints(6, low=-1, high=5)),
        call(np.sort(FEW), ints(6, low=-1, high=5), side="right"),
        call(np.sort(V), SPECIAL),
        call(V, floats(3, 2), sorter=np.argsort(V).astype(np.int32)),
        call(np.sort(V), floats(7), method="sort"),
        call(np.sort(V), floats(7), method="compare_all"),
        call(np.sort(V), floats(7), method="scan_unrolled"),
    ],
    "digitize": [
        call(X, np.sort(V)),
        call(X, np.sort(V), right=True),
        call(X, np.sort(V)[::-1].copy()),
        call(SPECIAL, np.sort(V)),
    ],
    "bincount": [
        call(FEW, length=5),
        call(FEW, weights=floats(8), length=5),
        call(FEW, length=2),
        call(ints(8), length=4),
    ],
    "sort": [
        *each(X, N, B, Z, SPECIAL, floats(0, 4)),
        call(X3, axis=1),
        call(X, axis=None),
        call(SPECIAL, descending=True),
        call(N, descending=True),
    ],
    "argsort": [
        *each(X, FEW, B, Z, SPECIAL, floats(0, 4)),
        call(X3, axis=1),
        call(X, axis=None),
        call(FEW, descending=True),
        call(SPECIAL, descending=True),
        call(X, stable=False),
    ],
    "sort_complex": [*each(V, complexes(5), ints(5))],
    **{
        name: [call(FEW, ints(6, low=0, high=9), size=size) for size in (3, 8)]
        + [call(array(1.5, 2.0, 1.5), array(2.0, 3.0), size=4, fill_value=9.0)]
        for name in ("intersect1d", "setdiff1d", "setxor1d", "union1d")
    },
    "unique": [
        call(FEW, size=4),
        call(FEW, size=6, fill_value=-1),
        call(FEW, size=4, return_index=True, return_inverse=True, return_counts=True),
        call(array(1.5, np.nan, 1.5, np.nan, -0.0, 0.0), size=4),
        call(array(1.5, np.nan, 1.5, np.nan), size=4, equal_nan=False),
        call(ints(4, 3, low=0, high=2), size=4, axis=0),
        call(ints(3, 4, low=0, high=2), size=4, axis=1, return_counts=True),
        call(array(True, False, dtype=bool), size=2),
    ],
    **{
        name: [call(FEW, size=4), call(FEW, size=6), call(array(2.5, 1.0, 2.5), size=2)]
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values")
    },
    "isin": [
        call(X, V),
        call(FEW, ints(3, low=0, high=4)),
        call(FEW, ints(3, low=0, high=4), invert=True),
        call(FEW, ints(3, low=0, high=4), method="sort"),
        call(FEW, ints(3, low=0, high=4), method="compare_all"),
        call(SPECIAL, SPECIAL),
    ],
}

TABLE = {
    f"jax.numpy.{name}": sets
    for table in (MAKING, SHAPING, JOINING, INDEXING, SORTING)
    for name, sets in table.items()
    if sets
}
