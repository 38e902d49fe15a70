"""The arguments of `to_onnx`, and the form in which a graph is stated."""

import gc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import jax2onnx
from jax2onnx import _export, testing
from jax2onnx._tracing import specs
from testkit.mystery import mystery


def shown(*inputs: Any, double_precision: bool = False) -> list[str]:
    """What JAX is called with, one text an array."""
    arguments = specs.arguments(list(inputs), double_precision=double_precision)
    return [
        f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]" if hasattr(leaf, "shape") else repr(leaf)
        for leaf in jax.tree_util.tree_leaves(arguments)
    ]


def test_a_shape_is_an_array_of_floats() -> None:
    assert shown((2, 3), [4], ()) == ["float32[2,3]", "float32[4]", "float32[]"]
    assert shown((np.int64(2),)) == ["float32[2]"]
    assert shown((2,), double_precision=True) == ["float64[2]"]


def test_structs_arrays_and_numbers_have_their_own_type() -> None:
    struct = jax.ShapeDtypeStruct((2,), jnp.int8)
    assert shown(struct, np.zeros(3, np.uint16), jnp.ones((1, 2), jnp.bfloat16), 2.5, True) == [
        "int8[2]",
        "uint16[3]",
        "bfloat16[1,2]",
        "2.5",
        "True",
    ]
    assert shown(struct, double_precision=True) == ["int8[2]"]


def test_a_name_is_the_same_size_everywhere() -> None:
    assert shown(("B", 3), ("2*B", "N")) == ["float32[B,3]", "float32[2*B,N]"]
    first, second = specs.arguments([("B", 3), ("B",)])
    assert first.shape[0] == second.shape[0]


def test_a_size_that_the_user_made_gives_its_scope_to_the_names() -> None:
    from jax import export

    (size,) = export.symbolic_shape("B")
    first, second = specs.arguments([("B",), jax.ShapeDtypeStruct((size, 2), jnp.float32)])
    assert first.shape[0] == second.shape[0]


def test_containers_hold_specs() -> None:
    assert shown({"a": (2, 3), "b": [(1,), (jnp.ones(2), None)]}) == [
        "float32[2,3]",
        "float32[1]",
        "float32[2]",
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([(2, -1)], r"^inputs\[0\], \(2, -1\), has the size -1: .* such as 'B'$"),
        (
            [(2,), ("2 B",)],
            r"^inputs\[1\], \('2 B',\), has the size '2 B', which is not a symbolic",
        ),
        (["B"], r"^inputs\[0\] is 'B', which is not an input spec: use a shape"),
        ([{"x": object}], r"^inputs\[0\]\['x'\] is <class 'object'>, which is not an input spec"),
        ((2, 3), r"^`inputs` is the shape \(2, 3\).*use \[\(2, 3\)\]$"),
        (jax.ShapeDtypeStruct((2,), jnp.float32), r"^`inputs` is ShapeDtypeStruct"),
        (3, r"^`inputs` is 3, but should be a list"),
    ],
)
def test_a_bad_spec_says_which_input_and_why(inputs: Any, message: str) -> None:
    with pytest.raises(jax2onnx.InputSpecError, match=message) as error:
        specs.arguments(inputs)
    assert isinstance(error.value, ValueError)


def identity(x: jax.Array) -> jax.Array:
    return x


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"return_mode": "onnx"}, "^`onnx` is not a return mode: use proto, ir, file$"),
        ({"return_mode": "file"}, "^`return_mode='file'` needs an `output_path`$"),
        ({"output_path": "x.onnx"}, "^`output_path` needs `return_mode='file'`, not 'proto'$"),
        ({"opset": 15}, "^opset 15 is not supported: use 16 to 26$"),
        ({"opset": 27}, "^opset 27 is not supported: use 16 to 26$"),
        ({"provenance": "loud"}, "^`loud` is not a provenance level: use off, minimal, full"),
        ({"provenance_paths": "x"}, "^`x` is not a path policy: use relative, absolute, basename$"),
    ],
)
def test_an_invalid_option_lists_the_allowed_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=message):
        jax2onnx.to_onnx(identity, [(2,)], **options)


