"""`jax.numpy`: arithmetic, sums, products, polynomials, histograms and windows."""

from __future__ import annotations

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

X, Y, V, W = floats(3, 4), floats(3, 4, seed=1), floats(5), floats(3)
N, B, Z, X3 = ints(3, 4), flags(3, 4), complexes(3, 4), floats(2, 3, 4)
COUNTS = ints(3, 4, low=0, high=7)
BYTES = ints(3, 4, low=0, high=256).astype(np.uint8)
EXTREME = array(-(2**31), 2**31 - 1, -1, 0, 1, 7, -7, dtype=np.int32)

NUMBERS: dict[str, list[ArgumentSet]] = {
    "clip": [
        call(X, -0.5, 0.5),
        call(X, min=0.0),
        call(X, max=floats(4)),
        call(X, floats(4), floats(3, 1)),
        call(N, -3, 3),
        call(SPECIAL, -1.0, 2.0),
        call(SPECIAL, np.nan, 1.0),
        call(N, 0.5, 2.5),
    ],
    **{
        name: [call(N, ints(3, 4, low=0, high=9, seed=1)), call(BYTES, BYTES % 8), call(B, B)]
        for name in ("left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift")
    },
    "gcd": [call(N, ints(3, 4, seed=1)), call(ints(5), 6), call(BYTES, BYTES.T.reshape(3, 4))],
    "lcm": [call(N, ints(3, 4, seed=1)), call(ints(5), 6)],
    "ldexp": [call(X, N), call(SPECIAL, ints(12)), call(X, 3), call(N, COUNTS)],
    "frexp": [call(X), call(SPECIAL), call(array(1e-6, 1e30, 8.0))],
    "float_power": [call(positive(3, 4), X), call(N, COUNTS), call(positive(4), 2)],
    "power": [
        call(positive(3, 4), X),
        call(N, COUNTS),
        call(X, 3),
        call(X, -2),
        call(N, 3),
        call(SPECIAL, 0.5),
        call(SPECIAL, 2.0),
        call(SPECIAL, -1),
        call(np.repeat(SPECIAL, 12), np.tile(SPECIAL, 12)),
        call(Z, 2),
        call(Z, Z).near(1e-4),
        call(B, COUNTS),
    ],
    **{
        name: [
            call(X, Y),
            call(N, ints(3, 4, seed=1)),
            call(EXTREME, 3),
            call(EXTREME, -2),
            call(N, 0),
            call(BYTES, 7),
            call(np.repeat(SPECIAL, 12), np.tile(SPECIAL, 12)),
            call(X, 0.3),
        ]
        for name in ("floor_divide", "mod", "remainder", "fmod", "divmod")
    },
    "round": [
        *(call(one) for one in (X, N, SPECIAL, array(0.5, 1.5, 2.5, -0.5), Z)),
        call(X, 2),
        call(X * 100, -1),
    ],
    "around": [call(X), call(X, 1), call(array(0.5, 1.5, 2.5)), call(N)],
    "nan_to_num": [
        *(call(one) for one in (X, SPECIAL, N, Z)),
        call(SPECIAL, nan=1.0, posinf=2.0, neginf=-3.0),
        call(array(complex(np.nan, 1), complex(0, -np.inf), 2 + 1j, dtype=np.complex64)),
    ],
    "packbits": [call(flags(3, 9)), call(flags(3, 9), axis=0), call(flags(10), bitorder="little")],
    "unpackbits": [
        call(BYTES),
        call(BYTES, axis=1),
        call(BYTES, axis=0, bitorder="little"),
        call(BYTES, axis=-1, count=5),
        call(BYTES, axis=-1, count=-3),
    ],
    "nextafter": [call(X, Y), call(SPECIAL, array(0.0)), call(array(1.0, -1.0), array(np.inf))],
    "spacing": [call(positive(5)), call(X)],
    "interp": [
        call(X, np.sort(V), floats(5, seed=1)),
        call(X, np.sort(V), floats(5, seed=1), left=-1.0, right=2.0),
        call(X, np.arange(5, dtype=np.float32), V, period=3.0).near(1e-4),
        call(X * 5, np.sort(V), V, left="extrapolate", right="extrapolate"),
        call(SPECIAL, np.sort(V), floats(5, seed=1)),
    ],
    "unwrap": [call(V * 4), call(X * 4, axis=0), call(V * 4, discont=4.0), call(V * 4, period=2.0)],
    "gradient": [
        call(V),
        call(X),
        call(X, axis=0),
        call(X, 0.5),
        call(V, np.cumsum(positive(5)).astype(np.float32)),
        call(X, 2.0, 0.5, axis=(0, 1)),
        call(complexes(5)),
    ],
    "i0": [call(X), call(SPECIAL), call(X * 10)],
    "isclose": [
        call(X, X + 1e-6),
        call(SPECIAL, SPECIAL),
        call(SPECIAL, SPECIAL, equal_nan=True),
        call(X, Y, rtol=0.5),
        call(N, N),
        call(Z, Z),
    ],
    "allclose": [call(X, X), call(X, Y), call(SPECIAL, SPECIAL, equal_nan=True), call(N, N)],
    "bitwise_count": [call(N), call(EXTREME), call(BYTES)],
    "sign": [call(X), call(SPECIAL), call(EXTREME), call(Z), call(BYTES), call(complexes(0))],
    "heaviside": [call(SPECIAL, array(0.5)), call(X, Y), call(N, N)],
    "reciprocal": [call(X), call(SPECIAL), call(Z)],
    "square": [call(X), call(SPECIAL), call(EXTREME), call(Z), call(BYTES)],
    "negative": [call(X), call(SPECIAL), call(EXTREME), call(Z), call(BYTES)],
    "abs": [call(X), call(SPECIAL), call(EXTREME), call(Z), call(BYTES), call(B)],
    "absolute": [call(X), call(SPECIAL), call(EXTREME), call(Z), call(BYTES)],
}

