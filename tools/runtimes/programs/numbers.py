"""Random numbers, integers, linear algebra and other mathematics."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import floats, program, weights, whole


@program(np.asarray([0, 42], np.uint32))
def random_numbers(key: Any) -> Any:
    return jax.random.uniform(key, (4,)), jax.random.normal(key, (3,))


@program(floats(4, 6), np.asarray([1, 2], np.uint32))
def dropout(x: Any, key: Any) -> Any:
    kept = jax.random.bernoulli(key, 0.5, x.shape)
    return jnp.where(kept, x / 0.5, 0)


@program(floats(3, 7), np.asarray([3, 4], np.uint32))
def categorical_sampling(logits: Any, key: Any) -> Any:
    return jax.random.categorical(key, logits), jax.random.permutation(key, 6)


@program(whole(2**32 - 1, 6, dtype=np.uint32), whole(31, 6, dtype=np.uint32))
def unsigned_shifts(x: Any, by: Any) -> Any:
    return x << by, x >> by, x ^ (x >> 16), x * jnp.uint32(2654435761), x > jnp.uint32(7)


@program(whole(1000, 8), whole(9, 8, seed=1))
def integer_arithmetic(x: Any, y: Any) -> Any:
    return x // (y + 1), x % (y + 1), x & y, x | y, jnp.clip(x, 10, 500), jnp.sign(y - 4)


@program(whole(100, 5, 4))
def integer_reductions(x: Any) -> Any:
    return x.max(0), x.min(1), x.sum(), x.prod(1), jnp.cumsum(x, 0), x @ x.T


# Linear algebra and other mathematics.


@program(floats(4, 4))
def symmetric_systems(x: Any) -> Any:
    a = x @ x.T + 4 * jnp.eye(4)
    return jnp.linalg.cholesky(a), jnp.linalg.solve(a, x[:, 0]), jnp.linalg.inv(a)


@program(floats(4, 3))
def least_squares_by_qr(x: Any) -> Any:
    q, r = jnp.linalg.qr(x)
    return jnp.abs(q @ r), jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1)


@program(floats(3, 3))
def determinants(x: Any) -> Any:
    return jnp.linalg.det(x), jnp.linalg.slogdet(x)[1], jnp.trace(x), jnp.diag(x)


@program(floats(2, 3, 4), floats(2, 4, 5, seed=1))
def contractions(x: Any, y: Any) -> Any:
    return (
        jnp.einsum("bij,bjk->bik", x, y),
        jnp.einsum("bij,bjk->k", x, y),
        jnp.outer(x[0, 0], y[0, 0]),
    )


@program(np.abs(floats(3, 5)) + 0.1)
def transcendental(x: Any) -> Any:
    return jnp.log1p(x) + jnp.expm1(-x) + jnp.arctan2(x, 2.0) + lax.erf(x), x**1.7, jnp.sinh(x)


@program(floats(12, scale=3.0))
def rounding(x: Any) -> Any:
    return (
        jnp.round(x),
        jnp.floor(x),
        jnp.ceil(x),
        jnp.trunc(x),
        jnp.mod(x, 0.7),
        x.astype(jnp.int32),
    )


@program(np.asarray([1.0, np.nan, -np.inf, np.inf, -0.0, -2.0], np.float32))
def missing_numbers(x: Any) -> Any:
    return jnp.isnan(x), jnp.nan_to_num(x), jnp.nanmean(x[:2]), jnp.maximum(x, 0), jnp.nanmax(x[:2])


@program(floats(6, 4))
def statistics(x: Any) -> Any:
    return x.var(0), x.std(1, ddof=1), jnp.median(x, 0), jnp.quantile(x, 0.3, axis=0), jnp.cov(x.T)


@program(floats(5))
def gradient(x: Any) -> Any:
    return jax.grad(lambda v: jnp.sum(jnp.tanh(v) ** 3 * jnp.exp(-v)))(x)


@program(floats(4, 3))
def gradient_of_a_loss(x: Any) -> Any:
    def loss(w: Any) -> Any:
        return -jax.nn.log_softmax(x @ w)[:, 0].mean()

    w = weights(3, 5)
    return w - 0.1 * jax.grad(loss)(w)


@program(floats(5, 3), floats(4, 3, seed=1))
def distances(x: Any, y: Any) -> Any:
    squares = jnp.sum((x[:, None] - y) ** 2, -1)
    return jnp.sqrt(squares), squares.argmin(1)


@program(floats(4, 3))
def vectorized(x: Any) -> Any:
    return jax.vmap(lambda row: jnp.dot(row, row) * jnp.sort(row))(x)


@program(floats(2, 3, 4), floats(3, 1, seed=1))
def shapes(x: Any, y: Any) -> Any:
    stacked = jnp.stack([x + y, x - y], 1)
    return stacked.transpose(3, 1, 0, 2).reshape(4, -1), jnp.tile(y, (1, 3)), jnp.repeat(y, 2, 0)


@program(whole(2, 4, 5, dtype=bool), whole(2, 4, 5, seed=1, dtype=bool))
def logic(a: Any, b: Any) -> Any:
    return (
        a & ~b,
        a ^ b,
        a == b,
        a != b,
        jnp.logical_or(a, b).astype(jnp.float32),
        a.any(),
        b.all(0),
    )


@program(floats(4, 6).astype(np.float16))
def half_precision(x: Any) -> Any:
    return jax.nn.softmax(x * 2), (x @ x.T).astype(jnp.float32)
