"""Random programs: the runtime computes what JAX computes, with passes and without."""

from __future__ import annotations

import os

import numpy as np
import pytest

import jax2onnx

from .programs import JaxError, difference, draw_program, fails_like, shrink
from .programs.program import Leaf, Program, Step
from .programs.table import OPERATIONS

COUNT = int(os.environ.get("JAX2ONNX_RANDOM_PROGRAMS", "100"))
FIRST = int(os.environ.get("JAX2ONNX_RANDOM_SEED", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_random_program_computes_what_jax_computes(seed: int) -> None:
    program = draw_program(seed)
    try:
        found = difference(program)
    except (jax2onnx.UnsupportedError, JaxError):
        return
    if found is not None:
        small = shrink(program, fails_like(found))
        pytest.fail(f"{difference(small) or found}\n\n{small}", pytrace=False)


def test_a_seed_always_creates_the_same_program_and_its_text_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed in range(5):
        text = str(draw_program(seed))
        assert text == str(draw_program(seed))
    program = next(p for p in map(draw_program, range(9)) if not p.is_symbolic and not p.double)
    exec(str(program), {"__name__": "program"})
    assert capsys.readouterr().out.count("passes") == 4


def test_a_small_sigmoid_may_be_zero() -> None:
    """ONNX Runtime returns 0 below -18, as `docs/primitives.md` says."""
    x = np.array([-30.0, -17.0, 1.0], np.float32)
    sources = [operation.source for operation in OPERATIONS]
    names = ["lax.logistic({0})", "jnp.flip({0})", "lax.lgamma({0})"]
    steps = [
        Step(sources.index(name), (i,), rounds=not OPERATIONS[sources.index(name)].keeps)
        for i, name in enumerate(names)
    ]
    assert difference(Program((Leaf({7: x}, (3,), x.dtype),), tuple(steps))) is None


@pytest.mark.slow
def test_a_wrong_number_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that adds 1 to every float is found out by a program of one step."""
    from . import bench

    run = bench.run_session

    def wrong(*arguments: object) -> list[np.ndarray]:
        return [value + 1 if value.dtype == np.float32 else value for value in run(*arguments)]

    monkeypatch.setattr(bench, "run_session", wrong)
    program = draw_program(0)
    found = difference(program)
    assert found is not None
    assert len(shrink(program, fails_like(found)).steps) == 1
