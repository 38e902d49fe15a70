"""The grid of special values: a sample of it that changes with the commit, and its judgment."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from gridding import functions, sample, trial, types

from testkit import bench

#: About half of these are pairs that JAX accepts; `make grid` tries them all.
COUNT = 100


@pytest.mark.parametrize(("name", "kind"), sample.cells(COUNT))
def test_a_function_is_right_at_special_values(name: str, kind: str) -> None:
    function = functions.candidates()[name]
    if not functions.types_of(function, [kind]):
        return
    found = trial.attempt(function, kind)
    allowed = (trial.RIGHT, trial.REFUSED, trial.DEVIATES, trial.NONE)
    assert found.verdict in allowed, f"{found.verdict}: {name} of {kind}: {found.said}"


def test_a_sample_depends_on_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sample.VARIABLE, "one")
    one = sample.cells(20)
    assert one == sample.cells(20)
    monkeypatch.setenv(sample.VARIABLE, "another")
    assert one != sample.cells(20)


@pytest.mark.parametrize("kind", types.TYPES)
def test_the_values_of_a_type_contain_its_ends(kind: str) -> None:
    (found,) = types.values(kind, 1)
    if found.dtype.kind in "iu" and found.dtype.itemsize > 1:
        limits = np.iinfo(found.dtype)
        assert {limits.min, limits.max} <= set(found.tolist())
    elif kind == "float32":
        assert {np.inf, -np.inf, np.finfo(kind).max, np.finfo(kind).smallest_subnormal} <= set(
            found.tolist()
        )
        assert np.isnan(found).any()
        assert np.signbit(found[found == 0]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("kind", "change", "verdict"),
    [
        ("float32", lambda y: np.where(np.isinf(y), np.nan, y), "wrong"),
        ("float32", lambda y: np.where(y == 0, np.float32(0), y), "deviates"),
        ("float32", lambda y: np.where(abs(y) < 9, y * np.float32(1 + 1e-6), y), "right"),
        ("float32", lambda y: y * np.float32(1 + 1e-3), "wrong"),
        ("int32", lambda y: np.where(y == np.iinfo(np.int32).max, 0, y), "wrong"),
    ],
)
def test_a_wrong_element_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, change: object, verdict: str
) -> None:
    """A runtime that changes some results is found out, and the sign of a zero is a deviation."""
    run = bench.run_session

    def changed(*arguments: object) -> list[np.ndarray]:
        return [change(value).astype(value.dtype) for value in run(*arguments)]

    monkeypatch.setattr(bench, "run_session", changed)
    monkeypatch.setattr(trial, "_DONE", {})
    function = functions.Function("negative", jnp.negative, 1)
    assert trial.attempt(function, kind).verdict == verdict
