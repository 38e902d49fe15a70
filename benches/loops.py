"""Programs with loops to be run, with random weights: solvers, decoders, recurrent networks.

They use flax nnx and plain JAX alone, so that any exporter can be given them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx
from jax import lax
from jax.experimental.ode import odeint

Fn = Callable[..., Any]


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    scale = 1.0 / np.sqrt(shape[0])
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def lorenz(y: jax.Array) -> jax.Array:
    a, b, c = y
    return jnp.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c])


def rk4_step(field: Fn, y: jax.Array, h: float) -> jax.Array:
    k1 = field(y)
    k2 = field(y + 0.5 * h * k1)
    k3 = field(y + 0.5 * h * k2)
    k4 = field(y + h * k3)
    return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def rk4() -> Fn:
    """100 steps of a solver on three numbers."""

    def solve(y: jax.Array) -> jax.Array:
        def step(y: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            y = rk4_step(lorenz, y, 0.005)
            return y, y

        return lax.scan(step, y, None, length=100)[1]

    return solve


def neural_ode() -> Fn:
    """20 steps of a solver on a network with one hidden layer, at given times."""
    w1, b1, w2 = weights(17, 64), weights(64, seed=1), weights(64, 16, seed=2)
    times = np.linspace(0.0, 1.0, 21, dtype=np.float32)

    def solve(y: jax.Array) -> jax.Array:
        def step(y: jax.Array, span: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            start, h = span

            def field(y: jax.Array) -> jax.Array:
                column = jnp.full((y.shape[0], 1), start)
                return jnp.tanh(jnp.concatenate([y, column], -1) @ w1 + b1) @ w2

            y = rk4_step(field, y, h)
            return y, y

        return lax.scan(step, y, (times[:-1], np.diff(times)))[1]

    return solve


def network_ode() -> Fn:
    """100 steps of a solver on a network of two layers, on one example."""
    w1, b1, w2, b2 = weights(2, 50), weights(50, seed=1), weights(50, 2, seed=2), weights(2, seed=3)

    def field(y: jax.Array) -> jax.Array:
        return jnp.tanh(y**3 @ w1 + b1) @ w2 + b2

    def solve(y: jax.Array) -> jax.Array:
        def step(y: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            y = rk4_step(field, y, 0.05)
            return y, y

        return lax.scan(step, y, None, length=100)[1]

    return solve


STAGES = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
ERRORS = [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


def dopri5() -> Fn:
    """A solver that chooses its steps, by the method of Dormand and Prince."""

    def combined(factors: list[float], slopes: list[jax.Array]) -> jax.Array:
        return sum(f * k for f, k in zip(factors, slopes, strict=True) if f)  # type: ignore[return-value]

    def solve(y: jax.Array) -> jax.Array:
        def goes_on(state: tuple[jax.Array, ...]) -> jax.Array:
            return state[0] < 0.5

        def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            t, y, h = state
            h = jnp.minimum(h, 0.5 - t)
            slopes = [lorenz(y)]
            for factors in STAGES:
                slopes.append(lorenz(y + h * combined(factors, slopes)))
            after = y + h * combined(STAGES[-1], slopes[:-1])
            tolerance = 1e-4 + 1e-4 * jnp.maximum(jnp.abs(y), jnp.abs(after))
            error = jnp.sqrt(jnp.mean((h * combined(ERRORS, slopes) / tolerance) ** 2))
            factor = jnp.clip(0.9 * (error + 1e-10) ** -0.2, 0.2, 5.0)
            t, y = lax.cond(error <= 1.0, lambda: (t + h, after), lambda: (t, y))
            return t, y, h * factor

        return lax.while_loop(goes_on, step, (jnp.float32(0.0), y, jnp.float32(0.01)))[1]

    return solve


def pendulum() -> Fn:
    """JAX's own solver."""

    def field(y: jax.Array, t: jax.Array) -> jax.Array:
        return jnp.stack([y[1], -9.81 * jnp.sin(y[0]) - 0.1 * y[1] + jnp.sin(t)])

    times = np.linspace(0.0, 1.0, 5, dtype=np.float32)
    return lambda y: odeint(field, y, jnp.asarray(times), rtol=1e-4, atol=1e-4)


