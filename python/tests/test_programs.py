"""Random programs: the runtime computes what JAX computes."""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest

from . import bench
from .programs import Program, draw_program, shrink

COUNT = int(os.environ.get("JAX2ONNX_RANDOM_PROGRAMS", "2000"))
BATCH = 50
#: Compiling is what takes the time, and the numbers do not need it to be thorough.
QUICK = {"xla_backend_optimization_level": 0}
FIRST = int(os.environ.get("JAX2ONNX_RANDOM_SEED", "0"))


def difference(program: Program) -> str | None:
    """What is wrong with the exported program, if anything."""
    try:
        model = bench.convert(program, program.inputs)
        found = bench.run(model, program.inputs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    want = [
        np.asarray(value) for value in jax.jit(program, compiler_options=QUICK)(*program.inputs)
    ]
    try:
        for one_found, one_want in zip(found, want, strict=True):
            scale = float(np.max(np.abs(one_want), initial=1.0, where=np.isfinite(one_want)))
            # Errors add up along the program, in proportion to its largest numbers.
            bench.assert_same(one_found, one_want, rtol=1e-4, atol=1e-5 * scale)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + BATCH):
        program = draw_program(seed)
        if difference(program) is None:
            continue
        small = shrink(program, lambda candidate: difference(candidate) is not None)
        pytest.fail(f"seed {seed}:\n{small}\n\n{difference(small)}", pytrace=False)
