"""`@onnx_function`: which functions a model has, what they compute, whose lines they show."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx
from jax import lax

import jax2onnx
from jax2onnx import onnx_function
from testkit import bench, mystery
from testkit.accuracy import metadata, nodes_of
from testkit.lines import line_of

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)


@onnx_function
def scaled(x: jax.Array, factor: float = 2.0) -> jax.Array:
    return jnp.sin(x) * factor


@onnx_function
def outer(x: jax.Array) -> jax.Array:
    return scaled(x) + scaled(x + 1)


@onnx_function
class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(3, 3, rngs=rngs, bias_init=nnx.initializers.normal())
        self.second = nnx.Linear(3, 3, rngs=rngs, bias_init=nnx.initializers.normal())

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.second(nnx.relu(self.first(x)))


class Stack(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.block_0, self.block_1 = Block(rngs), Block(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.block_1(self.block_0(x))


@onnx_function
class Layer(linen.Module):
    size: int = 3

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return linen.tanh(linen.Dense(self.size, name="dense")(x))


class Layers(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return Layer(name="upper")(Layer(name="lower")(x))


@onnx_function
class Affine(equinox.Module):
    linear: equinox.nn.Linear

    def __init__(self, seed: int) -> None:
        self.linear = equinox.nn.Linear(3, 3, key=jax.random.key(seed))

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.linear(x))


def converted(fn: Any, inputs: list[Any], **options: Any) -> onnx.ModelProto:
    model = bench.convert(fn, inputs, provenance="minimal", **options)
    names = [node.name for node in nodes_of(model)]
    assert len(set(names)) == len(names), "a name is given twice"
    return model


def calls(model: onnx.ModelProto) -> list[str]:
    """The functions that are called, in the main graph and in bodies, by name."""
    return sorted(node.op_type for node in nodes_of(model) if node.domain)


def functions(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The operators of each function, constants apart."""
    return {
        function.name: [node.op_type for node in function.node if node.op_type != "Constant"]
        for function in model.functions
    }


def assert_computes(fn: Any, model: onnx.ModelProto, *inputs: Any) -> None:
    want = bench.expected(fn, inputs)
    for found, one in zip(bench.run(model, inputs), want, strict=True):
        bench.assert_same(found, one, rtol=1e-5, atol=1e-6)


def callsites(nodes: Any) -> list[tuple[str, str]]:
    return [(node.op_type, metadata(node)["callsite"]) for node in nodes]


def test_equal_bodies_are_one_function() -> None:
    def twice(x: jax.Array) -> jax.Array:
        return scaled(scaled(x))

    model = converted(twice, [X])
    assert functions(model) == {"scaled": ["Sin", "Mul"]}
    assert calls(model) == ["scaled", "scaled"]
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [
        ("", 23),
        ("custom", 1),
    ]
    assert_computes(twice, model, X)


def test_other_constants_and_other_shapes_make_other_functions() -> None:
    def several(x: jax.Array) -> jax.Array:
        y = scaled(x, 2.0) + scaled(x, 3.0) + scaled(x, factor=2.0)
        return y + scaled(x[:1])

    model = converted(several, [X])
    assert list(functions(model)) == ["scaled", "scaled_2", "scaled_3"]
    assert calls(model) == ["scaled", "scaled", "scaled_2", "scaled_3"]
    assert_computes(several, model, X)


def test_functions_call_functions() -> None:
    model = converted(outer, [X])
    assert functions(model) == {
        "scaled": ["Sin", "Mul"],
        "outer": ["scaled", "Add", "scaled", "Add"],
    }
    assert [node.op_type for node in model.graph.node] == ["outer"]
    assert_computes(outer, model, X)


