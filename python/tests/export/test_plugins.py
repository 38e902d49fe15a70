"""Plugins that are written in Python."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from jax.extend.core import Primitive

import jax2onnx
from jax2onnx._plugins import registry
from testkit import bench
from testkit.accuracy import all_nodes, metadata, strip
from testkit.lines import line_of

X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "REGISTERED", {})


def primitive(name: str, results: int = 1) -> Primitive:
    """A primitive whose results are like its first operand."""
    made = Primitive(name)
    made.multiple_results = results > 1
    made.def_abstract_eval(lambda x, *_, **__: x if results == 1 else [x] * results)
    return made


twice = primitive("twice")


def run(fn: Any, *inputs: Any, **options: Any) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    model = jax2onnx.to_onnx(fn, list(inputs), provenance="full", **options)
    onnx.checker.check_model(model)
    return model, bench.run(model, inputs)


def register_twice() -> Any:
    @jax2onnx.plugin("twice")
    class TwicePlugin:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            (x,) = ctx.inputs
            return ctx.op.Mul(x, ctx.constant(2.0))

    return TwicePlugin


def test_an_unknown_primitive_is_lowered_by_a_plugin() -> None:
    register_twice()
    model, (found,) = run(lambda x: twice.bind(jnp.sin(x)) + 1.0, X)
    np.testing.assert_allclose(found, np.sin(X) * 2 + 1, rtol=1e-6)
    assert [node.op_type for node in model.graph.node] == ["Sin", "Mul", "Add"]


def test_the_metadata_shows_the_line_of_the_plugin_and_of_the_model() -> None:
    cls = register_twice()

    def fn(x: Any) -> Any:
        return twice.bind(jnp.sin(x))

    model, _ = run(fn, X)
    said = metadata(model.graph.node[1])
    line = line_of(cls.lower, "ctx.op.Mul")
    assert said["plugin"] == f"TwicePlugin.lower:{line}"
    assert said["callsite"] == f"{fn.__qualname__}:{line_of(fn, 'twice.bind')}"
    last = said["stacktrace"].splitlines()[-1]
    assert last == f"python/tests/export/test_plugins.py:{line} in TwicePlugin.lower"


def test_functions_that_a_plugin_calls_are_in_the_stack() -> None:
    def scaled(ctx: Any, x: Any, by: float) -> Any:
        return ctx.op.Mul(x, by)

    @jax2onnx.plugin(twice)
    class Scale:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            return scaled(ctx, ctx.inputs[0], 2.0)

    model, (found,) = run(lambda x: twice.bind(x), X)
    np.testing.assert_array_equal(found, X * 2)
    said = metadata(model.graph.node[0])
    outer, inner = line_of(Scale.lower, "return scaled"), line_of(scaled, "ctx.op.Mul")
    assert said["plugin"] == f"Scale.lower:{outer}"
    assert said["stacktrace"].splitlines()[-2:] == [
        f"python/tests/export/test_plugins.py:{outer} in Scale.lower",
        f"python/tests/export/test_plugins.py:{inner} in scaled",
    ]


def test_the_graph_is_the_same_at_every_level_and_the_table_has_the_plugin() -> None:
    register_twice()
    levels = ("off", "minimal", "full", "indexed")
    models = [jax2onnx.to_onnx(lambda x: twice.bind(x), [X], provenance=at) for at in levels]
    assert "TwicePlugin.lower" in models[3].metadata_props[0].value
    texts = set()
    for model in models:
        strip(model)
        texts.add(model.SerializeToString())
    assert len(texts) == 1


def test_a_plugin_takes_precedence_over_the_table_and_may_decline() -> None:
    @jax2onnx.plugin("sin")
    class SinOfLarge:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            if ctx.inputs[0].shape != (6,):
                return NotImplemented
            return ctx.op.Neg(ctx.inputs[0])

    model, found = run(lambda x: (jnp.sin(x), jnp.sin(x.reshape(6))), X)
    np.testing.assert_allclose(found[0], np.sin(X), rtol=1e-6)
    np.testing.assert_array_equal(found[1], -X.reshape(6))
    assert sorted(n.op_type for n in model.graph.node) == ["Neg", "Reshape", "Sin"]


def test_the_last_plugin_is_asked_first_and_the_others_after_it() -> None:
    asked = []
    register_twice()

    @jax2onnx.plugin("twice")
    class Declines:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            asked.append(eqn.primitive.name)
            return NotImplemented

    _, (found,) = run(lambda x: twice.bind(x), X)
    np.testing.assert_array_equal(found, X * 2)
    assert asked == ["twice"]


def test_parameters_types_and_literals_are_at_hand() -> None:
    seen = {}
    scale = primitive("scale")

    @jax2onnx.plugin(scale)
    class Scale:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            x, factor = ctx.inputs
            seen.update(
                params=eqn.params,
                shape=x.shape,
                dtype=x.dtype,
                literal=factor.constant,
                due=(ctx.outputs[0].shape, ctx.outputs[0].dtype),
                opset=ctx.opset,
            )
            return ctx.op.Pow(ctx.op.Mul(x, factor), float(eqn.params["power"]))

    model = jax2onnx.to_onnx(lambda x: scale.bind(x, 3.0, power=2), [("B", 3)], opset=21)
    (found,) = bench.run(model, (X,))
    np.testing.assert_allclose(found, (X * 3) ** 2, rtol=1e-6)
    assert seen["params"] == {"power": 2}
    assert seen["shape"] == ("B", 3)
    assert seen["dtype"] == np.float32
    assert seen["literal"] == 3.0
    assert str(seen["due"][0]) == "(B, 3)"
    assert seen["due"][1] == np.float32
    assert seen["opset"] == 21


def test_several_results_and_optional_operands() -> None:
    halves = primitive("halves", results=2)

    @jax2onnx.plugin(halves)
    class Halves:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            (x,) = ctx.inputs
            clipped = ctx.op.Clip(x, None, 1.0)
            first, second = ctx.op.Split(
                ctx.op.Concat(clipped, x, axis=0), outputs=2, num_outputs=2, axis=0
            )
            return first, second

    _, found = run(lambda x: halves.bind(x), X)
    np.testing.assert_array_equal(found[0], np.minimum(X, 1))
    np.testing.assert_array_equal(found[1], X)


def test_operators_of_other_domains() -> None:
    @jax2onnx.plugin("twice")
    class Fused:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            return ctx.op.Gelu(ctx.inputs[0], domain="com.microsoft")

    model = jax2onnx.to_onnx(lambda x: twice.bind(x), [X])
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [
        ("", 23),
        ("com.microsoft", 1),
    ]
    (found,) = bench.run(model, (X,))
    np.testing.assert_allclose(found, jax.nn.gelu(X, approximate=False), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Cast", "Expand", "Identity", "Reshape", "Softmax", "Transpose"])
def test_an_operator_of_another_domain_with_a_name_of_onnx_is_left_alone(name: str) -> None:
    @jax2onnx.plugin("twice")
    class Foreign:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            return getattr(ctx.op, name)(ctx.inputs[0], domain="mine")

    model = jax2onnx.to_onnx(lambda x: jnp.exp(twice.bind(twice.bind(jnp.sin(x)))), [X])
    operators = [(node.domain, node.op_type) for node in model.graph.node]
    assert operators == [("", "Sin"), ("mine", name), ("mine", name), ("", "Exp")]


def test_a_jaxpr_of_the_equation_is_lowered_in_place_with_its_own_lines() -> None:
    apply = Primitive("apply")
    apply.def_abstract_eval(lambda x, *, jaxpr: x)

    @jax2onnx.plugin(apply)
    class Apply:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            (y,) = ctx.lower(eqn.params["jaxpr"], ctx.op.Neg(ctx.inputs[0]))
            return y

    def body(x: Any) -> Any:
        return jnp.exp(x)

    def fn(x: Any) -> Any:
        return apply.bind(x, jaxpr=jax.make_jaxpr(body)(x))

    model, (found,) = run(fn, X)
    np.testing.assert_allclose(found, np.exp(-X), rtol=1e-6)
    neg, exp = model.graph.node
    assert metadata(neg)["callsite"] == f"{fn.__qualname__}:{line_of(fn, 'apply.bind')}"
    assert metadata(exp)["callsite"] == f"{body.__qualname__}:{line_of(body, 'jnp.exp')}"
    assert metadata(exp)["plugin"].startswith("ExpPlugin.lower:")
    assert "Apply.lower" in metadata(exp)["stacktrace"]


def test_bodies_of_branches_and_loops() -> None:
    @jax2onnx.plugin("twice")
    class Repeat:
        """`x` doubled, by adding it twice to zero, where the first element is not negative."""

        def lower(self, ctx: Any, eqn: Any) -> Any:
            (x,) = ctx.inputs
            first = ctx.op.Gather(ctx.op.Reshape(x, [-1]), ctx.constant(0))

            def step(i: Any, going: Any, total: Any) -> Any:
                return going, ctx.op.Add(total, x)

            def looped() -> Any:
                count, forever = ctx.constant(2), ctx.constant(True)
                zero = ctx.op.Mul(x, 0.0)
                types = [jax.ShapeDtypeStruct((), np.int64), jax.ShapeDtypeStruct((), np.bool_)]
                body = ctx.body(step, [*types, jax.ShapeDtypeStruct((2, 3), np.float32)])
                return ctx.op.Loop(count, forever, zero, body=body)

            return ctx.op.If(
                ctx.op.GreaterOrEqual(first, 0.0),
                then_branch=ctx.body(looped),
                else_branch=ctx.body(lambda: x),
            )

    model, (found,) = run(lambda x: twice.bind(x), X)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(bench.run(model, (X + 2,))[0], (X + 2) * 2)
    plugins = {metadata(node)["plugin"].partition(":")[0] for node in all_nodes(model.graph)}
    assert plugins == {"Repeat.lower"}


def test_a_plugin_inside_a_scan_and_under_jit() -> None:
    register_twice()

    def fn(xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            return carry + jax.jit(twice.bind)(x), twice.bind(carry)

        return lax.scan(step, jnp.zeros(3), xs)

    _, found = run(fn, X)
    np.testing.assert_allclose(found[0], 2 * X.sum(0), rtol=1e-6)
    np.testing.assert_allclose(found[1][1], 4 * X[0], rtol=1e-6)


def failing(lower: Any) -> pytest.ExceptionInfo[jax2onnx.PluginError]:
    """What an export says whose plugin is this."""
    cls = type("Failing", (), {"lower": lower})
    jax2onnx.plugin("twice")(cls)

    def outer(x: Any) -> Any:
        return twice.bind(jnp.sin(x))

    with pytest.raises(jax2onnx.PluginError) as raised:
        jax2onnx.to_onnx(jax.jit(outer), [X])
    return raised


def test_an_exception_names_the_line_of_the_model_and_of_the_plugin() -> None:
    def lower(self: Any, ctx: Any, eqn: Any) -> Any:
        raise KeyError("mode")

    raised = failing(lower)
    text = str(raised.value)
    line = line_of(lower, "raise KeyError")
    assert "the plugin for `twice` failed: KeyError: 'mode'" in text
    assert f"test_plugins.py:{line}, in Failing" in text
    assert "return twice.bind(jnp.sin(x))" in text
    assert "^^^^^^^^^^" in text
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (lambda _, ctx, eqn: ctx.op.Mull(*ctx.inputs), "no operator Mull: did you mean Mul"),
        (lambda _, ctx, eqn: ctx.op.Mul(*ctx.inputs), "Mul has 1 inputs instead of 2"),
        (lambda _, ctx, eqn: ctx.op.Neg(*ctx.inputs, axis=1), "Neg has no attribute axis"),
        (lambda _, ctx, eqn: ctx.op.Neg(*ctx.inputs, outputs=2), "Neg has 2 outputs"),
        (
            lambda _, ctx, eqn: ctx.op.Add(ctx.inputs[0], ctx.constant(1)),
            "Add(PluginValue(float32[2, 3]), PluginValue(int64[])): B has inconsistent type",
        ),
        (
            lambda _, ctx, eqn: ctx.op.Cast(ctx.inputs[0], to=np.int32),
            "result 0 is PluginValue(int32[2, 3]), but should be PluginValue(float32[2, 3])",
        ),
        (
            lambda _, ctx, eqn: ctx.op.Transpose(ctx.inputs[0]),
            "result 0 is PluginValue(float32[3, 2])",
        ),
        (lambda _, ctx, eqn: ctx.inputs * 2, "the plugin returned 2 results instead of 1"),
        (lambda _, ctx, eqn: None, "the plugin returned None, which is not a value of this plugin"),
        (lambda _, ctx, eqn: ctx.lower(lambda x: x, *ctx.inputs), "is not a jaxpr"),
        (lambda _, ctx, eqn: ctx.constant("text"), "cannot be an ONNX constant"),
    ],
)
def test_a_mistake_in_a_plugin_is_explained(lower: Any, message: str) -> None:
    text = str(failing(lower).value)
    assert message in text
    assert "return twice.bind(jnp.sin(x))" in text


def test_a_value_of_a_body_cannot_be_used_outside_of_it() -> None:
    def lower(_: Any, ctx: Any, eqn: Any) -> Any:
        inside = []

        def build() -> Any:
            inside.append(ctx.op.Neg(ctx.inputs[0]))
            return inside[0]

        ctx.op.If(ctx.constant(True), then_branch=ctx.body(build), else_branch=ctx.body(build))
        return inside[0]

    assert "uses a value from a body outside that body" in str(failing(lower).value)


def test_complex_numbers_and_keys_are_not_handed_to_plugins() -> None:
    @jax2onnx.plugin("neg")
    class Fails:
        def lower(self, ctx: Any, eqn: Any) -> Any:
            raise AssertionError("it is asked")

    z = np.array([1 + 2j, -3j], np.complex64)
    (found,) = bench.run(jax2onnx.to_onnx(lambda z: -z, [z]), (z,))
    np.testing.assert_array_equal(found, np.stack([-z.real, -z.imag], axis=-1))
    register_twice()
    with pytest.raises(jax2onnx.UnsupportedError, match="no plugin for `twice`"):
        jax2onnx.to_onnx(lambda z: twice.bind(z), [z])


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_plugin_needs_the_name_of_a_primitive(name: Any) -> None:
    with pytest.raises(jax2onnx.ConfigError, match="does not name a primitive"):
        jax2onnx.plugin(name)


@pytest.mark.parametrize("thing", [int, lambda ctx, eqn: None])
def test_a_plugin_is_a_class_with_lower(thing: Any) -> None:
    with pytest.raises(jax2onnx.ConfigError, match="must be a class with a method `lower`"):
        jax2onnx.plugin("twice")(thing)


PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "thrice-plugins"
version = "1.0"

[project.entry-points."jax2onnx.plugins"]
thrice = "thrice.plugins"
broken = "thrice.not_there"

[tool.setuptools]
packages = ["thrice"]
"""

