"""Steps of decoders, masks, windows, features, decompositions and other programs of everyday."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import floats, program, weights, whole


@program(floats(2, 3, scale=0.1), floats(2, 3, 20, seed=1))
def beam_search_step(scores: Any, logits: Any) -> Any:
    total = (scores[..., None] + jax.nn.log_softmax(logits)).reshape(2, -1)
    best, at = lax.top_k(total, 3)
    return best, at // 20, at % 20


@program(floats(2, 12))
def top_k_filter(logits: Any) -> Any:
    smallest = lax.top_k(logits, 4)[0][:, -1:]
    return jax.nn.softmax(jnp.where(logits < smallest, -1e9, logits))


@program(floats(2, 10))
def nucleus_filter(logits: Any) -> Any:
    order = jnp.argsort(-logits, axis=-1)
    ordered = jnp.take_along_axis(logits, order, -1)
    is_kept = jnp.cumsum(jax.nn.softmax(ordered), -1) < 0.9
    return jnp.where(is_kept, ordered, -jnp.inf).max(-1), order


@program(whole(256, 2, 9, 9, 3, dtype=np.uint8))
def crop_and_normalize(images: Any) -> Any:
    x = images[:, 1:8, 1:8].astype(jnp.float32) / 255
    return ((x - x.mean((1, 2), keepdims=True)) / (x.std((1, 2), keepdims=True) + 1e-5))[:, :, ::-1]


@program(floats(1, 5, 7, 2))
def nearest_resize_and_tile(x: Any) -> Any:
    return jnp.tile(jax.image.resize(x, (1, 10, 14, 2), "nearest"), (1, 1, 1, 2)), x.max((1, 2))


@program(whole(6, 3, 7), np.asarray([3, 7, 1], np.int32))
def masked_mean_of_tokens(tokens: Any, lengths: Any) -> Any:
    mask = jnp.arange(7) < lengths[:, None]
    embedded = weights(6, 8)[tokens] * mask[..., None]
    return embedded.sum(1) / jnp.maximum(lengths[:, None], 1)


@program(floats(10, 4), np.sort(whole(4, 10)))
def segment_means(x: Any, groups: Any) -> Any:
    sums = jax.ops.segment_sum(x, groups, 4)
    counts = jax.ops.segment_sum(jnp.ones(10), groups, 4)
    return sums / jnp.maximum(counts, 1)[:, None], jax.ops.segment_min(x[:, 0], groups, 4)


@program(floats(32))
def spectral_features(x: Any) -> Any:
    frames = jnp.stack([x[i : i + 16] for i in range(0, 17, 8)]) * jnp.hanning(16)
    power = jnp.abs(jnp.fft.rfft(frames)) ** 2
    return jnp.log(power @ weights(9, 4) ** 2 + 1e-6)


@program(floats(6, 8))
def spectrum_of_an_image(x: Any) -> Any:
    spectrum = jnp.fft.fft2(x)
    return jnp.real(spectrum), jnp.imag(spectrum), jnp.real(jnp.fft.ifft2(spectrum))


@program(whole(5, 11))
def ranks_and_runs(x: Any) -> Any:
    order = jnp.argsort(x)
    ordered = x[order]
    is_first = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
    return jnp.cumsum(is_first) - 1, jnp.zeros(11, jnp.int32).at[order].set(jnp.arange(11))


@program(np.asarray([48, 36], np.int32))
def greatest_divisor(pair: Any) -> Any:
    return lax.while_loop(lambda s: s[1] > 0, lambda s: jnp.stack([s[1], s[0] % s[1]]), pair)[0]


@program(floats(4, 4))
def power_iteration(x: Any) -> Any:
    a = x @ x.T

    def step(_: Any, v: Any) -> Any:
        v = a @ v
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 20, step, jnp.ones(4) / 2)


@program(floats(5, 3))
def ridge_regression(x: Any) -> Any:
    gram = x.T @ x + 0.1 * jnp.eye(3)
    factor = jnp.linalg.cholesky(gram)
    return jax.scipy.linalg.cho_solve((factor, True), x.T @ jnp.arange(5.0))


@program(floats(3, 3))
def triangular_systems(x: Any) -> Any:
    lower = jnp.tril(x) + 3 * jnp.eye(3)
    solved = jax.scipy.linalg.solve_triangular(lower, jnp.ones(3), lower=True)
    return solved, jnp.triu(x, 1), jnp.kron(x, jnp.eye(2))


@program(floats(2, 6, 8), floats(2, 4, 8, seed=1))
def cross_attention(x: Any, context: Any) -> Any:
    q, k, v = x @ weights(8, 8), context @ weights(8, 8, seed=1), context @ weights(8, 8, seed=2)
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(8)
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v)


@program(floats(1, 8, 2, 4))
def window_attention(x: Any) -> Any:
    position = jnp.arange(8)
    distance = position[:, None] - position
    mask = (distance >= 0) & (distance < 3)
    scores = jnp.einsum("bqhd,bkhd->bhqk", x, x)
    scores = jnp.where(mask, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), x)


@program(floats(2, 7, 4))
def bidirectional_recurrence(xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ weights(4, 4) + h @ weights(4, 4, seed=1))
        return h, h

    xs = xs.swapaxes(0, 1)
    start = jnp.zeros((2, 4))
    forward = lax.scan(step, start, xs)[1]
    backward = lax.scan(step, start, xs, reverse=True)[1]
    return jnp.concatenate([forward, backward], -1)


@program(floats(4, 5), np.asarray([9, 1], np.uint32))
def noise_and_permutation(x: Any, key: Any) -> Any:
    first, second = jax.random.split(key)
    return x + 0.1 * jax.random.normal(first, x.shape), jax.random.randint(second, (3,), 0, 10)


@program(floats(6), floats(6, seed=1))
def huber_loss_and_gradient(x: Any, y: Any) -> Any:
    def loss(x: Any) -> Any:
        error = jnp.abs(x - y)
        return jnp.where(error < 0.5, 0.5 * error**2, 0.5 * (error - 0.25)).sum()

    return jax.value_and_grad(loss)(x)


@program(floats(5, 2), whole(5, 8), whole(5, 8, seed=1))
def graph_convolution(nodes: Any, senders: Any, receivers: Any) -> Any:
    messages = jax.nn.relu(nodes[senders] @ weights(2, 4))
    return jax.ops.segment_sum(messages, receivers, 5), jnp.zeros((5, 4)).at[receivers].max(
        messages
    )


@program(floats(4, 6))
def moments_and_clips(x: Any) -> Any:
    norm = jnp.sqrt(jnp.sum(x**2))
    return x * jnp.minimum(1.0, 1.0 / norm), jnp.linalg.norm(x, ord=1, axis=0), jnp.prod(x, 1)


@program(floats(3, 4), floats(3, 4, seed=1))
def complex_products(x: Any, y: Any) -> Any:
    z = x + 1j * y
    return jnp.abs(z * jnp.conj(z)), jnp.angle(z), jnp.real(jnp.exp(z))


@program(whole(2, 3, 5, dtype=np.int8), floats(3, 5))
def quantized_weights(w: Any, x: Any) -> Any:
    return x @ (w.astype(jnp.float32) * 0.1).T, jnp.clip(jnp.round(x / 0.1), -128, 127)


@program(floats(2, 4, 6, 3))
def shuffled_pixels(x: Any) -> Any:
    blocks = x.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(2, 6, 12), jnp.flip(x, (1, 2)), jnp.moveaxis(x, -1, 1)


@program(floats(7), np.asarray(3, np.int32))
def ring_buffer(x: Any, at: Any) -> Any:
    rolled = jnp.roll(x, -at)
    return lax.dynamic_update_index_in_dim(x, 0.5, at, 0), rolled, lax.dynamic_slice(x, (at,), (3,))


@program(floats(6, 3))
def pairwise_cosines(x: Any) -> Any:
    unit = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    cosines = unit @ unit.T
    return cosines, jnp.argmax(cosines - 2 * jnp.eye(6), 1), jnp.triu(cosines, 1).sum()


@program(floats(10, scale=2.0))
def special_functions(x: Any) -> Any:
    return (
        jax.scipy.special.expit(x),
        jax.scipy.special.logsumexp(x),
        jnp.arcsinh(x),
        jnp.logaddexp(x, 0.5),
        jnp.hypot(x, 1.0),
        jnp.cbrt(x),
        jnp.sinc(x),
    )


@program(floats(6, 3))
def sinkhorn(x: Any) -> Any:
    def step(_: Any, logits: Any) -> Any:
        logits = logits - jax.nn.logsumexp(logits, 1, keepdims=True)
        return logits - jax.nn.logsumexp(logits, 0, keepdims=True)

    return lax.fori_loop(0, 5, step, x)


@program(floats(3), np.asarray(True))
def two_conditions(x: Any, flag: Any) -> Any:
    y = x * 2
    first = lax.cond(flag, lambda a: a + y, lambda a: jnp.sin(a) * y.sum(), x)
    return first, lax.cond(x.sum() > 0, lambda: x, lambda: -x)


@program(floats(6), np.asarray(3, np.int32))
def rolls_and_rotations(x: Any, k: Any) -> Any:
    return jnp.roll(x, k), jnp.roll(x, 2), jnp.flip(x), jnp.rot90(x.reshape(2, 3))


@program(floats(3, 10))
def sorting_by_two_keys(x: Any) -> Any:
    return jnp.lexsort((x[0], jnp.round(x[1]))), lax.sort((x[0], x[1]), num_keys=1)[1]


@program(whole(9, 12))
def distinct_numbers(x: Any) -> Any:
    return jnp.unique(x, size=6, fill_value=-1), jnp.nonzero(x > 4, size=5, fill_value=0)[0]
