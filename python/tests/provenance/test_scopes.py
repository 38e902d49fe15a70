"""Nodes of nnx models are named by the path of their module, and nothing else changes."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

from jax2onnx import to_onnx
from testkit.accuracy import metadata
from testkit.bench import convert, expected, run

X = np.linspace(-1, 1, 2 * 5 * 8, dtype=np.float32).reshape(2, 5, 8)


class Mlp(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layers = nnx.Sequential(
            nnx.Linear(8, 16, rngs=rngs), nnx.gelu, nnx.Linear(16, 8, rngs=rngs)
        )
        self.dropout = nnx.Dropout(0.5, deterministic=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dropout(self.layers(x))


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attn = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.mlp = Mlp(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.mlp(self.norm(self.attn(x)))


class Transformer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.heads = nnx.Dict({"main": nnx.Linear(8, 3, rngs=rngs)})
        self._scale = nnx.LayerNorm(8, rngs=rngs)

    def encode(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return self._scale(x)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.heads["main"](self.encode(x)) + 1.0


MODEL = Transformer(nnx.Rngs(0))


def names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


def scopes(model: onnx.ModelProto) -> set[str]:
    """The scopes that nodes stand in, without those that JAX's own functions open."""
    found = (name.rpartition("/")[0] for name in names(model))
    return {scope.partition("/B")[0] for scope in found}


def forward(x: jax.Array) -> jax.Array:
    return MODEL(x)


def by_helper(x: jax.Array) -> jax.Array:
    return forward(x)


WHOLE = {
    "Transformer",
    *(
        f"Transformer/blocks.{index}{path}"
        for index in range(2)
        for path in (
            "",
            "/attn",
            "/attn/query",
            "/attn/key",
            "/attn/value",
            "/attn/out",
            "/norm",
            "/mlp/layers",
            "/mlp/layers/layers.0",
            "/mlp/layers/layers.2",
        )
    ),
    "Transformer/heads.main",
    "Transformer/_scale",
}


@pytest.mark.parametrize(
    "fn",
    [
        MODEL,
        MODEL.__call__,
        forward,
        by_helper,
        lambda x: MODEL(x),
        functools.partial(lambda net, x: net(x), MODEL),
        functools.partial(lambda x, net: net(x), net=MODEL),
        lambda x, net=MODEL: net(x),
        jax.vmap(MODEL),
        jax.checkpoint(lambda x: MODEL(x)),
    ],
)
def test_a_node_has_the_path_of_its_module(fn: Any) -> None:
    model = convert(fn, (X,))
    assert scopes(model) == WHOLE
    (found,), (wanted,) = run(model, (X,)), expected(lambda x: fn(x), (X,))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_name_is_the_scope_and_the_primitive() -> None:
    model = to_onnx(MODEL, [X])
    assert "Transformer/blocks.1/mlp/layers/layers.0/dot_general" in names(model)
    assert "Transformer/add" in names(model)


def test_another_method_is_named_too() -> None:
    without_head = WHOLE - {"Transformer/heads.main", "Transformer"}
    assert scopes(to_onnx(MODEL.encode, [X])) == without_head
    assert scopes(to_onnx(lambda x: MODEL.encode(x), [X])) == without_head
    embed = nnx.Embed(8, 8, rngs=nnx.Rngs(0))
    assert scopes(to_onnx(lambda x: embed.attend(x), [X])) == {"Embed"}


def test_a_part_that_is_called_from_outside_has_its_whole_path() -> None:
    model = to_onnx(lambda x: jnp.tanh(MODEL.blocks[1].mlp(x)), [X])
    assert scopes(model) == {
        "",
        *(f"Transformer/blocks.1/mlp/layers{path}" for path in ("", "/layers.0", "/layers.2")),
    }


def all_but_names(model: onnx.ModelProto) -> list[Any]:
    """What each node does and where it comes from, by whatever name."""
    kept = []
    for node in model.graph.node:
        about = {key: value for key, value in metadata(node).items() if key != "stacktrace"}
        kept.append((node.op_type, len(node.input), about))
    return kept


