"""Whole small functions, of several primitives each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .case import Case

X = np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(3, 4)


def mlp(x: jax.Array) -> jax.Array:
    weights = jnp.asarray(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5))
    return jax.nn.gelu(x @ weights + jnp.arange(5.0))


def statistics(x: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.var(x), jnp.std(x, axis=0), jnp.mean(x, axis=1, keepdims=True)


CASES = [
    Case("sample.mlp", mlp, (X,), rtol=1e-5, atol=1e-6),
    Case("sample.softmax", lambda x: jax.nn.softmax(x, axis=-1), (X,), rtol=1e-5),
    Case("sample.statistics", statistics, (X,), rtol=1e-5),
    Case("sample.where", lambda x: jnp.where(x > 0, x, jnp.exp(x) - 1), (X,), rtol=1e-5, atol=1e-7),
    Case("sample.clip", lambda x: jnp.clip(x, -1.0, 1.0), (X,)),
]
