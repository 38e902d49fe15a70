"""Complex numbers, control flow with integers, masks of several numbers, and rare functions."""

from __future__ import annotations

from typing import Any

from .integers import EXACT
from .operations import ANY, Operation, axis, binary, both, choice, two_axes, unary

FUNCTIONS = (
    *("exp", "log", "log1p", "expm1", "sqrt", "square", "sin", "cos", "tan", "sinh", "cosh"),
    *("tanh", "abs", "angle", "conj", "reciprocal", "arcsin", "arctan", "arctanh"),
    *("exp2", "log2", "log10"),
)


def complexes() -> list[Operation]:
    """Complex numbers, taken apart at the end."""
    one, other = "lax.complex({0}, {1})", "lax.complex({1}, {0})"
    return [
        *[binary(f"parts(jnp.{name}({one}))") for name in FUNCTIONS],
        *[binary(f"parts(jnp.{name}({one}))", jumps=True)
          for name in ("sign", "isnan", "isinf", "isfinite")],
        *[binary(f"parts({one} {sign} {other})") for sign in ("+", "-", "*", "/", "*", "/")],
        *[binary(f"parts({{c}} {sign} {one})", draw=choice(c=("1", "2j", "(-1 + 1j)", "0.5")))
          for sign in ("*", "/", "-")],
        binary(f"parts({one} ** {{n}})", draw=choice(n=(-2, -1, 2, 3, 0.5, "(1 + 1j)"))),
        binary(f"parts(jnp.power({one}, {other}))"),
        binary(f"parts(jax.nn.sigmoid({one}))"),
        binary(f"parts(jax.nn.silu({one}))"),
        binary(f"parts(({one} * jnp.conj({other})).sum())"),
        binary(f"parts(jnp.cumsum({one}.reshape(-1)))"),
        binary(f"parts({one}.mean())"),
        binary(f"parts({one} @ {other}.T)", rank=1),
        binary(f"parts(jnp.where({{0}} > 0, {one}, {other}))", jumps=True),
        binary(f"parts(jnp.fft.{{name}}({one}))", rank=1,
               draw=choice(name=("fft", "ifft", "fftshift"))),
        unary("parts(jnp.fft.rfft({0}))", rank=1),
        unary("parts(jnp.exp(1j * {0}))"),
        unary("jax.grad(lambda x: jnp.abs(jnp.exp(1j * x) + 2).sum())({0})"),
        binary(f"{one} == {other}", jumps=True),
        binary(f"parts({one}[::-1])", rank=1, jumps=True),
        binary(f"parts({one}.at[0].set(1j))", rank=1, jumps=True),
    ]  # fmt: skip


def masked() -> list[Operation]:
    """Attention whose scores may lie beyond the number of its mask."""
    numbers = choice(
        number=("-1e4", "-1e8", "-1e8", "-1e9", "-1e30", "-jnp.inf", "-100.0"),
        scale=("1.0", "30.0", "1e4", "3e4", "3e4"),
        form=("where", "where", "add", "two", "twice", "rows", "bias", "constant"),
    )
    return [
        *[unary("projected({0}, {number}, {scale}, {form!r})", rank=2, draw=numbers)
          for _ in range(3)],
        unary("jax.nn.softmax(jnp.where({0} > {c}, {0}, {number}), axis=-1)", rank=1, jumps=True,
              draw=both(numbers, choice(c=("0", "-1", "1e9")))),
        unary("jax.nn.softmax(jnp.where({0} > 0, {0} * {scale}, {number}) + jnp.where({0} < 1, 0,"
              " {number}), axis=-1)", rank=1, jumps=True, draw=numbers),
        unary("jax.nn.dot_product_attention({0}[None, :, None], {0}[None, :, None],"
              " {0}[None, :, None], is_causal={flag})", rank=2, draw=choice(flag=(True, False))),
        unary("jax.nn.logsumexp(jnp.where({0} > 0, {0}, {number}), axis=-1)", rank=1, jumps=True,
              draw=numbers),
    ]  # fmt: skip


