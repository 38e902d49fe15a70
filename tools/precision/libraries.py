"""Networks written with several libraries. A problem can be planted behind `# plant`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

#: These have no types.
_avg_pool: Any = nn.avg_pool
_unroll: Any = hk.dynamic_unroll

Built = tuple[Callable[..., Any], tuple[Any, ...]]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weights(seed: int, *shape: int) -> np.ndarray:
    return numbers(seed, *shape) / np.float32(np.sqrt(shape[-2]))


def nnx_mlp() -> Built:
    class Block(nnx.Module):
        def __init__(self, size: int, rngs: nnx.Rngs) -> None:
            self.norm = nnx.LayerNorm(size, rngs=rngs)
            self.up = nnx.Linear(size, 2 * size, rngs=rngs)
            self.down = nnx.Linear(2 * size, size, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            y = self.norm(x)  # plant
            h = self.up(y)  # plant
            h = nnx.gelu(h)  # plant
            return x + self.down(h)

    class Network(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.one, self.two = Block(16, rngs), Block(16, rngs)
            self.head = nnx.Linear(16, 8, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            a = self.one(x)  # plant
            b = self.two(a)  # plant
            return self.head(b)

    return Network(nnx.Rngs(0)), (numbers(1, 6, 16),)


def linen_convolutions() -> Built:
    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Conv(8, (3, 3))(x)  # plant
            x = nn.BatchNorm(use_running_average=True)(x)  # plant
            x = nn.relu(x)
            y = nn.Conv(8, (3, 3))(x)  # plant
            y = nn.GroupNorm(num_groups=2)(y)  # plant
            x = nn.silu(x + y)
            z = _avg_pool(x, (2, 2), strides=(2, 2))  # plant
            z = z.mean((1, 2))
            return nn.Dense(10)(z)

    network, x = Network(), numbers(2, 2, 8, 8, 3)
    params = network.init(jax.random.key(0), x)
    return lambda x: network.apply(params, x), (x,)


def causal_transformer() -> Built:
    q_, k_, v_, o_ = (weights(10 + i, 32, 32) for i in range(4))
    up, down = weights(14, 32, 64), weights(15, 64, 32)
    table, places = numbers(16, 40, 32), numbers(17, 12, 32) / 3

    def norm(x: Any, gain: Any) -> Any:
        size = lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-3)
        return x * size * gain

    def network(ids: Any) -> Any:
        x = jnp.take(table, ids, axis=0) + places
        y = norm(x, 1.1)  # plant
        q = (y @ q_).reshape(-1, 12, 4, 8)
        k = (y @ k_).reshape(-1, 12, 4, 8)
        v = (y @ v_).reshape(-1, 12, 4, 8)  # plant
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        flat = mixed.reshape(-1, 12, 32)
        x = x + flat @ o_  # plant
        h = jax.nn.silu(norm(x, 0.9) @ up)  # plant
        x = x + h @ down  # plant
        return norm(x, 1.0) @ table.T

    return network, (np.random.default_rng(3).integers(0, 40, (2, 12)).astype(np.int32),)


def masked_attention() -> Built:
    class Network(eqx.Module):
        first: eqx.nn.Linear
        attention: eqx.nn.MultiheadAttention
        norm: eqx.nn.LayerNorm
        last: eqx.nn.Linear

        def __init__(self, key: Any) -> None:
            one, two, three = jax.random.split(key, 3)
            self.first = eqx.nn.Linear(6, 16, key=one)
            self.attention = eqx.nn.MultiheadAttention(2, 16, key=two)
            self.norm = eqx.nn.LayerNorm(16)
            self.last = eqx.nn.Linear(16, 5, key=three)

        def __call__(self, x: Any, length: Any) -> Any:
            h = jax.vmap(self.first)(x)  # plant
            h = jnp.tanh(h)  # plant
            known = jnp.arange(10) < length
            mixed = self.attention(h, h, h, mask=jnp.broadcast_to(known, (10, 10)))  # plant
            h = jax.vmap(self.norm)(h + mixed)  # plant
            h = jnp.where(known[:, None], h, 0.0)
            pooled = h.sum(0, keepdims=True) / length  # plant
            return jax.vmap(self.last)(pooled)

    network = Network(jax.random.key(1))
    return network, (numbers(4, 10, 6), np.asarray(7, np.int32))


def haiku_gru() -> Built:
    def forward(x: Any) -> Any:
        core, inner = hk.GRU(12), hk.Linear(12)

        def step(state: Any, row: Any) -> Any:
            drive = jnp.tanh(inner(row))  # plant
            out, state = core(drive, state)
            state = 0.9 * state  # plant
            return state, out

        last, rows = _unroll(lambda row, state: step(state, row)[::-1], x, core.initial_state(2))[
            ::-1
        ]
        top = rows.mean(0) + last  # plant
        return hk.Linear(4)(top)

    network: Any = hk.without_apply_rng(hk.transform(forward))
    x = numbers(5, 15, 2, 6)
    params = network.init(jax.random.key(2), x)
    return lambda x: network.apply(params, x), (x,)


def gated_loop() -> Built:
    wx, wh, wo = weights(20, 8, 24), weights(21, 16, 24), weights(22, 16, 4)
    wc, lift = weights(23, 24, 16), weights(24, 8, 16)

    def network(x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            both = row @ wx + h @ wh  # plant
            mid = jax.nn.elu(both)  # plant
            new = jnp.tanh(mid @ wc)  # plant
            gate = jax.nn.sigmoid(row @ lift)
            h = gate * h + (1 - gate) * new  # plant
            return h, h.mean(-1)

        h, trace = lax.scan(step, jnp.zeros((3, 16)), x)
        return h @ wo, trace

    return network, (numbers(6, 14, 3, 8),)


def mixer() -> Built:
    class Layer(eqx.Module):
        tokens: eqx.nn.MLP
        channels: eqx.nn.MLP
        norm: eqx.nn.LayerNorm

        def __init__(self, key: Any) -> None:
            one, two = jax.random.split(key)
            self.tokens = eqx.nn.MLP(9, 9, 18, 1, key=one, activation=jax.nn.gelu)
            self.channels = eqx.nn.MLP(16, 16, 32, 1, key=two, activation=jax.nn.gelu)
            self.norm = eqx.nn.LayerNorm(16)

        def __call__(self, x: Any) -> Any:
            y = jax.vmap(self.norm)(x)  # plant
            x = x + jax.vmap(self.tokens, 1, 1)(y)  # plant
            z = jax.vmap(self.channels)(x)  # plant
            return x + z

    class Network(eqx.Module):
        layers: list[Layer]
        head: eqx.nn.Linear

        def __init__(self, key: Any) -> None:
            one, two, three = jax.random.split(key, 3)
            self.layers = [Layer(one), Layer(two)]
            self.head = eqx.nn.Linear(16, 6, key=three)

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            pooled = x.mean(0, keepdims=True)  # plant
            return jax.vmap(self.head)(pooled)

    return Network(jax.random.key(3)), (numbers(7, 9, 16),)


def unet() -> Built:
    layout = ("NHWC", "HWIO", "NHWC")
    k1, k2, k3, k4 = (
        numbers(30 + i, 3, 3, one, two) / np.float32(np.sqrt(9 * one))
        for i, (one, two) in enumerate([(3, 8), (8, 16), (16, 8), (16, 3)])
    )

    def conv(x: Any, kernel: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=layout
        )

    def network(x: Any) -> Any:
        down = jax.nn.silu(conv(x, k1))  # plant
        low = jax.nn.silu(conv(down, k2, 2))  # plant
        low = low / (1 + jnp.abs(low))  # plant
        back = conv(low, k3)
        wide = jax.image.resize(back, down.shape, "nearest")  # plant
        both = jnp.concatenate([wide, down], -1)  # plant
        return conv(both, k4)

    return network, (numbers(8, 2, 8, 8, 3),)


def graph_network() -> Built:
    random = np.random.default_rng(9)
    message, update, out = weights(40, 24, 16), weights(41, 28, 12), weights(42, 12, 3)

    def network(x: Any, senders: Any, receivers: Any) -> Any:
        for _ in range(2):
            ends = jnp.concatenate([x[senders], x[receivers]], -1)
            edge = jax.nn.relu(ends @ message)  # plant
            total = jax.ops.segment_sum(edge, receivers, num_segments=10)  # plant
            count = jax.ops.segment_sum(jnp.ones(30), receivers, num_segments=10)
            mean = total / jnp.maximum(count, 1.0)[:, None]  # plant
            new = jnp.tanh(jnp.concatenate([x, mean], -1) @ update)  # plant
            x = x + new  # plant
        return x @ out

    ends = random.integers(0, 10, (2, 30)).astype(np.int32)
    return network, (numbers(9, 10, 12), *ends)


def associative() -> Built:
    into, out, decay = weights(50, 8, 16), weights(51, 16, 8), weights(52, 8, 16)

    def network(x: Any) -> Any:
        drive = x @ into  # plant
        keep = jax.nn.sigmoid(x @ decay + 1.0)  # plant

        def join(one: Any, two: Any) -> Any:
            return one[0] * two[0], two[0] * one[1] + two[1]

        _, state = lax.associative_scan(join, (keep, (1 - keep) * drive))
        mixed = state * jax.nn.silu(drive)  # plant
        y = mixed @ out  # plant
        return y + x

    return network, (numbers(10, 24, 8),)


def variational() -> Built:
    def forward(x: Any, noise: Any) -> Any:
        h = hk.Linear(24)(x)  # plant
        h = jax.nn.leaky_relu(h)  # plant
        mean = hk.Linear(8)(h)  # plant
        spread = jax.nn.softplus(hk.Linear(8)(h))  # plant
        code = mean + spread * noise  # plant
        y = jax.nn.relu(hk.Linear(24)(code))  # plant
        rebuilt = jax.nn.sigmoid(hk.Linear(20)(y))
        cost = 0.5 * (mean**2 + spread**2 - 1 - 2 * jnp.log(spread)).sum(-1)
        return rebuilt, cost

    network: Any = hk.without_apply_rng(hk.transform(forward))
    inputs = numbers(11, 5, 20), numbers(12, 5, 8)
    params = network.init(jax.random.key(4), *inputs)
    return lambda *inputs: network.apply(params, *inputs), inputs


def flow() -> Built:
    firsts, seconds = weights(60, 4, 8, 16), weights(61, 4, 16, 16) / 2

    def network(x: Any) -> Any:
        def layer(carry: Any, params: Any) -> Any:
            x, total = carry
            one, two = jnp.split(x, 2, -1)
            h = jnp.tanh(one @ params[0])  # plant
            both = h @ params[1]  # plant
            shift, scale = jnp.split(both, 2, -1)
            scale = jnp.tanh(scale)  # plant
            two = two * jnp.exp(scale) + shift  # plant
            return (jnp.concatenate([two, one], -1), total + scale.sum(-1)), None

        (x, total), _ = lax.scan(layer, (x, jnp.zeros(5)), (firsts, seconds))
        return x, total - 0.5 * (x * x).sum(-1)

    return network, (numbers(13, 5, 16),)


def denoiser() -> Built:
    up, down = weights(70, 12, 24), weights(71, 24, 12)

    def network(x: Any) -> Any:
        def more(carry: Any) -> Any:
            return carry[0] < 6

        def step(carry: Any) -> Any:
            i, x = carry
            t = i.astype(jnp.float32) / 6
            h = jax.nn.silu(x @ up + t)  # plant
            noise = h @ down  # plant
            x = x - 0.2 * noise  # plant
            return i + 1, x

        _, x = lax.while_loop(more, step, (0, x))
        return x / (1 + jnp.abs(x)), x.mean(-1)

    return network, (numbers(14, 4, 12),)


BUILDERS: tuple[Callable[[], Built], ...] = (
    nnx_mlp,
    linen_convolutions,
    causal_transformer,
    masked_attention,
    haiku_gru,
    gated_loop,
    mixer,
    unet,
    graph_network,
    associative,
    variational,
    flow,
    denoiser,
)