SUMS: dict[str, list[ArgumentSet]] = {
    "apply_along_axis": [
        call(jnp.sort, 0, X),
        call(lambda v: v.sum(), -1, X3),
        call(lambda v: jnp.outer(v, v), 1, X),
        call(jnp.cumsum, 1, N),
    ],
    "apply_over_axes": [call(jnp.sum, X3, [0, 2]), call(jnp.max, X3, [-1])],
    "average": [
        call(X),
        call(X, axis=0),
        call(X, weights=positive(3, 4)),
        call(X, axis=1, weights=positive(4)),
        call(X, axis=1, weights=positive(4), returned=True),
        call(X, axis=-1, keepdims=True),
        call(N),
        call(Z, axis=0),
    ],
    "bincount": [],
    "cov": [
        call(X),
        call(X, Y),
        call(X, rowvar=False),
        call(X, bias=True),
        call(X, ddof=0),
        call(X, fweights=ints(4, low=1, high=4)),
        call(X, aweights=positive(4)),
        call(V),
        call(Z),
    ],
    "corrcoef": [call(X), call(X, Y), call(X, rowvar=False), call(V), call(Z)],
    "cross": [
        call(floats(2, 3), floats(2, 3, seed=1)),
        call(floats(3), floats(4, 3)),
        call(floats(4, 2), floats(4, 2, seed=1)),
        call(floats(3, 5), floats(3, 5, seed=1), axis=0),
        call(ints(3), ints(3, seed=1)),
        call(complexes(3), complexes(3, seed=1)),
    ],
    "cumprod": [
        *(call(one) for one in (X, N, B, Z, SPECIAL, complexes(5), complexes(0), complexes(1))),
        call(X, axis=0),
        call(X, axis=-1),
        call(Z, axis=1),
        call(COUNTS, axis=1, dtype=jnp.float32),
    ],
    "cumsum": [
        *(call(one) for one in (X, N, B, Z, SPECIAL, floats(0))),
        call(X, axis=0),
        call(X, axis=-1),
        call(B, axis=1, dtype=jnp.int32),
    ],
    "cumulative_prod": [
        call(V),
        call(complexes(5)),
        call(X, axis=1, include_initial=True),
        call(Z, axis=0, include_initial=True),
        call(ints(6)),
    ],
    "cumulative_sum": [call(V), call(complexes(5)), call(X, axis=1, include_initial=True)],
    "prod": [
        *(call(one) for one in (X, N, B, Z, SPECIAL, floats(0), complexes(0), complexes(1, 3))),
        call(X, axis=0),
        call(X3, axis=(0, -1), keepdims=True),
        call(Z, axis=1),
        call(Z, axis=0, keepdims=True),
        call(complexes(2, 3, 4), axis=(0, 2)),
        call(Z, axis=0, where=B),
        call(X, axis=1, where=B, initial=2.0),
        call(N, dtype=jnp.float32),
    ],
    "diff": [
        call(V),
        call(X, axis=0),
        call(X, n=2),
        call(X, prepend=array(0.0)[0:1].reshape(1, 1) + np.zeros((3, 1), np.float32)),
        call(X, append=0.0),
        call(B),
        call(N),
        call(Z),
    ],
    "ediff1d": [call(V), call(X), call(V, to_end=9.0, to_begin=array(1.0, 2.0)), call(ints(5))],
    "trapezoid": [call(V), call(X, axis=0), call(X, dx=0.5), call(V, np.sort(V)), call(Z)],
    "median": [
        *(call(one) for one in (X, V, N, SPECIAL)),
        call(X, axis=0),
        call(X3, axis=(0, 2), keepdims=True),
    ],
    **{
        name: [
            call(X, 0.3 * scale),
            call(X, array(0.1, 0.5, 0.9) * np.float32(scale), axis=1),
            call(X, 0.5 * scale, axis=0, keepdims=True),
            *(
                call(X, array(0.1, 0.4) * np.float32(scale), axis=-1, method=method)
                for method in ("lower", "higher", "midpoint", "nearest")
            ),
            call(SPECIAL, 0.5 * scale),
            call(N, 0.25 * scale),
        ]
        for name, scale in (
            ("quantile", 1),
            ("nanquantile", 1),
            ("percentile", 100),
            ("nanpercentile", 100),
        )
    },
    "convolve": [
        *(call(V, W, mode=mode) for mode in ("full", "same", "valid")),
        call(ints(6), ints(3)),
        call(complexes(5), complexes(3)),
        call(W, V),
        call(V, complexes(3)),
    ],
    "correlate": [
        *(call(V, W, mode=mode) for mode in ("full", "same", "valid")),
        call(ints(6), ints(3)),
        call(complexes(5), complexes(3)),
        call(W, V),
    ],
}