def control() -> list[Operation]:
    """Control flow inside control flow, and counters that wrap."""
    small = ("jnp.int8", "jnp.uint8", "jnp.int16", "jnp.int32", "jnp.uint32")
    counters = choice(dtype=small, start=(0, 3, 100, 120), step=(1, 3, 7, 50), count=(0, 1, 4))
    return [
        unary("counted({0}, {dtype}, {start}, {step}, {count})", "fiu", jumps=True, draw=counters),
        unary("counted({0}, {dtype}, {start}, {step}, {count})", "iu", jumps=True, draw=counters),
        unary("nested({0}, {form!r})", "iu", rank=1, draw=choice(form=(
            "cond in scan", "scan in cond", "while in scan", "switch in while", "scan in scan"))),
        unary("jax.vmap(lambda a: lax.cond(a.sum() > 1, lambda: a + 1, lambda: a * 2))({0})",
              "iu", rank=1),
        unary("jax.vmap(lambda a: lax.switch(a.sum(), [lambda: a, lambda: a + 1, lambda: -a]))"
              "({0})",
              "i", rank=1),
        unary("jax.vmap(lambda a: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1,"
              " s[1] * 3), ((a.sum() & 3).astype(jnp.int32), a))[1])({0})", "iu", rank=1),
        unary("jax.vmap(lambda a: lax.fori_loop(0, 2, lambda i, c: c * c + jnp.asarray(i, c.dtype),"
              " a))({0})", "iu", rank=1),
        unary("lax.scan(lambda c, t: (c * 3 + t, c > t), jnp.ones_like({0}[0]), {0})[{i}]", "iu",
              rank=1, draw=choice(i=(0, 1))),
        unary("lax.scan(lambda c, t: (c ^ (t << 1), (c + t).astype(jnp.int8)), {0}[0], {0},"
              " reverse={flag})[{i}]", "iu", rank=1, draw=choice(i=(0, 1), flag=(True, False))),
        unary("lax.scan(lambda c, t: (c + 1, t * c.astype(t.dtype)), jnp.uint8({start}), {0})[{i}]",
              "fiu", rank=1, draw=choice(i=(0, 1), start=(0, 254))),
        unary("lax.fori_loop({start}, {start} + 3, lambda i, c: c + jnp.asarray(i, c.dtype), {0})",
              "fiu",
              draw=choice(start=(0, -2, 100))),
        unary("lax.associative_scan(lambda a, b: a * b + 1, {0}, reverse={flag})", "iu", rank=1,
              draw=choice(flag=(True, False))),
        unary("custom({0})", "f"),
        unary("jax.grad(lambda x: custom(x).sum())({0})", "f"),
        unary("jax.jvp(custom, ({0},), (jnp.ones_like({0}),))[1]", "f"),
        unary("jax.grad(lambda x: {source}.sum())({0})", "f", draw=choice(source=(
            "jnp.sin(x)", "(x * x)", "jnp.where(x > 0, x, x * x)", "jnp.maximum(x, 0)",
            "jnp.cumsum(x.reshape(-1))", "jnp.sort(x.reshape(-1))", "jnp.tanh(x)", "jnp.abs(x)",
            "jax.nn.softmax(x.reshape(-1)) ** 2", "jnp.prod(x.reshape(-1) + 1)[None]"))),
        unary("lax.cond({0}.sum() > 3, lambda a: lax.fori_loop(0, 2, lambda i, b: b + b, a),"
              " lambda a: a * a, {0})", "iu"),
        unary("lax.map(lambda a: (a << 1) + a, {0})", "iu", rank=1),
    ]  # fmt: skip


