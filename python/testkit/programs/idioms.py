"""Formulas that passes look for, and what only looks like them."""

from __future__ import annotations

from typing import Any

from .operations import (
    ANY,
    FLOATS,
    Operation,
    axes,
    axis,
    both,
    choice,
    floats,
    some_axes,
    two_axes,
    unary,
    whole,
    window,
)

_BOUNDS = (*FLOATS, "2", "-3", "0")


def activations() -> list[Operation]:
    names = [
        "relu",
        "relu6",
        "silu",
        "softplus",
        "elu",
        "selu",
        "celu",
        "leaky_relu",
        "mish",
        "hard_sigmoid",
        "hard_swish",
        "hard_tanh",
        "log_sigmoid",
        "soft_sign",
        "squareplus",
        "sigmoid",
        "gelu",
        "sparse_plus",
    ]
    slope = choice(c=("0.0", "1.0", "0.01", "0.5", "-1.0", "2.0"), d=("1.0", "0.5", "3.0"))
    jump: dict[str, Any] = {"jumps": True, "draw": floats}
    return [
        *[unary(f"jax.nn.{name}({{0}})") for name in names],
        unary("jax.nn.gelu({0}, approximate=False)"),
        unary("{0} * jax.nn.sigmoid({c} * {0})", draw=slope),
        unary("{0} * 0.5 * (1 + lax.erf({0} / {c}))", draw=choice(c=("np.sqrt(2)", "1.5", "2"))),
        unary("0.5 * {0} * lax.erfc(-{0} * {c})", draw=choice(c=("np.sqrt(0.5)", "0.7", "1"))),
        unary("{0} * jnp.clip({0} / {c} + 0.5, 0, 1)", draw=choice(c=("6", "5", "-6"))),
        unary("{0} * jax.nn.relu6({0} + {c}) / 6", draw=choice(c=("3", "2", "-3"))),
        unary("{0} * jnp.tanh(jax.nn.softplus({0} * {d}))", draw=slope),
        unary("jnp.log1p(jnp.exp({0}))"),
        unary("jnp.log(1 + jnp.exp({d} * {0}))", draw=slope),
        unary("{0} / ({d} + jnp.abs({0}))", draw=slope),
        unary("1 / (1 + jnp.exp(-{d} * {0}))", draw=slope),
        unary("jax.nn.leaky_relu({0}, {c})", draw=slope),
        unary("jnp.where({0} > {c}, {0}, 0.0)", draw=choice(c=("0.5", "0.0", "-1.0"))),
        unary("jax.nn.elu({0}, {c})", draw=slope),
        unary("jax.nn.celu({0}, {d})", draw=slope),
        unary("jnp.where({0} > {c}, {0}, {d} * {0})", **jump),
        unary("jnp.where({0} < 0, {d} * {0}, {0})", **jump),
        unary("jnp.where({0} > 0, {0}, {d} * jnp.expm1({0}))", **jump),
        unary("jnp.where({0} > 0, {0}, {d} * (jnp.exp({0}) - 1))", **jump),
        unary("jnp.maximum({0}, {c} * {0})", draw=floats),
        unary("jnp.minimum({0}, 0) * {c} + jnp.maximum({0}, 0)", draw=slope),
        unary("jnp.sqrt({0} * {0} + {c})", draw=slope),
    ]


def bounds() -> list[Operation]:
    limits = choice(c=_BOUNDS, d=_BOUNDS)
    kept: dict[str, Any] = {"keeps": True, "draw": limits}
    integers: dict[str, Any] = {"keeps": True, "draw": whole}
    return [
        unary("jnp.clip({0}, {c}, {d})", **kept),
        unary("jnp.minimum(jnp.maximum({0}, {c}), {d})", **kept),
        unary("jnp.maximum(jnp.minimum({0}, {c}), {d})", **kept),
        unary("jnp.maximum({0}, {c})", **kept),
        unary("jnp.minimum({0}, {c})", **kept),
        unary("jnp.clip({0}, {c}, {d})", "i", **integers),
        unary("jnp.minimum(jnp.maximum({0}, {c}), {d})", "i", **integers),
        unary("1 / jnp.maximum({0}, 0)"),
        Operation("jnp.clip({0}, {1}, {2})", ("f", "f", "f"), keeps=True),
        Operation("lax.clamp({1}.min(), {0}, {1}.max())", ("fi", "fi"), keeps=True),
    ]