def test_onnx_ir_is_asked_for_by_the_name_of_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(jax2onnx.ConfigError, match=r"jax2onnx-rs\[ir\]"):
        jax2onnx.to_onnx(identity, [(2,)], return_mode="ir")


def test_the_stack_ends_with_the_frame_itself() -> None:
    stack = _export._stack(sys._getframe())
    code = test_the_stack_ends_with_the_frame_itself.__code__
    assert stack[-1] == (__file__, code.co_firstlineno + 1, code.co_qualname)
    assert len(stack) > 1


def test_every_error_has_the_right_base_class() -> None:
    kinds = {
        jax2onnx.UnsupportedError: Exception,
        jax2onnx.InternalError: Exception,
        jax2onnx.InputSpecError: ValueError,
        jax2onnx.ConfigError: ValueError,
        jax2onnx.WriteError: OSError,
    }
    for error, kind in kinds.items():
        assert issubclass(error, jax2onnx.Jax2OnnxError)
        assert issubclass(error, kind)
        assert error.__module__ == "jax2onnx"
    error = jax2onnx.WriteError(2, "No such file or directory", "a/b.onnx")
    assert error.filename == "a/b.onnx"
    assert str(error).startswith("cannot write 'a/b.onnx': No such file or directory")


def test_the_package_itself_imports_neither_jax_nor_onnx() -> None:
    code = "import sys, jax2onnx; print(sorted({'jax', 'onnx', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def double(x: jax.Array) -> jax.Array:
    return x + x


def test_a_file_is_written_and_its_path_returned(tmp_path: Path) -> None:
    path = tmp_path / "double.onnx"
    found = jax2onnx.to_onnx(double, [(2,)], return_mode="file", output_path=path)
    assert found == str(path)
    assert onnx.load(path) == jax2onnx.to_onnx(double, [(2,)])
    assert [entry.name for entry in tmp_path.iterdir()] == ["double.onnx"]


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "double.onnx")
    with pytest.raises(jax2onnx.WriteError) as error:
        jax2onnx.to_onnx(double, [(2,)], return_mode="file", output_path=path)
    assert error.value.filename == path
    assert str(error.value).startswith(f"cannot write {path!r}: No such file or directory")


def test_double_precision_means_double_inputs() -> None:
    model = jax2onnx.to_onnx(double, [(2,)], enable_double_precision=True)
    assert "(x: f64[2])" in testing.graph_text(model, signature=True)
    assert jnp.ones(1).dtype == jnp.float32


def test_a_primitive_without_a_plugin_is_shown_with_its_line() -> None:
    with pytest.raises(jax2onnx.UnsupportedError, match=r"no plugin for `mystery`(?s:.*)\^\^\^"):
        jax2onnx.to_onnx(lambda x: mystery(x), [(2, 2)])


def model() -> onnx.ModelProto:
    """A model with inputs, small and large constants, attributes, a body and metadata."""
    body = helper.make_graph(
        [helper.make_node("Neg", ["scaled"], ["negated"])],
        "body",
        [],
        [helper.make_tensor_value_info("negated", TensorProto.FLOAT, [2])],
    )
    nodes = [
        helper.make_node("Sin", ["x"], ["sine"]),
        helper.make_node("Mul", ["sine", "two"], ["scaled"]),
        helper.make_node("Transpose", ["weight"], ["turned"], perm=[1, 0]),
        helper.make_node("If", ["flag"], ["chosen"], then_branch=body, else_branch=body),
        helper.make_node("LeakyRelu", ["chosen"], ["y"], alpha=0.1),
        helper.make_node("Reshape", ["turned", "shape"], ["z"], allowzero=1),
    ]
    for node, line in zip(nodes, (6, 7, 8, 9, 10, 11), strict=True):
        node.metadata_props.add(key="pkg.jax2onnx.callsite", value=f"fn:{line}")
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 2])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [-1]),
        ],
        [
            helper.make_tensor("two", TensorProto.FLOAT, [], [2.0]),
            helper.make_tensor("flag", TensorProto.BOOL, [], [True]),
            helper.make_tensor("shape", TensorProto.INT64, [1], [-1]),
            helper.make_tensor("weight", TensorProto.DOUBLE, [3, 4], list(range(12))),
        ],
    )
    return helper.make_model(graph)


