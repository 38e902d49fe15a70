"""Programs in which runtimes were wrong: the same mathematics in other words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import floats, program, weights, whole


@program(whole(2**31 - 1, 7), whole(255, 7, seed=2, dtype=np.uint8))
def hashes_and_bits(x: Any, y: Any) -> Any:
    h = x.astype(jnp.uint32) * jnp.uint32(0x9E3779B1)
    h = h ^ (h >> 15)
    bucket = (h % jnp.uint32(97)).astype(jnp.int32)
    return bucket, h // jnp.uint32(1000), lax.population_count(y), jnp.bitwise_not(y), y >> 3


@program(floats(2, 6, 6, 4))
def spatial_softmax(x: Any) -> Any:
    attention = jax.nn.softmax(x.reshape(2, 36, 4), axis=1)
    line = jnp.linspace(-1, 1, 6)
    grids = jnp.meshgrid(line, line, indexing="ij")
    return jnp.stack([jnp.einsum("bpc,p->bc", attention, g.ravel()) for g in grids], -1)


@program(floats(2, 5, 4), np.asarray([5, 2], np.int32))
def attention_pooled_by_length(x: Any, lengths: Any) -> Any:
    is_kept = jnp.arange(5)[None] < lengths[:, None]
    scores = jnp.where(is_kept, x @ weights(4), -jnp.inf)
    return jnp.einsum("bt,btd->bd", jax.nn.softmax(scores, where=is_kept), x)


@program(floats(4, seed=3))
def columns_of_powers(x: Any) -> Any:
    return jnp.vander(x, 3), jnp.polyval(jnp.asarray([1.0, -2.0, 0.5]), x)


@program(floats(24), floats(5, seed=1))
def filtering_by_transforms(x: Any, taps: Any) -> Any:
    product = jnp.fft.rfft(x, 28) * jnp.fft.rfft(taps, 28)
    return jnp.fft.irfft(product, 28), jnp.correlate(x, taps, mode="valid")


@program(floats(4, 8), np.asarray([0, 3], np.uint32))
def random_crop_and_flip(x: Any, key: Any) -> Any:
    first, second = jax.random.split(key)
    x = jnp.where(jax.random.bernoulli(first), x[:, ::-1], x)
    return lax.dynamic_slice(x, (0, jax.random.randint(second, (), 0, 3)), (4, 5))


@program(floats(6, 2, 3))
def lstm_and_reversed_gru(xs: Any) -> Any:
    def lstm(state: Any, x: Any) -> Any:
        c, h = state
        gates = x @ weights(3, 20) + h @ weights(5, 20, seed=1)
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    def gru(h: Any, x: Any) -> Any:
        xr, xz, xn = jnp.split(x @ weights(3, 12), 3, -1)
        hr, hz, hn = jnp.split(h @ weights(4, 12, seed=1), 3, -1)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    zeros = jnp.zeros((2, 5))
    forward = lax.scan(lstm, (zeros, zeros), xs)[1]
    backward = lax.scan(gru, jnp.zeros((2, 4)), xs, reverse=True)[1]
    return jnp.concatenate([forward, backward], -1)


@program(floats(6, 2, 3))
def lstm_and_gru_of_bounded_numbers(xs: Any) -> Any:
    xs = jnp.tanh(xs)

    def lstm(state: Any, x: Any) -> Any:
        c, h = state
        i, f, g, o = jnp.split(x @ weights(3, 20) + h @ weights(5, 20, seed=1), 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    def gru(h: Any, x: Any) -> Any:
        xr, xz, xn = jnp.split(x @ weights(3, 12, seed=2), 3, -1)
        hr, hz, hn = jnp.split(h @ weights(4, 12, seed=3), 3, -1)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    zeros = jnp.zeros((2, 5))
    (c, _), forward = lax.scan(lstm, (zeros, zeros), xs)
    backward = lax.scan(gru, jnp.zeros((2, 4)), xs, reverse=True)[1]
    return c, jnp.concatenate([forward, backward], -1)


@program(floats(2, 40))
def spectra_of_frames(x: Any) -> Any:
    frames = x[:, jnp.arange(0, 25, 5)[:, None] + jnp.arange(16)] * jnp.hamming(16)
    spectrum = jnp.fft.rfft(frames)
    return jnp.abs(spectrum), jnp.fft.irfft(spectrum * 0.5, 16)