def norms() -> list[Operation]:
    layer = ("plain", "fast", "unbiased", "deviation", "quotient", "uncentered", "mean used twice")
    eps = choice(eps=(1e-5, 1e-6, 0.1, 1.0))
    soft = "jnp.exp({0} - {0}.max({axis}, keepdims=True))"
    return [
        unary(
            "layer_norm({0}, {axes}, {form!r}, {eps})",
            rank=1,
            draw=both(some_axes, choice(form=layer), eps),
        ),
        unary(
            "layer_norm({0}, {axes}, {form!r}, {eps}) * weight({0}.shape[-1], dtype={0}.dtype)",
            rank=1,
            draw=both(some_axes, choice(form=layer), eps),
        ),
        unary(
            "rms_norm({0}, {axes}, {form!r}, {eps})",
            rank=1,
            draw=both(some_axes, choice(form=("plain", "sum", "cube", "inside")), eps),
        ),
        unary("group_norm({0}, {form!r})", rank=3, draw=choice(form=("last", "spatial", "groups"))),
        unary("jax.nn.standardize({0}, axis={axis})", rank=1, draw=axis),
        unary("{0} / jnp.linalg.norm({0}, axis={axis}, keepdims=True)", rank=1, draw=axis),
        unary("jax.nn.softmax({0}, axis={axis})", rank=1, draw=axis),
        unary("jax.nn.log_softmax({0}, axis={axis})", rank=1, draw=axis),
        unary("jnp.log(jax.nn.softmax({0}, axis={axis}))", rank=1, draw=axis),
        unary("jax.nn.softmax({0}, axis={axes})", rank=1, draw=axes),
        unary("jnp.exp({0}) / jnp.exp({0}).sum({axis}, keepdims=True)", rank=1, draw=axis),
        unary(soft + " / " + soft + ".sum({other}, keepdims=True)", rank=1, draw=two_axes),
        unary("{0} - jax.nn.logsumexp({0}, axis={other}, keepdims=True)", rank=1, draw=two_axes),
        Operation(
            "jax.nn.softmax(jnp.where({0}, {1}, {c}), axis=-1)",
            ("b", "f"),
            alike=False,
            rank=1,
            draw=choice(c=("-jnp.inf", "-1e9", "0.0", "-1e30")),
        ),
        Operation(
            "jax.nn.softmax({1}, axis=-1, where={0})",
            ("b", "f"),
            alike=False,
            rank=1,
        ),
    ]


def sequences() -> list[Operation]:
    masks = choice(
        mask=("none", "causal", "causal", "anti", "first"),
        form=("plain", "plain", "inf", "min", "add", "axis", "zeros"),
    )
    gates = (
        "plain",
        "plain",
        "reset first",
        "relu",
        "swapped",
        "other output",
        "batched state",
        "reverse",
        "last",
    )
    cells = ("plain", "plain", "forget bias", "no tanh", "cells", "start", "reverse", "last")
    turns = ("halves", "neighbours", "other sign", "other order")
    return [
        *[unary("attention({0}, {0}, {mask!r}, {form!r})", rank=2, draw=masks) for _ in range(2)],
        Operation("attention({0}, {1}, {mask!r}, {form!r})", ("f", "f"), rank=2, draw=masks),
        unary("rotary({0}, {form!r})", rank=2, draw=choice(form=turns)),
        *[unary("gru({0}, {form!r})", rank=2, draw=choice(form=gates)) for _ in range(2)],
        *[unary("lstm({0}, {form!r})", rank=2, draw=choice(form=cells)) for _ in range(2)],
        unary(
            "lax.scan(lambda c, t: (c * 0.5 + t, c - t), jnp.zeros_like({0}[0]), {0})[{i}]",
            rank=1,
            draw=choice(i=(0, 1)),
        ),
        unary(
            "lax.scan(lambda c, t: (c + t, c), jnp.zeros({0}.shape[1:], {0}.dtype), {0})[{i}]",
            "fiu",
            rank=1,
            draw=choice(i=(0, 1)),
        ),
        unary(
            "lax.scan(lambda c, t: (c * 0.5, (t * t).T @ (c + 1)), {0}[0, :, 0], {0})[1]", rank=3
        ),
        unary(
            "looped({0}, {form!r})",
            rank=2,
            draw=choice(
                form=("plain", "counter", "normed", "gathered", "reverse", "backwards", "last")
            ),
        ),
        unary("field({0}, {n})", rank=1, draw=choice(n=(1, 2, 4, 40))),
        unary(
            "accepted({0}, {form!r})",
            jumps=True,
            draw=choice(form=("flag", "quotient", "dependent", "broadcast", "elements")),
        ),
        unary("jnp.argmax({0}) // {n}", jumps=True, draw=choice(n=(1, 3, -2))),
        unary("jnp.argmin({0}) % {n}", jumps=True, draw=choice(n=(1, 3, -2))),
        unary("{0} // {n} + {0} % {n}", "i", draw=choice(n=(1, 3, -2))),
        unary("lax.associative_scan(jnp.add, {0})", "fiu", rank=1),
        unary("lax.fori_loop(0, {n}, lambda i, c: c * 0.5 + i, {0})", draw=choice(n=(0, 1, 3))),
        unary(
            "lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, {0}))[1]"
        ),
    ]


