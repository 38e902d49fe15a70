"""Integers wrap, so that what holds for floats does not hold for them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench
from testkit.cases.data import SIGNED, UNSIGNED


def edges(dtype: Any) -> np.ndarray:
    """Numbers whose sums, products and magnitudes leave the type."""
    ends = np.iinfo(dtype)
    numbers = [ends.min, ends.min + 1, ends.max, ends.max // 2 + 1, 0, 1, 3, 12, 100]
    return np.array(numbers, dtype)


def wrapped(x: Any) -> tuple[Any, ...]:
    ends = np.iinfo(x.dtype)
    other = np.dtype(f"{'u' if ends.min < 0 else ''}int{ends.bits}")
    flag = x > 3
    return (
        jnp.maximum(x << 1, 0),
        jnp.clip(x * x, 0, 9),
        jax.nn.relu(jnp.abs(x)),
        jnp.maximum(jnp.abs(x // 2) + jnp.abs(x), 0),
        jnp.maximum(-jnp.minimum(x, 0), 0),
        jax.nn.relu(x.astype(other)),
        jnp.maximum(lax.bitcast_convert_type(x, other), 0),
        jnp.maximum(jnp.sum(jnp.abs(x), dtype=x.dtype), 0),
        jnp.maximum(jnp.cumsum(x, dtype=x.dtype), 0),
        jnp.where(x - 1 < x, 1, 2),
        flag.astype(x.dtype) * x.dtype.type(3),
        1 - flag.astype(x.dtype),
    )


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=lambda dtype: dtype.__name__)
def test_a_number_that_wrapped_keeps_its_clamp(dtype: Any) -> None:
    bench.check(wrapped, (edges(dtype),), double=dtype().itemsize == 8)


def test_an_index_that_wrapped_chooses_the_first_branch() -> None:
    def choose(i: Any, x: Any) -> Any:
        branches = [lambda: x, lambda: x * 2, lambda: -x]
        return lax.switch(i << 1, branches), lax.switch(i * i, branches)

    x = np.arange(3, dtype=np.float32)
    for number in (-13, 46341, 1):
        bench.check(choose, (np.int32(number), x))


def test_a_number_that_cannot_wrap_needs_no_clamp() -> None:
    def bounded(x: Any, n: Any) -> tuple[Any, ...]:
        place = jnp.argmax(x, axis=1)
        rest = lax.rem(n, np.int32(8))
        return jnp.maximum(place * 2 + 1, 0), jnp.maximum(rest * rest, 0)

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = bench.check(bounded, (x, edges(np.int32)))
    assert not {"Max", "Relu", "Clip"} & {node.op_type for node in model.graph.node}
