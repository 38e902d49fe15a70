"""Random numbers, bits, integers, special functions and linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from runtimes.programs.program import floats, program, weights, whole

KEY = np.array([7, 42], np.uint32)


@program(KEY)
def rnd_uniform(k):
    return jax.random.uniform(k, (3, 5), minval=-2, maxval=3), jax.random.normal(k, (7,))


@program(KEY)
def rnd_split(k):
    a, b, c = jax.random.split(k, 3)
    return (
        jax.random.normal(a, (2, 2)),
        jax.random.randint(b, (6,), 0, 100),
        jax.random.bernoulli(c, 0.3, (9,)),
    )


@program(KEY)
def rnd_fold(k):
    return (
        jax.random.uniform(jax.random.fold_in(k, 5), (4,)),
        jax.random.bits(k, (5,)),
        jax.random.exponential(k, (4,)),
        jax.random.laplace(k, (3,)),
        jax.random.gumbel(k, (3,)),
    )


@program(KEY, floats(3, 6))
def rnd_categorical(k, l):
    return (
        jax.random.categorical(k, l),
        jax.random.categorical(k, l, axis=0),
        jax.random.categorical(k, l[0], shape=(5,)),
    )


@program(KEY, floats(8, 2))
def rnd_permutation(k, x):
    return (
        jax.random.permutation(k, x),
        jax.random.permutation(k, 8),
        jax.random.choice(k, 8, (3,), replace=False),
        jax.random.choice(k, x[:, 0], (4,)),
    )


@program(KEY)
def rnd_truncated(k):
    return jax.random.truncated_normal(k, -2, 2, (5,)), jax.random.multivariate_normal(
        k, jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]]), (3,)
    )


@program(np.array([7], np.uint32))
def rnd_seed_input(s):
    k = jax.random.PRNGKey(s[0])
    return jax.random.normal(k, (3,)), jax.random.randint(k, (4,), -5, 5, dtype=jnp.int8)


@program(KEY, floats(4, 3))
def vae_reparam(k, x):
    mu, lv = jnp.split(x @ weights(3, 4), 2, -1)
    return mu + jnp.exp(0.5 * lv) * jax.random.normal(k, mu.shape), -0.5 * jnp.sum(
        1 + lv - mu**2 - jnp.exp(lv), -1
    )


@program(KEY)
def random_walk(k):
    def f(c, k):
        x = c + jax.random.normal(k)
        return x, x

    return lax.scan(f, 0.0, jax.random.split(k, 5))


@program(KEY, floats(6))
def metropolis(k, x):
    def step(s, k):
        a, b = jax.random.split(k)
        p = s + 0.3 * jax.random.normal(a, s.shape)
        acc = jnp.log(jax.random.uniform(b)) < 0.5 * (s @ s - p @ p)
        return jnp.where(acc, p, s), acc

    return lax.scan(step, x, jax.random.split(k, 4))


@program(
    np.array([-7, 7, -8, 8, 5, -1, 0, 2**31 - 1, -(2**31)], np.int32),
    np.array([2, -2, 3, -3, -5, 4, 7, 3, 3], np.int32),
)
def negative_division(a, b):
    return (
        a // b,
        a % b,
        lax.div(a, b),
        lax.rem(a, b),
        jnp.divmod(a, b),
        jnp.fmod(a, b),
        a / b,
        jnp.abs(a[:8]),
    )


@program(
    np.array([-7, 7, -8, 8, 5, -1, 0, 127, -128], np.int8),
    np.array([2, -2, 3, -3, -5, 4, 7, 3, 3], np.int8),
)
def int8_arithmetic(a, b):
    return (
        a // b,
        a % b,
        a + b,
        a * b,
        a - b,
        -a,
        jnp.abs(a),
        a >> 1,
        a & b,
        ~a,
        jnp.maximum(a, b),
        a < b,
        a.sum(),
        a.max(),
        jnp.sign(a),
    )


@program(np.array([0, 1, 2**31, 2**32 - 1, 123456789], np.uint32))
def bits(x):
    return (
        lax.population_count(x),
        lax.clz(x),
        x >> 3,
        x << 5,
        ~x,
        x // 7,
        x % 1000,
        x.astype(jnp.float32),
        jnp.bitwise_xor(x, x >> 16),
        x > 5,
        x.astype(jnp.int32),
        x + jnp.uint32(5),
        -x,
        jnp.minimum(x, 77),
    )


@program(
    np.array([0, 1, -1, 2**31 - 1, -(2**31), 12345], np.int32),
    np.array([0, 1, 5, 31, 3, 2], np.int32),
)
def signed_shifts(x, s):
    return (
        x << s,
        x >> s,
        lax.shift_right_logical(x, s),
        x | s,
        x ^ s,
        lax.population_count(x),
        jnp.right_shift(x, 2),
        lax.clz(x),
    )


@program(whole(256, 6, dtype=np.uint8), whole(8, 6, dtype=np.uint8, seed=4))
def uint8_bits(x, s):
    return (
        x << s,
        x >> s,
        x ^ 255,
        lax.population_count(x),
        jnp.unpackbits(x),
        jnp.packbits(x > 100),
        x * x,
        x // (s + 1),
        x % (s + 1),
        x.sum(),
        x.prod(),
        x.argmax(),
        x.astype(jnp.int8),
    )


@program(whole(60000, 5, dtype=np.uint16), whole(30000, 5, dtype=np.int16))
def int16s(a, b):
    return (
        a + a,
        a * a,
        b * b,
        a >> 4,
        b >> 2,
        b // 7,
        a % 11,
        a.astype(jnp.int16),
        jnp.maximum(a, 5),
        b.sum(),
        a.mean(),
    )


@program(floats(6))
def bit_casts(x):
    i = lax.bitcast_convert_type(x, jnp.int32)
    return (
        i,
        lax.bitcast_convert_type(i & 0x7FFFFFFF, jnp.float32),
        jnp.frexp(x),
        jnp.ldexp(x, 3),
        jnp.nextafter(x, 1.0),
        jnp.signbit(x),
        jnp.copysign(1.0, x),
    )


@program(np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.7, 3.2], np.float32))
def roundings(x):
    return (
        jnp.round(x),
        jnp.rint(x),
        jnp.trunc(x),
        jnp.floor(x),
        jnp.ceil(x),
        x.astype(jnp.int32),
        jnp.round(x, 1),
        x // 1.5,
        x % 1.5,
        jnp.fmod(x, 1.5),
        lax.round(x),
        jnp.modf(x),
        x.astype(jnp.int8),
        jnp.remainder(x, -2.0),
    )


@program(np.abs(floats(7)) + 0.1, floats(7, seed=2))
def special_functions(a, x):
    s = jax.scipy.special
    return (
        s.gammaln(a),
        s.digamma(a),
        s.erf(x),
        s.erfc(x),
        s.erfinv(x * 0.3),
        s.expit(x),
        s.logit(jnp.clip(a / 5, 0.01, 0.9)),
        s.xlogy(a, a),
        s.entr(a),
        s.i0e(x),
        s.i1e(x),
        s.log_ndtr(x),
        s.ndtri(jnp.clip(a / 5, 0.01, 0.9)),
    )


@program(np.abs(floats(7)) + 0.1, floats(7, seed=2))
def incomplete_gamma(a, x):
    s = jax.scipy.special
    return (
        s.gammainc(a, jnp.abs(x)),
        s.betainc(a, 2.0, jnp.clip(jnp.abs(x) / 4, 0, 1)),
        s.beta(a, 2.0),
        s.zeta(a + 1.5, 1.0),
    )


@program(floats(8) * 0.9)
def math_functions(x):
    return (
        jnp.sinh(x),
        jnp.cosh(x),
        jnp.tan(x),
        jnp.arcsin(x / 3),
        jnp.arccos(x / 3),
        jnp.arctan(x),
        jnp.arcsinh(x),
        jnp.arccosh(jnp.abs(x) + 1),
        jnp.arctanh(x / 3),
        jnp.cbrt(x),
        jnp.exp2(x),
        jnp.log2(jnp.abs(x)),
        jnp.log10(jnp.abs(x)),
        jnp.log1p(jnp.abs(x)),
        jnp.expm1(x),
        jnp.sinc(x),
        jnp.logaddexp(x, 0.3),
        jnp.power(jnp.abs(x), x),
        x**3,
        x**-2,
        jnp.hypot(x, 1),
        jnp.deg2rad(x),
        jnp.heaviside(x, 0.5),
        jnp.reciprocal(x),
        lax.rsqrt(jnp.abs(x)),
    )


@program(floats(8), np.abs(floats(8, seed=2)) + 0.2)
def densities(x, s):
    st = jax.scipy.stats
    return (
        st.norm.logpdf(x, 0.1, s),
        st.norm.cdf(x),
        st.beta.logpdf(jnp.clip(s / 5, 0.01, 0.99), 2, 3),
        st.gamma.logpdf(s, 2.0),
        st.t.logpdf(x, 3.0),
        st.laplace.logpdf(x),
        st.poisson.logpmf(jnp.array([0, 1, 2, 3, 4, 5, 6, 7]), s),
        st.multivariate_normal.logpdf(x[:2], jnp.zeros(2), jnp.eye(2)),
    )


@program(floats(4, 4), floats(4, 2, seed=2))
def lin_solve(a, b):
    a = a + 4 * jnp.eye(4)
    return (
        jnp.linalg.solve(a, b),
        jnp.linalg.inv(a),
        jnp.linalg.det(a),
        jnp.linalg.slogdet(a),
        jnp.linalg.matrix_power(a / 5, 3),
    )


@program(floats(3, 4, 4))
def lin_batched(a):
    s = a @ a.swapaxes(1, 2) + 2 * jnp.eye(4)
    l = jnp.linalg.cholesky(s)
    return (
        l,
        jax.scipy.linalg.solve_triangular(l[0], a[0], lower=True),
        jnp.linalg.solve(s, a),
        jnp.linalg.inv(s),
        jnp.linalg.det(s),
    )


@program(floats(5, 3))
def lin_qr(a):
    q, r = jnp.linalg.qr(a)
    return q @ r, jnp.abs(jnp.diag(r)), q.T @ q


@program(floats(4, 4))
def lin_eigh(a):
    w, v = jnp.linalg.eigh(a + a.T)
    return w, (v * w) @ v.T, jnp.linalg.eigvalsh(a @ a.T)


@program(floats(5, 3))
def lin_svd(a):
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s) @ vt, jnp.linalg.norm(a, 2), jnp.linalg.cond(a)


@program(floats(6, 3), floats(6, seed=2))
def lin_lstsq(a, b):
    return jnp.linalg.lstsq(a, b)[0], jnp.linalg.pinv(a), jnp.linalg.matrix_rank(a)


@program(floats(3, 3))
def lin_expm(a):
    return jax.scipy.linalg.expm(a * 0.5)


@program(floats(4, 4), floats(4, seed=2))
def lin_lu(a, b):
    lu, p = jax.scipy.linalg.lu_factor(a + 3 * jnp.eye(4))
    return jax.scipy.linalg.lu_solve((lu, p), b), jnp.abs(jnp.diag(lu)), p


@program(floats(4, 4), floats(4, seed=2))
def lin_cho_solve(a, b):
    c = jax.scipy.linalg.cho_factor(a @ a.T + jnp.eye(4))
    return jax.scipy.linalg.cho_solve(c, b), jax.scipy.linalg.block_diag(a[:2, :2], b[:1, None])


@program(floats(3, 5))
def lin_norms(x):
    return (
        jnp.linalg.norm(x, axis=1),
        jnp.linalg.norm(x, 1),
        jnp.linalg.norm(x, jnp.inf),
        jnp.linalg.norm(x[0], 3),
        jnp.linalg.norm(x, "nuc"),
        jnp.linalg.vector_norm(x),
        jnp.vdot(x, x),
        jnp.inner(x, x),
        jnp.tensordot(x, x, 2),
    )


@program(floats(5), floats(5, seed=1), floats(5, seed=2), floats(5, 2, seed=3))
def lin_tridiagonal(l, d, u, b):
    return lax.linalg.tridiagonal_solve(l.at[0].set(0), d + 5, u.at[-1].set(0), b)


@program(floats(4, 4))
def conjugate_gradient(a):
    s = a @ a.T + jnp.eye(4)
    return jax.scipy.sparse.linalg.cg(s, jnp.ones(4), maxiter=10)[0]


@program(floats(3, 3))
def power_iteration(a):
    s = a @ a.T

    def f(v, _):
        v = s @ v
        return v / jnp.linalg.norm(v), None

    v, _ = lax.scan(f, jnp.ones(3), None, length=20)
    return v @ s @ v


@program(floats(6), whole(1000, 6))
def mixed_dtypes(x, i):
    return (
        x + i,
        i.astype(jnp.uint8),
        x.astype(jnp.float16),
        (x > 0) * i,
        i / 7,
        i.astype(jnp.int16),
        jnp.float32(i.sum()),
        (x * 100).astype(jnp.int32),
        i.mean(),
        jnp.sqrt(i),
        i**2,
        jnp.power(2, i % 8),
        jnp.gcd(i, 12),
        jnp.lcm(i % 9 + 1, 6),
    )


@program(np.array([200000, -300000, 2**30, 7], np.int32))
def large_ints(x):
    return (
        x * 3,
        x + x,
        x // 1000,
        x % 1000,
        x * x,
        jnp.sum(x),
        jnp.prod(x),
        jnp.sort(x),
        x.max(),
        jnp.clip(x, -100000, 100001),
        x == 200000,
        x.astype(jnp.float32),
        x - 1,
        jnp.cumsum(x),
        (x[:, None] * x).sum(0),
        jnp.argmax(x),
    )


@program(floats(3, 4).astype(np.float16), floats(4, 2).astype(np.float16))
def halves(x, w):
    return (
        x @ w,
        jnp.exp(x),
        x.sum(1),
        x.max(0),
        x > 0.5,
        jnp.where(x > 0, x, x * 0.1),
        x.astype(jnp.float32).mean(),
        jnp.sort(x),
        jax.nn.softmax(x),
        jnp.cumsum(x, 1),
    )


@program(floats(4, 6))
def int8_quant(x):
    s = jnp.max(jnp.abs(x)) / 127
    q = jnp.clip(jnp.round(x / s), -128, 127).astype(jnp.int8)
    w = (weights(6, 3) * 60).astype(jnp.int8)
    acc = lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return acc, acc * s, q
