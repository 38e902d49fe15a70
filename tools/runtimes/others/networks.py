"""Layers of flax, equinox and haiku, and convolutions of every kind."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from runtimes.programs.program import floats, program, weights, whole

K = jax.random.PRNGKey(3)

R = np.random.default_rng(5)


def fill(tree):
    def one(path, a):
        if (
            not hasattr(a, "shape")
            or not hasattr(a, "dtype")
            or not jnp.issubdtype(a.dtype, jnp.floating)
        ):
            return a
        v = R.standard_normal(a.shape).astype(a.dtype) * np.sqrt(
            1 / max(1, np.prod(a.shape[:-1] or (4,)))
        )
        return jnp.asarray(
            np.abs(v) + 0.5 if "var" in jax.tree_util.keystr(path) else v.astype(a.dtype)
        )

    return jax.tree_util.tree_map_with_path(one, tree)


def linen(module, *args, **kw):
    params = fill(jax.eval_shape(lambda: module.init({"params": K, "dropout": K}, *args, **kw)))
    return lambda *a: module.apply(params, *a, **kw)


def E(make):
    p, st = eqx.partition(
        eqx.filter_eval_shape(make), lambda a: isinstance(a, jax.ShapeDtypeStruct)
    )
    return eqx.combine(fill(p), st)


def N(make):
    g, st = nnx.split(nnx.eval_shape(make))
    return nnx.merge(g, fill(st))


def haiku(f, *args):
    t = hk.transform_with_state(f)
    p, s = fill(jax.eval_shape(lambda: t.init(K, *args)))
    return lambda *a: t.apply(p, s, None, *a)[0]


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(24)(x))
        x = nn.LayerNorm()(x)
        x = nn.gelu(nn.Dense(12)(x), approximate=False)
        return nn.log_softmax(nn.Dense(5)(x))


@program(floats(3, 7))
def linen_mlp(x):
    return linen(Mlp(), np.zeros((3, 7), np.float32))(x)


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Conv(8, (5, 5), strides=(2, 2), padding="SAME")(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.leaky_relu(x)
        x = nn.avg_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        x = nn.Conv(8, (3, 3), feature_group_count=8, kernel_dilation=(2, 2))(x)
        x = nn.GroupNorm(4)(x)
        x = nn.max_pool(nn.swish(x), (2, 2), (2, 2))
        return nn.Dense(4)(x.reshape(x.shape[0], -1))


@program(floats(2, 17, 15, 3))
def linen_cnn(x):
    return linen(Cnn(), np.zeros((2, 17, 15, 3), np.float32))(x)


class Seq(nn.Module):
    @nn.compact
    def __call__(self, x, lengths):
        a = nn.RNN(nn.OptimizedLSTMCell(6))(x, seq_lengths=lengths)
        b = nn.RNN(nn.GRUCell(6), reverse=True, keep_order=True)(x, seq_lengths=lengths)
        return nn.Dense(3)(jnp.concatenate([a, b], -1))


@program(floats(2, 6, 4), np.array([6, 4], np.int32))
def linen_bidirectional_rnn(x, l):
    return linen(Seq(), np.zeros((2, 6, 4), np.float32), np.array([6, 4]))(x, l)


class Bi(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Bidirectional(nn.RNN(nn.LSTMCell(5)), nn.RNN(nn.LSTMCell(5)))(x)


@program(floats(2, 5, 3))
def linen_bilstm(x):
    return linen(Bi(), np.zeros((2, 5, 3), np.float32))(x)


class Mha(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        y = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=16)(x, x, mask=mask)
        return nn.RMSNorm()(x + y)


@program(floats(2, 5, 16), whole(5, 2, 5).astype(bool))
def linen_attention_mask(x, keep):
    m = nn.make_attention_mask(keep, keep)
    return linen(Mha(), np.zeros((2, 5, 16), np.float32), np.ones((2, 1, 5, 5), bool))(x, m)


@program(floats(2, 5, 16))
def linen_causal_bias(x):
    m = nn.make_causal_mask(jnp.ones((2, 5)))
    return linen(Mha(), np.zeros((2, 5, 16), np.float32), np.ones((2, 1, 5, 5), bool))(x, m)


class Up(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.ConvTranspose(6, (3, 3), strides=(2, 2), padding="VALID")(x)
        x = nn.elu(x)
        x = nn.ConvTranspose(4, (4, 4), strides=(2, 2), padding="SAME", use_bias=False)(x)
        return nn.sigmoid(nn.InstanceNorm()(x))


@program(floats(1, 5, 4, 3))
def linen_decoder(x):
    return linen(Up(), np.zeros((1, 5, 4, 3), np.float32))(x)


class Emb(nn.Module):
    @nn.compact
    def __call__(self, t):
        e = nn.Embed(17, 8)
        x = e(t) + self.param("pos", nn.initializers.normal(), (6, 8))
        x = nn.WeightNorm(nn.Dense(8))(x)
        return e.attend(x)


@program(whole(17, 2, 6))
def linen_tied_embedding(t):
    return linen(Emb(), np.zeros((2, 6), np.int32))(t)


class NnxBlock(nnx.Module):
    def __init__(self):
        r = nnx.Rngs(0)
        self.c1 = nnx.Conv(3, 8, (3, 3), padding="CIRCULAR", rngs=r)
        self.bn = nnx.BatchNorm(8, use_running_average=True, rngs=r)
        self.c2 = nnx.Conv(8, 8, (3, 1), padding=((2, 0), (0, 0)), rngs=r)
        self.lin = nnx.LinearGeneral((8,), (2, 4), rngs=r)

    def __call__(self, x):
        return self.lin(nnx.softplus(self.c2(nnx.relu(self.bn(self.c1(x)))).mean((1, 2))))


@program(floats(2, 6, 6, 3))
def nnx_conv_block(x):
    return N(NnxBlock)(x)


@program(floats(2, 4, 12))
def nnx_attention(x):
    m = N(lambda: nnx.MultiHeadAttention(3, 12, decode=False, rngs=nnx.Rngs(1)))
    return m(x)


@program(floats(3, 4), floats(3, 5, seed=3), floats(3, 5, seed=4))
def nnx_lstm_step(x, h, c):
    cell = N(lambda: nnx.LSTMCell(4, 5, rngs=nnx.Rngs(1)))
    return cell((c, h), x)


@program(floats(10, 4))
def nnx_gru_unrolled(xs):
    cell = N(lambda: nnx.GRUCell(4, 5, rngs=nnx.Rngs(1)))
    h = jnp.zeros(5)
    for i in range(4):
        h, _y = cell(h, xs[i])
    return h


@program(floats(3, 6))
def eqx_mlp(x):
    return jax.vmap(E(lambda: eqx.nn.MLP(6, 3, 8, 2, key=K)))(x)


@program(floats(3, 9, 9))
def eqx_conv(x):
    m = E(
        lambda: eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(3, 6, 3, padding=1, stride=2, key=K),
                eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.MaxPool2d(2, 2),
                eqx.nn.Conv2d(6, 4, 1, key=K),
                eqx.nn.AdaptiveAvgPool2d(1),
            ]
        )
    )
    return m(x)


@program(floats(7, 4))
def eqx_gru(xs):
    c = E(lambda: eqx.nn.GRUCell(4, 6, key=K))

    def f(h, x):
        h = c(x, h)
        return h, h

    return lax.scan(f, jnp.zeros(6), xs)


@program(floats(7, 4))
def eqx_lstm_reversed(xs):
    c = E(lambda: eqx.nn.LSTMCell(4, 6, key=K))

    def f(s, x):
        s = c(x, s)
        return s, s[0]

    return lax.scan(f, (jnp.zeros(6), jnp.zeros(6)), xs, reverse=True)[1]


@program(floats(5, 16))
def eqx_attention(x):
    m = E(lambda: eqx.nn.MultiheadAttention(4, 16, key=K))
    n = eqx.nn.LayerNorm(16)
    y = jax.vmap(n)(x)
    return x + m(y, y, y, mask=jnp.tril(jnp.ones((5, 5), bool)))


@program(floats(6, 8, 8))
def eqx_norms(x):
    return eqx.nn.GroupNorm(3, 6)(x), eqx.nn.RMSNorm((6, 8, 8))(x), eqx.nn.PReLU()(x)


@program(floats(4, 10))
def eqx_conv1d_transpose(x):
    return E(lambda: eqx.nn.ConvTranspose1d(4, 3, 4, stride=3, padding=1, output_padding=1, key=K))(
        x
    )


@program(floats(5, 8))
def eqx_rope(x):
    return eqx.nn.RotaryPositionalEmbedding(8)(x)


@program(floats(2, 8, 8, 3))
def haiku_residual_block(x):
    def block(x):
        y = jax.nn.relu(hk.GroupNorm(4)(hk.Conv2D(8, 3, stride=2)(x)))
        return jax.nn.relu(hk.Conv2D(8, 3)(y) + hk.Conv2D(8, 1, stride=2, with_bias=False)(x))

    return haiku(block, np.zeros((2, 8, 8, 3), np.float32))(x)


@program(floats(6, 2, 4))
def haiku_lstm(x):
    def f(x):
        core = hk.LSTM(5)
        out, s = hk.dynamic_unroll(core, x, core.initial_state(2))
        return out, s.cell

    return haiku(f, np.zeros((6, 2, 4), np.float32))(x)


@program(floats(6, 2, 4))
def haiku_gru_reverse(x):
    def f(x):
        core = hk.GRU(5)
        return hk.dynamic_unroll(core, x, core.initial_state(2), reverse=True)[0]

    return haiku(f, np.zeros((6, 2, 4), np.float32))(x)


@program(floats(6, 2, 4), (whole(3, 6, 2) == 0))
def haiku_reset_core(x, reset):
    def f(x, r):
        core = hk.ResetCore(hk.VanillaRNN(5))
        return hk.dynamic_unroll(core, (x, r), core.initial_state(2))[0]

    return haiku(f, np.zeros((6, 2, 4), np.float32), np.zeros((6, 2), bool))(x, reset)


@program(floats(2, 5, 8))
def haiku_mha(x):
    def f(x):
        return hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))(x, x, x)

    return haiku(f, np.zeros((2, 5, 8), np.float32))(x)


@program(floats(2, 7, 7, 4))
def haiku_depthwise_avgpool(x):
    def f(x):
        y = hk.DepthwiseConv2D(2, 3)(x)
        return (
            hk.AvgPool(3, 2, "SAME")(y),
            hk.MaxPool(3, 2, "SAME")(y),
            hk.LayerNorm(-1, True, True)(y),
        )

    return haiku(f, np.zeros((2, 7, 7, 4), np.float32))(x)


@program(floats(2, 3, 7, 6, 5))
def conv3d_same(x):
    return lax.conv_general_dilated(
        x, weights(4, 3, 3, 2, 3), (1, 2, 1), "SAME", rhs_dilation=(1, 1, 2)
    )


@program(floats(1, 6, 9, 9))
def conv_grouped_dilated_asym(x):
    return lax.conv_general_dilated(
        x,
        weights(9, 2, 3, 3),
        (2, 1),
        [(0, 3), (2, -1)],
        rhs_dilation=(2, 1),
        feature_group_count=3,
    )


@program(floats(1, 4, 5, 5))
def conv_lhs_dilation(x):
    return lax.conv_general_dilated(
        x, weights(6, 4, 3, 3), (1, 1), [(1, 2), (2, 1)], lhs_dilation=(2, 3)
    )


@program(floats(4, 3, 6, 6))
def conv_batch_groups(x):
    return lax.conv_general_dilated(x, weights(4, 3, 3, 3), (1, 1), "VALID", batch_group_count=2)


@program(floats(1, 6, 6, 3), floats(3, 3, 3, 4, seed=3))
def conv_weights_as_input(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@program(floats(1, 8, 8, 3))
def conv_gradient(x):
    w = weights(3, 3, 3, 4)

    def loss(x):
        return jnp.sum(
            jnp.tanh(
                lax.conv_general_dilated(
                    x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            )
            ** 2
        )

    return jax.grad(loss)(x)


@program(floats(1, 8, 8, 2))
def maxpool_gradient(x):
    f = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()
    return jax.grad(lambda x: f(x) ** 2)(x)


@program(floats(4, 6), whole(3, 4))
def train_step(x, y):
    def loss(p):
        h = jnp.tanh(x @ p[0])
        lo = h @ p[1]
        return -jnp.mean(jnp.sum(jax.nn.one_hot(y, 3) * jax.nn.log_softmax(lo), -1))

    p = (weights(6, 5), weights(5, 3))
    l, g = jax.value_and_grad(loss)(p)
    return l, jax.tree.map(lambda a, b: a - 0.1 * b, p, g)


@program(floats(1, 4, 9, 3))
def pixel_shuffle(x):
    y = x.reshape(1, 2, 2, 3, 3, 3).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(1, 6, 6, 3), jnp.einsum("bhwc,cd->bdhw", x, weights(3, 2))


@program(floats(2, 4, 8).astype(np.float16))
def half_block(x):
    w = weights(8, 8).astype(jnp.float16)
    h = jax.nn.relu(x @ w)
    m = h.astype(jnp.float32).mean(-1, keepdims=True)
    return (h - m.astype(jnp.float16)), jax.nn.softmax(h)


@program(floats(3, 9))
def many_activations(x):
    return tuple(
        f(x)
        for f in [
            jax.nn.relu6,
            jax.nn.hard_tanh,
            jax.nn.celu,
            jax.nn.selu,
            jax.nn.softplus,
            jax.nn.log_sigmoid,
            jax.nn.hard_swish,
            jax.nn.hard_sigmoid,
            jax.nn.mish,
            jax.nn.silu,
            jax.nn.soft_sign,
            jax.nn.squareplus,
            jax.nn.standardize,
        ]
    )


@program(floats(3, 8))
def gated_units(x):
    return (
        jax.nn.glu(x),
        x[:, :4] * jax.nn.gelu(x[:, 4:]),
        jax.nn.logsumexp(x, axis=1),
        jax.nn.softmax(x, axis=0, where=x > -1),
    )
