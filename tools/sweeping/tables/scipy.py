"""`jax.scipy` and `jax.image`: what their functions need beyond what their signatures say."""

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
    spd,
    square,
    unit,
    up_to_sign,
    use,
)

X, V, W = floats(3, 4), floats(5), floats(3)
N, Z = ints(3, 4), complexes(3, 4)
SPD, SQ = spd(3, 3), square(3, 3)
SIGNAL = floats(64)

SPECIALS: dict[str, list[ArgumentSet]] = {
    "bernoulli": [call(6).near(1e-4)],
    "bessel_jn": [use(lambda f, z: f(z, v=3), positive(5)).near(1e-4)],
    "betainc": [
        call(positive(3, 4), positive(3, 4, seed=1), unit(3, 4)).near(1e-4),
        call(array(1.0, 2.0), array(2.0, 1.0), array(0.0, 1.0)).near(1e-4),
    ],
    "factorial": [
        call(ints(4, low=0, high=9)).near(1e-4),
        call(positive(4), exact=False).near(1e-4),
    ],
    "comb": [call(ints(4, low=4, high=9), ints(4, low=0, high=4)).near(1e-4)],
    "gammainc": [call(positive(3, 4), positive(3, 4, seed=1)).near(1e-4)],
    "gammaincc": [call(positive(3, 4), positive(3, 4, seed=1)).near(1e-4)],
    "hyp1f1": [call(positive(4), positive(4, seed=1), V[:4]).near(1e-3)],
    "hyp2f1": [call(positive(4), positive(4, seed=1), 3 + positive(4), unit(4)).near(1e-3)],
    "multigammaln": [call(3 + positive(4), 3).near(1e-4)],
    "polygamma": [
        call(array(0, 1, 2, 3, dtype=np.int32), positive(4)).near(1e-4),
        call(1, positive(4)).near(1e-4),
    ],
    "expn": [call(ints(4, low=1, high=4), positive(4)).near(1e-4), call(2, positive(4)).near(1e-4)],
    "sph_harm_y": [
        call(
            array(1, 2, 2, dtype=np.int32),
            array(0, 1, -2, dtype=np.int32),
            positive(3),
            positive(3, seed=1),
            n_max=2,
        ).near(1e-4)
    ],
    "zeta": [
        call(1 + positive(3, 4), positive(3, 4, seed=1)).near(1e-4),
    ],
    # Between equal numbers as large as 1e6, JAX's rounding is all there is.
    "kl_div": [
        call(floats(3, 4), floats(3, 4, seed=1)),
        call(positive(3, 1), positive(4)),
        call(ints(4), positive(4)),
        call(np.repeat(SPECIAL[:-1], 11), np.tile(SPECIAL[:-1], 11)),
        call(floats(0, 4), floats(0, 4)),
    ],
    # Near zero, a branch that JAX computes and does not take needs millions of steps.
    "exp1": [
        call(positive(3, 4)).near(1e-4),
        call(array(np.nan, np.inf, -np.inf, 0, 1, -1, 0.5, 30)).near(1e-4),
        call(floats(0, 4)),
    ],
    "logsumexp": [
        call(X),
        call(X, axis=1),
        call(X, axis=-1, keepdims=True),
        call(X, axis=0, b=positive(3, 4)),
        call(X, axis=0, b=floats(3, 4, seed=1), return_sign=True),
        call(SPECIAL),
        call(np.full((3,), -np.inf, np.float32)),
        call(X, where=flags(3, 4)),
        call(Z),
    ],
    "softmax": [call(X), call(X, axis=0), call(X, axis=(0, 1)), call(SPECIAL)],
    "log_softmax": [call(X), call(X, axis=0), call(X, axis=(0, 1)), call(SPECIAL)],
}