def test_domain_and_name_can_be_chosen() -> None:
    def body(x: jax.Array) -> jax.Array:
        return x + 1

    def everything(x: jax.Array) -> Any:
        return [
            onnx_function(body)(x),
            onnx_function()(body)(x),
            onnx_function(body, unique=True, namespace="my.ops")(x),
            onnx_function(name="Named")(body)(x),
            onnx_function(name="Named", type="Typed")(body)(x),
            onnx_function(lambda y: y - 1)(x),
        ]

    model = converted(everything, [X])
    found = [(node.domain, node.op_type) for node in model.graph.node]
    assert found == [
        ("custom", "body"),
        ("custom", "body"),
        ("my.ops", "body"),
        ("custom", "Named"),
        ("custom", "Typed"),
        ("custom", "lambda"),
    ]
    assert {entry.domain for entry in model.opset_import} == {"", "custom", "my.ops"}
    assert_computes(everything, model, X)


def test_a_number_does_not_take_a_name_that_was_asked_for() -> None:
    def confusing(x: jax.Array) -> jax.Array:
        return scaled(x, 1.5) + scaled(x, 2.5) + onnx_function(lambda y: y + 1, name="scaled_2")(x)

    model = converted(confusing, [X])
    assert functions(model) == {
        "scaled": ["Sin", "Mul"],
        "scaled_3": ["Sin", "Mul"],
        "scaled_2": ["Add"],
    }
    assert_computes(confusing, model, X)


@pytest.mark.slow
def test_layers_of_nnx_share_a_function_that_is_given_the_weights() -> None:
    model = Stack(nnx.Rngs(0))
    proto = converted(model, [("B", 3)])
    assert functions(proto) == {"Block": ["Gemm", "Relu", "Gemm", "Add"]}
    assert calls(proto) == ["Block", "Block"]
    (function,) = proto.functions
    assert len(function.input) == 5
    weights = {tensor.name for tensor in proto.graph.initializer}
    passed = [set(node.input[1:]) for node in proto.graph.node]
    assert passed[0] | passed[1] == weights
    assert len(weights) == 8
    for size in (1, 2, 5):
        x = np.linspace(-1, 1, 3 * size, dtype=np.float32).reshape(size, 3)
        assert_computes(model, proto, x)


def test_weights_that_happen_to_be_equal_do_not_tell_functions_apart() -> None:
    # Larger than what is not worth sharing.
    ones = np.ones((33, 33), np.float32)

    @onnx_function
    def two(x: jax.Array, a: Any, b: Any) -> jax.Array:
        return (x @ a) @ b

    def fn(x: jax.Array) -> jax.Array:
        return two(two(x, ones, ones + 0), ones, 2 * ones)

    x = np.linspace(-1, 1, 66, dtype=np.float32).reshape(2, 33)
    model = converted(fn, [x])
    assert calls(model) == ["two", "two"]
    assert len(model.graph.initializer) == 2, "equal weights are one initializer"
    assert_computes(fn, model, x)


def test_layers_of_linen_share_a_function() -> None:
    layers = Layers()
    params = layers.init(jax.random.key(0), X)

    def fn(x: jax.Array) -> jax.Array:
        return layers.apply(params, x)

    model = converted(fn, [("B", 3)])
    assert functions(model) == {"Layer": ["Gemm", "Tanh"]}
    names = [node.name for node in model.graph.node]
    assert names == ["Layers/lower/Layer", "Layers/upper/Layer"]
    (function,) = model.functions
    found = [node.name for node in function.node]
    assert found == ["Layer/dense/dot_general", "Layer/tanh"]
    for size in (1, 2, 5):
        x = np.linspace(-1, 1, 3 * size, dtype=np.float32).reshape(size, 3)
        assert_computes(fn, model, x)


def test_modules_of_equinox_share_a_function_under_vmap() -> None:
    first, second = Affine(0), Affine(1)

    def fn(x: jax.Array) -> jax.Array:
        return jax.vmap(second)(jax.vmap(first)(x))

    model = converted(fn, [("B", 3)])
    assert list(functions(model)) == ["Affine"]
    assert calls(model) == ["Affine", "Affine"]
    assert_computes(fn, model, X)


