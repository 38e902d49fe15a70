"""Measure how fast exported recurrences run, beside `jax.jit` and the same programs as loops.

    python benches/recurrences.py [--programs gla average] [--steps 128 1024 4096] [--rounds 9]

The programs are written as people write them, with `lax.scan`. States that outer products update
are exported for ONNX Runtime 1.31, and as loops for ONNX Runtime 1.30. If a model contains a loop
for numbers that are not finite, `loop` is the time of this loop. Figures are medians of turns that
alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from jax import lax
from runtime import THREADS, by_turns, count

from jax2onnx import to_onnx

HEADS, SIZE, CHANNELS, STATES = 4, 64, 128, 16


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def linear_attention(q: Any, k: Any, v: Any, g: Any) -> jax.Array:
    def step(state: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, g = x
        state = jnp.exp(g)[..., None] * state + k[..., None] * v[..., None, :]
        return state, jnp.einsum("hd,hde->he", q, state)

    return lax.scan(step, jnp.zeros((HEADS, SIZE, SIZE)), (q, k, v, g))[1]


def retnet(q: Any, k: Any, v: Any) -> jax.Array:
    decay = 1 - 2.0 ** (-5 - jnp.arange(HEADS, dtype=jnp.float32))

    def step(state: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v = x
        state = decay[:, None, None] * state + jnp.einsum("hd,he->hde", k, v)
        return state, (q[:, :, None] * state).sum(1)

    return lax.scan(step, jnp.zeros((HEADS, SIZE, SIZE)), (q, k, v))[1]


def rwkv6(r: Any, k: Any, v: Any, w: Any, u: Any) -> jax.Array:
    def step(state: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        r, k, v, w = x
        added = k[:, :, None] * v[:, None, :]
        read = jnp.einsum("hd,hde->he", r, state + u[:, :, None] * added)
        return jnp.exp(-jnp.exp(w))[:, :, None] * state + added, read

    return lax.scan(step, jnp.zeros((HEADS, SIZE, SIZE)), (r, k, v, w))[1]


def delta_net(q: Any, k: Any, v: Any, rate: Any) -> jax.Array:
    def step(state: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v, rate = x
        change = rate[:, None] * (v - jnp.einsum("hd,hde->he", k, state))
        state = state + jnp.einsum("hd,he->hde", k, change)
        return state, jnp.einsum("hd,hde->he", q, state)

    return lax.scan(step, jnp.zeros((HEADS, SIZE, SIZE)), (q, k, v, rate))[1]


def xlstm(q: Any, k: Any, v: Any, i: Any, f: Any) -> jax.Array:
    def step(state: Any, x: Any) -> Any:
        c, n, m = state
        q, k, v, i, f = x
        log = jax.nn.log_sigmoid(f)
        top = jnp.maximum(log + m, i)
        i, f = jnp.exp(i - top), jnp.exp(log + m - top)
        c = f[:, None, None] * c + i[:, None, None] * k[:, :, None] * v[:, None, :]
        n = f[:, None] * n + i[:, None] * k
        scale = jnp.maximum(jnp.abs((n * q).sum(-1)), 1.0)
        return (c, n, top), jnp.einsum("hd,hde->he", q, c) / scale[:, None]

    zeros = [jnp.zeros(shape) for shape in ((HEADS, SIZE, SIZE), (HEADS, SIZE), (HEADS,))]
    return lax.scan(step, tuple(zeros), (q, k, v, i, f))[1]


def mamba(x: Any, dt: Any, a: Any, b: Any, c: Any) -> jax.Array:
    dt = jax.nn.softplus(dt)

    def step(h: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        x, dt, b, c = x
        h = jnp.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b
        return h, h @ c

    return lax.scan(step, jnp.zeros((CHANNELS, STATES)), (x, dt, b, c))[1]


def average(x: Any) -> jax.Array:
    def step(mean: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean = 0.9 * mean + 0.1 * x
        return mean, mean

    return lax.scan(step, jnp.zeros(SIZE), x)[1]


def rwkv4(k: Any, v: Any, w: Any, u: Any) -> jax.Array:
    def step(state: Any, x: Any) -> Any:
        a, b, top = state
        k, v = x
        high = jnp.maximum(top, u + k)
        old, new = jnp.exp(top - high), jnp.exp(u + k - high)
        y = (old * a + new * v) / (old * b + new)
        high = jnp.maximum(top + w, k)
        old, new = jnp.exp(top + w - high), jnp.exp(k - high)
        return (old * a + new * v, old * b + new, high), y

    zeros = jnp.zeros(CHANNELS)
    return lax.scan(step, (zeros, zeros, zeros - 1e38), (k, v))[1]


def min_gru(x: Any, w: Any, u: Any) -> jax.Array:
    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = jax.nn.sigmoid(x @ w)
        h = (1 - z) * h + z * (x @ u)
        return h, h

    return lax.scan(step, jnp.zeros(SIZE), x)[1]


def rg_lru(x: Any, r: Any, i: Any, rates: Any) -> jax.Array:
    def step(h: jax.Array, x: Any) -> tuple[jax.Array, jax.Array]:
        x, r, i = x
        log = -8.0 * jax.nn.softplus(rates) * jax.nn.sigmoid(r)
        h = jnp.exp(log) * h + jnp.sqrt(1 - jnp.exp(2 * log)) * (jax.nn.sigmoid(i) * x)
        return h, h

    return lax.scan(step, jnp.zeros(CHANNELS), (x, r, i))[1]


def biquad(x: Any) -> jax.Array:
    def step(state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        x1, x2, y1, y2 = state
        y = 0.2 * x + 0.4 * x1 + 0.2 * x2 + 0.5 * y1 - 0.3 * y2
        return (x, x1, y, y1), y

    return lax.scan(step, (jnp.zeros(x.shape[1:]),) * 4, x)[1]


def linear_network(x: Any) -> jax.Array:
    a = np.linalg.qr(draw(SIZE, SIZE, seed=17))[0] * 0.99

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = a.astype(np.float32) @ h + x
        return h, h

    return lax.scan(step, jnp.zeros(SIZE), x)[1]


def s4d(x: Any, b: Any, c: Any) -> jax.Array:
    poles = np.exp(-0.05 + 0.1j * np.arange(STATES)).astype(np.complex64)

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = poles[:, None] * h + b[:, None] * x
        return h, 2 * (c @ h).real

    return lax.scan(step, jnp.zeros((STATES, 8), jnp.complex64), x)[1]


def kalman(x: Any) -> jax.Array:
    def step(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jnp.array([[1.0, 0.1], [0.0, 1.0]]) @ state
        state = state + jnp.array([0.3, 0.2]) * (x - state[0])
        return state, state

    return lax.scan(step, jnp.zeros(2), x)[1]


def oscillator(x: Any, steps: int) -> jax.Array:
    """Solve a linear differential equation by Runge-Kutta steps."""

    def f(x: jax.Array) -> jax.Array:
        return jnp.array([[0.0, 1.0], [-1.0, -0.1]]) @ x

    def step(x: jax.Array, _: Any) -> tuple[jax.Array, jax.Array]:
        k1 = f(x)
        k2 = f(x + 0.005 * k1)
        k3 = f(x + 0.005 * k2)
        x = x + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + 0.01 * k3))
        return x, x

    return lax.scan(step, x, None, length=steps)[1]


def diagonal(x: Any, a: Any) -> jax.Array:
    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return lax.associative_scan(join, (jnp.broadcast_to(a, x.shape), x))[1]


def inputs(steps: int) -> dict[str, tuple[Callable[..., jax.Array], list[np.ndarray]]]:
    q, k, v = draw(steps, HEADS, SIZE), draw(steps, HEADS, SIZE, seed=1), draw(steps, HEADS, SIZE)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    gates = [draw(steps, HEADS, seed=seed) for seed in (2, 3)]
    rates = (1 / (1 + np.exp(-gates[0]))).astype(np.float32)
    log = -np.log1p(np.exp(draw(steps, HEADS, SIZE, seed=4))) / 4
    x, y, z = (draw(steps, CHANNELS, seed=seed) for seed in (5, 6, 7))
    narrow = x[:, :SIZE].copy()
    matrices = [draw(SIZE, SIZE, seed=seed) / 8 for seed in (8, 9)]
    states = [draw(steps, STATES, seed=seed) for seed in (10, 11)]
    poles = -np.exp(draw(CHANNELS, STATES, seed=12))
    decays = 1 / (1 + np.exp(-draw(SIZE, seed=13)))
    return {
        "gla": (linear_attention, [q, k, v, log]),
        "retnet": (retnet, [q, k, v]),
        "delta-net": (delta_net, [q, k, v, rates]),
        "rwkv-6": (rwkv6, [q, k, v, draw(steps, HEADS, SIZE, seed=14) - 2, draw(HEADS, SIZE)]),
        "xlstm": (xlstm, [q, k, v, *gates]),
        "mamba": (mamba, [x, y - 2, poles, *states]),
        "average": (average, [narrow]),
        "rwkv-4": (rwkv4, [x, y, -np.exp(draw(CHANNELS, seed=16)), draw(CHANNELS)]),
        "min-gru": (min_gru, [narrow, *matrices]),
        "rg-lru": (rg_lru, [x, y, z, draw(CHANNELS, seed=15)]),
        "biquad": (biquad, [x[:, 0].copy()]),
        "biquads": (biquad, [narrow]),
        "linear-rnn": (linear_network, [narrow]),
        "s4d": (s4d, [x[:, :8].copy(), *draw(2, STATES, seed=18)]),
        "kalman": (kalman, [x[:, 0].copy()]),
        "oscillator": (lambda x: oscillator(x, steps), [draw(2)]),
        "diagonal": (diagonal, [narrow, decays.astype(np.float32)]),
    }


def as_loops(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which the loops for numbers that are not finite always run."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    never = onnx.numpy_helper.from_array(np.array(False), "never")
    for node in model.graph.node:
        names = [attr.g.name for attr in node.attribute if attr.HasField("g")]
        if any(name.startswith("recurrence/") for name in names):
            node.input[0] = "never"
    model.graph.initializer.append(never)
    return model


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def measure(fn: Callable[..., jax.Array], arrays: list[np.ndarray], rounds: int) -> str:
    jitted = jax.jit(fn)
    device = [jax.device_put(array) for array in arrays]
    want = np.asarray(jitted(*device))
    model = to_onnx(fn, arrays, target=["onnxruntime>=1.31"])
    loop = as_loops(to_onnx(fn, arrays, target=["onnxruntime>=1.30"]))
    sessions = {"ort": session(model), "loop": session(loop)}
    names = [one.name for one in sessions["ort"].get_inputs()]
    feeds = dict(zip(names, arrays, strict=True))
    (found,) = sessions["ort"].run(None, feeds)
    error = float(np.max(np.abs(found - want)) / np.max(np.abs(want)))
    tasks: dict[str, Callable[[], Any]] = {
        who: lambda one=one: one.run(None, feeds) for who, one in sessions.items()
    }
    tasks["jit"] = lambda: jax.block_until_ready(jitted(*device))
    times = by_turns(tasks, rounds)
    ort, loop_time, jit = (1e3 * statistics.median(times[who]) for who in ("ort", "loop", "jit"))
    return (
        f"{count(model):6} {ort:9.2f} {loop_time:9.2f} {jit:9.2f} {ort / jit:9.2f} "
        f"{ort / loop_time:9.3f} {error:9.0e}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--programs", nargs="*", help="which ones; all if none is named")
    parser.add_argument("--steps", nargs="*", type=int, default=[128, 1024, 4096])
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    titles = ("nodes", "ours ms", "loop ms", "jit ms", "ours/jit", "ours/loop", "error")
    print("{:10} {:>5} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}".format("", "steps", *titles))
    for steps in options.steps:
        programs = inputs(steps)
        for name in options.programs or programs:
            row = measure(*programs[name], options.rounds)
            print(f"{name:10} {steps:5} {row}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
