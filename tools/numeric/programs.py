"""Networks and programs whose models get faults. Each has one operation per line where it can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jax2onnx

RANDOM = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 0.6 / np.sqrt(shape[0])).astype(np.float32)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Program:
    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]


W1, B1, W2, B2 = weights(16, 24), weights(24), weights(24, 10), weights(10)


def mlp(x: Any) -> Any:
    scaled = x - x.mean(axis=-1, keepdims=True)
    hidden = scaled @ W1
    hidden = hidden + B1
    active = jnp.maximum(hidden, 0.1 * hidden)
    gate = jax.nn.sigmoid(active)
    logits = (active * gate) @ W2
    shifted = logits + B2
    return jax.nn.log_softmax(shifted)


KERNEL1, KERNEL2 = weights(3, 3, 3, 8), weights(3, 3, 8, 8)
SCALE, SHIFT = 1 + weights(8), weights(8)


def cnn(x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    first = lax.conv_general_dilated(x, KERNEL1, (1, 1), "SAME", dimension_numbers=numbers)
    second = jnp.tanh(first)
    third = lax.conv_general_dilated(second, KERNEL2, (2, 2), "SAME", dimension_numbers=numbers)
    mean = third.mean(axis=(1, 2), keepdims=True)
    spread = jnp.sqrt(jnp.var(third, axis=(1, 2), keepdims=True) + 0.1)
    normal = (third - mean) / spread
    scaled = normal * SCALE
    moved = scaled + SHIFT
    pooled = lax.reduce_window(moved, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return pooled.sum(axis=(1, 2))


WQ, WK, WV, WO = weights(16, 16), weights(16, 16), weights(16, 16), weights(16, 16)
UP, DOWN = weights(16, 32), weights(32, 16)
GAIN = 1 + weights(16)


def transformer(x: Any) -> Any:
    def norm(y: Any) -> Any:
        mean = y.mean(-1, keepdims=True)
        spread = jnp.sqrt(((y - mean) ** 2).mean(-1, keepdims=True) + 1e-3)
        return (y - mean) / spread * GAIN

    def heads(y: Any) -> Any:
        return y.reshape(6, 2, 8).transpose(1, 0, 2)

    y = norm(x)
    q, k, v = heads(y @ WQ), heads(y @ WK), heads(y @ WV)
    scores = jnp.einsum("hqd,hkd->hqk", q, k)
    scores = scores / 2.8
    causal = jnp.tril(jnp.ones((6, 6), bool))
    masked = jnp.where(causal, scores, -1e9)
    mixed = jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(masked), v)
    x = x + mixed.transpose(1, 0, 2).reshape(6, 16) @ WO
    inner = jax.nn.gelu(norm(x) @ UP)
    return x + inner @ DOWN


RX, RH, RB = weights(6, 8), weights(8, 8), weights(8)


def recurrent(x: Any, h: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        mixed = row @ RX
        back = state @ RH
        total = mixed + back + RB
        gate = jax.nn.sigmoid(total * 0.7)
        fresh = jnp.sin(total)
        state = gate * state + (1 - gate) * fresh
        return state, jnp.abs(state).sum(-1)

    return lax.scan(step, h, x)


def reversed_scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        best, count = carry
        score = row * 0.9
        better = jnp.maximum(score, best - 0.2)
        weight = jnp.exp(-jnp.abs(better))
        count = count + weight
        return (better, count), better * weight

    carry, rows = lax.scan(step, (x[0], jnp.zeros(5)), x, reverse=True)
    return carry, jnp.cumsum(rows, axis=0)


A1, A2 = weights(5, 5), weights(5, 5)


def nested_scans(x: Any) -> Any:
    def outer(state: Any, row: Any) -> Any:
        driven = jnp.tanh(state @ A1 + row)

        def inner(total: Any, factor: Any) -> Any:
            moved = total @ A2
            total = moved * factor
            total = total + driven
            return total, jnp.cos(total)

        last, waves = lax.scan(inner, driven, jnp.linspace(0.4, 1.1, 40))
        level = waves.mean(axis=0)
        state = last * 0.3 + level
        return state, jnp.sum(last * level)

    return lax.scan(outer, x[0], x)


def branches(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        size = jnp.sum(row * row)

        def large(values: Any) -> Any:
            damped = values / (1 + size)
            return jnp.sin(damped)

        def small(values: Any) -> Any:
            grown = values * 1.2
            return grown + jnp.cos(row)

        state = lax.cond(size > 4.0, large, small, state)
        index = jnp.where(size > 6.0, 2, jnp.where(size > 3.0, 1, 0))
        extra = lax.switch(
            index,
            [lambda v: v * 0.5, lambda v: jnp.exp(-v * v), lambda v: jnp.tanh(v) - 0.1],
            state,
        )
        return state, extra

    return lax.scan(step, x[0], x)


SPD = (lambda m: m @ m.T + 4 * np.eye(6, dtype=np.float32))(weights(6, 6))


def gradient_descent(b: Any) -> Any:
    def go_on(carry: Any) -> Any:
        x, _, count = carry
        residual = b - SPD @ x
        return (jnp.sum(residual * residual) > 1e-4) & (count < 60)

    def move(carry: Any) -> Any:
        x, step, count = carry
        residual = b - SPD @ x
        direction = residual * step
        x = x + direction
        energy = jnp.sum(direction * residual)
        step = jnp.where(energy > 0.5, step * 0.98, step * 0.999)
        return x, step, count + 1

    x, step, count = lax.while_loop(go_on, move, (jnp.zeros(6), 0.12, 0))
    return x, step, count


def search(x: Any) -> Any:
    def body(count: Any, carry: Any) -> Any:
        low, high = carry
        middle = (low + high) * 0.5
        value = middle * middle * middle + middle
        is_low = value < x
        low = jnp.where(is_low, middle, low)
        high = jnp.where(is_low, high, middle)
        return low, high

    low, high = lax.fori_loop(0, 40, body, (jnp.full(4, -3.0), jnp.full(4, 3.0)))
    return (low + high) / 2


F1, F2 = weights(12, 12), weights(12)


@jax2onnx.onnx_function
def block(x: Any) -> Any:
    hidden = x @ F1
    hidden = hidden + F2
    wave = jnp.sin(hidden) * 0.8
    scale = jnp.exp(-jnp.abs(wave))
    return x * 0.5 + wave * scale


def functions(x: Any) -> Any:
    y = block(x)
    z = block(y)
    return jnp.tanh(block(z) - y)


@jax2onnx.onnx_function
def smooth(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        blend = state * 0.6
        state = blend + row * 0.4
        return state, jnp.sqrt(state * state + 0.01)

    return lax.scan(step, x[0], x)[1]


def function_with_loop(x: Any) -> Any:
    first = smooth(x * 2.0)
    second = smooth(first[::-1])
    return second - first.mean(axis=0)


TABLE = numbers(20, 6)


def lookups(tokens: Any) -> Any:
    found = jnp.asarray(TABLE)[tokens]
    order = jnp.argsort(found.sum(-1))
    rows = found[order]
    top, where = lax.top_k(rows, 3)
    picked = jnp.take_along_axis(rows, where, axis=-1)
    marks = jax.nn.one_hot(tokens % 4, 4)
    counts = marks.sum(axis=0)
    return top * 2.0 + picked, counts, jnp.argmax(found, axis=-1)


def kalman(measured: Any) -> Any:
    move = jnp.array([[1.0, 0.1], [0.0, 0.97]])
    noise = jnp.array([[0.02, 0.0], [0.0, 0.03]])

    def step(carry: Any, z: Any) -> Any:
        mean, spread = carry
        mean = move @ mean
        spread = move @ spread @ move.T + noise
        surprise = z - mean[0]
        total = spread[0, 0] + 0.5
        gain = spread[:, 0] / total
        mean = mean + gain * surprise
        spread = spread - jnp.outer(gain, spread[0])
        return (mean, spread), mean

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measured)


def loops_in_loops(x: Any) -> Any:
    def outer(state: Any, row: Any) -> Any:
        def go_on(carry: Any) -> Any:
            value, count = carry
            return (jnp.max(jnp.abs(value)) > 0.4) & (count < 12)

        def shrink(carry: Any) -> Any:
            value, count = carry
            value = value * 0.8
            wave = jnp.sin(value)
            value = lax.cond(count > 3, lambda v: v - 0.05 * wave, lambda v: v + 0.02, value)
            return value, count + 1

        start = state + row * 1.5
        value, count = lax.while_loop(go_on, shrink, (start, 0))
        return value, value * jnp.float32(count)

    return lax.scan(outer, x[0], x)


PROGRAMS = (
    Program("mlp", mlp, (numbers(5, 16),)),
    Program("cnn", cnn, (numbers(2, 8, 8, 3),)),
    Program("transformer", transformer, (numbers(6, 16),)),
    Program("recurrent", recurrent, (numbers(30, 3, 6), numbers(3, 8))),
    Program("reversed scan", reversed_scan, (numbers(45, 5),)),
    Program("nested scans", nested_scans, (numbers(7, 5),)),
    Program("branches", branches, (numbers(9, 5),)),
    Program("gradient descent", gradient_descent, (numbers(6),)),
    Program("search", search, (numbers(4),)),
    Program("functions", functions, (numbers(4, 12),)),
    Program("function with a loop", function_with_loop, (numbers(40, 6),)),
    Program("lookups", lookups, (np.array([3, 1, 19, 7, 7, 12, 0], np.int32),)),
    Program("Kalman filter", kalman, (numbers(40),)),
    Program("loops in loops", loops_in_loops, (numbers(10, 5),)),
)