def rare() -> list[Operation]:
    """Sorting of several operands, ties, small matrices, random bits, and scatters."""
    pairs: dict[str, Any] = {"rank": 1, "jumps": True}
    modes = choice(mode=("drop", "clip", "fill", "promise_in_bounds")[:3],
                   update=("set", "add", "mul", "min", "max"))  # fmt: skip
    square = "({0}[:2, :2] + 3 * jnp.eye(*{0}[:2, :2].shape, dtype={0}.dtype))"
    return [
        binary("lax.sort((*jnp.broadcast_arrays({0}, {1}),), num_keys={k})[{i}]", "fiu",
               draw=choice(k=(1, 2), i=(0, 1)), **pairs),
        unary("lax.sort(({0}, -{0}, {0} * 2), dimension={axis}, num_keys={k})[{i}]", "iu",
              draw=both(two_axes, choice(k=(1, 2), i=(0, 1, 2))), **pairs),
        unary("jnp.sort({0}, axis={axis}, descending=True)", ANY, draw=axis, **pairs),
        unary("jnp.argsort({0}, axis={axis}, descending=True)", ANY, draw=axis, **pairs),
        unary("lax.top_k(jnp.concatenate([{0}, {0}, {0}], -1), {k})[{i}]", "fiu",
              draw=choice(k=(1, 2, 5), i=(0, 1)), **pairs),
        unary("jnp.lexsort(({0}, {0} & 1))", "iu", **pairs),
        unary("jnp.{name}({0}.reshape(-1), size=5, fill_value=9)", "fiu", jumps=True,
              draw=choice(name=("unique", "unique"))),
        unary("jnp.nonzero({0}, size=4, fill_value=-1)[0]", ANY, **pairs),
        unary("jnp.flatnonzero({0}, size=4)", ANY, jumps=True),
        unary("jnp.median({0})", "f"),
        unary("jnp.nanmax({0}, axis=0)", "f", rank=1, keeps=True),
        unary("jnp.partition({0}.reshape(-1), 0)[:1]", "fi", jumps=True),
        Operation("{0}.at[{1}].{update}(jnp.ones({1}.shape + {0}.shape[1:], {0}.dtype),"
                  " mode={mode!r})", ("fiu", "iu"), rank=1, alike=False, draw=modes),
        Operation("{0}.at[{1}[:0]].{update}(1, mode={mode!r})", ("fiu", "iu"), rank=1, alike=False,
                  draw=modes),
        Operation("{0}.at[:, {1}].{update}(2, mode={mode!r})", ("fiu", "iu"), rank=2, alike=False,
                  draw=modes),
        Operation("{0}[:, {1}[:1], None]", (ANY, "iu"), rank=2, alike=False),
        Operation("jnp.put_along_axis({0}, {1}, jnp.asarray(1, {0}.dtype), axis=0, inplace=False)",
                  ("fi", "i"), rank=1, alike=False),
        Operation("jax.ops.segment_{fold}({0}, {1}.reshape(-1)[: {0}.shape[0]], 3)", ("fi", "i"),
                  rank=1, alike=False, draw=choice(fold=("sum", "max", "min", "prod"))),
        unary(f"jnp.linalg.{{name}}({square})", "f", rank=2,
              draw=choice(name=("det", "inv", "cholesky"))),
        unary(f"jnp.linalg.slogdet({square})[{{i}}]", "f", rank=2, draw=choice(i=(0, 1))),
        unary(f"jnp.linalg.solve({square}, {square}[0])", "f", rank=2),
        unary("jnp.kron({0}, {0})", "fi", rank=1),
        unary("jnp.cross({0}[..., :3], {0}[..., :3] + 1)", "fi", rank=1),
        unary("jnp.trace({0})", "fiu", rank=2),
        unary("jax.random.bits(jax.random.key({0}.sum().astype(jnp.uint32)), (3,), {dtype})", "iu",
              draw=choice(dtype=("jnp.uint8", "jnp.uint16", "jnp.uint32"))),
        unary("jax.random.{name}(jax.random.key({n}), {0}.shape)", "f", jumps=True,
              draw=choice(name=("uniform", "normal"), n=(0, 1, 7))),
        unary("jax.random.randint(jax.random.key({n}), {0}.shape, -5, 100, {dtype})", ANY,
              draw=choice(n=(0, 3), dtype=("jnp.int8", "jnp.int32", "jnp.uint8"))),
        unary("jax.random.permutation(jax.random.key({n}), {0})", ANY, rank=1, keeps=True,
              draw=choice(n=(0, 3))),
        unary("{0}[{slices}]", ANY, keeps=True, moves=True, rank=1,
              draw=choice(slices=("::-2", "-1:0:-1", "2::-1", "-2::-1", "0:0", "5:", "::3"))),
        unary("jnp.histogram({0}, bins=4, range=(-2, 2))[0]", "f", jumps=True),
        binary("jnp.nextafter({0}, {1})", jumps=True),
        binary("jnp.isclose({0}, {1})", "fiu", jumps=True),
        binary("jnp.array_equal({0}, {1})", ANY, jumps=True),
        binary("jnp.setdiff1d({0}, {1}, size=4, fill_value=0)", "iu", jumps=True),
        unary("jnp.polyval(jnp.array([1, -2, 3], {0}.dtype), {0})", "fiu"),
        unary("jnp.trapezoid({0})", "f", rank=1),
        unary("jnp.convolve({0}.reshape(-1), jnp.array([1, 2], {0}.dtype))", "fi"),
        unary("jnp.apply_along_axis(jnp.cumsum, 0, {0})", "fi", rank=1),
        unary("jnp.select([{0} > 1, {0} < 0], [{0} * 2, -{0}], 5)", "i", **EXACT),
        unary("jnp.piecewise({0}, [{0} < 0, {0} > 1], [lambda a: -a, lambda a: a * 2, 1])", "fi",
              jumps=True),
        unary("jnp.vander({0}, 3)", "fi", rank=1),
        unary("jnp.i0({0} / 4)", "f"),
        unary("jax.scipy.special.{name}(jnp.clip({0}, -5, 5))", "f",
              draw=choice(name=("ndtr", "log_ndtr", "i0e", "i1e", "expit", "entr"))),
    ]  # fmt: skip
