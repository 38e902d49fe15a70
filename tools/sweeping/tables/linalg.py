"""`jax.numpy.linalg`, `jax.numpy.fft` and `jax.nn`."""

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
    up_to_sign,
)

X, V, W, Z = floats(3, 4), floats(5), floats(3), complexes(3, 4)
X3 = floats(2, 3, 4)
SPD, SQ = spd(3, 3), square(3, 3)
HERMITIAN = (complexes(3, 3) + complexes(3, 3).conj().T + 6 * np.eye(3)).astype(np.complex64)
COMPLEX_SQ = (complexes(3, 3) + 3 * np.eye(3)).astype(np.complex64)
NORMS = ("ortho", "forward", "backward")


def _near(*sets: ArgumentSet) -> list[ArgumentSet]:
    return [one.near(1e-4) for one in sets]


LINALG: dict[str, list[ArgumentSet]] = {
    "cholesky": _near(
        call(SPD), call(spd(2, 3, 3)), call(SPD, upper=True), call(HERMITIAN), call(-SPD)
    ),
    "cond": _near(call(SQ), call(SQ, p=1), call(SQ, p="fro"), call(SQ, p=-2), call(SQ, p=np.inf)),
    "cross": [
        call(floats(2, 3), floats(2, 3, seed=1)),
        call(floats(3, 5), floats(3, 5, seed=1), axis=0),
        call(complexes(3), complexes(3, seed=1)),
    ],
    "det": _near(
        *(call(square(n, n)) for n in (1, 2, 3, 4, 6)), call(floats(2, 3, 3)), call(COMPLEX_SQ)
    ),
    "diagonal": [call(X), call(X3, offset=1), call(Z, offset=-1)],
    "eig": [call(SQ).near(1e-3), call(np.triu(SQ)).near(1e-3)],
    "eigvals": [call(SQ).near(1e-3)],
    "eigh": [
        up_to_sign(SPD).near(1e-3),
        up_to_sign(spd(2, 3, 3), UPLO="U").near(1e-3),
        up_to_sign(HERMITIAN).near(1e-3),
    ],
    "eigvalsh": _near(call(SPD), call(spd(2, 3, 3), UPLO="U"), call(HERMITIAN)),
    "inv": _near(
        *(call(square(n, n)) for n in (1, 2, 3, 5)), call(square(2, 3, 3)), call(COMPLEX_SQ)
    ),
    "lstsq": [
        call(floats(5, 3), floats(5)).near(1e-3),
        call(floats(5, 3), floats(5, 2)).near(1e-3),
        call(floats(5, 3), floats(5), rcond=0.1).near(1e-3),
    ],
    "matmul": [
        call(X, floats(4, 2)),
        call(X3, floats(2, 4, 5)),
        call(V, V),
        call(Z, complexes(4, 2)),
    ],
    "matrix_norm": _near(
        call(X),
        call(X3),
        *(call(X, ord=o) for o in (1, -1, 2, -2, np.inf, -np.inf, "nuc", "fro")),
        call(X, keepdims=True),
        call(Z),
    ),
    "matrix_power": _near(
        *(call(SQ, n) for n in (0, 1, 2, 3, 5, -1, -2)),
        call(square(2, 3, 3), 2),
        call(COMPLEX_SQ, 3),
    ),
    "matrix_rank": [
        call(SQ),
        call(np.outer(W, V).astype(np.float32)),
        call(X3),
        call(SPD, rtol=1e-3),
        call(V),
    ],
    "matrix_transpose": [call(X), call(X3), call(Z)],
    "multi_dot": [
        call([X, floats(4, 2), floats(2, 5)]),
        call([W, X, floats(4)]),
        call([Z, floats(4, 2), floats(2, 3)]),
    ],
    "norm": _near(
        call(X),
        call(V),
        call(X3),
        call(Z),
        *(call(V, ord=o) for o in (0, 1, 2, 3, -1, np.inf, -np.inf, 0.5)),
        *(call(X, ord=o) for o in (1, -1, 2, np.inf, "fro", "nuc")),
        call(X, axis=0),
        call(X, axis=-1, keepdims=True),
        call(X3, axis=(0, 2)),
        call(X3, ord=1, axis=(-2, -1)),
        call(SPECIAL),
        call(ints(3, 4)),
    ),
    "outer": [call(V, W), call(complexes(3), V)],
    "pinv": [
        call(floats(4, 3)).near(1e-3),
        call(SPD, hermitian=True).near(1e-3),
        call(floats(3, 5), rtol=1e-3).near(1e-3),
    ],
    "qr": _near(
        *(call(floats(4, 3), mode=mode) for mode in ("reduced", "complete", "r")),
        call(X),
        call(X3),
        call(Z),
    ),
    "slogdet": _near(
        call(SQ),
        call(floats(2, 3, 3)),
        call(SQ, method="lu"),
        call(SQ, method="qr"),
        call(COMPLEX_SQ),
        call(np.zeros((2, 2), np.float32)),
    ),
    "solve": _near(
        call(SQ, W),
        call(SQ, X),
        call(square(2, 3, 3), floats(2, 3, 1)),
        call(COMPLEX_SQ, Z),
        call(SQ, X3),
    ),
    "svd": [
        up_to_sign(X, full_matrices=False).near(1e-3),
        call(X, compute_uv=False).near(1e-4),
        call(X3, compute_uv=False).near(1e-4),
        up_to_sign(SPD, hermitian=True).near(1e-3),
        up_to_sign(X).near(1e-3),
        call(Z, compute_uv=False).near(1e-4),
    ],
    "svdvals": _near(call(X), call(X3), call(Z)),
    "tensordot": [
        call(X3, floats(3, 4, 5)),
        call(X3, floats(4, 5), axes=1),
        call(Z, X, axes=([0], [0])),
    ],
    "tensorinv": _near(
        call(square(6, 6).reshape(2, 3, 6)), call(square(4, 4).reshape(4, 2, 2), ind=1)
    ),
    "tensorsolve": _near(call(square(6, 6).reshape(2, 3, 6), floats(2, 3))),
    "vecdot": [call(V, V), call(X, floats(3, 4, seed=1), axis=0), call(Z, Z)],
}

