"""Idioms of more than one line, with their near misses.

A program calls these by name, and its text has their source: each function stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jax2onnx


def weight(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Numbers between -1 and 1 that depend on the shape alone."""
    count = int(np.prod(shape))
    return np.cos(np.arange(count) * 0.7 + len(shape)).reshape(shape).astype(dtype)


def steps_to_overflow(x: jax.Array) -> jax.Array:
    """Zeros, and numbers of which seven have an exact sum and eight have none that is finite."""
    largest = float(jnp.finfo(x.dtype).max)
    return jnp.abs(jnp.sign(x)) * 2.0 ** (int(np.log2(largest)) - 2)


def part(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the user, which becomes a function of the model."""
    fn.__name__ = "part"
    return jax2onnx.onnx_function(fn)


def layer_norm(x: jax.Array, axes: Any, form: str, eps: float) -> jax.Array:
    mean = x.mean(axes, keepdims=True)
    if form == "fast":
        variance = jnp.maximum((x * x).mean(axes, keepdims=True) - mean * mean, 0)
    elif form == "unbiased":
        variance = x.var(axes, keepdims=True, ddof=1)
    elif form == "deviation":
        return (x - mean) / (x.std(axes, keepdims=True) + eps)
    else:
        variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    if form == "quotient":
        return (x - mean) / jnp.sqrt(variance + eps)
    if form == "uncentered":
        return x * lax.rsqrt(variance + eps)
    if form == "mean used twice":
        return (x - mean) * lax.rsqrt(variance + eps) + mean
    return (x - mean) * lax.rsqrt(variance + eps)


def rms_norm(x: jax.Array, axes: Any, form: str, eps: float) -> jax.Array:
    squares = (
        (x * x).sum(axes, keepdims=True) if form == "sum" else (x * x).mean(axes, keepdims=True)
    )
    if form == "cube":
        squares = (x * x * x).mean(axes, keepdims=True)
    if form == "inside":
        return x / (jnp.sqrt(squares) + eps)
    return x * lax.rsqrt(squares + eps)


def group_norm(x: jax.Array, form: str) -> jax.Array:
    groups = x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2)
    axes = {"last": -1, "spatial": (*range(1, x.ndim - 1), x.ndim), "groups": -2}[form]
    mean = groups.mean(axes, keepdims=True)
    variance = ((groups - mean) ** 2).mean(axes, keepdims=True)
    normed = ((groups - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return normed * np.linspace(0.5, 1.5, x.shape[-1]).astype(x.dtype)


def attention(x: jax.Array, y: jax.Array, mask: str, form: str) -> jax.Array:
    """Every row of `x` looks at every row of `y`; a mask takes some of them out."""
    scores = jnp.einsum("...qd,...kd->...qk", x, y) * 0.5
    rows, columns = jnp.arange(x.shape[-2])[:, None], jnp.arange(y.shape[-2])
    seen = {"causal": rows >= columns, "anti": rows <= columns, "first": columns < 1}.get(mask)
    if seen is not None:
        low = {"inf": -jnp.inf, "min": float(jnp.finfo(x.dtype).min)}.get(form, -1e9)
        if form == "add":
            scores = scores + jnp.where(seen, 0, low).astype(x.dtype)
        else:
            scores = jnp.where(seen, scores, jnp.asarray(low, x.dtype))
    axis = -2 if form == "axis" else -1
    chances = jax.nn.softmax(scores, axis=axis)
    if form == "zeros" and seen is not None:
        chances = jnp.where(seen, chances, 0)
    return jnp.einsum("...qk,...kd->...qd", chances, y)


def rotary(x: jax.Array, form: str) -> jax.Array:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[-2])[:, None] * jnp.linspace(1.0, 0.1, half)
    sin, cos = jnp.sin(angles).astype(x.dtype), jnp.cos(angles).astype(x.dtype)
    if form == "neighbours":
        a, b = x[..., ::2], x[..., 1::2]
        return jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)
    a, b = x[..., :half], x[..., half:]
    if form == "other sign":
        return jnp.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1)
    if form == "other order":
        return jnp.concatenate([b * cos + a * sin, a * cos - b * sin], axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def gru(x: jax.Array, form: str) -> jax.Array:
    w, r = weight(x.shape[-1], 6, dtype=x.dtype), weight(2, 6, dtype=x.dtype)

    def step(h: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        a, b = t @ w, h @ r
        reset, update = (
            jax.nn.sigmoid(a[..., :2] + b[..., :2]),
            jax.nn.sigmoid(a[..., 2:4] + b[..., 2:4]),
        )
        if form == "reset first":
            new = jnp.tanh(a[..., 4:] + (reset * h) @ r[:, 4:])
        elif form == "relu":
            new = jax.nn.relu(a[..., 4:] + reset * b[..., 4:])
        else:
            new = jnp.tanh(a[..., 4:] + reset * b[..., 4:])
        if form == "swapped":
            update = 1 - update
        h = (1 - update) * new + update * h
        return h, h + update if form == "other output" else h

    start = jnp.zeros((*x.shape[1:-1], 2), x.dtype)
    if form == "batched state":
        start = jnp.ones((2, 2), x.dtype)
    last, every = lax.scan(step, start, x, reverse=form == "reverse")
    return last if form == "last" else every


def looped(x: jax.Array, form: str) -> jax.Array:
    """A scan whose steps compute much from their inputs alone, or that counts."""
    w = weight(x.shape[-1], 2, dtype=x.dtype)

    def step(state: Any, t: jax.Array) -> Any:
        i, h = state
        given = jnp.tanh(t @ w) * t.sum() + 1
        if form == "counter":
            given = given * jnp.where(i % 2 == 0, i, 0.5)
        elif form == "normed":
            given = jax.nn.softmax(given, axis=-1).T.reshape(given.shape) - given.mean()
        elif form == "gathered":
            given = given + jnp.asarray(w)[jnp.clip(i, 0, x.shape[-1] - 1)] + given[..., ::-1]
        h = h * 0.5 + given
        return (i + (-3 if form == "backwards" else 1), h), jnp.stack([h, given])

    start = (jnp.int32(-1), jnp.ones((*x.shape[1:-1], 2), x.dtype))
    (count, last), every = lax.scan(step, start, x, reverse=form in ("reverse", "backwards"))
    return last * count if form == "last" else every


def recurrence(x: jax.Array, step: Any, count: int, n: int, form: str) -> jax.Array:
    """A scan of `n` steps over rows of three numbers."""
    given = jnp.concatenate([x.reshape(-1), jnp.ones(3, x.dtype)])
    rows = jnp.resize(given, (n, 3))
    waves = np.sin(0.7 * np.arange(n * 3)).reshape(n, 3).astype(x.dtype)
    start = jnp.full((3, 3) if form == "square" else 3, 0.5).astype(x.dtype)
    states = (start, start + 1, start - 1)[:count]
    last, every = lax.scan(step, states, (rows, waves), reverse=form == "reverse")
    if form == "last":
        return jnp.concatenate(last)
    return jnp.concatenate([each.reshape(n, -1) for each in every], axis=-1)


def field(x: jax.Array, n: int) -> jax.Array:
    """Steps of a solver, whose field takes a vector apart and stacks it again."""

    def slope(y: jax.Array) -> jax.Array:
        a, b = y[0], y[-1]
        rest = [jnp.sin(a) * b] if n != 4 else [y.max() - b]
        return jnp.stack([b - 0.5 * a, *rest, *[a] * (y.shape[0] - 2)])[: y.shape[0]]

    y = jnp.concatenate([x.reshape(-1), jnp.ones(2, x.dtype)])[:3]
    return lax.fori_loop(0, n, lambda i, y: y + 0.1 * slope(y), y)


def accepted(x: jax.Array, form: str) -> jax.Array:
    """Steps that are kept or repeated, by one flag for the state or by one for each element."""

    def step(state: Any) -> Any:
        i, x, h = state
        y = -x * h
        is_kept = y + i > 0 if form == "elements" else i % 2 == 0
        x = jnp.where(is_kept, y, x)
        other = 1.5 * h + x if form == "dependent" else 1.5 * h
        return i + 1, x, jnp.where(is_kept, 0.5 * h, 1 if form == "broadcast" else other)

    _, x, h = lax.while_loop(lambda state: state[0] < 3, step, (0, x, jnp.ones_like(x)))
    return 1 / x if form == "quotient" else x + h


def lstm(x: jax.Array, form: str) -> jax.Array:
    w, r = weight(x.shape[-1], 8, dtype=x.dtype), weight(2, 8, dtype=x.dtype)
    bias = weight(8, dtype=x.dtype)

    def step(state: Any, t: jax.Array) -> Any:
        h, c = state
        gates = t @ w + h @ r + bias
        i, f, g, o = (gates[..., k : k + 2] for k in (0, 2, 4, 6))
        if form == "forget bias":
            f = f + 1
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * (c if form == "no tanh" else jnp.tanh(c))
        return (h, c), c if form == "cells" else h

    zeros = jnp.zeros((*x.shape[1:-1], 2), x.dtype)
    start = (jnp.ones_like(zeros), zeros) if form == "start" else (zeros, zeros)
    (h, c), every = lax.scan(step, start, x, reverse=form == "reverse")
    return h + c if form == "last" else every


def convolution(x: jax.Array, form: str, padding: str, stride: int) -> jax.Array:
    """Over all axes but the first and the last, which are the batch and the channels."""
    spatial = x.ndim - 2
    groups = x.shape[-1] if form == "depthwise" else 1
    kernel = weight(*(2,) * spatial, x.shape[-1] // groups, 2 * groups, dtype=x.dtype)
    letters = "HW"[:spatial]
    out = lax.conv_general_dilated(
        x,
        kernel,
        (stride,) * spatial,
        padding,
        rhs_dilation=(2,) * spatial if form == "dilated" else None,
        dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        feature_group_count=groups,
    )
    if form in ("bias", "norm"):
        out = out + weight(out.shape[-1], dtype=x.dtype)
    if form == "norm":
        scale = np.linspace(0.5, 2, out.shape[-1]).astype(x.dtype)
        out = (out - weight(out.shape[-1], dtype=x.dtype)) * scale * np.asarray(0.9, x.dtype)
    return jax.nn.relu(out) if form == "relu" else out


def pooled(
    x: jax.Array, kind: str, window: Sequence[int], strides: Sequence[int], padding: str
) -> jax.Array:
    if kind == "mean":
        ones = jnp.ones_like(x)
        total = lax.reduce_window(x, 0.0, lax.add, window, strides, padding)
        return total / lax.reduce_window(ones, 0.0, lax.add, window, strides, padding)
    start, fold = {
        "max": (-jnp.inf, lax.max),
        "min": (jnp.inf, lax.min),
        "sum": (0.0, lax.add),
        "max from 0": (0.0, lax.max),
    }[kind]
    return lax.reduce_window(x, jnp.asarray(start, x.dtype), fold, window, strides, padding)


def signed(x: jax.Array) -> jax.Array:
    """The bits of an integer as a signed one."""
    return lax.bitcast_convert_type(x, jnp.dtype(x.dtype.name.removeprefix("u")))


def unsigned(x: jax.Array) -> jax.Array:
    """The bits of an integer as an unsigned one."""
    return lax.bitcast_convert_type(x, jnp.dtype("u" + x.dtype.name.removeprefix("u")))


def hashed(x: jax.Array, n: int) -> jax.Array:
    """Rounds of a hash function, whose products and shifts drop bits."""
    for _ in range(n):
        x = (x ^ lax.shift_right_logical(x, jnp.full_like(x, 3))) * jnp.full_like(x, 101)
        x = x + (x << 2)
    return jnp.maximum(x, 1) % 17


def parts(z: jax.Array) -> jax.Array:
    """The real and the imaginary parts of complex numbers; other numbers as they are."""
    if not jnp.iscomplexobj(z):
        return z
    return jnp.stack([z.real, z.imag])


def projected(x: jax.Array, number: float, scale: float, form: str) -> jax.Array:
    """Attention after a norm, with large weights: kept scores may lie below the mask's number."""
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)
    w = weight(x.shape[-1], 8, dtype=x.dtype)
    large = w * np.asarray(scale, x.dtype)
    low = jnp.asarray(number, x.dtype)
    q, k, v = ((x @ one).reshape(*x.shape[:-1], 2, 4) for one in (large, -large, w))
    scores = jnp.einsum("...tnd,...snd->...nts", q, k)
    rows, columns = jnp.arange(x.shape[-2])[:, None], jnp.arange(x.shape[-2])
    seen = rows >= columns
    if form == "add":
        scores = scores + jnp.where(seen, 0, low)
    elif form == "two":
        scores = jnp.where(seen, scores, jnp.where(columns > 1, low, -2 * jnp.abs(low)))
    elif form == "twice":
        scores = jnp.where(columns < 2, jnp.where(seen, scores, low), low)
    elif form == "rows":
        scores = jnp.where((columns < 2) & (rows != 1), scores, low)
    elif form == "bias":
        scores = scores - rows.astype(x.dtype) * 0.5 + jnp.where(seen, 0, low)
    elif form == "constant":
        scores = jnp.where(np.arange(2) @ np.ones(2) > 0, jnp.where(seen, scores, low), low)
    else:
        scores = jnp.where(seen, scores, low)
    return jnp.einsum("...nts,...snd->...tnd", jax.nn.softmax(scores), v)


