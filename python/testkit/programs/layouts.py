"""Sizes and scales as in models of images and sound: blocks, windows, relative positions."""

from __future__ import annotations

from typing import Any

from .operations import ANY, Operation, choice, unary

KEEP: dict[str, Any] = {"keeps": True, "moves": True}


def layouts() -> list[Operation]:
    """Rows in blocks and windows, whose number depends on a symbol."""
    rest, none = "*{0}.shape[1:]", "[(0, 0)] * ({0}.ndim - 1)"
    numbers = "jnp.arange({0}.shape[0])"
    return [
        unary(f"{{0}}[: {{0}}.shape[0] // {{n}} * {{n}}].reshape(-1, {{n}}, {rest}).{{fold}}(1)",
              "f", rank=1, draw=choice(n=(1, 2, 3), fold=("sum", "mean", "max"))),
        unary(f"jnp.pad({{0}}, [(0, -(-{{0}}.shape[0] // {{n}}) * {{n}} - {{0}}.shape[0])]"
              f" + {none}).reshape(-1, {{n}}, {rest}).{{fold}}(1)", "fi", rank=1,
              draw=choice(n=(2, 4), fold=("sum", "max", "min"))),
        unary("jnp.pad({0}, ((0, 0), (1, 0))).reshape(-1)[{0}.shape[0] :].reshape({0}.shape)", ANY,
              rank=2, **KEEP),
        unary(f"{{0}}[{numbers}[:, None] + jnp.arange({{n}}) - 1]", ANY, rank=1,
              draw=choice(n=(1, 2)), keeps=True),
        unary(f"{{0}}[{numbers}[:, None] - {numbers}]", ANY, rank=1, keeps=True),
        unary("{0}[::2][: {0}[1::2].shape[0]] - {0}[1::2]", "fi", rank=1),
        unary("{0}[{slices}]", ANY, rank=1, draw=choice(slices=(
            "1::3", "::-2", "-3:-1", "::-1", "2:4", "-1::-3")), **KEEP),
        unary("{0}.reshape(*{0}.shape[:-1], 2, -1).swapaxes(0, -2).reshape(2, -1)", ANY, rank=2,
              **KEEP),
        unary("jnp.outer({0}, {0}).reshape(-1)[:: {0}.shape[0] + 1]", "fi", rank=1),
        unary(f"jnp.where(({numbers} // 2)[:, None] == {numbers} // 2, {{0}} @ {{0}}.T, 0)", "fi",
              rank=2),
        unary("jnp.repeat({0}, {0}.shape[0], axis=0) * jnp.tile({0}, ({0}.shape[0],"
              " *(1,) * ({0}.ndim - 1)))", "fi", rank=1),
        unary("lax.cumsum({0}, 0, reverse={flag}) / jnp.arange({0}.shape[0], 0, -1).reshape("
              "-1, *(1,) * ({0}.ndim - 1))", "f", rank=1, draw=choice(flag=(True, False))),
        unary("jnp.fft.{name}({0})", ANY, rank=1, draw=choice(name=("fftshift", "ifftshift")),
              **KEEP),
        unary("jnp.arange(0, {0}.shape[0], 2) * jnp.arange({0}.shape[0], 0, -2)", ANY, rank=1,
              jumps=True),
        unary("jax.nn.one_hot(jnp.argmax({0}, 0), {0}.shape[0])", "fi", rank=1, jumps=True),
        unary("jax.grad(lambda x: (jnp.concatenate([x, x[::-1]]).cumsum(0) ** 2).mean())({0})", "f",
              rank=1),
    ]  # fmt: skip


def scaled() -> list[Operation]:
    """Products with weights between constants that passes fold, some of them large."""
    scales = choice(c=("1e3", "3e4", "1e-3", "0.0", "-2.0"), d=("2.0", "1e3", "1e-3", "-1.0"))
    weights = "weight({0}.shape[-1], 3, dtype={0}.dtype)"
    return [
        unary(f"({{0}} * {{c}}) @ {weights} * {{d}}", "f", rank=1, draw=scales),
        unary(f"({{0}} @ {weights} + {{d}}) * {{c}} - {{d}}", "f", rank=1, draw=scales),
        unary(f"({{0}} + {{d}}) @ ({weights} * {{c}})", "f", rank=1, draw=scales),
        unary(f"({{0}} @ {weights}) / {{c}} + weight(3, dtype={{0}}.dtype)", "f", rank=1,
              draw=choice(c=("1e3", "-2.0", "3e4"))),
        unary("{0} * {c} * {d} + {c}", "f", draw=scales),
        unary("({0} - {d}) * {c} + {0}", "f", draw=scales),
        unary("lax.dot({0}, {0}.T, preferred_element_type={to})", "i", rank=2,
              draw=choice(to=("jnp.int16", "jnp.int32", "jnp.float32"))),
    ]  # fmt: skip