def test_all_but_the_names_is_the_same_without(monkeypatch: pytest.MonkeyPatch) -> None:
    named = to_onnx(MODEL, [X], provenance="full")
    monkeypatch.setenv("JAX2ONNX_MODULE_SCOPES", "off")
    plain = to_onnx(MODEL, [X], provenance="full")
    assert all_but_names(named) == all_but_names(plain)
    assert any("blocks" in name for name in names(named))
    assert not any("blocks" in name for name in names(plain))
    for found, wanted in zip(run(named, (X,)), run(plain, (X,)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_users_objects_and_classes_stay_as_they_are() -> None:
    model = Transformer(nnx.Rngs(0))
    before = {path: (type(node), dict(vars(node))) for path, node in modules(model)}
    to_onnx(model, [X])
    after = {path: (type(node), dict(vars(node))) for path, node in modules(model)}
    assert before.keys() == after.keys()
    for path, (kind, attributes) in before.items():
        assert after[path][0] is kind
        assert all(after[path][1][name] is value for name, value in attributes.items())
    assert Transformer.__call__.__qualname__ == "Transformer.__call__"


def modules(model: nnx.Module) -> Iterator[tuple[Any, Any]]:
    return ((path, node) for path, node in nnx.iter_graph(model) if isinstance(node, nnx.Module))


class Shared(nnx.Module):
    """One layer under two names, and one in two modules under the same."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(8, 8, rngs=rngs)
        self.second = self.first
        self.left = Holder(nnx.Linear(8, 8, rngs=rngs))
        self.right = Holder(self.left.inner)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.right(self.left(self.second(x)))


class Holder(nnx.Module):
    def __init__(self, inner: nnx.Module) -> None:
        self.inner = inner

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.sin(self.inner(x))


def test_a_shared_module_has_the_path_it_is_called_by_or_none() -> None:
    assert scopes(to_onnx(Shared(nnx.Rngs(0)), [X])) == {
        "Shared",
        "Shared/left",
        "Shared/left/inner",
        "Shared/right",
        "Shared/right/inner",
    }


def test_two_models_have_the_names_of_their_classes() -> None:
    encoder, decoder = Mlp(nnx.Rngs(0)), Holder(nnx.Linear(8, 8, rngs=nnx.Rngs(1)))
    found = scopes(to_onnx(lambda x: decoder(encoder(x)), [X]))
    assert found == {
        *(f"Mlp/layers{path}" for path in ("", "/layers.0", "/layers.2")),
        "Holder",
        "Holder/inner",
    }


def test_a_module_in_a_branch_and_in_a_jitted_function_keeps_its_path() -> None:
    layers = [nnx.Linear(8, 8, rngs=nnx.Rngs(seed)) for seed in range(2)]

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.layers = nnx.List(layers)

        def __call__(self, x: jax.Array) -> jax.Array:
            x = jax.jit(lambda x: self.layers[0](x))(x)
            return jax.lax.cond(x.sum() > 0, self.layers[1], lambda x: -x, x)

    net = Net()
    model = convert(net, (X,))
    (branch,) = (node for node in model.graph.node if node.op_type == "If")
    inner = {node.name for body in branch.attribute for node in body.g.node}
    assert "Net/layers.0/dot_general" in names(model)
    assert "Net/layers.1/dot_general" in inner
    (found,), (wanted,) = run(model, (X,)), expected(net, (X,))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


class AsksForClass(nnx.Module):
    def __init__(self) -> None:
        self.linear = nnx.Linear(8, 8, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear(x) * (2.0 if self.is_the_same() else 1.0)

    def is_the_same(self) -> bool:
        return type(self.linear) is nnx.Linear


class KeyedByModule(AsksForClass):
    def __init__(self) -> None:
        super().__init__()
        self.gains = {self.linear: 2.0}

    def is_the_same(self) -> bool:
        return self.gains.get(self.linear) == 2.0


class InFrozenset(AsksForClass):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = frozenset([self.linear])

    def is_the_same(self) -> bool:
        return self.linear in self.frozen


class InRegistry(AsksForClass):
    known: list[Any] = []  # noqa: RUF012
    weakly: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.known[:] = [self, self.linear]
        self.weakly[self.linear] = 2.0
        self.identity = id(self.linear)

    def is_the_same(self) -> bool:
        is_known = self is self.known[0] and self.linear is self.known[1]
        return is_known and self.linear in self.weakly and id(self.linear) == self.identity


class Registered(nnx.Module):
    known: list[type] = []  # noqa: RUF012

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Registered.known.append(cls)


class IsRegistered(Registered, AsksForClass):
    def is_the_same(self) -> bool:
        return Registered.known == [IsRegistered]


@pytest.mark.parametrize(
    "kind", [AsksForClass, KeyedByModule, InFrozenset, InRegistry, IsRegistered]
)
def test_code_that_compares_modules_by_identity_meets_the_users_own(
    kind: Callable[[], Any],
) -> None:
    net = kind()
    model = convert(net, (X,))
    assert f"{kind.__name__}/linear" in scopes(model)
    (found,), (plain,) = run(model, (X,)), expected(net.linear, (X,))
    np.testing.assert_allclose(found, 2 * np.asarray(plain), rtol=1e-5, atol=1e-5)


def test_a_module_that_an_unknown_object_holds_is_the_users_own() -> None:
    linear = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    wanted = types.SimpleNamespace(layer=linear)

    def only_the_original(x: jax.Array) -> jax.Array:
        assert linear is wanted.layer
        return linear(x)

    assert "Linear/dot_general" in names(convert(only_the_original, (X,)))


def test_a_function_that_writes_globals_is_traced_as_it_is() -> None:
    namespace: dict[str, Any] = {"model": nnx.Linear(8, 8, rngs=nnx.Rngs(0)), "calls": 0}
    text = "def fn(x):\n    global calls\n    calls += 1\n    return model(x)\n"
    exec(text, namespace)
    to_onnx(namespace["fn"], [X])
    assert namespace["calls"] == 1


def test_threads_name_their_own_modules() -> None:
    nets = {f"Net{index}": Holder(nnx.Linear(8, 8, rngs=nnx.Rngs(index))) for index in range(4)}
    found: dict[str, set[str]] = {}

    def export(name: str) -> None:
        found[name] = scopes(to_onnx(nets[name], [X]))

    threads = [threading.Thread(target=export, args=(name,)) for name in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: {"Holder", "Holder/inner"} for name in nets}


class Remat(nnx.Module):
    def __init__(self, seed: int = 0) -> None:
        self.linear = nnx.Linear(8, 8, rngs=nnx.Rngs(seed))

    @nnx.remat
    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.cos(self.linear(x))


@nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
def through(x: jax.Array, layer: nnx.Linear) -> jax.Array:
    return jnp.sin(layer(x))


@nnx.vmap(in_axes=(None, 0))
def mapped(layer: nnx.Linear, x: jax.Array) -> jax.Array:
    return layer(x)


def scanned() -> Any:
    make = nnx.vmap(lambda key: nnx.Linear(8, 8, rngs=nnx.Rngs(key)))
    layers = make(jax.random.split(jax.random.key(0), 3))
    return lambda x: through(x, layers)


def mapped_linear() -> Any:
    layer = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    return lambda x: mapped(layer, x)


@pytest.mark.parametrize("build", [Remat, scanned, mapped_linear])
def test_the_transformations_of_nnx_are_traced_and_harm_no_module(build: Any) -> None:
    """nnx refuses modules of an outer trace, and empties one that it cannot write back."""
    fn = build()
    wanted = np.asarray(fn(jnp.asarray(X)))
    (found,) = run(convert(fn, (X,)), (X,))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(fn(jnp.asarray(X))), wanted)


def test_a_failed_export_harms_no_module() -> None:
    net = Remat()

    def fn(x: jax.Array) -> jax.Array:
        net(x)
        raise RuntimeError("of the user")

    before = list(vars(net))
    with pytest.raises(RuntimeError):
        to_onnx(fn, [X])
    assert list(vars(net)) == before


def test_a_decorated_function_that_is_not_a_method_has_no_path() -> None:
    """All functions that a decorator wraps run the same code; their free variables differ."""

    def logged(fn: Any) -> Any:
        def wrapper(module: Any, x: jax.Array) -> jax.Array:
            return fn(module, x)

        return wrapper

    class Leaf(nnx.Module):
        @logged
        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.sin(x)

    @logged
    def outside(module: Any, x: jax.Array) -> jax.Array:
        return jnp.cos(x)

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.leaf = Leaf()

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.leaf(x) * outside(self.leaf, x)

    model = to_onnx(Net(), [X])
    assert names(model) == ["Net/leaf/sin", "Net/cos", "Net/mul"]


def test_a_module_that_a_function_of_jax_calls_has_its_path() -> None:

    class Gain(nnx.Module):
        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.tanh(x)

    net = Holder(Gain())

    def fn(x: jax.Array) -> tuple[jax.Array, ...]:
        return (
            jnp.vectorize(net)(x),
            jnp.apply_along_axis(net, 1, 2 * x),
            jnp.piecewise(3 * x, [x > 0, x <= 0], [net, jnp.cos]),
            jnp.frompyfunc(lambda x: net(x), 1, 1)(4 * x),
            jax.jit(net)(5 * x),
            jnp.einsum("bij,bkj->bik", net(6 * x), x),
        )

    found = names(to_onnx(fn, [X]))
    assert sum("Holder/inner/tanh" in name for name in found) == 6
