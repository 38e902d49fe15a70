"""The scopes of nodes: modules of every library, transformations, and the passes of `grad`."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx

import jax2onnx
from testkit import bench
from testkit.accuracy import metadata, nodes_of, table_of

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def named(fn: Callable[..., Any], *inputs: Any) -> list[tuple[str, str]]:
    """The name of each node, and its whole scope from the table: `transpose/jvp/head`."""
    model = jax2onnx.to_onnx(fn, list(inputs), provenance="indexed")
    table = table_of(model)
    origins = [(node.name, table[int(metadata(node)["origin"])]) for node in nodes_of(model)]
    return [(name, "/".join(scope.name for scope in each.site.scopes)) for name, each in origins]


def names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in nodes_of(model)]


def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    with jax.named_scope("head"):
        y = jnp.exp(x @ w)
    return jnp.sum(y)


def test_the_forward_and_backward_passes_have_different_scopes() -> None:
    w = np.ones((3, 2), np.float32)
    fn = jax.value_and_grad(loss)
    assert named(fn, w, X) == [
        ("head/dot_general", "jvp/head"),
        ("head/exp", "jvp/head"),
        ("reduce_sum", "jvp"),
        ("backward/head/dot_general", "transpose/jvp/head"),
    ]
    found = bench.run(jax2onnx.to_onnx(fn, [w, X]), [w, X])
    for one, want in zip(found, bench.expected(fn, [w, X]), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5)


def test_what_is_computed_again_backward_says_so() -> None:
    block = jax.checkpoint(lambda x: jnp.sin(jnp.exp(x)))
    found = named(jax.grad(lambda x: jnp.sum(block(x))), (3,))
    assert [name for name, _ in found][:2] == [
        "backward/rematted_computation/exp",
        "backward/rematted_computation/cos",
    ]
    assert all(path.startswith("transpose/jvp/") for _, path in found)


def test_grad_inside_of_a_scope_and_of_grad() -> None:
    def slope(x: jax.Array) -> jax.Array:
        with jax.named_scope("outer"):
            return jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 3))(x)

    assert {name.rpartition("/")[0] for name, _ in named(slope, (3,))} == {
        "outer",
        "outer/backward",
    }
    twice = named(jax.grad(jax.grad(jnp.sin)), ())
    assert [name for name, _ in twice] == ["sin", "backward/mul"]


def test_the_backward_pass_of_a_module_has_its_path() -> None:
    class Net(nnx.Module):
        def __init__(self) -> None:
            self.linear = nnx.Linear(3, 3, use_bias=False, rngs=nnx.Rngs(0))

        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.sum(jnp.exp(self.linear(x)))

    assert named(jax.grad(Net()), X) == [
        ("Net/linear/dot_general", "jvp/Net/linear"),
        ("Net/exp", "jvp/Net"),
        ("backward/Net/linear/dot_general", "transpose/jvp/Net/linear"),
    ]


def test_transformations_are_in_the_table_and_not_in_the_name() -> None:
    @jax.jit
    def row(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            with jax.named_scope("step"):
                return jnp.sin(carry) + x, None

        return jax.lax.scan(step, jnp.float32(0), xs)

    found = dict(named(jax.vmap(row), (4, 99)))
    assert found["step/sin"] == "vmap/jit(row)/scan/step"
    assert found["scan"] == "vmap/jit(row)"


def test_a_loop_and_a_branch_are_in_the_table() -> None:
    def fn(x: jax.Array) -> jax.Array:
        x = jax.lax.while_loop(lambda x: jnp.sum(x) < 9.0, lambda x: jnp.exp(x), x)
        return jax.lax.cond(x[0] > 0, jnp.cos, jnp.sin, x)

    paths = dict(named(fn, (2,)))
    assert paths["exp"] == "while/body"
    assert paths["lt_1"] == "while/cond"
    assert paths["cos"] == "cond/branch_1"
    assert paths["sin"] == "cond/branch_0"


def test_modules_of_haiku_have_their_path() -> None:
    class Block(hk.Module):
        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.tanh(hk.Linear(3, with_bias=False, name="proj")(x))

    class Net(hk.Module):
        def __call__(self, x: jax.Array) -> jax.Array:
            return Block(name="last")(Block()(x))

    net = hk.without_apply_rng(hk.transform(lambda x: Net()(x)))
    params = net.init(jax.random.PRNGKey(0), X)
    assert names(jax2onnx.to_onnx(lambda x: net.apply(params, x), [X])) == [
        "net/block/proj/dot_general",
        "net/block/tanh",
        "net/last/proj/dot_general",
        "net/last/tanh",
    ]


def test_modules_of_linen_have_their_path_through_its_transformations() -> None:
    class Layer(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array, _: None = None) -> tuple[jax.Array, None]:
            return jnp.tanh(linen.Dense(3, use_bias=False, name="proj")(x)), None

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            scanned = linen.scan(
                Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=2
            )
            x, _ = scanned(name="stack")(x, None)
            x, _ = linen.remat(Layer)(name="again")(x)
            return x

    net = Net()
    variables = net.init(jax.random.key(0), X)
    found = dict(named(lambda x: net.apply(variables, x), X))
    assert found["Net/stack/proj/dot_general"] == "Net/scan/stack/proj"
    assert found["Net/again/proj/dot_general"] == "Net/checkpoint/again/proj"
    assert found["Net/stack/tanh"] == "Net/scan/stack"


class Block(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.linear(x))


class Net(eqx.Module):
    blocks: list[Block]
    scale: float

    def __init__(self) -> None:
        keys = jax.random.split(jax.random.key(0), 2)
        self.blocks = [Block(eqx.nn.Linear(3, 3, use_bias=False, key=key)) for key in keys]
        self.scale = 2.0

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return x * self.scale


#: Equinox opens a scope for each layer of its own.
WHOLE = [
    *(
        f"Net/blocks.{index}/{path}"
        for index in range(2)
        for path in ("linear/eqx.nn.Linear/dot_general", "tanh")
    ),
    "Net/mul",
]


@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: lambda x: net(x), jax.vmap])
def test_modules_of_equinox_have_the_path_of_fields(wrap: Any) -> None:
    fn = wrap(Net())
    x = X if wrap is jax.vmap else X[0]
    model = jax2onnx.to_onnx(fn, [x])
    # The transposing of `vmap` belongs to no module.
    assert {name.partition("_1")[0] for name in names(model)} - {"transpose"} == set(WHOLE)
    (found,), (want,) = bench.run(model, [x]), bench.expected(lambda x: fn(x), [x])
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_equinox_takes_modules_apart_and_their_paths_with_them() -> None:
    """A module that went through its leaves is another object, of which nothing is known."""
    model = jax2onnx.to_onnx(eqx.filter_jit(Net()), [(3,)])
    assert set(names(model)) == {
        "eqx.nn.Linear/dot_general",
        "eqx.nn.Linear/dot_general_1",
        "tanh",
        "tanh_1",
        "mul",
    }


def test_all_but_the_names_of_an_equinox_model_is_the_same_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Net()
    with_names = jax2onnx.to_onnx(net, [(3,)], provenance="full")
    monkeypatch.setenv("JAX2ONNX_MODULE_SCOPES", "off")
    without = jax2onnx.to_onnx(net, [(3,)], provenance="full")
    assert set(names(without)).isdisjoint(WHOLE)
    for node, other in zip(with_names.graph.node, without.graph.node, strict=True):
        assert node.op_type == other.op_type
        assert metadata(node) == {**metadata(other), "stacktrace": metadata(node)["stacktrace"]}


def test_the_modules_of_equinox_stay_as_they_are() -> None:
    net = Net()
    before = jax.tree.structure(net), dict(vars(net)), dict(vars(Net))
    jax2onnx.to_onnx(net, [(3,)])
    assert (jax.tree.structure(net), dict(vars(net)), dict(vars(Net))) == before
    assert isinstance(net.blocks[0], Block)


def test_an_equinox_model_that_is_compared_by_structure_is_the_users_own() -> None:
    original, hidden = Net(), types.SimpleNamespace(net=Net())

    def fn(x: jax.Array) -> jax.Array:
        is_same = jax.tree.structure(original) == jax.tree.structure(hidden.net)
        return original(x) if is_same else x

    assert names(jax2onnx.to_onnx(fn, [(3,)])) == WHOLE


def test_equinox_layers_with_state_compute_the_same() -> None:
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, "batch", mode="batch")
    norm = eqx.nn.inference_mode(norm)
    fn = jax.vmap(lambda x: norm(x, state)[0], axis_name="batch")
    (found,), (want,) = bench.run(jax2onnx.to_onnx(fn, [X]), [X]), bench.expected(fn, [X])
    np.testing.assert_allclose(found, want, rtol=1e-5)