FFT: dict[str, list[ArgumentSet]] = {
    **{
        name: [
            *(call(one) for one in (floats(6), floats(5), Z, complexes(7), floats(1), ints(6))),
            call(X, axis=0),
            call(Z, n=6),
            call(Z, n=3),
            *(call(Z, norm=norm) for norm in NORMS),
            *(call(X, n=5, axis=0, norm=norm) for norm in NORMS),
        ]
        for name in ("fft", "ifft")
    },
    **{
        name: [
            *(call(one) for one in (floats(6), floats(5), X, floats(1))),
            call(X, axis=0),
            call(X, n=6),
            call(X, n=3),
            *(call(X, norm=norm) for norm in NORMS),
            *(call(X, n=5, axis=0, norm=norm) for norm in NORMS),
        ]
        for name in ("rfft", "ihfft")
    },
    **{
        name: [
            *(call(one) for one in (complexes(4), complexes(5), Z)),
            call(Z, axis=0),
            call(Z, n=5),
            call(Z, n=4),
            *(call(Z, norm=norm) for norm in NORMS),
            *(call(Z, n=5, axis=0, norm=norm) for norm in NORMS),
        ]
        for name in ("irfft", "hfft")
    },
    **{
        name: [
            call(X),
            call(Z),
            call(X3),
            call(X3, axes=(0, 1)),
            call(Z, s=(4, 3)),
            *(call(Z, norm=norm) for norm in NORMS),
        ]
        for name in ("fft2", "ifft2", "fftn", "ifftn")
    },
    **{
        name: [
            call(X),
            call(X3),
            call(X3, axes=(0, 1)),
            call(X, s=(4, 3)),
            *(call(X, norm=norm) for norm in NORMS),
        ]
        for name in ("rfft2", "rfftn")
    },
    **{
        name: [
            call(Z),
            call(complexes(2, 3, 4)),
            call(complexes(2, 3, 4), axes=(0, 1)),
            call(Z, s=(4, 3)),
            *(call(Z, norm=norm) for norm in NORMS),
        ]
        for name in ("irfft2", "irfftn")
    },
    "fftfreq": [call(5), call(6, d=0.5), call(4, array(0.5)[0:1].reshape(()))],
    "rfftfreq": [call(5), call(6, d=0.5)],
    "fftshift": [call(X), call(V), call(X3, axes=(0, 2)), call(Z, axes=0)],
    "ifftshift": [call(X), call(V), call(X3, axes=(0, 2)), call(Z, axes=0)],
}
FFT = {name: [one.near(1e-5, 1e-5) for one in sets] for name, sets in FFT.items()}

