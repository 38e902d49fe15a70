"""Images, sorting, scatter, gathers, integers and booleans."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from runtimes.programs.program import floats, program, whole

IMAGE = whole(256, 1, 12, 10, 3, dtype=np.uint8)


@program(IMAGE)
def bgr_mean_subtraction(image):
    x = image[..., ::-1].astype(jnp.float32) - jnp.array([103.9, 116.8, 123.7])
    return x.transpose(0, 3, 1, 2)


@program(IMAGE)
def hsv_of_rgb(image):
    x = image.astype(jnp.float32) / 255
    high, low = x.max(-1), x.min(-1)
    span = high - low
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    safe = jnp.where(span == 0, 1, span)
    hue = jnp.where(
        high == r, (g - b) / safe % 6, jnp.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4)
    )
    return jnp.stack([jnp.where(span == 0, 0, hue / 6), span / jnp.maximum(high, 1e-6), high], -1)


@program(IMAGE)
def letterbox(image):
    x = jax.image.resize(image.astype(jnp.float32), (1, 9, 8, 3), "bilinear", antialias=False)
    return jnp.pad(x, ((0, 0), (0, 0), (1, 0), (0, 0)), constant_values=114.0) / 255


@program(IMAGE)
def center_crop_then_nearest(image):
    x = image[:, 2:10, 1:9]
    x = jax.image.resize(x, (1, 4, 4, 3), "nearest")
    return x, x.astype(jnp.int32).sum((1, 2))


@program(IMAGE)
def threshold_and_count(image):
    gray = (image.astype(jnp.uint32) * jnp.array([77, 150, 29], jnp.uint32)).sum(-1) >> 8
    mask = gray > 127
    return mask, mask.sum((1, 2)), gray.astype(jnp.uint8)


@program(floats(1, 9, 9, 1))
def laplacian_of_gaussian(x):
    t = jnp.arange(-2, 3.0)
    g = jnp.exp(-t * t / 2)
    g = jnp.outer(g, g) / jnp.sum(jnp.outer(g, g))
    dims = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, g[..., None, None], (1, 1), "SAME", dimension_numbers=dims)
    k = jnp.array([[0, 1, 0], [1, -4, 1], [0, 1, 0.0]])
    return lax.conv_general_dilated(y, k[..., None, None], (1, 1), "SAME", dimension_numbers=dims)


@program(floats(4, 6), whole(6, 4, 3))
def scatter_rows_max(x, at):
    rows = jnp.arange(4)[:, None]
    return x.at[rows, at].max(0.5), x.at[rows, at].min(-0.5)


@program(floats(5, 3), whole(5, 7))
def scatter_mean_of_groups(x, at):
    sums = jnp.zeros((5, 3)).at[at].add(x[at] * 2)
    counts = jnp.zeros(5).at[at].add(1.0)
    return sums / jnp.maximum(counts, 1)[:, None]


@program(floats(6, 4), np.array(2, np.int32))
def update_one_row(x, at):
    return x.at[at].set(x[at] * 2), x.at[:, at].add(1.0), lax.dynamic_index_in_dim(x, at, 1)


@program(whole(20, 12))
def bincount_weighted(x):
    return jnp.bincount(x, length=20), jnp.bincount(x, weights=x * 0.5, length=20)


@program(floats(3, 9))
def sort_descending_and_unsort(x):
    order = jnp.argsort(-x, axis=1)
    best = jnp.take_along_axis(x, order, 1)
    back = jnp.argsort(order, axis=1)
    return best, order, jnp.take_along_axis(best, back, 1)


@program(whole(6, 10), whole(4, 10, seed=1), floats(10))
def sort_records(a, b, x):
    return lax.sort((a, b, x), num_keys=2)


@program(whole(50, 11))
def unique_with_counts(x):
    return jnp.unique(x, return_counts=True, return_inverse=True, size=11, fill_value=-1)


@program(floats(15))
def quantiles_and_rank(x):
    return jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), jax.scipy.stats.rankdata(x), jnp.median(x)


@program(whole(100, 4, 5, dtype=np.int64).astype(np.int32) - 50)
def integer_division_table(x):
    d = jnp.array([3, -3, 7, -7, 10], jnp.int32)
    return x // d, x % d, lax.div(x, x * 0 + d), lax.rem(x, x * 0 + d), jnp.gcd(x, d)


@program(whole(2**16, 12, dtype=np.int32))
def population_and_parity(x):
    return lax.population_count(x), lax.clz(x), jnp.bitwise_xor(x, x >> 1) & 255


@program(whole(256, 16, dtype=np.uint8))
def crc8(x):
    def bit(c, _):
        return jnp.where(c & 0x80, (c << 1) ^ 0x07, c << 1).astype(jnp.uint8), None

    def byte(c, b):
        c, _ = lax.scan(bit, c ^ b, None, length=8)
        return c, c

    return lax.scan(byte, jnp.uint8(0), x)


@program(np.random.default_rng(3).integers(0, 2**32, 6, dtype=np.uint32))
def xorshift(x):
    x = x ^ (x << 13)
    x = x ^ (x >> 17)
    x = x ^ (x << 5)
    return x, x % jnp.uint32(1000), (x >> 8).astype(jnp.float32) / 2**24


@program(whole(2, 4, 6).astype(bool), whole(2, 4, 6, seed=1).astype(bool))
def boolean_algebra(a, b):
    return a & ~b, a ^ b, (a | b).all(1), (a & b).any(0), jnp.logical_not(a).sum(), a == b, a < b


@program(floats(6, 2), floats(4, 2, seed=1))
def hausdorff(a, b):
    d = jnp.sqrt(((a[:, None] - b) ** 2).sum(-1))
    return jnp.maximum(d.min(1).max(), d.min(0).max()), d.argmin(1)


@program(np.abs(floats(6, 4)) + 0.1)
def box_iou(b):
    b = jnp.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], 1)
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    low = jnp.maximum(b[:, None, :2], b[None, :, :2])
    high = jnp.minimum(b[:, None, 2:], b[None, :, 2:])
    size = jnp.clip(high - low, 0)
    inner = size[..., 0] * size[..., 1]
    return inner / (area[:, None] + area - inner)


@program(floats(5, 4))
def running_extremes(x):
    return (
        lax.cummax(x, 0),
        lax.cummin(x, 1, reverse=True),
        lax.cumlogsumexp(x, 0),
        lax.cumprod(x, 1),
    )


@program(floats(3, 8), np.array(5, np.int32))
def roll_by_argument(x, by):
    return jnp.roll(x, by, 1), jnp.roll(x, -2, 0)


@program(floats(4, 4), floats(3, seed=1))
def diagonals(x, v):
    return (
        jnp.diag(v, 1),
        jnp.diagonal(x, 1),
        x.at[jnp.diag_indices(4)].set(0.0),
        jnp.trace(x),
        jnp.vander(v, 4),
    )


@program(floats(9))
def piecewise_choices(x):
    a = jnp.select([x < -1, x < 0, x < 1], [x * 2, -x, x * x], 5.0)
    return (
        a,
        jnp.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v + 1, 0.0]),
        jnp.digitize(x, jnp.array([-1.0, 0, 1])),
    )
