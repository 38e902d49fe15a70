"""Drawing a program."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from .operations import OPERATIONS, Operation
from .program import Program, Step

SHAPES = ((), (1,), (3,), (2, 3), (3, 1), (0, 2), (2, 1, 4))
DTYPES = (np.float32, np.float32, np.float32, np.int32, np.uint8, np.int8, np.uint32, np.bool_)
#: A value that grows beyond this is not used further.
MOST_ELEMENTS = 512


@dataclasses.dataclass(frozen=True)
class Value:
    """What is known of a value before it is computed."""

    shape: tuple[int, ...]
    dtype: np.dtype
    exact: bool


def draw_program(seed: int, steps: int = 8) -> Program:
    """A program of that many steps; the same seed gives the same one."""
    random = np.random.default_rng(seed)
    inputs = tuple(draw_input(random) for _ in range(int(random.integers(1, 4))))
    values = [Value(x.shape, x.dtype, exact=True) for x in inputs]
    made: list[Step] = []
    while len(made) < steps:
        drawn = draw_step(random, values)
        if drawn is not None:
            step, value = drawn
            made.append(step)
            values.append(value)
    return Program(inputs, tuple(made))


def draw_input(random: np.random.Generator) -> np.ndarray:
    shape = SHAPES[random.integers(len(SHAPES))]
    dtype = np.dtype(DTYPES[random.integers(len(DTYPES))])
    if dtype.kind == "f":
        special = np.array([0.0, -1.0, 0.5, 2.5, -3.5], dtype)
        drawn = random.normal(size=shape).astype(dtype)
        mask = random.random(size=shape) < 0.3
        return np.where(mask, random.choice(special, size=shape), drawn).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(random.random(size=shape) < 0.5)
    limits = np.iinfo(dtype)
    wide = random.integers(limits.min, limits.max, size=shape, endpoint=True)
    small = random.integers(0, 5, size=shape)
    return np.where(random.random(size=shape) < 0.5, wide, small).astype(dtype)


def draw_step(random: np.random.Generator, values: list[Value]) -> tuple[Step, Value] | None:
    """A step on values that are there, or nothing where the operation does not fit."""
    name = list(OPERATIONS)[random.integers(len(OPERATIONS))]
    operation = OPERATIONS[name]
    operands = draw_operands(random, operation, values)
    if operands is None:
        return None
    params = operation.draw(random, values[operands[0]].shape)
    if params is None:
        return None
    specs = [jax.ShapeDtypeStruct(values[i].shape, values[i].dtype) for i in operands]
    result = jax.eval_shape(lambda *xs: operation.run(*xs, **params), *specs)
    if np.prod(result.shape, dtype=np.int64) > MOST_ELEMENTS:
        return None
    from_exact = all(values[i].exact for i in operands)
    is_whole = result.dtype.kind in "biu"
    exact = from_exact and (operation.keeps or is_whole)
    return Step(name, operands, tuple(params.items())), Value(result.shape, result.dtype, exact)


def draw_operands(
    random: np.random.Generator, operation: Operation, values: list[Value]
) -> tuple[int, ...] | None:
    fits = [
        index
        for index, value in enumerate(values)
        if value.dtype.kind in operation.kinds and (value.exact or not operation.jumps)
    ]
    if not fits:
        return None
    first = int(random.choice(fits))
    if operation.operands == 1:
        return (first,)
    same = [i for i in fits if values[i].dtype == values[first].dtype]
    if operation.run.__name__ not in ("product",):
        same = [i for i in same if values[i].shape == values[first].shape]
    return first, int(random.choice(same))
