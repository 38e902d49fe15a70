"""Integers that wrap, flags as numbers, types of one byte and less, and mixtures of types."""

from __future__ import annotations

from typing import Any

from .operations import ANY, DTYPES, Operation, axis, binary, both, choice, two_axes, unary

EXACT: dict[str, Any] = {"jumps": True, "keeps": True}
NAMED = ("i8", "i16", "i32", "u8", "u16", "u32")
INTEGERS = tuple(DTYPES[name] for name in NAMED)
EVERY = (*INTEGERS, "jnp.int64", "jnp.uint64", "jnp.float16", "jnp.bfloat16", "jnp.float32")
FLOAT8 = ("jnp.float8_e4m3fn", "jnp.float8_e5m2", "jnp.float8_e4m3fnuz", "jnp.float8_e5m2fnuz")

#: Integers that may wrap, though a float of the same formula has a sign.
WRAPPED = (
    *("{0} << 1", "{0} << 3", "{0} * {0}", "{0} * {0} * {0}", "{0} * 3", "{0} + {0}", "-{0}"),
    *("{0} - 1", "{0} + 100", "~{0}", "jnp.abs({0})", "jnp.abs({0} // 2) + jnp.abs({0})"),
    *("{0} ** 2", "{0} ** 3", "signed({0})", "unsigned({0})", "{0}.sum() + {0}", "{0} >> 1"),
    *("jnp.cumprod({0}.reshape(-1))", "{0} * 2 + 1", "jnp.max({0} * {0}, initial=1) + {0}"),
    *[f"{{0}}.astype({dtype})" for dtype in INTEGERS],
)
#: What a pass drops or changes if it knows the sign of `x`, or its bounds.
BOUNDED = (
    *("jnp.maximum({x}, 0)", "jnp.minimum({x}, 0)", "jnp.clip({x}, 0, 9)", "jnp.clip({x}, 0, 2)"),
    *("jax.nn.relu({x})", "jax.nn.relu6({x})", "jnp.abs({x})", "jnp.sign({x})", "({x}) >= 0"),
    *("({x}) < 0", "({x}) // 2", "({x}) % 3", "jnp.maximum({x}, 1)", "jnp.minimum({x}, 100)"),
    "jnp.where(({x}) < 0, 0, {x})",
    "lax.switch(({x}).sum(), [lambda: {0} * 2, lambda: -{0}, lambda: {0} + 1])",
    "jnp.asarray(weight(5, 3))[{x}]",
    "lax.cond(({x}).sum() >= 0, lambda: {0} + 1, lambda: {0} * 5)",
    "jnp.sqrt(jnp.maximum({x}, 0).astype(jnp.float32))",
    "({x}).astype(jnp.float32)",
    "({x}).astype(jnp.int32)",
    "lax.fori_loop(0, jnp.clip(({x}).sum(), 0, 3), lambda i, a: a + a, {0})",
)


def wrapping() -> list[Operation]:
    return [
        unary(outer.replace("{x}", inner), "iu", jumps=True)
        for inner in WRAPPED
        for outer in BOUNDED
    ]


