"""What a random program is made of.

An *exact* value is the same in JAX and in the runtime to the last bit. What jumps (a comparison, a
rounding, an index) reads only exact values: on others a last bit may decide, and nobody is wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Draw = Callable[[np.random.Generator, tuple[int, ...]], dict[str, Any] | None]


@dataclasses.dataclass(frozen=True)
class Operation:
    """How to run it, on what, and what it makes."""

    run: Callable[..., jax.Array]
    #: The kinds that operands may have: `f`loat, signed `i`nteger, `u`nsigned, `b`ool.
    kinds: str
    operands: int = 1
    #: Reads only exact values.
    jumps: bool = False
    #: The result is exact where the operands are.
    keeps: bool = False
    #: Parameters for a shape; nothing where the shape does not do.
    draw: Draw = lambda _random, _shape: {}


def axis(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any] | None:
    return {"axis": int(random.integers(len(shape)))} if shape else None


def full_axis(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any] | None:
    params = axis(random, shape)
    return params if params and shape[params["axis"]] > 0 else None


def rows(_: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any] | None:
    return {} if shape and shape[0] > 0 else None


def permutation(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"order": tuple(int(i) for i in random.permutation(len(shape)))}


def window(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    starts = [int(random.integers(size + 1)) for size in shape]
    limits = [
        int(random.integers(start, size + 1)) for start, size in zip(starts, shape, strict=True)
    ]
    strides = [int(random.integers(1, 3)) for _ in shape]
    return {"starts": tuple(starts), "limits": tuple(limits), "strides": tuple(strides)}


def padding(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    def amounts(size: int) -> tuple[int, int, int]:
        low = int(random.integers(-min(size, 1), 3))
        high = int(random.integers(-max(min(size + low, 1), 0), 3))
        return low, high, int(random.integers(2))

    return {"config": tuple(amounts(size) for size in shape)}


def repeats(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"leading": int(random.integers(1, 4))}


def flat(x: jax.Array) -> jax.Array:
    return x.reshape(-1)


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    """The sum over the last axis of both, where it has one size, else each with each."""
    if x.ndim and y.ndim and x.shape[-1] == y.shape[-1]:
        return lax.dot_general(x, y, (((x.ndim - 1,), (y.ndim - 1,)), ((), ())))
    return lax.dot_general(x, y, (((), ()), ((), ())))


def halved(x: jax.Array) -> jax.Array:
    """Without the sign: XLA folds `clz` of a negative constant wrongly."""
    return lax.shift_right_logical(x, jnp.asarray(1, x.dtype))


def size(x: jax.Array) -> jax.Array:
    """XLA takes the absolute value of a square of integers for the square, though it may wrap."""
    if x.dtype.kind == "f":
        return lax.abs(x)
    return lax.abs(lax.shift_right_arithmetic(x, jnp.asarray(1, x.dtype)))


def small_divisor(x: jax.Array) -> jax.Array:
    return lax.bitwise_and(x, jnp.asarray(7, x.dtype)) + jnp.asarray(1, x.dtype)


def loop(x: jax.Array) -> jax.Array:
    carry, outputs = lax.scan(lambda c, y: (c * 0.5 + y, c - y), jnp.zeros_like(x[0]), x)
    return outputs + carry


def branch(x: jax.Array) -> jax.Array:
    return lax.cond(x.size % 2 == 0, lambda v: v + 1, lambda v: v * 2, x)


def chosen(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.cond((x < y).any(), lambda: x - y, lambda: x * y)


def to(dtype: Any) -> Callable[[jax.Array], jax.Array]:
    return lambda x: lax.convert_element_type(x, dtype)


def _smooth() -> dict[str, Operation]:
    unary = {
        "sin": lax.sin,
        "cos": lax.cos,
        "tanh": lax.tanh,
        "logistic": lax.logistic,
        "exp": lambda x: lax.exp(lax.clamp(jnp.asarray(-5, x.dtype), x, jnp.asarray(5, x.dtype))),
        "expm1": lambda x: lax.expm1(lax.tanh(x)),
        "log1p": lambda x: lax.log1p(lax.abs(x)),
        "sqrt": lambda x: lax.sqrt(lax.abs(x) + 1),
        "rsqrt": lambda x: lax.rsqrt(lax.abs(x) + 1),
        "cbrt": lambda x: lax.cbrt(lax.abs(x) + 1),
        "erf": lax.erf,
        "erfc": lambda x: lax.erfc(lax.tanh(x)),
        "lgamma": lambda x: lax.lgamma(lax.abs(x) + 1),
        "atan": lax.atan,
        "asinh": lax.asinh,
        "sinh": lambda x: lax.sinh(lax.tanh(x)),
        "square": lax.square,
        "cube": lambda x: lax.integer_pow(lax.tanh(x), 3),
    }
    binary = {
        "quotient": lambda x, y: x / (lax.abs(y) + 1),
        "power": lambda x, y: lax.pow(lax.abs(x) + 0.5, lax.tanh(y)),
        "angle": lambda x, y: lax.atan2(x, lax.abs(y) + 1),
    }
    return {
        **{name: Operation(run, "f") for name, run in unary.items()},
        **{name: Operation(run, "f", 2) for name, run in binary.items()},
        "mean": Operation(lambda x, axis: x.mean(axis=axis), "f", draw=full_axis),
        "softmax": Operation(lambda x, axis: jax.nn.softmax(x, axis=axis), "f", draw=full_axis),
        "logsumexp": Operation(lambda x, axis: jax.nn.logsumexp(x, axis=axis), "f", draw=full_axis),
        "running product": Operation(
            lambda x, axis: lax.cumprod(lax.tanh(x), axis), "f", draw=axis
        ),
        "scan": Operation(loop, "f", draw=rows),
    }


def _arithmetic() -> dict[str, Operation]:
    binary = {"add": lax.add, "sub": lax.sub, "mul": lax.mul}
    return {
        **{name: Operation(run, "fiu", 2) for name, run in binary.items()},
        "max": Operation(lax.max, "fiub", 2, keeps=True),
        "min": Operation(lax.min, "fiub", 2, keeps=True),
        "neg": Operation(lax.neg, "fiu", keeps=True),
        "abs": Operation(size, "fi", keeps=True),
        "sum": Operation(lambda x, axis: x.sum(axis=axis), "fiu", draw=axis),
        "running sum": Operation(lambda x, axis: lax.cumsum(x, axis), "fiu", draw=axis),
        "product": Operation(product, "fiu", 2),
        "branch": Operation(branch, "fiu"),
        "largest": Operation(lambda x, axis: x.max(axis=axis), "fiub", keeps=True, draw=full_axis),
        "smallest": Operation(lambda x, axis: x.min(axis=axis), "fiub", keeps=True, draw=full_axis),
        "running max": Operation(lambda x, axis: lax.cummax(x, axis), "fiu", keeps=True, draw=axis),
    }


def _jumping() -> dict[str, Operation]:
    comparisons = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "ge": lax.ge}
    rounding = {"floor": lax.floor, "ceil": lax.ceil, "round": jnp.round}
    bitwise = {
        "shift left": lax.shift_left,
        "shift right": lax.shift_right_logical,
        "shift down": lax.shift_right_arithmetic,
        # XLA traps on some quotients by zero when it folds constants; the cases have those.
        "div": lambda x, y: lax.div(x, small_divisor(y)),
        "rem": lambda x, y: lax.rem(x, small_divisor(y)),
    }
    logic = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}
    return {
        **{name: Operation(run, "fiub", 2, True, True) for name, run in comparisons.items()},
        **{name: Operation(run, "f", 1, True, True) for name, run in rounding.items()},
        **{name: Operation(run, "iu", 2, True, True) for name, run in bitwise.items()},
        **{name: Operation(run, "iub", 2, True, True) for name, run in logic.items()},
        "not": Operation(lax.bitwise_not, "iub", 1, True, True),
        "sign": Operation(lax.sign, "fi", 1, True, True),
        "clz": Operation(lambda x: lax.clz(halved(x)), "iu", 1, True, True),
        "population": Operation(lax.population_count, "iu", 1, True, True),
        "to f32": Operation(to(np.float32), "iub", 1, True, True),
        "to i32": Operation(to(np.int32), "fiub", 1, True, True),
        "to u8": Operation(to(np.uint8), "iub", 1, True, True),
        "to bool": Operation(to(np.bool_), "fiu", 1, True, True),
        "argmax": Operation(
            lambda x, axis: lax.argmax(x, axis, np.int32), "fiub", 1, True, True, draw=full_axis
        ),
        "where": Operation(lambda x, y: jnp.where(x < y, x, y + y), "iu", 2, True, True),
        "cond": Operation(chosen, "i", 2, True, True),
    }


def _moving() -> dict[str, Operation]:
    def move(
        run: Callable[..., jax.Array], draw: Draw | None = None, operands: int = 1
    ) -> Operation:
        options = {"draw": draw} if draw else {}
        return Operation(run, "fiub", operands, keeps=True, **options)

    def padded(x: jax.Array, config: Any) -> jax.Array:
        return lax.pad(x, jnp.zeros((), x.dtype), config)

    return {
        "transpose": move(lambda x, order: lax.transpose(x, order), permutation),
        "flat": move(flat),
        "row": move(lambda x: x[None]),
        "column": move(lambda x: x[..., None]),
        "slice": move(lambda x, **params: lax.slice(x, *params.values()), window),
        "pad": move(padded, padding),
        "reverse": move(lambda x, axis: lax.rev(x, (axis,)), axis),
        "repeat": move(lambda x, leading: jnp.broadcast_to(x, (leading, *x.shape)), repeats),
        "join": move(lambda x, y: jnp.concatenate([flat(x), flat(y)]), operands=2),
        "stack": move(lambda x, y: jnp.stack([x, y], axis=-1), operands=2),
        "halves": move(
            lambda x, axis: jnp.concatenate(jnp.array_split(x, 2, axis=axis)[::-1], axis=axis), axis
        ),
    }


OPERATIONS: dict[str, Operation] = {**_smooth(), **_arithmetic(), **_jumping(), **_moving()}
