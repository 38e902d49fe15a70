"""Functions of `jnp`, `lax`, `jax.nn` and `jax.scipy` with their less common arguments."""

from __future__ import annotations

from typing import Any

from .integers import EXACT, INTEGERS
from .operations import ANY, Operation, axis, binary, both, choice, two_axes, unary

KEEP: dict[str, Any] = {"keeps": True, "moves": True}
JUMP: dict[str, Any] = {"jumps": True}
FLAGS = (True, False)


def arrays() -> list[Operation]:
    """Functions of `jnp` that move, count and compare."""
    return [
        unary("jnp.rot90({0}, {n})", ANY, rank=2, draw=choice(n=(1, 2, 3, -1)), **KEEP),
        unary("jnp.moveaxis({0}, {axis}, {other})", ANY, rank=1, draw=two_axes, **KEEP),
        unary("jnp.block([[{0}, {0}], [{0}, {0}]])", ANY, rank=1, **KEEP),
        unary("jnp.delete({0}, {n}, axis=0)", ANY, rank=1, draw=choice(n=(0, -1, 1)), **KEEP),
        unary("jnp.insert({0}, {n}, 1, axis=0)", ANY, rank=1, draw=choice(n=(0, -1, 1)),
              keeps=True),
        unary("jnp.append({0}, {0}[:1], axis=0)", ANY, rank=1, **KEEP),
        unary("jnp.resize({0}, ({n}, 3))", ANY, draw=choice(n=(1, 2, 5)), **KEEP),
        unary("jnp.fill_diagonal({0}, 1, inplace=False)", ANY, rank=2, keeps=True),
        unary("{0}[jnp.tril_indices(2)]", ANY, rank=2, **KEEP),
        unary("jnp.pad({0}, [(1, 2)] * {0}.ndim, mode={mode!r})", "f", rank=1,
              draw=choice(mode=("linear_ramp", "mean", "maximum", "symmetric"))),
        unary("jnp.expand_dims({0}, ({axis},)).swapaxes(0, -1)", ANY, rank=1, draw=two_axes,
              **KEEP),
        unary("jnp.stack(jnp.meshgrid({0}.reshape(-1), {0}.reshape(-1), indexing={i!r}))", ANY,
              draw=choice(i=("ij", "xy")), **KEEP),
        unary("jnp.choose({0} & 1, [{0}, {0} * 2], mode='clip')", "iu", **EXACT),
        unary("jnp.compress({0}.reshape(-1) > 0, {0}.reshape(-1), size=3, fill_value=7)", "fiu",
              **JUMP),
        unary("jnp.argwhere({0} > 0, size=3, fill_value=-1)", "fiu", **JUMP),
        unary("jnp.argpartition({0}.reshape(-1), 0)[:1] * 0", "fi", **JUMP),
        unary("jnp.unique({0}.reshape(-1), size=4, return_{what}=True)[1]", "fiu",
              draw=choice(what=("counts", "index", "inverse")), **JUMP),
        binary("jnp.union1d({0}, {1}, size=6, fill_value=0)", "iu", **JUMP),
        binary("jnp.intersect1d({0}, {1}, size=3, fill_value=0)", "iu", **JUMP),
        binary("jnp.searchsorted(jnp.sort({0}.reshape(-1)), {1}, side={s!r}, method={m!r})", "fi",
               draw=choice(s=("left", "right"), m=("scan", "scan_unrolled", "sort", "compare_all")),
               **JUMP),
        unary("jnp.digitize({0}, jnp.array([2, 0, -1]), right={flag})", "fi",
              draw=choice(flag=FLAGS), **JUMP),
        unary("jnp.bincount({0}.reshape(-1) & 3, weights={0}.reshape(-1).astype(jnp.float32),"
              " length=5)", "i"),
        unary("jnp.histogram({0}, bins=3, range=(-2, 3), density=True)[0]", "f", **JUMP),
        unary("jnp.histogram2d({0}.reshape(-1), {0}.reshape(-1), bins=2, range=[[-2, 2]] * 2)[0]",
              "f", **JUMP),
        *[
            unary(f"jnp.{name}({{0}}, axis={{axis}})", "f", rank=1, draw=axis, **JUMP)
            for name in ("nanargmax", "nanargmin")
        ],
        *[
            unary(f"jnp.{name}({{0}}, axis={{axis}})", "f", rank=1, draw=axis)
            for name in ("nanvar", "nanstd", "nanmedian", "nancumsum", "nancumprod", "nanprod",
                         "gradient", "median", "ptp")
        ],
        unary("jnp.{name}({0}, {q}, axis={axis}, method={method!r})", "f", rank=1,
              draw=both(axis, choice(q=(0, 25, 50, 90, 100), name=("percentile", "nanpercentile"),
                                     method=("linear", "lower", "higher", "midpoint", "nearest"))),
              **JUMP),
        unary("jnp.average({0}, axis={axis}, weights=jnp.arange({0}.shape[{axis}]) + 1.0)", "f",
              rank=1, draw=axis),
        unary("jnp.cov({0})", "f", rank=2),
        unary("jnp.corrcoef({0})", "f", rank=2),
        unary("jnp.ediff1d({0}, to_end=1, to_begin=0)", "fi"),
        unary("jnp.diff({0}, n={n}, axis={axis})", "fi", rank=1, draw=both(axis, choice(n=(1, 2)))),
        unary("jnp.unwrap({0}, axis={axis})", "f", rank=1, draw=axis, **JUMP),
        unary("jnp.cumulative_sum({0}, axis={axis}, include_initial=True)", "fi", rank=1,
              draw=axis),
        unary("jnp.cumsum({0}, axis={axis}, dtype={to})", "iub", rank=1,
              draw=both(axis, choice(to=(*INTEGERS, "jnp.float32")))),
        unary("jnp.{name}({0}, axis={axes}, where={0} > 0, initial={c})", "fi",
              draw=choice(name=("sum", "prod", "max", "min"), axes=(None, 0, -1), c=(1, 2)),
              rank=1, **JUMP),
        unary("jnp.mean({0}, axis={axis}, where={0} > 0)", "f", rank=1, draw=axis, **JUMP),
        *[
            binary(f"jnp.{name}({{0}}, {{1}})", "f")
            for name in ("fmin", "fmax", "logaddexp2", "true_divide")
        ],
        *[binary(f"jnp.{name}({{0}}, {{1}})", "fi", rank=1)
          for name in ("inner", "vdot", "vecdot", "correlate")],
        binary("jnp.tensordot({0}, {1}, {n})", "fi", rank=1, draw=choice(n=(0, 1, 2))),
        binary("jnp.polymul({0}.reshape(-1)[:3], {1}.reshape(-1)[:4])", "fi"),
        binary("jnp.polyadd({0}.reshape(-1)[:3], {1}.reshape(-1)[:4])", "fi"),
        unary("jnp.polyder({0}.reshape(-1), {n})", "f", draw=choice(n=(1, 2))),
        unary("jnp.polyint({0}.reshape(-1), {n})", "f", draw=choice(n=(1, 2))),
        unary("jnp.convolve({0}.reshape(-1), {0}.reshape(-1)[:3], mode={mode!r})", "fi",
              draw=choice(mode=("full", "same", "valid"))),
        unary("jnp.correlate({0}.reshape(-1), {0}.reshape(-1)[:2], mode={mode!r})", "fi",
              draw=choice(mode=("full", "same", "valid"))),
        unary("jnp.linspace({0}, {0} + 3, 4, axis={n}, endpoint={flag})", "f",
              draw=choice(n=(0, -1), flag=FLAGS)),
        unary("jnp.packbits({0} > 0, axis={axis}, bitorder={order!r})", "iu", rank=1,
              draw=both(axis, choice(order=("big", "little"))), **JUMP),
        unary("jnp.unpackbits({0}.astype(jnp.uint8), axis={axis}, bitorder={order!r})", "iu",
              rank=1,
              draw=both(axis, choice(order=("big", "little"))), **JUMP),
        *[
            unary(f"jnp.einsum({form!r}, {{0}})", "fi", rank=2)
            for form in ("ij->j", "ii", "ii->i", "...ij->...ji", "ij->")
        ],
        binary("jnp.einsum('ij,jk,ik->i', {0}[:2, :2], {1}[:2, :2], {0}[:2, :2])", "f", rank=2),
        binary("jnp.einsum('i,j->ij', {0}, {1})", "fiu", rank=1),
        binary("jnp.einsum('ab,cb->ca', {0}, {1})", "fi", rank=2),
        unary("jnp.signbit({0} - 10)", "i", **JUMP),
        unary("jnp.right_shift({0}, {n})", "iu", draw=choice(n=(0, 1, 3)), **EXACT),
        unary("jnp.bitwise_left_shift({0}, {n}) | 1", "iu", draw=choice(n=(0, 1, 3)), **EXACT),
        unary("jnp.array_split({0}, 3)[{n}]", ANY, rank=1, draw=choice(n=(0, 1, 2)), **KEEP),
        unary("jnp.split({0}, [1, 2], axis={axis})[{n}]", ANY, rank=1,
              draw=both(axis, choice(n=(0, 1, 2))), **KEEP),
        unary("jnp.apply_over_axes(jnp.sum, {0}, [0, -1])", "fi", rank=1),
        unary("jnp.vectorize(lambda a: a.sum(), signature='(n)->()')({0})", "fi", rank=1),
        unary("jnp.put({0}, jnp.array([0, -1, 99]), jnp.array([1, 2, 3], {0}.dtype), mode={m!r},"
              " inplace=False)", "fi", rank=1, draw=choice(m=("clip", "wrap"))),
    ]  # fmt: skip


