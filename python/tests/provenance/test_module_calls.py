"""The calls of modules: what reports them, what ends them, and that JAX never mistakes them."""

from __future__ import annotations

import contextlib
import cProfile
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

from jax2onnx import to_onnx
from jax2onnx._tracing import trace
from testkit.bench import convert, expected, run
from testkit.models.networks import NETWORKS

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


def linear(seed: int = 0) -> nnx.Linear:
    return nnx.Linear(8, 8, use_bias=False, rngs=nnx.Rngs(seed))


def names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


class Leaf(nnx.Module):
    def __init__(self) -> None:
        self.linear = linear()

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.sin(self.linear(x))


class Pair(nnx.Module):
    def __init__(self, kind: Callable[[], Any] = Leaf) -> None:
        self.a, self.b = kind(), kind()

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.b(self.a(x))


PAIR = [
    f"Pair/{name}" for name in ("a/linear/dot_general", "a/sin", "b/linear/dot_general", "b/sin")
]


def traced(fn: Callable[..., Any], inputs: Any, **options: Any) -> str:
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in inputs]
    closed = trace.trace(fn, specs, double_precision=False, **options).closed_jaxpr
    return closed.pretty_print(source_info=False, name_stack=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_jaxpr_of_a_network_is_the_same_without_names(name: str) -> None:
    fn, inputs = NETWORKS[name]()
    assert traced(fn, inputs) == traced(fn, inputs, module_scopes=False)


class StaticJit(Leaf):
    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.sin(self.linear(x))


class TreeJit(Leaf):
    __call__ = jax.jit(Leaf.__call__)


def decorated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return jnp.sin(method(*args, **kwargs))

    return call


class Decorated(Leaf):
    @decorated
    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear(x)


class Inherited(Leaf):
    def __call__(self, x: jax.Array) -> jax.Array:
        return super().__call__(x)


class Asked(Leaf):
    @property
    def kernel(self) -> jax.Array:
        return jnp.sin(self.linear.kernel[...])

    def __call__(self, x: jax.Array) -> jax.Array:
        raise AssertionError


@pytest.mark.parametrize("kind", [Leaf, StaticJit, Decorated, Inherited])
def test_a_method_has_the_path_of_its_module_however_it_is_made(kind: Callable[[], Any]) -> None:
    net = Pair(kind)
    model = convert(net, (X,))
    assert names(model) == PAIR
    (found,), (wanted,) = run(model, (X,)), expected(lambda x: net(x), (X,))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_property_of_a_module_has_its_path() -> None:
    net = Pair(Asked)
    # With passes, the sine of the kernel is a constant.
    model = to_onnx(lambda x: x @ net.a.kernel, [X], optimize=False)
    assert names(model) == ["Pair/a/sin", "dot_general"]


def test_a_module_that_jit_takes_apart_has_the_path_of_its_caller() -> None:
    found = names(to_onnx(Pair(TreeJit), [X]))
    assert {name.rpartition("/")[0] for name in found} == {"Pair"}


def test_a_trace_that_jax_reuses_brings_no_path_of_another_module() -> None:
    net = Pair(StaticJit)
    assert names(to_onnx(net, [X])) == PAIR
    # Traced as a part of `net`, with a path that is not the one from here.
    assert names(to_onnx(net.a, [X])) == ["dot_general", "sin"]
    assert names(to_onnx(net, [X])) == PAIR


def test_a_jitted_function_that_two_modules_call_has_the_path_of_the_first() -> None:
    inner = linear()
    shared = jax.jit(lambda x: inner(x))

    class Caller(nnx.Module):
        def __init__(self, **parts: Any) -> None:
            for name, part in parts.items():
                setattr(self, name, part)

        def __call__(self, x: jax.Array) -> jax.Array:
            return shared(x)

    left, right = Caller(one=inner), Caller(other=inner)
    found = names(to_onnx(lambda x: (left(x), right(x)), [X]))
    assert found == ["Caller/one/dot_general", "Caller/dot_general"]


def test_a_model_that_ran_before_has_its_names() -> None:
    net = Pair()
    jax.jit(net)(jnp.asarray(X))
    assert names(to_onnx(net, [X])) == PAIR


def test_a_call_that_fails_ends_its_scope() -> None:
    class Fails(Leaf):
        def __call__(self, x: jax.Array) -> jax.Array:
            self.linear(x)
            raise ValueError("of the user")

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.first, self.second = Fails(), linear(1)

        def __call__(self, x: jax.Array) -> jax.Array:
            try:
                return self.first(x)
            except ValueError:
                return jnp.cos(self.second(x))

    assert names(to_onnx(Net(), [X])) == ["Net/second/dot_general", "Net/cos"]


def test_a_generator_is_named_by_whoever_resumes_it() -> None:
    class Net(nnx.Module):
        def __init__(self) -> None:
            self.layers = nnx.List([linear(0), linear(1)])

        def all_of(self, x: jax.Array) -> Iterator[jax.Array]:
            for layer in self.layers:
                yield jnp.sin(layer(x))

        def __call__(self, x: jax.Array) -> jax.Array:
            first, second = self.all_of(x)
            return first + second

    scopes = {name.rpartition("/")[0] for name in names(to_onnx(Net(), [X]))}
    assert scopes == {"Net", "Net/layers.0", "Net/layers.1"}


def test_a_module_that_calls_itself_has_one_path() -> None:
    class Net(Leaf):
        def __call__(self, x: jax.Array, depth: int = 2) -> jax.Array:
            return self(jnp.sin(self.linear(x)), depth - 1) if depth else x

    assert set(names(to_onnx(Net(), [X]))) == {
        *("Net/linear/dot_general", "Net/sin", "Net/linear/dot_general_1", "Net/sin_1"),
    }


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_export_that_fails_leaves_nothing_behind(error: type[BaseException]) -> None:
    class Net(Leaf):
        def __call__(self, x: jax.Array) -> jax.Array:
            self.linear(x)
            raise error("of the user")

    with pytest.raises(error):
        to_onnx(Net(), [X])
    assert is_unwatched()
    closed = jax.make_jaxpr(jnp.sin)(X)
    assert str(closed.eqns[0].source_info.name_stack) == ""


def is_unwatched() -> bool:
    """Return whether nothing of an export still reports calls."""
    if sys.version_info < (3, 12):
        return sys.getprofile() is None
    monitoring: Any = sys.monitoring
    tools = [tool for tool in range(6) if monitoring.get_tool(tool) == "jax2onnx"]
    events = [monitoring.get_local_events(4, Leaf.__call__.__code__)] if not tools else [1]
    return not tools and not any(events)


def test_other_threads_are_not_named_meanwhile() -> None:
    net = Pair()
    stacks: list[str] = []

    def trace_elsewhere() -> None:
        closed = jax.make_jaxpr(lambda x: net(x))(X)
        stacks.extend(str(eqn.source_info.name_stack) for eqn in closed.eqns)

    def fn(x: jax.Array) -> jax.Array:
        thread = threading.Thread(target=trace_elsewhere)
        thread.start()
        thread.join()
        return net(x)

    assert names(to_onnx(fn, [X])) == PAIR
    assert stacks
    assert not any("Pair" in stack for stack in stacks)


def test_an_export_inside_of_an_export_names_its_own_modules() -> None:
    net, other = Pair(), Pair()
    inner: list[str] = []

    def fn(x: jax.Array) -> jax.Array:
        inner.extend(names(to_onnx(other, [X])))
        return net(x)

    assert names(to_onnx(fn, [X])) == PAIR
    assert inner == PAIR
    assert is_unwatched()


def test_the_repr_of_a_module_is_not_asked_for() -> None:
    class Net(Leaf):
        def __repr__(self) -> str:
            raise AssertionError("the repr of a large module takes as long as its trace")

    assert names(to_onnx(Net(), [X])) == ["Net/linear/dot_general", "Net/sin"]


def test_a_profiler_that_runs_is_not_in_the_way() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        before = sys.getprofile()
        model = to_onnx(Pair(), [X])
        assert sys.getprofile() is before
    finally:
        profiler.disable()
    # Before Python 3.12, a thread has one profiler at most.
    unnamed = ["dot_general", "sin", "dot_general_1", "sin_1"]
    assert names(model) == (PAIR if sys.version_info >= (3, 12) else unnamed)


def test_exports_in_two_threads_name_their_own_modules() -> None:
    barrier = threading.Barrier(2)

    class Slow(Pair):
        def __call__(self, x: jax.Array) -> jax.Array:
            barrier.wait()
            y = super().__call__(x)
            barrier.wait()
            return y

    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(names(to_onnx(Slow(), [X])))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[name.replace("Pair", "Slow") for name in PAIR]] * 2
    assert is_unwatched()


