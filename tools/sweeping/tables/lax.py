"""`jax.lax`: what its functions need beyond what their signatures say."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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
    spd,
    square,
    unit,
    up_to_sign,
    use,
)

X, Y, V, W = floats(3, 4), floats(3, 4, seed=1), floats(5), floats(3)
N, B, Z, X3 = ints(3, 4), flags(3, 4), complexes(3, 4), floats(2, 3, 4)
IMAGE, KERNEL = floats(2, 3, 8, 7), floats(4, 3, 3, 2)
UINTS = ints(3, 4, low=0, high=200).astype(np.uint32)
AT = array(1, 0, dtype=np.int32)


def number(value: float, dtype: Any = np.int32) -> np.ndarray:
    return np.array(value, dtype)


ARRAYS: dict[str, list[ArgumentSet]] = {
    "argmax": [call(X, 1, jnp.int32), call(SPECIAL, 0, jnp.int32), call(N, 0, jnp.int32)],
    "argmin": [call(X, 1, jnp.int32), call(SPECIAL, 0, jnp.int32), call(B, 0, jnp.int32)],
    "approx_max_k": [call(X, 2), call(V, 3), call(X, 2, reduction_dimension=0)],
    "approx_min_k": [call(X, 2), call(V, 3)],
    "bitcast_convert_type": [
        call(X, jnp.int32),
        call(N, jnp.float32),
        call(SPECIAL, jnp.uint32),
        call(X, jnp.uint8),
        call(ints(3, 4, low=0, high=256).astype(np.uint8), jnp.int32),
    ],
    "broadcast": [call(X, (2,)), call(V, ()), call(Z, (2, 1))],
    "broadcast_in_dim": [call(V, (3, 5), (1,)), call(floats(3, 1), (2, 3, 4), (1, 2))],
    "broadcast_to_rank": [call(V, 3), call(X, 2)],
    "broadcasted_iota": [call(jnp.int32, (3, 4), 1), call(jnp.float32, (3, 4), 0)],
    "clamp": [
        call(-0.5, X, 0.5),
        call(X - 1, Y, X + 1),
        call(number(-3), N, number(3)),
        call(number(-1, np.float32), SPECIAL, number(2, np.float32)),
    ],
    "collapse": [call(X3, 1), call(X3, 0, 2), call(X3, -2)],
    "concatenate": [call([X, Y], 0), call([X, floats(3, 2)], 1), call([Z, Z], 0)],
    "convert_element_type": [call(X, jnp.int32), call(N, jnp.float32), call(B, jnp.float32)],
    "dynamic_index_in_dim": [
        call(X, number(2)),
        call(X, number(-1), 1),
        call(X, number(9), 0, keepdims=False),
    ],
    "dynamic_slice": [
        call(X, (number(1), number(2)), (2, 2)),
        call(X, (number(-1), number(9)), (2, 3)),
    ],
    "dynamic_slice_in_dim": [call(X, number(1), 2), call(X, number(-2), 2, axis=1)],
    "dynamic_update_index_in_dim": [call(X, floats(4), number(1), 0), call(X, W, number(9), 1)],
    "dynamic_update_slice": [
        call(X, floats(2, 2), (number(1), number(1))),
        call(X, floats(2, 2), (number(-1), number(8))),
        call(Z, complexes(1, 2), (number(1), number(0))),
    ],
    "dynamic_update_slice_in_dim": [call(X, floats(2, 4), number(1), 0)],
    "empty": [call((2, 3), jnp.float32)],
    "expand_dims": [call(X, (0,)), call(X, (1, -1)), call(Z, (2,))],
    "full": [call((2, 3), 4.5), call((2,), number(3)), call((2,), 1, jnp.int32)],
    "full_like": [call(X, 2.0), call(N, 3), call(X, 1, dtype=jnp.int32, shape=(2,))],
    "index_in_dim": [call(X, 1), call(X, -1, 1, keepdims=False)],
    "index_take": [call(X, (AT,), (0,)), call(X, (AT, AT), (0, 1))],
    "iota": [call(jnp.float32, 5), call(jnp.int32, 3)],
    "pad": [
        call(X, 0.0, ((1, 2, 0), (0, 1, 2))),
        call(X, 1.0, ((-1, 2, 1), (0, -2, 0))),
        call(N, number(-1), ((1, 1, 1), (0, 0, 0))),
        call(Z, np.array(2 + 1j, np.complex64), ((1, 0, 1), (0, 2, 0))),
    ],
    "reshape": [
        call(X, (2, 6)),
        call(X, (12,)),
        call(X, (4, 3), dimensions=(1, 0)),
        call(Z, (12,)),
    ],
    "rev": [call(X, (0,)), call(X, (0, 1)), call(Z, (1,))],
    "select": [call(B, X, Y), call(number(True, bool), X, Y), call(B, Z, Z * 2)],
    "select_n": [call(B, X, Y), call(ints(3, 4, low=0, high=3), X, Y, X * 2), call(B, Z, -Z)],
    "slice": [call(X, (0, 1), (2, 4)), call(X, (0, 0), (3, 4), (2, 3)), call(Z, (1, 1), (3, 3))],
    "slice_in_dim": [call(X, 1, 3), call(X, 0, 4, 2, axis=1), call(X, -2, None)],
    "split": [call(X, (1, 2)), call(X, (1, 0, 3), axis=1), call(Z, (2, 1))],
    "sort": [
        call(X),
        call(X, dimension=0),
        call((ints(6, low=0, high=3), V[:1].repeat(6)), num_keys=1),
        call((ints(6, low=0, high=3), floats(6)), num_keys=2),
        call(SPECIAL),
        call(Z),
        call(X, is_stable=False),
    ],
    "sort_key_val": [
        call(V, ints(5)),
        call(X, Y, dimension=0),
        call(ints(8, low=0, high=3), floats(8)),
    ],
    "squeeze": [call(floats(1, 3, 1), (0,)), call(floats(1, 3, 1), (0, -1))],
    "tile": [call(X, (2, 1)), call(V, (3,))],
    "top_k": [call(X, 2), call(V, 3), call(N, 2), call(X, 2, axis=0), call(SPECIAL, 4), call(X, 0)],
    "transpose": [call(X, (1, 0)), call(X3, (2, 0, 1)), call(Z, (1, 0))],
    "gather": [
        call(
            X,
            array(1, 0, 2, dtype=np.int32).reshape(3, 1),
            lax.GatherDimensionNumbers((1,), (0,), (0,)),
            (1, 4),
            mode=mode,
        )
        for mode in ("clip", "fill", "promise_in_bounds")
    ]
    + [
        call(
            X,
            array(1, 7, -2, dtype=np.int32).reshape(3, 1),
            lax.GatherDimensionNumbers((1,), (0,), (0,)),
            (1, 4),
            mode="fill",
            fill_value=-5.0,
        )
    ],
    **{
        name: [
            call(
                X,
                array(1, 0, 1, dtype=np.int32).reshape(3, 1),
                floats(3, 4, seed=3),
                lax.ScatterDimensionNumbers((1,), (0,), (0,)),
            ),
            call(
                X,
                array(1, 9, dtype=np.int32).reshape(2, 1),
                floats(2, 4, seed=3),
                lax.ScatterDimensionNumbers((1,), (0,), (0,)),
                mode="drop",
            ),
            call(
                N,
                array(2, 0, dtype=np.int32).reshape(2, 1),
                ints(2, 4, seed=3),
                lax.ScatterDimensionNumbers((1,), (0,), (0,)),
                unique_indices=True,
            ),
        ]
        for name in (
            "scatter",
            "scatter_add",
            "scatter_max",
            "scatter_min",
            "scatter_mul",
            "scatter_sub",
        )
    },
    "scatter_apply": [
        call(
            X,
            array(1, 2, dtype=np.int32).reshape(2, 1),
            jnp.sin,
            lax.ScatterDimensionNumbers((1,), (0,), (0,)),
            update_shape=(2, 4),
        ),
        call(
            V,
            array(1, 1, 3, dtype=np.int32).reshape(3, 1),
            jnp.square,
            lax.ScatterDimensionNumbers((), (0,), (0,)),
            update_shape=(3,),
        ),
    ],
}
for _name in ("scatter", "scatter_add", "scatter_mul", "scatter_sub"):
    ARRAYS[_name].append(
        call(
            Z,
            array(1, 0, dtype=np.int32).reshape(2, 1),
            complexes(2, 4, seed=3),
            lax.ScatterDimensionNumbers((1,), (0,), (0,)),
        )
    )

NUMBERS: dict[str, list[ArgumentSet]] = {
    "batch_matmul": [call(X3, floats(2, 4, 5)), call(complexes(2, 3, 4), complexes(2, 4, 2))],
    "betainc": [call(positive(3, 4), positive(3, 4, seed=1), unit(3, 4)).near(1e-4)],
    "bitwise_not": [call(N), call(B), call(UINTS)],
    "clz": [call(N), call(UINTS), call(array(0, 1, -1, dtype=np.int32))],
    "complex": [call(X, Y), call(SPECIAL, SPECIAL)],
    "dot": [call(V, V), call(X, floats(4, 2)), call(N, ints(4, 2)), call(Z, complexes(4, 2))],
    "dot_general": [
        call(X, floats(4, 2), (((1,), (0,)), ((), ()))),
        call(X3, floats(2, 5, 4), (((2,), (2,)), ((0,), (0,)))),
        call(X3, floats(3, 2, 5), (((1, 0), (0, 1)), ((), ()))),
        call(X, V, (((), ()), ((), ()))),
        call(N, ints(4, 2), (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32),
        call(Z, complexes(4, 2), (((1,), (0,)), ((), ()))),
        call(X, floats(4, 2), (((1,), (0,)), ((), ())), precision="highest"),
    ],
    "igamma": [call(positive(3, 4), positive(3, 4, seed=1)).near(1e-4)],
    "igammac": [call(positive(3, 4), positive(3, 4, seed=1)).near(1e-4)],
    "igamma_grad_a": [call(positive(3, 4), positive(3, 4, seed=1)).near(1e-3)],
    "random_gamma_grad": [call(positive(3, 4), positive(3, 4, seed=1)).near(1e-3)],
    "integer_pow": [
        *(call(X, n) for n in (0, 1, 2, 3, -1, -3)),
        call(N, 3),
        call(Z, 2),
        call(SPECIAL, 5),
        call(SPECIAL, -2),
    ],
    "mulhi": [
        call(N * 12345678, N.T.reshape(3, 4) * 987654),
        call(UINTS * 9999999, UINTS * 77777777),
    ],
    "nextafter": [call(X, Y), call(SPECIAL, np.roll(SPECIAL, 3))],
    "polygamma": [call(np.full((4,), 1, np.float32), positive(4)).near(1e-4)],
    "population_count": [call(N), call(UINTS)],
    "ragged_dot": [
        call(floats(5, 3), floats(2, 3, 4), array(2, 3, dtype=np.int32)),
        call(floats(5, 3), floats(3, 3, 4), array(2, 0, 1, dtype=np.int32)),
    ],
    "ragged_dot_general": [
        call(
            floats(5, 3),
            floats(2, 3, 4),
            array(2, 3, dtype=np.int32),
            lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)),
        )
    ],
    "reduce": [
        call(X, 0.0, lax.add, (0,)),
        call(X, -np.inf, lax.max, (0, 1)),
        call(N, 1, lax.mul, (1,)),
        call(N, 0, lambda a, b: a + 2 * b - b, (1,)),
        call((X, Y), (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] + b[1]), (1,)),
        call(B, True, lax.bitwise_and, (0,)),
    ],
    **{
        name: [call(X, (0,)), call(X3, (0, 2)), call(N, (1,)), call(SPECIAL, (0,))]
        for name in ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum")
    },
    **{
        name: [call(B, (0,)), call(N, (1,)), call(UINTS, (0, 1))]
        for name in ("reduce_and", "reduce_or", "reduce_xor")
    },
    "reduce_precision": [call(X, 5, 10), call(SPECIAL, 8, 7), call(X, 4, 3)],
    "reduce_window": [
        call(X, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        call(X, 0.0, lax.add, (2, 3), (2, 1), "SAME"),
        call(X, jnp.inf, lax.min, (1, 2), (1, 2), ((0, 0), (1, 1))),
        call(N, 0, lax.add, (2, 2), (1, 1), "VALID"),
        call(X, 1.0, lax.mul, (2, 1), (1, 1), "VALID"),
        call(floats(9), 0.0, lax.add, (3,), (1,), "VALID", (1,), (2,)),
        call(SPECIAL, -jnp.inf, lax.max, (2,), (1,), "VALID"),
        call(N, np.iinfo(np.int32).min, lax.max, (2, 2), (1, 1), "SAME"),
    ],
    **{
        name: [call(X, axis=0), call(X, axis=1, reverse=True), call(SPECIAL, axis=0)]
        for name in ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum")
    },
    **{
        name: [call(N, ints(3, 4, low=0, high=9)), call(UINTS, UINTS % 40), call(N, 40 + abs(N))]
        for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")
    },
    "zeta": [call(1 + positive(3, 4), positive(3, 4, seed=1)).near(1e-4)],
    "rem": [call(X, Y), call(N, abs(N) + 1), call(np.repeat(SPECIAL, 12), np.tile(SPECIAL, 12))],
    "div": [
        call(X, Y),
        call(N, abs(N) + 1),
        call(np.repeat(SPECIAL, 12), np.tile(SPECIAL, 12)),
        call(Z, Z.T.reshape(3, 4)),
    ],
    "pow": [
        call(positive(3, 4), X),
        call(X, N),
        call(np.repeat(SPECIAL, 12), np.tile(SPECIAL, 12)),
    ],
    "round": [
        call(X * 3),
        call(array(0.5, 1.5, -2.5)),
        call(array(0.5, 1.5, -2.5), lax.RoundingMethod.TO_NEAREST_EVEN),
        call(SPECIAL),
    ],
    "rng_uniform": [],
    "rng_bit_generator": [
        use(
            lambda f, k: f(k, (3,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
            array(1, 2, dtype=np.uint32),
        ),
        use(lambda f, k: f(k, (5,)), array(1, 2, 3, 4, dtype=np.uint32)),
    ],
    "fft": [
        call(complexes(6), "fft", (6,)).near(1e-5, 1e-5),
        call(complexes(3, 4), "ifft", (4,)).near(1e-5, 1e-5),
        call(floats(3, 4), "rfft", (3, 4)).near(1e-5, 1e-5),
        call(complexes(3, 3), lax.FftType.IRFFT, (4,)).near(1e-5, 1e-5),
    ],
    "scaled_dot": [],
}

CONVOLUTIONS: dict[str, list[ArgumentSet]] = {
    "conv": [call(IMAGE, KERNEL, (1, 1), "SAME"), call(IMAGE, KERNEL, (2, 1), "VALID")],
    "conv_with_general_padding": [
        call(IMAGE, KERNEL, (1, 2), ((1, 0), (2, 3)), None, None),
        call(IMAGE, KERNEL, (1, 1), ((1, 0), (2, 3)), (2, 1), (1, 2)),
    ],
    "conv_general_dilated": [
        call(IMAGE, KERNEL, (1, 1), "SAME"),
        call(IMAGE, KERNEL, (1, 1), ((-1, 2), (0, 1))),
        call(floats(2, 4, 8), floats(6, 2, 3), (1,), "VALID", feature_group_count=2),
        call(floats(4, 2, 8), floats(6, 2, 3), (1,), "VALID", batch_group_count=2),
        call(
            floats(2, 8, 7, 3),
            floats(3, 2, 3, 4),
            (2, 2),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        call(floats(1, 2, 4, 5, 6), floats(3, 2, 2, 2, 2), (1, 1, 1), "VALID"),
        call(floats(2, 3, 9), floats(4, 3, 3), (1,), ((1, 2),), lhs_dilation=(2,)),
        call(ints(1, 2, 6), ints(3, 2, 3), (1,), "SAME"),
        call(complexes(1, 2, 6), complexes(3, 2, 3), (1,), "SAME"),
    ],
    "conv_general_dilated_local": [call(floats(1, 2, 5), floats(3, 6, 3), (1,), "VALID", (3,))],
    "conv_general_dilated_patches": [
        call(IMAGE, (2, 3), (1, 1), "VALID"),
        call(IMAGE, (2, 2), (2, 2), "SAME"),
    ],
    "conv_transpose": [
        call(floats(2, 5, 3), floats(3, 3, 4), (2,), "SAME"),
        call(floats(2, 5, 3), floats(3, 3, 4), (2,), "VALID"),
        call(floats(2, 5, 5, 3), floats(3, 2, 3, 4), (2, 1), "SAME"),
        call(floats(2, 5, 3), floats(3, 4, 3), (2,), "SAME", transpose_kernel=True),
    ],
}


def _solve(matvec: Any, b: jax.Array) -> jax.Array:
    return jnp.linalg.solve(jax.jacobian(matvec)(b), b)


CONTROL: dict[str, list[ArgumentSet]] = {
    "associative_scan": [
        call(jnp.add, X),
        call(jnp.multiply, X, axis=1),
        call(jnp.maximum, X, reverse=True),
        call(jnp.multiply, Z),
        call(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (X, Y)),
    ],
    "composite": [
        use(lambda f, x: f(lambda y: jnp.sin(y) * 2, "my.sin")(x), X),
    ],
    "cond": [
        call(number(True, bool), jnp.sin, jnp.cos, X),
        call(number(False, bool), lambda x, y: (x + y, x), lambda x, y: (x - y, y), X, Y),
        call(number(2), lambda z: z, lambda z: -z, Z),
    ],
    "switch": [
        call(number(1), [jnp.sin, jnp.cos, jnp.tanh], X),
        call(number(9), [jnp.sin, jnp.cos, jnp.tanh], X),
        call(number(-4), [jnp.sin, jnp.cos], X),
    ],
    "custom_linear_solve": [
        use(lambda f, a, b: f(lambda x: a @ x, b, _solve, symmetric=True), spd(3, 3), W).near(1e-4)
    ],
    "custom_root": [
        use(
            lambda f, a: f(
                lambda x: x**2 - a,
                jnp.ones_like(a),
                lambda g, x: lax.fori_loop(0, 8, lambda _, y: y - g(y) / (2 * y), x),
                lambda g, y: y / g(jnp.ones_like(y)),
            ),
            positive(4),
        )
    ],
    "fori_loop": [
        call(0, 4, lambda i, x: x * 0.5 + i, X),
        call(number(1), number(5), lambda i, x: x + x[i % 3], X),
        call(3, 3, lambda i, x: x + 1, X),
    ],
    "map": [
        call(lambda v: jnp.sort(v), X),
        call(lambda v: (v[0] + v[1], v[0]), (X, Y)),
        call(jnp.sin, X, batch_size=2),
    ],
    "scan": [
        call(lambda c, x: (c + x, c * x), np.zeros(4, np.float32), X),
        call(lambda c, x: (c * 0.5 + x, c), np.zeros(4, np.float32), X, reverse=True),
        call(lambda c, x: (c + 1, c), np.zeros((), np.int32), None, length=4),
        call(lambda c, x: (c + x[0], x[1] * c), np.ones(4, np.float32), (X, Y), unroll=2),
        call(lambda c, x: (c * x, c), np.ones(4, np.complex64), Z),
    ],
    "while_loop": [
        call(lambda x: x.sum() < 50, lambda x: x * 2, positive(3)),
        call(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 2), (number(0), X)),
    ],
    "platform_dependent": [call(X, cpu=jnp.sin, default=jnp.cos)],
    "stage": [],
    "optimization_barrier": [call(X), call((X, N))],
    "stop_gradient": [call(X), call((X, N))],
    "dce_sink": [],
    "reciprocal": [call(X), call(SPECIAL), call(Z)],
}

SPD, SQ = spd(3, 3), square(3, 3)
LINALG: dict[str, list[ArgumentSet]] = {
    "cholesky": [call(SPD), call(spd(2, 4, 4)), call(SPD, symmetrize_input=False)],
    "cholesky_update": [call(np.linalg.cholesky(SPD).T.copy(), W).near(1e-4)],
    "eig": [call(SQ).near(1e-3)],
    "eigh": [up_to_sign(SPD).near(1e-3), up_to_sign(spd(2, 3, 3), lower=False).near(1e-3)],
    "hessenberg": [call(SQ).near(1e-4)],
    "householder_product": [call(floats(4, 3), unit(3)).near(1e-4)],
    "lu": [call(SQ).near(1e-4), call(floats(4, 3)).near(1e-4), call(floats(2, 3, 3)).near(1e-4)],
    "lu_pivots_to_permutation": [call(array(1, 2, 2, dtype=np.int32), 4)],
    "ormqr": [call(floats(4, 3), unit(3), floats(4, 2)).near(1e-4)],
    "qdwh": [call(SQ).near(1e-3)],
    "qr": [
        call(floats(4, 3)).near(1e-4),
        call(SQ, full_matrices=False).near(1e-4),
        call(floats(2, 4, 3), full_matrices=False).near(1e-4),
    ],
    "schur": [call(SQ).near(1e-3)],
    "svd": [
        call(floats(4, 3), compute_uv=False).near(1e-4),
        up_to_sign(floats(4, 3), full_matrices=False).near(1e-3),
    ],
    "symmetric_product": [call(floats(3, 4), SPD)],
    "triangular_solve": [
        call(SQ, X, left_side=True, lower=True).near(1e-4),
        call(SQ, X, left_side=True, lower=False).near(1e-4),
        call(SQ, floats(2, 3), left_side=False, lower=True, transpose_a=True).near(1e-4),
        call(SQ, X, left_side=True, lower=True, unit_diagonal=True).near(1e-4),
        call(complexes(3, 3) + 3 * np.eye(3, dtype=np.complex64), Z, left_side=True).near(1e-4),
    ],
    "tridiagonal": [call(SPD).near(1e-4)],
    "tridiagonal_solve": [
        call(array(0.0, 1.0, 0.5), array(4.0, 5.0, 6.0), array(1.0, -1.0, 0.0), floats(3, 2)).near(
            1e-4
        )
    ],
}

TABLE = {
    f"jax.lax.{name}": sets
    for table in (ARRAYS, NUMBERS, CONVOLUTIONS, CONTROL)
    for name, sets in table.items()
    if sets
} | {f"jax.lax.linalg.{name}": sets for name, sets in LINALG.items()}