def slices() -> list[Operation]:
    """Slices and updates at computed places, some out of range, and reductions with a function."""
    places = choice(i=(-5, -1, 0, 1, 2, 9), j=(-3, 0, 1, 50))
    modes = choice(mode=("clip", "fill", "drop"), update=("set", "add", "mul", "max"))
    zeros = "(0,) * ({0}.ndim - 1)"
    return [
        unary(f"lax.dynamic_slice({{0}}, ({{i}}, *{zeros}), ({{n}}, *{{0}}.shape[1:]))", ANY,
              rank=1,
              draw=both(places, choice(n=(1, 2))), **KEEP),
        Operation("lax.dynamic_slice({0}, ({1}.reshape(-1)[0], {j}), (1, 2))", (ANY, "iu"), rank=2,
                  alike=False, draw=places, keeps=True),
        unary(f"lax.dynamic_update_slice({{0}}, {{0}}[:1] * 0 + 1, ({{i}}, *{zeros}))", "fiu",
              rank=1,
              draw=places),
        Operation("lax.dynamic_update_slice({0}, {0}[:1, :1], ({1}.reshape(-1)[0], {j}))",
                  (ANY, "iu"), rank=2, alike=False, draw=places, keeps=True),
        Operation("lax.dynamic_index_in_dim({0}, {1}.max(), {axis}, keepdims=False)", (ANY, "iu"),
                  rank=1, alike=False, draw=axis, keeps=True),
        Operation("lax.dynamic_update_index_in_dim({0}, {0}[0], {1}.min(), 0)", (ANY, "i"), rank=1,
                  alike=False, keeps=True),
        Operation("jax.vmap(lambda i: lax.dynamic_slice_in_dim({0}, i, 2))({1}.reshape(-1))",
                  (ANY, "iu"), rank=1, alike=False, keeps=True),
        Operation("jax.vmap(lambda a, i: a[i])({0}, {1}.reshape(-1)[: {0}.shape[0]])", (ANY, "i"),
                  rank=2, alike=False, keeps=True),
        Operation("jax.vmap(lambda a, i: a.at[i].{update}(1, mode={mode!r}))({0},"
                  " {1}.reshape(-1)[: {0}.shape[0]])", ("fiu", "i"), rank=2, alike=False,
                  draw=modes),
        Operation("{0}.at[{1}.reshape(-1)[:2], {1}.reshape(-1)[:2]].{update}(3, mode={mode!r})",
                  ("fiu", "i"), rank=2, alike=False, draw=modes),
        Operation("{0}.at[..., {1}.reshape(-1)].{update}(2, mode={mode!r})", ("fiu", "i"), rank=1,
                  alike=False, draw=modes),
        Operation("{0}.at[{1}].apply(jnp.abs)", ("f", "i"), rank=1, alike=False),
        Operation("{0}.at[{1}].get(mode={mode!r}, indices_are_sorted=False)", (ANY, "i"), rank=1,
                  alike=False, draw=choice(mode=("clip", "fill")), keeps=True),
        Operation("jnp.take_along_axis({0}, jnp.argsort({0}, axis={axis}), axis={axis})", ("fiu",),
                  rank=1, draw=axis, **EXACT),
        Operation("{0}[jnp.argsort({1}.reshape(-1)) % {0}.shape[0]]", (ANY, "fiu"), rank=1,
                  alike=False, **EXACT),
        Operation("jax.ops.segment_{fold}({0}, {1}.reshape(-1)[: {0}.shape[0]], 3,"
                  " indices_are_sorted=False, mode={mode!r})", ("fiu", "i"), rank=1, alike=False,
                  draw=choice(fold=("sum", "max", "min", "prod"), mode=("drop", "clip"))),
        Operation("jax.ops.segment_sum({0}, jnp.sort({1}.reshape(-1) & 1)[: {0}.shape[0]], 2)"
                  " / jax.ops.segment_sum(jnp.ones_like({0}), jnp.sort({1}.reshape(-1) & 1)"
                  "[: {0}.shape[0]], 2)", ("f", "i"), rank=1, alike=False),
        unary("lax.reduce({0}, jnp.asarray({c}, {0}.dtype), lambda a, b: {fold}, ({axis},))", "iu",
              rank=1, draw=both(two_axes, choice(c=(0, 1), fold=(
                  "jnp.maximum(a, b)", "a + b", "a * b", "a | b", "jnp.minimum(b, a)")))),
        unary("lax.reduce_window({0}, jnp.asarray({c}, {0}.dtype), {fold}, {n}, {s}, {p!r},"
              " base_dilation={b}, window_dilation={d})", "fi", rank=1,
              draw=windows_with_dilation),
        unary("lax.reduce_precision({0}, {e}, {m})", "f", draw=choice(e=(5, 8), m=(3, 7, 10)),
              **JUMP),
        unary("lax.sort(({0}, {0} * 0 + 1, jnp.arange({0}.size).reshape({0}.shape)), dimension=0,"
              " num_keys={k})[2]", "fiu", rank=1, draw=choice(k=(1, 2)), **JUMP),
        # JAX does not define which of several equal elements is first, nor where NaN is.
        unary("lax.approx_max_k(jnp.abs(jnp.nan_to_num({0})), 1)[0]", "f", rank=1, **JUMP),
        unary("jnp.take_along_axis(jnp.abs(jnp.nan_to_num({0})),"
              " lax.approx_max_k(jnp.abs(jnp.nan_to_num({0})), 1)[1], -1)", "f", rank=1, **JUMP),
        *[
            unary(f"lax.{name}({{0}}, {{axis}}, reverse={{flag}})", "f", rank=1,
                  draw=both(two_axes, choice(flag=FLAGS)))
            for name in ("cumsum", "cumprod", "cumlogsumexp")
        ],
        unary("lax.scan(lambda c, t: ((c[0] + t, c[1] * 2), (c[1], t)), ({0}[0], 1), {0},"
              " reverse={flag}, unroll={n})[1][{i}]", "fi", rank=1,
              draw=choice(flag=FLAGS, n=(1, 2, 3), i=(0, 1))),
        unary("lax.scan(lambda c, _: (c * 2 + 1, c), {0}, None, length={n})[{i}]", "fi",
              draw=choice(n=(0, 1, 3), i=(0, 1))),
        unary("lax.map(lambda a: a + a.sum(), {0}, batch_size=2)", "fi", rank=1),
        # `all` of an empty array is true, so the loop would not end: XLA drops such a loop.
        unary("lax.while_loop(lambda a: (jnp.abs(a) < 20).all() & (a < 20).any(),"
              " lambda a: a * 2 + 1, {0})", "i", **JUMP),
        unary("lax.fori_loop(0, jnp.clip({0}.max(), 0, 3), lambda i, a: a + i, {0})", "i",
              **JUMP),
        unary("lax.switch(jnp.int32({n}), [lambda a: a, lambda a: -a, lambda a: a + 1], {0})", "fi",
              draw=choice(n=(-1, 0, 1, 2, 7))),
        unary("lax.associative_scan(lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), ({0},"
              " {0}), reverse={flag})[{i}]", "fi", rank=1, draw=choice(flag=FLAGS, i=(0, 1))),
        unary("lax.cond({0}.sum() > 0, lambda: lax.switch({0}.max(), [lambda: {0}, lambda: -{0}]),"
              " lambda: {0} * 3)", "i", **JUMP),
        unary("jnp.where(jnp.arange({0}.shape[0]).reshape(-1, *(1,) * ({0}.ndim - 1)) % 2 == 0,"
              " {0}, -{0})", "fi", rank=1, keeps=True),
    ]  # fmt: skip