def test_a_method_that_fails_and_is_caught_closes_its_scope() -> None:
    class Failing(Leaf):
        def __call__(self, x: jax.Array) -> jax.Array:
            raise ValueError(str(self.linear(x).shape))

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.failing = Failing()

        def __call__(self, x: jax.Array) -> jax.Array:
            with contextlib.suppress(ValueError):
                self.failing(x)
            return jnp.sin(x)

    assert names(to_onnx(Net(), [X])) == ["Net/sin"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no `sys.monitoring`")
def test_tools_that_monitor_stay_and_cost_the_names() -> None:
    monitoring: Any = sys.monitoring
    taken = [tool for tool in range(6) if monitoring.get_tool(tool) is None]
    for tool in taken:
        monitoring.use_tool_id(tool, "another")
    try:
        model = to_onnx(Pair(), [X])
        assert all(monitoring.get_tool(tool) == "another" for tool in taken)
    finally:
        for tool in taken:
            monitoring.free_tool_id(tool)
    assert names(model) == ["dot_general", "sin", "dot_general_1", "sin_1"]


class Training(nnx.Module):
    """Counts random draws and collects statistics, and knows its layers by identity."""

    def __init__(self) -> None:
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
        self.norm = nnx.BatchNorm(8, rngs=nnx.Rngs(0))
        self.gains = {self.norm: 2.0}

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(self.dropout(x)) * self.gains.get(self.norm, 1.0)


def test_a_module_that_changes_while_it_is_traced_is_the_users_own_and_stays() -> None:
    net = Training()
    before = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(net, nnx.Not(nnx.RngKey))))
    model = to_onnx(net, [X])
    after = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(net, nnx.Not(nnx.RngKey))))
    jax.tree.map(np.testing.assert_array_equal, before, after)
    (found,) = run(model, (X,))
    np.testing.assert_allclose(found, np.asarray(net(jnp.asarray(X))), rtol=1e-4, atol=1e-5)
    assert {name.rpartition("/")[0] for name in names(model)} >= {"Training", "Training/norm"}


def test_changed_state_of_a_module_can_be_a_result() -> None:
    net = Training()

    def fn(x: jax.Array) -> Any:
        net(x)
        return net.norm.mean

    (found,) = run(to_onnx(fn, [X]), (X,))
    wanted = nnx.clone(net)
    wanted(jnp.asarray(X))
    np.testing.assert_allclose(found, np.asarray(wanted.norm.mean[...]), rtol=1e-4, atol=1e-6)
