"""Converting, running and comparing: what every end-to-end test is made of."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import jax
import jax.extend.core
import ml_dtypes
import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime

import jax2onnx

from . import elsewhere, references

#: Primitives that move or compare numbers, hold others, or round nothing: the same on every CPU.
_EXACT = frozenset(
    [
        *("broadcast_in_dim", "concatenate", "copy", "dynamic_slice", "dynamic_update_slice"),
        *("expand_dims", "gather", "iota", "pad", "reshape", "rev", "scatter", "select_n", "slice"),
        *("sort", "split", "squeeze", "transpose"),
        *("argmax", "argmin", "eq", "ge", "gt", "is_finite", "le", "lt", "ne"),
        *("abs", "ceil", "complex", "conj", "floor", "imag", "neg", "real", "round", "sign"),
        *("cond", "custom_jvp_call", "custom_vjp_call", "jit", "pjit", "scan", "while"),
    ]
)

#: NumPy types that ONNX Runtime's Python interface does not take.
_AS_BITS = {
    np.dtype(ml_dtypes.bfloat16): np.uint16,
    np.dtype(ml_dtypes.float8_e4m3fn): np.uint8,
    np.dtype(ml_dtypes.float8_e5m2): np.uint8,
    np.dtype(ml_dtypes.float8_e4m3fnuz): np.uint8,
    np.dtype(ml_dtypes.float8_e5m2fnuz): np.uint8,
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
    assert_types(model)
    return model


def assert_types(model: onnx.ModelProto) -> None:
    """Compare the types in a model with those that onnx infers from its nodes alone."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        output.ClearField("type")
    try:
        inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        # With the contents of shapes, onnx refuses the product of a column and a row of integers.
        inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True)
    stated = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        found, wanted = value.type.tensor_type, stated[value.name].tensor_type
        if not found.HasField("shape"):
            continue
        assert found.elem_type == wanted.elem_type, value.name
        assert len(found.shape.dim) == len(wanted.shape.dim), value.name
        for size, other in zip(found.shape.dim, wanted.shape.dim, strict=True):
            assert not size.HasField("dim_value") or size == other, f"{value.name}: {size}{other}"


class Reference(np.ndarray):
    """What JAX computes on this CPU, and what it computes on others where that differs."""

    elsewhere: dict[str, np.ndarray]

    def __array_finalize__(self, source: np.ndarray | None) -> None:
        self.elsewhere = {}


def expected(fn: Any, inputs: Sequence[Any], *, double: bool = False) -> list[Reference]:
    """What JAX computes."""
    with precision(double):
        computation = references.Computation.of(fn, inputs)
        results = references.kept(computation, os.environ.get("XLA_FLAGS", ""), computation.run)
        wanted = [in_parts(result).view(Reference) for result in results]
        if elsewhere.CPUS and depends_on_cpu(computation.jaxpr):
            for cpu, others in elsewhere.compute(computation, results).items():
                for reference, other in zip(wanted, others, strict=True):
                    reference.elsewhere[cpu] = in_parts(other)
    return wanted


def depends_on_cpu(jaxpr: jax.extend.core.ClosedJaxpr) -> bool:
    """Return whether a jaxpr computes with floats, and not only with integers or moves."""
    return any(
        eqn.primitive.name not in _EXACT
        and any(has_floats(var.aval) for var in (*eqn.invars, *eqn.outvars))
        for eqn in equations_in(jaxpr)
    )


def has_floats(aval: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(aval, "dtype", np.bool_), np.inexact)


def in_parts(array: Any) -> np.ndarray:
    """An array as the model has it: random keys and complex numbers have an axis of parts."""
    if references.is_key(array):
        return np.asarray(jax.random.key_data(array))
    array = np.asarray(array)
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=-1)


#: Whether passes rewrite the graph, and whether ONNX Runtime does.
VARIANTS: Final = [(passes, runtime) for passes in (True, False) for runtime in (True, False)]