def windows_with_dilation(random: Any, shapes: Any) -> dict[str, Any]:
    """The parameters of a window over all axes."""
    rank = len(shapes[0])

    def each(*sizes: int) -> tuple[int, ...]:
        return tuple(int(random.choice(sizes)) for _ in range(rank))

    fold, start = [("lax.add", 0), ("lax.max", -9), ("lax.min", 9)][int(random.integers(3))]
    padding = ["SAME", "VALID", tuple((int(random.integers(3)), 1) for _ in range(rank))]
    return {
        "fold": fold,
        "c": start,
        "n": each(1, 2, 3),
        "s": each(1, 2),
        "p": padding[int(random.integers(3))],
        "b": each(1, 1, 2),
        "d": each(1, 1, 2),
    }


def signals() -> list[Operation]:
    """Fourier transforms of all kinds, convolutions with dilation and groups, and images."""
    lengths = choice(n=(1, 2, 3, 5, 6, 8, 12, 15, 16, 30), norm=("backward", "ortho", "forward"))
    form = choice(form=("dilated input", "transposed", "groups", "asymmetric", "one axis",
                        "batch groups", "transposed same", "reversed"), s=(1, 2))  # fmt: skip
    return [
        unary("parts(jnp.fft.fft({0}, n={n}, norm={norm!r}))", "f", rank=1, draw=lengths),
        unary("parts(jnp.fft.rfft({0}, n={n}, axis=0, norm={norm!r}))", "f", rank=1, draw=lengths),
        binary("parts(jnp.fft.ifft(lax.complex({0}, {1}), n={n}, norm={norm!r}))", "f", rank=1,
               draw=lengths),
        binary("jnp.fft.irfft(lax.complex({0}, {1}), n={n}, norm={norm!r})", "f", rank=1,
               draw=lengths),
        binary("jnp.fft.hfft(lax.complex({0}, {1}), n={n})", "f", rank=1, draw=lengths),
        unary("parts(jnp.fft.{name}({0}))", "f", rank=2,
              draw=choice(name=("fft2", "ifft2", "rfft2", "fftn", "rfftn"))),
        unary("jnp.fft.irfft(jnp.fft.rfft({0}, n={n}), n={n})", "f", rank=1, draw=lengths),
        unary("jax.scipy.fft.dct({0}, n={n}, norm='ortho')", "f", rank=1, draw=lengths),
        unary("jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x, n={n})) ** 2).sum())({0})", "f", rank=1,
              draw=lengths),
        unary("jax.scipy.signal.fftconvolve({0}.reshape(-1), weight(3, dtype={0}.dtype),"
              " mode={mode!r})", "f", draw=choice(mode=("full", "same"))),
        unary("jax.scipy.signal.convolve2d({0}, weight(2, 2, dtype={0}.dtype), mode={mode!r})", "f",
              rank=2, draw=choice(mode=("full", "same", "valid"))),
        unary("convolved({0}, {form!r}, {s})", "f", rank=3, draw=form),
        unary("jax.grad(lambda x: (convolved(x, {form!r}, {s}) ** 2).sum())({0})", "f", rank=3,
              draw=form),
        unary("jax.image.resize({0}, tuple(2 * n + 1 for n in {0}.shape), {method!r},"
              " antialias={flag})", "f", rank=1,
              draw=choice(method=("nearest", "linear", "cubic", "lanczos3"), flag=FLAGS)),
        unary("jax.image.resize({0}, (2,) * {0}.ndim, {method!r}, antialias={flag})", "f", rank=1,
              draw=choice(method=("nearest", "linear", "cubic"), flag=FLAGS)),
        unary("jax.scipy.ndimage.map_coordinates({0}, [jnp.array([0.2, 1.4, -1.5, 9.0])]"
              " * {0}.ndim, {o}, mode={mode!r})", "f", rank=1,
              draw=choice(o=(0, 1), mode=("constant", "nearest", "wrap", "mirror", "reflect"))),
        unary("lax.conv_general_dilated_patches({0}[:, None], (2,) * ({0}.ndim - 1),"
              " (1,) * ({0}.ndim - 1), {p!r})", "f", rank=2, draw=choice(p=("SAME", "VALID"))),
    ]  # fmt: skip


