"""Scans of many steps, whose updates are linear, nearly linear, or chosen by conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .operations import Draw, Operation, Shape, pick, unary

#: A step reads the state `s` before it, and two inputs: `z[0]` from the operand, and `z[1]` from -1
#: to 1.
_DECAYS = (
    *("0.9", "0.5", "-0.8", "1.0", "jax.nn.sigmoid(z[1])", "jnp.exp(-(z[0] ** 2)).mean()"),
    *("jnp.exp(-jnp.abs(z[0]))", "(z[1] > 0)", "z[1]", "jnp.tanh(z[0])"),
)
_INPUTS = ("z[0]", "z[1] * z[0]", "z[1]", "z[0][::-1]", "jnp.tanh(z[0])", "1.0")
_UPDATES = (
    *("{decay} * {old} + {given}",) * 4,
    "{old} + {decay} * ({given} - {old})",
    "{given} - {decay} * {old}",
    "(1 - {decay}) * {given} + {decay} * {old}",
    "{decay} * {old}",
    "{old} + {given}",
    "jnp.maximum({old}, {given})",
    "jnp.minimum({decay} * {old}, {given})",
    "jnp.tanh({decay} * {old} + {given})",
    "jnp.clip({old} + {given}, -2, 2)",
)
_CHOICES = ("jnp.where({flag}, {one}, {other})", "lax.select({flag}, {one}, {other})")
_RESULTS = ("{new}", "{old}", "{new} * z[0]", "jnp.tanh({new}) + {old}")
_MIXED = (
    "{decay} * {old} + z[0][:, None] * z[1]",
    "{old} * jnp.exp(-(z[0] ** 2))[:, None] + z[1][:, None] * z[0]",
    "{old} - z[1][:, None] * (z[1] @ {old}) / 3 + z[1][:, None] * z[0]",
    "jnp.where({flag}.any(), 0.5, {old}) * {decay} + z[0]",
    "{old} @ weight(3, 3, dtype={old}.dtype) / 2 + z[0]",
)


def recurrences() -> list[Operation]:
    source = "recurrence({0}, {step}, {count}, {n}, {form!r})"
    return [
        unary(source, rank=1, draw=_steps("z[1] > 0.2")),
        unary(source, rank=1, jumps=True, draw=_steps("z[0] > 0")),
        unary(source, rank=1, draw=_squares),
        unary(source, "i", rank=1, draw=_integers),
    ]


def _steps(flag: str) -> Draw:
    """One to three states, each of which may read those before it."""

    def draw(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
        count = pick(random, (1, 1, 2, 2, 3))
        names = "abc"[:count]
        updates = [_update(random, i, flag) for i in range(count)]
        results = [
            pick(random, _RESULTS).format(new=new, old=f"s[{i}]") for i, new in enumerate(names)
        ]
        body = f"(({', '.join(names)},), ({', '.join(results)},))"
        for name, update in zip(reversed(names), reversed(updates), strict=True):
            body = f"(lambda {name}: {body})({update})"
        return {"step": f"lambda s, z: {body}", "count": count} | _sizes(
            random, "plain", "reverse", "last"
        )

    return draw


def _update(random: np.random.Generator, index: int, flag: str) -> str:
    earlier = [f"{'abc'[i]} * z[1]" for i in range(index)] + [f"s[{i}]" for i in range(index)]
    old = f"s[{index}]"

    def plain() -> str:
        given = pick(random, (*_INPUTS, *earlier, *earlier))
        update: str = pick(random, _UPDATES)
        return f"({update.format(decay=pick(random, _DECAYS), old=old, given=given)})"

    if random.random() < 0.6:
        return plain()
    kept = pick(random, (old, f"0.5 * {old}", f"jnp.zeros_like({old})", f"z[0] + 0 * {old}"))
    one, other = (plain(), kept) if random.random() < 0.5 else (kept, plain())
    form: str = pick(random, _CHOICES)
    return form.format(flag=flag, one=one, other=other)


def _squares(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    """States of matrices, as in linear attention."""
    decay = pick(random, (*_DECAYS[:5], "jnp.exp(-(z[0] ** 2))[:, None]"))
    update = pick(random, _MIXED).format(decay=decay, old="s[0]", flag="(z[1] > 0.2)")
    result = pick(random, ("z[1] @ a", "a", "s[0] @ z[1]", "(a * z[0]).sum(0)"))
    step = f"lambda s, z: (lambda a: ((a,), ({result},)))({update})"
    return {"step": step, "count": 1} | _sizes(random, "square")


def _integers(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    update = pick(random, ("s[0] + z[0]", "jnp.maximum(s[0], z[0])", "3 * s[0] + z[0]",
                           "jnp.where(z[0] > 0, s[0] + 1, 0)", "s[0] ^ z[0]"))  # fmt: skip
    step = f"lambda s, z: (({update},), (s[0],))"
    return {"step": step, "count": 1} | _sizes(random, "plain", "reverse", "last")


def _sizes(random: np.random.Generator, *forms: str) -> dict[str, Any]:
    return {"n": pick(random, (5, 32, 33, 40, 64, 100)), "form": pick(random, forms)}