def check(
    fn: Any,
    inputs: Sequence[Any],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    double: bool = False,
    want: Sequence[np.ndarray] | None = None,
    **options: Any,
) -> onnx.ModelProto:
    """Fail unless the model computes what JAX computes, with and without passes, and with and
    without ONNX Runtime's optimizations. Returns the model with passes.

    `want` takes the place of what JAX computes.
    """
    if want is None:
        want = expected(fn, inputs, double=double)
    models = {
        passes: convert(fn, inputs, double=double, optimize=passes, **options)
        for passes in (True, False)
    }
    for passes, runtime in VARIANTS:
        found = run(models[passes], inputs, optimize=runtime)
        try:
            assert_all_same(found, want, rtol, atol)
        except AssertionError as error:
            raise AssertionError(f"{variant_name(passes, runtime)}: {error}") from None
    return models[True]


def variant_name(passes: bool, runtime: bool) -> str:
    """The name of a variant in messages."""
    words = {True: "on", False: "off"}
    return f"passes {words[passes]}, ONNX Runtime's optimizations {words[runtime]}"


def session(model: onnx.ModelProto, *, optimize: bool = True) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime, with or without its graph optimizations."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(
    model: onnx.ModelProto, inputs: Sequence[Any], *, optimize: bool = True
) -> list[np.ndarray]:
    """What ONNX Runtime computes, with or without its graph optimizations."""
    return run_session(session(model, optimize=optimize), model, inputs)


def run_session(
    session: onnxruntime.InferenceSession, model: onnx.ModelProto, inputs: Sequence[Any]
) -> list[np.ndarray]:
    """What a session of the model computes."""
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


def assert_all_same(
    found: Sequence[np.ndarray], want: Sequence[np.ndarray], rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Fail unless every result is what JAX has."""
    assert len(found) == len(want), f"{len(found)} results where JAX has {len(want)}"
    for one_found, one_want in zip(found, want, strict=True):
        assert_same(one_found, one_want, rtol, atol)


def assert_same(found: np.ndarray, want: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Fail unless type, shape and every element are what JAX has, on every CPU."""
    assert_equal(found, want, rtol, atol)
    for cpu, other in getattr(want, "elsewhere", {}).items():
        assert_equal(found, other, rtol, atol, f"with the instructions of {cpu}")


def assert_equal(
    found: np.ndarray, want: np.ndarray, rtol: float, atol: float, where: str = ""
) -> None:
    """Fail unless type, shape and every element are those of one reference."""
    assert found.dtype == want.dtype, f"type {found.dtype} where JAX has {want.dtype}"
    assert found.shape == want.shape, f"shape {found.shape} where JAX has {want.shape}"
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, want, where)
        return
    # NumPy does not know NaN in types that are not its own.
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    found, want = np.asarray(found).astype(wide), np.asarray(want).astype(wide)
    if rtol or atol:
        np.testing.assert_allclose(found, want, rtol=rtol, atol=atol, err_msg=where)
        return
    np.testing.assert_array_equal(found, want, where)
    if wide is np.float64:
        zeros = want == 0
        signs = np.signbit(found[zeros]), np.signbit(want[zeros])
        np.testing.assert_array_equal(*signs, f"the sign of a zero {where}")


def primitives_of(fn: Any, inputs: Sequence[Any], *, double: bool = False) -> set[str]:
    """Every primitive in the jaxpr of `fn`, bodies included."""
    with precision(double):
        return {eqn.primitive.name for eqn in equations_of(fn, inputs)}


def complex_primitives(fn: Any, inputs: Sequence[Any], *, double: bool = False) -> set[str]:
    """Every primitive that reads or computes complex numbers in the jaxpr of `fn`."""
    with precision(double):
        return {
            eqn.primitive.name
            for eqn in equations_of(fn, inputs)
            if any(
                jax.numpy.issubdtype(getattr(var.aval, "dtype", bool), jax.numpy.complexfloating)
                for var in (*eqn.invars, *eqn.outvars)
            )
        }


def equations_of(fn: Any, inputs: Sequence[Any]) -> list[Any]:
    """Every equation in the jaxpr of `fn`, bodies included."""
    return equations_in(jax.make_jaxpr(fn)(*inputs))


def equations_in(closed: jax.extend.core.ClosedJaxpr) -> list[Any]:
    """Every equation in a jaxpr, bodies included."""
    found: list[Any] = []

    def visit(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            found.append(eqn)
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
