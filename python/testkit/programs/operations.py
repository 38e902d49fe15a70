"""What a random program is made of: expressions of Python.

An *exact* value is the same in JAX and in the runtime to the last bit. What jumps (a comparison, a
rounding, an index) reads only exact values: on others a last bit may decide, and nobody is wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: A size is a number, or symbolic.
Shape = tuple[Any, ...]
Draw = Callable[[np.random.Generator, Sequence[Shape]], dict[str, Any] | None]

ANY = "fiub"


def nothing(_random: np.random.Generator, _shapes: Sequence[Shape]) -> dict[str, Any]:
    return {}


@dataclasses.dataclass(frozen=True)
class Operation:
    """An expression, what it reads, and what it makes."""

    #: With `{0}` and `{1}` for the operands, and names for the parameters.
    source: str
    #: The kinds that each operand may have: `f`loat, signed `i`nteger, `u`nsigned, `b`ool.
    kinds: tuple[str, ...]
    #: Reads only exact values.
    jumps: bool = False
    #: The result is exact where the operands are.
    keeps: bool = False
    #: Moves elements and never looks at them.
    moves: bool = False
    #: Operands have one type, and shapes that broadcast.
    alike: bool = True
    #: The fewest axes that the first operand may have.
    rank: int = 0
    #: Parameters for the shapes of the operands; nothing where these do not do.
    draw: Draw = nothing


def choice(**options: Sequence[Any]) -> Draw:
    """One of each of the options."""

    def draw(random: np.random.Generator, _shapes: Sequence[Shape]) -> dict[str, Any]:
        return {name: pick(random, values) for name, values in options.items()}

    return draw


def both(*draws: Draw) -> Draw:
    """The parameters of several."""

    def draw(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any] | None:
        params: dict[str, Any] = {}
        for one in draws:
            drawn = one(random, shapes)
            if drawn is None:
                return None
            params |= drawn
        return params

    return draw


def pick(random: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(random.integers(len(values)))]


def axis(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any] | None:
    rank = len(shapes[0])
    return {"axis": int(random.integers(-rank, rank))} if rank else None


def two_axes(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any] | None:
    rank = len(shapes[0])
    return {name: int(random.integers(rank)) for name in ("axis", "other")} if rank else None


def axes(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    """Some axes, or all of them, and whether they stay."""
    rank = len(shapes[0])
    chosen = tuple(i for i in range(rank) if random.random() < 0.5)
    keep = bool(random.random() < 0.5)
    return {"axes": chosen if random.random() < 0.8 else None, "keep": keep}


def some_axes(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any] | None:
    rank = len(shapes[0])
    if not rank:
        return None
    return {"axes": pick(random, [-1, -1, 0, tuple(range(rank)), (-1,), (-2, -1)[-rank:]])}


def permutation(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    return {"order": tuple(int(i) for i in random.permutation(len(shapes[0])))}


def window(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    rank = len(shapes[0])
    return {
        "window": tuple(int(random.integers(1, 4)) for _ in range(rank)),
        "strides": tuple(int(random.integers(1, 3)) for _ in range(rank)),
        "padding": pick(random, ["SAME", "VALID"]),
    }


def padding(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    amounts = [
        (int(random.integers(-1, 3)), int(random.integers(0, 3)), int(random.integers(2)))
        for _ in shapes[0]
    ]
    return {"config": tuple(amounts)}


def slices(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, Any]:
    parts = [
        pick(random, [":", "1:", ":-1", "::2", "::-1", "-2:", "1::2", ":2"]) for _ in shapes[0]
    ]
    return {"slices": ", ".join(parts) or "..."}


FLOATS = (
    "0.0",
    "-0.0",
    "1.0",
    "-1.0",
    "0.5",
    "6.0",
    "3.0",
    "jnp.inf",
    "-jnp.inf",
    "jnp.nan",
    # The smallest that is normal in every type; XLA takes smaller ones for zero.
    "1e-4",
)
WHOLE = ("0", "1", "2", "3", "-1", "7", "127")
TYPES = ("f32", "f32", "f16", "bf16", "i8", "i16", "i32", "u8", "u16", "u32", "bool")
DTYPES = {
    "f32": "jnp.float32",
    "f16": "jnp.float16",
    "bf16": "jnp.bfloat16",
    "i8": "jnp.int8",
    "i16": "jnp.int16",
    "i32": "jnp.int32",
    "u8": "jnp.uint8",
    "u16": "jnp.uint16",
    "u32": "jnp.uint32",
    "bool": "jnp.bool_",
}
floats, whole = choice(c=FLOATS, d=FLOATS), choice(c=WHOLE, d=WHOLE)


def unary(source: str, kinds: str = "f", **options: Any) -> Operation:
    return Operation(source, (kinds,), **options)


def binary(source: str, kinds: str = "f", **options: Any) -> Operation:
    return Operation(source, (kinds, kinds), **options)


def smooth() -> list[Operation]:
    """Functions that every implementation rounds in its own way."""
    functions = [
        "sin",
        "cos",
        "tanh",
        "arctan",
        "arcsinh",
        "sinh",
        "exp",
        "expm1",
        "exp2",
        "log",
        "log1p",
        "log2",
        "sqrt",
        "cbrt",
        "square",
        "reciprocal",
        "arcsin",
        "arccos",
        "arctanh",
        "arccosh",
        "sinc",
        "deg2rad",
    ]
    primitives = ["logistic", "erf", "erfc", "lgamma", "digamma", "erf_inv"]
    return [
        *[unary(f"jnp.{name}({{0}})") for name in functions],
        *[unary(f"lax.{name}({{0}})") for name in primitives],
        # Of a zero in bfloat16, XLA returns infinity, or NaN in a loop.
        unary("lax.rsqrt(jnp.abs({0}) + 1)"),
        unary("lax.integer_pow({0}, {n})", draw=choice(n=(-2, -1, 2, 3, 4))),
        unary("{0} ** {c}", draw=choice(c=("2", "3", "0.5", "-0.5", "-1", "2.0", "1.5", "0"))),
        # A number below the normal ones would be zero in XLA alone.
        binary("jnp.power(jnp.abs({0}) + 0.5, jnp.maximum({1}, -8))"),
        binary("jnp.power({0}, {1})"),
        binary("jnp.arctan2({0}, {1})"),
        binary("jnp.logaddexp({0}, {1})"),
        binary("jnp.hypot({0}, {1})"),
        binary("{0} / {1}"),
        binary("{0} / (jnp.abs({1}) + 1)"),
        binary("{0} * (1 / {1})"),
        binary("({0} / {1}) * {1}"),
    ]


def arithmetic() -> list[Operation]:
    signs = ("+", "-", "*")
    return [
        *[binary(f"{{0}} {sign} {{1}}", "fiu") for sign in signs for _ in range(2)],
        *[unary(f"{{0}} {sign} {{c}}", draw=floats) for sign in (*signs, "/")],
        *[unary(f"{{0}} {sign} {{c}}", "i", draw=whole) for sign in signs],
        unary("{c} - {0}", draw=floats),
        unary("{c} / {0}", draw=floats),
        unary("{0} + {0}", "fiu"),
        unary("{0} - {0}", "fiu"),
        unary("{0} * {0} + {0}", "fiu"),
        binary("jnp.maximum({0}, {1})", ANY, keeps=True),
        binary("jnp.minimum({0}, {1})", ANY, keeps=True),
        unary("-{0}", "fiu", keeps=True),
        # XLA takes the absolute value of a square of integers for the square, though it may wrap.
        unary("jnp.abs({0})", keeps=True),
        unary("jnp.abs({0} >> 1)", "i", keeps=True),
        *[
            unary(f"jnp.{name}({{0}}, axis={{axes}}, keepdims={{keep}})", "fiu", draw=axes)
            for name in ("sum", "prod", "sum")
        ],
        *[
            unary(f"jnp.{name}({{0}}, axis={{axes}}, keepdims={{keep}})", "f", draw=axes)
            for name in ("mean", "var", "std", "nansum", "nanmean", "linalg.norm")
        ],
        *[
            unary(
                f"jnp.{name}({{0}}, axis={{axes}}, keepdims={{keep}})", ANY, keeps=True, draw=axes
            )
            for name in ("max", "min")
        ],
        *[
            unary(
                f"jnp.{name}({{0}}, axis={{axes}}, keepdims={{keep}})", "ib", draw=axes, jumps=True
            )
            for name in ("any", "all", "count_nonzero")
        ],
        unary("jax.nn.logsumexp({0}, axis={axes}, keepdims={keep})", draw=axes),
        unary("{0}.sum({axis}) / {n}", rank=1, draw=both(axis, choice(n=(2, 3, 4)))),
        unary("({0} ** 2).sum({axes}, keepdims={keep})", draw=axes),
        unary(
            "lax.cumsum({0}, {axis}, reverse={flag})",
            "fiu",
            rank=1,
            draw=both(two_axes, choice(flag=(True, False))),
        ),
        unary(
            "lax.cumprod({0}, {axis}, reverse={flag})",
            "fiu",
            rank=1,
            draw=both(two_axes, choice(flag=(True, False))),
        ),
        unary(
            "lax.cummax({0}, {axis}, reverse={flag})",
            "fiu",
            keeps=True,
            rank=1,
            draw=both(two_axes, choice(flag=(True, False))),
        ),
        unary(
            "lax.cummin({0}, {axis}, reverse={flag})",
            "fiu",
            keeps=True,
            rank=1,
            draw=both(two_axes, choice(flag=(True, False))),
        ),
        unary("lax.cumlogsumexp({0}, {axis})", rank=1, draw=two_axes),
    ]


def jumping() -> list[Operation]:
    exact = {"jumps": True, "keeps": True}
    comparisons = ("==", "!=", "<", ">=", ">", "<=")
    # `Where` of ONNX Runtime loses the sign of a zero, so `signbit` is left out.
    tests = ("isnan", "isfinite", "isinf", "isneginf", "isposinf")
    rounding = ("floor", "ceil", "round", "trunc", "rint", "sign")
    logic = ("&", "|", "^")
    return [
        *[binary(f"{{0}} {sign} {{1}}", ANY, **exact) for sign in comparisons],
        *[unary(f"{{0}} {sign} {{c}}", draw=floats, **exact) for sign in comparisons],
        *[unary(f"jnp.{name}({{0}})", **exact) for name in (*tests, *rounding)],
        unary("jnp.sign({0})", "iu", **exact),
        *[binary(f"{{0}} {sign} {{1}}", "iub", **exact) for sign in logic],
        unary("~{0}", "iub", **exact),
        *[
            binary(f"lax.{name}({{0}}, {{1}})", "iu", **exact)
            for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")
        ],
        # XLA traps on some quotients by zero when it folds constants; the cases have those.
        *[
            binary(f"{run}({{0}}, ({{1}} & 7) + 1)", "iu", **exact)
            for run in ("lax.div", "lax.rem", "jnp.floor_divide", "jnp.remainder", "jnp.fmod")
        ],
        *[
            unary(
                f"{{0}} {sign} {{c}}",
                "i",
                draw=choice(c=("1", "2", "3", "7", "-1", "-2", "-5")),
                **exact,
            )
            for sign in ("//", "%")
        ],
        unary("(1 // (({0} & 3) + 1)) * (({0} & 3) + 1)", "iu", **exact),
        *[
            binary(f"{run}({{0}}, {{1}})", "f", jumps=True)
            for run in ("lax.rem", "jnp.remainder", "jnp.floor_divide", "jnp.fmod")
        ],
        # XLA folds `clz` of a negative constant wrongly.
        unary("lax.clz(lax.shift_right_logical({0}, jnp.ones_like({0})))", "iu", **exact),
        unary("lax.population_count({0})", "iu", **exact),
        *[
            unary("{0}.astype({to})", ANY, draw=choice(to=[DTYPES[t] for t in TYPES]), **exact)
            for _ in range(4)
        ],
        *[
            unary(f"jnp.{name}({{0}}, axis={{axis}})", ANY, rank=1, draw=axis, **exact)
            for name in ("argmax", "argmin", "sort", "argsort")
        ],
        unary("lax.top_k({0}, 1)[{i}]", "fiu", rank=1, draw=choice(i=(0, 1)), **exact),
        unary("lax.top_k({0}, {0}.shape[-1])[{i}]", "fiu", rank=1, draw=choice(i=(0, 1)), **exact),
        binary("jnp.where({0} < {1}, {0}, {1})", ANY, **exact),
        binary("jnp.where({0} > {1}, {0} + {1}, {0} * {1})", "fiu", jumps=True),
        unary("jnp.where({0} > {c}, {0}, {d})", draw=floats, **exact),
        unary("jnp.where({0} > {c}, {d}, {0})", "i", draw=whole, **exact),
        unary("jnp.where({0} == {c}, {0}, {d} * {0})", draw=floats, jumps=True),
        unary("jnp.where(jnp.isnan({0}), {c}, {0})", draw=floats, **exact),
        unary("jnp.where(jnp.isfinite({0}), {0}, 0)", **exact),
        Operation("jnp.where({0}, {1}, {c})", ("b", "f"), keeps=True, alike=False, draw=floats),
        Operation("jnp.where({0}, {c}, {1})", ("b", "i"), keeps=True, alike=False, draw=whole),
        Operation("jnp.where({0}, {1}, -{1})", ("b", "fi"), keeps=True, alike=False),
        binary(
            "lax.cond(({0} < {1}).any(), lambda: {0} - {1}, lambda: {0} * {1})", "fi", jumps=True
        ),
        unary("jnp.nan_to_num({0})", **exact),
        binary("jnp.searchsorted(jnp.sort({0}.reshape(-1)), {1})", "fi", **exact),
        binary("jnp.isin({0}, {1})", "iu", **exact),
    ]


def moving() -> list[Operation]:
    def move(source: str, draw: Draw = nothing, rank: int = 0, **options: Any) -> Operation:
        return unary(source, ANY, keeps=True, moves=True, draw=draw, rank=rank, **options)

    def moves(source: str, draw: Draw = nothing, rank: int = 0) -> Operation:
        return binary(source, ANY, keeps=True, moves=True, draw=draw, rank=rank)

    return [
        move("lax.transpose({0}, {order})", permutation),
        move("{0}.T"),
        move("{0}.swapaxes(-1, -2)", rank=2),
        move("{0}.reshape(-1)"),
        move("{0}.reshape({0}.shape[0], -1)", rank=1),
        move("{0}.reshape(-1, {0}.shape[-1])", rank=1),
        move("{0}.reshape(*{0}.shape[:-1], -1, 2)", rank=1),
        move("{0}[None]"),
        move("{0}[..., None]"),
        move("{0}[:, None]", rank=1),
        move("jnp.squeeze({0})"),
        move("{0}[{slices}]", slices),
        move("{0}[{i}]", choice(i=(0, -1, 1)), 1),
        move("{0}[..., {i}]", choice(i=(0, -1, 1)), 1),
        move("lax.pad({0}, jnp.zeros((), {0}.dtype), {config})", padding),
        move(
            "jnp.pad({0}, 1, mode={mode})",
            choice(mode=["'edge'", "'wrap'", "'reflect'", "'constant'"]),
            1,
        ),
        move("lax.rev({0}, ({axis},))", two_axes),
        move("jnp.flip({0})"),
        move("jnp.roll({0}, {n}, {axis})", both(axis, choice(n=(1, -2, 3))), 1),
        move("jnp.broadcast_to({0}, ({n}, *{0}.shape))", choice(n=(1, 2, 3))),
        move("jnp.repeat({0}, 2, axis={axis})", axis, 1),
        move("jnp.tile({0}, {n})", choice(n=(1, 2, (2, 1)))),
        move("jnp.concatenate(jnp.array_split({0}, 2, axis={axis})[::-1], axis={axis})", axis, 1),
        move("jnp.concatenate([{0}, {0}], axis={axis})", axis, 1),
        move("jnp.tril({0})", rank=2),
        move("jnp.triu({0}, {k})", choice(k=(0, 1, -1)), 2),
        move("jnp.diagonal({0})", rank=2),
        moves("jnp.concatenate([{0}.reshape(-1), {1}.reshape(-1)])"),
        moves("jnp.stack(jnp.broadcast_arrays({0}, {1}), axis={axis})", choice(axis=(0, -1))),
        moves("jnp.concatenate([{0}, {1}], axis={axis})", axis, 1),
    ]
