"""Loops, random numbers, linear algebra, Fourier transforms and float16."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from runtimes.programs.program import floats, program, weights, whole


@program(floats(5, 5))
def polar_decomposition(x):
    def step(_, y):
        return 1.5 * y - 0.5 * y @ y.T @ y

    return lax.fori_loop(0, 12, step, x / jnp.linalg.norm(x))


@program(floats(6, 4))
def gram_schmidt(x):
    def step(q, j):
        v = x[:, j] - q @ (q.T @ x[:, j])
        return q.at[:, j].set(v / jnp.linalg.norm(v)), None

    return lax.scan(step, jnp.zeros((6, 4)), jnp.arange(4))[0]


@program(floats(4, 4), floats(4, seed=1))
def gauss_elimination(a, b):
    m = jnp.concatenate([a + 4 * jnp.eye(4), b[:, None]], 1)

    def step(i, m):
        row = m[i] / m[i, i]
        factor = jnp.where(jnp.arange(4) == i, 0.0, m[:, i])
        return (m - factor[:, None] * row).at[i].set(row)

    return lax.fori_loop(0, 4, step, m)[:, -1]


@program(floats(3, 4, 4))
def batched_cholesky_logdet(x):
    a = x @ jnp.swapaxes(x, 1, 2) + 4 * jnp.eye(4)
    c = jnp.linalg.cholesky(a)
    return c, 2 * jnp.log(jnp.diagonal(c, axis1=1, axis2=2)).sum(-1)


@program(floats(4, 4), floats(4, 3, seed=1))
def solve_and_invert(a, b):
    a = a + 4 * jnp.eye(4)
    return jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.slogdet(a)


@program(floats(8, 3), floats(8, seed=1))
def logistic_regression_by_newton(x, y):
    t = (y > 0).astype(jnp.float32)

    def step(w, _):
        p = jax.nn.sigmoid(x @ w)
        h = (x * (p * (1 - p))[:, None]).T @ x + 0.1 * jnp.eye(3)
        return w - jnp.linalg.solve(h, x.T @ (p - t) + 0.1 * w), None

    return lax.scan(step, jnp.zeros(3), None, length=4)[0]


@program(floats(4, 4), floats(2, 2, seed=1))
def kronecker_and_powers(a, b):
    return jnp.kron(a, b), jnp.linalg.matrix_power(a, 3), jnp.cross(a[:, :3], a[:, 1:])


@program(floats(32))
def window_and_power_spectrum(x):
    y = jnp.fft.rfft(x * jnp.hanning(32))
    return jnp.abs(y) ** 2, jnp.angle(y[1:4] + 2)


@program(floats(2, 16))
def lowpass_by_fft(x):
    y = jnp.fft.rfft(x)
    return jnp.fft.irfft(jnp.where(jnp.arange(9) < 4, y, 0))


@program(floats(12), floats(5, seed=1))
def convolution_by_fft(x, k):
    n = 16
    return jnp.fft.irfft(jnp.fft.rfft(x, n) * jnp.fft.rfft(k, n), n), jnp.convolve(x, k)


@program(floats(8, 8))
def phase_correlation(x):
    a, b = jnp.fft.fft2(x), jnp.fft.fft2(jnp.roll(x, (2, 3), (0, 1)))
    c = jnp.fft.ifft2(b * jnp.conj(a)).real
    return c, jnp.argmax(c)


@program(floats(16))
def dct_and_back(x):
    y = jax.scipy.fft.dct(x)
    return y, jax.scipy.fft.idct(y)


@program(np.array([0, 7], np.uint32))
def random_normals_of_a_key(key):
    a, b = jax.random.split(key)
    return jax.random.normal(a, (3, 4)), jax.random.bernoulli(b, 0.3, (8,))


@program(np.array(3, np.int32))
def random_integers_and_shuffle(seed):
    key = jax.random.key(seed)
    return jax.random.randint(key, (6,), -5, 9), jax.random.permutation(key, 7)


@program(floats(4, 6))
def gumbel_sampling(logits):
    key = jax.random.key(5)
    noise = jax.random.gumbel(key, logits.shape)
    return jnp.argmax(logits + noise, -1), jax.nn.softmax((logits + noise) / 0.5)


@program(floats(5))
def random_choice_and_exponential(x):
    key = jax.random.key(11)
    return (
        jax.random.choice(key, x, (4,)),
        jax.random.exponential(key, (3,)),
        jax.random.laplace(key, (3,)),
    )


@program(floats(6, 4))
def dropout_in_scan(xs):
    def step(c, x):
        key, h = c
        key, own = jax.random.split(key)
        keep = jax.random.bernoulli(own, 0.8, (4,))
        h = jnp.tanh(h + jnp.where(keep, x / 0.8, 0))
        return (key, h), h

    return lax.scan(step, (jax.random.PRNGKey(0), jnp.zeros(4)), xs)[1]


@program(floats(3, 5))
def half_softmax_and_norm(x):
    h = x.astype(jnp.float16)
    y = jax.nn.softmax(h @ weights(5, 4).astype(jnp.float16))
    return y, (h - h.mean(-1, keepdims=True)) * lax.rsqrt(h.var(-1, keepdims=True) + 1e-3)


@program(floats(1, 6, 6, 2).astype(np.float16))
def half_convolution(x):
    w = weights(3, 3, 2, 4).astype(jnp.float16) * 0.2
    dims = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=dims)
    return jax.nn.relu(y), y.max(), jnp.argmax(y, -1)


@program(floats(6, 3).astype(np.float16))
def half_recurrence(xs):
    w = weights(3, 3).astype(jnp.float16)
    return lax.scan(lambda h, x: ((h := jnp.tanh(h @ w + x)), h), jnp.zeros(3, jnp.float16), xs)


@program(whole(9, 8).astype(np.float32))
def bfloat_weights(x):
    # Whole numbers and quarters: XLA keeps the digits that bfloat16 has not.
    w = (jnp.asarray(whole(9, 8, 4, seed=1)) - 4).astype(jnp.bfloat16) / 4
    return (x.astype(jnp.bfloat16) @ w).astype(jnp.float32), x.astype(jnp.bfloat16).astype(
        jnp.float32
    )


@program(np.array(27.0, np.float32))
def cube_root_by_bisection(x):
    def step(s):
        low, high, n = s
        mid = (low + high) / 2
        up = mid**3 < x
        return jnp.where(up, mid, low), jnp.where(up, high, mid), n + 1

    return lax.while_loop(lambda s: s[2] < 30, step, (jnp.float32(0), x, 0))[0]


@program(np.array([48, 35, 17], np.int32), np.array([36, 14, 5], np.int32))
def euclid(a, b):
    return lax.while_loop(
        lambda s: (s[1] != 0).any(),
        lambda s: (
            jnp.where(s[1] == 0, s[0], s[1]),
            jnp.where(s[1] == 0, 0, s[0] % jnp.where(s[1] == 0, 1, s[1])),
        ),
        (a, b),
    )


@program(floats(7, 2))
def scan_with_branch_and_reset(xs):
    def step(c, x):
        h, n = c
        h = lax.cond(n % 3 == 0, lambda h: jnp.zeros_like(h), lambda h: h * 0.5, h) + x
        return (h, n + 1), (h, n)

    return lax.scan(step, (jnp.zeros(2), 0), xs)


@program(floats(6, 6))
def fixed_steps_of_heat(x):
    def step(_, u):
        p = jnp.pad(u, 1, mode="edge")
        return u + 0.2 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)

    return lax.fori_loop(0, 5, step, x)


@program(floats(6, 3), floats(3, 3, seed=1))
def gradient_of_recurrence(xs, w):
    def loss(w):
        h, _ = lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros(3), xs)
        return (h * h).sum()

    return jax.value_and_grad(loss)(w)


@program(floats(4), floats(4, seed=1))
def second_derivatives(x, y):
    f = lambda v: jnp.sum(jnp.sin(v) * y) + jnp.prod(v)
    return jax.hessian(f)(x), jax.jacfwd(lambda v: v**2 * y)(x)
