"""Networks, filters, alignments, and integer arithmetic, each as one small pipeline."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import one_hot, relu, sigmoid, silu, softmax
from runtimes.programs.program import floats, program, weights, whole


def _convolved(x, kernel, stride=1):
    dimensions = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=dimensions
    )


def _group_normed(x, groups):
    n, h, w, c = x.shape
    grouped = x.reshape(n, h, w, groups, c // groups)
    mean = grouped.mean((1, 2, 4), keepdims=True)
    variance = grouped.var((1, 2, 4), keepdims=True)
    return ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)


@program(floats(1, 12, 10, 3), np.array([7.0], np.float32))
def small_unet_with_time(x, time):
    angles = time[:, None] * jnp.exp(-jnp.arange(4) * 0.5)
    embedded = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1) @ weights(8, 6)
    first = silu(_group_normed(_convolved(x, weights(3, 3, 3, 6)), 3))
    low = (
        silu(_group_normed(_convolved(first, weights(3, 3, 6, 6), 2), 2)) + embedded[:, None, None]
    )
    low = _convolved(low, weights(3, 3, 6, 6, seed=8))
    high = jax.image.resize(low, first.shape, "nearest")
    joined = jnp.concatenate([first, high], -1)
    return _convolved(silu(_group_normed(joined, 4)), weights(1, 1, 12, 3))


def _rotated(x, positions):
    angles = positions[..., None] * 10000.0 ** (-jnp.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
    sine, cosine = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    even, odd = x[..., ::2], x[..., 1::2]
    pairs = [even * cosine - odd * sine, even * sine + odd * cosine]
    return jnp.stack(pairs, -1).reshape(x.shape)


@program(floats(2, 12), floats(2, 9, 2, 6), floats(2, 9, 2, 6, seed=1), np.array([3, 8], np.int32))
def rotary_step_with_cache_of_rows(x, keys, values, positions):
    q, k, v = ((x @ weights(12, 12, seed=i)).reshape(2, 2, 6) for i in (3, 4, 5))
    q, k = _rotated(q, positions), _rotated(k, positions)
    write = jax.vmap(lambda cache, row, at: lax.dynamic_update_slice(cache, row[None], (at, 0, 0)))
    keys, values = write(keys, k, positions), write(values, v, positions)
    scores = jnp.einsum("bhd,bthd->bht", q, keys) / jnp.sqrt(6.0)
    seen = jnp.arange(9) <= positions[:, None]
    shares = softmax(jnp.where(seen[:, None], scores, -jnp.inf))
    return jnp.einsum("bht,bthd->bhd", shares, values).reshape(2, 12), keys


EDGES = np.array([[0, 1, 2, 3, 4, 0, 2], [1, 2, 0, 4, 3, 3, 1]], np.int32)


@program(floats(6, 4), EDGES, floats(7, 2, seed=2))
def message_passing_with_gates(nodes, edges, features):
    source, target = edges
    for step in range(2):
        pairs = jnp.concatenate([nodes[source], nodes[target], features], -1)
        messages = relu(pairs @ weights(10, 5, seed=step))
        total = jax.ops.segment_sum(messages, target, 6)
        count = jax.ops.segment_sum(jnp.ones(7), target, 6)
        largest = jax.ops.segment_max(messages, target, 6)
        largest = jnp.where(jnp.isfinite(largest), largest, 0)
        gathered = jnp.concatenate([total / jnp.maximum(count, 1)[:, None], largest], -1)
        gate = sigmoid(gathered @ weights(10, 4, seed=9) + nodes @ weights(4, 4))
        nodes = gate * nodes + (1 - gate) * jnp.tanh(gathered @ weights(10, 4, seed=10))
    return nodes, nodes.sum(0)


@program(floats(11, 6), np.array([2, 2, 5, 1], np.int32))
def alignments_of_labels_to_frames(logits, labels):
    extended = jnp.zeros(9, jnp.int32).at[1::2].set(labels)
    before = jnp.pad(extended, (2, 0))[:9]
    may_skip = (extended != 0) & (extended != before) & (jnp.arange(9) > 1)
    frames = jax.nn.log_softmax(logits)[:, extended]
    first = jnp.where(jnp.arange(9) < 2, frames[0], -1e30)

    def step(alpha, frame):
        one = jnp.pad(alpha, (1, 0), constant_values=-1e30)[:9]
        two = jnp.where(may_skip, jnp.pad(alpha, (2, 0), constant_values=-1e30)[:9], -1e30)
        alpha = jnp.logaddexp(jnp.logaddexp(alpha, one), two) + frame
        return alpha, alpha

    last, all_steps = lax.scan(step, first, frames[1:])
    return -jnp.logaddexp(last[-1], last[-2]), all_steps.argmax(-1)


@program(
    whole(256, 3, 10, 9, 3, dtype=np.uint8),
    np.array([[0, 2], [3, 1], [2, 0]], np.int32),
    np.array([True, False, True]),
    floats(3, seed=4, scale=0.1),
)
def augmented_batch_of_photos(photos, corners, flips, brightness):
    def augment(photo, corner, flip, by):
        x = lax.dynamic_slice(photo, (corner[0], corner[1], 0), (7, 7, 3)) / jnp.float32(255)
        x = jnp.where(flip, x[:, ::-1], x)
        rows, columns = jnp.mgrid[:7, :7]
        is_hole = (abs(rows - corner[0] - 1) < 2) & (abs(columns - corner[1] - 2) < 2)
        return jnp.where(is_hole[..., None], 0.5, jnp.clip(x * (1 + by), 0, 1))

    return jax.vmap(augment)(photos, corners, flips, brightness)


@program(floats(3, 17))
def moving_medians_and_outliers(x):
    padded = jnp.pad(x, ((0, 0), (2, 2)), "edge")
    windows = padded[:, jnp.arange(17)[:, None] + jnp.arange(5)]
    medians = jnp.median(windows, -1)
    spread = jnp.median(jnp.abs(windows - medians[..., None]), -1)
    return medians, jnp.where(jnp.abs(x - medians) > 3 * spread + 0.1, medians, x)


@program(np.linspace(0, 3, 8).astype(np.float32) ** 1.3, floats(8), floats(20, scale=2.0))
def natural_spline(knots, heights, at):
    steps = jnp.diff(knots)
    slopes = jnp.diff(heights) / steps
    lower, diagonal, right = steps[1:-1], 2 * (steps[:-1] + steps[1:]), 6 * jnp.diff(slopes)

    def forward(state, row):
        above, value = state
        low, middle, high, r = row
        pivot = middle - low * above
        state = high / pivot, (r - low * value) / pivot
        return state, state

    rows = jnp.pad(lower, (1, 0)), diagonal, jnp.pad(lower, (0, 1)), right
    _, (upper, reduced) = lax.scan(forward, (0.0, 0.0), rows)
    _, bends = lax.scan(
        lambda after, row: (row[1] - row[0] * after,) * 2, 0.0, (upper, reduced), reverse=True
    )
    bends = jnp.pad(bends, 1)
    at = jnp.clip(jnp.abs(at), knots[0], knots[-1])
    i = jnp.clip(jnp.searchsorted(knots, at, side="right") - 1, 0, 6)
    t, h = at - knots[i], steps[i]
    slope = slopes[i] - h * (2 * bends[i] + bends[i + 1]) / 6
    return heights[i] + t * (slope + t * (bends[i] / 2 + t * (bends[i + 1] - bends[i]) / (6 * h)))


@program(floats(6, 2), floats(5, 2, seed=1))
def soft_time_warping(x, y):
    distances = ((x[:, None] - y[None]) ** 2).sum(-1)

    def soft_min(*values):
        return -0.5 * jax.nn.logsumexp(-jnp.stack(values) / 0.5, axis=0)

    def row(above, costs):
        def cell(state, inputs):
            left, corner = state
            cost, up = inputs
            value = cost + soft_min(left, up, corner)
            return (value, up), value

        _, values = lax.scan(cell, (1e6, above[0]), (costs, above[1:]))
        values = jnp.concatenate([jnp.array([1e6]), values])
        return values, values

    first = jnp.full(6, 1e6).at[0].set(0.0)
    last, table = lax.scan(row, first, distances)
    return last[-1], table


@program(floats(2, 6, 3), np.array([6, 4], np.int32))
def lstm_by_hand_in_both_directions(x, lengths):
    def run(x, seed):
        kernel, bias = weights(8, 20, seed=seed), weights(20, seed=seed + 1)

        def step(state, inputs):
            h, c = state
            row, is_inside = inputs
            gates = jnp.concatenate([row, h], -1) @ kernel + bias
            i, f, g, o = jnp.split(gates, 4, -1)
            c_next = sigmoid(f + 1) * c + sigmoid(i) * jnp.tanh(g)
            h_next = sigmoid(o) * jnp.tanh(c_next)
            keep = lambda new, old: jnp.where(is_inside[:, None], new, old)
            state = keep(h_next, h), keep(c_next, c)
            return state, jnp.where(is_inside[:, None], h_next, 0)

        inside = jnp.arange(6)[:, None] < lengths
        state, ys = lax.scan(step, (jnp.zeros((2, 5)),) * 2, (x.swapaxes(0, 1), inside))
        return state[0], ys.swapaxes(0, 1)

    back = jnp.where(jnp.arange(6) < lengths[:, None], lengths[:, None] - 1 - jnp.arange(6), 5)
    forward, ys = run(x, 11)
    backward, zs = run(jnp.take_along_axis(x, back[..., None], 1), 13)
    zs = jnp.take_along_axis(zs, back[..., None], 1)
    return jnp.concatenate([ys, zs], -1), jnp.concatenate([forward, backward], -1)


@program(floats(12, 6), floats(6, 4, seed=1))
def experts_with_capacity(tokens, router):
    shares = softmax(tokens @ router)
    expert = shares.argmax(-1)
    chosen = one_hot(expert, 4, dtype=jnp.int32)
    place = (jnp.cumsum(chosen, 0) * chosen).sum(-1) - 1
    kept = place < 4
    dispatch = one_hot(expert, 4)[:, :, None] * one_hot(jnp.where(kept, place, 4), 4)[:, None]
    inputs = jnp.einsum("tec,td->ecd", dispatch, tokens)
    hidden = jax.nn.gelu(jnp.einsum("ecd,edh->ech", inputs, weights(4, 6, 8)))
    outputs = jnp.einsum("ech,ehd->ecd", hidden, weights(4, 8, 6, seed=3))
    gate = jnp.take_along_axis(shares, expert[:, None], 1)
    combined = jnp.einsum("tec,ecd->td", dispatch, outputs) * gate
    load = chosen.sum(0) / 12 * shares.mean(0)
    return tokens + combined, load.sum() * 4, kept


@program(floats(5), np.array([3, 41], np.uint32))
def particles_that_follow(observed, key):
    def step(state, inputs):
        particles, key = state
        key, one, two = jax.random.split(key, 3)
        particles = 0.9 * particles + 0.3 * jax.random.normal(one, (16,))
        weight = softmax(-((inputs - particles) ** 2) / 0.5)
        mean = (weight * particles).sum()
        points = (jnp.arange(16) + jax.random.uniform(two)) / 16
        picked = jnp.clip(jnp.searchsorted(jnp.cumsum(weight), points), 0, 15)
        return (particles[picked], key), mean

    _, means = lax.scan(step, (jnp.linspace(-1, 1, 16), key), observed)
    return means


@program(np.linspace(0, 2, 9).astype(np.float32), floats(9, scale=0.2))
def curve_fitted_with_damping(t, noise):
    observed = 1.5 * jnp.exp(-0.8 * t) + 0.3 + noise
    residuals = lambda p: p[0] * jnp.exp(-p[1] * t) + p[2] - observed

    def step(_, state):
        p, damping = state
        r, j = residuals(p), jax.jacfwd(residuals)(p)
        move = jnp.linalg.solve(j.T @ j + damping * jnp.eye(3), -j.T @ r)
        is_better = (residuals(p + move) ** 2).sum() < (r**2).sum()
        return jnp.where(is_better, p + move, p), jnp.where(is_better, damping / 3, damping * 2)

    return lax.fori_loop(0, 4, step, (jnp.array([1.0, 1.0, 0.0]), jnp.float32(0.1)))[0]


@program(floats(64))
def spectral_gate_and_overlap_add(x):
    window = jnp.hanning(17)[:16]
    starts = jnp.arange(7)[:, None] * 8 + jnp.arange(16)
    spectra = jnp.fft.rfft(x[starts] * window)
    size = jnp.abs(spectra)
    level = jnp.quantile(size, 0.5, axis=0)
    kept = spectra * jnp.maximum(1 - level / (size + 1e-6), 0)
    frames = jnp.fft.irfft(kept, 16)
    return jnp.zeros(64).at[starts].add(frames), size.argmax(-1)


@program(floats(9, 8))
def bilateral_filter(x):
    total, weight = jnp.zeros_like(x), jnp.zeros_like(x)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            other = jnp.roll(x, (i, j), (0, 1))
            share = jnp.exp(-(i * i + j * j) / 2 - (x - other) ** 2 / 0.5)
            total, weight = total + share * other, weight + share
    return total / weight


@program(whole(255, 4, 16, dtype=np.uint8), whole(255, 16, 5, seed=1, dtype=np.uint8))
def dense_layer_of_bytes(x, kernel):
    x, kernel = x.astype(jnp.int32) - 128, kernel.astype(jnp.int32) - 120
    total = x @ kernel + jnp.arange(5) * 100
    scaled = (total * 77 + (1 << 9)) >> 10
    return jnp.clip(scaled + 3, 0, 255).astype(jnp.uint8)


@program(whole(1 << 15, 10), whole(1 << 14, 10, seed=1))
def fixed_point_filter(x, y):
    product = (x * y + (1 << 14)) >> 15
    square = (x * x) >> 16
    average = lax.scan(lambda s, v: (s + ((v - s) >> 2),) * 2, jnp.int32(0), x << 10)[1]
    return product, square, average, (x * 48271 + 11) % 65521


@program(whole(1 << 10, 12, 3, seed=6))
def order_along_a_curve(points):
    code = jnp.zeros(12, jnp.uint32)
    for axis in range(3):
        bits = points[:, axis].astype(jnp.uint32)
        for mask, by in ((0x030000FF, 16), (0x0300F00F, 8), (0x030C30C3, 4), (0x09249249, 2)):
            bits = (bits | (bits << by)) & jnp.uint32(mask)
        code = code | (bits << axis)
    return code, jnp.argsort(code)


@program((floats(9, 9, seed=5) > 0.2).astype(np.float32))
def connected_regions(mask):
    labels = jnp.arange(1.0, 82.0).reshape(9, 9) * mask

    def spread(state):
        labels, _, i = state
        wide = lax.reduce_window(labels, 0.0, lax.max, (3, 3), (1, 1), "SAME") * mask
        return wide, (wide != labels).any(), i + 1

    found, _, _ = lax.while_loop(lambda s: s[1] & (s[2] < 40), spread, (labels, jnp.bool_(True), 0))
    return found, (found == labels).sum() - (mask == 0).sum()


@program(np.array([-719468, -1, 0, 59, 18262, 19782, 2932896], np.int32))
def dates_of_days(days):
    z = days + 719468
    era = jnp.floor_divide(z, 146097)
    day = z - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    rest = day - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    date = rest - (153 * month + 2) // 5 + 1
    number = jnp.where(month < 10, month + 3, month - 9)
    return year + era * 400 + (number <= 2), number, date, (days + 4) % 7


@program(floats(4, 5), floats(4, seed=1))
def chain_of_joints(angles, lengths):
    c, s = jnp.cos(angles), jnp.sin(angles)
    zero, one = jnp.zeros_like(c), jnp.ones_like(c)
    shift = jnp.broadcast_to(lengths[:, None], c.shape)
    rows = [[c, -s, c * shift], [s, c, s * shift], [zero, zero, one]]
    frames = jnp.stack([jnp.stack(row, -1) for row in rows], -2)
    chained = lax.associative_scan(jnp.matmul, frames, axis=0)
    return chained[..., :2, 2], jnp.arctan2(chained[-1, :, 1, 0], chained[-1, :, 0, 0])


@program(floats(20, 2), floats(3, seed=3))
def mixture_density_and_running_scale(x, prior):
    def welford(state, row):
        count, mean, spread = state
        count = count + 1
        mean_next = mean + (row - mean) / count
        spread = spread + (row - mean) * (row - mean_next)
        return (count, mean_next, spread), jnp.sqrt(spread / count + 1e-3)

    zeros = jnp.zeros(2)
    (_, mean, _), scale = lax.scan(welford, (0.0, zeros, zeros), x)
    z = (x - mean) / scale
    centers, sizes = weights(3, 2), jnp.array([0.5, 1.0, 2.0])
    squares = (((z[:, None] - centers) / sizes[:, None]) ** 2).sum(-1)
    logs = jax.nn.log_softmax(prior) - squares / 2 - 2 * jnp.log(sizes)
    return jax.nn.logsumexp(logs, -1), softmax(logs).round(3).argmax(-1)


@program(floats(7, 3), floats(7, seed=2))
def fronts_and_ranked_scores(costs, scores):
    is_below = (costs[:, None] <= costs[None]).all(-1) & (costs[:, None] < costs[None]).any(-1)
    front = ~is_below.any(0)
    order = jnp.argsort(-scores)
    gains = jnp.where(front, 1.0, 0.0)[order] / jnp.log2(jnp.arange(7) + 2.0)
    best = jnp.sort(jnp.where(front, 1.0, 0.0))[::-1] / jnp.log2(jnp.arange(7) + 2.0)
    return front, gains.sum() / best.sum(), jnp.argsort(order), lax.cummax(scores)
