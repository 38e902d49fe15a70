"""The general product of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case
from .data import INTS, NUMBERS, array, is_wide, name_of, small

F16, BF16, F32, F64 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64
NONE: tuple[Sequence[int], Sequence[int]] = ((), ())


def case(
    use: str, fn: Callable[..., Any], *inputs: Any, rtol: float = 0.0, wide: bool = False
) -> Case:
    wide = wide or any(is_wide(np.asarray(x).dtype) for x in inputs)
    name = f"dot_general.{use}"
    return Case(name, fn, inputs, rtol=rtol, atol=rtol, double=wide, covers=("dot_general",))


def product(
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = NONE,
    result: Any = None,
) -> Callable[..., Any]:
    return lambda x, y: lax.dot_general(x, y, (contracting, batch), preferred_element_type=result)


#: Small whole numbers: every sum is exact, so every order of summing gives the same.
FORMS = [
    case(
        f"{use} {left} x {right}",
        product(contracting, batch),
        small(F32, *left),
        small(F32, *right),
    )
    for use, left, right, contracting, batch in [
        ("matrices", (3, 4), (4, 5), ((1,), (0,)), NONE),
        ("right transposed", (3, 4), (5, 4), ((1,), (1,)), NONE),
        ("left transposed", (4, 3), (4, 5), ((0,), (0,)), NONE),
        ("both transposed", (4, 3), (5, 4), ((0,), (1,)), NONE),
        ("matrix and vector", (3, 4), (4,), ((1,), (0,)), NONE),
        ("vector and matrix", (4,), (4, 5), ((0,), (0,)), NONE),
        ("vector and transposed matrix", (4,), (5, 4), ((0,), (1,)), NONE),
        ("vectors", (4,), (4,), ((0,), (0,)), NONE),
        ("many rows", (2, 3, 4), (4, 5), ((2,), (0,)), NONE),
        ("many columns", (3, 4), (4, 5, 2), ((1,), (0,)), NONE),
        ("many of both", (2, 3, 4), (5, 4, 6), ((2,), (1,)), NONE),
        ("summed first", (4, 2, 3), (5, 6, 4), ((0,), (2,)), NONE),
        ("summed in the middle", (2, 4, 3), (5, 4, 6), ((1,), (1,)), NONE),
        ("two sums", (2, 3, 4), (3, 4, 5), ((1, 2), (0, 1)), NONE),
        ("two sums crossed", (2, 3, 4), (4, 3, 5), ((1, 2), (1, 0)), NONE),
        ("two sums listed backwards", (2, 3, 4), (3, 4, 5), ((2, 1), (1, 0)), NONE),
        ("two sums apart", (3, 2, 4), (4, 5, 3), ((0, 2), (2, 0)), NONE),
        ("everything summed", (3, 4), (3, 4), ((0, 1), (0, 1)), NONE),
        ("everything summed crossed", (3, 4), (4, 3), ((0, 1), (1, 0)), NONE),
        ("left summed away", (3, 4), (3, 4, 5), ((0, 1), (0, 1)), NONE),
        ("batch", (2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,))),
        ("batch, right transposed", (2, 3, 4), (2, 5, 4), ((2,), (2,)), ((0,), (0,))),
        ("batch last", (3, 4, 2), (4, 5, 2), ((1,), (0,)), ((2,), (2,))),
        ("batch elsewhere", (3, 2, 4), (4, 5, 2), ((2,), (0,)), ((1,), (2,))),
        ("two batches", (2, 3, 4, 5), (2, 3, 5, 6), ((3,), (2,)), ((0, 1), (0, 1))),
        ("two batches crossed", (2, 3, 4, 5), (3, 2, 5, 6), ((3,), (2,)), ((1, 0), (0, 1))),
        ("two batches around", (2, 4, 5, 3), (3, 5, 6, 2), ((2,), (1,)), ((0, 3), (3, 0))),
        ("batch of many rows", (2, 3, 6, 4), (2, 4, 5), ((3,), (1,)), ((0,), (0,))),
        ("batch of many of all", (2, 3, 6, 4, 2), (2, 4, 2, 5, 3), ((3, 4), (1, 2)), ((0,), (0,))),
        ("batch of matrix and vector", (2, 3, 4), (2, 4), ((2,), (1,)), ((0,), (0,))),
        ("batch of vector and matrix", (2, 4), (2, 4, 3), ((1,), (1,)), ((0,), (0,))),
        ("batch of vectors", (2, 4), (2, 4), ((1,), (1,)), ((0,), (0,))),
        ("no sum", (3,), (4,), NONE, NONE),
        ("no sum of matrices", (2, 3), (4, 5), NONE, NONE),
        ("no sum, batch", (2, 3), (2, 4), NONE, ((0,), (0,))),
        ("no sum, batch last", (3, 2), (4, 5, 2), NONE, ((1,), (2,))),
        ("no sum, only batch", (2, 3), (3, 2), NONE, ((0, 1), (1, 0))),
        ("no sum, no columns", (2, 3), (2,), NONE, ((0,), (0,))),
        ("scalars", (), (), NONE, NONE),
        ("scalar and matrix", (), (3, 4), NONE, NONE),
        ("matrix and scalar", (3, 4), (), NONE, NONE),
        ("axes of one", (1, 1), (1, 1), ((1,), (0,)), NONE),
        ("empty sum", (3, 0), (0, 5), ((1,), (0,)), NONE),
        ("empty sum of vectors", (0,), (0,), ((0,), (0,)), NONE),
        ("empty sum in a batch", (2, 3, 0), (2, 0, 5), ((2,), (1,)), ((0,), (0,))),
        ("two sums, one empty", (2, 3, 0), (3, 0, 5), ((1, 2), (0, 1)), NONE),
        ("no rows", (0, 4), (4, 5), ((1,), (0,)), NONE),
        ("no rows and a vector", (0, 4), (4,), ((1,), (0,)), NONE),
        ("a vector and no columns", (4,), (4, 0), ((0,), (0,)), NONE),
        ("no columns", (3, 4), (4, 0), ((1,), (0,)), NONE),
        ("no columns among many", (3, 4), (4, 0, 2), ((1,), (0,)), NONE),
        ("no batch", (0, 3, 4), (0, 4, 5), ((2,), (1,)), ((0,), (0,))),
        ("nothing at all", (0, 0), (0, 0), ((1,), (0,)), NONE),
    ]
]

TYPES = [
    case(f"{form} {name_of(dtype)}", fn, small(dtype, *left), small(dtype, *right))
    for dtype in (*NUMBERS, np.bool_)
    for form, fn, left, right in [
        ("matrices of", product(((1,), (0,))), (3, 4), (4, 5)),
        ("batch of", product(((2,), (1,)), ((0,), (0,))), (2, 3, 4), (2, 4, 5)),
        ("no sum of", product(NONE), (3,), (4,)),
        ("empty sum of", product(((1,), (0,))), (3, 0), (0, 5)),
        ("no rows of", product(((1,), (0,))), (0, 4), (4, 5)),
        ("vectors of", product(((0,), (0,))), (4,), (4,)),
    ]
]

WRAPPING = [
    case(
        f"{name_of(dtype)}, which wraps",
        product(((1,), (0,))),
        array(dtype, 3, 5),
        array(dtype, 5, 4),
    )
    for dtype in INTS
]

PREFERRED = [
    case(
        f"{name_of(left)} x {name_of(right)} -> {name_of(result)}",
        product(((1,), (0,)), result=result),
        array(left, 3, 5),
        array(right, 5, 4),
        wide=is_wide(result),
        rtol=1e-6 if np.dtype(result).kind != "i" else 0.0,
    )
    for left, right, result in [
        (np.int8, np.int8, np.int32),
        (np.uint8, np.uint8, np.int32),
        (np.uint8, np.uint8, np.uint32),
        (np.int8, np.uint8, np.int32),
        (np.uint8, np.int8, np.int32),
        (np.int16, np.int16, np.int32),
        (np.int16, np.int8, np.int32),
        (np.int32, np.int32, np.int64),
        (np.int8, np.int8, np.float32),
        (F16, F16, F32),
        (BF16, BF16, F32),
        (F32, F32, F64),
        (F16, BF16, F32),
        (F16, F32, F32),
        (F32, BF16, F32),
        (F32, np.int8, F32),
        (BF16, np.int8, F32),
        (np.int8, BF16, BF16),
    ]
]

X, W = (
    np.linspace(-1, 1, 40, dtype=F32).reshape(5, 8),
    np.linspace(2, -1, 48, dtype=F32).reshape(8, 6),
)
ROUNDING = [
    case("f32 with precision", lambda x, w: lax.dot(x, w, precision="highest"), X, W, rtol=2e-6),
    case("f64", lambda x, w: x @ w, X.astype(F64), W.astype(F64), rtol=1e-14),
    case("f16", lambda x, w: x @ w, X.astype(F16), W.astype(F16), rtol=2e-3),
    case("bf16", lambda x, w: x @ w, X.astype(BF16), W.astype(BF16), rtol=2e-2),
    case("with a constant", lambda x: x @ jnp.asarray(W), X, rtol=2e-6),
    case("grad", jax.grad(lambda x, w: jnp.sum(jnp.tanh(x @ w))), X, W, rtol=1e-5),
    case(
        "vmap",
        jax.vmap(lambda x, w: x @ w, in_axes=(1, 2)),
        small(F32, 3, 2, 4),
        small(F32, 4, 5, 2),
    ),
]

EINSUMS = [
    case(
        f"einsum {spec}",
        lambda *xs, spec=spec: jnp.einsum(spec, *xs),
        *(small(F32, *s) for s in shapes),
    )
    for spec, shapes in [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk->ki", [(2, 3), (3, 4)]),
        ("ij,kj", [(2, 3), (4, 3)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("bhqk,bkhd->bqhd", [(2, 2, 3, 5), (2, 5, 2, 4)]),
        ("...ij,jk->...ik", [(2, 2, 3), (3, 4)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("ij,ij->i", [(2, 3), (2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,ij,j->", [(2,), (2, 3), (3,)]),
        ("abc,cd,de->abe", [(2, 3, 4), (4, 5), (5, 6)]),
        ("ijk,kl->lij", [(2, 3, 4), (4, 5)]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]),
    ]
]

CASES = [*FORMS, *TYPES, *WRAPPING, *PREFERRED, *ROUNDING, *EINSUMS]
