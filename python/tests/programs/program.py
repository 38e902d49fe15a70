"""A program as data: steps over numbered values."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from .operations import OPERATIONS


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation on earlier values."""

    operation: str
    operands: tuple[int, ...]
    params: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        operands = [f"v{index}" for index in self.operands]
        params = [f"{name}={value!r}" for name, value in self.params]
        return f"{self.operation}({', '.join([*operands, *params])})"


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """Inputs, then steps; every value that nothing reads is a result."""

    inputs: tuple[np.ndarray, ...]
    steps: tuple[Step, ...]

    def __call__(self, *inputs: jax.Array) -> tuple[jax.Array, ...]:
        values: list[jax.Array] = list(inputs)
        for step in self.steps:
            operands = [values[index] for index in step.operands]
            values.append(OPERATIONS[step.operation].run(*operands, **dict(step.params)))
        return tuple(values[index] for index in self.results())

    def results(self) -> list[int]:
        read = {index for step in self.steps for index in step.operands}
        first = len(self.inputs)
        return [first + i for i in range(len(self.steps)) if first + i not in read]

    def __str__(self) -> str:
        lines = [
            f"v{i} = np.array({value.tolist()!r}, np.{value.dtype}).reshape({value.shape})"
            for i, value in enumerate(self.inputs)
        ]
        first = len(self.inputs)
        lines += [f"v{first + i} = {step}" for i, step in enumerate(self.steps)]
        return "\n".join([*lines, "return " + ", ".join(f"v{index}" for index in self.results())])
