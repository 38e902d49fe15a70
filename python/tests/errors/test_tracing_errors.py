"""What an exception says that was raised while a function was traced."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import traceback
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jax2onnx import to_onnx

FILE = os.path.relpath(__file__)

VALUE = (
    "JAX traces the function without values; "
    "if this value never changes, bind it with functools.partial"
)
SIZE = (
    "JAX traces the function without a value for a named size; "
    "if the size never changes, export with a number instead of the name"
)


def branch(x: Any) -> Any:
    if x.sum() > 0:  # fails
        return x
    return -x


def largest(x: Any) -> Any:
    if max(x[0]) > 0:  # fails
        return x
    return -x


def clamped(x: Any) -> Any:
    return min(x[0, 0], 1.0)  # fails


def chosen(x: Any) -> Any:
    return x if any(x[0] > 0) else -x  # fails


def halved(x: Any) -> Any:
    while x.sum() > 1:  # fails
        x = x / 2
    return x


def inverted(x: Any) -> Any:
    return not x.any()  # fails


def asserted(x: Any) -> Any:
    assert not (x < 0).any()  # fails
    return x


def count(x: Any) -> Any:
    for i in range(x.shape[0]):  # fails
        x = x + i
    return x


class Module(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(3)(x)


def unbound(x: Any) -> Any:
    return Module()(x)  # fails


@functools.partial(jax.jit, static_argnums=1)
def scaled(x: Any, scales: Any) -> Any:
    return x * scales[0]


def static(x: Any) -> Any:
    return scaled(x, [1])  # fails


def with_numpy(x: Any) -> Any:
    return np.sin(np.asarray(x))  # fails


def masked(x: Any) -> Any:
    return x[x > 0]  # fails


def converted(x: Any) -> Any:
    return x * float(x[0, 0])  # fails


def counted(x: Any) -> Any:
    return [x, -x][x.argmax()]  # fails


def sized(x: Any) -> Any:
    return jnp.zeros(x[0, 0].astype(int))  # fails


def compared(x: Any) -> Any:
    return x if x.shape[0] > 4 else -x  # fails


def found(x: Any) -> Any:
    return jnp.nonzero(x)[0]  # fails


def single(x: Any) -> Any:
    return x * x[0, 0].item()  # fails


def cut(x: Any) -> Any:
    return x[: (x > 0).sum()]  # fails


def ranged(x: Any) -> Any:
    return jnp.arange(x[0, 0])  # fails


def repeated(x: Any) -> Any:
    return jnp.repeat(x, x.astype(int))  # fails


def divided(x: Any) -> Any:
    return x.reshape(2, -1)  # fails


def norm(x: Any) -> Any:
    return np.linalg.norm(x)  # fails


def described(x: Any) -> Any:  # fails
    return {"x": x, "name": "described"}


def mine(x: Any) -> Any:
    raise KeyError("mine")  # fails


BOUND = (
    "if the comparison always has the same result, state a bound: for `L >= 4`, pass a size of "
    "`jax.export.symbolic_shape('L', constraints=['L >= 4'])` as in docs/symbolic-shapes.md; "
    f"{SIZE}"
)

CASES = [
    (
        branch,
        jax.errors.TracerBoolConversionError,
        f"instead of `if`, use jnp.where or jax.lax.cond: {VALUE}",
    ),
    (
        largest,
        jax.errors.TracerBoolConversionError,
        "instead of max(...), use jnp.max(x) or jnp.maximum(a, b), and instead of `if`, use "
        f"jnp.where or jax.lax.cond: {VALUE}",
    ),
    (
        clamped,
        jax.errors.TracerBoolConversionError,
        f"instead of min(...), use jnp.min(x) or jnp.minimum(a, b): {VALUE}",
    ),
    (
        chosen,
        jax.errors.TracerBoolConversionError,
        "instead of any(...), use jnp.any(x), and instead of `if`, use jnp.where or "
        f"jax.lax.cond: {VALUE}",
    ),
    (
        halved,
        jax.errors.TracerBoolConversionError,
        f"instead of `while`, use jax.lax.while_loop: {VALUE}",
    ),
    (
        inverted,
        jax.errors.TracerBoolConversionError,
        f"instead of `not`, use ~ or jnp.logical_not: {VALUE}",
    ),
    (
        asserted,
        jax.errors.TracerBoolConversionError,
        "leave out the assertion, which needs a value, or use equinox.error_if, which the model "
        f"leaves out: {VALUE}",
    ),
    (count, TypeError, f"instead of range, use jax.lax.fori_loop or jax.lax.scan: {SIZE}"),
    (
        unbound,
        Exception,
        "bind the weights: export functools.partial(model.apply, variables)",
    ),
    (
        static,
        ValueError,
        "a static argument must be hashable: pass a tuple instead of a list, "
        "or a frozen dataclass instead of a dictionary",
    ),
    (
        with_numpy,
        jax.errors.TracerArrayConversionError,
        "instead of functions of numpy, use those of jax.numpy, and index an array of numpy as "
        "jnp.asarray(array)[index]",
    ),
    (
        masked,
        jax.errors.NonConcreteBooleanIndexError,
        "the size of the result depends on values: use jnp.where(mask, x, 0), "
        "or jnp.nonzero(mask, size=...) with the largest size",
    ),
    (
        converted,
        jax.errors.ConcretizationTypeError,
        f"instead of float(x), use x.astype(float): {VALUE}",
    ),
    (
        counted,
        jax.errors.TracerIntegerConversionError,
        "instead of range or an index into a list, use jax.lax.fori_loop, jnp.take or "
        f"jax.lax.dynamic_slice: {VALUE}",
    ),
    (sized, TypeError, "a shape cannot depend on values: use the largest size and a mask"),
    (compared, Exception, BOUND),
    (
        found,
        jax.errors.ConcretizationTypeError,
        "the size of the result depends on values: pass size=... with the largest size, and "
        "fill_value=... for the rest",
    ),
    (
        single,
        jax.errors.ConcretizationTypeError,
        "leave out .item(): an array with one element works like a number in jnp; " + VALUE,
    ),
    (
        cut,
        IndexError,
        "a slice has a fixed size: use jax.lax.dynamic_slice_in_dim with the largest size, or a "
        "mask",
    ),
    (
        ranged,
        jax.errors.ConcretizationTypeError,
        "a shape cannot depend on values: use the largest size and a mask",
    ),
    (
        repeated,
        jax.errors.ConcretizationTypeError,
        "the size of the result depends on values: pass total_repeat_length=... with the largest "
        "size",
    ),
    (
        divided,
        Exception,
        "if the named size is always a multiple, say so in the spec: for example `4*B` instead of "
        "`B`; " + SIZE,
    ),
    (
        norm,
        jax.errors.TracerArrayConversionError,
        "instead of functions of numpy, use those of jax.numpy, and index an array of numpy as "
        "jnp.asarray(array)[index]",
    ),
    (
        described,
        TypeError,
        "a model returns arrays and numbers: export a function that returns only those",
    ),
    (mine, KeyError, None),
]


@pytest.mark.parametrize(
    ("fn", "kind", "hint"), CASES, ids=lambda each: getattr(each, "__name__", "")
)
def test_an_exception_of_a_trace_keeps_its_type_and_gains_a_note(
    fn: Any, kind: type[Exception], hint: str | None
) -> None:
    with pytest.raises(kind) as raised:
        to_onnx(fn, [("B", 3)])
    assert raised.type is type(failure(fn))
    lines, start = inspect.getsourcelines(fn)
    offset, text = next((n, each) for n, each in enumerate(lines) if "# fails" in each)
    number = f"{start + offset:>2}"
    assert raised.value.__notes__[-1].splitlines() == [
        f"jax2onnx traced `{fn.__name__}` with `x` float32[B,3]",
        f"  --> {FILE}:{start + offset}, in {fn.__name__}",
        f"{' ' * len(number)} |",
        f"{number} | {text.rstrip()}",
        *(["", f"hint: {hint}"] if hint else []),
    ]


def failure(fn: Any) -> Exception:
    """Return what JAX itself raises."""
    size = jax.export.symbolic_shape("B, 3")
    struct: Any = jax.ShapeDtypeStruct
    with pytest.raises(Exception) as raised:  # noqa: PT011
        jax.make_jaxpr(fn)(struct(size, jnp.float32))
    return raised.value


class Net(nnx.Module):
    """Changes itself when it is traced, so that the function is traced twice."""

    def __init__(self) -> None:
        self.norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return branch(self.norm(x))


@pytest.mark.parametrize("fn", [branch, Net()])
@pytest.mark.parametrize("options", [{}, {"inputs_as_nchw": [0]}])
def test_no_frame_of_jax2onnx_is_between_the_call_and_the_line(
    fn: Any, options: dict[str, Any]
) -> None:
    shape = ("B", 2, 2, 3)
    with pytest.raises(jax.errors.TracerBoolConversionError) as raised:
        to_onnx(fn, [shape], **options)
    text = "".join(traceback.format_exception(raised.value))
    package = os.path.dirname(inspect.getfile(to_onnx))
    assert package not in text
    assert text.count("Traceback (most recent call last)") == 1
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert (frames[0].name, frames[-1].name) == (
        "test_no_frame_of_jax2onnx_is_between_the_call_and_the_line",
        "branch",
    )


def test_the_note_names_nested_inputs_and_leaves_out_the_tenth() -> None:
    def step(x: Any, cache: Any, *, scale: Any) -> Any:
        return x if scale > 0 else cache

    with pytest.raises(jax.errors.TracerBoolConversionError) as raised:
        to_onnx(step, [(2,), [{"k": ("B", 4)} for _ in range(6)]], {"scale": 1.0})
    assert raised.value.__notes__[-1].splitlines()[0] == (
        "jax2onnx traced `step` with `x` float32[2], `cache.0.k` float32[B,4], "
        "`cache.1.k` float32[B,4], `cache.2.k` float32[B,4], `cache.3.k` float32[B,4], "
        "`cache.4.k` float32[B,4] and 2 more"
    )


def test_named_sizes_that_do_not_fit_get_a_hint_and_numbers_do_not() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(TypeError) as raised:
        to_onnx(add, [("A", 3), ("B", 3)])
    hint = "hint: if two named sizes are always equal, give both the same name"
    assert raised.value.__notes__[-1].splitlines()[-1] == hint
    with pytest.raises(TypeError) as raised:
        to_onnx(add, [(2, 3), (4, 3)])
    assert "hint: " not in raised.value.__notes__[-1]


def test_a_module_without_weights_is_explained_without_a_line() -> None:
    with pytest.raises(Exception, match="unbound") as raised:
        to_onnx(Module(), [("B", 3)])
    assert raised.value.__notes__[-1].splitlines() == [
        "jax2onnx traced `Module` with `x` float32[B,3]",
        "",
        "hint: bind the weights: export functools.partial(model.apply, variables)",
    ]


def test_a_library_of_another_environment_is_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "elsewhere" / "site-packages"
    place.mkdir(parents=True)
    (place / "sample_signs.py").write_text("def sign(x):\n    return 1 if x.sum() > 0 else -1\n")
    monkeypatch.syspath_prepend(place)
    module = importlib.import_module("sample_signs")

    def signed(x: Any) -> Any:
        return x * module.sign(x)

    with pytest.raises(jax.errors.TracerBoolConversionError) as raised:
        to_onnx(signed, [(2,)])
    assert "return x * module.sign(x)" in raised.value.__notes__[-1]
