"""Image preprocessing, sorting, scatter, loops, random numbers, and linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from runtimes.programs.program import floats, program, weights, whole

PHOTO = whole(256, 9, 12, 3, dtype=np.uint8)


@program(PHOTO)
def photo_to_tensor(photo):
    x = jax.image.resize(photo.astype(jnp.float32), (6, 6, 3), "cubic")
    x = jnp.clip(jnp.round(x), 0, 255) / 127.5 - 1
    return x.transpose(2, 0, 1)[None]


@program(PHOTO)
def photo_with_gamma_and_contrast(photo):
    x = (photo / 255.0) ** (1 / 2.2)
    mean = x.mean((0, 1))
    x = jnp.clip((x - mean) * 1.3 + mean + 0.05, 0, 1)
    return (x * 255 + 0.5).astype(jnp.uint8), x


@program(PHOTO)
def photo_to_ycbcr_and_back(photo):
    m = jnp.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
    y = photo.astype(jnp.float32) @ m.T + jnp.array([0, 128.0, 128.0])
    back = jnp.linalg.solve(m, (y - jnp.array([0, 128.0, 128.0])).reshape(-1, 3).T)
    return y, back.T.reshape(photo.shape)


@program(PHOTO, np.array([2, 3], np.int32))
def photo_crop_at_and_flip(photo, corner):
    x = lax.dynamic_slice(photo, (corner[0], corner[1], 0), (5, 6, 3))
    return x[:, ::-1], jnp.rot90(x), x.max((0, 1))


@program(PHOTO)
def photo_blurred_by_box(photo):
    x = jnp.pad(photo.astype(jnp.float32), ((2, 2), (2, 2), (0, 0)), "reflect")
    total = jnp.cumsum(jnp.cumsum(x, 0), 1)
    total = jnp.pad(total, ((1, 0), (1, 0), (0, 0)))
    y = total[5:, 5:] - total[:-5, 5:] - total[5:, :-5] + total[:-5, :-5]
    return jnp.round(y / 25).astype(jnp.int32)


@program(PHOTO)
def photo_posterized(photo):
    levels = photo >> 5
    return levels << 5, photo & 0x0F, 255 - photo, jnp.where(photo > 128, 255 - photo, photo)


@program(PHOTO)
def photo_equalized_by_percentiles(photo):
    x = photo.astype(jnp.float32)
    low, high = jnp.percentile(x, 5, axis=(0, 1)), jnp.percentile(x, 95, axis=(0, 1))
    return jnp.clip((x - low) / (high - low), 0, 1)


@program(floats(8, 8))
def local_contrast_and_corners(x):
    dx = jnp.gradient(x, axis=1)
    dy = jnp.gradient(x, axis=0)

    def mean(a):
        return lax.reduce_window(a, 0.0, lax.add, (3, 3), (1, 1), "SAME") / 9

    a, b, c = mean(dx * dx), mean(dx * dy), mean(dy * dy)
    score = a * c - b * b - 0.05 * (a + c) ** 2
    return score, score == lax.reduce_window(score, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")


@program(floats(1, 6, 7, 2), floats(1, 6, 7, 2, seed=1))
def warping_by_flow(image, flow):
    rows = jnp.arange(6.0)[:, None] + flow[0, ..., 0]
    columns = jnp.arange(7.0) + flow[0, ..., 1]
    places = jnp.stack([rows, columns])

    def one(channel):
        return jax.scipy.ndimage.map_coordinates(channel, places, 1, mode="nearest")

    return jax.vmap(one, -1, -1)(image[0])


@program(floats(2, 7, 3), floats(2, 4, 3, seed=1))
def nearest_neighbors(points, queries):
    gaps = ((queries[:, :, None] - points[:, None]) ** 2).sum(-1)
    near, which = lax.top_k(-gaps, 3)
    return jnp.sqrt(-near), which, jnp.take_along_axis(points[:, None], which[..., None], 2).mean(2)


@program(floats(12), whole(4, 12))
def sorting_within_groups(x, groups):
    order = jnp.lexsort((x, groups))
    first = jnp.searchsorted(groups[order], jnp.arange(4))
    return x[order], groups[order], first, jnp.argsort(order)


@program(floats(3, 8))
def trimmed_statistics(x):
    y = jnp.sort(x, axis=1)
    spread = jnp.median(jnp.abs(x - jnp.median(x, 1, keepdims=True)), 1)
    return y[:, 2:-2].mean(1), spread, jnp.ptp(x, axis=1), jnp.partition(x, 3, axis=1)[:, 3]


@program(floats(9))
def ordered_simplex_projection(x):
    u = jnp.sort(x)[::-1]
    total = jnp.cumsum(u) - 1
    count = jnp.sum(u - total / jnp.arange(1, 10) > 0)
    return jnp.maximum(x - total[count - 1] / count, 0)


@program(whole(5, 8), floats(8, 3))
def scatter_of_many_kinds(at, rows):
    zero = jnp.zeros((5, 3))
    return (
        zero.at[at].add(rows),
        jnp.ones((5, 3)).at[at].multiply(rows),
        zero.at[at, 1].max(rows[:, 0]),
        zero.at[jnp.array([4, 0])].set(rows[:2]),
    )


@program(whole(4, 6), whole(5, 6, seed=1))
def confusion_and_scores(truth, guess):
    table = jnp.zeros((4, 5), jnp.int32).at[truth, guess].add(1)
    hits = jnp.diagonal(table)
    return table, hits / jnp.maximum(table.sum(1), 1), (truth == guess).mean()


@program(whole(6, 10), floats(10))
def run_lengths(kinds, x):
    starts = jnp.concatenate([jnp.array([True]), kinds[1:] != kinds[:-1]])
    group = jnp.cumsum(starts) - 1
    return group, jax.ops.segment_sum(x, group, 10), jnp.exp(-jax.ops.segment_min(x, group, 10))


@program(floats(7), np.array([1, 1, 0, 1, 0, 0, 1], bool))
def compaction_by_mask(x, keep):
    place = jnp.where(keep, jnp.cumsum(keep) - 1, 7)
    packed = jnp.zeros(7).at[place].set(x, mode="drop")
    return packed, jnp.flatnonzero(keep, size=7, fill_value=-1), keep.sum()


@program(floats(5, 5))
def boundary_and_triangles(x):
    at = jnp.triu_indices(5, 1)
    full = jnp.zeros((5, 5)).at[at].set(x[at])
    return full + full.T, jnp.tril(x, -1).sum(0), x.at[1:-1, 1:-1].set(0.0), x.at[::2, 1].add(9.0)


@program(np.array(137, np.int32))
def digits_and_primes(n):
    def step(state):
        n, at, digits = state
        return n // 10, at + 1, digits.at[at].set(n % 10)

    digits = lax.while_loop(lambda s: (s[0] > 0) & (s[1] < 8), step, (n, 0, jnp.zeros(8, int)))[2]
    sieve = lax.fori_loop(
        2,
        7,
        lambda i, s: s & ~((jnp.arange(40) % i == 0) & (jnp.arange(40) > i)),
        jnp.arange(40) > 1,
    )
    return digits, sieve


@program(floats(4, 4))
def loop_with_early_exit(x):
    def step(state):
        a, _, n = state
        new = a @ a / jnp.abs(a @ a).max()
        return new, jnp.abs(new - a).max(), n + 1

    first = (x @ x.T + jnp.eye(4), jnp.float32(1), 0)
    return lax.while_loop(lambda s: (s[1] > 1e-3) & (s[2] < 25), step, first)


@program(floats(6), np.array(3, np.int32))
def loop_with_branches(x, kind):
    def step(i, y):
        return lax.switch(
            (kind + i) % 3, [jnp.sin, lambda v: v * 1.5, lambda v: jnp.flip(v) - x], y
        )

    return lax.fori_loop(0, 5, step, x)


@program(floats(2, 6, 4), np.array([[5, 6], [2, 3]], np.int32))
def alignment_by_dynamic_programming(scores, lengths):
    def one(score, length):
        def row(above, line):
            def cell(left, item):
                value, up, corner = item
                best = jnp.maximum(value + corner, jnp.maximum(left, up) - 0.5)
                return best, best

            corner = jnp.concatenate([jnp.zeros(1), above[:-1]])
            new = lax.scan(cell, 0.0, (line, above, corner))[1]
            return new, new

        table = lax.scan(row, jnp.zeros(4), score)[1]
        return table[length[0] - 1, jnp.minimum(length[1], 4) - 1]

    return jax.vmap(one)(scores, lengths)


@program(floats(3), floats(3, seed=1))
def springs_with_adaptive_steps(x, v):
    def step(state):
        t, h, x, v = state
        a = -4 * x - 0.1 * v
        full = x + h * v + 0.5 * h * h * a
        half = x + 0.5 * h * v + 0.125 * h * h * a
        error = jnp.abs(full - (half + 0.5 * h * (v + 0.5 * h * a))).max()
        ok = error < 1e-2
        new = jnp.where(ok, h * 1.2, h * 0.5)
        return jnp.where(ok, t + h, t), new, jnp.where(ok, full, x), jnp.where(ok, v + h * a, v)

    def body(_, state):
        return lax.cond(state[0] < 1.0, step, lambda s: s, state)

    return lax.fori_loop(0, 20, body, (0.0, 0.1, x, v))


@program(floats(5, 3))
def expectation_maximization(x):
    def step(state, _):
        means, spread, share = state
        far = ((x[:, None] - means) ** 2).sum(-1) / spread
        r = jax.nn.softmax(jnp.log(share) - 0.5 * far - 1.5 * jnp.log(spread), 1)
        total = r.sum(0) + 1e-3
        means = r.T @ x / total[:, None]
        spread = (r * ((x[:, None] - means) ** 2).sum(-1)).sum(0) / (3 * total) + 0.1
        return (means, spread, total / total.sum()), jnp.log(total)

    return lax.scan(step, (x[:2], jnp.ones(2), jnp.full(2, 0.5)), None, length=4)


@program(floats(16))
def momentum_with_clipped_gradients(x):
    def loss(p):
        return jnp.sum(jnp.log1p(jnp.exp(-p * jnp.arange(16) / 8))) + 0.1 * jnp.sum(p * p)

    def step(state, rate):
        p, v = state
        g = jax.grad(loss)(p)
        g = g * jnp.minimum(1.0, 1.0 / (jnp.sqrt(jnp.sum(g * g)) + 1e-6))
        v = 0.9 * v + g
        return (p - rate * v, v), loss(p)

    return lax.scan(step, (x, jnp.zeros(16)), 0.1 * 0.9 ** jnp.arange(6))


@program(np.array([3, 99], np.uint32))
def noise_of_many_kinds(key):
    a, b, c = jax.random.split(key, 3)
    return (
        jax.random.uniform(a, (5,), minval=-2, maxval=3),
        jax.random.rademacher(b, (6,)),
        jax.random.truncated_normal(c, -1, 1, (4,)),
        jax.random.bits(a, (3,)),
    )


@program(floats(4, 5), np.array(12, np.int32))
def augmentation_by_noise(x, seed):
    key = jax.random.fold_in(jax.random.key(1), seed)
    keep, noise = jax.random.split(key)
    mask = jax.random.bernoulli(keep, 0.7, x.shape)
    y = jnp.where(mask, x + 0.1 * jax.random.normal(noise, x.shape), 0)
    return y, jax.random.permutation(keep, x, axis=0)


@program(floats(6), np.array([1, 2], np.uint32))
def sampling_with_temperature(logits, key):
    top, which = lax.top_k(logits / 0.7, 3)
    picked = jax.random.categorical(key, top)
    return which[picked], jax.random.choice(key, 6, (4,), p=jax.nn.softmax(logits))


@program(np.array([5, 6], np.uint32), floats(3))
def brownian_paths_in_scan(key, start):
    def step(state, _):
        key, x = state
        key, own = jax.random.split(key)
        x = x * 0.98 + 0.2 * jax.random.normal(own, (3,))
        return (key, x), x

    return lax.scan(step, (key, start), None, length=5)[1]


@program(floats(4, 4))
def square_roots_of_matrices(x):
    a = x @ x.T + 2 * jnp.eye(4)

    def step(_, state):
        y, z = state
        t = 0.5 * (3 * jnp.eye(4) - z @ y)
        return y @ t, t @ z

    norm = jnp.linalg.norm(a)
    y, z = lax.fori_loop(0, 15, step, (a / norm, jnp.eye(4)))
    return y * jnp.sqrt(norm), z / jnp.sqrt(norm)


@program(floats(5, 3), floats(5, seed=1))
def regression_with_covariance(x, y):
    design = jnp.concatenate([jnp.ones((5, 1)), x], 1)
    gram = design.T @ design + 0.01 * jnp.eye(4)
    factor = jnp.linalg.cholesky(gram)
    half = jax.scipy.linalg.solve_triangular(factor, design.T @ y, lower=True)
    w = jax.scipy.linalg.solve_triangular(factor.T, half)
    return w, jnp.linalg.inv(gram), jnp.cov(x.T), jnp.corrcoef(x.T)


@program(floats(6, 2), floats(4, 2, seed=1), floats(6, seed=2))
def gaussian_process(x, q, y):
    def kernel(a, b):
        return jnp.exp(-0.5 * ((a[:, None] - b) ** 2).sum(-1))

    factor = jax.scipy.linalg.cho_factor(kernel(x, x) + 0.1 * jnp.eye(6), lower=True)
    cross = kernel(x, q)
    mean = cross.T @ jax.scipy.linalg.cho_solve(factor, y)
    return mean, 1 - (cross * jax.scipy.linalg.cho_solve(factor, cross)).sum(0)


@program(floats(3, 3), floats(3, 3, seed=1))
def rigid_alignment(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    u, s, vt = jnp.linalg.svd(a.T @ b)
    sign = jnp.sign(jnp.linalg.det(u @ vt))
    flip = jnp.array([1.0, 1.0, 0.0]) + jnp.array([0.0, 0.0, 1.0]) * sign
    turn = u @ (flip[:, None] * vt)
    return a @ turn, s


@program(floats(4))
def quaternions_and_rotations(q):
    w, x, y, z = q / jnp.linalg.norm(q)
    turn = jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    return turn, jnp.arctan2(turn[2, 1], turn[2, 2]), jnp.arcsin(-turn[2, 0]), turn @ turn.T


@program(floats(5, 5))
def leading_parts_of_a_matrix(x):
    a = x + x.T
    values, vectors = jnp.linalg.eigh(a)
    centered = x - x.mean(0)
    return values, jnp.abs(vectors[:, -1]), jnp.linalg.norm(centered @ vectors[:, -2:], axis=1)


@program(floats(24), floats(24, seed=1))
def filters_and_envelopes(x, y):
    spectrum = jnp.fft.fft(x + 1j * y)
    kept = jnp.where(jnp.arange(24) < 12, 2 * spectrum, 0)
    back = jnp.fft.ifft(kept)
    return jnp.abs(back), jnp.convolve(x, jnp.array([0.25, 0.5, 0.25]), "same"), jnp.correlate(x, y)


@program(floats(40))
def mel_features(x):
    frames = x[jnp.arange(5)[:, None] * 8 + jnp.arange(8)] * jnp.hamming(8)
    power = jnp.abs(jnp.fft.rfft(frames, 8)) ** 2
    mel = jnp.log(power @ jnp.abs(weights(5, 4)) + 1e-6)
    return mel, mel[1:] - mel[:-1], 10 * jnp.log10(jnp.maximum(power, 1e-10))


@program(np.array([-128, -7, -1, 0, 5, 127], np.int8), np.array([3, -2, 7, 1, -5, 2], np.int8))
def quantized_arithmetic(a, b):
    wide = a.astype(jnp.int32) * b.astype(jnp.int32)
    back = jnp.clip(jnp.round(wide * 0.05), -128, 127).astype(jnp.int8)
    return wide, back, a // b, jnp.abs(a.astype(jnp.int16)), jnp.sum(a, dtype=jnp.int32)


@program(whole(1000, 8), np.array([17, 3, 250, 999], np.int32))
def hashed_buckets(x, queries):
    h = (x.astype(jnp.uint32) * jnp.uint32(2654435761)) >> 28
    table = jnp.zeros(16, jnp.int32).at[h].add(1)
    return h.astype(jnp.int32), table, jnp.isin(queries, x), (x[:, None] == queries).any(0)


@program(floats(4, 6).astype(np.float16))
def half_attention(x):
    scores = (x @ x.T).astype(jnp.float32) / np.sqrt(6)
    share = jax.nn.softmax(jnp.where(jnp.tri(4) > 0, scores, -jnp.inf)).astype(jnp.float16)
    return share @ x, jnp.linalg.norm(x.astype(jnp.float32), axis=1)
