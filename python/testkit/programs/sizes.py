"""Sizes that are polynomials of symbols, as in a decoder: caches, paddings, halves and windows."""

from __future__ import annotations

from typing import Any

from .operations import ANY, Operation, both, choice, two_axes, unary


def sizes() -> list[Operation]:
    keep: dict[str, Any] = {"keeps": True, "moves": True}
    rows = "(*{0}.shape[1:],)"
    return [
        *[
            Operation("decoder({0}, {1}, {form!r})", ("f", "f"), rank=2, draw=choice(form=(
                "plain", "causal", "bias", "scaled", "mean", "slot")))
            for _ in range(3)
        ],
        unary("({0} @ {0}.swapaxes(-1, -2)).mean({axis})", "f", rank=2, draw=two_axes),
        unary("({0} @ {0}.swapaxes(-1, -2)) * {0}.shape[{axis}]", "fi", rank=2, draw=two_axes),
        unary("({0}[:, None] * {0}[None]).{fold}(({axis},))", "f", rank=1,
              draw=both(two_axes, choice(fold=("sum", "mean", "max")))),
        unary("{0}[{0}.shape[0] // 2 :]", ANY, rank=1, **keep),
        unary("{0}[: {0}.shape[0] // 2]", ANY, rank=1, **keep),
        unary("{0}[: ({0}.shape[0] + 1) // 2]", ANY, rank=1, **keep),
        unary("{0}[: {0}.shape[0] - 1]", ANY, rank=1, **keep),
        unary("{0}[-1:]", ANY, rank=1, **keep),
        unary("{0}[:0]", ANY, rank=1, **keep),
        unary("jnp.concatenate([{0}[1:], {0}[:1]])", ANY, rank=1, **keep),
        unary("jnp.concatenate([{0}, {0}, {0}[:1]])", ANY, rank=1, **keep),
        unary("jnp.pad({0}, [({0}.shape[0], {n})] + [(0, 0)] * ({0}.ndim - 1))", ANY, rank=1,
              draw=choice(n=(0, 1)), **keep),
        unary("lax.pad({0}, jnp.zeros((), {0}.dtype), [({n}, {0}.shape[0] // 2, {i})]"
              " + [(0, 0, 0)] * ({0}.ndim - 1))", ANY, rank=1,
              draw=choice(n=(0, 1, -1), i=(0, 1)), **keep),
        Operation("jnp.pad({0}, [({1}.shape[0], 0)] + [(0, 0)] * ({0}.ndim - 1))", (ANY, ANY),
                  rank=1, alike=False, **keep),
        Operation("jnp.pad({0}, [(0, {1}.shape[0] + 1)] + [(0, 0)] * ({0}.ndim - 1),"
                  " mode={mode!r})", (ANY, ANY), rank=1, alike=False,
                  draw=choice(mode=("constant", "edge", "wrap")), **keep),
        Operation("jnp.concatenate([{0}, jnp.zeros(({1}.shape[0], *{0}.shape[1:]), {0}.dtype)])",
                  (ANY, ANY), rank=1, alike=False, **keep),
        Operation("jnp.broadcast_to({0}[None], ({1}.shape[0] + 1, *{0}.shape))", (ANY, ANY),
                  alike=False, **keep),
        Operation("{0}[: {1}.shape[0]]", (ANY, ANY), rank=1, alike=False, **keep),
        Operation("jnp.zeros(({0}.shape[0] + {1}.shape[0], 2)) + {0}.sum()", ("f", ANY), rank=1,
                  alike=False),
        Operation("lax.dynamic_update_slice_in_dim(jnp.zeros(({0}.shape[0] + {1}.shape[0],"
                  " *{0}.shape[1:]), {0}.dtype), {0}, {1}.shape[0], 0)", (ANY, ANY), rank=1,
                  alike=False),
        Operation("lax.dynamic_slice_in_dim({0}, {1}.shape[0], 1, 0)", (ANY, ANY), rank=1,
                  alike=False),
        Operation("jnp.outer({0}, {1}).reshape(-1)", ("fi", "fi"), rank=1, alike=True),
        unary("jnp.arange({0}.shape[0]) * {0}.shape[0] // 2", ANY, rank=1, jumps=True),
        unary("jnp.arange(1, {0}.shape[0] + 1)[:, None] >= jnp.arange({0}.shape[0])", ANY, rank=1,
              jumps=True),
        unary("jnp.arange({0}.shape[0])[::-1] - {0}.shape[0]", ANY, rank=1, jumps=True),
        unary("jnp.eye({0}.shape[0], {0}.shape[0] + 1)", ANY, rank=1, jumps=True),
        unary("jnp.tri({0}.shape[0], dtype=jnp.int16)", ANY, rank=1, jumps=True),
        unary("jnp.full({0}.shape[0] * 2 + 1, {0}.size)", ANY, rank=1, jumps=True),
        unary("jnp.repeat({0}, 2, axis=0).reshape({0}.shape[0], -1)", ANY, rank=1, **keep),
        unary("jnp.repeat({0}, {0}.shape[0], axis=0)", ANY, rank=1, **keep),
        unary("jnp.tile({0}, ({0}.shape[0],) + (1,) * ({0}.ndim - 1))", ANY, rank=1, **keep),
        unary("jnp.roll({0}, {0}.shape[0] // 2, 0)", ANY, rank=1, **keep),
        unary("jnp.roll({0}, {0}.shape[0] - 1, 0)", ANY, rank=1, **keep),
        unary("{0}.sum(0) / {0}.shape[0]", "f", rank=1),
        unary("{0} / jnp.sqrt({0}.shape[0] + 1)", "f", rank=1),
        unary("{0} * {0}.size - {0}.shape[0] % 2", "f", rank=1),
        unary("jnp.diff({0}, axis=0)", "fi", rank=1),
        unary("jnp.stack([{0}, {0}], 1).reshape(-1, *{0}.shape[1:])", ANY, rank=1, **keep),
        unary("jnp.stack([{0}, {0}], 1).reshape(2 * {0}.shape[0], *{0}.shape[1:])", ANY, rank=1,
              **keep),
        unary("jax.nn.one_hot({0} & 3, 4).reshape(-1)", "iu", jumps=True),
        *[
            unary(f"jax.grad(lambda x: (window({{0}}.ndim, x, {{form!r}}, {{n}}, {{s}}, {{p!r}})"
                  f" {power}).sum())({{0}})", "f", rank=1,
                  draw=choice(form=("sum", "mean", "max"), n=(1, 2, 3), s=(1, 2),
                              p=("VALID", "SAME")))
            for power in ("* 1", "** 2")
        ],
        unary("window({0}.ndim, {0}, {form!r}, {n}, {s}, {p!r})", "f", rank=1,
              draw=choice(form=("sum", "mean", "max", "min", "product"), n=(1, 2, 3), s=(1, 2, 3),
                          p=("VALID", "SAME"))),
        Operation("jax.vmap(jnp.convolve)({0}[:, :7], {1}[:, :3])", ("f", "f"), rank=2),
        Operation("jnp.convolve({0}.reshape(-1), weight(3, dtype={0}.dtype), {mode!r})", ("f",),
                  draw=choice(mode=("full", "same", "valid"))),
        unary("jax.grad(lambda x: (convolution(x, {form!r}, {p!r}, {s}) ** 2).sum())({0})", "f",
              rank=3,
              draw=choice(form=("plain", "dilated", "depthwise"), p=("SAME", "VALID"), s=(1, 2))),
        unary("lax.scan(lambda c, t: (c + t, c), jnp.zeros_like({0}[0]), {0}, reverse=True)[1]",
              "fi", rank=1),
        unary("lax.fori_loop(0, {0}.shape[0], lambda i, c: c + {0}[i], jnp.zeros_like({0}[:1]))",
              "fi", rank=1),
        unary("lax.fori_loop(0, {0}.shape[0], lambda i, c: c.at[i].set(c[i] * 2), {0})", "fi",
              rank=1),
        unary("{0}.at[{i}].{update}({c})", "fi", rank=1,
              draw=choice(i=("1:", ":-1", "2:", "::2", "-2:", ":1", "..., 1:"), c=(1, 2),
                          update=("add", "set", "mul", "max", "min"))),
        unary("{0}.at[jnp.arange({0}.shape[0])].add(1)", "fi", rank=1),
        unary("{0}.at[1:].set({0}[:-1])", ANY, rank=1, keeps=True),
        unary(f"{{0}}.at[: {{0}}.shape[0] // 2].set(jnp.ones({rows}, {{0}}.dtype))", ANY, rank=1,
              keeps=True),
        unary("{0}[jnp.arange({0}.shape[0])[::-1]]", ANY, rank=1, **keep),
    ]  # fmt: skip