def scipy() -> list[Operation]:
    """Special functions, distributions, and activations with arguments."""
    special = ("ndtri", "gammaln", "digamma", "erfinv", "logit", "exp1", "i0", "i1")
    names = ("norm", "laplace", "logistic", "cauchy", "expon", "t")
    return [
        *[unary(f"jax.scipy.special.{name}(jnp.clip({{0}}, 0.1, 0.9))", "f")
          for name in special],
        *[binary(f"jax.scipy.special.{name}(jnp.abs({{0}}), jnp.abs({{1}}))", "f")
          for name in ("xlogy", "xlog1py", "rel_entr", "kl_div")],
        *[unary(f"jax.scipy.special.{name}(jnp.clip({{0}}, 0.5, 4), 2.0)", "f")
          for name in ("beta", "betaln", "gammainc", "gammaincc")],
        unary("jax.scipy.special.multigammaln(jnp.clip({0}, 2, 5), 2)", "f"),
        unary("jax.scipy.special.softmax({0}, axis={axis})", "f", rank=1, draw=axis),
        *[unary(f"jax.scipy.stats.{name}.{{what}}({{0}}{', 3.0' if name == 't' else ''})", "f",
                draw=choice(what=("logpdf", "pdf")))
          for name in names],
        unary("jax.scipy.stats.norm.{what}({0})", "f", draw=choice(what=("cdf", "logcdf", "sf"))),
        unary("jax.scipy.stats.poisson.logpmf(jnp.abs({0} & 7), 2.5)", "i"),
        unary("jax.scipy.integrate.trapezoid({0}, dx=0.5)", "f", rank=1),
        unary("jax.nn.logsumexp({0}, axis={axis}, b=jnp.abs({0}) + 1)", "f", rank=1, draw=axis),
        unary("jax.nn.logsumexp({0}, axis={axis}, b=jnp.cos({0}), return_sign=True)[0]", "f",
              rank=1,
              draw=axis),
        unary("jax.nn.glu(jnp.concatenate([{0}, {0}], {axis}), axis={axis})", "f", rank=1,
              draw=axis),
        unary("jax.nn.log_softmax({0}, axis={axis}, where={0} > 0)", "f", rank=1, draw=axis,
              **JUMP),
        unary("jax.nn.standardize({0}, axis={axis}, where={0} < 2)", "f", rank=1, draw=axis,
              **JUMP),
        unary("jax.nn.one_hot({0}, 3, axis={n}, dtype={to})", "iu",
              draw=choice(n=(0, -1), to=("jnp.int8", "jnp.bfloat16", "jnp.bool_")), **EXACT),
        unary("jax.nn.dot_product_attention({0}[None, :, None], {0}[None, :, None],"
              " {0}[None, :, None], mask=jnp.arange({0}.shape[0]) % 3 != {n}, scale=0.3)", "f",
              rank=2, draw=choice(n=(0, 1, 5))),
        unary("jax.nn.dot_product_attention({0}[None, :, None], {0}[None, :, None],"
              " {0}[None, :, None], local_window_size=1)", "f", rank=2),
    ]  # fmt: skip