def integers() -> list[Operation]:
    """Arithmetic of integers beyond their bounds."""
    shifts = choice(n=(0, 1, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, -1))
    return [
        *[binary(f"{{0}} {sign} {{1}}", "iu", **EXACT) for sign in ("+", "-", "*", "&", "^")],
        *[
            unary(f"lax.{name}({{0}}, jnp.asarray({{n}}).astype({{0}}.dtype))", "iu", draw=shifts)
            for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")
        ],
        *[
            binary(f"jnp.{name}({{0}}, {{1}})", "iu", **EXACT)
            for name in ("maximum", "minimum", "gcd", "lcm", "bitwise_and", "left_shift")
        ],
        # XLA traps on some quotients by zero when it folds constants; the grid has those.
        *[
            binary(f"{run}({{0}}, {{1}} | 1)", "iu", **EXACT)
            for run in ("lax.div", "lax.rem", "jnp.floor_divide", "jnp.remainder", "jnp.fmod")
        ],
        binary("jnp.divmod({0}, {1} | 1)[{i}]", "iu", draw=choice(i=(0, 1)), **EXACT),
        binary("jnp.power({0}, jnp.abs({1} % 9))", "iu", **EXACT),
        unary("lax.integer_pow({0}, {n})", "iu", draw=choice(n=(0, 1, 2, 3, 5, 8))),
        unary("jnp.bitwise_count({0})", "iu", **EXACT),
        unary("{0}.astype({to}).astype({back})", "fiu", draw=choice(to=INTEGERS, back=EVERY[:6]),
              **EXACT),
        unary("signed({0})", "iu", **EXACT),
        unary("unsigned({0})", "iu", **EXACT),
        unary("lax.bitcast_convert_type({0}, {to})", "fiu", draw=choice(to=INTEGERS), **EXACT),
        unary("jnp.clip({0}, {c}, {d})", "iu",
              draw=choice(c=(0, 1, 2, 5), d=(0, 2, 9, 100)), **EXACT),
        *[
            unary(f"jnp.{name}({{0}}, {{c}})", "iu", draw=choice(c=(0, 0, 1, 5, 100)), **EXACT)
            for name in ("maximum", "minimum")
        ],
        *[unary(f"{run}({{0}})", "i", **EXACT) for run in ("jnp.abs", "jax.nn.relu", "jnp.sign")],
        *[
            unary(f"jnp.{name}({{0}}, axis={{axis}})", "iu", rank=1, draw=axis)
            for name in ("cumsum", "cumprod", "sum", "prod", "max", "min", "ptp")
        ],
        unary("lax.{name}({0}, {axis}, reverse=True)", "iu", rank=1,
              draw=both(two_axes, choice(name=("cumsum", "cumprod", "cummax", "cummin")))),
        # XLA ignores the initial value of `xor` over an axis of size 1.
        unary("lax.reduce({0}, jnp.asarray({c}, {0}.dtype), {fold}, ({axis},))", "iu", rank=1,
              draw=both(two_axes, choice(c=(0, 1), fold=(
                  "lax.add", "lax.mul", "lax.max", "lax.bitwise_and", "lax.bitwise_or")))),
        binary("{0} @ {1}", "iu", rank=1),
        unary("{0} / {c}", "iu", draw=choice(c=(1, 2, 3, 7))),
        unary("jnp.mean({0})", "iu"),
        unary("(2 * {0} + 1) // 2", "iu", jumps=True),
        unary("jnp.packbits({0} > 1)", "iu", jumps=True),
        unary("jnp.unpackbits({0}.astype(jnp.uint8))", "iu", jumps=True),
        unary("lax.switch({0}.sum() {sign} 1, [lambda: {0}, lambda: {0} * 2, lambda: -{0}])", "iu",
              draw=choice(sign=("<<", "+", "*", "-", "&", ">>"))),
        unary("jnp.digitize({0}, jnp.array([-5, 0, 3, 100]))", "iu", jumps=True),
        unary("hashed({0}, {n})", "iu", draw=choice(n=(1, 2, 5))),
    ]  # fmt: skip


def flags() -> list[Operation]:
    """Flags as numbers of every type."""
    to = choice(to=EVERY, c=(0, 1, 2), k=(1, 3, 7), cmp=(">", "<", "==", "!=", ">="))
    flag = "({0} {cmp} {c}).astype({to})"
    number = "jnp.asarray({k}, {to})"
    sources = [
        f"{flag} * {number}",
        f"{number} - {flag}",
        f"{flag} - {number}",
        f"{flag} + {number}",
        f"{flag} * {flag} + {number}",
        f"(1 - {flag}) * {number}",
        f"jnp.where({{0}} {{cmp}} {{c}}, {number}, jnp.asarray(0, {{to}}))",
        f"jnp.maximum({flag}, {number})",
        f"{flag}.sum() * {number}",
        f"jnp.cumsum({flag}.reshape(-1))",
        f"{flag} * {{0}}.astype({{to}})",
        f"-{flag}",
        f"{flag} ** 2",
        f"{flag} == {number}",
    ]
    return [
        *[unary(source, "fiu", jumps=True, draw=to) for source in sources],
        *[
            unary(source.replace(" {cmp} {c}", ""), "b", jumps=True, draw=to)
            for source in sources[:6]
        ],
        *[binary(f"{{0}} {sign} {{1}}", "b", **EXACT) for sign in ("+", "*", "&", "|", "^")],
        binary("{0} {sign} {1}", "b", draw=choice(sign=("<", "<=", "==", "!=", ">")), **EXACT),
        Operation("{0} * {1}", ("b", "fiu"), alike=False, keeps=True),
        Operation("{0} + {1}", ("b", "fiu"), alike=False),
        Operation("{1} - {0}", ("b", "fiu"), alike=False),
        Operation("jnp.where({0}, {1}, 0) + jnp.where({0}, 0, {1})", ("b", "iu"), alike=False),
        Operation("({0} & ({1} > 0)).sum()", ("b", "iu"), alike=False),
        unary("{0} @ {0}.T", "b", rank=1, **EXACT),
        unary("{0}.mean()", "b"),
        unary("{0}.sum(dtype={to})", "b", draw=choice(to=EVERY)),
        unary("{0}.prod()", "b", **EXACT),
        unary("jnp.{name}({0}, axis={axis})", "b", rank=1,
              draw=both(axis, choice(name=("max", "min", "any", "all", "cumsum", "argmax", "sort",
                                           "argsort", "count_nonzero"))), **EXACT),
        unary("jnp.sqrt({0})", "b"),
        unary("{0} / 2", "b"),
        unary("~{0} * 2 - {0}", "b", **EXACT),
    ]  # fmt: skip


