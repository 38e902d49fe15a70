"""Symbolic sizes of convolutions and windows: one model, run at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import export, lax

from testkit import bench
from testkit.cases.conv import array, conv
from testkit.cases.window import affine, largest, smallest, total, window

NHWC = ("NHWC", "HWIO", "NHWC")
W = array((3, 3, 3, 4), 1)
BATCH = ({"B": 1}, {"B": 3}, {"B": 0})
#: Over a single element XLA leaves out an initial value that is not the identity.
SOME = ({"B": 2}, {"B": 3}, {"B": 0})
FEW = ({"B": 1, "S": 3}, {"B": 2, "S": 6})
IMAGE = ({"B": 1, "S": 3}, {"B": 2, "S": 4}, {"B": 3, "S": 9}, {"B": 2, "S": 6})
NINE = ((1, 3, 3, 1), (1, 2, 2, 1))


def weighted(*args: Any, w: np.ndarray = W, **options: Any) -> Callable[..., Any]:
    return lambda x: conv(*args, **options)(x, w.astype(x.dtype))


def grouped(x: Any) -> Any:
    x = x.reshape(2 * x.shape[0], *x.shape[2:])
    return conv((1, 1), "SAME", NHWC, batch_group_count=2)(x, W)


def gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda x: (fn(x) ** 2).sum())


def of_weights(*args: Any, **options: Any) -> Callable[..., Any]:
    """The gradient with respect to the weights: the window is as large as the result was.

    JAX itself refuses strides and `VALID` along an axis of symbolic size.
    """
    made = conv(*args, NHWC, **options)
    return lambda x: jax.grad(lambda w: (made(x, w) ** 2).sum())(W.astype(x.dtype))


USES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[dict[str, int], ...], Any]] = {
    "conv batch": (weighted((2, 2), "SAME", NHWC), ("B", 9, 8, 3), BATCH, np.float32),
    "conv batch f64": (weighted((2, 2), "SAME", NHWC), ("B", 9, 8, 3), BATCH, np.float64),
    "conv batch i32": (weighted((2, 2), "SAME", NHWC), ("B", 9, 8, 3), BATCH, np.int32),
    "conv same": (weighted((2, 2), "SAME", NHWC), ("B", "S", "S", 3), IMAGE, np.float32),
    "conv same f64": (weighted((2, 2), "SAME", NHWC), ("B", "S", "S", 3), IMAGE, np.float64),
    "conv valid": (weighted((1, 2), "VALID", NHWC), ("B", "S", 8, 3), IMAGE, np.float32),
    "conv negative": (
        weighted((1, 1), ((-1, 2), (1, 1)), NHWC),
        ("B", "S", 8, 3),
        IMAGE,
        np.float32,
    ),
    "conv spread": (
        weighted((1, 1), ((2, 1), (4, 1)), NHWC, lhs_dilation=(2, 2)),
        ("B", "S", "S", 3),
        IMAGE,
        np.float32,
    ),
    "conv spread strided": (
        weighted((3, 1), ((2, 1), (1, 1)), NHWC, lhs_dilation=(2, 2)),
        ("B", "S", "S", 3),
        IMAGE,
        np.float32,
    ),
    "conv batch groups": (grouped, ("B", 2, 5, 5, 3), ({"B": 1}, {"B": 3}), np.float32),
    "max batch": (largest(*NINE, "SAME"), ("B", 9, 8, 3), BATCH, np.float32),
    "max same": (largest(*NINE, "SAME"), ("B", "S", "S", 3), IMAGE, np.float32),
    "max valid": (largest(*NINE), ("B", "S", "S", 3), IMAGE, np.float32),
    "min valid": (smallest(*NINE), ("B", "S", "S", 3), IMAGE, np.float32),
    "sum same": (total(*NINE, "SAME"), ("B", "S", "S", 3), IMAGE, np.float32),
    "sum valid": (total(*NINE), ("B", "S", "S", 3), IMAGE, np.float32),
    "sum channels": (total(*NINE), ("B", 9, 9, "S"), IMAGE, np.float32),
    "sum f64": (total(*NINE, "SAME"), ("B", "S", "S", 3), IMAGE, np.float64),
    "sum spread": (
        total(*NINE, ((0, 0), (1, 2), (-1, 1), (0, 0)), base_dilation=(1, 2, 2, 1)),
        ("B", "S", "S", 3),
        IMAGE,
        np.float32,
    ),
    "body": (
        window(lambda a, b: a + b + a * b, 0, *NINE, "SAME"),
        ("B", "S", "S", 3),
        IMAGE,
        np.float32,
    ),
    "reduce body": (lambda x: affine(x, x), ("B", 7), BATCH, np.float32),
    "reduce add": (
        lambda x: lax.reduce(x, np.float32(1), lax.add, (0,)),
        ("B", 7),
        SOME,
        np.float32,
    ),
    "gradient of sums": (gradient(total(*NINE, "VALID")), ("B", "S", "S", 3), FEW, np.float32),
    "gradient of same sums": (gradient(total(*NINE, "SAME")), ("B", "S", 8, 3), FEW, np.float32),
    "gradient of max of any size": (
        gradient(largest(*NINE, "SAME")),
        ("B", "S", "S", 3),
        FEW,
        np.float32,
    ),
    "gradient of min of any size": (
        gradient(smallest((1, 2, 1, 1), (1, 3, 1, 1), "VALID")),
        ("B", "S", 8, 3),
        FEW,
        np.float32,
    ),
    "tangent of max of any size": (
        lambda x: jax.jvp(largest(*NINE, "SAME"), (x,), (x * x,)),
        ("B", "S", "S", 3),
        FEW,
        np.float32,
    ),
    "gradient of conv": (
        gradient(weighted((1, 1), "SAME", NHWC)),
        ("B", "S", "S", 3),
        FEW,
        np.float32,
    ),
    "gradient of weights": (of_weights((1, 1), "SAME"), ("B", "S", "S", 3), FEW, np.float32),
    "gradient of weights f64": (
        of_weights((1, 1), "SAME"),
        ("B", "S", "S", 3),
        FEW,
        np.float64,
    ),
    "gradient of dilated weights": (
        of_weights((1, 2), "SAME", rhs_dilation=(2, 1)),
        ("B", "S", 8, 3),
        FEW,
        np.float32,
    ),
    "gradient of max": (
        lambda x: jax.grad(lambda x: largest(*NINE, "SAME")(x).sum())(x),
        ("B", 9, 8, 3),
        BATCH,
        np.float32,
    ),
}


@pytest.mark.parametrize("name", USES)
def test_one_model_runs_at_every_size(name: str) -> None:
    fn, dims, sizes, dtype = USES[name]
    double = dtype == np.float64
    with bench.precision(double):
        shape = export.symbolic_shape(", ".join(map(str, dims)))
        spec = jax.ShapeDtypeStruct(shape, dtype)
        model = bench.convert(fn, [spec], double=double)
    for size in sizes:
        concrete = tuple(eval(str(dim), {}, size) for dim in dims)
        x = array(concrete, 0, np.float64)
        x = (x * 9).astype(dtype) if dtype == np.int32 else x.astype(dtype)
        want = bench.expected(fn, (x,), double=double)
        found = bench.run(model, (x,))
        for one_found, one_want in zip(found, want, strict=True):
            bench.assert_same(one_found, one_want, rtol=2e-4, atol=2e-5)
