"""What the reader makes of a jaxpr, as text."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from jax2onnx import _core, _tiers
from jax2onnx._tracing import trace


def text(closed_jaxpr: Any, *, places: bool = False, names: dict[int, str] | None = None) -> str:
    """The text of a jaxpr, as a rule without the frames."""
    whole = _core.jaxpr_text(closed_jaxpr, tiers=_tiers.rules(trace.folders()), names=names)
    return (
        whole
        if places
        else re.sub(r' @ (internal |library |user )?".*?(?= \{$|$)', "", whole, flags=re.M)
    )


def read(fn: Callable[..., Any], *specs: Any) -> str:
    return text(trace.trace(fn, specs, double_precision=False).closed_jaxpr)


def test_a_program_is_read_with_its_names_literals_and_outputs() -> None:
    def fn(x: jax.Array) -> tuple[jax.Array, float]:
        return jnp.sin(x) * 2.0, 1.0

    assert read(fn, [2]).startswith('jaxpr fn(a:f32[2]) names("x") {\n  b:f32[2] = sin')
    assert "mul" in read(fn, [2])
    assert " b 2.0:f32[]\n" in read(fn, [2])
    assert "return c, 1.0:f32[]" in read(fn, [2])


def gather(x: jax.Array) -> jax.Array:
    return x[jnp.array([1, 0])]


def convolution(x: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, jnp.ones((1, 1, 3)), (1,), "SAME")


def generator(x: jax.Array) -> jax.Array:
    key = jnp.zeros((4,), jnp.uint32)
    return x + lax.rng_bit_generator(key, (2,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)[1]


def reshape(x: jax.Array) -> jax.Array:
    return x.reshape(2 * x.shape[0], -1)


def branches(x: jax.Array) -> jax.Array:
    return lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)


@pytest.mark.parametrize(
    ("fn", "spec", "parts"),
    [
        (
            gather,
            (2,),
            [
                "dimension_numbers=GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0)",
                "mode=GatherScatterMode.",
                "indices_are_sorted=False",
                "fill_value=None",
            ],
        ),
        (
            convolution,
            (1, 1, 5),
            [
                "ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))",
                "padding=((1, 1))",
                "window_strides=(1)",
            ],
        ),
        (generator, (2,), ["algorithm=RandomAlgorithm.RNG_THREE_FRY", "dtype=u32"]),
        (lambda x: x.astype(jnp.bfloat16), (2,), ["new_dtype=bf16", "weak_type=False"]),
        (reshape, ("B", 4), ["a:f32[B,4]", "new_sizes=(2*B, 2)"]),
        (lambda x: lax.integer_pow(x, 3), (2,), ["integer_pow{y=3}"]),
        (branches, (2,), ["branches=(jaxpr cos(", "}, jaxpr sin("]),
        (
            jax.jit(lambda x: x + 1, inline=False),
            (2,),
            ["in_shardings=(UnspecifiedValue(...))", "keep_unused=False"],
        ),
        (lambda x: lax.reduce_precision(x, 5, 10), (2,), ["exponent_bits=5", "mantissa_bits=10"]),
    ],
)
def test_a_parameter_survives(fn: Callable[..., Any], spec: Any, parts: list[str]) -> None:
    whole = read(fn, spec)
    for part in parts:
        assert part in whole, whole


def test_a_plain_object_has_no_contents_and_a_key_is_a_type() -> None:
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    whole = read(lambda k: jax.random.bits(k, (2,)), key)
    assert "a:key<fry>[]" in whole
    whole = read(
        lambda x: x + jax.random.bits(jax.random.wrap_key_data(x), (2,)), np.zeros(2, np.uint32)
    )
    assert re.search(r"impl=\w+\(", whole), whole


WHOLE = "[0, 1, 2, 3, 4, 5]"
FLOATS = "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]"


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bool", "bool[2,3] = [False, True, True, True, True, True]"),
        ("int8", f"i8[2,3] = {WHOLE}"),
        ("uint16", f"u16[2,3] = {WHOLE}"),
        ("int32", f"i32[2,3] = {WHOLE}"),
        ("float16", f"f16[2,3] = {FLOATS}"),
        ("float32", f"f32[2,3] = {FLOATS}"),
        ("complex64", "c64[2,3] = [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)"),
        (ml_dtypes.bfloat16, f"bf16[2,3] = {FLOATS}"),
        (ml_dtypes.float8_e4m3fn, f"f8_e4m3fn[2,3] = {FLOATS}"),
        (ml_dtypes.float8_e5m2, f"f8_e5m2[2,3] = {FLOATS}"),
        (ml_dtypes.int4, f"i4[2,3] = {WHOLE}"),
        (ml_dtypes.uint4, f"u4[2,3] = {WHOLE}"),
    ],
)
def test_constants_of_every_type_and_layout_keep_their_elements(dtype: Any, expected: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    for array in (jnp.asarray(values), values, np.asfortranarray(values)):
        closed_jaxpr = jax.make_jaxpr(lambda array=array: jnp.asarray(array)[None])()
        assert f"const a:{expected}" in text(closed_jaxpr)


def test_large_constants_and_odd_shapes_are_read() -> None:
    big = jnp.asarray(np.arange(4096, dtype=np.float32))
    empty = jnp.zeros((0, 3))
    scalar = jnp.asarray(np.float32(3.5))
    whole = text(jax.make_jaxpr(lambda x: (x + big[0], big, empty, scalar))(1.0))
    assert "f32[4096]" in whole
    assert "f32[0,3]" in whole


def test_an_array_has_the_name_it_is_given() -> None:
    weight = jnp.asarray(np.arange(3, dtype=np.float32))
    closed_jaxpr = jax.make_jaxpr(lambda x: x * weight)(weight)
    names = {id(const): "layer.weight" for const in closed_jaxpr.consts}
    assert '"layer.weight"' in text(closed_jaxpr, names=names)
    assert '"layer.weight"' not in text(closed_jaxpr)


def test_literals_of_every_kind_are_read() -> None:
    def fn(x: jax.Array) -> Any:
        half = x.astype(jnp.float16) * jnp.float16(1.5)
        brain = x.astype(jnp.bfloat16) * jnp.bfloat16(3)
        whole = x.astype(jnp.int32) + 7
        flag = (x > 0) & True
        small = x.astype(jnp.uint8) + np.uint8(200)
        return half, brain, whole, flag, small, jnp.where(x > 0, x, -jnp.inf)

    whole = read(fn, (2,))
    for literal in ("1.5:f16[]", "3.0:bf16[]", "7:i32[]", "200:u8[]", "-inf:f32[]"):
        assert literal in whole, whole


def helper(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


def test_frames_lead_from_the_operation_to_the_function_and_no_further() -> None:
    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("outer"):
            return jax.vmap(helper)(x)

    whole = text(trace.trace(fn, [(2,)], double_precision=False).closed_jaxpr, places=True)
    line = next(line for line in whole.splitlines() if "tanh" in line)
    own = re.findall(r'"[^"]*test_reader\.py":(\d+)[^<]* in ([^ ]+)', line)
    first = test_frames_lead_from_the_operation_to_the_function_and_no_further.__code__
    assert own == [
        (str(helper.__code__.co_firstlineno + 1), "helper"),
        (str(first.co_firstlineno + 3), f'"{fn.__qualname__}"'),
    ]
    assert "_tracing" not in line
    assert line.endswith("#outer/~vmap")


def test_a_shared_body_keeps_no_caller() -> None:
    inner = jax.jit(helper)

    def fn(x: jax.Array) -> jax.Array:
        return inner(x) + inner(x)

    whole = text(trace.trace(fn, [(2,)], double_precision=False).closed_jaxpr, places=True)
    tanh = [line for line in whole.splitlines() if "= tanh" in line]
    assert len(tanh) == 2
    for line in tanh:
        assert "helper" in line
        assert ".fn" not in line


def test_an_object_that_is_not_a_jaxpr_is_refused() -> None:
    with pytest.raises(_core.CoreError, match="cannot read"):
        text(3)