def decoder(cache: jax.Array, x: jax.Array, form: str) -> jax.Array:
    """New rows look at a cache and at themselves."""
    rows = jnp.concatenate([cache, x], axis=-2)
    place = jnp.arange(rows.shape[-2])
    scores = jnp.einsum("...qd,...kd->...qk", x, rows)
    if form == "slot":
        rows = jnp.zeros_like(rows)
        rows = lax.dynamic_update_slice_in_dim(rows, x, cache.shape[-2], -2)
    if form in ("causal", "slot"):
        new = place[-x.shape[-2] :] if form == "slot" else jnp.arange(x.shape[-2])
        new = new if form == "slot" else new + cache.shape[-2]
        scores = jnp.where(new[:, None] >= place, scores, -1e9)
    if form == "bias":
        far = jnp.arange(x.shape[-2])[:, None] + cache.shape[-2] - place
        scores = scores - far.astype(x.dtype) * 0.1
    if form == "scaled":
        scores = scores / jnp.sqrt(rows.shape[-2])
    if form == "mean":
        return (rows @ rows.swapaxes(-1, -2)).mean(-2)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores), rows)


def window(rank: int, x: jax.Array, form: str, size: int, stride: int, padding: str) -> jax.Array:
    """A window over the first axis."""
    sizes, strides = (size,) + (1,) * (rank - 1), (stride,) + (1,) * (rank - 1)
    if form == "mean":
        return lax.reduce_window(x, 0.0, lax.add, sizes, strides, padding) / size
    start, fold = {
        "sum": (0.0, lax.add),
        "max": (-jnp.inf, lax.max),
        "min": (jnp.inf, lax.min),
        "product": (1.0, lax.mul),
    }[form]
    return lax.reduce_window(x, start, fold, sizes, strides, padding)


