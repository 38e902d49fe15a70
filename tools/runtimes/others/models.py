"""Small networks of flax, equinox, haiku and plain JAX, attention, and recurrent nets."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from runtimes.programs.program import floats, program, weights, whole

KEY = jax.random.PRNGKey(0)


def filled(tree):
    """Returns weights that do not depend on the generator of a library."""
    leaves, kind = jax.tree.flatten(tree)
    made = [
        jnp.asarray(floats(*leaf.shape, seed=17 + at, scale=0.25), leaf.dtype)
        if hasattr(leaf, "shape") and jnp.issubdtype(leaf.dtype, jnp.floating)
        else leaf
        for at, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(kind, made)


def linen(module, *arguments, **options):
    variables = filled(jax.eval_shape(lambda: module.init(KEY, *arguments, **options)))
    if "batch_stats" in variables:
        variables["batch_stats"] = jax.tree.map(jnp.abs, variables["batch_stats"])
    return module.apply(variables, *arguments, **options)


def haiku(function, *arguments):
    net = hk.without_apply_rng(hk.transform(function))
    return net.apply(filled(jax.eval_shape(net.init, KEY, *arguments)), *arguments)


def nnx_filled(make):
    graph, state = nnx.split(nnx.eval_shape(make))
    return nnx.merge(graph, filled(state))


def equinox(make):
    made = eqx.filter_eval_shape(make)
    arrays, rest = eqx.partition(made, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    return eqx.combine(filled(arrays), rest)


class InvertedResidual(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.relu6(nn.BatchNorm(use_running_average=True)(nn.Conv(12, (1, 1))(x)))
        y = nn.Conv(12, (3, 3), strides=2, feature_group_count=12, use_bias=False)(y)
        y = nn.relu6(nn.BatchNorm(use_running_average=True)(y))
        gate = nn.hard_sigmoid(nn.Dense(12)(nn.relu(nn.Dense(3)(y.mean((1, 2), keepdims=True)))))
        return nn.Conv(6, (1, 1))(y * gate)


@program(floats(2, 9, 7, 4))
def linen_inverted_residual(x):
    return linen(InvertedResidual(), x)


class DenseBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            y = nn.Conv(3, (3, 3), use_bias=False)(nn.elu(nn.LayerNorm()(x)))
            x = jnp.concatenate([x, y], -1)
        x = nn.avg_pool(x, (2, 2), (2, 2))
        return nn.Dense(4)(x.max((1, 2)))


@program(floats(1, 8, 8, 3))
def linen_dense_block(x):
    return linen(DenseBlock(), x)


class ConvNext(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.Conv(8, (7, 7), feature_group_count=8)(x)
        y = nn.LayerNorm(epsilon=1e-6)(y)
        y = nn.Dense(8)(nn.gelu(nn.Dense(24)(y)))
        return x + self.param("scale", nn.initializers.ones, (8,)) * y


@program(floats(1, 7, 6, 8))
def linen_convnext(x):
    return linen(ConvNext(), x)


def quick_gelu(x):
    return x * jax.nn.sigmoid(1.702 * x)


class TokensAndClass(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (4, 4), strides=(4, 4))(x).reshape(x.shape[0], -1, 8)
        start = self.param("class", nn.initializers.zeros, (1, 1, 8))
        x = jnp.concatenate([jnp.tile(start, (x.shape[0], 1, 1)), x], 1)
        x = x + self.param("places", nn.initializers.normal(), (1, x.shape[1], 8))
        y = nn.SelfAttention(2)(nn.LayerNorm()(x))
        x = x + y
        return nn.Dense(3)(nn.LayerNorm()(x + nn.Dense(8)(quick_gelu(nn.Dense(16)(x))))[:, 0])


@program(floats(2, 12, 8, 3))
def linen_vision_transformer(x):
    return linen(TokensAndClass(), x)


class Memory(nn.Module):
    @nn.compact
    def __call__(self, x, first):
        cell = nn.MGUCell(5)
        carry, h = nn.RNN(cell, return_carry=True, time_major=True)(x, initial_carry=first)
        return carry, nn.Dense(2)(nn.tanh(h))


@program(floats(6, 2, 3), floats(2, 5, seed=1))
def linen_minimal_gated_unit(x, first):
    return linen(Memory(), x, first)


class Highway(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            gate = nn.sigmoid(nn.Dense(6, bias_init=nn.initializers.constant(-1.0))(x))
            x = gate * nn.celu(nn.Dense(6)(x)) + (1 - gate) * x
        return nn.Einsum((6, 2, 3), "ab,bcd->acd")(x)


@program(floats(4, 6))
def linen_highway(x):
    return linen(Highway(), x)


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, tokens, kinds):
        keep = tokens > 0
        x = nn.Embed(13, 8)(tokens) + nn.Embed(2, 8)(kinds)
        x = nn.LayerNorm()(x + nn.Embed(7, 8)(jnp.arange(tokens.shape[1])))
        mask = nn.make_attention_mask(keep, keep)
        x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(2)(x, mask=mask))
        x = nn.LayerNorm()(x + nn.Dense(8)(nn.gelu(nn.Dense(12)(x), approximate=False)))
        return x, nn.tanh(nn.Dense(8)(x[:, 0]))


@program(np.array([[3, 9, 12, 5, 0, 0], [1, 2, 7, 4, 4, 11]], np.int32), whole(2, 2, 6))
def linen_bert_with_segments(tokens, kinds):
    return linen(Encoder(), tokens, kinds)


class Detector(nn.Module):
    @nn.compact
    def __call__(self, x):
        small = nn.relu(nn.Conv(6, (3, 3), strides=2)(x))
        deep = nn.relu(nn.Conv(6, (3, 3), strides=2)(small))
        up = jax.image.resize(deep, small.shape, "nearest")
        both = nn.Conv(6, (3, 3))(small + up)
        out = nn.Conv(5, (1, 1))(both).reshape(x.shape[0], -1, 5)
        return jax.nn.sigmoid(out[..., 0]), jnp.exp(jnp.clip(out[..., 1:], -4, 4))


@program(floats(1, 12, 12, 3))
def linen_feature_pyramid(x):
    return linen(Detector(), x)


class Vae(nn.Module):
    @nn.compact
    def __call__(self, x, noise):
        h = nn.softplus(nn.Dense(8)(x))
        mean, spread = jnp.split(nn.Dense(6)(h), 2, -1)
        z = mean + jnp.exp(0.5 * spread) * noise
        y = nn.Dense(x.shape[-1])(nn.selu(nn.Dense(8)(z)))
        loss = -0.5 * (1 + spread - mean**2 - jnp.exp(spread)).sum(-1)
        return jax.nn.sigmoid(y), loss + jnp.logaddexp(0, -y).sum(-1)


@program(floats(3, 7), floats(3, 3, seed=1))
def linen_autoencoder_with_noise(x, noise):
    return linen(Vae(), x, noise)


class SpatialGate(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(4, 8, (5, 5), strides=2, padding="SAME", rngs=rngs)
        self.norm = nnx.GroupNorm(8, num_groups=4, rngs=rngs)
        self.gate = nnx.Conv(2, 1, (7, 7), use_bias=False, rngs=rngs)

    def __call__(self, x):
        y = nnx.silu(self.norm(self.conv(x)))
        pooled = jnp.concatenate([y.mean(-1, keepdims=True), y.max(-1, keepdims=True)], -1)
        return y * nnx.sigmoid(self.gate(pooled))


@program(floats(2, 10, 9, 4))
def nnx_spatial_gate(x):
    return nnx_filled(lambda: SpatialGate(nnx.Rngs(0)))(x)


@program(floats(3, 6, 4))
def nnx_lstm_of_batches(x):
    cell = nnx_filled(lambda: nnx.OptimizedLSTMCell(4, 5, rngs=nnx.Rngs(0)))
    return nnx.RNN(cell, return_carry=True, reverse=True, keep_order=True)(x)


@program(whole(9, 2, 5))
def nnx_embedding_bag(tokens):
    table = nnx_filled(lambda: nnx.Embed(9, 4, rngs=nnx.Rngs(0)))
    head = nnx_filled(lambda: nnx.Linear(4, 3, rngs=nnx.Rngs(1)))
    x = table(tokens)
    return head(x.sum(1)), head(x.max(1)), table.attend(x.mean(1))


class LowRank(nnx.Module):
    def __init__(self, rngs):
        self.base = nnx.Linear(6, 4, rngs=rngs)
        self.lora = nnx.LoRA(6, 2, 4, rngs=rngs)

    def __call__(self, x):
        return nnx.gelu(self.base(x) + self.lora(x))


@program(floats(3, 6))
def nnx_low_rank(x):
    return nnx_filled(lambda: LowRank(nnx.Rngs(0)))(x)


@program(floats(1, 5, 5, 3))
def nnx_generator(x):
    up = nnx_filled(lambda: nnx.ConvTranspose(3, 6, (3, 3), strides=(2, 2), rngs=nnx.Rngs(0)))
    norm = nnx_filled(lambda: nnx.RMSNorm(6, rngs=nnx.Rngs(0)))
    to_rgb = nnx_filled(lambda: nnx.Conv(6, 3, (1, 1), rngs=nnx.Rngs(1)))
    return jnp.tanh(to_rgb(nnx.leaky_relu(norm(up(x)), 0.1)))


@program(floats(4, 12, 10))
def eqx_conv_classifier(x):
    net = equinox(
        lambda: eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(4, 6, (3, 2), stride=(2, 1), key=KEY),
                eqx.nn.Lambda(lambda x: jnp.where(x > 0, x, 0.2 * x)),
                eqx.nn.AvgPool2d(2, 2),
                eqx.nn.Lambda(jnp.ravel),
                eqx.nn.Linear(48, 5, key=KEY),
                eqx.nn.Lambda(jax.nn.log_softmax),
            ]
        )
    )
    return net(x)


@program(floats(2, 4, 3))
def eqx_transposed_and_norm(x):
    up = equinox(lambda: eqx.nn.ConvTranspose1d(4, 3, 4, stride=2, key=KEY))
    norm = eqx.nn.RMSNorm(3)
    return jax.vmap(lambda row: jax.vmap(norm, 1, 1)(jax.nn.mish(up(row))))(x)


@program(floats(6, 8))
def eqx_rotary_attention(x):
    attend = equinox(lambda: eqx.nn.MultiheadAttention(2, 8, key=KEY))
    rope = eqx.nn.RotaryPositionalEmbedding(4)

    def rotate(query, key, value):
        return jax.vmap(rope, 1, 1)(query), jax.vmap(rope, 1, 1)(key), value

    mask = jnp.tril(jnp.ones((6, 6), bool))
    return attend(x, x, x, mask=mask, process_heads=rotate)


@program(floats(5, 4))
def eqx_stacked_cells(xs):
    one = equinox(lambda: eqx.nn.GRUCell(4, 5, key=KEY))
    two = equinox(lambda: eqx.nn.LSTMCell(5, 3, key=KEY))

    def step(state, x):
        a, b = state
        a = one(x, a)
        b = two(a, b)
        return (a, b), b[0]

    return lax.scan(step, (jnp.zeros(5), (jnp.zeros(3), jnp.zeros(3))), xs)


@program(floats(2, 8, 8, 3))
def haiku_resnet_block(x):
    def net(x):
        y = hk.Conv2D(6, 3, stride=2, with_bias=False)(x)
        y = jax.nn.relu(hk.GroupNorm(3)(y))
        y = hk.Conv2D(6, 3, padding=[(2, 0), (0, 2)])(y)
        short = hk.Conv2D(6, 1, stride=2)(x)
        return hk.Linear(4)(hk.Flatten()(hk.MaxPool(2, 2, "VALID")(jax.nn.relu(y + short))))

    return haiku(net, x)


@program(whole(10, 2, 6))
def haiku_language_model(tokens):
    def net(tokens):
        x = hk.Embed(10, 8)(tokens) * np.sqrt(8)
        x = x + hk.get_parameter("places", (6, 8), init=jnp.zeros)
        mask = np.tril(np.ones((1, 1, 6, 6)))
        own = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.MultiHeadAttention(2, 4, model_size=8, w_init=jnp.zeros)(own, own, own, mask)
        x = x + hk.nets.MLP([16, 8], activation=jax.nn.gelu)(hk.LayerNorm(-1, True, True)(x))
        return hk.Linear(10)(x)

    return haiku(net, tokens)


@program(floats(4, 2, 5, 5, 3))
def haiku_conv_lstm(x):
    def net(x):
        core = hk.Conv2DLSTM((5, 5), 2, 3)
        return hk.dynamic_unroll(core, x, core.initial_state(2))[0]

    return haiku(net, x)


@program(floats(3, 9, 4))
def haiku_dilated_time_net(x):
    def net(x):
        for rate in (1, 2, 4):
            y = hk.Conv1D(8, 2, rate=rate, padding=hk.pad.causal)(x)
            a, b = jnp.split(y, 2, -1)
            x = x + jnp.tanh(a) * jax.nn.sigmoid(b)
        return hk.Linear(2)(x).mean(1)

    return haiku(net, x)


@program(floats(2, 7, 6), np.array([7, 4], np.int32))
def attention_pooling_with_lengths(x, lengths):
    scores = jnp.tanh(x @ weights(6, 5)) @ weights(5, 1, seed=8)
    keep = (jnp.arange(7) < lengths[:, None])[..., None]
    share = jax.nn.softmax(jnp.where(keep, scores, -1e9), 1)
    return (share * x).sum(1), share[..., 0]


@program(floats(1, 6, 2, 4), floats(1, 6, 2, 4, seed=1), floats(1, 6, 2, 4, seed=2))
def attention_with_linear_bias(q, k, v):
    slopes = 2.0 ** -jnp.arange(1, 3)
    far = jnp.arange(6)[:, None] - jnp.arange(6)
    bias = jnp.where(far < 0, -jnp.inf, -slopes[:, None, None] * far)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2 + bias
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@program(floats(2, 8, 4), floats(2, 8, 4, seed=1))
def attention_in_chunks(q, k):
    def chunk(state, part):
        best, total, out = state
        scores = jnp.einsum("bqd,bkd->bqk", q, part)
        high = jnp.maximum(best, scores.max(-1))
        e = jnp.exp(scores - high[..., None])
        shrink = jnp.exp(best - high)
        new = out * shrink[..., None] + jnp.einsum("bqk,bkd->bqd", e, part)
        return (high, total * shrink + e.sum(-1), new), None

    parts = k.reshape(2, 4, 2, 4).swapaxes(0, 1)
    first = (jnp.full((2, 8), -jnp.inf), jnp.zeros((2, 8)), jnp.zeros((2, 8, 4)))
    (_, total, out), _ = lax.scan(chunk, first, parts)
    return out / total[..., None]


@program(floats(1, 5, 8), whole(5, 2))
def decoding_with_cached_keys(cache, starts):
    def step(state, token):
        cache, at = state
        row = jnp.sin(token * weights(8, seed=2))
        cache = lax.dynamic_update_slice(cache, row[None, None], (0, at, 0))
        scores = jnp.where(jnp.arange(5) <= at, cache[0] @ row, -jnp.inf)
        return (cache, at + 1), jax.nn.softmax(scores) @ cache[0]

    return lax.scan(step, (cache, 1), starts)


@program(floats(3, 10), floats(10, 6, seed=1))
def experts_by_top_two(x, gate):
    share = jax.nn.softmax(x @ gate)
    best, which = lax.top_k(share, 2)
    up = weights(6, 10, 4, seed=5)
    out = jnp.einsum("bd,bkde->bke", x, up[which])
    return (jax.nn.silu(out) * (best / best.sum(-1, keepdims=True))[..., None]).sum(1)


@program(floats(7, 2, 4))
def recurrence_with_layer_norm(xs):
    wi, wh = weights(4, 12, seed=1), weights(4, 12, seed=2)

    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def step(h, x):
        a, b = norm(x @ wi), norm(h @ wh)
        r = jax.nn.sigmoid(a[:, :4] + b[:, :4])
        z = jax.nn.sigmoid(a[:, 4:8] + b[:, 4:8])
        n = jnp.tanh(a[:, 8:] + r * b[:, 8:])
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, jnp.zeros((2, 4)), xs)


@program(floats(6, 3), np.array([0, 0, 1, 0, 1, 0], bool))
def recurrence_with_resets(xs, starts):
    w = weights(3, 3)

    def step(h, item):
        x, new = item
        h = jnp.tanh(jnp.where(new, 0.0, h) @ w + x)
        return h, h.sum()

    return lax.scan(step, jnp.zeros(3), (xs, starts))


@program(floats(5, 2, 4))
def recurrence_over_two_axes(x):
    def row(above, line):
        def cell(left, item):
            value, up = item
            h = jnp.tanh(value + 0.5 * left + 0.25 * up)
            return h, h

        out = lax.scan(cell, jnp.zeros(4), (line, above))[1]
        return out, out

    return lax.scan(row, jnp.zeros((2, 4)), x)[1]


@program(floats(8, 3))
def selective_state_space(x):
    rate = -jnp.exp(weights(3, 4, seed=3))

    def step(h, row):
        width = jax.nn.softplus(row @ weights(3, 3, seed=4))
        h = jnp.exp(width[:, None] * rate) * h + (width * row)[:, None] * weights(4, seed=5)
        return h, h @ weights(4, seed=6)

    return lax.scan(step, jnp.zeros((3, 4)), x)[1] * jax.nn.silu(x)


@program(floats(10, 2))
def echo_state_with_leak(xs):
    w = weights(6, 6) * 0.3
    enter = weights(2, 6, seed=1)

    def leak(h, x):
        new = 0.7 * h + 0.3 * jnp.tanh(h @ w + x @ enter)
        return new, jnp.concatenate([new, x])

    last, rows = lax.scan(leak, jnp.zeros(6), xs)
    gram = rows.T @ rows + 0.1 * jnp.eye(8)
    return last, jnp.linalg.solve(gram, rows.T @ xs)


@program(floats(4, 6), np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], np.int32))
def graph_attention(nodes, edges):
    h = nodes @ weights(6, 4)
    ends = jnp.concatenate([h[edges[:, 0]], h[edges[:, 1]]], -1)
    e = jax.nn.leaky_relu(ends @ weights(8, seed=2), 0.2)
    high = jax.ops.segment_max(e, edges[:, 1], num_segments=4)
    share = jnp.exp(e - high[edges[:, 1]])
    total = jax.ops.segment_sum(share, edges[:, 1], num_segments=4)
    share = share / total[edges[:, 1]]
    return jax.nn.elu(jax.ops.segment_sum(share[:, None] * h[edges[:, 0]], edges[:, 1], 4))


@program(floats(3, 5), floats(3, 5, seed=1), floats(3, 5, seed=2))
def triplet_and_contrastive_losses(a, b, c):
    def unit(x):
        return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-6)

    a, b, c = unit(a), unit(b), unit(c)
    triplet = jax.nn.relu(((a - b) ** 2).sum(-1) - ((a - c) ** 2).sum(-1) + 0.2)
    logits = a @ b.T / 0.1
    return triplet, -jnp.diagonal(jax.nn.log_softmax(logits)).mean(), jnp.argmax(logits, 1)
