"""Weights, inputs and outputs say what they are and which line they come from."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import provenance_reader
from testkit import bench
from testkit.accuracy import LEVELS, metadata, names_of, strip, table_of

#: Lines are counted from 1 here.
TEXT = textwrap.dedent("""\
    import jax
    import jax.numpy as jnp
    from jax2onnx import onnx_function

    def net(params, x):
        hidden = x @ layers["first"]["kernel"]
        hidden = hidden + params["shift"] * 2.0
        turned = jnp.transpose(small)
        again = jnp.sin(x) @ layers["first"]["kernel"]
        return {"logits": hidden + again, "extra": x[:, :2] @ turned}

    def loop(x):
        def step(carry, _):
            return jnp.tanh(carry @ square), None
        return jax.lax.scan(step, x, None, length=2)[0]

    @onnx_function
    def scaled(x):
        return x * big

    def calls(x):
        return scaled(x)
""")

KERNEL = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
BIAS = np.linspace(1, 2, 4, dtype=np.float32)
SMALL = np.arange(6, dtype=np.float32).reshape(3, 2)
NAMESPACE: dict[str, Any] = {
    "layers": {"first": {"kernel": KERNEL}},
    "small": jnp.asarray(SMALL),
    "square": np.eye(3, dtype=np.float32) * 2,
    "big": np.linspace(0, 1, 200, dtype=np.float32),
}
exec(compile(TEXT, "<net>", "exec"), NAMESPACE)
SPECS = [{"shift": ()}, (2, 3)]


def export(level: str, fn: str = "net", inputs: Any = SPECS, **options: Any) -> onnx.ModelProto:
    return jax2onnx.to_onnx(NAMESPACE[fn], inputs, provenance=level, **options)


def said(entries: Any) -> dict[str, dict[str, str]]:
    """What each entry says of itself, but the plugin and stacks, which nodes have too."""
    keys = ("path", "callsite", "fused_from")
    found = {entry.name: metadata(entry) for entry in entries}
    return {name: {k: about[k] for k in keys if k in about} for name, about in found.items()}


@pytest.mark.parametrize("level", LEVELS)
def test_inputs_have_their_path_and_the_line_of_the_function(level: str) -> None:
    assert said(export(level).graph.input) == {
        "params.shift": {"path": "params.shift", "callsite": "net:5"},
        "x": {"path": "x", "callsite": "net:5"},
    }


@pytest.mark.parametrize("level", LEVELS)
def test_outputs_have_their_path_and_the_line_that_computes_them(level: str) -> None:
    outputs = export(level).graph.output
    assert said(outputs) == {
        "extra": {"path": "extra", "callsite": "net:10"},
        "logits": {"path": "logits", "callsite": "net:10"},
    }
    plugins = [metadata(output)["plugin"].partition(".")[0] for output in outputs]
    assert plugins == ["DotGeneralPlugin", "AddPlugin"]


@pytest.mark.parametrize("level", LEVELS)
def test_weights_have_their_path_and_the_lines_that_read_them(level: str) -> None:
    """What is folded keeps the path of the parameter that it was, and the line that changed it."""
    assert said(export(level).graph.initializer) == {
        "first.kernel": {
            "path": "first.kernel",
            "callsite": "net:6",
            "fused_from": "net:9",
        },
        "mul.const": {"callsite": "net:7"},
        "small/Transpose": {"path": "small", "callsite": "net:8"},
        "slice.const": {"callsite": "net:10"},
        "slice.const_1": {"callsite": "net:10"},
        "slice.const_2": {"callsite": "net:10"},
    }


def test_a_path_is_kept_where_a_name_was_asked_for() -> None:
    model = export("minimal", input_names=["s", "image"], output_names=["a", "b"])
    paths = {name: about["path"] for name, about in said(model.graph.input).items()}
    assert paths == {"s": "params.shift", "image": "x"}
    paths = {name: about["path"] for name, about in said(model.graph.output).items()}
    assert paths == {"a": "extra", "b": "logits"}


def test_a_weight_of_a_loop_has_the_line_inside_of_it() -> None:
    model = export("minimal", "loop", [(2, 3)])
    assert said(model.graph.initializer)["square"] == {
        "path": "square",
        "callsite": "loop.<locals>.step:14",
    }


def test_a_weight_of_a_function_has_the_line_of_the_call() -> None:
    """It is an operand of the call; inside, it is an input."""
    model = export("minimal", "calls", [(200,)])
    assert said(model.graph.initializer)["big"] == {"path": "big", "callsite": "calls:22"}


def test_the_table_has_the_same_lines_and_the_map_those_of_all(tmp_path: Path) -> None:
    path = tmp_path / "m"
    model = export("indexed", source_map=path)
    table, found = table_of(model), provenance_reader.read_map(path)
    of_map = {value.name: value for value in found.values}
    for entry in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        about = metadata(entry)
        value = of_map[entry.name]
        assert "\n".join(value.paths) == about.get("path", "")
        assert value.origin is not None
        origins = [found.table[value.origin]]
        # What no plugin made is left to those who read it.
        assert ("origin" in about) == ("plugin" in about)
        if "origin" in about:
            origins.append(table[int(about["origin"])])
        for origin in origins:
            first, others = names_of(origin)
            assert first == about["callsite"]
            assert others == set(about.get("fused_from", "").splitlines())


def test_a_weight_has_its_own_line_where_nodes_of_several_were_joined() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = x @ KERNEL
        return y + BIAS

    model = jax2onnx.to_onnx(fn, [(2, 3)], provenance="minimal")
    (gemm,) = model.graph.node
    assert gemm.op_type == "Gemm"
    start = fn.__code__.co_firstlineno
    lines = [metadata(tensor)["callsite"].rpartition(":")[2] for tensor in model.graph.initializer]
    assert lines == [str(start + 1), str(start + 2)]


def test_folded_weights_keep_the_paths_and_the_lines_of_all() -> None:
    """A convolution takes up the norm behind it, and the order of axes of its kernel."""

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.conv = nnx.Conv(3, 4, (3, 3), use_bias=False, rngs=nnx.Rngs(0))
            self.norm = nnx.BatchNorm(4, use_running_average=True, rngs=nnx.Rngs(0))
            for part in (self.norm.mean, self.norm.var, self.norm.scale, self.norm.bias):
                part.set_value(jnp.arange(1.0, 5.0))

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.conv(x)
            return self.norm(y)

    model = jax2onnx.to_onnx(Net(), [(1, 8, 8, 3)], provenance="indexed")
    assert not {"Mul", "Sub", "BatchNormalization"} & {node.op_type for node in model.graph.node}
    start = Net.__call__.__code__.co_firstlineno
    lines = {f"{Net.__qualname__}.__call__:{start + offset}" for offset in (1, 2)}
    weights = {
        tensor.dims[0] * len(tensor.dims): metadata(tensor) for tensor in model.graph.initializer
    }
    kernel, bias = weights[16], weights[4]
    table = table_of(model)
    for about in (kernel, bias):
        found = {about["callsite"], *about.get("fused_from", "").splitlines()}
        first, others = names_of(table[int(about["origin"])])
        assert {first, *others} == found
        assert found <= lines
    assert {kernel["callsite"], *kernel["fused_from"].splitlines()} == lines
    assert {"conv.kernel", "norm.scale", "norm.var"} <= set(kernel["path"].splitlines())
    assert set(bias["path"].splitlines()) == {f"norm.{x}" for x in ("mean", "var", "scale", "bias")}


def test_full_adds_the_call_path() -> None:
    model = export("full")
    (kernel,) = (t for t in model.graph.initializer if t.name == "first.kernel")
    assert metadata(kernel)["jax_traceback"].splitlines()[-1] == "<net>:6 (net)"
    assert metadata(model.graph.input[0])["jax_traceback"] == "<net>:5 (net)"


def test_off_is_the_same_model_without() -> None:
    plain = export("off")
    assert b"pkg.jax2onnx" not in plain.SerializeToString()
    for level in LEVELS:
        model = export(level)
        onnx.checker.check_model(model, full_check=True)
        strip(model)
        assert model.SerializeToString() == plain.SerializeToString()
    x = np.ones((2, 3), np.float32)
    found = bench.run(export("full"), [np.float32(1), x])
    for one, want in zip(
        found, bench.expected(NAMESPACE["net"], [{"shift": np.float32(1)}, x]), strict=True
    ):
        np.testing.assert_allclose(one, want, rtol=1e-6, atol=1e-6)


def test_weights_of_a_module_have_the_path_of_attributes() -> None:
    class Net(nnx.Module):
        def __init__(self) -> None:
            self.layers = nnx.List([nnx.Linear(3, 3, rngs=nnx.Rngs(seed)) for seed in range(2)])

        def __call__(self, x: jax.Array) -> jax.Array:
            for layer in self.layers:
                x = layer(x)
            return x

    model = jax2onnx.to_onnx(Net(), [(2, 3)], provenance="minimal")
    line = Net.__call__.__code__.co_firstlineno + 2
    kernels = {t.name: said([t])[t.name] for t in model.graph.initializer if "kernel" in t.name}
    assert kernels == {
        f"layers.{i}.kernel": {
            "path": f"layers.{i}.kernel",
            "callsite": f"{Net.__qualname__}.__call__:{line}",
        }
        for i in range(2)
    }