def beam_search() -> Fn:
    """16 tokens of four beams, by a decoder with one recurrent layer."""
    beams, size, vocabulary, length = 4, 64, 512, 16
    table = jnp.asarray(weights(vocabulary, size))
    out = weights(size, vocabulary, seed=1)
    w, u = weights(size, 3 * size, seed=2), weights(size, 3 * size, seed=3)

    def decode(hidden: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        given, kept = table[tokens] @ w, hidden @ u
        (xr, xz, xn), (hr, hz, hn) = jnp.split(given, 3, -1), jnp.split(kept, 3, -1)
        update = nnx.sigmoid(xz + hz)
        hidden = (1 - update) * jnp.tanh(xn + nnx.sigmoid(xr + hr) * hn) + update * hidden
        return hidden, nnx.log_softmax(hidden @ out)

    def search(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden = jnp.broadcast_to(start, (beams, size))
        scores = jnp.where(jnp.arange(beams) == 0, 0.0, -1e9)

        def step(i: jax.Array, state: Any) -> Any:
            hidden, scores, sequences, tokens = state
            hidden, logits = decode(hidden, tokens)
            scores, places = lax.top_k((scores[:, None] + logits).reshape(-1), beams)
            chosen, tokens = places // vocabulary, places % vocabulary
            sequences = sequences[chosen].at[:, i].set(tokens)
            return hidden[chosen], scores, sequences, tokens

        sequences = jnp.zeros((beams, length), jnp.int32)
        state = (hidden, scores, sequences, jnp.zeros((beams,), jnp.int32))
        _, scores, sequences, _ = lax.fori_loop(0, length, step, state)
        return sequences, scores

    return search


def detection() -> Fn:
    """100 boxes with the scores of a head, of which those that overlap a better one are dropped."""
    count, classes = 100, 20
    head = weights(64, classes + 4)

    def detect(features: jax.Array, anchors: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = features @ head
        scores = nnx.sigmoid(found[:, :classes]).max(-1)
        centers, sizes = anchors[:, :2] + 0.1 * found[:, -4:-2], jnp.exp(anchors[:, 2:])
        boxes = jnp.concatenate([centers - sizes / 2, centers + sizes / 2], -1)
        order = jnp.argsort(-scores)
        boxes, scores = boxes[order], scores[order]
        area = jnp.prod(boxes[:, 2:] - boxes[:, :2], -1)
        low = jnp.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = jnp.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        shared = jnp.prod(jnp.clip(high - low, 0.0), -1)
        overlaps = shared / (area[:, None] + area[None] - shared)

        def suppress(i: jax.Array, keep: jax.Array) -> jax.Array:
            is_worse = (overlaps[i] > 0.5) & (jnp.arange(count) > i)
            return jnp.where(keep[i] & is_worse, False, keep)

        keep = lax.fori_loop(0, count, suppress, jnp.ones((count,), bool))
        return jnp.where(keep, scores, 0.0), boxes

    return detect


def rnn() -> Fn:
    """A plain recurrent layer of flax."""
    cell = nnx.SimpleCell(64, 128, rngs=nnx.Rngs(0))
    return lambda xs: lax.scan(cell, jnp.zeros((xs.shape[1], 128)), xs)[1]


def linen_lstm() -> Fn:
    """A tagger of flax linen: a recurrent layer, and a head on each step."""
    layer, head = linen.RNN(linen.OptimizedLSTMCell(64)), weights(64, 20)
    params = layer.init(jax.random.key(0), jnp.zeros((1, 1, 32)))
    return lambda xs: nnx.log_softmax(layer.apply(params, xs) @ head)


def greedy_boxes() -> Fn:
    """At most 50 of 200 boxes, the best first, as long as one is good enough."""

    def overlaps(box: jax.Array, boxes: jax.Array) -> jax.Array:
        low = jnp.maximum(box[None, :2], boxes[:, :2])
        high = jnp.minimum(box[None, 2:], boxes[:, 2:])
        sizes = jnp.clip(high - low, 0.0)
        shared = sizes[:, 0] * sizes[:, 1]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        own = (box[2] - box[0]) * (box[3] - box[1])
        return shared / (area + own - shared)

    def select(boxes: jax.Array, scores: jax.Array) -> jax.Array:
        def goes_on(state: Any) -> jax.Array:
            return (state[0] < 50) & (jnp.max(state[1]) > 0.3)

        def step(state: Any) -> Any:
            count, scores, chosen = state
            best = jnp.argmax(scores)
            is_gone = (overlaps(boxes[best], boxes) > 0.5) | (jnp.arange(200) == best)
            return count + 1, jnp.where(is_gone, 0.0, scores), chosen.at[count].set(best)

        return lax.while_loop(goes_on, step, (0, scores, jnp.zeros(50, jnp.int32)))[2]

    return select


def class_boxes() -> Fn:
    """100 boxes for each of five classes, of which those that overlap a better one are dropped."""

    def of_class(boxes: jax.Array, scores: jax.Array) -> jax.Array:
        order = jnp.argsort(-scores)
        boxes = boxes[order]
        low = jnp.maximum(boxes[:, None, :2], boxes[:, :2])
        high = jnp.minimum(boxes[:, None, 2:], boxes[:, 2:])
        sizes = jnp.clip(high - low, 0.0)
        shared = sizes[..., 0] * sizes[..., 1]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        overlaps = shared / (area[:, None] + area - shared)

        def suppress(i: jax.Array, is_dropped: jax.Array) -> jax.Array:
            return is_dropped | (~is_dropped[i] & (overlaps[i] > 0.5) & (jnp.arange(100) > i))

        is_dropped = lax.fori_loop(0, 100, suppress, jnp.zeros(100, bool))
        return jnp.where(is_dropped, 0.0, scores[order])

    return jax.vmap(of_class, in_axes=(None, 1))


def filled() -> Fn:
    """256 steps of a recurrence that writes its state into an array."""
    w = weights(64, 64)

    def run(h: jax.Array) -> jax.Array:
        def step(i: jax.Array, state: Any) -> Any:
            h, out = state
            h = jnp.tanh(h @ w)
            return h, out.at[i].set(h)

        return lax.fori_loop(0, 256, step, (h, jnp.zeros((256, 64))))[1]

    return run


def normed_cell() -> Fn:
    """A recurrent layer that ONNX has no operator for: one gate, and a norm."""
    w, u = weights(64, 256), weights(128, 256, seed=1)
    norm = nnx.LayerNorm(256, rngs=nnx.Rngs(0))

    def run(xs: jax.Array) -> jax.Array:
        def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            gate, value = jnp.split(norm(x @ w + h @ u), 2, -1)
            h = h + nnx.sigmoid(gate) * (jnp.tanh(value) - h)
            return h, h

        return lax.scan(step, jnp.zeros((xs.shape[1], 128)), xs)[1]

    return run


def decode_step() -> Fn:
    """One token of a transformer of four layers, with the keys and values of those before."""
    width, heads, length = 256, 8, 128
    size = width // heads
    layers = [
        [
            weights(width, 3 * width, seed=4 * i),
            weights(width, width, seed=4 * i + 1),
            weights(width, 4 * width, seed=4 * i + 2),
            weights(4 * width, width, seed=4 * i + 3),
        ]
        for i in range(4)
    ]
    norm = nnx.RMSNorm(width, rngs=nnx.Rngs(0))

    def step(x: jax.Array, cache: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
        caches = []
        is_seen = jnp.arange(length) <= place
        for layer, (project, mix, up, down) in enumerate(layers):
            q, k, v = jnp.split(norm(x) @ project, 3, -1)
            pair = jnp.stack([k, v]).reshape(2, 1, heads, size)
            kept = lax.dynamic_update_slice(cache[layer], pair, (0, place, 0, 0))
            caches.append(kept)
            keys, values = kept
            scores = jnp.einsum("hd,thd->ht", q.reshape(heads, size), keys) / size**0.5
            scores = jnp.where(is_seen, scores, jnp.finfo(jnp.float32).min)
            mixed = jnp.einsum("ht,thd->hd", nnx.softmax(scores), values)
            x = x + mixed.reshape(1, width) @ mix
            x = x + nnx.gelu(norm(x) @ up) @ down
        return x, jnp.stack(caches)

    return step


def decode_inputs() -> list[np.ndarray]:
    return [weights(1, 256), weights(4, 2, 128, 8, 32), np.array(77, np.int32)]


def boxes() -> list[np.ndarray]:
    anchors = np.random.default_rng(0).uniform(0.0, 1.0, (100, 4)) * [4.0, 4.0, 1.0, 1.0]
    return [weights(100, 64, seed=5), anchors.astype(np.float32)]


def scored_boxes() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    corners = random.uniform(0.0, 10.0, (200, 2))
    sizes = random.uniform(1.0, 3.0, (200, 2))
    boxes = np.concatenate([corners, corners + sizes], 1).astype(np.float32)
    return [boxes, random.uniform(size=200).astype(np.float32)]


def class_scores() -> list[np.ndarray]:
    boxes, _ = scored_boxes()
    return [boxes[:100], np.random.default_rng(1).uniform(size=(100, 5)).astype(np.float32)]


START = np.array([1.0, 2.0, 20.0], np.float32)

LOOPS: dict[str, tuple[Callable[[], Fn], Callable[[], list[np.ndarray]]]] = {
    "rk4": (rk4, lambda: [START]),
    "neural-ode": (neural_ode, lambda: [weights(8, 16)]),
    "network-ode": (network_ode, lambda: [weights(2)]),
    "dopri5": (dopri5, lambda: [START]),
    "odeint": (pendulum, lambda: [np.array([1.0, 0.0], np.float32)]),
    "beam-search": (beam_search, lambda: [weights(64, seed=7)]),
    "detection": (detection, boxes),
    "class-nms": (class_boxes, class_scores),
    "greedy-nms": (greedy_boxes, scored_boxes),
    "filled": (filled, lambda: [weights(64)]),
    "rnn": (rnn, lambda: [weights(64, 1, 64)]),
    "linen-lstm": (linen_lstm, lambda: [weights(8, 50, 32)]),
    "normed-cell": (normed_cell, lambda: [weights(64, 4, 64)]),
    "decode-step": (decode_step, decode_inputs),
}
