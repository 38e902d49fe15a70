"""Making a failing program small."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np

from .program import SIZES, Leaf, Program, Step


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 30.0) -> Program:
    """Make a program smaller as long as what is left still fails, and time allows."""
    end = time.monotonic() + seconds
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in smaller_programs(program):
            if time.monotonic() > end:
                return program
            if smaller.steps and fails(smaller):
                program, shrunk = smaller, True
                break
    return program


def smaller_programs(program: Program) -> Iterator[Program]:
    """Programs that are simpler in one way, the simplest first."""
    for index in reversed(range(len(program.steps))):
        smaller = without(program, index)
        if smaller is not None:
            yield smaller
    if len(program.sizes) > 1:
        for size in program.sizes:
            yield dataclasses.replace(program, sizes=(size,))
    elif program.is_symbolic:
        fixed = tuple(fix(leaf, program.sizes[0]) for leaf in program.leaves)
        yield dataclasses.replace(program, leaves=fixed, sizes=SIZES[-1:])
    for index, step in enumerate(program.steps):
        if step.context != "plain":
            yield changed(program, index, dataclasses.replace(step, context="plain"))
    for index in reversed(range(len(program.steps))):
        for operand in program.steps[index].operands:
            yield bypassed(program, index, operand)
    for index, leaf in enumerate(program.leaves):
        if not any(index in step.operands for step in program.steps):
            yield without_leaf(program, index)
        simple = plain(leaf)
        if simple is not None:
            leaves = (*program.leaves[:index], simple, *program.leaves[index + 1 :])
            yield dataclasses.replace(program, leaves=leaves)
    for size in (7, 4, 3, 2):
        yield resized(program, size)


def without(program: Program, index: int) -> Program | None:
    """The program without a step, unless a later one reads it."""
    gone = len(program.leaves) + index
    if any(gone in step.operands for step in program.steps[index + 1 :]):
        return None
    return renumbered(program, program.steps[:index] + program.steps[index + 1 :], gone)


def bypassed(program: Program, index: int, operand: int) -> Program:
    """The program in which readers of a step read its operand instead."""
    gone = len(program.leaves) + index
    steps = [
        dataclasses.replace(
            step, operands=tuple(operand if i == gone else i for i in step.operands)
        )
        for step in program.steps
    ]
    return renumbered(program, tuple(steps[:index] + steps[index + 1 :]), gone)


def without_leaf(program: Program, index: int) -> Program:
    leaves = program.leaves[:index] + program.leaves[index + 1 :]
    return dataclasses.replace(renumbered(program, program.steps, index), leaves=leaves)


def renumbered(program: Program, steps: tuple[Step, ...], gone: int) -> Program:
    kept = [
        dataclasses.replace(step, operands=tuple(i - (i > gone) for i in step.operands))
        for step in steps
    ]
    return dataclasses.replace(program, steps=tuple(kept))


def changed(program: Program, index: int, step: Step) -> Program:
    steps = (*program.steps[:index], step, *program.steps[index + 1 :])
    return dataclasses.replace(program, steps=steps)


def fix(leaf: Leaf, size: int) -> Leaf:
    array = leaf.array(size)
    return dataclasses.replace(leaf, shape=array.shape, arrays={SIZES[-1]: array})


def plain(leaf: Leaf) -> Leaf | None:
    """The leaf with small whole numbers in it, unless it has these."""
    simple = {
        size: (np.arange(array.size).reshape(array.shape) % 5).astype(array.dtype)
        for size, array in leaf.arrays.items()
    }
    if all(np.array_equal(simple[size], array) for size, array in leaf.arrays.items()):
        return None
    return dataclasses.replace(leaf, arrays=simple)


def resized(program: Program, size: int) -> Program:
    """The program with every axis of that size one shorter."""

    def shorter(leaf: Leaf) -> Leaf:
        keep = tuple(slice(size - 1) if axis == size else slice(None) for axis in leaf.shape)
        return dataclasses.replace(
            leaf,
            shape=tuple(size - 1 if axis == size else axis for axis in leaf.shape),
            arrays={at: array[keep] for at, array in leaf.arrays.items()},
        )

    return dataclasses.replace(program, leaves=tuple(map(shorter, program.leaves)))
