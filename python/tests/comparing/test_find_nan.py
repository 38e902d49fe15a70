"""`find_nan` finds the line where the first NaN or infinity is born."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax2onnx import ConfigError, InputSpecError, find_nan, profile, to_onnx
from testkit.lines import line_of


def decay(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        level, root = state
        root = jnp.sqrt((level - 0.1) * row)
        return (jnp.minimum(level - 0.1, 9.0 * row), root), root + 0.0 * state[1]

    return lax.scan(step, (3.75, 0.0), x)[1]


def test_a_nan_that_step_37_of_a_scan_creates_is_found() -> None:
    model = to_onnx(decay, [(60,)], provenance="indexed")
    report = find_nan(model, [np.ones(60, np.float32)])
    assert not report
    first = report.first
    assert first is not None
    assert (first.kind, first.iterations) == ("nan", (37,))
    assert first.line == line_of(decay, "jnp.sqrt")
    assert first.sure
    assert "creates a NaN in iteration 37" in str(report)
    assert report.outputs == ("out_0",)
    assert report.to_json()["first"]["iterations"] == [37]
    assert find_nan(model, [np.zeros(60, np.float32)])


def test_an_infinity_is_reported_before_the_nan_that_it_causes() -> None:
    def overflows(x: Any) -> Any:
        y = jnp.exp(x)
        return y - y

    report = find_nan(to_onnx(overflows, [(2,)], provenance="indexed"), {"x": np.array([1, 99.0])})
    assert [birth.kind for birth in report.births] == ["infinity", "nan"]
    assert report.first is not None
    assert report.first.line == line_of(overflows, "jnp.exp")
    assert report.first.index == (1,)


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_infinities_of_masks_and_inputs_are_not_reported(value: float) -> None:
    def masked(x: Any) -> Any:
        return jnp.where(x > 0, x, value) * 2

    report = find_nan(to_onnx(masked, [(3,)]), [np.array([-1, 1, 2], np.float32)])
    assert report
    assert report.outputs == ("out_0",)
    assert str(report) == (
        "no node creates a NaN or an infinity from finite numbers\n"
        "   = the outputs `out_0` are not finite, because a weight or a constant is not"
    )


def test_numbers_that_are_not_finite_in_the_inputs_are_named() -> None:
    model = to_onnx(lambda x, y: (x + 1, y * 2), [(3,), (3,)])
    report = find_nan(model, [np.ones(3, np.float32), np.full(3, np.nan, np.float32)])
    assert report
    assert "`out_1` are not finite, because the inputs `y` are not" in str(report)


def test_a_nan_of_a_model_without_provenance_says_how_to_get_its_line() -> None:
    report = find_nan(to_onnx(lambda x: 1 / x, [(3,)]), [np.zeros(3, np.float32)])
    assert 'export it with `provenance="indexed"`' in str(report)


def test_a_model_that_the_runtime_refuses_is_an_error_with_the_line() -> None:
    def halved(x: Any) -> Any:
        return jnp.tanh(x) / 2

    model = to_onnx(halved, [(3,)], provenance="indexed")
    model.graph.node[1].input[0] = "nothing"
    with pytest.raises(ConfigError, match=r"refuses the model: .*nothing") as caught:
        find_nan(model, [np.zeros(3, np.float32)])
    assert "return jnp.tanh(x) / 2" in str(caught.value)


def _scaled(x: Any, params: Any) -> Any:
    return x / params["w"] - params["b"]


def test_nested_inputs_by_name_are_the_same_for_every_function() -> None:
    x, params = (
        np.full(2, 7, np.float32),
        {"w": np.ones(2, np.float32), "b": np.zeros(2, np.float32)},
    )
    model = to_onnx(_scaled, [x, params], provenance="indexed")
    flat = {"x": x, "params.w": params["w"], "params.b": params["b"]}
    for inputs in ([x, params], {"x": x, "params": params}, {"params": params, "x": x}, flat):
        # If the arrays were in another order, the model would divide by zero.
        assert find_nan(model, inputs).first is None
        assert profile(model, inputs, runs=1).rows
    zero = {"params": {**params, "w": params["b"]}, "x": x}
    assert find_nan(model, zero).first is not None
    with pytest.raises(InputSpecError, match=r"is the path run\.json, not arrays"):
        profile(model, "run.json")  # type: ignore[arg-type]
    with pytest.raises(InputSpecError, match=r"has no input `params.v`"):
        profile(model, {"x": x, "params": {"v": x, "b": x}})