def counted(x: jax.Array, dtype: Any, start: int, step: int, count: int) -> jax.Array:
    """A loop whose counter has a small type, and may wrap before it ends."""

    def is_running(state: Any) -> jax.Array:
        i, rounds, _ = state
        return (i >= 0) & (i < 125) & (rounds < count + 1)

    def body(state: Any) -> Any:
        i, rounds, x = state
        return i + jnp.asarray(step, dtype), rounds + 1, x + i.astype(x.dtype)

    i, _, x = lax.while_loop(is_running, body, (jnp.asarray(start, dtype), 0, x))
    return x + i.astype(x.dtype)


def nested(x: jax.Array, form: str) -> jax.Array:
    """Control flow inside control flow, over integers."""
    if form == "cond in scan":

        def step(c: jax.Array, t: jax.Array) -> Any:
            c = lax.cond(t.sum() > 1, lambda: c * 3, lambda: c + t)
            return c, jnp.maximum(c, 0)

        return lax.scan(step, jnp.ones_like(x[0]), x)[1]
    if form == "scan in cond":
        return lax.cond(
            x.sum() > 2,
            lambda: lax.scan(lambda c, t: (c * c + t, c), jnp.ones_like(x[0]), x)[1],
            lambda: x << 1,
        )
    if form == "while in scan":

        def rounds(c: jax.Array, t: jax.Array) -> Any:
            n = (t.sum() & 3).astype(jnp.int32)
            _, c = lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 5), (n, c))
            return c, c + t

        return lax.scan(rounds, jnp.ones_like(x[0]), x)[1]
    if form == "switch in while":

        def body(state: Any) -> Any:
            i, x = state
            return i + 1, lax.switch(i - 1, [lambda: x + 1, lambda: x * 7, lambda: -x])

        return lax.while_loop(lambda state: state[0] < 4, body, (0, x))[1]

    def outer(c: jax.Array, t: jax.Array) -> Any:
        return lax.scan(lambda d, u: (d + u * c, d), c, jnp.stack([t, t]))

    return lax.scan(outer, jnp.ones_like(x[0]), x)[0]


