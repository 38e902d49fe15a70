"""Converting, running and comparing: what every end-to-end test is made of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.extend.core
import ml_dtypes
import numpy as np
import onnx
import onnxruntime

import jax2onnx

#: NumPy types that ONNX Runtime's Python interface does not take.
_AS_BITS = {
    np.dtype(ml_dtypes.bfloat16): np.uint16,
    np.dtype(ml_dtypes.float8_e4m3fn): np.uint8,
    np.dtype(ml_dtypes.float8_e5m2): np.uint8,
}


@contextlib.contextmanager
def precision(double: bool) -> Iterator[None]:
    """JAX with 64-bit types, or without."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", double)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def convert(
    fn: Any, inputs: Sequence[Any], *, double: bool = False, **options: Any
) -> onnx.ModelProto:
    """Convert for the shapes and types of `inputs`, and let ONNX check the model."""
    model = jax2onnx.to_onnx(fn, list(inputs), enable_double_precision=double, **options)
    onnx.checker.check_model(model, full_check=True)
    return model


def expected(fn: Any, inputs: Sequence[Any], *, double: bool = False) -> list[np.ndarray]:
    """What JAX computes."""
    with precision(double):
        results = jax.jit(fn)(*inputs)
        return [in_parts(result) for result in jax.tree.leaves(results)]


def in_parts(array: Any) -> np.ndarray:
    """An array as the model has it: random keys and complex numbers have an axis of parts."""
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(array))
    array = np.asarray(array)
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=-1)


def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[np.ndarray]:
    """What ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    leaves = [in_parts(leaf) for leaf in jax.tree.leaves(tuple(inputs))]
    binding = session.io_binding()
    for value, leaf in zip(model.graph.input, leaves, strict=True):
        code = value.type.tensor_type.elem_type
        bits = np.require(leaf, requirements="C").view(_AS_BITS.get(leaf.dtype, leaf.dtype))
        ortvalue = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code)
        binding.bind_ortvalue_input(value.name, ortvalue)
    for value in model.graph.output:
        binding.bind_output(value.name)
    session.run_with_iobinding(binding)
    return [
        _to_numpy(value, info.type.tensor_type.elem_type)
        for value, info in zip(binding.get_outputs(), model.graph.output, strict=True)
    ]


def _to_numpy(value: onnxruntime.OrtValue, code: int) -> np.ndarray:
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    if dtype not in _AS_BITS:
        return value.numpy()
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, dtype)
    import ctypes

    bits = np.dtype(_AS_BITS[dtype])
    buffer = (ctypes.c_char * (count * bits.itemsize)).from_address(value.data_ptr())
    return np.frombuffer(buffer, dtype=bits).copy().view(dtype).reshape(shape)


def assert_same(found: np.ndarray, want: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Fail unless type, shape and every element are what JAX has."""
    assert found.dtype == want.dtype, f"type {found.dtype} where JAX has {want.dtype}"
    assert found.shape == want.shape, f"shape {found.shape} where JAX has {want.shape}"
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, want)
        return
    # NumPy does not know NaN in types that are not its own.
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    found, want = found.astype(wide), want.astype(wide)
    if rtol or atol:
        np.testing.assert_allclose(found, want, rtol=rtol, atol=atol)
        return
    np.testing.assert_array_equal(found, want)
    if wide is np.float64:
        zeros = want == 0
        signs = np.signbit(found[zeros]), np.signbit(want[zeros])
        np.testing.assert_array_equal(*signs, "the sign of a zero")


def primitives_of(fn: Any, inputs: Sequence[Any], *, double: bool = False) -> set[str]:
    """Every primitive in the jaxpr of `fn`, bodies included."""
    with precision(double):
        closed = jax.make_jaxpr(fn)(*inputs)
    found: set[str] = set()

    def visit(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            found.add(eqn.primitive.name)
            for param in eqn.params.values():
                for inner in jax.tree.leaves(
                    param, is_leaf=lambda x: isinstance(x, jax.extend.core.ClosedJaxpr)
                ):
                    if isinstance(inner, jax.extend.core.ClosedJaxpr):
                        visit(inner.jaxpr)
                    elif isinstance(inner, jax.extend.core.Jaxpr):
                        visit(inner)

    visit(closed.jaxpr)
    return found
