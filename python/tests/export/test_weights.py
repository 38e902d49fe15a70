"""Weights have the path of the parameter, and lie where the user wants them."""

from __future__ import annotations

import functools
import os
import re
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import linen, nnx
from flax.core import freeze

import jax2onnx
from jax2onnx import ConfigError, to_onnx
from jax2onnx._tracing import weights as tracing
from testkit.bench import convert, expected, run

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The initializers that are weights, and not numbers of the code."""
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert len(arrays) == len(model.graph.initializer)
    return {name: array for name, array in arrays.items() if ".const" not in name}


def check(fn: Any, paths: dict[str, Any], inputs: Any = (X,)) -> onnx.ModelProto:
    """Export, and compare the weights by name and the results by number."""
    model = convert(fn, inputs)
    found = weights(model)
    assert sorted(found) == sorted(paths)
    for name, array in paths.items():
        np.testing.assert_array_equal(found[name], np.asarray(array), err_msg=name)
    for actual, wanted in zip(
        run(model, inputs), expected(lambda *args: fn(*args), inputs), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
    return model


def array(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.up = nnx.Linear(4, 8, rngs=rngs)
        self.down = nnx.Linear(8, 4, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.down(nnx.relu(self.up(self.norm(x))))


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.scale = nnx.Param(jnp.asarray(2.5))

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return x * self.scale


def nnx_paths(net: Net) -> dict[str, Any]:
    paths = {"scale": net.scale[...]}
    for index, block in enumerate(net.blocks):
        paths |= {
            f"blocks.{index}.norm.scale": block.norm.scale[...],
            f"blocks.{index}.norm.bias": block.norm.bias[...],
            f"blocks.{index}.up.kernel": block.up.kernel[...],
            f"blocks.{index}.up.bias": block.up.bias[...],
            f"blocks.{index}.down.kernel": block.down.kernel[...],
        }
    return paths


NET = Net(nnx.Rngs(0))


@pytest.mark.parametrize(
    "fn",
    [
        NET,
        NET.__call__,
        lambda x: NET(x),
        functools.partial(lambda net, x: net(x), NET),
        functools.partial(lambda x, net: net(x), net=NET),
        lambda x, net=NET: net(x),
        jax.jit(lambda x: NET(x)),
        jax.vmap(NET),
        nnx.jit(lambda x: NET(x)),
        nnx.Sequential(NET).layers[0],
    ],
)
def test_weights_of_nnx_have_the_path_of_attributes(fn: Any) -> None:
    check(fn, nnx_paths(NET))


def test_a_module_that_is_put_together_in_the_function_has_the_paths_of_its_state() -> None:
    definition, state = nnx.split(NET)
    check(lambda x: nnx.merge(definition, state)(x), nnx_paths(NET))


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return linen.Dense(3, name="out")(linen.relu(linen.Dense(5)(x)))


@pytest.mark.parametrize("kind", ["function", "partial", "frozen", "bound", "numpy", "inside"])
def test_weights_of_linen_have_the_path_in_the_tree(kind: str) -> None:
    net = Dense()
    variables = net.init(jax.random.key(0), X)
    paths = {
        f"params.{layer}.{name}": variables["params"][layer][name]
        for layer in ("Dense_0", "out")
        for name in ("kernel", "bias")
    }
    frozen, arrays = freeze(variables), jax.tree.map(np.asarray, variables)
    functions = {
        "function": lambda x: net.apply(variables, x),
        "partial": functools.partial(net.apply, variables),
        "frozen": lambda x: net.apply(frozen, x),
        "bound": net.bind(variables),
        "numpy": lambda x: net.apply(arrays, x),
        "inside": jax.jit(lambda x: net.apply(variables, x)),
    }
    check(functions[kind], paths)


def test_weights_of_haiku_keep_their_keys() -> None:
    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([5, 3])(x)))
    params = net.init(jax.random.key(0), X)
    paths = {
        f"mlp/~/linear_{index}.{name}": params[f"mlp/~/linear_{index}"][name]
        for index in range(2)
        for name in ("w", "b")
    }
    check(lambda x: net.apply(params, x), paths)
    check(functools.partial(net.apply, params), paths)


@pytest.mark.parametrize("wrap", [jax.vmap, lambda net: lambda x: eqx.filter_vmap(net)(x)])
def test_weights_of_equinox_have_the_path_of_fields(wrap: Any) -> None:
    net = eqx.nn.MLP(4, 3, 5, 1, key=jax.random.key(0))
    paths = {
        f"layers.{index}.{name}": getattr(net.layers[index], name)
        for index in range(2)
        for name in ("weight", "bias")
    }
    model = convert(wrap(net), (X,))
    found = weights(model)
    # Products take the weights turned, and small ones are turned in the file.
    assert {name.partition("/")[0] for name in found} == set(paths)
    for name, turned in found.items():
        path, _, op = name.partition("/")
        np.testing.assert_array_equal(turned.T if op == "Transpose" else turned, paths[path])


class Params(NamedTuple):
    w: Any
    b: Any


class Plain:
    __slots__ = ("params", "table")

    def __init__(self) -> None:
        self.params = Params(array(4, 4), array(4, seed=1))
        self.table = {"shift": array(4, seed=2)}

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ self.params.w + self.params.b) - self.table["shift"]


def test_an_object_of_any_class_is_looked_into() -> None:
    net = Plain()
    paths = {"params.w": net.params.w, "params.b": net.params.b, "table.shift": net.table["shift"]}
    check(net, paths)
    check(lambda x: net(x), paths)


TABLE = np.arange(16, dtype=np.float32).reshape(4, 4)


def helper(x: jax.Array) -> jax.Array:
    return x @ TABLE


def test_a_global_that_the_code_names_has_its_own_name() -> None:
    check(lambda x: helper(x), {"TABLE": TABLE})
    check(jax.jit(helper), {"TABLE": TABLE})


def test_a_list_keeps_the_name_of_its_variable() -> None:
    layers = [{"w": array(4, 4, seed=seed)} for seed in range(2)]
    paths = {f"layers.{index}.w": layers[index]["w"] for index in range(2)}
    check(lambda x: x @ layers[0]["w"] @ layers[1]["w"], paths)


def test_variables_are_named_where_their_paths_are_the_same() -> None:
    encoder, decoder, bias = {"w": array(4, 4)}, {"w": array(4, 4, seed=1)}, {"b": array(4)}
    paths = {"encoder.w": encoder["w"], "decoder.w": decoder["w"], "b": bias["b"]}
    check(lambda x: x @ encoder["w"] @ decoder["w"] + bias["b"], paths)


def test_a_weight_that_is_held_twice_has_its_first_path() -> None:
    class Tied(nnx.Module):
        def __init__(self) -> None:
            self.embed = nnx.Embed(6, 4, rngs=nnx.Rngs(0))
            self.head = self.embed

        def __call__(self, ids: jax.Array) -> jax.Array:
            return self.head.attend(self.embed(ids))

    net = Tied()
    ids = np.array([0, 5, 2], np.int32)
    names = {tuple(sorted(weights(convert(net, (ids,))))) for _ in range(3)}
    assert names == {("embed.embedding",)} or names == {
        ("embed.embedding", "embed.embedding/Transpose")
    }


def test_equal_weights_are_one_and_small_ones_keep_their_names() -> None:
    large, copy = array(64, 64), jnp.array(array(64, 64), copy=True)
    small = {"a": jnp.zeros(64), "b": jnp.zeros(64)}
    x = np.ones((2, 64), np.float32)
    model = convert(lambda x: (x @ large + small["a"]) @ copy + small["b"], (x,))
    assert sorted(weights(model)) == ["a", "b", "large"]


def test_a_number_in_the_code_is_not_taken_for_a_weight() -> None:
    scale = jnp.asarray(2.0)
    model = convert(lambda x: x * scale + 2.0, (X,))
    names = sorted(tensor.name for tensor in model.graph.initializer)
    assert names == ["add.const", "scale"]


def test_a_weight_that_was_changed_says_how() -> None:
    kernel = array(3, 3, 2, 4)
    image = np.ones((1, 5, 5, 2), np.float32)

    def convolve(x: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dims)

    check(convolve, {"kernel/Transpose": np.transpose(kernel, (3, 2, 0, 1))}, (image,))


def test_weights_inside_of_loops_branches_and_helpers_keep_their_names() -> None:
    layers = {"w": array(3, 4, 4), "b": array(3, 4, seed=1)}
    shared = {"shift": array(4, seed=2)}
    inner = jax.jit(lambda x: x + shared["shift"])

    def net(x: jax.Array) -> jax.Array:
        def step(x: jax.Array, layer: Any) -> tuple[jax.Array, None]:
            return inner(jnp.tanh(x @ layer["w"] + layer["b"])), None

        x, _ = jax.lax.scan(step, x, layers)
        return jax.lax.cond(x[0, 0] > 0, inner, lambda x: inner(x) * 2, x)

    check(net, {"w": layers["w"], "b": layers["b"], "shift": shared["shift"]})


def test_a_numpy_view_is_not_confused_with_its_base() -> None:
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    model = convert(lambda x: x @ square.T, (X,))
    assert list(weights(model)) == []
    row = square[1]
    check(lambda x: x @ square + row, {"square": square, "row": row})


def test_every_weight_has_a_name_of_its_own() -> None:
    x = {"x": array(4, 4)}
    model = check(lambda x, y=x: x @ y["x"], {"x_1": x["x"]})
    assert model.graph.input[0].name == "x"


# Where the weights lie.


def export(path: Path, fn: Any = None, **options: Any) -> onnx.ModelProto:
    weight = array(512, 512)
    bias = array(4, seed=1)[0]
    fn = fn or (lambda x: x @ weight + bias)
    to_onnx(fn, [("B", 512)], return_mode="file", output_path=path, **options)
    x = np.ones((1, 512), np.float32)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(found, x @ np.asarray(weight) + float(bias), rtol=1e-4, atol=1e-4)
    return onnx.load(path, load_external_data=False)


def test_external_weights_lie_aligned_in_one_file_and_small_ones_in_the_model(
    tmp_path: Path,
) -> None:
    model = export(tmp_path / "net.onnx", weights="external")
    name, data = sorted(os.listdir(tmp_path), key=len)
    assert name == "net.onnx"
    assert re.fullmatch(r"net\.onnx\.[0-9a-f]{16}\.data", data)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    places = {entry.key: entry.value for entry in tensors["weight"].external_data}
    assert places["location"] == data
    assert int(places["offset"]) % 4096 == 0
    assert int(places["length"]) == 4 * 512 * 512
    assert tensors["bias"].data_location == onnx.TensorProto.DEFAULT
    assert (tmp_path / "net.onnx").stat().st_size < 4096


@pytest.mark.parametrize(
    "options", [{"weights": "inline"}, {"weights": "auto"}, {"export_mode": "web"}, {}]
)
def test_weights_are_in_the_model_unless_they_are_many(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    export(tmp_path / "net.onnx", **options)
    assert os.listdir(tmp_path) == ["net.onnx"]


@pytest.mark.parametrize(
    "option", ["source_map", "record_primitive_calls_file", "explain_passes", "output_path"]
)
def test_an_output_does_not_replace_weights(tmp_path: Path, option: str) -> None:
    path = tmp_path / "net.onnx"
    export(path, weights="external")
    (data,) = tmp_path.glob("*.data")
    before = data.read_bytes()
    options = {"output_path": path, option: data}
    with pytest.raises(ConfigError, match=r"contains the weights of .*net\.onnx`"):
        to_onnx(jnp.sin, [(2,)], return_mode="file", **options)
    assert data.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == sorted([path, data])


def test_no_file_is_written_beside_a_model_without_large_weights(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    to_onnx(lambda x: x + 1, [(2,)], return_mode="file", output_path=path, weights="external")
    assert os.listdir(tmp_path) == ["net.onnx"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "external"}, "use `return_mode='file'`, not 'proto'"),
        ({"weights": "external", "return_mode": "ir"}, "not 'ir'"),
        (
            {
                "weights": "external",
                "export_mode": "web",
                "return_mode": "file",
                "output_path": "net.onnx",
            },
            "`export_mode='web'` writes one file",
        ),
        ({"weights": "beside"}, "`beside` is not a place for weights: use inline, external, auto"),
    ],
)
def test_weights_that_cannot_lie_there_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        to_onnx(lambda x: x, [(2,)], **options)


def test_a_model_that_is_too_large_for_protobuf_is_refused_with_a_hint(tmp_path: Path) -> None:
    # The pages of these zeros are never touched.
    weight = np.zeros((1 << 15, (1 << 14) + 1), np.float32)

    def fn(x: jax.Array) -> jax.Array:
        return x @ weight

    with pytest.raises(ConfigError, match="can hold only 2 GiB: use `return_mode='file'`"):
        to_onnx(fn, [(1, 1 << 15)])
    path = tmp_path / "net.onnx"
    for options in ({"weights": "inline"}, {"export_mode": "web"}):
        with pytest.raises(ConfigError, match="use `weights='external'` or 'auto'"):
            to_onnx(fn, [(1, 1 << 15)], return_mode="file", output_path=path, **options)
    assert os.listdir(tmp_path) == []


WIDE = np.random.default_rng(0).normal(size=(1000, 700)).astype(np.float32)
WEIGHT = jnp.asarray(WIDE)


@pytest.mark.parametrize("place", ["inline", "external"])
def test_a_large_weight_is_transposed_when_it_is_written(tmp_path: Path, place: str) -> None:
    path = tmp_path / "net.onnx"
    inputs = [np.ones((2, 700), np.float32)]
    to_onnx(
        lambda x: x @ WEIGHT.T, inputs, return_mode="file", output_path=str(path), weights=place
    )
    (written,) = onnx.load(path).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(written), WIDE.T)
    (in_memory,) = to_onnx(lambda x: x @ WEIGHT.T, inputs).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(in_memory), WIDE.T)


def test_a_large_weight_is_scaled_and_rounded_when_it_is_written() -> None:
    scale = np.linspace(0.5, 2, 1000, dtype=np.float32)
    model = convert(lambda x: (x @ WEIGHT.T) * scale, [np.ones((2, 700), np.float32)])
    (scaled,) = weights(model).values()
    wanted = (WIDE.T.astype(np.float64) * scale).astype(np.float32)
    np.testing.assert_array_equal(scaled, wanted)
    half = convert(lambda x: x @ WEIGHT.T.astype(jnp.float16), [np.ones((2, 700), np.float16)])
    (rounded,) = weights(half).values()
    np.testing.assert_array_equal(rounded, WIDE.T.astype(np.float16))


@pytest.mark.parametrize("place", [None, "inline", "external"])
def test_a_large_weight_is_not_scaled_if_a_product_would_lose_digits(
    tmp_path: Path, place: Any
) -> None:
    weight = np.asarray(array(64, 32)).copy()
    weight[:, 7] = 3e-38
    factors = np.full(32, 1e-5, np.float32)
    x = np.full((2, 64), 1e15, np.float32)

    def fn(x: jax.Array) -> jax.Array:
        return (x @ weight) * factors

    if place is None:
        model = convert(fn, (x,))
    else:
        path = tmp_path / "model.onnx"
        to_onnx(fn, [x], return_mode="file", output_path=path, weights=place)
        assert len(os.listdir(tmp_path)) == (2 if place == "external" else 1)
        model = onnx.load(path)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Mul"]
    (actual,), (wanted,) = run(model, (x,)), expected(fn, (x,))
    assert wanted[0, 7] != 0
    np.testing.assert_allclose(actual, wanted, rtol=1e-5)


def scaled_embedding(table: jax.Array, i: jax.Array) -> jax.Array:
    return (table[i] * 5.7) @ table.T


def normalized(table: jax.Array, i: jax.Array) -> jax.Array:
    return table[i] @ (table / jnp.sqrt((table * table).sum(0) + 1e-5)).T


def scaled_in_a_loop(table: jax.Array, i: jax.Array) -> jax.Array:
    def step(h: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.tanh(h @ table.T * 0.01)[:, :48], None

    return jax.lax.scan(step, table[i], None, length=20)[0]


def looked_up_in_a_loop(table: jax.Array, i: jax.Array) -> jax.Array:
    def step(h: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        scores = h @ (table.T * 0.3)
        return table[jnp.argmax(scores, -1)], scores

    return jax.lax.scan(step, jnp.ones((2, 48)) * i[0], None, length=20)[1]


def scaled_in_two_loops(table: jax.Array, i: jax.Array) -> jax.Array:
    def step(h: jax.Array, scale: float) -> tuple[jax.Array, None]:
        return jnp.tanh(h @ table.T * scale)[:, :48], None

    first, _ = jax.lax.scan(lambda h, _: step(h, 0.01), jnp.ones((2, 48)) * i[0], length=20)
    return jax.lax.scan(lambda h, _: step(h, 0.02), first, length=20)[0]


TWICE = [
    scaled_embedding,
    normalized,
    scaled_in_a_loop,
    looked_up_in_a_loop,
    scaled_in_two_loops,
]


@pytest.mark.parametrize("fn", TWICE)
def test_a_weight_that_is_also_scaled_is_stored_once(fn: Any) -> None:
    table, inputs = array(90, 48), [np.array([3, 5, 89], np.int32)]
    model = convert(lambda i: fn(table, i), inputs)
    (stored,) = (array for array in weights(model).values() if array.size > 1000)
    np.testing.assert_array_equal(stored, table if stored.shape == table.shape else table.T)
    (found,), (wanted,) = run(model, inputs), expected(lambda i: fn(table, i), inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_parts_of_a_weight_are_scaled_each() -> None:
    table, x = array(48, 144), np.asarray(array(5, 48, seed=1))

    def fn(x: jax.Array) -> jax.Array:
        q, k = x @ table[:, :48] * 0.25, x @ table[:, 48:96]
        return jnp.tanh(q) + jnp.tanh(k) + x @ table[:, 96:]

    model = convert(fn, [x])
    assert "Mul" not in [node.op_type for node in model.graph.node]
    assert sum(array.nbytes for array in weights(model).values()) == table.nbytes
    (found,), (wanted,) = run(model, [x]), expected(fn, [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_tied_embedding_is_stored_once() -> None:
    def fn(tokens: jax.Array) -> jax.Array:
        return jnp.tanh(WEIGHT[tokens]) @ WEIGHT.T

    inputs = [np.array([[3, 1, 4]], np.int32)]
    model = convert(fn, inputs)
    (stored,) = (array for array in weights(model).values() if array.size > 1000)
    np.testing.assert_array_equal(stored, WIDE)
    assert [node.op_type for node in model.graph.node].count("Transpose") == 1
    (found,), (wanted,) = run(model, inputs), expected(fn, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


class KerasVariable:
    """Stands in for the class of Keras, which is not installed here."""

    def __init__(self, path: str, value: jax.Array) -> None:
        self._path = path
        self._value = value

    @property
    def path(self) -> str:
        return self._path


def test_the_weight_of_a_keras_variable_is_called_as_its_path_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keras = types.ModuleType("keras")
    monkeypatch.setattr(keras, "Variable", KerasVariable, raising=False)
    monkeypatch.setitem(sys.modules, "keras", keras)
    tracker = {
        "config": [
            KerasVariable("functional/dense/kernel", array(4, 3)),
            KerasVariable("functional/dense/bias", array(3, seed=1)),
        ]
    }

    def fn(x: jax.Array) -> jax.Array:
        kernel, bias = tracker["config"]
        return jnp.tanh(x @ kernel._value + bias._value)

    kernel, bias = tracker["config"]
    check(fn, {kernel.path: kernel._value, bias.path: bias._value})


def test_exports_that_name_weights_leave_the_function_as_it_was() -> None:
    before = jax.tree.leaves(nnx.state(NET))
    jax2onnx.to_onnx(NET, [(2, 4)])
    after = jax.tree.leaves(nnx.state(NET))
    assert all(one is other for one, other in zip(before, after, strict=True))


def test_the_raw_memory_of_a_compiled_class_is_not_read() -> None:
    # Its descriptors of `__weakref__` look like slots, and end the process when they are read.
    compiled = pytest.importorskip("mypy.types").HasRecursiveType
    assert "__weakref__" in vars(compiled)
    assert tracing.attributes(compiled()) == {}
