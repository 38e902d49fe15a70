"""Ways of writing a GRU."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .base import (
    B3,
    BATCH,
    C3,
    DEPTH,
    LENGTHS,
    SIZE,
    STEPS,
    U3,
    V3,
    W3,
    cell,
    gru_step,
    over,
    sequence,
    split,
    weights,
    zeros,
)


@cell("GRU")
def gru_reset_after_product(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_without_bias(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xz, xr, xn), (hz, hr, hn) = split(x @ W3, 3), split(h @ U3, 3)
        z = jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = n + z * (h - n)
        return h, h

    return over(step, xs)[1]


@cell("GRU")
def gru_moved_to_the_new_state(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xz, xr, xn), (hz, hr, hn) = split(x @ W3 + B3, 3), split(h @ U3, 3)
        z = jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = h + z * (n - h)
        return h, h

    return over(step, xs)[1]


@cell("GRU")
def gru_old_state_less_its_share(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xz, xr, xn), (hz, hr, hn) = split(x @ W3 + B3, 3), split(h @ U3, 3)
        z = jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = h - z * (h - n)
        return h, None

    return over(step, xs)[0]


@cell("GRU")
def gru_reset_before_product_of_both(xs: jax.Array) -> Any:
    """Cho et al.: the input and the state in one product."""
    gates, candidate = V3[:, : 2 * SIZE], V3[:, 2 * SIZE :]

    def step(h: jax.Array, x: jax.Array) -> Any:
        r, z = split(jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ gates + B3[: 2 * SIZE]), 2)
        n = jnp.tanh(jnp.concatenate([x, r * h], -1) @ candidate + B3[2 * SIZE :])
        h = z * h + (1.0 - z) * n
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_state_first_in_the_product(xs: jax.Array) -> Any:
    wz, wr, wn = (weights(SIZE + DEPTH, SIZE, seed=seed) for seed in (1, 2, 3))

    def step(h: jax.Array, x: jax.Array) -> Any:
        hx = jnp.concatenate([h, x], -1)
        z, r = jax.nn.sigmoid(hx @ wz), jax.nn.sigmoid(hx @ wr)
        n = jnp.tanh(jnp.concatenate([r * h, x], -1) @ wn)
        h = (1 - z) * h + z * n
        return h, h

    return over(step, xs)[1]


@cell("GRU")
def gru_of_six_products(xs: jax.Array) -> Any:
    wz, wr, wn = split(jnp.asarray(W3), 3)
    uz, ur, un = split(jnp.asarray(U3), 3)
    bz, br, bn = split(jnp.asarray(B3), 3)

    def step(h: jax.Array, x: jax.Array) -> Any:
        z = jax.nn.sigmoid(jnp.dot(x, wz) + jnp.dot(h, uz) + bz)
        r = jax.nn.sigmoid(jnp.dot(x, wr) + jnp.dot(h, ur) + br)
        n = jnp.tanh(jnp.dot(x, wn) + jnp.dot(r * h, un) + bn)
        h = z * h + (1 - z) * n
        return h, h

    return over(step, xs)[1]


@cell("GRU")
def gru_by_exponentials(xs: jax.Array) -> Any:
    def sigmoid(x: jax.Array) -> jax.Array:
        return 1.0 / (1.0 + jnp.exp(-x))

    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_by_hyperbolic_tangents(xs: jax.Array) -> Any:
    def sigmoid(x: jax.Array) -> jax.Array:
        return 0.5 * (jnp.tanh(x / 2) + 1)

    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_keeps_by_the_negated_gate(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        v = xz + hz
        n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = jax.nn.sigmoid(-v) * n + jax.nn.sigmoid(v) * h
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_of_packed_gates_by_einsum(xs: jax.Array) -> Any:
    w, u = weights(3, DEPTH, SIZE), weights(3, SIZE, SIZE, seed=1)
    b = weights(3, 1, SIZE, seed=2)

    def step(h: jax.Array, x: jax.Array) -> Any:
        gx = jnp.einsum("bd,gdh->gbh", x, w) + b
        gh = jnp.einsum("bk,gkh->gbh", h, u)
        r, z = jax.nn.sigmoid(gx[0] + gh[0]), jax.nn.sigmoid(gx[1] + gh[1])
        h = (1 - z) * jnp.tanh(gx[2] + r * gh[2]) + z * h
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_of_gates_as_an_axis(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        gx = (x @ W3 + B3).reshape(-1, 3, SIZE)
        gh = (h @ U3 + C3).reshape(-1, 3, SIZE)
        r, z = jax.nn.sigmoid(gx[:, 0] + gh[:, 0]), jax.nn.sigmoid(gx[:, 1] + gh[:, 1])
        h = (1 - z) * jnp.tanh(gx[:, 2] + r * gh[:, 2]) + z * h
        return h, h

    return over(step, xs)


@cell("GRU")
def gru_with_transposed_weights(xs: jax.Array) -> Any:
    """The weights of torch, and a step of one example."""
    w, u = W3.T.copy(), U3.T.copy()

    def step(h: jax.Array, x: jax.Array) -> Any:
        gx, gh = w @ x + B3, u @ h + C3
        r = jax.nn.sigmoid(gx[:SIZE] + gh[:SIZE])
        z = jax.nn.sigmoid(gx[SIZE : 2 * SIZE] + gh[SIZE : 2 * SIZE])
        n = jnp.tanh(gx[2 * SIZE :] + r * gh[2 * SIZE :])
        h = (1 - z) * n + z * h
        return h, h

    return jax.vmap(lambda x: lax.scan(step, jnp.zeros(SIZE), x)[1], 1, 1)(xs)


@cell("GRU", sequence(STEPS, DEPTH))
def gru_of_one_example(xs: jax.Array) -> Any:
    w, u = W3.T.copy(), U3.T.copy()

    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(w @ x + B3, 3), split(u @ h + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return lax.scan(step, jnp.zeros(SIZE), xs)


@cell("GRU")
def gru_with_projected_inputs(xs: jax.Array) -> Any:
    """The products with the inputs are computed before the scan."""

    def step(h: jax.Array, gx: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(gx, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return lax.scan(step, zeros(xs), xs @ W3 + B3)


@cell("GRU")
def gru_with_inputs_projected_apart(xs: jax.Array) -> Any:
    """The scan runs over three arrays, one per gate."""
    projected = [xs @ w + b for w, b in zip(np.split(W3, 3, -1), np.split(B3, 3), strict=True)]

    def step(h: jax.Array, given: Any) -> Any:
        (xr, xz, xn), (hr, hz, hn) = given, split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return lax.scan(step, zeros(xs), tuple(projected))


@cell("GRU", sequence(BATCH, STEPS, DEPTH))
def gru_over_the_second_axis(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    last, ys = lax.scan(step, jnp.zeros((BATCH, SIZE)), xs.swapaxes(0, 1))
    return last, ys.swapaxes(0, 1)


@cell("GRU")
def gru_by_a_loop_over_steps(xs: jax.Array) -> Any:
    def step(t: jax.Array, h: jax.Array) -> jax.Array:
        (xr, xz, xn), (hr, hz, hn) = split(xs[t] @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        return (1 - z) * jnp.tanh(xn + r * hn) + z * h

    return lax.fori_loop(0, STEPS, step, zeros(xs))


@cell("GRU", sequence(STEPS, BATCH, DEPTH), LENGTHS)
def gru_masked_by_length(xs: jax.Array, lengths: jax.Array) -> Any:
    def step(h: jax.Array, given: Any) -> Any:
        t, x = given
        h = jnp.where((t < lengths)[:, None], gru_step(h, x), h)
        return h, None

    return over(step, (jnp.arange(STEPS), xs), zeros(xs))[0]  # type: ignore[arg-type]


@cell("GRU", sequence(STEPS, BATCH, DEPTH), LENGTHS)
def gru_with_a_counter_and_lengths(xs: jax.Array, lengths: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        t, h = state
        h = jnp.where((t < lengths)[:, None], gru_step(h, x), h)
        return (t + 1, h), h

    (_, last), ys = over(step, xs, (0, zeros(xs)))
    return last, ys


@cell("GRU", sequence(STEPS, BATCH, DEPTH), LENGTHS)
def gru_masked_by_a_scanned_mask(xs: jax.Array, lengths: jax.Array) -> Any:
    mask = jnp.arange(STEPS)[:, None] < lengths

    def step(h: jax.Array, given: Any) -> Any:
        x, is_valid = given
        h = jnp.where(is_valid[:, None], gru_step(h, x), h)
        return h, jnp.where(is_valid[:, None], h, 0.0)

    return over(step, (xs, mask), zeros(xs))  # type: ignore[arg-type]


@cell("GRU", count=2)
def gru_bidirectional(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x)
        return h, h

    def backward(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 - B3, 3), split(h @ U3 - C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return jnp.concatenate([over(step, xs)[1], over(backward, xs, reverse=True)[1]], -1)


@cell("GRU")
def gru_with_flipped_inputs(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x)
        return h, h

    return over(step, xs[::-1])[1][::-1]


@cell("GRU", sequence(STEPS, BATCH, DEPTH), sequence(BATCH, SIZE))
def gru_from_a_given_state(xs: jax.Array, h: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x)
        return h, h

    return over(step, xs, h)


@cell("GRU", count=2)
def gru_of_two_layers(xs: jax.Array) -> Any:
    u = weights(SIZE, 3 * SIZE, seed=20)

    def first(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x)
        return h, h

    def second(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ u, 3), split(h @ U3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(second, over(first, xs)[1])


@cell("GRU", count=2)
def gru_of_two_layers_in_one_scan(xs: jax.Array) -> Any:
    u = weights(SIZE, 3 * SIZE, seed=20)

    def step(state: Any, x: jax.Array) -> Any:
        first, second = state
        first = gru_step(first, x)
        (xr, xz, xn), (hr, hz, hn) = split(first @ u, 3), split(second @ U3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        second = (1 - z) * jnp.tanh(xn + r * hn) + z * second
        return (first, second), second

    return over(step, xs, (zeros(xs), zeros(xs)))


@cell("GRU")
def gru_with_a_head_in_the_step(xs: jax.Array) -> Any:
    head = weights(SIZE, 2, seed=30)

    def step(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x)
        return h, jax.nn.softmax(h @ head)

    return over(step, xs)


@cell(None, sequence(STEPS, BATCH, DEPTH), W3, U3)
def gru_with_weights_as_inputs(xs: jax.Array, w: jax.Array, u: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ w, 3), split(h @ u, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell("GRU", count=3)
def gru_of_three_layers_in_a_loop_over_layers(xs: jax.Array) -> Any:
    """All states are in a list, and each layer returns its own."""
    layers = [
        (weights(SIZE, 3 * SIZE, seed=seed), weights(SIZE, 3 * SIZE, seed=9 + seed))
        for seed in (1, 2)
    ]

    def step(states: Any, x: jax.Array) -> Any:
        new = [gru_step(states[0], x)]
        for (w, u), h in zip(layers, states[1:], strict=True):
            (xr, xz, xn), (hr, hz, hn) = split(new[-1] @ w, 3), split(h @ u, 3)
            r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
            new.append((1 - z) * jnp.tanh(xn + r * hn) + z * h)
        return new, (new[0], new[-1])

    return over(step, xs, [zeros(xs)] * 3)


@cell("GRU", sequence(BATCH, STEPS, DEPTH))
def gru_with_inputs_projected_by_example(xs: jax.Array) -> Any:
    """The products are computed in the order of the inputs, and then transposed."""

    def step(h: jax.Array, gx: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(gx, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return lax.scan(step, jnp.zeros((BATCH, SIZE)), jnp.swapaxes(xs @ W3 + B3, 0, 1))