def matrices() -> list[Operation]:
    """Small matrices: factors, powers, norms and solutions."""
    square = "({0}[:3, :3] @ {0}[:3, :3].T + 2 * jnp.eye({0}[:3].shape[0], dtype={0}.dtype))"
    return [
        unary(f"jnp.linalg.matrix_power({square} / 4, {{n}})", "f", rank=2,
              draw=choice(n=(0, 1, 2, 5, -1))),
        unary("jnp.linalg.norm({0}, {o})", "f", rank=2, draw=choice(o=("'fro'", "1", "jnp.inf"))),
        unary("jnp.linalg.norm({0}, {o}, axis={axis})", "f", rank=1,
              draw=both(axis, choice(o=("1", "2", "3", "jnp.inf", "-jnp.inf", "0")))),
        unary(f"jnp.linalg.eigvalsh({square})", "f", rank=2),
        unary(f"jnp.linalg.svd({square}, compute_uv=False)", "f", rank=2),
        unary(f"jnp.linalg.multi_dot([{square}, {square}, {square}])", "f", rank=2),
        unary(f"jax.scipy.linalg.expm({square} / 8)", "f", rank=2),
        unary(f"jax.scipy.linalg.solve_triangular({square}, {square}[0], lower={{flag}})", "f",
              rank=2, draw=choice(flag=FLAGS)),
        unary(f"jax.scipy.linalg.cho_solve((jnp.linalg.cholesky({square}), True), {square})", "f",
              rank=2),
        unary(f"jnp.abs(jnp.linalg.qr({square})[1])", "f", rank=2),
        unary(f"jnp.linalg.pinv({square})", "f", rank=2),
        unary("jax.scipy.linalg.toeplitz({0}.reshape(-1)[:4])", "fi", keeps=True),
        unary("jax.scipy.linalg.block_diag({0}, {0})", "fi", rank=2, keeps=True),
        unary(f"jax.grad(lambda a: jnp.linalg.slogdet(a)[1])({square})", "f", rank=2),
        unary(f"jax.grad(lambda a: jnp.linalg.inv(a).sum())({square})", "f", rank=2),
    ]  # fmt: skip


