"""Recurrent cells as people write them by hand, and near misses.

Each is a function of a sequence (time, batch, features), or of more arguments where `inputs` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Fn = Callable[..., Any]

STEPS, BATCH, DEPTH, SIZE = 6, 3, 4, 5


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def sequence(*shape: int) -> np.ndarray:
    return np.random.default_rng(9).normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class Cell:
    """A program, the operator that it becomes (none for a near miss), and example inputs."""

    name: str
    fn: Fn
    operator: str | None
    inputs: tuple[np.ndarray, ...] = (sequence(STEPS, BATCH, DEPTH),)
    count: int = 1
    """How many of the operators there are."""
    options: tuple[tuple[str, Any], ...] = ()


CELLS: dict[str, Cell] = {}


def cell(operator: str | None, *inputs: np.ndarray, count: int = 1, **options: Any) -> Any:
    def register(fn: Fn) -> Fn:
        name = fn.__name__
        given = inputs or (sequence(STEPS, BATCH, DEPTH),)
        CELLS[name] = Cell(name, fn, operator, given, count, tuple(options.items()))
        return fn

    return register


W3, U3 = weights(DEPTH, 3 * SIZE, seed=1), weights(SIZE, 3 * SIZE, seed=2)
W4, U4 = weights(DEPTH, 4 * SIZE, seed=3), weights(SIZE, 4 * SIZE, seed=4)
B3, C3 = weights(3 * SIZE, seed=5), weights(3 * SIZE, seed=6)
B4 = weights(4 * SIZE, seed=7)
V3, V4 = weights(DEPTH + SIZE, 3 * SIZE, seed=8), weights(DEPTH + SIZE, 4 * SIZE, seed=9)
W1, U1, B1 = weights(DEPTH, SIZE, seed=10), weights(SIZE, SIZE, seed=11), weights(SIZE, seed=12)


def split(x: jax.Array, parts: int) -> list[jax.Array]:
    return jnp.split(x, parts, axis=-1)


def zeros(x: jax.Array) -> jax.Array:
    return jnp.zeros((x.shape[1], SIZE), x.dtype)


def over(step: Fn, xs: jax.Array, start: Any = None, **options: Any) -> Any:
    return lax.scan(step, zeros(xs) if start is None else start, xs, **options)


# GRU.


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


def gru_step(h: jax.Array, x: jax.Array) -> jax.Array:
    (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h


LENGTHS = np.array([6, 2, 0], np.int32)


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


@cell("GRU")
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


CELLS["gru_bidirectional"] = Cell("gru_bidirectional", gru_bidirectional, "GRU", count=2)


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


@cell("GRU", sequence(STEPS, BATCH, DEPTH), W3, U3)
def gru_with_weights_as_inputs(xs: jax.Array, w: jax.Array, u: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ w, 3), split(h @ u, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


# LSTM.


def memories(xs: jax.Array) -> tuple[jax.Array, jax.Array]:
    return zeros(xs), zeros(xs)


@cell("LSTM")
def lstm_of_one_product(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(jnp.concatenate([x, h], -1) @ V4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_with_a_forget_bias(xs: jax.Array) -> Any:
    """The gates of TensorFlow's basic cell."""

    def step(state: Any, x: jax.Array) -> Any:
        c, h = state
        i, g, f, o = split(jnp.concatenate([x, h], -1) @ V4 + B4, 4)
        c = c * jax.nn.sigmoid(f + 1.0) + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jnp.tanh(c) * jax.nn.sigmoid(o)
        return (c, h), h

    return over(step, xs, memories(xs))[1]


