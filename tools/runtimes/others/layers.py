"""Small networks of flax, equinox and haiku, attention and recurrent nets."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from runtimes.programs.program import floats, program, weights, whole


def filled(tree, seed=3):
    """Returns weights that do not depend on the generator of a library."""
    leaves, kind = jax.tree.flatten(tree)
    made = [
        jnp.asarray(floats(*leaf.shape, seed=seed + at, scale=0.3), leaf.dtype)
        if hasattr(leaf, "shape") and jnp.issubdtype(leaf.dtype, jnp.floating)
        else leaf
        for at, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(kind, made)


def linen(module, *arguments):
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), *arguments))
    variables = filled(shapes)
    if "batch_stats" in variables:
        variables["batch_stats"] = jax.tree.map(jnp.abs, variables["batch_stats"])
    return lambda *given: module.apply(variables, *given)


class ResBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.Conv(4, (3, 3), use_bias=False)(x)
        y = nn.GroupNorm(2)(y)
        y = nn.swish(y)
        y = nn.Conv(x.shape[-1], (3, 3))(y)
        return nn.relu(x + y)


@program(floats(2, 8, 8, 3))
def linen_resblock(x):
    return linen(ResBlock(), x)(x)


class MixerBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = jnp.swapaxes(y, 1, 2)
        y = nn.Dense(12)(y)
        y = nn.gelu(y)
        y = nn.Dense(x.shape[1])(y)
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.Dense(16)(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[2])(nn.gelu(y, approximate=False))


@program(floats(2, 6, 8))
def linen_mixer(x):
    return linen(MixerBlock(), x)(x)


class Seq2Seq(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(11, 6)(tokens)
        carry, h = nn.RNN(nn.GRUCell(5), return_carry=True)(x)
        y = nn.RNN(nn.SimpleCell(5))(h, initial_carry=carry)
        return nn.Dense(11)(y)


@program(whole(11, 2, 7))
def linen_gru_then_simple(tokens):
    return linen(Seq2Seq(), tokens)(tokens)


class Lengths(nn.Module):
    @nn.compact
    def __call__(self, x, n):
        return nn.RNN(nn.OptimizedLSTMCell(4), return_carry=True)(x, seq_lengths=n)


@program(floats(3, 6, 2), np.array([6, 2, 4], np.int32))
def linen_lstm_lengths(x, n):
    return linen(Lengths(), x, n)(x, n)


class ConvLstm(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.RNN(nn.ConvLSTMCell(3, (3, 3)))(x)


@program(floats(1, 4, 5, 5, 2))
def linen_conv_lstm(x):
    return linen(ConvLstm(), x)(x)


class PreNorm(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        y = nn.RMSNorm()(x)
        y = nn.MultiHeadDotProductAttention(2, qkv_features=8)(y, y, mask=mask)
        x = x + y
        return x + nn.Dense(8)(nn.silu(nn.Dense(16)(nn.RMSNorm()(x))))


@program(floats(2, 5, 8), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool))
def linen_prenorm_padding(x, keep):
    mask = nn.combine_masks(nn.make_attention_mask(keep, keep), nn.make_causal_mask(keep))
    return linen(PreNorm(), x, mask)(x, mask)


@program(floats(2, 6, 6, 3))
def linen_vgg_pool(x):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(4, (3, 3), strides=2, padding="VALID")(x))
            x = nn.max_pool(x, (2, 2), strides=(1, 1), padding="SAME")
            x = nn.avg_pool(x, (2, 2), count_include_pad=False, padding="SAME")
            x = nn.BatchNorm(use_running_average=True)(x)
            return nn.log_softmax(nn.Dense(5)(x.reshape(x.shape[0], -1)))

    return linen(Net(), x)(x)


@program(floats(2, 8, 3))
def linen_weight_norm_conv1d(x):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.WeightNorm(nn.Conv(6, (3,), padding="CAUSAL"))(x)
            x = nn.glu(x)
            return nn.ConvTranspose(2, (4,), strides=(2,))(x)

    return linen(Net(), x)(x)


def nnx_filled(model):
    graph, state = nnx.split(model)
    return nnx.merge(graph, filled(state))


@program(floats(2, 4, 6))
def nnx_transformer(x):
    model = nnx_filled(nnx.MultiHeadAttention(2, 6, decode=False, rngs=nnx.Rngs(0)))
    norm = nnx.LayerNorm(6, rngs=nnx.Rngs(0))
    return x + model(norm(x), mask=nnx.make_causal_mask(x[..., 0]))


@program(floats(3, 5, 4))
def nnx_bidirectional(x):
    one = nnx_filled(nnx.GRUCell(4, 3, rngs=nnx.Rngs(0)))
    two = nnx_filled(nnx.GRUCell(4, 3, rngs=nnx.Rngs(1)))
    model = nnx.Bidirectional(nnx.RNN(one), nnx.RNN(two), rngs=nnx.Rngs(0))
    return model(x)


@program(floats(1, 6, 6, 2))
def nnx_instance_norm_unet(x):
    down = nnx_filled(nnx.Conv(2, 4, (3, 3), strides=2, rngs=nnx.Rngs(0)))
    up = nnx_filled(nnx.ConvTranspose(4, 2, (2, 2), strides=2, rngs=nnx.Rngs(0)))
    y = nnx.leaky_relu(nnx.InstanceNorm(4, rngs=nnx.Rngs(0))(down(x)), 0.2)
    return jnp.concatenate([up(y), x], -1)


@program(floats(3, 9, 9))
def eqx_adaptive_pool(x):
    pool = eqx.nn.AdaptiveAvgPool2d((2, 4))
    big = eqx.nn.AdaptiveMaxPool2d(3)
    return pool(x), big(x)


@program(floats(4, 10))
def eqx_conv_batch(x):
    conv = filled(eqx.nn.Conv1d(4, 6, 3, dilation=2, groups=2, key=jax.random.key(0)))
    norm = eqx.nn.GroupNorm(3, 6)
    return jax.nn.hard_swish(norm(conv(x)))


@program(floats(7, 4))
def eqx_scan_lstm(xs):
    cell = filled(eqx.nn.LSTMCell(4, 3, key=jax.random.key(0)))
    zero = (jnp.zeros(3), jnp.zeros(3))
    return lax.scan(lambda s, x: ((r := cell(x, s)), r[0]), zero, xs)


@program(floats(5, 8))
def eqx_perceiver(x):
    cross = filled(eqx.nn.MultiheadAttention(2, 8, key_size=8, value_size=8, key=jax.random.key(0)))
    latents = weights(3, 8, seed=9)
    mlp = filled(eqx.nn.MLP(8, 8, 12, 1, activation=jax.nn.gelu, key=jax.random.key(1)))
    y = cross(latents, x, x)
    return y + jax.vmap(mlp)(jax.vmap(eqx.nn.LayerNorm(8))(y))


@program(floats(2, 6, 6, 3))
def haiku_bottleneck(x):
    def net(x):
        y = hk.Conv2D(4, 1, with_bias=False)(x)
        y = jax.nn.relu(hk.LayerNorm(-1, True, True)(y))
        y = hk.Conv2D(4, 3, stride=2, rate=1)(y)
        y = hk.AvgPool(2, 1, "SAME")(y)
        return hk.Linear(3)(y.mean((1, 2)))

    f = hk.without_apply_rng(hk.transform(net))
    return f.apply(filled(jax.eval_shape(f.init, jax.random.key(0), x)), x)


@program(floats(5, 2, 3))
def haiku_deep_rnn(x):
    def net(x):
        core = hk.DeepRNN([hk.VanillaRNN(4), jax.nn.relu, hk.GRU(3)])
        return hk.dynamic_unroll(core, x, core.initial_state(2))

    f = hk.without_apply_rng(hk.transform(net))
    return f.apply(filled(jax.eval_shape(f.init, jax.random.key(0), x)), x)


@program(floats(2, 7, 4), whole(7, 2, 3))
def pointer_network(memory, picked):
    query = jnp.take_along_axis(memory, picked[..., None], 1)
    scores = jnp.einsum("bqd,bkd->bqk", jnp.tanh(query @ weights(4, 4)), memory)
    seen = jax.nn.one_hot(picked, 7).cumsum(1) > 0
    return jax.nn.log_softmax(jnp.where(seen, -jnp.inf, scores))


@program(floats(1, 8, 2, 4), floats(1, 8, 2, 4, seed=1), floats(1, 8, 2, 4, seed=2))
def local_window_attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(3, 0))


@program(
    floats(2, 6, 4, 8),
    floats(2, 6, 2, 8, seed=1),
    floats(2, 6, 2, 8, seed=2),
    np.array([6, 3], np.int32),
)
def grouped_query_lengths(q, k, v, n):
    return jax.nn.dot_product_attention(q, k, v, query_seq_lengths=n, key_value_seq_lengths=n)


@program(floats(2, 9, 6))
def linear_attention(x):
    q = jax.nn.elu(x @ weights(6, 4, seed=1)) + 1
    k = jax.nn.elu(x @ weights(6, 4, seed=2)) + 1
    v = x @ weights(6, 5, seed=3)
    state = jnp.cumsum(k[..., :, None] * v[..., None, :], 1)
    norm = jnp.einsum("btd,btd->bt", q, jnp.cumsum(k, 1))
    return jnp.einsum("btd,btde->bte", q, state) / norm[..., None]


@program(floats(6, 3, 4))
def gated_delta_scan(x):
    def step(state, row):
        k = row / jnp.linalg.norm(row, axis=-1, keepdims=True)
        beta = jax.nn.sigmoid(row.sum(-1))[:, None, None]
        state = state - beta * (state @ k[..., None]) * k[:, None, :]
        state = state + beta * row[..., None] * k[:, None, :]
        return state, (state @ row[..., None])[..., 0]

    return lax.scan(step, jnp.zeros((3, 4, 4)), x)
