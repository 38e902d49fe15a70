"""Programs for several devices, on one device, and sums over a named axis of `vmap`.

Meshes whose axes are explicit, and `jax.set_mesh`: see `test_shardings.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.compute_on
import jax.experimental.custom_partitioning
import jax.experimental.layout
import jax.experimental.xla_metadata
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .case import Case

# JAX 0.12 no longer has it.
with contextlib.suppress(ModuleNotFoundError):
    import jax.experimental.shard_alike

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


def resharded(x: Any) -> Any:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    return jax.sharding.reshard(x, NamedSharding(mesh, P("d"))) * 2.0


def private() -> Any:
    """The collectives that only JAX itself calls."""
    return jax._src.lax.parallel


def gathered(x: Any) -> Any:
    everywhere = private().all_gather_reduced(x, "d", tiled=True)
    varying = jax._src.core.reduced_vary_cast(everywhere, "d")
    return varying + private().all_gather_invariant(x, "d")[0]


def unreduced(x: Any) -> Any:
    def parts(y: Any) -> Any:
        return private().vary_unreduced_cast(y, "d")

    total = private().unreduced_psum(parts(x), "d")
    scattered = lax.psum_scatter(parts(x * 2.0), "d", tiled=True)
    everywhere = jax._src.core.reduced_vary_cast(private().preduced(total, "d"), "d")
    return scattered * everywhere + total


def hinted(x: Any) -> Any:
    """Hints for XLA, which change no number."""
    layout = jax.experimental.layout.Layout((1, 0))
    x = jax.experimental.layout.with_layout_constraint(x * 2.0, layout)
    return jax.experimental.xla_metadata.set_xla_metadata(x * 3.0, key="value")


def alike(x: Any) -> Any:
    x, y = jax.experimental.shard_alike.shard_alike(x, x * 2.0)
    return x + y


def called(x: Any) -> Any:
    """Bodies that are compiled in a way of their own."""
    partitioned = jax.experimental.custom_partitioning.custom_partitioning(lambda y: y * 2.0)
    partitioned.def_partition(
        partition=None, infer_sharding_from_operands=None, sharding_rule="i j -> i j"
    )
    on_host = jax.experimental.compute_on.compute_on2(
        lambda y: y + 1.0, compute_type="device_host", out_memory_spaces=jax.memory.Space.Device
    )
    return on_host(partitioned(lax.composite(lambda y: y - 3.0, "my.function")(x)))


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
    Case("devices.reshard", resharded, (X,), covers=("reshard",)),
    Case("devices.reshard.complex", resharded, (X + 1j * X[::-1],)),
    Case(
        "devices.gathered",
        on_one_device(gathered),
        (X,),
        covers=("all_gather_invariant", "all_gather_reduced", "reduced_vary_cast_p"),
    ),
    Case(
        "devices.unreduced",
        on_one_device(unreduced),
        (X,),
        rtol=1e-6,
        covers=(
            "preduced",
            "unreduced_psum",
            "unreduced_reduce_scatter",
            "vary_unreduced_cast_p",
        ),
    ),
    Case(
        "devices.complex",
        on_one_device(lambda x: lax.psum(x, "d") * lax.all_gather(x, "d")[0], check_vma=False),
        (X + 1j * X[::-1],),
        rtol=1e-6,
        atol=1e-6,
    ),
    Case("devices.hints", hinted, (X,), covers=("layout_constraint", "xla_metadata_value")),
    Case("devices.alike", alike, (X,), covers=("shard_alike",)),
    Case("devices.calls", called, (X,), covers=("custom_partitioning", "compute_on", "composite")),
    Case("devices.vmap", batched, (X,), rtol=1e-6, atol=1e-6, covers=("psum", "pmax", "pmin")),
    Case(
        "devices.vmap.ints",
        lambda x: jax.vmap(lambda y: lax.psum(y, "i"), axis_name="i")(x),
        (INTS,),
    ),
]
