"""References of other CPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from testkit import bench, elsewhere, references, sampling


def test_a_number_that_another_cpu_rounds_otherwise_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without AVX512-FP16, XLA converts float64 to float16 through float32."""
    monkeypatch.setattr(elsewhere, "CPUS", ["SSE4_2"])
    monkeypatch.setattr(sampling, "sample", 1)
    x = np.array([1 + 2.0**-11 + 2.0**-40])

    def to_half(x: jax.Array) -> jax.Array:
        return x.astype(np.float16)

    (want,) = bench.expected(to_half, (x,), double=True)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        bench.assert_same(x.astype(np.float16), want)


def test_a_function_that_only_moves_floats_is_not_computed_on_other_cpus() -> None:
    x = np.ones((2, 3), np.float32)

    def depends(fn: Callable[..., Any], x: np.ndarray) -> bool:
        return bench.depends_on_cpu(jax.make_jaxpr(fn)(x))

    assert not depends(lambda x: x.T[1:].reshape(-1), x)
    assert not depends(lambda x: x.astype(np.uint8) * 2, x > 0)
    assert depends(lambda x: jax.lax.cond(True, lambda: x * x, lambda: x), x)


def test_cached_references_are_read_from_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another computation, other inputs or other flags have another entry."""
    monkeypatch.setattr(references, "FOLDER", tmp_path)
    references._folder.cache_clear()
    runs: list[str] = []

    def results(fn: Callable[..., Any], x: np.ndarray, flags: str = "") -> np.ndarray:
        computation = references.Computation.of(fn, [x])

        def compute() -> list[np.ndarray]:
            runs.append(flags)
            return computation.run()

        return references.kept(computation, flags, compute)[0]

    x = np.arange(3, dtype=np.float32)
    table = np.array([1, 2, 3], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(results(lambda x: x + 1, x), x + 1)
        np.testing.assert_array_equal(results(lambda x: x + 2, x), x + 2)
        np.testing.assert_array_equal(results(lambda x: x + table, x), x + table)
        np.testing.assert_array_equal(results(lambda x: x + (table * 2), x), x + table * 2)
        np.testing.assert_array_equal(results(lambda x: x + 1, -x), 1 - x)
        np.testing.assert_array_equal(results(lambda x: x + 1, x.astype(np.int32)), x + 1)
        results(lambda x: x + 1, x, "--xla_cpu_max_isa=AVX")
    assert runs == ["", "", "", "", "", "", "--xla_cpu_max_isa=AVX"]
    references._folder.cache_clear()


def test_the_samples_of_many_commits_contain_every_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "sample", 10)
    names = [f"test_a[{i}]" for i in range(25)]
    seen: set[str] = set()
    for seed in range(100):
        monkeypatch.setattr(sampling, "SEED", str(seed))
        some = sampling.some_of(names)
        assert len(some) == 3
        assert len(sampling.some_of(names[:1])) == 1
        seen |= some
    assert seen == set(names)
    assert 0 < sum(map(sampling.is_chosen, names)) < len(names)
