"""Images, scatters, sorts, windows, masks and transforms."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from runtimes.programs.program import floats, program, weights, whole


@program(whole(256, 1, 20, 24, 3, dtype=np.uint8))
def uint8_thumbnail(im):
    x = jax.image.resize(im.astype(jnp.float32), (1, 7, 11, 3), "bilinear")
    return jnp.clip(jnp.round(x), 0, 255).astype(jnp.uint8)


@program(whole(256, 1, 6, 8, 3, dtype=np.uint8))
def upscale_lanczos(im):
    return jax.image.resize(im.astype(jnp.float32) / 127.5 - 1, (1, 13, 16, 3), "lanczos3")


@program(whole(256, 2, 6, 6, dtype=np.uint8), whole(256, 2, 6, 6, seed=2, dtype=np.uint8))
def uint8_blend(a, b):
    mean = (a.astype(jnp.uint16) + b.astype(jnp.uint16)) // 2
    return (
        mean.astype(jnp.uint8),
        a - b,
        jnp.where(a > b, a - b, b - a),
        (a > 128) & (b < 90),
        a.max(),
        b.min(axis=1),
    )


@program(whole(256, 8, 8, dtype=np.uint8))
def histogram_equalize(im):
    h = jnp.bincount(im.reshape(-1), length=256)
    c = jnp.cumsum(h)
    return (c[im] * 255 // 64).astype(jnp.uint8)


@program(floats(40))
def histogram(x):
    return jnp.histogram(x, bins=8, range=(-2, 2))[0], jnp.histogram(x, bins=5)[1]


@program(floats(8, 8))
def sobel(x):
    k = jnp.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], jnp.float32)
    gx = jax.scipy.signal.convolve2d(x, k, mode="same")
    gy = jax.scipy.signal.convolve2d(x, k.T, mode="same")
    return jnp.hypot(gx, gy), jnp.arctan2(gy, gx)


@program(floats(1, 6, 6, 2))
def rotate_image(x):
    th = 0.3
    yy, xx = jnp.meshgrid(jnp.arange(6.0), jnp.arange(6.0), indexing="ij")
    ys = jnp.cos(th) * (yy - 2.5) - jnp.sin(th) * (xx - 2.5) + 2.5
    xs = jnp.sin(th) * (yy - 2.5) + jnp.cos(th) * (xx - 2.5) + 2.5
    return jnp.stack(
        [
            jax.scipy.ndimage.map_coordinates(x[0, ..., c], [ys, xs], 1, mode="nearest")
            for c in range(2)
        ],
        -1,
    )


@program(floats(5, 6))
def dilation_and_erosion(x):
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME"),
        lax.reduce_window(x, jnp.inf, lax.min, (3, 3), (1, 1), "SAME"),
        lax.reduce_window(
            x, 0.0, lax.add, (2, 3), (2, 1), [(1, 0), (1, 1)], window_dilation=(1, 2)
        ),
    )


@program(whole(50, 6, 6))
def integer_pools(x):
    return lax.reduce_window(
        x, jnp.iinfo(jnp.int32).min, lax.max, (2, 2), (2, 2), "VALID"
    ), lax.reduce_window(x, 0, lax.add, (3, 3), (1, 1), "SAME")


@program(whole(3, 12), floats(12))
def scatter_variants(i, v):
    z = jnp.ones(4)
    return (
        z.at[i].add(v),
        z.at[i].max(v),
        z.at[i].min(v),
        z.at[i].mul(v),
        z.at[i,].set(2.0),
        z.at[::2].add(1.0),
        z.at[-1].set(v[0]),
    )


@program(whole(7, 5), floats(5, 3))
def scatter_drop_out_of_bounds(i, v):
    z = jnp.zeros((4, 3))
    return (
        z.at[i].add(v, mode="drop"),
        z.at[i].set(1.0, mode="clip"),
        z.at[i, 1].add(v[:, 0], mode="drop"),
        z[i],
        jnp.take(z + 1, i, axis=0, mode="fill", fill_value=-3.0),
    )


@program(whole(4, 6), whole(5, 6, seed=4), floats(6))
def scatter_2d(i, j, v):
    z = jnp.zeros((4, 5))
    return (
        z.at[i, j].add(v),
        z.at[i, j].max(v),
        z.at[i[:, None], j[None]].add(1.0),
        z[i, j + 0],
        z.at[1:3, ::2].set(v[:3]),
    )


@program(whole(4, 6), whole(100, 6, seed=4))
def scatter_int(i, v):
    z = jnp.zeros(4, jnp.int32)
    return (
        z.at[i].add(v),
        z.at[i].max(v),
        z.at[i].min(v),
        jnp.zeros(4, bool).at[i].set(v > 50),
        jnp.zeros(4, jnp.uint8).at[i].add(v.astype(jnp.uint8)),
    )


@program(whole(3, 8), floats(8, 2))
def segment_everything(s, x):
    return (
        jax.ops.segment_sum(x, s, 4),
        jax.ops.segment_prod(x, s, 4),
        jax.ops.segment_max(x, s, 4),
        jax.ops.segment_min(x, s, 4),
        jax.ops.segment_sum(jnp.ones(8, jnp.int32), s, 4),
    )


@program(floats(6, 4), whole(6, 10), whole(6, 10, seed=2))
def graph_conv(x, src, dst):
    m = jax.nn.relu(x[src] @ weights(4, 4))
    agg = jax.ops.segment_sum(m, dst, 6)
    deg = jax.ops.segment_sum(jnp.ones(10), dst, 6)
    att = jnp.exp(m[:, 0] - jax.ops.segment_max(m[:, 0], dst, 6)[dst])
    return agg / jnp.maximum(deg, 1)[:, None], att / jax.ops.segment_sum(att, dst, 6)[dst]


@program(whole(5, 3, 9))
def sort_ties(x):
    return (
        jnp.sort(x, 0),
        jnp.argsort(x, axis=1),
        jnp.argsort(x, axis=1, descending=True),
        jnp.argsort(x, axis=0, stable=True),
    )


@program(whole(5, 12), floats(12))
def lexsort(a, b):
    i = jnp.lexsort((b, a))
    return i, a[i], lax.sort((a, b), num_keys=2)


@program(whole(3, 12), whole(3, 12, seed=3), floats(12))
def sort_key_value(a, b, c):
    return (
        lax.sort((a, b, c), num_keys=1),
        lax.sort((a, b, c), num_keys=2),
        jnp.sort(c, descending=True),
    )


@program(np.array([3, 1, 3, 2, 1, 9, 9, 0], np.int32))
def unique_sized(x):
    u, inv, n = jnp.unique(x, return_inverse=True, return_counts=True, size=6, fill_value=-1)
    return u, inv, n


@program(whole(2, 3, 5).astype(bool))
def nonzero_sized(m):
    i, j = jnp.nonzero(m, size=6, fill_value=-1)
    return i, j, jnp.argwhere(m, size=4), jnp.flatnonzero(m, size=9)


@program(whole(9, 4, 10).astype(np.float32))
def topk_ties(x):
    v, i = lax.top_k(x, 5)
    v2, i2 = lax.top_k(x, 3)
    v3, i3 = lax.top_k(-x, 2)
    return v, i, v2, i2, -v3, i3


@program(floats(3, 12))
def top_k_mask(x):
    v, _ = lax.top_k(x, 3)
    return (
        jnp.where(x >= v[:, -1:], x, -jnp.inf),
        jnp.partition(x, 4)[:, 4],
        jnp.argpartition(x, 2)[:, 2],
    )


@program(np.array([[1.0, np.nan, -3.0, np.inf], [0.0, -0.0, -np.inf, 2.0]], np.float32))
def nan_handling(x):
    return (
        jnp.nan_to_num(x),
        jnp.isnan(x),
        jnp.isfinite(x),
        jnp.isposinf(x),
        jnp.nanmax(x, 1),
        jnp.nansum(x[:, :2]),
        jnp.max(x),
        jnp.min(x, 1),
        jnp.clip(x, -1, 1),
        jnp.sign(x),
        jnp.maximum(x, 0.5),
        jnp.where(jnp.isnan(x), 0.0, x),
        jnp.nanmean(x[:, :2], 1),
        x == x,
    )


@program(np.array([[1.0, np.nan, -3.0, 5.0], [0.0, -0.0, 7.0, 2.0]], np.float32))
def nan_sorting(x):
    return (
        jnp.sort(x),
        jnp.argsort(x),
        jnp.argmax(x, 1),
        jnp.argmin(x, 1),
        jnp.nanargmax(x, 1),
        jnp.median(x[1]),
        jnp.cumsum(x, 1),
    )


@program(floats(9), floats(5, seed=4))
def searches(x, q):
    s = jnp.sort(x)
    return (
        jnp.searchsorted(s, q),
        jnp.searchsorted(s, q, side="right"),
        jnp.digitize(q, s),
        jnp.interp(q, s, jnp.arange(9.0)),
        jnp.searchsorted(s, q, method="sort"),
    )


@program(whole(20, 9), whole(20, 5, seed=3))
def int_searches(x, q):
    s = jnp.sort(x)
    return (
        jnp.searchsorted(s, q),
        jnp.isin(q, x),
        jnp.searchsorted(s, q, side="right") - jnp.searchsorted(s, q),
    )


@program(floats(4, 5), whole(9, 4, 5))
def cumulatives(x, i):
    return (
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        lax.cummax(x, 1),
        lax.cummin(x, 0),
        lax.cumlogsumexp(x, 1),
        jnp.cumsum(i, 0),
        lax.cumsum(x, 0, reverse=True),
        lax.cummax(i, 1, reverse=True),
        jnp.cumsum(i > 4, 1),
    )


@program(floats(2, 3, 4), floats(2, 4, 5, seed=3), floats(4, 4, seed=5))
def einsums(a, b, c):
    return (
        jnp.einsum("bij,bjk->bki", a, b),
        jnp.einsum("bij,bij->i", a, a),
        jnp.einsum("ii->i", c),
        jnp.einsum("ii", c),
        jnp.einsum("bij->ji", a),
        jnp.einsum("bij,jk,bkl->bil", a, c, b),
        jnp.einsum("...j,j->...", a, c[0]),
        jnp.einsum("i,j->ij", c[0], c[1]),
    )


@program(floats(3, 4, 5))
def reshuffles(x):
    return (
        jnp.flip(x, (0, 2)),
        jnp.roll(x, (1, -2), (0, 2)),
        jnp.moveaxis(x, 0, -1),
        jnp.repeat(x, 2, 1),
        jnp.tile(x, (2, 1, 1)),
        jnp.rot90(x, 1, (1, 2)),
        jnp.stack(jnp.split(x, 2, 1), 0),
        jnp.concatenate([x, x[:, :1]], 1),
    )


@program(floats(3, 4))
def paddings(x):
    return (
        jnp.pad(x, 1),
        jnp.pad(x, ((0, 2), (1, 0)), constant_values=3.0),
        jnp.pad(x, 2, mode="wrap"),
        jnp.pad(x, 1, mode="symmetric"),
        lax.pad(x, 0.5, [(1, -1, 1), (-1, 2, 2)]),
        jnp.pad(x, 1, mode="edge"),
        jnp.pad(x, 2, mode="linear_ramp"),
        jnp.pad(x, 1, mode="maximum"),
    )


@program(whole(2, 5, 7).astype(bool), whole(2, 7, seed=3).astype(bool))
def bool_ops(a, b):
    return (
        a & b,
        a | b,
        a ^ b,
        ~a,
        a.any(0),
        a.all(1),
        a.sum(1),
        jnp.logical_xor(a, b).mean(),
        a == b,
        a.argmax(1),
        jnp.where(a, b, ~b),
        jnp.cumsum(a, 1),
        a.astype(jnp.float32) @ jnp.ones((7, 2)),
        a > b,
        a.max(1),
        jnp.count_nonzero(a, 0),
    )


@program(floats(4, 5))
def triangles(x):
    return (
        jnp.tril(x, -1),
        jnp.triu(x, 1),
        jnp.diag(x[0]),
        jnp.diagonal(x, 1),
        jnp.eye(4, 5) * x,
        jnp.tri(3),
        jnp.fill_diagonal(x, 9.0, inplace=False),
        jnp.vander(x[0], 3),
        jnp.kron(x[:2, :2], x[2:, 3:]),
        jnp.outer(x[0], x[1]),
        jnp.cross(x[:, :3], x[:, 1:4]),
    )


@program(floats(5), floats(6, seed=1))
def signals(a, b):
    return (
        jnp.convolve(a, b),
        jnp.correlate(a, b, "same"),
        jnp.convolve(b, a, "valid"),
        jnp.gradient(b),
        jnp.diff(b, 2),
        jnp.trapezoid(b),
        jnp.ediff1d(a),
        jnp.unwrap(b * 5),
        jnp.polyval(a, b),
        jnp.polyfit(jnp.arange(6.0), b, 2),
    )


@program(floats(64))
def stft(x):
    _f, _t, z = jax.scipy.signal.stft(x, nperseg=16)
    return jnp.abs(z)


@program(floats(3, 8))
def ffts(x):
    z = jnp.fft.fft(x)
    return (
        jnp.real(z),
        jnp.imag(z),
        jnp.abs(jnp.fft.rfft(x)),
        jnp.fft.irfft(jnp.fft.rfft(x) * 2),
        jnp.real(jnp.fft.ifft(z * 1j)),
        jnp.fft.fftfreq(8),
        jnp.fft.fftshift(x, 1),
    )


@program(floats(4, 6))
def fft2_conv(x):
    k = jnp.fft.rfft2(jnp.ones((4, 6)) / 24)
    return jnp.fft.irfft2(jnp.fft.rfft2(x) * k, s=(4, 6)), jnp.angle(jnp.fft.rfft2(x))[1:3, 1:3]


@program(floats(4), floats(4, seed=1))
def complex_numbers(a, b):
    z = a + 1j * b
    w = jnp.exp(1j * b) * z / (z + 2)
    return jnp.abs(w), w.real, jnp.conj(w).imag, jnp.angle(w), jnp.sqrt(z).real


@program(
    np.array(
        [[10.0, 10, 20, 20], [11, 11, 21, 21], [50, 50, 60, 60], [12, 9, 22, 19], [51, 51, 59, 61]],
        np.float32,
    ),
    np.array([0.9, 0.8, 0.7, 0.95, 0.6], np.float32),
)
def nms(boxes, scores):
    order = jnp.argsort(-scores)
    b = boxes[order]
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    lt = jnp.maximum(b[:, None, :2], b[None, :, :2])
    rb = jnp.minimum(b[:, None, 2:], b[None, :, 2:])
    wh = jnp.clip(rb - lt, 0)
    inter = wh[..., 0] * wh[..., 1]
    iou = inter / (area[:, None] + area[None] - inter)

    def body(i, keep):
        sup = (iou[i] > 0.5) & (jnp.arange(5) > i) & keep[i]
        return keep & ~sup

    keep = lax.fori_loop(0, 5, body, jnp.ones(5, bool))
    return order, keep, jnp.where(keep, scores[order], 0)


@program(floats(2, 4, 4, 3), floats(2, 3, 3, 2, seed=4))
def grid_sample(x, g):
    def one(x, g):
        p = (g * 0.3 + 0.5) * 3
        f = jnp.floor(p)
        d = p - f
        i = f.astype(jnp.int32)

        def at(dy, dx):
            return x[jnp.clip(i[..., 0] + dy, 0, 3), jnp.clip(i[..., 1] + dx, 0, 3)]

        a = at(0, 0) * (1 - d[..., 1:]) + at(0, 1) * d[..., 1:]
        b = at(1, 0) * (1 - d[..., 1:]) + at(1, 1) * d[..., 1:]
        return a * (1 - d[..., :1]) + b * d[..., :1]

    return jax.vmap(one)(x, g)


@program(floats(4, 6), np.array([2, 0, 3, 1], np.int32))
def take_along(x, i):
    return (
        jnp.take_along_axis(x, i[:, None], 1),
        x[jnp.arange(4), i],
        jnp.put_along_axis(x, i[:, None], 0.0, 1, inplace=False),
        jnp.choose(i % 2, [x[:, 0], x[:, 1]], mode="clip"),
        jnp.select([x > 1, x < -1], [x * 2, x * 3], 0),
        jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * v]),
    )


@program(floats(6, 5))
def statistics_more(x):
    return (
        jnp.percentile(x, jnp.array([10.0, 50.0, 90.0]), axis=0),
        jnp.corrcoef(x),
        jnp.average(x, 0, weights=jnp.arange(6.0)),
        jnp.var(x, ddof=1),
        jax.scipy.special.logsumexp(x, 1),
        jnp.quantile(x, 0.25, method="nearest"),
        jnp.nanstd(x),
        jnp.histogram_bin_edges(x, 4),
        jnp.ptp(x, 0),
    )