QUERY, KEY = floats(2, 3, 4, 5), floats(2, 6, 4, 5)


def _masked(axis: Any = -1) -> ArgumentSet:
    return call(X, axis=axis, where=flags(3, 4), initial=-1e9)


NN: dict[str, list[ArgumentSet]] = {
    "dot_product_attention": [
        call(QUERY, KEY, KEY),
        call(QUERY, KEY, KEY, scale=0.5),
        call(QUERY, KEY, KEY, bias=floats(2, 4, 3, 6)),
        call(QUERY, KEY, KEY, mask=flags(2, 4, 3, 6) | np.eye(3, 6, dtype=bool)),
        call(KEY, KEY, KEY, is_causal=True),
        call(KEY, KEY, KEY, local_window_size=(1, 1)),
        call(QUERY, KEY, KEY, key_value_seq_lengths=array(3, 6, dtype=np.int32)),
        call(KEY, KEY, KEY, query_seq_lengths=array(3, 6, dtype=np.int32)),
        call(floats(3, 4, 5), floats(6, 4, 5), floats(6, 4, 5)),
        call(floats(2, 3, 4, 5), floats(2, 6, 2, 5), floats(2, 6, 2, 5)),
    ],
    "glu": [call(X), call(floats(4, 3), axis=0), call(SPECIAL)],
    "log_softmax": [
        call(X),
        call(X, axis=0),
        call(X, axis=(0, 1)),
        call(SPECIAL),
        call(X, where=flags(3, 4)),
    ],
    "softmax": [
        call(X),
        call(X, axis=0),
        call(X, axis=(0, 1)),
        call(SPECIAL),
        call(X, where=flags(3, 4)),
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
    ],
    "logmeanexp": [call(X), call(X, axis=1), call(X, axis=-1, keepdims=True), call(SPECIAL)],
    "one_hot": [
        call(ints(4, low=-1, high=5), 4),
        call(ints(4, low=-1, high=5), 4, axis=0),
        call(ints(2, 3, low=0, high=4), 4, dtype=jnp.int32),
        call(array(0.0, 1.5, 2.0), 3),
    ],
    "standardize": [
        call(X),
        call(X, axis=0),
        call(X3, axis=(0, 2)),
        call(X, epsilon=0.1),
        call(X, mean=floats(3, 1), variance=positive(3, 1)),
        call(X, where=flags(3, 4)),
    ],
    "scaled_matmul": [],
    "scaled_dot_general": [call(X, floats(4, 2), (((1,), (0,)), ((), ())))],
    "gelu": [
        call(X),
        call(X, approximate=False),
        call(SPECIAL),
        call(SPECIAL, approximate=False),
        call(ints(3)),
    ],
    "leaky_relu": [call(X), call(X, 0.3), call(SPECIAL), call(X, floats(4)), call(ints(3))],
    "elu": [call(X), call(X, 0.3), call(SPECIAL), call(X, floats(4)), call(ints(3))],
    "celu": [call(X), call(X, 0.3), call(SPECIAL), call(X, positive(4))],
    "squareplus": [call(X), call(X, 0.3), call(SPECIAL)],
    "relu": [call(X), call(SPECIAL), call(ints(3, 4))],
    "relu6": [call(X * 5), call(SPECIAL), call(ints(3, 4))],
    "log1mexp": [call(positive(5)), call(SPECIAL), call(array(0.001, 0.7, 30.0))],
}

TABLE = (
    {f"jax.numpy.linalg.{name}": sets for name, sets in LINALG.items()}
    | {f"jax.numpy.fft.{name}": sets for name, sets in FFT.items()}
    | {f"jax.nn.{name}": sets for name, sets in NN.items() if sets}
)
