"""Loops, recurrences, searches and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from runtimes.programs.program import floats, program, weights, whole


@program(np.array([17], np.int32))
def collatz(n):
    def body(s):
        n, c = s
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), c + 1

    return lax.while_loop(lambda s: s[0] != 1, body, (n[0], 0))


@program(whole(40, 3) + 3)
def vmapped_while(n):
    def one(n):
        return lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] // 2, s[1] + s[0]), (n, 0))

    return jax.vmap(one)(n)


@program(np.array(6, np.int32), floats(4))
def dynamic_fori(n, x):
    return lax.fori_loop(0, n, lambda i, y: y * 0.9 + i, x)


@program(np.array(2, np.int32), np.array(7, np.int32), floats(8))
def dynamic_fori_bounds(a, b, x):
    return lax.fori_loop(a, b, lambda i, y: y.at[i].add(y[i - 1]), x)


@program(floats(5, 3), floats(3, 3, seed=1))
def loop_in_scan(xs, w):
    def step(c, x):
        return lax.fori_loop(0, 3, lambda i, d: jnp.tanh(d @ w + x * i), c), c.sum()

    return lax.scan(step, jnp.zeros(3), xs)


@program(floats(6, 2))
def scan_unread(xs):
    return lax.scan(lambda c, x: (c * 2 + 1, c), jnp.float32(1), xs)


@program(floats(6, 2), whole(5, 6))
def scan_two_inputs_reverse(xs, i):
    def f(c, v):
        x, k = v
        return c * 0.5 + x[k % 2], (c, k + 1, x.max())

    return lax.scan(f, jnp.float32(0), (xs, i), reverse=True)


@program(floats(6, 2), floats(2, seed=1))
def scan_closure_int_carry(xs, s):
    def f(c, x):
        n, h, flag = c
        h = jnp.where(flag, h + x * s, h - x)
        return (n + 1, h, h.sum() > 0), (n, flag)

    return lax.scan(f, (0, jnp.zeros(2), True), xs)


@program(floats(4, 8))
def kv_cache_decode(w):
    table = weights(10, 8)

    def step(c, t):
        cache, pos, tok = c
        x = table[tok]
        cache = lax.dynamic_update_slice(cache, (x @ weights(8, 8, seed=2))[None], (pos, 0))
        s = jnp.where(jnp.arange(6) <= pos, cache @ x / jnp.sqrt(8.0), -1e9)
        y = jax.nn.softmax(s) @ cache
        tok = jnp.argmax(y @ table.T).astype(jnp.int32)
        return (cache, pos + 1, tok), tok

    return lax.scan(step, (jnp.zeros((6, 8)), 0, jnp.int32(3)), None, length=6)


@program(floats(1, 5))
def beam_search(start):
    W = weights(5, 5, seed=3) * 2
    bonus = weights(4, 5, seed=4)

    def step(c, t):
        scores, seqs = c
        lo = jax.nn.log_softmax(W[seqs[:, t]] + bonus[t])
        tot = (scores[:, None] + lo).reshape(-1)
        s, i = lax.top_k(tot, 3)
        seqs = seqs[i // 5].at[:, t + 1].set((i % 5).astype(jnp.int32))
        return (s, seqs), None

    s0 = jnp.array([0.0, -1e9, -1e9]) + start[0, :3] * 0
    (s, q), _ = lax.scan(step, (s0, jnp.zeros((3, 5), jnp.int32)), jnp.arange(4))
    return s, q


@program(floats(7, 3), floats(3, 3, seed=5))
def viterbi(e, t):
    def f(s, x):
        m = s[:, None] + t
        return m.max(0) + x, m.argmax(0)

    s, bp = lax.scan(f, e[0], e[1:])

    def b(k, p):
        return p[k], p[k]

    last = jnp.argmax(s)
    _, path = lax.scan(b, last, bp, reverse=True)
    return s.max(), path, last


@program(floats(7, 3), floats(3, 3, seed=5))
def crf_forward(e, t):
    def f(a, x):
        a = jax.nn.logsumexp(a[:, None] + t, 0) + x
        return a, a

    return lax.scan(f, e[0], e[1:])


@program(floats(6, 4), whole(4, 3) + 1)
def ctc_like(lp, labels):
    lp = jax.nn.log_softmax(lp)

    def f(a, l):
        stay = a
        move = jnp.concatenate([jnp.array([-1e30]), a[:-1]])
        return jnp.logaddexp(stay, move) + l[jnp.concatenate([jnp.array([0]), labels % 4])], None

    a, _ = lax.scan(f, jnp.array([0.0, -1e30, -1e30, -1e30]), lp)
    return a


@program(floats(3))
def ode_rk4(y):
    f = lambda y: jnp.array(
        [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
    )

    def s(y, _):
        h = 0.01
        a = f(y)
        b = f(y + h / 2 * a)
        c = f(y + h / 2 * b)
        d = f(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    return lax.scan(s, y, None, length=20)[1]


@program(np.array([2.0, 9.0, 30.0], np.float32))
def newton_sqrt(x):
    def cond(s):
        return (jnp.abs(s[0] * s[0] - x).max() > 1e-3) & (s[1] < 50)

    return lax.while_loop(cond, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0))


@program(floats(4), np.array(3.0, np.float32))
def bisection(x, t):
    f = lambda v: v**3 + v - t

    def body(_, lr):
        l, r = lr
        m = (l + r) / 2
        return jnp.where(f(m) < 0, m, l), jnp.where(f(m) < 0, r, m)

    return lax.fori_loop(0, 30, body, (x - 10, x + 10))


@program(floats(5, 2), floats(3, 2, seed=2))
def kmeans(x, c):
    def f(c, _):
        d = ((x[:, None] - c[None]) ** 2).sum(-1)
        a = d.argmin(1)
        o = jax.nn.one_hot(a, 3)
        n = o.sum(0)
        return jnp.where(n[:, None] > 0, (o.T @ x) / jnp.maximum(n, 1)[:, None], c), a

    return lax.scan(f, c, None, length=4)


@program(floats(4), np.array(1, np.int32))
def switch_in_scan(x, k):
    def f(c, i):
        c = lax.switch((i + k) % 3, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], c)
        return c, c.sum()

    return lax.scan(f, x, jnp.arange(5))


@program(floats(4), np.array(True), np.array(False))
def nested_cond(x, a, b):
    return (
        lax.cond(a, lambda: lax.cond(b, lambda: x + 1, lambda: x * 3), lambda: -x),
        lax.cond(b, lambda v: (v, v.sum()), lambda v: (v[::-1], v.max()), x),
        lax.select(a, x, -x),
    )


@program(floats(4, 3))
def vmapped_cond(x):
    return jax.vmap(lambda v: lax.cond(v.sum() > 0, lambda: v * 2, lambda: v - 1))(x), lax.map(
        lambda v: jnp.sort(v), x
    )


@program(floats(10))
def bubble_sort(x):
    def outer(i, x):
        def inner(j, x):
            a, b = x[j], x[j + 1]
            return x.at[j].set(jnp.minimum(a, b)).at[j + 1].set(jnp.maximum(a, b))

        return lax.fori_loop(0, 9, inner, x)

    return lax.fori_loop(0, 9, outer, x)


@program(np.array([[0, 3, 99, 7], [8, 0, 2, 99], [5, 99, 0, 1], [2, 99, 99, 0]], np.float32))
def floyd_warshall(d):
    return lax.fori_loop(0, 4, lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k][None]), d)


@program(whole(2, 6, 7))
def game_of_life(b):
    def s(b, _):
        n = sum(
            jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
        )
        b = ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)
        return b, b.sum()

    return lax.scan(s, b, None, length=4)


@program(whole(5, 6), whole(5, 7, seed=3))
def edit_distance(a, b):
    def row(prev, ca):
        def cell(left, v):
            up, diag, cb = v
            d = jnp.minimum(jnp.minimum(left + 1, up + 1), diag + (ca != cb))
            return d, d

        first = prev[0] + 1
        _, rest = lax.scan(cell, first, (prev[1:], prev[:-1], b))
        r = jnp.concatenate([first[None], rest])
        return r, None

    return lax.scan(row, jnp.arange(8), a)[0][-1]


@program(floats(12, 3))
def kalman(z):
    A = jnp.array([[1.0, 0.1], [0, 1.0]])
    H = jnp.array([[1.0, 0], [0, 1], [1, 1]])
    Q = 0.01 * jnp.eye(2)
    R = 0.5 * jnp.eye(3)

    def f(c, z):
        m, P = c
        m = A @ m
        P = A @ P @ A.T + Q
        S = H @ P @ H.T + R
        G = jnp.linalg.solve(S, H @ P).T
        m = m + G @ (z - H @ m)
        P = (jnp.eye(2) - G @ H) @ P
        return (m, P), m

    return lax.scan(f, (jnp.zeros(2), jnp.eye(2)), z)


@program(floats(8, 4), floats(8, 4, seed=2))
def linear_recurrence(a, b):
    f = lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1])
    return lax.associative_scan(f, (jax.nn.sigmoid(a), b)), lax.associative_scan(
        jnp.maximum, a, reverse=True
    )


@program(floats(2, 8, 4))
def mamba_like(x):
    d = jax.nn.softplus(x @ weights(4, 4))
    A = -jnp.exp(weights(4, 3, seed=3))
    B = x @ weights(4, 3, seed=4)
    C = x @ weights(4, 3, seed=5)

    def f(h, v):
        d, B, C, x = v
        h = jnp.exp(d[:, :, None] * A) * h + (d * x)[:, :, None] * B[:, None]
        return h, jnp.einsum("bds,bs->bd", h, C)

    sw = lambda t: t.swapaxes(0, 1)
    _, y = lax.scan(f, jnp.zeros((2, 4, 3)), (sw(d), sw(B), sw(C), sw(x)))
    return sw(y)


@program(floats(6, 5))
def custom_lstm_peephole(xs):
    def f(s, x):
        h, c = s
        g = x @ weights(5, 16) + h @ weights(4, 16, seed=2)
        i = jax.nn.sigmoid(g[:4] + c * 0.1)
        fgt = jax.nn.sigmoid(g[4:8] + 1.0)
        o = jax.nn.sigmoid(g[8:12])
        u = jnp.tanh(g[12:])
        c = fgt * c + i * u
        h = o * jnp.tanh(c)
        return (h, c), h

    return lax.scan(f, (jnp.zeros(4), jnp.zeros(4)), xs)


@program(floats(9, 4))
def gradient_through_scan(xs):
    def loss(w):
        def f(h, x):
            h = jnp.tanh(h @ w + x)
            return h, h

        _h, ys = lax.scan(f, jnp.zeros(4), xs)
        return (ys**2).sum()

    return jax.grad(loss)(weights(4, 4))


@program(floats(3))
def gradient_descent(x):
    f = lambda v: jnp.sum((v - jnp.arange(3.0)) ** 2) + jnp.sin(v).sum()
    return (
        lax.fori_loop(0, 10, lambda i, v: v - 0.1 * jax.grad(f)(v), x),
        jax.hessian(f)(x),
        jax.jacfwd(lambda v: v * v[::-1])(x),
    )


@program(floats(3, 4))
def adam_steps(x):
    def f(c, t):
        p, m, v = c
        g = 2 * p + jnp.cos(p)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        p = p - 0.1 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return (p, m, v), (g * g).sum()

    return lax.scan(
        f, (x, jnp.zeros_like(x), jnp.zeros_like(x)), jnp.arange(1, 6).astype(jnp.float32)
    )


@program(floats(3, 5))
def adam_steps_of_rows(x):
    def step(c, t):
        p, m = c
        m = 0.9 * m + 0.1 * jnp.cos(p)
        return (p - 0.1 * (m / (1 - 0.9**t)), m), None

    return lax.scan(step, (x, jnp.zeros_like(x)), jnp.arange(1, 6).astype(jnp.float32))[0]


@program(floats(4))
def choice_of_a_constant(x):
    scaled = lax.cond(x.sum() > 100, lambda: jnp.ones(4), lambda: jnp.sort(x))
    filled = lax.cond(x[0] > 100, lambda x: jnp.full(4, 2.0), lambda x: jnp.cumsum(x), x)
    return jnp.exp(scaled) * filled


@program(floats(5, 3))
def scan_keeps_best(xs):
    def step(best, x):
        s = (x * x).sum()
        better = s > best[0]
        best = lax.cond(better, lambda: (s, x), lambda: best)
        return best, (better, best[0])

    return lax.scan(step, (jnp.float32(-1), jnp.zeros(3)), xs)


@program(np.array(5, np.int32), whole(10, 8))
def masked_prefix(n, x):
    m = jnp.arange(8) < n
    return (
        jnp.where(m, x, 0).sum(),
        jnp.where(m, x, -1).max(),
        lax.dynamic_slice(x, (n,), (3,)),
        lax.dynamic_update_slice(x, jnp.array([1, 2]), (n + 5,)),
        lax.dynamic_index_in_dim(x, n, keepdims=False),
        x[n - 9],
        jnp.roll(x, n),
    )


@program(floats(16))
def moving_average(x):
    k = 4
    c = jnp.cumsum(jnp.concatenate([jnp.zeros(1), x]))
    idx = jnp.arange(13)[:, None] + jnp.arange(4)
    return (c[k:] - c[:-k]) / k, x[idx].std(1), x[idx].max(1)


@program(floats(5, 5))
def iterate_until_converged(x):
    a = x / (2 * jnp.abs(x).sum(1, keepdims=True))

    def body(s):
        v, _, k = s
        w = a @ v + 1
        return w, jnp.abs(w - v).max(), k + 1

    return lax.while_loop(lambda s: s[1] > 1e-5, body, (jnp.zeros(5), jnp.float32(1.0), 0))
