"""Primitives that libraries on JAX define, and those of several devices, on one."""

from __future__ import annotations

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal._loop.common import select_if_vmap_p
from jax.sharding import Mesh, PartitionSpec

from .case import Case

FLAGS = np.array([[True, False], [False, False]])
NUMBERS = np.array([[3, -7], [9, 2]], np.int32)
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def sharded(x: jax.Array) -> jax.Array:
    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = PartitionSpec("i")
    return jax.shard_map(lambda y: y * 2 + 1, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def chosen(x: jax.Array) -> jax.Array:
    return select_if_vmap_p.bind(jnp.bool_(True), x, x + 1)


def chosen_each(x: jax.Array) -> jax.Array:
    return jax.vmap(lambda y: select_if_vmap_p.bind(y.sum() > 0, y, y + 1))(x)


def printed(x: jax.Array) -> jax.Array:
    jax.debug.print("x is {x}", x=x)
    return x + 1


def called(x: jax.Array) -> jax.Array:
    jax.debug.callback(lambda value: None, x)
    return x + 1


def inspected(x: jax.Array) -> jax.Array:
    jax.debug.inspect_array_sharding(x, callback=lambda sharding: None)
    return x + 1


CASES = [
    Case("unvmap_any", eqxi.unvmap_any, (FLAGS,), covers=("unvmap_any",)),
    Case("unvmap_any.none", eqxi.unvmap_any, (FLAGS[1],)),
    Case("unvmap_all", eqxi.unvmap_all, (FLAGS,), covers=("unvmap_all",)),
    Case("unvmap_all.all", eqxi.unvmap_all, (FLAGS[0, :1],)),
    Case("unvmap_max", eqxi.unvmap_max, (NUMBERS,), covers=("unvmap_max",)),
    Case("nonbatchable", lambda x: eqxi.nonbatchable(x) + 1, (X,), covers=("nonbatchable",)),
    Case(
        "nondifferentiable_backward",
        lambda x: eqxi.nondifferentiable_backward(x) + 1,
        (X,),
        covers=("nondifferentiable_backward",),
    ),
    Case("debug_print", printed, (X,), covers=("debug_print",)),
    Case("debug_callback", called, (X,), covers=("debug_callback",)),
    Case("inspect_sharding", inspected, (X,), covers=("inspect_sharding",)),
    Case("select_if_vmap", chosen, (X,), covers=("select_if_vmap",)),
    Case("select_if_vmap.vmap", chosen_each, (X,)),
    Case("shard_map", sharded, (X,), covers=("shard_map", "pvary")),
]
