"""Programs for several devices, on one device, and sums over a named axis of `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .case import Case

X = np.linspace(-2.0, 3.0, 12, dtype=np.float32).reshape(3, 4)
INTS = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)


def on_one_device(fn: Callable[[Any], Any], **options: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
        spec = P("d")
        return jax.shard_map(fn, mesh=mesh, in_specs=spec, out_specs=spec, **options)(x)

    return run


def collectives(x: Any) -> Any:
    total = lax.psum(x, "d") + lax.pmean(x, "d") * lax.pmax(x, "d") - lax.pmin(x, "d")
    return total + lax.axis_index("d") + lax.ppermute(x, "d", [(0, 0)])


def exchanges(x: Any) -> Any:
    gathered = lax.all_gather(x, "d")[0] + lax.all_gather(x, "d", tiled=True)
    scattered = lax.psum_scatter(x, "d", tiled=True) + lax.psum_scatter(x[None], "d")
    return gathered * scattered + lax.all_to_all(x, "d", 0, 1, tiled=True)


def per_device(x: Any) -> Any:
    return jax.pmap(lambda y: lax.psum(y, "i") * 2.0, axis_name="i")(x[None])


def constrained(x: Any) -> Any:
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P("d"))) * 2.0


def batched(x: Any) -> Any:
    def row(y: Any) -> Any:
        return y / lax.psum(jnp.abs(y), "i") + lax.pmax(y, "i") - lax.pmin(y, "i")

    return jax.vmap(row, axis_name="i")(x)


CASES = [
    Case(
        "devices.sums",
        on_one_device(collectives, check_vma=False),
        (X,),
        rtol=1e-6,
        covers=("psum", "pmax", "pmin", "axis_index", "ppermute"),
    ),
    Case(
        "devices.sums.checked",
        on_one_device(lambda x: x + lax.psum(x, "d")),
        (X,),
        covers=("psum_invariant", "pvary"),
    ),
    Case(
        "devices.exchanges",
        on_one_device(exchanges, check_vma=False),
        (X,),
        rtol=1e-6,
        covers=("all_gather", "reduce_scatter", "all_to_all"),
    ),
    Case("devices.pmap", per_device, (X,)),
    Case("devices.constraint", constrained, (X,), covers=("sharding_constraint",)),
    Case("devices.vmap", batched, (X,), rtol=1e-6, atol=1e-6, covers=("psum", "pmax", "pmin")),
    Case(
        "devices.vmap.ints",
        lambda x: jax.vmap(lambda y: lax.psum(y, "i"), axis_name="i")(x),
        (INTS,),
    ),
]
