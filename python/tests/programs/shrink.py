"""Making a failing program small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from .program import Program


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Drop steps as long as what is left still fails."""
    shrunk = True
    while shrunk:
        shrunk = False
        for index in reversed(range(len(program.steps))):
            smaller = without(program, index)
            if smaller is not None and smaller.steps and fails(smaller):
                program, shrunk = smaller, True
                break
    return program


def without(program: Program, index: int) -> Program | None:
    """The program without a step, unless a later one reads it."""
    gone = len(program.inputs) + index
    if any(gone in step.operands for step in program.steps[index + 1 :]):
        return None

    def renumbered(operands: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i - (i > gone) for i in operands)

    kept = program.steps[:index] + program.steps[index + 1 :]
    steps = [dataclasses.replace(step, operands=renumbered(step.operands)) for step in kept]
    return dataclasses.replace(program, steps=tuple(steps))
