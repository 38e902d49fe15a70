"""Programs under a mesh: where arrays are does not change what the model computes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir
from jax.sharding import PartitionSpec as P

import jax2onnx
from testkit import ROOT, bench

pytestmark = pytest.mark.skipif(
    not hasattr(jax, "set_mesh"), reason=f"JAX {jax.__version__} has no `jax.set_mesh`"
)

X = np.linspace(-2.0, 3.0, 32, dtype=np.float32).reshape(4, 8)
W = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(8, 4)
INDICES = np.array([0, 2, 3, 1])


def split(x: Any) -> Any:
    return jax.sharding.reshard(x, P("d", None))


def doubled() -> Any:
    """A primitive that is defined by its lowering rule."""
    primitive = jax.extend.core.Primitive("doubled_on_devices")
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: x * 2.0, multiple_results=False))
    return primitive


DOUBLED = doubled()

PROGRAMS = {
    "plain": lambda x: jnp.tanh(x @ W),
    "reshard": lambda x: jax.sharding.reshard(split(x), P(None, "d")).T,
    "einsum": lambda x: jnp.einsum("ij,jk->ik", split(x), W, out_sharding=P("d", None)),
    "reshape": lambda x: x.reshape(32, out_sharding=P("d")),
    "broadcast": lambda x: lax.broadcast_in_dim(x, (2, 4, 8), (1, 2), out_sharding=P(None, "d")),
    "iota": lambda x: x + jnp.arange(8, dtype=jnp.float32, out_sharding=P("d")),
    "full": lambda x: x + jnp.full((4, 8), 3.0, out_sharding=P("d")),
    "gather": lambda x: x.at[INDICES].get(out_sharding=P("d", None)),
    "scatter": lambda x: split(x).at[INDICES, 1].set(5.0, out_sharding=P("d", None)),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c), jnp.zeros(8), x),
    "grad": lambda x: jax.grad(lambda x: jnp.sum(jnp.tanh(split(x) @ W)))(x),
    "vmap": lambda x: jax.vmap(lambda row: jax.sharding.reshard(row, P("d")) * 2.0)(x),
    "auto": lambda x: jax.sharding.auto_axes(jnp.sort, out_sharding=P("d", None))(x),
    "random": lambda x: x + jax.random.uniform(jax.random.key(0), (4, 8), out_sharding=P("d")),
    "defined": lambda x: DOUBLED.bind(split(x)) @ W,
}


def mesh(devices: int, kind: str = "Explicit") -> Any:
    types = (getattr(jax.sharding.AxisType, kind),)
    return jax.make_mesh((devices,), ("d",), axis_types=types)


def check(fn: Any) -> None:
    want = jax.tree.leaves(jax.jit(fn)(X))
    for found, expected in zip(bench.run(jax2onnx.to_onnx(fn, [X]), [X]), want, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fn", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_under_a_mesh_of_one_device_has_the_numbers_of_jax(fn: Any) -> None:
    with jax.set_mesh(mesh(1)):
        check(fn)


def test_a_mesh_whose_axes_are_automatic_adds_no_nodes() -> None:
    plain = jax2onnx.to_onnx(PROGRAMS["plain"], [X])
    with jax.set_mesh(mesh(1, "Auto")):
        check(PROGRAMS["plain"])
        assert len(jax2onnx.to_onnx(PROGRAMS["plain"], [X]).graph.node) == len(plain.graph.node)


def test_a_symbolic_size_under_a_mesh_is_exported() -> None:
    with jax.set_mesh(mesh(1)):
        model = jax2onnx.to_onnx(lambda x: DOUBLED.bind(split(x)) @ W, [("B", 8)])
    for rows in (1, 4):
        np.testing.assert_allclose(bench.run(model, [X[:rows]])[0], X[:rows] * 2.0 @ W, rtol=1e-5)


def on_four_devices() -> None:
    """Runs in a process of its own, because JAX counts devices once."""
    with jax.set_mesh(mesh(4)):
        for fn in PROGRAMS.values():
            check(fn)
        with pytest.raises(jax2onnx.UnsupportedError, match="`shard_map` over 4 devices") as caught:
            jax2onnx.to_onnx(lambda x: jax.shard_map(jnp.sin, out_specs=P("d"))(split(x)), [X])
    assert "or with a mesh of one device" in str(caught.value)


@pytest.mark.slow
def test_annotations_for_several_devices_change_nothing() -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    code = f"from {__name__} import on_four_devices; on_four_devices()"
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
