"""Images, signals, sorting and indices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import floats, program, whole


@program(whole(256, 1, 12, 10, 3, dtype=np.uint8))
def image_preprocessing(image: Any) -> Any:
    x = jax.image.resize(image.astype(jnp.float32) / 255, (1, 8, 8, 3), "bilinear")
    return (x - jnp.asarray([0.48, 0.46, 0.41])) / jnp.asarray([0.23, 0.22, 0.23])


@program(whole(256, 6, 6, 3, dtype=np.uint8))
def grayscale_and_flip(image: Any) -> Any:
    gray = (image @ jnp.asarray([0.3, 0.6, 0.1])).astype(jnp.uint8)
    return gray[:, ::-1], jnp.rot90(gray), jnp.pad(gray, 1, mode="edge")


@program(floats(1, 8, 8, 2))
def cubic_resize(x: Any) -> Any:
    return jax.image.resize(x, (1, 12, 6, 2), "cubic")


@program(floats(1, 9, 9, 2))
def pools(x: Any) -> Any:
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    total = lax.reduce_window(x, 0.0, lax.add, window, strides, "SAME")
    return total / 9, lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")


@program(whole(256, 5, 7, dtype=np.uint8))
def bytes_that_wrap(x: Any) -> Any:
    return x + x, x * 3, x // 7, x % 5, x ^ 15, x << 1, jnp.maximum(x, 100)


@program(floats(16))
def spectrum(x: Any) -> Any:
    return jnp.abs(jnp.fft.rfft(x)), jnp.fft.irfft(jnp.fft.rfft(x) * 0.5)


@program(floats(20))
def smoothing(x: Any) -> Any:
    return jnp.convolve(x, jnp.asarray([0.25, 0.5, 0.25]), mode="same")


@program(floats(1, 6, 6), floats(2, 5, seed=3))
def sampling_of_an_image(image: Any, places: Any) -> Any:
    return jax.scipy.ndimage.map_coordinates(image[0], list(places + 2.5), order=1)


@program(floats(4, 4))
def mirrored_padding(x: Any) -> Any:
    return jnp.pad(x, ((1, 1), (2, 2)), mode="reflect"), jnp.roll(x, 1, 0)


# Sorting, searching and indices.


@program(floats(3, 8))
def sorting(x: Any) -> Any:
    return jnp.sort(x), jnp.argsort(x), -jnp.sort(-x, 0)


@program(whole(4, 12))
def sorting_with_ties(x: Any) -> Any:
    return jnp.argsort(x), jnp.argsort(-x), lax.top_k(x, 4)


@program(floats(3, 10))
def top_k(x: Any) -> Any:
    return lax.top_k(x, 3)


@program(floats(8), floats(5, seed=1))
def search_in_sorted(x: Any, queries: Any) -> Any:
    edges = jnp.sort(x)
    return jnp.searchsorted(edges, queries), jnp.digitize(queries, edges)


@program(floats(6))
def interpolation(x: Any) -> Any:
    return jnp.interp(x, jnp.linspace(-2, 2, 9), jnp.linspace(-2, 2, 9) ** 2)


@program(floats(4, 9))
def extremes(x: Any) -> Any:
    return x.argmax(1), x.argmin(0), x.max(), x.min(1), jnp.ptp(x)


@program(floats(4, 6))
def flags(x: Any) -> Any:
    return (x > 0).any(1), (x > -1).all(0), (x > 0).sum(), jnp.where(x > 0, x, 0), x == x.T[0, 0]


@program(floats(6, 3), whole(6, 4))
def scatter_and_add(x: Any, i: Any) -> Any:
    return x.at[i].add(1.0), x.at[i].set(0.0), x.at[i].max(0.5), x.at[i, 1].mul(2.0)


@program(floats(10), whole(3, 10))
def segments(x: Any, groups: Any) -> Any:
    return jax.ops.segment_sum(x, groups, 3), jax.ops.segment_max(x, groups, 3)


@program(floats(5, 6), whole(5, 3))
def lookups(x: Any, i: Any) -> Any:
    return x[i], x[:, i], jnp.take(x, i, axis=1, mode="clip"), x[i, i], x[jnp.newaxis, 1:4, ::2]


@program(whole(5, 9))
def one_hot_and_counts(x: Any) -> Any:
    return jax.nn.one_hot(x, 5), jnp.bincount(x, length=5)


@program(floats(6, 4), np.asarray([1, 2], np.int32))
def dynamic_slices(x: Any, at: Any) -> Any:
    return lax.dynamic_slice(x, (at[0], at[1]), (2, 2))


@program(floats(9, 4), np.sort(floats(9, seed=4)))
def suppression_of_overlaps(boxes: Any, scores: Any) -> Any:
    corners = jnp.concatenate([boxes[:, :2], boxes[:, :2] + jnp.abs(boxes[:, 2:]) + 1], 1)
    order = jnp.argsort(-scores)
    corners = corners[order]
    low = jnp.maximum(corners[:, None, :2], corners[None, :, :2])
    high = jnp.minimum(corners[:, None, 2:], corners[None, :, 2:])
    common = jnp.prod(jnp.clip(high - low, 0), -1)
    area = jnp.prod(corners[:, 2:] - corners[:, :2], -1)
    overlap = common / (area[:, None] + area - common)

    def body(i: Any, keep: Any) -> Any:
        hit = (overlap[i] > 0.3) & keep[i] & (jnp.arange(9) > i)
        return keep & ~hit

    return lax.fori_loop(0, 9, body, jnp.ones(9, bool)), order