PRODUCTS: dict[str, list[ArgumentSet]] = {
    "dot": [
        call(V, V),
        call(X, floats(4)),
        call(X, floats(4, 2)),
        call(X3, floats(5, 4, 2)),
        call(N, ints(4, 2)),
        call(Z, complexes(4, 2)),
        call(X, 2.0),
        call(B, flags(4, 2)),
    ],
    "vdot": [call(V, V), call(X, Y), call(Z, complexes(3, 4, seed=1)), call(N, N)],
    "inner": [call(V, V), call(X, floats(2, 4)), call(Z, complexes(2, 4)), call(N, ints(4))],
    "outer": [call(V, W), call(X, V), call(complexes(3), V), call(ints(3), ints(2))],
    "matmul": [
        call(X, floats(4, 2)),
        call(X3, floats(4, 2)),
        call(floats(5, 1, 3, 4), floats(2, 4, 6)),
        call(V, floats(5, 2)),
        call(X, floats(4)),
        call(floats(2, 3, 4), floats(4)),
        call(floats(4), floats(2, 4, 3)),
        call(N, ints(4, 2)),
        call(Z, complexes(4, 2)),
        call(B, flags(4, 2)),
        call(X, ints(4, 2)),
        call(X, floats(4, 2), preferred_element_type=jnp.float32),
    ],
    "matvec": [call(X, floats(4)), call(X3, floats(2, 4)), call(Z, complexes(4))],
    "vecmat": [call(W, X), call(floats(2, 3), X3), call(complexes(3), Z)],
    "vecdot": [call(V, V), call(X, Y), call(X, Y, axis=0), call(Z, complexes(3, 4, seed=1))],
    "tensordot": [
        call(X3, floats(3, 4, 5)),
        call(X3, floats(4, 5), axes=1),
        call(X3, floats(4, 3), axes=([1, 2], [1, 0])),
        call(X, V, axes=0),
        call(complexes(2, 3), Z, axes=1),
        call(N, ints(4, 2), axes=1),
    ],
    "einsum": [
        call("ij,jk->ik", X, floats(4, 2)),
        call("bij,bjk->bik", X3, floats(2, 4, 5)),
        call("ij->ji", X),
        call("ii->i", floats(3, 3)),
        call("ii", floats(3, 3)),
        call("ij->", X),
        call("i,j->ij", V, W),
        call("...ij,...jk->...ik", floats(5, 2, 3), floats(3, 4)),
        call("ij,jk,kl->il", X, floats(4, 2), floats(2, 5)),
        call("bqhd,bkhd->bhqk", floats(2, 3, 4, 5), floats(2, 6, 4, 5)),
        call("ij,ij->j", N, N),
        call("ij,kj->ik", Z, Z),
        call("i,i->", ints(4), floats(4)),
    ],
    "kron": [call(X, floats(2, 2)), call(V, W), call(N, ints(2, 2)), call(Z, X), call(X, X3)],
    "trace": [
        call(X),
        call(X, 1),
        call(X, -1),
        call(X3, 0, 1, 2),
        call(X3, axis1=-1, axis2=-2),
        call(N),
        call(Z),
        call(B),
    ],
    "diagonal": [call(X), call(X, 1), call(X3, -1, 1, 2), call(X3, axis1=0, axis2=-1), call(Z)],
    "diag": [call(V), call(X), call(V, 1), call(X, -1), call(ints(3)), call(Z), call(flags(3))],
    "diagflat": [call(X), call(V, -1), call(complexes(3))],
}

