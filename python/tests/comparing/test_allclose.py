"""`allclose`: the worst element, both values, and the line that asked for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import jax2onnx
from jax2onnx import allclose, to_onnx

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
IMAGE = np.linspace(0, 1, 120, dtype=np.float32).reshape(2, 4, 5, 3)


def dense(x: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x)
    return hidden @ WEIGHT


DENSE_LINE = dense.__code__.co_firstlineno + 2


def edited(model: onnx.ModelProto, place: tuple[int, ...], value: float) -> onnx.ModelProto:
    """The model with another number in its largest weight."""
    weight = max(model.graph.initializer, key=lambda tensor: np.prod(tensor.dims))
    numbers = numpy_helper.to_array(weight).copy()
    numbers[place] = value
    weight.CopyFrom(numpy_helper.from_array(numbers, weight.name))
    return model


def test_equal_models_match_and_the_answer_unpacks_as_two() -> None:
    answer = allclose(dense, to_onnx(dense, [("B", 3)]), [X])
    is_match, message = answer
    assert is_match is True
    assert answer
    assert message.startswith("1 output matches, with rtol=0.001 and atol=1e-05\n")
    assert "the model has no provenance" in message
    assert answer.outputs[0].callsite is None
    assert answer.outputs[0].line is None


@pytest.mark.parametrize("level", ["minimal", "full", "indexed"])
def test_the_worst_element_has_its_index_both_values_and_its_line(level: Any) -> None:
    model = edited(to_onnx(dense, [("B", 3)], provenance=level), (2, 1), 5.0)
    answer = allclose(dense, model, [X])
    assert not answer
    (output,) = answer.outputs
    want = np.asarray(dense(X))
    assert output.index == (1, 1)
    assert output.expected == pytest.approx(want[1, 1])
    assert output.found == pytest.approx(np.tanh(X[1]) @ np.where(WEIGHT == 0.9, 5, WEIGHT)[:, 1])
    assert output.error == pytest.approx(abs(float(output.found) - float(output.expected)))
    assert output.callsite == f"dense:{DENSE_LINE}"
    assert output.op == "MatMul"
    assert output.problem == "differs in 2 of 8 elements"
    assert answer.message.startswith("1 of 1 output differs, with rtol=0.001 and atol=1e-05\n")
    assert f"worst at [1, 1]: {output.expected!s} in JAX, {output.found!s} in" in answer.message
    place = f"line {DENSE_LINE}" if level == "minimal" else f"test_allclose.py:{DENSE_LINE}"
    assert str(output.line).endswith(f"{place}, in dense")
    assert f"computed by MatMul `{output.node}` at {output.line}" in answer.message
    html = answer._repr_html_()
    assert "`" not in html
    assert str(output.line) in html


def test_a_model_comes_in_any_form(tmp_path: Path) -> None:
    model = to_onnx(dense, [(2, 3)])
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="weights.bin")
    assert (tmp_path / "weights.bin").exists()
    model = to_onnx(dense, [(2, 3)])
    for form in (path, str(path), model, model.SerializeToString()):
        assert allclose(dense, form, [X]).is_match, type(form)
    onnx_ir = pytest.importorskip("onnx_ir")
    for form in (onnx_ir.from_proto(model), onnx_ir.load(path)):
        assert allclose(dense, form, [X]).is_match, type(form)


def test_an_invalid_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=r"there is no model at '.*none.onnx'"):
        allclose(dense, tmp_path / "none.onnx", [X])
    with pytest.raises(jax2onnx.ConfigError, match="the model is of type int: use a path"):
        allclose(dense, 3, [X])  # type: ignore[arg-type]


def test_the_runtime_is_asked_for_by_the_name_of_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(jax2onnx.ConfigError, match=r"jax2onnx-rs\[runtime\]"):
        allclose(dense, b"", [X])


def test_shapes_are_filled_the_same_way_every_time() -> None:
    def fn(tree: dict[str, Any], n: jax.Array) -> jax.Array:
        return tree["a"].sum() + tree["b"][0].astype(jnp.float32) * n

    specs = [
        {"a": ("B", "2*B"), "b": [jax.ShapeDtypeStruct(("B + 1",), jnp.int32)]},
        jax.ShapeDtypeStruct((), jnp.float16),
    ]
    model = to_onnx(fn, specs, provenance="minimal")
    first, second = allclose(fn, model, specs), allclose(fn, model, specs)
    assert first
    assert first.outputs == second.outputs


def test_an_array_gives_its_size_to_the_name_of_the_model() -> None:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return x @ y

    model = to_onnx(fn, [("B", "N"), ("N", 2)])
    answer = allclose(fn, model, [np.ones((7, 5), np.float32), ("N", 2)])
    assert answer
    assert answer.outputs[0].index is not None


def test_keyword_inputs_go_to_both() -> None:
    def fn(x: jax.Array, *, scale: float, flip: bool) -> jax.Array:
        return -x * scale if flip else x * scale

    model = to_onnx(fn, [(2, 3)], {"scale": 1.0, "flip": False})
    assert allclose(fn, model, [X], {"scale": 3.0, "flip": True})
    bound = to_onnx(lambda x: fn(x, scale=3.0, flip=True), [(2, 3)])
    assert allclose(fn, bound, [X], {"scale": 3.0, "flip": True})
    assert not allclose(fn, bound, [X], {"scale": 3.0, "flip": False})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], r"takes 1 input \(`x` float32\[B,3\]\), but `inputs` has 0"),
        ([X, X], "but `inputs` has 2"),
        ([X.T], r"the model takes `x` float32\[B,3\], but got float32\[3,2\]"),
        ([X.astype(bool)], None),
        ([X.astype(np.complex64)], r"but got float32\[2,3,2\]"),
        ([(2, -3)], "has the size -3"),
    ],
)
def test_inputs_that_are_not_the_models_are_refused(inputs: Any, message: str | None) -> None:
    model = to_onnx(dense, [("B", 3)])
    if message is None:
        assert allclose(dense, model, inputs)
        return
    with pytest.raises(jax2onnx.InputSpecError, match=message):
        allclose(dense, model, inputs)


def test_images_are_given_as_the_function_takes_them() -> None:
    def fn(image: jax.Array) -> jax.Array:
        return image * jnp.arange(3.0)

    model = to_onnx(fn, [("B", 4, 5, 3)], inputs_as_nchw=[0], outputs_as_nchw=[0])
    answer = allclose(fn, model, [IMAGE], inputs_as_nchw=[0], outputs_as_nchw=[0])
    assert answer, answer.message
    other = allclose(
        lambda image: fn(image).at[1, 2, 3, 0].set(9), model, [("B", 4, 5, 3)],
        inputs_as_nchw=[0], outputs_as_nchw=[0],
    )  # fmt: skip
    assert other.outputs[0].index == (1, 2, 3, 0)
    with pytest.raises(jax2onnx.ConfigError, match="`outputs_as_nchw` names output 1"):
        allclose(fn, model, [IMAGE], inputs_as_nchw=[0], outputs_as_nchw=[1])


def passed_on(array: Any) -> onnx.ModelProto:
    """A model that gives back what it is given, through a node."""
    code = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    shape = np.asarray(array).shape
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"], name="same")],
        "graph",
        [value("x", code, shape)],
        [value("y", code, shape)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


def differing(found: Any, want: Any, **tolerances: float) -> Any:
    """The comparison of an array with what a function gives in its place."""
    answer = allclose(lambda x: jnp.asarray(want), passed_on(found), [found], **tolerances)
    return answer.outputs[0]


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("found", "want", "index", "problem"),
    [
        ([1, NAN, 3], [1, NAN, 3], (0,), None),
        ([1, NAN, 3], [1, 2, 3], (1,), "differs in 1 of 3 elements"),
        ([1, 2, 3], [1, 9, NAN], (2,), "differs in 2 of 3 elements"),
        ([INF, -INF], [INF, -INF], (0,), None),
        ([INF, -INF], [INF, INF], (1,), "differs in 1 of 2 elements"),
        ([INF, 5], [1e30, 5], (0,), "differs in 1 of 2 elements"),
        ([5, 1e30], [5, INF], (1,), "differs in 1 of 2 elements"),
        ([100.05, 0.2], [100, 0.1], (1,), "differs in 1 of 2 elements"),
    ],
)
def test_floats_match_by_nan_infinity_and_tolerance(
    found: Any, want: Any, index: Any, problem: str | None
) -> None:
    output = differing(np.array(found, np.float32), np.array(want, np.float32))
    assert output.index == index
    assert output.problem == problem
    assert output.is_match == (problem is None)


def test_integers_and_flags_are_exact() -> None:
    output = differing(np.array([1000001], np.int32), np.array([1000000], np.int32), rtol=0.1)
    assert (output.problem, output.error) == ("differs in 1 of 1 element", 1.0)
    output = differing(np.array([True, False]), np.array([True, True]), atol=2)
    assert (output.index, output.expected, output.found) == ((1,), True, False)
    far = np.array([2**31 - 1], np.int32)
    assert differing(far, -far).error == 2**32 - 2


def test_types_and_shapes_are_compared() -> None:
    output = differing(np.array([1, 2], np.int32), np.array([1, 2], np.float32))
    assert output.problem == "is int32[2], but JAX returns float32[2]"
    assert not output.is_match
    output = differing(np.array([1, 2], np.int32), np.array([1, 5], np.float32))
    assert output.problem.endswith("float32[2], and differs in 1 of 2 elements")
    output = differing(np.ones((2, 1), np.float32), np.ones((2,), np.float32))
    assert output.problem == "has the shape float32[2,1], but JAX returns float32[2]"
    assert output.index is None


def test_an_empty_output_matches() -> None:
    output = differing(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32))
    assert output.is_match
    assert output.index is None


def test_narrow_types_are_read() -> None:
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float16, np.uint8):
        one = np.array([1, 2, 3], dtype)
        assert differing(one, one).is_match
        assert differing(one, one + np.array([0, 0, 1], dtype)).index == (2,)


def test_complex_numbers_and_keys_are_compared_as_jax_has_them() -> None:
    def fn(z: jax.Array, key: jax.Array) -> Any:
        return z * 2, jax.random.split(key)

    specs = [jax.ShapeDtypeStruct((2,), jnp.complex64), jax.random.key(3)]
    model = to_onnx(fn, specs)
    assert allclose(fn, model, specs)
    other = allclose(
        lambda z, key: (z * 2 + jnp.array([0, 1j]), key[None][np.zeros(2, int)]), model, specs
    )
    assert other.outputs[0].index == (1,)
    assert other.outputs[0].error == pytest.approx(1)
    assert not other.outputs[1].is_match


def test_double_precision_is_kept() -> None:
    model = to_onnx(dense, [(2, 3)], enable_double_precision=True)
    x = X.astype(np.float64)
    assert allclose(dense, model, [x], rtol=1e-13, atol=0, enable_double_precision=True)
    output = allclose(dense, model, [x]).outputs[0]
    assert output.problem == "is float64[2,4], but JAX returns float32[2,4]"


def test_another_number_of_results_is_said() -> None:
    answer = allclose(lambda x: (x, x), to_onnx(dense, [(2, 3)]), [X])
    assert tuple(answer) == (False, "the model has 1 output, but the function returns 2 results")


def test_a_tolerance_is_a_number() -> None:
    with pytest.raises(
        jax2onnx.ConfigError, match="`rtol` is -1, which is not a number greater than or equal to 0"
    ):
        allclose(dense, to_onnx(dense, [(2, 3)]), [X], rtol=-1)


def test_the_functions_own_error_is_shown_as_it_is() -> None:
    def fn(x: jax.Array) -> jax.Array:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        allclose(fn, to_onnx(dense, [(2, 3)]), [X])
