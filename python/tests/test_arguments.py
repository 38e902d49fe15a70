"""Arguments of `to_onnx` beyond the inputs: keyword inputs, names, layouts, records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import to_onnx

X = np.arange(6, dtype=np.float32).reshape(2, 3)
IMAGE = np.arange(2 * 4 * 5 * 3, dtype=np.float32).reshape(2, 4, 5, 3)


def run(model: onnx.ModelProto, **feed: Any) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {name: np.asarray(value) for name, value in feed.items()})


def names(values: Any) -> list[str]:
    return [value.name for value in values]


def scaled(x: jax.Array, *, scale: float = 1.0, flip: bool = False) -> jax.Array:
    if flip:
        return -x * scale
    return x * scale


@pytest.mark.parametrize("flip", [True, False])
def test_a_number_and_a_flag_that_python_decides_by_become_inputs(flip: bool) -> None:
    model = to_onnx(scaled, [(2, 3)], {"scale": 1.0, "flip": False})
    assert names(model.graph.input) == ["x", "flip", "scale"]
    (found,) = run(model, x=X, scale=np.float32(3), flip=flip)
    np.testing.assert_array_equal(found, scaled(X, scale=3.0, flip=flip))


def test_a_keyword_input_has_its_name_in_any_signature() -> None:
    model = to_onnx(lambda *args, **params: args[0] * params["scale"], [(2, 3)], {"scale": 2.0})
    assert names(model.graph.input) == ["args.0", "scale"]


def test_a_flag_may_be_of_numpy() -> None:
    model = to_onnx(scaled, [(2, 3)], {"flip": np.bool_(True)})
    (found,) = run(model, x=X, flip=True)
    np.testing.assert_array_equal(found, -X)


def test_two_flags_have_four_ways() -> None:
    def fn(x: jax.Array, double: bool, negate: bool) -> jax.Array:
        x = x * 2 if double else x
        return -x if negate else x

    model = to_onnx(fn, [(2, 3)], {"double": True, "negate": True})
    for double in (True, False):
        for negate in (True, False):
            (found,) = run(model, x=X, double=double, negate=negate)
            np.testing.assert_array_equal(found, fn(X, double, negate))


def test_a_flag_that_cannot_be_both_is_refused() -> None:
    layer = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    with pytest.raises(jax2onnx.UnsupportedError, match="`deterministic` cannot become an input"):
        to_onnx(
            lambda x, deterministic: layer(x, deterministic=deterministic),
            [(2, 3)],
            {"deterministic": True},
        )


def test_what_no_model_has_as_an_input_is_refused() -> None:
    with pytest.raises(jax2onnx.UnsupportedError, match=r"input_params\['mode'\]` is 'fast'"):
        to_onnx(lambda x, mode: x, [(2, 3)], {"mode": "fast"})


def test_inputs_and_outputs_get_the_names_that_are_asked_for() -> None:
    model = to_onnx(
        lambda x, y: (x + y, x * y),
        [(2, 3), (2, 3)],
        input_names=["left", "right"],
        output_names=["sum", "product"],
    )
    assert names(model.graph.input) == ["left", "right"]
    assert names(model.graph.output) == ["sum", "product"]
    total, product = run(model, left=X, right=X)
    np.testing.assert_array_equal(total, X + X)
    np.testing.assert_array_equal(product, X * X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": ["a", "b"]}, "`input_names` has 2 entries for 1 inputs"),
        ({"output_names": []}, "`output_names` has 0 entries for 1 outputs"),
        ({"input_names": [""]}, "not a text, or an empty one"),
        ({"inputs_as_nchw": [0]}, "input 0, which has 2 axes and not 4"),
        ({"inputs_as_nchw": [3]}, "input 3, and there are 1"),
        ({"outputs_as_nchw": [0]}, "output 0, which is no image of 4 axes"),
        ({"export_mode": "phone"}, "`phone` is not an export mode: use standard, web"),
        ({"normalization_mode": "x"}, "`x` is not a normalization mode: use auto"),
    ],
)
def test_an_argument_that_does_not_fit_says_why(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=message):
        to_onnx(lambda x: x + 1, [(2, 3)], **options)


def test_names_that_stand_twice_are_refused() -> None:
    with pytest.raises(jax2onnx.ConfigError, match="has a more than once"):
        to_onnx(lambda x, y: x + y, [(2,), (2,)], input_names=["a", "a"])


def test_images_come_and_go_with_their_channels_second() -> None:
    def fn(image: jax.Array) -> jax.Array:
        return jnp.tanh(image).sum(axis=2, keepdims=True)

    model = to_onnx(fn, [("B", 4, 5, 3)], inputs_as_nchw=[0], outputs_as_nchw=[0])
    shape = [
        dim.dim_value or dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim
    ]
    assert shape == ["B", 3, 4, 5]
    (found,) = run(model, image=IMAGE.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(found, fn(IMAGE).transpose(0, 3, 1, 2), rtol=1e-6)


def test_every_equation_is_recorded_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    to_onnx(lambda x: jnp.sin(x) * 2, [(3,)], record_primitive_calls_file=path)
    text = path.read_text()
    assert "= sin{" in text
    assert "f32[3]" in text
    assert "test_arguments.py" in text


def test_a_record_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(jax2onnx.WriteError, match="No such file"):
        to_onnx(lambda x: x + 1, [(3,)], record_primitive_calls_file=tmp_path / "no" / "calls.txt")


def test_a_model_for_the_web_is_one_file(tmp_path: Path) -> None:
    path = to_onnx(
        scaled, [(2, 3)], return_mode="file", output_path=tmp_path / "m.onnx", export_mode="web"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]
    onnx.checker.check_model(path)