def narrow() -> list[Operation]:
    """Arithmetic in types that ONNX Runtime has few kernels for."""
    to = choice(t=(*FLOAT8[:2], *FLOAT8), c=(2, 0.5, 100, 240, -200))
    left, right = "{0}.astype({t})", "{1}.astype({t})"
    up = ".astype(jnp.float32)"
    half = choice(t=("jnp.float16", "jnp.bfloat16"))
    four = choice(t=("jnp.int4", "jnp.uint4"))
    return [
        *[
            binary(f"({left} {sign} {right}){up}", "fiu", jumps=True, draw=to)
            for sign in ("+", "-", "*")
        ],
        *[
            unary(f"({left} {sign} jnp.asarray({{c}}, {{t}})){up}", "fiu", jumps=True, draw=to)
            for sign in ("+", "*", "-")
        ],
        *[
            unary(f"({source.format(left)}){up}", "fiu", jumps=True, draw=to)
            for source in (
                *("-{0}", "jnp.abs({0})", "{0}.max()", "jax.nn.relu({0})", "{0}", "jnp.sign({0})"),
                *("{0} * {0}", "jnp.square({0})", "jnp.where({0} > 0, {0}, 0)", "jnp.isnan({0})"),
                # Other sums may overflow or not, as the order of additions has it.
                "jnp.isfinite(steps_to_overflow({0}).sum())",
                "jnp.isfinite(jnp.cumsum(steps_to_overflow({0}).reshape(-1)))",
                "jnp.sort({0}.reshape(-1))",
            )
        ],
        *[
            binary(f"jnp.{name}({left}, {right}){up}", "fiu", jumps=True, draw=to)
            for name in ("maximum", "minimum", "equal", "less")
        ],
        *[
            binary(f"({left} {sign} {right}).astype(jnp.int32)", "iu", jumps=True, draw=four)
            for sign in ("+", "-", "*")
        ],
        unary(f"{left}.astype(jnp.int32)", "fiu", jumps=True, draw=four),
        unary(f"jnp.maximum({left}, 0).astype(jnp.int32)", "iu", jumps=True, draw=four),
        unary(f"{left}{up}", "iu", jumps=True, draw=half),
        unary(f"{left}.astype({{to}})", "f", jumps=True,
              draw=choice(t=(*FLOAT8, "jnp.float16", "jnp.bfloat16"), to=INTEGERS)),
    ]  # fmt: skip


def mixed() -> list[Operation]:
    """Operands of different types, which JAX promotes."""
    numbers: dict[str, Any] = {"alike": False}
    return [
        *[
            Operation(f"{{0}} {sign} {{1}}", (ANY, "fiu"), **numbers)
            for sign in ("+", "*", "+", "*")
        ],
        Operation("{0} - {1}", ("fiu", "fiu"), **numbers),
        Operation("{0} / (jnp.abs({1}) + 1)", ("fiu", "fiu"), **numbers),
        *[
            Operation(f"jnp.{name}({{0}}, {{1}})", (ANY, ANY), keeps=True, **numbers)
            for name in ("maximum", "minimum")
        ],
        Operation("{0} {sign} {1}", (ANY, ANY), jumps=True, alike=False,
                  draw=choice(sign=("<", ">=", "=="))),
        Operation("jnp.where({0} > 0, {0}, {1})", ("fiu", ANY), jumps=True, alike=False),
        *[
            unary(f"{{0}} {sign} {{c}}", "iu", draw=choice(c=("1.5", "-0.5", "True", "2")))
            for sign in ("+", "*", "-", "/")
        ],
        unary("jnp.float32(2) * {0} + 1", "fiu"),
        unary("np.int8(2) * {0} + np.uint8(200)", "fiu"),
        unary("jnp.asarray(2) * {0}", "fiu"),
        unary("{0} ** {c}", "iu", draw=choice(c=("2", "2.0", "0.5", "0", "1"))),
        unary("2 ** {0}", "f"),
        unary("jnp.float_power(jnp.abs({0}) + 1, 2)", "f"),
        Operation("{0} @ {1}", ("fiu", "fiu"), rank=1, alike=False),
        Operation("lax.select_n({0} > 1, {0}, {0} * 2)", ("iu",), jumps=True),
        Operation("jnp.concatenate([{0}.reshape(-1), {1}.reshape(-1)])", (ANY, ANY), keeps=True,
                  alike=False),
        Operation("jnp.ldexp({0}, {1} & 3)", ("f", "i"), alike=False),
        unary("jnp.frexp({0})[{i}]", jumps=True, draw=choice(i=(0, 1))),
        unary("jnp.modf({0})[{i}]", jumps=True, draw=choice(i=(0, 1))),
        unary("jnp.round({0} * 2) / 2", jumps=True),
        binary("jnp.copysign({0}, {1})", keeps=True, jumps=True),
        binary("jnp.heaviside({0}, {1})", jumps=True),
        binary("jax.scipy.special.xlogy({0}, jnp.abs({1}))"),
        unary("jnp.interp({0}, jnp.array([-1.0, 0, 2]), jnp.array([3.0, 1, 2]))"),
    ]  # fmt: skip