def transforms() -> list[Operation]:
    """Derivatives, and maps over other axes than the first."""
    functions = (
        *("jnp.sin(x) * x", "jnp.cumsum(x)", "jnp.cumprod(x)", "lax.cummax(x)", "jnp.sort(x)"),
        *("jax.nn.softmax(x)", "jnp.prod(x) * x", "x[::-1] * x", "x / (1 + jnp.abs(x).sum())"),
        *("jnp.max(x) * x", "jnp.linalg.norm(x + 1) * x", "jnp.where(x > 0, x, 0.1 * x) ** 2"),
        *(
            "lax.cumlogsumexp(x)",
            "jnp.clip(x, -1, 1) * x",
            "x.at[0].mul(3)",
            "x[jnp.array([0, 0])]",
        ),
        *(
            "lax.scan(lambda c, t: (c * t + 1, c), 1.0, x)[1]",
            "jnp.tanh(x) @ x * x",
            "jnp.pad(x, 1)",
        ),
        *("lax.fori_loop(0, 3, lambda i, c: c * 0.5 + jnp.sin(c), x)", "jax.nn.gelu(x)"),
        *("jnp.convolve(x, x[:2])", "jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x)"),
        "lax.cond(x.sum() > 0, lambda: x * x, lambda: jnp.sin(x))",
        "lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1]",
        "jax.nn.logsumexp(x) * x",
        "jax.nn.relu(x - 0.3)",
        "jnp.interp(x, jnp.array([-1.0, 0, 2]), jnp.array([3.0, 1, 2]))",
        *("lax.top_k(x, 1)[0] * x", "jnp.percentile(x, 30) * x", "lax.cummin(x, reverse=True) * x"),
        "jnp.take(x, jnp.array([0, 9, -1]), mode='fill', fill_value=0)",
        "jax.ops.segment_max(x, jnp.arange(x.shape[0]) % 2, 3)",
        "lax.dynamic_slice(x, (jnp.argmax(x),), (1,)) * x",
        *("lax.associative_scan(jnp.multiply, x)", "jnp.mod(x, 1.5) * x", "jnp.std(x) * x"),
    )
    flat = "{0}.reshape(-1)[:5].astype(jnp.float32)"
    reverse = [source for source in functions if "while_loop" not in source]
    inner = (
        *("jnp.sort(a)", "jnp.cumsum(a, 0)", "a @ a.T", "a[::-1]", "a.sum(0)", "jnp.argmax(a, -1)"),
        *("jnp.searchsorted(jnp.sort(a.reshape(-1)), a.reshape(-1))", "a.at[0].set(1)", "a[-1]"),
        *("lax.dynamic_slice_in_dim(a, 1, 1)", "jnp.where(a > 0, a, -a)", "jnp.tril(a + a.T)"),
        "lax.cond(a.sum() > 0, lambda: a, lambda: -a)",
        "lax.top_k(a, 1)[0]",
        "lax.scan(lambda c, t: (c + t, c), a[0], a)[1]",
    )
    return [
        *[unary(f"jax.grad(lambda x: ({source}).sum())({flat})", "f",
                **JUMP) for source in reverse],
        *[unary(f"jax.jvp(lambda x: {source}, ({flat},), (jnp.cos({flat}),))[1]", "f", **JUMP)
          for source in functions],
        *[unary(f"jax.jacfwd(lambda x: {source})({flat})", "f",
                **JUMP) for source in functions[::3]],
        *[unary(f"jax.jacrev(lambda x: {source})({flat})", "f",
                **JUMP) for source in reverse[1::3]],
        *[unary(f"jax.hessian(lambda x: ({source}).sum())({flat})", "f", **JUMP)
          for source in reverse[::4]],
        *[unary(f"jax.vmap(jax.grad(lambda x: ({source}).sum()))(jnp.stack([{flat}, -{flat}]))",
                "f",
                **JUMP)
          for source in reverse[2::4]],
        *[unary(f"jax.vmap(lambda a: {source}, in_axes={{axis}}, out_axes={{o}})({{0}})", "fi",
                rank=3, draw=both(axis, choice(o=(0, -1))), **JUMP)
          for source in inner],
        *[unary(f"jax.vmap(jax.vmap(lambda a: {source}))({{0}}[:, None])", "fi", rank=3, **JUMP)
          for source in inner[::3]],
        unary("jax.vjp(lambda x: jnp.sin(x) * x, {0})[1]({0})[0]", "f"),
        unary("jax.linearize(lambda x: jnp.tanh(x) ** 2, {0})[1]({0})", "f"),
        unary("inverse_derivative({0})", "f"),
    ]  # fmt: skip