PRIMITIVE = """\
from jax.extend.core import Primitive

thrice_p = Primitive("thrice")
thrice_p.def_abstract_eval(lambda x: x)
thrice = thrice_p.bind
"""

PLUGIN = """\
import jax2onnx


@jax2onnx.plugin("thrice")
class ThricePlugin:
    def lower(self, ctx, eqn):
        return ctx.op.Mul(*ctx.inputs, 3.0)
"""

EXPORT = """\
import warnings
import numpy as np
import jax2onnx
from thrice import thrice

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = jax2onnx.to_onnx(lambda x: thrice(x), [(2,)], provenance="full")
(node,) = model.graph.node
said = {prop.key.rpartition(".")[2]: prop.value for prop in node.metadata_props}
print(node.op_type, said["plugin"], said["stacktrace"].splitlines()[-1], sep="|")
print(*[str(one.message) for one in caught if "plugins of" in str(one.message)])
"""


@pytest.mark.slow
def test_the_plugins_of_an_installed_package_are_found(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "thrice").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "thrice" / "__init__.py").write_text(PRIMITIVE)
    (source / "thrice" / "plugins.py").write_text(PLUGIN)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-deps", "--no-index"]
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    subprocess.run(
        [*pip, "wheel", *offline, "--no-build-isolation", "-w", wheels, source], check=True
    )
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "install", *offline, "--target", site, wheel], check=True)

    package, elsewhere = Path(jax2onnx.__file__).parent.parent, tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(EXPORT)],
        env={"PYTHONPATH": f"{package}:{site}", "PATH": ""},
        cwd=elsewhere,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "Mul|ThricePlugin.lower:7|thrice/plugins.py:7 in ThricePlugin.lower"
    assert second.startswith("the plugins of `thrice-plugins` cannot be loaded: ModuleNotFound")