def test_a_decorated_class_is_the_class_and_its_instances_work_as_before() -> None:
    class Plain(nnx.Module):
        def __init__(self) -> None:
            self.count = nnx.Variable(jnp.zeros(()))

        def __call__(self, x: jax.Array, *, shift: float = 1.0) -> jax.Array:
            """Shift."""
            self.count.value += 1
            return x + shift

    signature = inspect.signature(Plain.__call__)
    assert onnx_function(Plain) is Plain
    assert inspect.signature(Plain.__call__) == signature
    assert Plain.__call__.__doc__ == "Shift."
    module = Plain()
    np.testing.assert_array_equal(module(X), X + 1)
    np.testing.assert_array_equal(nnx.jit(lambda m, x: m(x, shift=2.0))(module, X), X + 2)
    assert module.count.value == 2
    assert jax.tree.structure(Affine(0)) == jax.tree.structure(Affine(1))
    assert linen.tabulate(Layers(), jax.random.key(0))(X)


def test_a_subclass_calls_the_function_of_its_base() -> None:
    class Twice(Block):
        def __call__(self, x: jax.Array) -> jax.Array:
            return super().__call__(super().__call__(x))

    model = Twice(nnx.Rngs(0))
    proto = converted(model, [X])
    assert calls(proto) == ["Block", "Block"]
    assert_computes(model, proto, X)


def test_writes_of_a_function_to_its_arguments_are_visible_to_the_caller() -> None:
    @onnx_function
    def filled(x: jax.Array, cache: dict[str, Any], seen: list[Any]) -> jax.Array:
        cache["twice"] = x * 2
        seen.append(cache["before"] + 1)
        return x + 1

    def fn(x: jax.Array) -> Any:
        cache, seen = {"before": jnp.cos(x)}, []
        y = filled(x, cache, seen)
        return y, cache["twice"], seen[0]

    model = converted(fn, [X])
    assert calls(model) == ["filled"]
    (function,) = model.functions
    assert (len(function.input), len(function.output)) == (2, 3)
    assert_computes(fn, model, X)


@pytest.mark.slow
def test_transformations_see_through_functions() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return outer(jnp.tanh(x)).sum()

    def plain(x: jax.Array) -> jax.Array:
        y = jnp.tanh(x)
        return (jnp.sin(y) * 2.0 + jnp.sin(y + 1) * 2.0).sum()

    close = {"rtol": 1e-6}
    np.testing.assert_allclose(loss(X), plain(X), **close)
    np.testing.assert_allclose(jax.jit(loss)(X), plain(X), **close)
    np.testing.assert_allclose(jax.vmap(loss)(X), jax.vmap(plain)(X), **close)
    np.testing.assert_allclose(jax.grad(loss)(X), jax.grad(plain)(X), **close)
    np.testing.assert_allclose(jax.hessian(loss)(X[0]), jax.hessian(plain)(X[0]), **close)
    scanned = lax.scan(lambda c, row: (scaled(c) + row, loss(row)), X[0], X)
    assert scanned[1].shape == (4,)
    transposed = jax.linear_transpose(onnx_function(lambda x: 2 * x), X)(X)
    np.testing.assert_array_equal(transposed[0], 2 * X)
    model = converted(jax.grad(loss), [X])
    assert "scaled" in functions(model)
    assert_computes(jax.grad(loss), model, X)


def test_a_size_is_computed_from_the_inputs_of_the_function_that_needs_it() -> None:
    @onnx_function
    def flat(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x.reshape(-1), jnp.ones(2 * x.shape[0])])

    @onnx_function
    def numbered(x: jax.Array) -> jax.Array:
        return flat(x) + jnp.arange(5 * x.shape[0])

    def fn(x: jax.Array) -> jax.Array:
        return numbered(x) + numbered(x * 2) + x.shape[0]

    model = converted(fn, [("B", 3)])
    assert calls(model) == ["flat", "numbered", "numbered"]
    assert [len(function.input) for function in model.functions] == [1, 1]
    for size in (1, 2, 5):
        x = np.linspace(-1, 1, 3 * size, dtype=np.float32).reshape(size, 3)
        assert_computes(fn, model, x)


def test_a_size_that_no_input_has_is_an_input() -> None:
    @onnx_function
    def spread(total: jax.Array, size: Any) -> jax.Array:
        return jnp.broadcast_to(total, (size,)) + jnp.arange(size)

    def fn(x: jax.Array) -> jax.Array:
        return spread(x.sum(), x.shape[0])

    model = converted(fn, [("B", 3)])
    (function,) = model.functions
    assert len(function.input) == 2
    for size in (1, 2, 5):
        x = np.linspace(-1, 1, 3 * size, dtype=np.float32).reshape(size, 3)
        assert_computes(fn, model, x)