def custom(x: jax.Array) -> jax.Array:
    """A function with a derivative of its own."""

    @jax.custom_jvp
    def f(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x * x, jnp.sin(x))

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), t * jnp.cos(x)

    return f(x)


def convolved(x: jax.Array, form: str, stride: int) -> jax.Array:
    """A convolution with less common parameters; the axes are the batch, space and channels."""
    spatial, channels = x.ndim - 2, x.shape[-1]
    letters = "HWD"[:spatial]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    strides = (stride,) * spatial
    if form in ("transposed", "transposed same"):
        kernel = weight(*(3,) * spatial, channels, 2, dtype=x.dtype)
        padding = "SAME" if form == "transposed same" else "VALID"
        return lax.conv_transpose(x, kernel, strides, padding, dimension_numbers=numbers)
    options: dict[str, Any] = {}
    groups, height, outputs = 1, 2, 2
    padding: Any = "SAME"
    if form == "dilated input":
        options, padding = {"lhs_dilation": (2,) * spatial}, "VALID"
    elif form == "groups":
        groups, outputs = 2, 4
    elif form == "asymmetric":
        padding = ((0, 3),) * spatial
    elif form == "one axis":
        height, options = 3, {"rhs_dilation": (2, *(1,) * (spatial - 1))}
    elif form == "batch groups":
        options, outputs = {"batch_group_count": 2}, 4
    kernel = weight(*(height,) * spatial, channels // groups, outputs, dtype=x.dtype)
    if form == "reversed":
        kernel = kernel[::-1]
    return lax.conv_general_dilated(
        x,
        kernel,
        strides,
        padding,
        dimension_numbers=numbers,
        feature_group_count=groups,
        **options,
    )


def inverse_derivative(x: jax.Array) -> jax.Array:
    """The gradient of a function whose backward pass is its own."""

    @jax.custom_vjp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * jnp.clip(x, -1, 1),))
    return jax.grad(lambda x: (f(x) * 2).sum())(x)
