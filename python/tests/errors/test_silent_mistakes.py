"""What an export says about what the user probably did not mean."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import to_onnx

Struct: Any = jax.ShapeDtypeStruct
#: JAX 0.12 refuses the size itself.
NEWEST = jax.__version_info__ >= (0, 12)


def said(fn: Any, inputs: Any, **options: Any) -> tuple[onnx.ModelProto, list[str]]:
    """Export, and return the model and the warnings, all of which are at the line of the export."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = to_onnx(fn, inputs, **options)
    ours = [each for each in caught if issubclass(each.category, jax2onnx.Jax2OnnxWarning)]
    assert {each.filename for each in ours} <= {__file__}
    return model, [str(each.message) for each in ours]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ((None, 3), "inputs[0], (None, 3),"),
        ([None, "T", 3], "inputs[0], [None, 'T', 3],"),
        ({"x": (3, None)}, "inputs[0]['x'], (3, None),"),
        *([] if NEWEST else [(Struct((None, 3), jnp.int32), "inputs[0], (None, 3),")]),
    ],
)
def test_a_size_of_none_is_an_error_that_asks_for_a_name(spec: Any, shown: str) -> None:
    with pytest.raises(jax2onnx.InputSpecError) as raised:
        to_onnx(lambda x: x, [spec])
    assert str(raised.value) == (
        f"{shown} has the size None: give an unknown size a name, such as 'B'"
    )


def test_a_container_of_none_is_not_a_shape() -> None:
    model, _ = said(lambda x, rest: x + (1 if rest == (None, None) else 2), [(3,), (None, None)])
    assert [value.name for value in model.graph.input] == ["x"]


def forgetful(x: Any) -> None:
    x + 1


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (forgetful, "`forgetful` returns nothing: did you forget `return`?"),
        (
            lambda x: (None, {"x": None}),
            "`<lambda>` returns (None, {'x': None}), which contains no array: "
            "did you forget `return`?",
        ),
    ],
)
def test_a_function_that_returns_nothing_is_refused(fn: Any, message: str) -> None:
    with pytest.raises(jax2onnx.UnsupportedError) as raised:
        to_onnx(fn, [(2,)])
    assert str(raised.value) == message


def test_an_array_that_a_trace_left_behind_is_refused() -> None:
    kept = [jnp.zeros(2)]

    def counts(x: Any) -> Any:
        kept[0] = kept[0] + x
        return x * 2

    jax.jit(counts)(jnp.ones(2))
    with pytest.raises(jax2onnx.UnsupportedError) as raised:
        to_onnx(lambda x: x * kept[0], [(2,)])
    assert str(raised.value) == (
        "`<lambda>` uses float32[2], which an earlier `jax.jit` of the same model left in its "
        "state, and which has no value: create the model again"
    )


def test_an_output_with_the_name_of_an_input_gets_a_suffix() -> None:
    model, messages = said(lambda x, state: {"y": x, "state": state + x}, [(2,), (2,)])
    assert [value.name for value in model.graph.output] == ["state_out", "y"]
    assert messages == [
        "the output `state` has the name of an input: the model calls it `state_out`; "
        "choose names with `output_names`"
    ]


def test_several_such_outputs_get_one_warning() -> None:
    model, messages = said(
        lambda cache: {"cache": [{"k": c["k"] + 1, "v": c["v"] * 2} for c in cache]},
        [[{"k": (2,), "v": (2,)} for _ in range(3)]],
    )
    assert [value.name for value in model.graph.output][:2] == ["cache.0.k_out", "cache.0.v_out"]
    assert messages == [
        "the outputs `cache.0.k`, `cache.0.v`, `cache.1.k`, `cache.1.v`, … have the names of "
        "inputs: the model calls them `cache.0.k_out`, `cache.0.v_out`, `cache.1.k_out`, "
        "`cache.1.v_out`, …; choose names with `output_names`"
    ]


def test_a_suffix_that_is_taken_is_not_used() -> None:
    model, messages = said(lambda a, a_out: {"a": a, "b": a_out}, [(2,), (3,)])
    assert [value.name for value in model.graph.output] == ["out_0", "b"]
    assert messages == [
        "the output `a` has the name of an input: the model calls it `out_0`; "
        "choose names with `output_names`"
    ]


def test_chosen_names_need_no_warning() -> None:
    _, messages = said(lambda x: {"x": x + 1}, [(2,)], output_names=["y"])
    assert messages == []


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            [np.zeros(3)],
            "inputs[0] is float64, but the model takes float32: "
            "JAX keeps 64-bit types only with `enable_double_precision=True`",
        ),
        (
            [{"ids": Struct((3,), np.dtype("int64")), "mask": np.zeros(3, np.uint64)}],
            "inputs[0]['ids'] is int64, but the model takes int32, and 1 more input: "
            "JAX keeps 64-bit types only with `enable_double_precision=True`",
        ),
    ],
)
def test_a_64_bit_example_that_jax_narrows_is_mentioned(inputs: Any, message: str) -> None:
    _, messages = said(lambda x: jax.tree.map(lambda leaf: leaf + 1, [x]), inputs)
    assert messages == [message]


def test_types_that_stay_need_no_warning() -> None:
    inputs = [np.zeros(3, np.float32), 1.0, jax.random.key(0), ("B",)]
    _, messages = said(lambda x, y, key, z: x * y + jax.random.uniform(key), inputs)
    assert messages == []
    _, messages = said(lambda x: x, [np.zeros(3)], enable_double_precision=True)
    assert messages == []


def test_a_warning_can_be_silenced() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", jax2onnx.Jax2OnnxWarning)
        to_onnx(lambda x: x, [np.zeros(3)])
    assert caught == []
