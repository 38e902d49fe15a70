"""Containers as inputs and outputs: the names are the paths."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx, struct

from jax2onnx import to_onnx
from testkit.bench import convert, expected, run

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
W = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.arange(3, dtype=np.float32)


def check(fn: Any, inputs: Any, names: list[str], results: list[str]) -> onnx.ModelProto:
    """Export, and compare the names, and the numbers in their order."""
    model = convert(fn, inputs)
    assert [value.name for value in model.graph.input] == names
    assert [value.name for value in model.graph.output] == results
    wanted = expected(lambda *args: fn(*args), inputs)
    for found, value in zip(run(model, inputs), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6)
    return model


class Pair(NamedTuple):
    left: Any
    right: Any


@struct.dataclass
class Batch:
    image: Any
    label: Any


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["scale"])
@dataclass
class Affine:
    w: Any
    b: Any
    scale: float = 2.0


def test_dictionaries_tuples_and_lists_give_their_paths() -> None:
    def fn(params: Any, batch: Any) -> Any:
        return batch[0] @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"] + batch[1][0]

    names = ["params.Dense_0.bias", "params.Dense_0.kernel", "batch.0", "batch.1.0"]
    check(fn, ({"Dense_0": {"kernel": W, "bias": B}}, [X, (B,)]), names, ["out_0"])


def test_classes_give_the_names_of_their_fields() -> None:
    check(
        lambda affine, pair: affine.scale * (pair.left @ affine.w + affine.b) + pair.right,
        (Affine(W, B), Pair(X, B)),
        ["affine.w", "affine.b", "pair.left", "pair.right"],
        ["out_0"],
    )
    check(
        lambda batch: batch.image @ batch.label,
        (Batch(X, W),),
        ["batch.image", "batch.label"],
        ["out_0"],
    )


def test_modules_give_the_names_of_their_parameters() -> None:
    linear = eqx.nn.Linear(4, 3, key=jax.random.key(0))
    names = ["model.weight", "model.bias", "x"]
    check(lambda model, x: jax.vmap(model)(x), (linear, X), names, ["out_0"])


def test_a_module_in_two_transformations_of_equinox_needs_no_name() -> None:
    """The name of such a function is an object of equinox, which `jax.make_jaxpr` refuses."""
    linear = eqx.nn.Linear(4, 3, key=jax.random.key(0))
    fn = eqx.filter_jit(eqx.filter_vmap(linear))
    model = to_onnx(fn, [("B", 4)])
    assert {each.name.partition("/")[0] for each in model.graph.initializer} >= {"weight", "bias"}
    (found,) = run(model, (X,))
    np.testing.assert_allclose(found, fn(X), rtol=1e-6)


def test_beside_arrays_an_empty_tuple_has_no_input() -> None:
    """`optax.MultiSteps` has one in its state. In a container of shapes, it is a number's shape."""
    state = {"skipped": (), "scale": B, "rest": []}
    check(
        lambda state, x: (state["scale"] * x, state),
        (state, X[:, :3]),
        ["state.scale", "x"],
        ["out_0", "out_1.scale"],
    )
    model = to_onnx(lambda pair: pair[0] * pair[1], [((), (2, 3))])
    assert [value.name for value in model.graph.input] == ["pair.0", "pair.1"]


@pytest.mark.skipif(not hasattr(nnx, "Pytree"), reason="nnx modules of old flax are not pytrees")
def test_modules_of_nnx_give_the_names_of_their_parameters() -> None:
    model = to_onnx(lambda net, x: net(x), [nnx.Linear(4, 3, rngs=nnx.Rngs(0)), X])
    assert [value.name for value in model.graph.input] == ["net.bias", "net.kernel", "x"]


@pytest.mark.parametrize(
    ("fn", "names"),
    [
        (lambda x: x + 1, ["out_0"]),
        (lambda x: (x + 1, x * 2), ["out_0", "out_1"]),
        (lambda x: [x + 1], ["out_0"]),
        (
            lambda x: {"logits": x + 1, "aux": (x * 2, {"loss": x * 3})},
            ["aux.0", "aux.1.loss", "logits"],
        ),
        (lambda x: Pair(x + 1, x * 2), ["left", "right"]),
        (lambda x: (Batch(x + 1, x * 2), x * 3), ["out_0.image", "out_0.label", "out_1"]),
        (lambda x: {0: x + 1, 1: x * 2}, ["out_0", "out_1"]),
        (lambda x: (x + 1, None, (x * 2, x * 3)), ["out_0", "out_2.0", "out_2.1"]),
        (lambda x: {"x": x + 1}, ["x_out"]),
    ],
)
def test_results_give_their_paths(fn: Any, names: list[str]) -> None:
    check(fn, (X,), ["x"], names)


def test_names_that_are_given_come_first() -> None:
    model = to_onnx(
        lambda p: {"a": p["u"] + 1, "b": p["v"] * 2},
        [{"u": (2,), "v": (3,)}],
        input_names=["left", "right"],
        output_names=["sum", "product"],
    )
    assert [value.name for value in model.graph.input] == ["left", "right"]
    assert [value.name for value in model.graph.output] == ["sum", "product"]


def affine(w: Any, x: Any, b: Any, *, scale: float = 1.0) -> Any:
    return (x @ w + b) * scale


@pytest.mark.parametrize(
    ("fn", "inputs", "names"),
    [
        (functools.partial(affine, W), (X, B), ["x", "b"]),
        (functools.partial(affine, W, scale=3.0), (X, B), ["x", "b"]),
        (functools.partial(affine, scale=3.0), (W, X, B), ["w", "x", "b"]),
        (functools.partial(functools.partial(affine, W), X), (B,), ["b"]),
        (lambda *args: affine(*args), (W, X, B), ["args.0", "args.1", "args.2"]),
        (lambda w, *rest: affine(w, *rest), (W, X, B), ["w", "rest.0", "rest.1"]),
        (jax.jit(affine), (W, X, B), ["w", "x", "b"]),
    ],
)
def test_a_bound_argument_is_not_an_input(fn: Any, inputs: Any, names: list[str]) -> None:
    check(fn, inputs, names, ["out_0"])


def test_keyword_inputs_come_after_containers() -> None:
    model = to_onnx(functools.partial(affine, b=B), [W, X], {"scale": 2.0})
    assert [value.name for value in model.graph.input] == ["w", "x", "scale"]
    (found,) = run(model, (W, X, np.float32(2)))
    np.testing.assert_allclose(found, affine(W, X, B, scale=2.0), rtol=1e-6)


def test_containers_can_contain_symbolic_sizes() -> None:
    net = linen.Dense(3)
    params = net.init(jax.random.key(0), X)
    shapes = jax.tree.map(lambda leaf: leaf.shape, params)
    model = to_onnx(
        lambda variables, batch: net.apply(variables, batch["x"]), [shapes, {"x": ("B", 4)}]
    )
    names = ["variables.params.bias", "variables.params.kernel", "batch.x"]
    assert [value.name for value in model.graph.input] == names
    assert model.graph.input[2].type.tensor_type.shape.dim[0].dim_param == "B"
    (found,) = run(model, (params, {"x": X}))
    np.testing.assert_allclose(found, net.apply(params, X), rtol=1e-6, atol=1e-6)


def test_an_empty_container_is_not_an_input() -> None:
    model = check(lambda x, state: (jnp.sin(x), state), (X, {}), ["x"], ["out_0"])
    assert len(model.graph.output) == 1