def test_calls_and_bodies_have_the_lines_that_asked_for_them() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = scaled(x)
        z = jax.jit(outer)(y)
        return lax.fori_loop(0, 3, lambda _, c: scaled(c), z)  # in a loop

    model = converted(fn, [X])
    local = "test_calls_and_bodies_have_the_lines_that_asked_for_them.<locals>.fn"
    first = line_of(fn, "y = scaled(x)")
    second = line_of(fn, "jax.jit(outer)(y)")
    loop = line_of(fn, "# in a loop")
    called = [(node.op_type, metadata(node)["callsite"]) for node in nodes_of(model) if node.domain]
    inside = line_of(outer, "return")
    assert sorted(called) == sorted(
        [
            ("scaled", f"{local}:{first}"),
            ("outer", f"{local}:{second}"),
            ("scaled", f"{local}.<locals>.<lambda>:{loop}"),
            ("scaled", f"outer:{inside}"),
            ("scaled", f"outer:{inside}"),
        ]
    )
    bodies = {function.name: function.node for function in model.functions}
    line = line_of(scaled, "return")
    assert callsites(bodies["scaled"]) == [
        ("Constant", f"scaled:{line}"),
        ("Sin", f"scaled:{line}"),
        ("Mul", f"scaled:{line}"),
    ]
    assert {site for _, site in callsites(bodies["outer"])} == {f"outer:{inside}"}
    assert not any("fused_from" in metadata(node) for node in nodes_of(model))
    assert {
        metadata(node)["plugin"].partition(".")[0] for node in nodes_of(model) if node.domain
    } == {"OnnxFunctionPlugin"}


def test_the_traceback_of_a_function_does_not_contain_its_caller() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return scaled(x)

    model = bench.convert(fn, [X], provenance="full")
    (call,) = model.graph.node
    assert "test_functions.py" in metadata(call)["jax_traceback"]
    assert "(scaled)" not in metadata(call)["jax_traceback"]
    for node in model.functions[0].node:
        traceback = metadata(node)["jax_traceback"]
        assert "(scaled)" in traceback
        assert "fn)" not in traceback


def test_equal_bodies_of_two_lines_answer_for_both() -> None:
    def fn(x: jax.Array) -> jax.Array:
        first = onnx_function(lambda y: jnp.sin(y), name="wave")(x)
        return onnx_function(lambda y: jnp.sin(y), name="wave")(first)  # the second

    model = converted(fn, [X])
    assert calls(model) == ["wave", "wave"]
    ((node,),) = (function.node for function in model.functions)
    local = "test_equal_bodies_of_two_lines_answer_for_both.<locals>.fn.<locals>.<lambda>"
    assert metadata(node)["callsite"] == f"{local}:{line_of(fn, 'first =')}"
    assert metadata(node)["fused_from"] == f"{local}:{line_of(fn, '# the second')}"


def test_an_error_in_a_function_shows_the_line_and_the_way_to_it() -> None:
    @onnx_function
    def strange(x: jax.Array) -> jax.Array:
        return mystery.primitive.bind(x)  # here

    def fn(x: jax.Array) -> jax.Array:
        return onnx_function(lambda y: strange(y) + 1)(x)  # there

    with pytest.raises(jax2onnx.UnsupportedError) as raised:
        jax2onnx.to_onnx(jax.jit(fn), [X])
    text = str(raised.value)
    assert f"test_functions.py:{line_of(strange, '# here')}" in text
    place = f"python/tests/export/test_functions.py:{line_of(fn, '# there')}"
    assert text.count(f"called from {place}") == 2
    assert "through jit(fn) / mystery" in text