POLYNOMIALS: dict[str, list[ArgumentSet]] = {
    "poly": [call(V).near(1e-4), call(complexes(3)).near(1e-4), call(floats(0))],
    "polyadd": [call(V, W), call(complexes(3), V), call(ints(3), ints(2))],
    "polysub": [call(V, W), call(complexes(3), V), call(ints(3), ints(2))],
    "polymul": [call(V, W), call(complexes(3), V), call(ints(3), ints(2))],
    "polydiv": [call(V, W + 2).near(1e-4), call(W, V)],
    "polyder": [call(V), call(V, 2), call(complexes(4)), call(ints(4))],
    "polyint": [call(V), call(V, 2), call(V, 1, array(3.0)), call(complexes(4))],
    "polyval": [
        call(V, X),
        call(complexes(3), X),
        call(ints(3), N),
        call(V, SPECIAL),
        call(V, 2.0),
    ],
    "polyfit": [
        call(np.arange(6, dtype=np.float32), floats(6), 2).near(1e-3),
        call(np.arange(6, dtype=np.float32), floats(6, 2), 1).near(1e-3),
        call(np.arange(6, dtype=np.float32), floats(6), 2, w=positive(6)).near(1e-3),
    ],
    "roots": [
        call(array(1.0, -3.0, 2.0), strip_zeros=False).near(1e-4),
        call(array(2.0, -4.0), strip_zeros=False).near(1e-4),
    ],
}

HISTOGRAMS: dict[str, list[ArgumentSet]] = {
    "histogram": [
        call(X),
        call(X, bins=4),
        call(X, bins=np.sort(V)),
        call(X, bins=4, range=(-1, 1)),
        call(X, bins=4, density=True),
        call(X, bins=4, weights=positive(3, 4)),
        call(N, bins=3),
    ],
    "histogram2d": [call(V, floats(5, seed=1), bins=3), call(V, V, bins=[2, 3], density=True)],
    "histogramdd": [call(floats(7, 2), bins=3), call(floats(7, 2), bins=3, weights=positive(7))],
    "histogram_bin_edges": [call(X), call(X, 4), call(X, 4, range=(0, 1)), call(X, np.sort(V))],
}

OTHERS: dict[str, list[ArgumentSet]] = {
    "array_equal": [
        *(call(X, X), call(X, floats(3, 4, seed=1)), call(X, V)),
        *(call(SPECIAL, SPECIAL), call(SPECIAL, SPECIAL, equal_nan=True)),
    ],
    "array_equiv": [call(X, X), call(V, np.stack([V, V])), call(X, Y)],
    "ufunc": [
        use(lambda _, x: jnp.add.reduce(x, axis=1), X),
        use(lambda _, x: jnp.multiply.reduce(x, axis=0, keepdims=True), X),
        use(lambda _, x: jnp.maximum.accumulate(x, axis=1), X),
        use(lambda _, x, y: jnp.subtract.outer(x, y), V, W),
        use(lambda _, x, i: jnp.add.at(x, i, 2.0, inplace=False), V, ints(3, low=0, high=5)),
        use(lambda _, x, i: jnp.add.reduceat(x, i), V, array(0, 2, 4, dtype=np.int32)),
        use(lambda _, x: jnp.logical_and.reduce(x, axis=0), B),
        use(lambda _, x: jnp.multiply.reduce(x, axis=1), Z),
        use(lambda _, x: jnp.multiply.accumulate(x, axis=1), Z),
    ],
}

TABLE = {
    f"jax.numpy.{name}": sets
    for table in (NUMBERS, SUMS, PRODUCTS, POLYNOMIALS, HISTOGRAMS, OTHERS)
    for name, sets in table.items()
    if sets
}