def more_complexes() -> list[Operation]:
    """Complex numbers in products, loops and indices."""
    one, other = "lax.complex({0}, {1})", "lax.complex({1}, {0})"
    return [
        binary(f"parts(jnp.einsum('...i,...i->...', {one} * (1 + 1j), {other}))", rank=1),
        binary(f"parts(jnp.cumprod({one}.reshape(-1)[:3]))"),
        binary(f"parts(jnp.prod({one}.reshape(-1)[:3]))"),
        binary(f"parts(jnp.sort({one}, axis=-1))", rank=1, jumps=True),
        binary(f"parts(jnp.concatenate([{one}, {other}]))", rank=1, jumps=True),
        binary(f"parts(lax.scan(lambda c, t: (c / 2 + t, c), jnp.zeros_like({one}[0]), {one})[1])",
               rank=1),
        binary(f"parts(jax.vmap(lambda z: z.sum() + z)({one}))", rank=1),
        binary(f"parts(lax.cond({{0}}.sum() > 0, lambda: {one}, lambda: jnp.conj({one})))",
               jumps=True),
        binary(f"parts({one}[..., ::-1].T)", rank=1, jumps=True),
        binary(f"parts({one}.at[:1].add(2j))", rank=1),
        binary(f"parts(jnp.pad({one}, 1))", rank=1, jumps=True),
        binary(f"parts(jnp.roll({one}, 1))", rank=1, jumps=True),
        binary(f"parts(jnp.outer({one}, {other}))", rank=1),
        binary(f"parts(jnp.stack([{one}.real + 1j, {one}]))", rank=1),
        binary(f"jnp.isclose({one}, {other})", jumps=True),
        binary(f"parts({one}.astype(jnp.complex64) * 2)"),
        unary("jax.grad(lambda x: (jnp.exp(1j * x) * x).real.sum())({0})"),
        unary("jax.jvp(lambda x: jnp.abs(lax.complex(x, x + 1)), ({0},), ({0},))[1]"),
    ]  # fmt: skip