B_ODD = array(0.5, 0.25, -0.1)
LINALG: dict[str, list[ArgumentSet]] = {
    "block_diag": [call(X, floats(2, 2)), call(V, X), call(Z, X), call()],
    "cho_factor": [call(SPD), call(SPD, lower=True)],
    "cho_solve": [
        use(lambda f, c, b: f((c, True), b), np.linalg.cholesky(SPD), X).near(1e-4),
        use(lambda f, c, b: f((c, False), b), np.linalg.cholesky(SPD).T.copy(), W).near(1e-4),
    ],
    "cholesky": [call(SPD), call(SPD, lower=True), call(spd(2, 3, 3))],
    "convolution_matrix": [call(W, 4), call(W, 4, mode="same"), call(W, 4, mode="valid")],
    "companion": [call(array(2.0, 3.0, 1.0)), call(complexes(4))],
    "det": [call(SQ).near(1e-4), call(floats(2, 2, 2)), call(square(5, 5)).near(1e-4)],
    "dft": [call(4), call(5, scale="sqrtn"), call(3, scale="n")],
    "eigh": [
        up_to_sign(SPD).near(1e-3),
        call(SPD, eigvals_only=True).near(1e-4),
        up_to_sign(SPD, lower=False).near(1e-3),
    ],
    "eigh_tridiagonal": [call(floats(4), W, eigvals_only=True).near(1e-3)],
    "expm": [call(SQ / 3).near(1e-4), call(floats(2, 2, 2)).near(1e-4), call(SQ * 4).near(1e-3)],
    "expm_frechet": [call(SQ / 3, floats(3, 3)).near(1e-4)],
    # Of a flag that is 0, `jax.jit` and eager JAX disagree about 0 / 0.
    "fiedler_companion": [
        call(array(1.0, -16.0, 86.0, 5.0)),
        call(1 + positive(2, 5)),
        call(ints(4)),
    ],
    "funm": [call(SQ, jnp.exp).near(1e-3)],
    "hadamard": [call(4)],
    "helmert": [call(4), call(4, full=True)],
    "hessenberg": [call(SQ).near(1e-4), call(SQ, calc_q=True).near(1e-4)],
    "hilbert": [call(4)],
    "invhilbert": [call(4)],
    "invpascal": [call(4)],
    "pascal": [call(4), call(4, kind="lower"), call(4, kind="upper")],
    "inv": [call(SQ).near(1e-4), call(square(2, 3, 3)).near(1e-4)],
    "leslie": [call(positive(4), unit(3))],
    "lu": [call(SQ).near(1e-4), call(SQ, permute_l=True).near(1e-4), call(floats(4, 3)).near(1e-4)],
    "lu_factor": [call(SQ).near(1e-4)],
    "lu_solve": [
        use(lambda f, a, b: f((a, jnp.array([1, 1, 2])), b), SQ, X).near(1e-4),
        use(lambda f, a, b: f((a, jnp.array([1, 1, 2])), b, trans=1), SQ, W).near(1e-4),
    ],
    "polar": [call(SQ).near(1e-3)],
    "qr": [
        call(floats(4, 3)).near(1e-4),
        call(floats(4, 3), mode="economic").near(1e-4),
        call(SQ, mode="r").near(1e-4),
    ],
    "qr_multiply": [call(floats(4, 3), floats(2, 4)).near(1e-4)],
    "rsf2csf": [call(np.triu(SQ), np.eye(3, dtype=np.float32)).near(1e-3)],
    "schur": [call(SQ).near(1e-3)],
    "solve": [
        call(SQ, X).near(1e-4),
        call(SPD, W, assume_a="pos").near(1e-4),
        call(SPD, X, assume_a="pos", lower=True).near(1e-4),
    ],
    "solve_sylvester": [call(SQ, square(2, 2), floats(3, 2)).near(1e-3)],
    "solve_triangular": [
        call(SQ, X).near(1e-4),
        call(SQ, W, lower=True).near(1e-4),
        call(SQ, X, trans="T").near(1e-4),
        call(SQ, X, unit_diagonal=True).near(1e-4),
    ],
    "sqrtm": [call(SPD).near(1e-3)],
    "svd": [
        call(floats(4, 3), compute_uv=False).near(1e-4),
        up_to_sign(floats(4, 3), full_matrices=False).near(1e-3),
    ],
    "hankel": [call(V), call(V, W), call(ints(4), ints(3))],
    "toeplitz": [call(V), call(V, W), call(complexes(4)), call(ints(4), ints(3))],
}