def test_numbers_of_calls_do_not_reach_the_record(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        path = tmp_path / name
        jax2onnx.to_onnx(lambda x: outer(x), [X], record_primitive_calls_file=path)
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    assert "onnx_function" in texts[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"namespace": ""}, "`namespace` is '', which is not a name"),
        ({"namespace": "ai.onnx.ml"}, "`namespace` is 'ai.onnx.ml', which belongs to ONNX itself"),
        ({"name": 3}, "`name` is 3, which is not a name"),
        ({"type": ""}, "`type` is '', which is not a name"),
    ],
)
def test_options_that_onnx_does_not_take_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=message):
        onnx_function(lambda x: x, **options)


def test_an_object_that_cannot_be_called_cannot_be_decorated() -> None:
    class Nothing:
        pass

    with pytest.raises(jax2onnx.ConfigError, match="`Nothing` has no `__call__`"):
        onnx_function(Nothing)
    with pytest.raises(jax2onnx.ConfigError, match="decorates functions and classes, not 3"):
        onnx_function(3)


def test_a_second_decorator_must_agree_with_the_first() -> None:
    @onnx_function
    def fn(x: Any) -> Any:
        return x

    assert onnx_function(fn) is fn
    with pytest.raises(jax2onnx.ConfigError, match="is already the ONNX function `custom::fn`"):
        onnx_function(fn, name="other")


def test_decorating_does_not_import_jax() -> None:
    code = (
        "import sys, jax2onnx\n"
        "@jax2onnx.onnx_function\n"
        "def fn(x): return x\n"
        "assert 'jax' not in sys.modules"
    )
    package = str(Path(jax2onnx.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": package}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


#: Operators that ONNX Runtime knows by their names in every domain.
KNOWN_TO_THE_RUNTIME = [
    "Add", "Constant", "Div", "Gather", "Mul", "Size", "Squeeze", "Sub", "Unsqueeze",
]  # fmt: skip

#: These, and others that passes and ONNX Runtime drop, move, fuse or fold.
OPERATORS = [
    *KNOWN_TO_THE_RUNTIME,
    "Cast", "Clip", "Concat", "Erf", "Exp", "Expand", "Gelu", "Gemm", "Identity",
    "LayerNormalization", "MatMul", "Not", "ReduceMax", "ReduceSum", "Relu", "Reshape", "Shape",
    "Sigmoid", "Slice", "Softmax", "Split", "Sqrt", "Tanh", "Transpose", "Where",
]  # fmt: skip


def around(called: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Call a function where passes look for operators that they know."""
    turned = called(x.T).T
    spread = called(jnp.broadcast_to(x[:1], x.shape))
    return jnp.where(turned > 0, turned, spread) + called(called(x * 1.5)) @ jnp.eye(3)


def names_of_two(title: str) -> set[str]:
    """What two functions of one title are called in the model."""
    if title in KNOWN_TO_THE_RUNTIME:
        return {f"{title}_2", f"{title}_3"}
    return {title, f"{title}_2"}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_called_as_an_operator_is_not_the_operator(name: str) -> None:
    def body(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 3 + 1

    body.__name__ = body.__qualname__ = name
    called = onnx_function(body)
    model = bench.check(lambda x: around(called, x), [X], rtol=1e-5, atol=1e-6)
    assert set(calls(model)) == names_of_two(name)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_class_called_as_an_operator_is_not_the_operator(name: str) -> None:
    def call(self: Any, x: jax.Array) -> jax.Array:
        return jnp.cos(x) * 2 - 1

    module = onnx_function(type(name, (nnx.Module,), {"__call__": call}))()
    model = bench.check(lambda x: around(module, x), [X], rtol=1e-5, atol=1e-6)
    assert set(calls(model)) == names_of_two(name)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2fnuz", "int4", "uint4"])
def test_an_unread_argument_may_have_a_type_that_the_runtime_rejects(dtype: str) -> None:
    @onnx_function
    def inner(narrow: jax.Array, x: jax.Array) -> jax.Array:
        return x + 1

    @onnx_function
    def unread(narrow: jax.Array, x: jax.Array) -> jax.Array:
        return inner(narrow, x) * 2

    model = bench.check(lambda x: unread(x.astype(dtype), x), [X])
    assert [len(function.input) for function in model.functions] == [1, 1]
