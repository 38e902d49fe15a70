"""Drawing a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.export
import ml_dtypes
import numpy as np

from jax2onnx._tracing.compat import double_precision_kept

from .operations import Operation, pick
from .program import SIZES, SYMBOLS, Leaf, Program, Step, is_symbolic, size_at
from .table import LIKELY, OPERATIONS, THEMES, Theme

SHAPES: Final = (
    (),
    (1,),
    (3,),
    (4,),
    (2, 3),
    (3, 4),
    (3, 1),
    (0, 2),
    (2, 1, 4),
    (2, 3, 4),
    (1, 3, 3, 2),
)
SYMBOLIC: Final = (
    ("N",),
    ("N", 4),
    (3, "N"),
    ("N", "N"),
    (2, "N", 4),
    ("N", 3, 4),
    ("N", 1),
    (4,),
    (3, 4),
    ("M", 4),
    ("M",),
    ("M", "N"),
    ("N+1", 3),
    ("N+1",),
    ("2*N", 4),
    (2, "N+1", 4),
    ("M+N", 4),
    ("N", 7),
    ("N", 3),
)
CONTEXTS: Final = ("plain",) * 12 + (
    "function",
    "function",
    "jit",
    "map",
    "vmap",
    "loop",
    "branch",
    "choice",
)
#: A value that grows beyond this is not used further.
MAX_ELEMENTS: Final = 512
MAX_TRIES: Final = 400
#: The integers that an index of 32 bits can have, by the kind of their type.
WITHOUT_WRAP: Final = {"i": (-(2**31), 2**31 - 1), "u": (0, 2**31 - 1)}


@dataclasses.dataclass(frozen=True)
class Value:
    """What is known of a value before it is computed."""

    shape: tuple[Any, ...]
    dtype: np.dtype
    exact: bool
    #: Has numbers below the normal ones, which XLA takes for zeros: it may be moved, and no more.
    denormal: bool = False


def draw_program(seed: int, steps: int = 6, theme_name: str | None = None) -> Program:
    """A program of that many steps; the same seed and theme give the same one."""
    random = np.random.default_rng(seed)
    names = [name for name in THEMES for _ in range(LIKELY.get(name, 1))]
    theme = THEMES[pick(random, names) if theme_name is None else theme_name]
    double = bool(random.random() < 0.12)
    symbolic = bool(random.random() < theme.symbolic)
    leaves = tuple(
        draw_leaf(random, theme, symbolic, double) for _ in range(int(random.integers(2, 5)))
    )
    if all(leaf.constant for leaf in leaves):
        leaves = (dataclasses.replace(leaves[0], constant=False), *leaves[1:])
    symbolic = any(is_symbolic(leaf.shape) for leaf in leaves)
    values = [value_of(leaf) for leaf in leaves]
    made: list[Step] = []
    weights = theme.weights
    with double_precision_kept(double):
        for _ in range(MAX_TRIES):
            drawn = draw_step(random, values, weights)
            if drawn is not None:
                made.append(drawn[0])
                values.append(drawn[1])
            if len(made) == steps:
                break
    return Program(leaves, tuple(made), double, SIZES if symbolic else SIZES[-1:])


def value_of(leaf: Leaf) -> Value:
    denormal = False
    if is_float(leaf.dtype):
        tiny = float(ml_dtypes.finfo(leaf.dtype).tiny)
        magnitudes = (np.abs(array.astype(np.float64)) for array in leaf.arrays.values())
        denormal = any(((size > 0) & (size < tiny)).any() for size in magnitudes)
    shape = tuple(
        jax.export.symbolic_shape(size, scope=SCOPE)[0] if isinstance(size, str) else size
        for size in leaf.shape
    )
    return Value(shape, leaf.dtype, exact=True, denormal=denormal)


SCOPE: Final = jax.export.SymbolicScope()


def is_float(dtype: np.dtype) -> bool:
    return kind(dtype) == "f"


def kind(dtype: np.dtype) -> str:
    return "f" if dtype.kind == "V" else dtype.kind


def draw_leaf(random: np.random.Generator, theme: Theme, symbolic: bool, double: bool) -> Leaf:
    constant = bool(random.random() < 0.25)
    shape = pick(random, SYMBOLIC if symbolic and not constant else SHAPES)
    dtype = np.dtype(pick(random, theme.wide if double else theme.narrow))
    special = bool(random.random() < theme.special)
    tiny = special and bool(random.random() < 0.15)
    sizes = SIZES if is_symbolic(shape) else SIZES[-1:]
    arrays = {}
    for size in sizes:
        concrete = tuple(size_at(axis, size) for axis in shape)
        array = draw_array(random, concrete, dtype, special, tiny, theme.odd)
        if symbolic and dtype.kind in "iu":
            # As an index, a larger number depends on how JAX traces: see `docs/symbolic-shapes.md`.
            array = np.clip(array, *WITHOUT_WRAP[dtype.kind]).astype(dtype)
        arrays[size] = array
    return Leaf(arrays, shape, dtype, constant)


def draw_array(
    random: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype,
    special: bool,
    tiny: bool,
    more: Sequence[float] = (),
) -> np.ndarray:
    if is_float(dtype):
        drawn = random.normal(size=shape)
        plain = [0.0, -1.0, 0.5, 2.5, -3.5, 1.0]
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, 30.0, -30.0]
        if dtype.itemsize > 2:
            # Squares of squares stay finite: a fused norm overflows later than its formula.
            odd += [1e4, -1e4, *more]
        if tiny:
            odd = [float(ml_dtypes.finfo(dtype).tiny) / 4, -float(ml_dtypes.finfo(dtype).tiny) / 2]
        chosen = random.choice(odd if special else plain, size=shape)
        return np.where(random.random(size=shape) < 0.3, chosen, drawn).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(random.random(size=shape) < 0.5)
    limits = np.iinfo(dtype)
    low = -3 if dtype.kind == "i" else 0
    small = random.integers(low, 5, size=shape).astype(dtype)
    if not special:
        return small
    wide = random.integers(limits.min, limits.max, size=shape, endpoint=True, dtype=dtype)
    edges = random.choice(np.array([limits.min, limits.max, limits.max - 1], dtype), size=shape)
    wide = np.where(random.random(size=shape) < 0.3, edges, wide)
    return np.where(random.random(size=shape) < 0.5, wide, small).astype(dtype)


def draw_step(
    random: np.random.Generator, values: list[Value], weights: Sequence[float]
) -> tuple[Step, Value] | None:
    """A step on values that are there, or nothing where the operation does not fit."""
    index = int(random.choice(len(OPERATIONS), p=weights))
    operation = OPERATIONS[index]
    context = pick(random, CONTEXTS)
    operands = draw_operands(random, operation, values)
    if operands is None:
        return None
    read = [values[i] for i in operands]
    if context in ("choice", "branch") and not all(value.exact for value in read):
        context = "plain"
    if context in ("map", "vmap"):
        if len(operands) > 1 or not read[0].shape or len(read[0].shape) <= operation.rank:
            context = "plain"
        else:
            read = [dataclasses.replace(read[0], shape=read[0].shape[1:])]
    # `lgamma(lgamma(1))` depends on the last digits.
    if context == "loop" and (len(operands) > 1 or "lgamma" in operation.source):
        context = "plain"
    params = operation.draw(random, [value.shape for value in read])
    if params is None:
        return None
    exact = all(value.exact for value in read)
    loses = not operation.keeps and any(is_float(value.dtype) for value in read)
    step = Step(
        index, operands, tuple(params.items()), context, rounds=loses and not operation.jumps
    )
    result = shape_of(step, [values[i] for i in operands])
    if result is None:
        return None
    exact = exact and not (loses or (not operation.keeps and is_float(result.dtype)))
    denormal = operation.moves and any(value.denormal for value in read)
    return step, Value(result.shape, np.dtype(result.dtype), exact, denormal)


def shape_of(step: Step, operands: list[Value]) -> Any:
    """The type of the result, where there is one at every size."""
    try:
        specs = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in operands]
        result = jax.eval_shape(step.run, *specs)
        symbolic = any(not isinstance(size, int) for value in operands for size in value.shape)
        for size in SIZES if symbolic else ():
            empty = jax.eval_shape(step.run, *[at_size(spec, size) for spec in specs])
            if count(empty.shape) > MAX_ELEMENTS or empty.shape != at_size(result, size).shape:
                return None
    except Exception:
        return None
    if not symbolic and count(result.shape) > MAX_ELEMENTS:
        return None
    return result if result.dtype.name in DRAWN else None


#: Types of values that steps may read.
DRAWN: Final = {
    np.dtype(dtype).name for theme in THEMES.values() for dtype in (*theme.narrow, *theme.wide)
}


def at_size(spec: Any, size: int) -> Any:
    shape = [
        axis
        if isinstance(axis, int)
        else int(axis._evaluate({name: sizes[size] for name, sizes in SYMBOLS.items()}))
        for axis in spec.shape
    ]
    return jax.ShapeDtypeStruct(tuple(shape), spec.dtype)


def count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def draw_operands(
    random: np.random.Generator, operation: Operation, values: list[Value]
) -> tuple[int, ...] | None:
    chosen: list[int] = []
    for place, kinds in enumerate(operation.kinds):
        fits = [
            index
            for index, value in enumerate(values)
            if kind(value.dtype) in kinds
            and (value.exact or not operation.jumps)
            and (operation.moves or not value.denormal)
            and (place > 0 or len(value.shape) >= operation.rank)
            and (place == 0 or not operation.alike or value.dtype == values[chosen[0]].dtype)
        ]
        if not fits:
            return None
        # What was made last is read more often, so that programs are deep.
        late = fits[-3:]
        chosen.append(int(random.choice(late if random.random() < 0.6 else fits)))
    return tuple(chosen)
