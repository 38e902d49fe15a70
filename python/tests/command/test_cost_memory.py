"""The peak of memory that `cost` predicts, against what ONNX Runtime allocates."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import jax2onnx
from testkit.memory.measure import build_counter, can_measure, most_allocated
from testkit.memory.networks import NETWORKS, OPTIONS

#: How far the prediction may be from the measurement.
TOLERANCE = 0.02


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not can_measure():
        pytest.skip("counting allocations needs glibc and a C compiler")
    return build_counter(tmp_path_factory.mktemp("memory"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_is_what_onnx_runtime_allocates(name: str, counter: Path, tmp_path: Path) -> None:
    function, arrays = NETWORKS[name]()
    model, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    names = [f"in{number}" for number in range(len(arrays))]
    options = OPTIONS.get(name, {})
    jax2onnx.to_onnx(
        function,
        specs,
        input_names=names,
        return_mode="file",
        output_path=str(model),
        provenance="indexed",
        **options,
    )
    np.savez(inputs, **dict(zip(names, arrays, strict=True)))
    measured = most_allocated(counter, model, inputs)
    peak = jax2onnx.cost(str(model)).peak
    assert peak.bytes is not None
    print(f"{name}: {peak.bytes} / {measured} = {peak.bytes / measured:.4f}")
    assert abs(peak.bytes / measured - 1) < TOLERANCE
    assert sum(line.bytes or 0 for line in peak.lines) == peak.bytes


def test_the_peak_of_a_symbolic_size_is_a_formula_with_the_value_of_the_size() -> None:
    weight = np.ones((64, 256), np.float32)

    def network(x: jax.Array) -> jax.Array:
        hidden = jax.nn.gelu(x @ weight)
        return hidden @ weight.T

    symbolic = jax2onnx.to_onnx(network, [("B", 64)], provenance="indexed")
    formula = jax2onnx.cost(symbolic).peak.formula
    assert formula is not None
    assert jax2onnx.cost(symbolic).peak.bytes is None
    for size in (1, 2, 7, 64, 1000):
        model = jax2onnx.to_onnx(network, [(size, 64)])
        expected = jax2onnx.cost(model).peak.bytes
        assert eval(formula, {"B": size, "max": max}) == expected
        assert jax2onnx.cost(symbolic, {"B": size}).peak.bytes == expected


def test_the_lines_at_the_peak_are_those_that_hold_the_memory() -> None:
    def network(x: jax.Array) -> jax.Array:
        wide = jax.numpy.exp(x[:, :, None] * x[:, None, :])
        return wide.sum(axis=(1, 2))

    model = jax2onnx.to_onnx(network, [(8, 100)], provenance="indexed")
    peak = jax2onnx.cost(model).peak
    first = peak.lines[0]
    assert first.bytes is not None
    assert first.bytes >= 8 * 100 * 100 * 4
    assert first.function is not None
    assert first.function.endswith("network")
    assert first.text is not None
    assert first.text.strip() == "wide = jax.numpy.exp(x[:, :, None] * x[:, None, :])"
    assert "peak of memory" in str(jax2onnx.cost(model))


def test_an_order_that_does_not_exist_is_refused_with_those_that_do() -> None:
    model = jax2onnx.to_onnx(lambda x: x * 2, [(3,)])
    with pytest.raises(jax2onnx.ConfigError, match="onnxruntime, file, early"):
        jax2onnx.cost(model, order="random")  # type: ignore[arg-type]