SIGNALS: dict[str, list[ArgumentSet]] = {
    **{
        name: [
            *(call(V, W, mode=mode).near(1e-5, 1e-5) for mode in ("full", "same", "valid")),
            call(X, floats(2, 2)).near(1e-5, 1e-5),
            call(complexes(5), complexes(3)).near(1e-5, 1e-5),
            call(V, W, method="fft").near(1e-5, 1e-5),
            call(V, W, method="direct"),
        ]
        for name in ("convolve", "correlate")
    },
    **{
        name: [
            *(call(floats(5, 4), floats(2, 3), mode=mode) for mode in ("full", "same", "valid")),
            call(ints(5, 4), ints(2, 2)),
        ]
        for name in ("convolve2d", "correlate2d")
    },
    "fftconvolve": [
        *(call(V, W, mode=mode).near(1e-5, 1e-5) for mode in ("full", "same", "valid")),
        call(X, floats(2, 2)).near(1e-5, 1e-5),
        call(X, floats(3, 2), axes=1).near(1e-5, 1e-5),
        call(complexes(5), complexes(3)).near(1e-5, 1e-5),
    ],
    "detrend": [
        call(SIGNAL).near(1e-4),
        call(floats(8, 5), axis=0).near(1e-4),
        call(SIGNAL, type="constant").near(1e-4),
        call(SIGNAL, bp=[20, 40]).near(1e-4),
    ],
    "csd": [
        call(SIGNAL, floats(64, seed=1), nperseg=16).near(1e-4),
        call(SIGNAL, floats(64, seed=1), nperseg=16, scaling="spectrum").near(1e-4),
        call(SIGNAL, SIGNAL, nperseg=16, average="median").near(1e-4),
    ],
    "welch": [
        call(SIGNAL, nperseg=16).near(1e-4),
        call(SIGNAL, fs=10.0, nperseg=16, noverlap=4, window="hamming").near(1e-4),
        call(SIGNAL, nperseg=16, scaling="spectrum", detrend="linear").near(1e-4),
        call(SIGNAL, nperseg=16, nfft=32, average="median").near(1e-4),
        call(complexes(64), nperseg=16, return_onesided=False).near(1e-4),
        call(floats(2, 64), nperseg=16).near(1e-4),
        call(floats(64, 2), nperseg=16, axis=0, detrend=False).near(1e-4),
    ],
    "stft": [
        call(SIGNAL, nperseg=16).near(1e-4, 1e-5),
        call(SIGNAL, fs=8.0, nperseg=16, noverlap=4, boundary=None, padded=False).near(1e-4, 1e-5),
        call(SIGNAL, nperseg=16, boundary="even").near(1e-4, 1e-5),
        call(floats(2, 64), nperseg=16, detrend="constant").near(1e-4, 1e-5),
        call(complexes(64), nperseg=16, return_onesided=False).near(1e-4, 1e-5),
    ],
    "istft": [
        call(complexes(9, 9), nperseg=16).near(1e-4, 1e-5),
        call(complexes(9, 9), nperseg=16, boundary=False).near(1e-4, 1e-5),
        call(complexes(2, 9, 5), nperseg=16, noverlap=12).near(1e-4, 1e-5),
    ],
}

POINTS = positive(2, 5)
PLACES = ints(2, 5, low=-2, high=6).astype(np.float32) + 0.25
IMAGE = floats(4, 5)
METHODS = ("nearest", "linear", "bilinear", "cubic", "bicubic", "lanczos3", "lanczos5")


def _kde(method: str, points: Any) -> Any:
    return lambda f, data: getattr(f(data), method)(points)