def products() -> list[Operation]:
    shapes = ("...ij,...kj->...ik", "...ij,...ij->...i", "...ij,...ik->...jk", "...ij,...ij->...j")
    return [
        Operation("{0} @ {1}", ("fiu", "fiu"), rank=1),
        Operation("{0}.T @ {1}", ("fi", "fi"), rank=1),
        Operation("{0} @ {1}.T", ("fi", "fi"), rank=1),
        Operation("jnp.dot({0}, {1})", ("f", "f")),
        Operation("jnp.outer({0}, {1})", ("fi", "fi")),
        Operation("jnp.einsum({form!r}, {0}, {1})", ("f", "f"), rank=2, draw=choice(form=shapes)),
        unary("{0} @ {0}.swapaxes(-1, -2)", "fiu", rank=2),
        unary("{0}.swapaxes(-1, -2) @ {0}[..., 0]", "fi", rank=2),
        unary("{0}.T @ {0}[..., 0].T", "f", rank=2),
        unary("({0} * {0}).T @ jnp.ones({0}.shape[0], {0}.dtype)", "f", rank=2),
        unary("{0}[..., 0] @ {0}", "f", rank=2),
        unary("{0} @ weight({0}.shape[-1], 3, dtype={0}.dtype)", rank=1),
        unary(
            "{0} @ weight({0}.shape[-1], 3, dtype={0}.dtype) + weight(3, dtype={0}.dtype)", rank=1
        ),
        unary("weight(2, {0}.shape[0], dtype={0}.dtype) @ {0}", rank=1),
        unary("{0} @ weight({0}.shape[-1], dtype={0}.dtype)", rank=1),
        unary("(weight({0}.shape[-1], 1, dtype={0}.dtype) * {0}[..., None]).sum(-2)", rank=1),
    ]


def images() -> list[Operation]:
    forms = ("plain", "bias", "norm", "relu", "dilated", "depthwise")
    pools = ("max", "max", "min", "sum", "mean", "max from 0")
    drawn = choice(form=forms, padding=("SAME", "VALID"), stride=(1, 2))
    return [
        unary("convolution({0}, {form!r}, {padding!r}, {stride})", rank=3, draw=drawn),
        unary(
            "pooled({0}, {kind!r}, {window}, {strides}, {padding!r})",
            rank=1,
            draw=both(window, choice(kind=pools)),
        ),
        unary(
            "jax.image.resize({0}, ({0}.shape[0] * 2, *{0}.shape[1:]), {form!r})",
            rank=1,
            draw=choice(form=("nearest", "linear")),
        ),
    ]


def indices() -> list[Operation]:
    keep: dict[str, Any] = {"keeps": True, "alike": False}
    modes = choice(mode=("clip", "fill", "wrap", "promise_in_bounds")[:3])
    updates = choice(
        update=("set", "add", "mul", "min", "max"), c=("1", "2"), mode=("drop", "clip")
    )
    at = choice(
        i=("0", "-1", "1", "0, ...", "..., 0", "..., -1"),
        update=("set", "add", "mul", "max"),
    )
    return [
        Operation(
            "jnp.take({0}, {1}, axis={axis}, mode={mode!r})",
            (ANY, "iu"),
            rank=1,
            draw=both(axis, modes),
            **keep,
        ),
        Operation("{0}[{1}]", (ANY, "iu"), rank=1, **keep),
        Operation("{0}[..., {1}]", (ANY, "iu"), rank=1, **keep),
        Operation("{0}.at[{1}].get(mode='fill', fill_value=1)", (ANY, "iu"), rank=1, **keep),
        Operation("{0}[{1} % {0}.shape[0]]", (ANY, "i"), rank=1, **keep),
        Operation("{0}[jnp.clip({1}, 0, {0}.shape[0] - 1)]", (ANY, "i"), rank=1, **keep),
        Operation(
            "jnp.take_along_axis({0}, {1}, axis={axis}, mode={mode!r})",
            (ANY, "i"),
            rank=1,
            draw=both(axis, modes),
            **keep,
        ),
        Operation(
            "{0}.at[{1}].{update}({c}, mode={mode!r})",
            ("fiu", "iu"),
            rank=1,
            alike=False,
            draw=updates,
        ),
        unary("{0}.at[{i}].{update}(1)", "fiu", rank=1, draw=at),
        unary("{0}.at[{i}].set(0)", ANY, keeps=True, rank=1, draw=at),
        Operation(
            "lax.dynamic_slice_in_dim({0}, {1}.sum(), 1, {axis})",
            (ANY, "i"),
            rank=1,
            draw=axis,
            **keep,
        ),
        Operation(
            "lax.dynamic_update_slice_in_dim({0}, {0}[:1] * 0 + 1, {1}.max(), 0)",
            ("fi", "i"),
            rank=1,
            alike=False,
        ),
        unary("jax.nn.one_hot({0}, {n})", "iu", keeps=True, draw=choice(n=(1, 3, 5))),
        unary(
            "jax.nn.one_hot({0}, {n}, axis=0, dtype=jnp.int32)",
            "iu",
            keeps=True,
            draw=choice(n=(2, 4)),
        ),
        unary("jnp.eye(4)[{0}]", "i", keeps=True),
        unary("jnp.asarray(weight(5, 3))[{0}]", "iu", keeps=True),
        unary("jnp.take(weight(5, 3), {0}, axis=0, mode={mode!r})", "iu", keeps=True, draw=modes),
        unary("jnp.bincount({0}.reshape(-1) & 3, length=4)", "i", keeps=True),
        unary("jax.ops.segment_sum(jnp.ones({0}.shape), {0}, 4)", "i", rank=1),
    ]