@cell("LSTM")
def lstm_of_one_sigmoid(xs: jax.Array) -> Any:
    """One sigmoid computes three gates."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        z = x @ W4 + h @ U4 + B4
        i, f, o = split(jax.nn.sigmoid(z[:, : 3 * SIZE]), 3)
        c = f * c + i * jnp.tanh(z[:, 3 * SIZE :])
        h = o * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))[1]


@cell("LSTM")
def lstm_of_one_tanh(xs: jax.Array) -> Any:
    """The sigmoids are written with the tangent."""

    def sigmoid(x: jax.Array) -> jax.Array:
        return jnp.tanh(x * 0.5) * 0.5 + 0.5

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        h = sigmoid(o) * jnp.tanh(c)
        return (h, c), c

    return over(step, xs, memories(xs))[0]


@cell("LSTM")
def lstm_of_eight_products(xs: jax.Array) -> Any:
    (wi, wf, wg, wo), (ui, uf, ug, uo) = np.split(W4, 4, -1), np.split(U4, 4, -1)
    bi, bf, bg, bo = np.split(B4, 4)

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i = jax.nn.sigmoid(bi + x @ wi + h @ ui)
        f = jax.nn.sigmoid(bf + x @ wf + h @ uf)
        g = jnp.tanh(bg + x @ wg + h @ ug)
        o = jax.nn.sigmoid(bo + x @ wo + h @ uo)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_with_projected_inputs(xs: jax.Array) -> Any:
    def step(state: Any, gx: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(gx + h @ U4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, memories(xs), xs @ W4 + B4)


@cell("LSTM", sequence(STEPS, BATCH, DEPTH), LENGTHS)
def lstm_masked_by_length(xs: jax.Array, lengths: jax.Array) -> Any:
    def step(state: Any, given: Any) -> Any:
        t, x = given
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        new_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new_h = jax.nn.sigmoid(o) * jnp.tanh(new_c)
        is_valid = (t < lengths)[:, None]
        h, c = jnp.where(is_valid, new_h, h), jnp.where(is_valid, new_c, c)
        return (h, c), jnp.where(is_valid, new_h, 0.0)

    return over(step, (jnp.arange(STEPS), xs), memories(xs))  # type: ignore[arg-type]


@cell("LSTM", sequence(BATCH, STEPS, DEPTH))
def lstm_by_vmap(xs: jax.Array) -> Any:
    w, u = W4.T.copy(), U4.T.copy()

    def run(x: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            h, c = state
            i, f, g, o = jnp.split(w @ x + u @ h + B4, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(step, (jnp.zeros(SIZE), jnp.zeros(SIZE)), x)

    return jax.vmap(run)(xs)


@cell("LSTM")
def lstm_with_peepholes(xs: jax.Array) -> Any:
    pi, pf, po = np.split(B4[: 3 * SIZE], 3)

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        i, f = jax.nn.sigmoid(i + pi * c), jax.nn.sigmoid(f + pf * c)
        c = f * c + i * jnp.tanh(g)
        h = jax.nn.sigmoid(o + po * c) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_with_coupled_gates(xs: jax.Array) -> Any:
    """The input gate is what the forget gate leaves: `1 − σ(v) = σ(−v)`."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        f, g, o = split(x @ W3 + h @ U3 + B3, 3)
        f = jax.nn.sigmoid(f)
        c = f * c + (1 - f) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_state_as_one_array(xs: jax.Array) -> Any:
    def step(state: jax.Array, x: jax.Array) -> Any:
        h, c = split(state, 2)
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return jnp.concatenate([h, c], -1), h

    return over(step, xs, jnp.zeros((xs.shape[1], 2 * SIZE)))


@cell("LSTM")
def lstm_with_both_states_stacked(xs: jax.Array) -> Any:
    """The memory of each step is a result too: ONNX's operator only has the last one."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), (h, c)

    return over(step, xs, memories(xs))


CELLS["lstm_with_both_states_stacked"] = Cell(
    "lstm_with_both_states_stacked", lstm_with_both_states_stacked, None
)


# Plain cells: the scan is faster than `RNN` unless measured otherwise.


@cell("RNN")
def rnn_of_tanh(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = jnp.tanh(x @ W1 + h @ U1 + B1)
        return h, h

    return over(step, xs)


@cell("RNN")
def rnn_of_relu(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = jax.nn.relu(jnp.concatenate([h, x], -1) @ weights(SIZE + DEPTH, SIZE) + B1)
        return h, h

    return over(step, xs)[1]


# Near misses.


@cell(None)
def gru_with_a_residual(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x) + h
        return h, h

    return over(step, xs)


@cell(None)
def gru_with_another_activation(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jax.nn.silu(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell(None)
def gru_with_other_mixtures(xs: jax.Array) -> Any:
    """The shares of the old and the new state are of different gates."""

    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - r) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell(None)
def gru_with_a_bias_behind_the_reset_gate(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(r * (xn + hn)) + z * h
        return h, h

    return over(step, xs)


@cell(None)
def gru_of_the_next_input(xs: jax.Array) -> Any:
    """The candidate reads the state of another step."""

    def step(state: Any, x: jax.Array) -> Any:
        before, h = state
        return (h, gru_step(before, x)), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_with_a_clipped_memory(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jnp.clip(jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g), -0.5, 0.5)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_without_the_last_tanh(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * c
        return (h, c), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_of_the_old_memory(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell(None, sequence(STEPS, BATCH, DEPTH), LENGTHS)
def gru_masked_by_another_order(xs: jax.Array, lengths: jax.Array) -> Any:
    """The first steps are padding: not the last ones, which `sequence_lens` skips."""

    def step(h: jax.Array, given: Any) -> Any:
        t, x = given
        h = jnp.where((t >= lengths)[:, None], gru_step(h, x), h)
        return h, h

    return over(step, (jnp.arange(STEPS), xs), zeros(xs))  # type: ignore[arg-type]