TEXT = """
    %0 = Sin(x)
    %1 = Mul(%0, 2.0)
    %2 = Transpose(weight:f64[3,4]){perm=[1, 0]}
    %3 = If(True:bool){else_branch=…, then_branch=…}
      else_branch() -> (%4):
        %4 = Neg(%1)
      then_branch() -> (%5):
        %5 = Neg(%1)
    y = LeakyRelu(%3){alpha=0.1}
    z = Reshape(%2, [-1]:i64){allowzero=1}
"""


def test_a_graph_is_one_line_a_node() -> None:
    testing.expect_graph(model(), TEXT)
    testing.expect_graph(
        model(), "(x: f32[B,2]) -> (y: f32, z: f32[-1])" + TEXT.replace("\n    ", "\n")
    )


def test_a_file_is_as_good_as_a_model(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "model.onnx")
    testing.expect_graph(tmp_path / "model.onnx", TEXT)
    assert testing.graph_text(str(tmp_path / "model.onnx")) == testing.graph_text(model())


def test_another_graph_is_shown_as_a_diff() -> None:
    with pytest.raises(AssertionError) as error:
        testing.expect_graph(model(), TEXT.replace("Sin(x)", "Cos(x)"))
    message = str(error.value)
    assert "\n-%0 = Cos(x)\n+%0 = Sin(x)\n %1 = Mul(%0, 2.0)\n" in message
    with pytest.raises(AssertionError):
        testing.expect_graph(model(), TEXT.replace("    %0 = Sin(x)\n", ""))


def test_a_fragment_is_numbered_from_its_own_start() -> None:
    testing.expect_graph(model(), "%0 = Mul(%1, 2.0)", fragment=True)
    testing.expect_graph(model(), "%7 = Sin(x)\n%3 = Mul(%7, 2.0)", fragment=True)
    with pytest.raises(AssertionError, match="does not contain the fragment"):
        testing.expect_graph(model(), "%0 = Sin(x)\ny = LeakyRelu(%3){alpha=0.1}", fragment=True)


def test_metadata_is_expected_by_position_or_by_output() -> None:
    key = "pkg.jax2onnx.callsite"
    expected = {
        0: {key: "fn:6"},
        "%1": {key: re.compile(r"fn:\d")},
        "y": {key: "fn:10", "no": None},
    }
    testing.expect_graph(model(), TEXT, metadata=expected)
    with pytest.raises(AssertionError, match=r"expected:  'fn:5'\n    the model: 'fn:6'"):
        testing.expect_graph(model(), TEXT, metadata={0: {key: "fn:5"}})
    with pytest.raises(AssertionError, match="no node '%9'"):
        testing.expect_graph(model(), TEXT, metadata={"%9": {key: "fn:5"}})
    with pytest.raises(AssertionError, match="the metadata differs"):
        testing.expect_graph(model(), TEXT, metadata={0: {key: None}})


@pytest.mark.parametrize("is_enabled", [True, False])
def test_an_export_leaves_the_garbage_collector_as_it_was(is_enabled: bool) -> None:
    seen = []

    def fn(x: jax.Array) -> jax.Array:
        seen.append(gc.isenabled())
        if len(seen) > 1:
            raise ValueError("broken")
        return x

    before = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        jax2onnx.to_onnx(fn, [(3,)])
        assert gc.isenabled() == is_enabled
        with pytest.raises(ValueError, match="broken"):
            jax2onnx.to_onnx(fn, [(4,)])
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [is_enabled, is_enabled]