ROTATION = floats(3, 4)
OTHERS: dict[str, list[ArgumentSet]] = {
    "ndimage.map_coordinates": [
        *(call(IMAGE, [PLACES[0], PLACES[1]], order) for order in (0, 1)),
        *(
            call(IMAGE, [PLACES[0], PLACES[1]], 1, mode=mode)
            for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
        ),
        call(IMAGE, [POINTS[0], POINTS[1]], 1, cval=2.0),
        call(ints(4, 5), [POINTS[0], POINTS[1]], 1),
    ],
    "integrate.trapezoid": [call(V), call(X, axis=0), call(X, dx=0.5), call(V, np.sort(V))],
    "interpolate.RegularGridInterpolator": [
        use(
            lambda f, grid, points, method=method, **k: f(
                (jnp.arange(4.0), jnp.arange(5.0)), grid, method=method, **k
            )(points),
            IMAGE,
            positive(6, 2),
            bounds_error=False,
            fill_value=fill,
        )
        for method, fill in (("linear", 0.5), ("nearest", 0.5), ("linear", None))
    ],
    "optimize.minimize": [
        use(lambda f, x: f(lambda y: ((y - 1) ** 2).sum(), x, method="BFGS").x, W).near(1e-3)
    ],
    "cluster.vq.vq": [call(floats(7, 3), floats(2, 3)), call(floats(7), floats(2))],
    "sparse.linalg.cg": [
        use(lambda f, a, b: f(lambda x: a @ x, b)[0], SPD, W).near(1e-3),
        use(lambda f, a, b: f(lambda x: a @ x, b, maxiter=5)[0], SPD, W).near(1e-3),
    ],
    "sparse.linalg.bicgstab": [use(lambda f, a, b: f(lambda x: a @ x, b)[0], SPD, W).near(1e-3)],
    "sparse.linalg.gmres": [use(lambda f, a, b: f(lambda x: a @ x, b)[0], SPD, W).near(1e-3)],
    "spatial.transform.Rotation": [
        use(lambda f, q: f.from_quat(q).as_matrix(), ROTATION),
        use(lambda f, q: f.from_quat(q).as_euler("xyz"), ROTATION).near(1e-4),
        use(lambda f, q: f.from_quat(q).as_rotvec(), ROTATION).near(1e-4),
        use(lambda f, q, v: f.from_quat(q).apply(v), ROTATION, floats(3, 3)),
        use(lambda f, v: f.from_rotvec(v).as_quat(), floats(3, 3)),
        use(lambda f, v: f.from_euler("zyx", v).as_quat(), floats(3, 3)),
        use(lambda f, q: (f.from_quat(q[0]) * f.from_quat(q[1])).inv().as_quat(), ROTATION),
        use(lambda f, q: f.from_matrix(f.from_quat(q).as_matrix()).as_quat(), ROTATION).near(1e-4),
        use(lambda f, q: f.from_quat(q).magnitude(), ROTATION).near(1e-4),
        use(lambda f, q: f.from_quat(q).mean().as_matrix(), ROTATION).near(1e-3),
    ],
    "spatial.transform.Slerp": [
        use(
            lambda f, q, t: f.init(jnp.arange(3.0), _rotation().from_quat(q))(t).as_quat(),
            ROTATION,
            unit(4) * 2,
        ).near(1e-4)
    ],
    "stats.mode": [
        call(ints(3, 6, low=0, high=3)),
        call(ints(3, 6, low=0, high=3), axis=1),
        call(V),
    ],
    "stats.rankdata": [
        call(ints(8, low=0, high=4)),
        *(
            call(ints(8, low=0, high=4), method=method)
            for method in ("average", "min", "max", "dense", "ordinal")
        ),
        call(X, axis=1),
    ],
    "stats.sem": [call(X), call(X, axis=1), call(X, ddof=0), call(X, axis=None, keepdims=True)],
    "stats.gaussian_kde": [
        *(
            use(lambda f, data, at, m=method: getattr(f(data), m)(at), floats(20), V).near(1e-4)
            for method in ("evaluate", "pdf", "logpdf")
        ),
        use(lambda f, data, at: f(data, bw_method=0.5)(at), floats(2, 20), floats(2, 5)).near(1e-4),
        use(lambda f, data: f(data).integrate_box_1d(-1.0, 1.0), floats(20)).near(1e-4),
        use(lambda f, data, w, at: f(data, weights=w)(at), floats(20), positive(20), V).near(1e-4),
    ],
    "fft.dct": [],
}


def _rotation() -> Any:
    from jax.scipy.spatial.transform import Rotation

    return Rotation


for _name in ("dct", "idct"):
    OTHERS[f"fft.{_name}"] = [
        call(V).near(1e-5, 1e-5),
        call(X, axis=0).near(1e-5, 1e-5),
        call(X, norm="ortho").near(1e-5, 1e-5),
        call(X, n=6).near(1e-5, 1e-5),
        call(floats(8), n=5).near(1e-5, 1e-5),
        call(floats(1)).near(1e-5, 1e-5),
    ]
for _name in ("dctn", "idctn"):
    OTHERS[f"fft.{_name}"] = [
        call(X).near(1e-5, 1e-5),
        call(X, axes=(0,)).near(1e-5, 1e-5),
        call(X, norm="ortho").near(1e-5, 1e-5),
        call(X, s=(4, 3)).near(1e-5, 1e-5),
    ]

