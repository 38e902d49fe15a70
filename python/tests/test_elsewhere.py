"""References of other CPUs."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from . import bench, elsewhere


def test_a_number_that_another_cpu_rounds_otherwise_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without AVX512-FP16, XLA converts float64 to float16 through float32."""
    monkeypatch.setattr(elsewhere, "CPUS", ["SSE4_2"])
    x = np.array([1 + 2.0**-11 + 2.0**-40])

    def to_half(x: jax.Array) -> jax.Array:
        return x.astype(np.float16)

    (want,) = bench.expected(to_half, (x,), double=True)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        bench.assert_same(x.astype(np.float16), want)


def test_a_function_that_only_moves_floats_is_not_computed_on_other_cpus() -> None:
    x = np.ones((2, 3), np.float32)
    assert not bench.depends_on_cpu(lambda x: x.T[1:].reshape(-1), (x,))
    assert not bench.depends_on_cpu(lambda x: x.astype(np.uint8) * 2, (x > 0,))
    assert bench.depends_on_cpu(lambda x: jax.lax.cond(True, lambda: x * x, lambda: x), (x,))
