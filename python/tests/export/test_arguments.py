"""Arguments of `to_onnx` beyond the inputs: keyword inputs, names, layouts, records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import _export, to_onnx
from jax2onnx._options import ExportOptions

X = np.arange(6, dtype=np.float32).reshape(2, 3)
IMAGE = np.arange(2 * 4 * 5 * 3, dtype=np.float32).reshape(2, 4, 5, 3)


class Pair(NamedTuple):
    logits: Any
    aux: Any


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
    layer = eqx.nn.Dropout(0.5)
    with pytest.raises(jax2onnx.UnsupportedError, match="`inference` cannot become an input"):
        # Without a key there is no other way than the one of inference.
        to_onnx(lambda x, inference: layer(x, inference=inference), [(2, 3)], {"inference": True})


def test_a_value_that_cannot_be_an_input_is_refused() -> None:
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
        ({"input_names": ["a", "b"]}, "`input_names` has 2 names for 1 input"),
        ({"output_names": []}, "`output_names` has 0 names for 1 output"),
        ({"input_names": [""]}, "contains an entry that is empty or not a string"),
        ({"input_names": "x"}, "`input_names` is 'x', which is not a list of names"),
        ({"output_names": ["x"]}, "`output_names` contains x, which is the name of an input"),
        ({"input_params": {1: 2.0}}, "`input_params` has the key 1"),
        ({"input_params": [("scale", 2.0)]}, "which is not a dictionary"),
        ({"inputs_as_nchw": 0}, "`inputs_as_nchw` is 0, which is not a list of positions"),
        (
            {"inputs_as_nchw": [-1]},
            "`inputs_as_nchw` contains -1: positions are whole numbers from 0",
        ),
        ({"outputs_as_nchw": [0, 0]}, "`outputs_as_nchw` contains 0 more than once"),
        ({"outputs_as_nchw": [1]}, "output 1, but there are only 1$"),
        ({"record_primitive_calls_file": 3.5}, "is 3.5, which is not a path"),
        ({"inputs_as_nchw": [0]}, "input 0, which has 2 axes instead of 4"),
        ({"inputs_as_nchw": [3]}, "input 3, but there are only 1"),
        ({"outputs_as_nchw": [0]}, "output 0, which has 2 axes instead of 4$"),
        ({"export_mode": "phone"}, "`phone` is not an export mode: use standard, web"),
        ({"normalization_mode": "x"}, "`x` is not a normalization mode: use auto"),
    ],
)
def test_an_argument_that_does_not_fit_says_why(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=message):
        to_onnx(lambda x: x + 1, [(2, 3)], **options)


def test_duplicate_names_are_refused() -> None:
    with pytest.raises(jax2onnx.ConfigError, match="contains a more than once"):
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


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x + 1, ["out_0"]),
        (lambda x: (x + 1, [x + 2]), ["out_0", "out_1.0"]),
        (lambda x: {"sum": x + 1, "n": {"k": (x + 2, x + 3)}}, ["n.k.0", "n.k.1", "sum"]),
        (lambda x: Pair(x + 1, {"q": x + 2}), ["logits", "aux.q"]),
        (lambda x: [{"a": x + 1}], ["out_0.a"]),
        (lambda x: {"x": x + 1, "y": x + 2}, ["x_out", "y"]),
        (lambda x: {"it's": x + 1, "y": x + 2}, ["it's", "y"]),
        (lambda x: {"a": {"b": x + 1}, "a.b": x + 2}, ["a.b", "out_1"]),
        (lambda x: {1: x + 1}, ["out_1"]),
    ],
)
def test_outputs_have_the_names_of_the_keys_and_fields_that_lead_to_them(
    fn: Any, expected: list[str]
) -> None:
    assert names(to_onnx(fn, [(2,)]).graph.output) == expected


def test_names_of_inputs_of_both_kinds_are_distinct() -> None:
    with pytest.raises(
        jax2onnx.ConfigError, match="contains scale, which is also a name in `input_params`"
    ):
        to_onnx(scaled, [(2, 3)], {"scale": 1.0}, input_names=["scale"])


def test_a_name_that_was_asked_for_wins_over_inner_ones() -> None:
    model = to_onnx(lambda x: (x + 1) * 2, [(2, 3)], input_names=["add"], output_names=["mul"])
    assert names(model.graph.input) == ["add"]
    assert names(model.graph.output) == ["mul"]
    (found,) = run(model, add=X)
    np.testing.assert_array_equal(found, (X + 1) * 2)


def test_a_keyword_input_is_an_array_with_named_sizes() -> None:
    def fn(x: jax.Array, *, mask: jax.Array) -> jax.Array:
        return jnp.where(mask, x, 0)

    model = to_onnx(fn, [("B", 3)], {"mask": jax.ShapeDtypeStruct(("B", 1), jnp.bool_)})
    mask = np.array([[True], [False]])
    (found,) = run(model, x=X, mask=mask)
    np.testing.assert_array_equal(found, np.where(mask, X, 0))


def test_a_keyword_that_the_function_does_not_have_is_said() -> None:
    with pytest.raises(jax2onnx.InputSpecError, match="with 1 input and `size`: got an unexpected"):
        to_onnx(scaled, [(2, 3)], {"size": 1.0})


def test_an_image_of_open_sizes_goes_out_with_its_channels_second() -> None:
    model = to_onnx(
        lambda image: (image.sum(), image * 2), [("B", "H", "W", 3)], outputs_as_nchw=[1]
    )
    shape = model.graph.output[1].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in shape] == ["B", 3, "H", "W"]
    found = run(model, image=IMAGE)[1]
    np.testing.assert_array_equal(found, IMAGE.transpose(0, 3, 1, 2) * 2)


def test_every_equation_is_recorded_with_its_line(tmp_path: Path) -> None:
    weight = np.arange(20, dtype=np.float32)

    def body(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.sin(carry), None

    def fn(x: jax.Array) -> jax.Array:
        carry, _ = jax.lax.scan(body, x, None, length=3)
        return carry * weight

    path = tmp_path / "calls.txt"
    to_onnx(fn, [("B", 20)], record_primitive_calls_file=path)
    line = fn.__code__.co_firstlineno
    where = "test_every_equation_is_recorded_with_its_line.<locals>"
    text = path.read_text()
    assert f'@ "python/tests/export/test_arguments.py":{line} in "{where}.fn" {{\n' in text
    assert f'":{line - 2} in "{where}.body"\n' in text
    assert re.search(rf'f32\[B,20\] = mul.* @ ".*":{line + 2} in "{where}.fn"\n', text)
    assert re.search(r"\w:f32\[B,20\] = scan\{.*length=3", text)
    assert re.search(r"const \w:f32\[20\] = …\n", text)
    assert "internal" not in text
    assert str(Path.home()) not in text


def test_a_record_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(jax2onnx.WriteError, match="No such file"):
        to_onnx(lambda x: x + 1, [(3,)], record_primitive_calls_file=tmp_path / "no" / "calls.txt")


def test_a_model_for_the_web_is_one_file(tmp_path: Path) -> None:
    path = to_onnx(
        scaled, [(2, 3)], return_mode="file", output_path=tmp_path / "m.onnx", export_mode="web"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]
    onnx.checker.check_model(path)


@pytest.mark.parametrize(
    ("fn", "dtype", "message"),
    [
        (
            lambda x: x.astype(jnp.float32),
            jnp.bfloat16,
            "input `x` is bfloat16, which onnxruntime-web does not support",
        ),
        (lambda x: x.astype(jnp.float8_e5m2), jnp.float32, "output `out_0` is float8_e5m2"),
    ],
)
def test_a_browser_has_tensors_of_some_types(fn: Any, dtype: Any, message: str) -> None:
    with pytest.raises(jax2onnx.UnsupportedError, match=message):
        to_onnx(fn, [jax.ShapeDtypeStruct((2,), dtype)], export_mode="web")
    to_onnx(fn, [jax.ShapeDtypeStruct((2,), dtype)])


def test_complex_numbers_are_pairs_for_the_web() -> None:
    to_onnx(lambda z: z * 2, [jax.ShapeDtypeStruct((2,), jnp.complex64)], export_mode="web")


def test_a_model_for_the_web_that_is_too_large_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def too_large(_: Any, options: ExportOptions) -> None:
        assert options.external_threshold > 2**62
        raise jax2onnx.WriteError("the model needs 3000000000 bytes")

    monkeypatch.setattr(_export, "export_traced", too_large)
    with pytest.raises(jax2onnx.WriteError, match="use `export_mode='standard'`"):
        to_onnx(
            scaled, [(2, 3)], return_mode="file", output_path=tmp_path / "m.onnx", export_mode="web"
        )


class Noisy(nnx.Module):
    """A layer with a random stream and statistics, both of which a call changes."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.linear = nnx.Linear(3, 4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)

    def __call__(self, x: jax.Array, deterministic: bool = True) -> jax.Array:
        return self.dropout(self.linear(x), deterministic=deterministic)

    def normalized(self, x: jax.Array) -> jax.Array:
        return self.norm(self.linear(x))


def test_dropout_of_nnx_is_switched_by_an_input() -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    model = to_onnx(Noisy(), [("B", 3)], {"deterministic": True})
    assert [value.name for value in model.graph.input] == ["x", "deterministic"]
    for flag in (True, False):
        (found,) = run(model, x=x, deterministic=np.array(flag))
        np.testing.assert_allclose(found, Noisy()(x, deterministic=flag), rtol=1e-6)
    assert (found == 0).any(), "some are dropped"


def test_changes_of_a_module_during_a_call_are_dropped_and_undone() -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    module = Noisy()
    before = np.asarray(module.norm.mean[...])
    model = to_onnx(module.normalized, [x])
    assert len(model.graph.output) == 1
    (found,) = run(model, x=x)
    np.testing.assert_array_equal(module.norm.mean[...], before)
    np.testing.assert_allclose(found, Noisy().normalized(x), rtol=1e-5, atol=1e-6)