P = unit(3)
P /= P.sum()
COUNT = array(2, 1, 3, dtype=np.int32)
DISTRIBUTIONS: dict[str, list[ArgumentSet]] = {
    **{
        f"multinomial.{name}": [call(COUNT, 6, P).near(1e-4), call(COUNT, 5, P).near(1e-4)]
        for name in ("pmf", "logpmf")
    },
    **{
        f"dirichlet.{name}": [
            call(P, positive(3)).near(1e-4),
            call(np.stack([P, P], 1), positive(3)).near(1e-4),
        ]
        for name in ("pdf", "logpdf")
    },
    **{
        f"multivariate_normal.{name}": [
            call(W, floats(3, seed=1), SPD).near(1e-4),
            call(floats(4, 3), W, SPD).near(1e-4),
            call(V, array(0.5)[0:1].reshape(()), array(2.0)[0:1].reshape(())).near(1e-4),
        ]
        for name in ("pdf", "logpdf")
    },
    **{
        f"{dist}.{name}": [
            call(ints(6, low=-1, high=5), ints(6, low=1, high=6), unit(6)).near(1e-4),
            call(ints(6, low=-1, high=5), 4, 0.3, loc=1).near(1e-4),
        ]
        for dist in ("binom", "nbinom")
        for name in ("pmf", "logpmf")
    },
    **{
        f"betabinom.{name}": [
            call(ints(6, low=-1, high=5), 5, positive(6), positive(6, seed=1)).near(1e-4)
        ]
        for name in ("pmf", "logpmf")
    },
    **{
        f"{dist}.{name}": [
            call(ints(6, low=-1, high=3), unit(6)).near(1e-4),
            call(ints(6, low=-1, high=3), 0.3, loc=1).near(1e-4),
        ]
        for dist in ("bernoulli", "geom")
        for name in ("pmf", "logpmf")
    },
    "bernoulli.cdf": [
        call(ints(6, low=-1, high=3), unit(6)).near(1e-4),
        call(ints(6, low=-1, high=3), 0.3).near(1e-4),
    ],
    # At the infinities, what JAX's rounding leaves is not zero.
    **{
        f"cauchy.{name}": [
            call(floats(3, 4)).near(1e-4),
            call(ints(4)).near(1e-4),
            call(floats(5), loc=floats(5, seed=1), scale=positive(5)).near(1e-4),
        ]
        for name in ("logcdf", "logsf")
    },
    # Where almost nothing is left, JAX's rounding makes a probability negative.
    **{
        f"gamma.{name}": [
            call(positive(3, 4), positive(3, 4, seed=1)).near(1e-4),
            call(positive(5), positive(5, seed=1), loc=-positive(5, seed=2), scale=2.0).near(1e-4),
            call(array(np.nan, np.inf, -1, 0, 1, 2), array(1, 2, 3, 1, np.nan, -1)).near(1e-4),
        ]
        for name in ("cdf", "logcdf", "logsf", "sf")
    },
    "bernoulli.ppf": [call(unit(6), unit(6, seed=1)), call(array(0.0, 1.0, 0.5), 0.4)],
    **{
        f"poisson.{name}": [
            call(ints(6, low=-1, high=6), positive(6)).near(1e-4),
            call(ints(6, low=-1, high=6), 2.5, loc=1).near(1e-4),
        ]
        for name in ("pmf", "logpmf", "cdf")
    },
    # Probabilities; the ends are the poles of a tangent for `cauchy`, so rounding is all there is.
    **{
        f"{dist}.{name}": [
            call(unit(3, 4)).near(1e-4),
            call(unit(5), loc=floats(5), scale=positive(5)).near(1e-4),
            *([] if dist == "cauchy" else [call(array(0, 1, 0.5, -1, 2, np.nan)).near(1e-4)]),
        ]
        for name, dists in {
            "ppf": ("cauchy", "expon", "gumbel_l", "gumbel_r", "logistic", "norm", "uniform"),
            "isf": ("cauchy", "logistic", "norm"),
        }.items()
        for dist in dists
    },
    "pareto.ppf": [
        call(unit(3, 4), positive(4)).near(1e-4),
        call(array(0, 1, 0.5, -1, 2, np.nan), 2.0).near(1e-4),
    ],
    "poisson.entropy": [call(positive(4)).near(1e-4), call(positive(4) * 10).near(1e-3)],
}

IMAGES: dict[str, list[ArgumentSet]] = {
    "resize": [
        *(call(IMAGE, (7, 9), method) for method in METHODS),
        *(call(IMAGE, (2, 3), method) for method in METHODS),
        call(IMAGE, (2, 3), "linear", antialias=False),
        call(floats(2, 4, 5, 3), (2, 8, 8, 3), "bilinear"),
        call(ints(4, 5), (8, 5), "nearest"),
        call(ints(4, 5), (8, 7), "linear"),
    ],
    "scale_and_translate": [
        call(IMAGE, (6, 6), (0, 1), array(1.5, 1.2), array(0.3, -0.5), method)
        for method in METHODS[1:]
    ],
}

TABLE = {
    f"jax.scipy.{module}{name}": sets
    for module, table in (
        ("special.", SPECIALS),
        ("linalg.", LINALG),
        ("signal.", SIGNALS),
        ("stats.", DISTRIBUTIONS),
        ("", OTHERS),
    )
    for name, sets in table.items()
    if sets
} | {f"jax.image.{name}": sets for name, sets in IMAGES.items()}
