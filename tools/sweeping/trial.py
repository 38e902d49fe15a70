"""One trial: export, check, run in ONNX Runtime, compare with JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime

import jax2onnx
from jax2onnx._comparing.arrays import compare

from .sets import ArgumentSet

RIGHT, REFUSED = "right", "refused"
LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "on": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def attempt(function: Callable[..., Any], one: ArgumentSet) -> tuple[str, str]:
    """Returns the verdict and what there is to say about it."""
    program, inputs = one.program(function), one.inputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = jax2onnx.to_onnx(program, list(inputs), provenance="off")
        except jax2onnx.UnsupportedError as error:
            return REFUSED, str(error).splitlines()[0].removeprefix("error: ")
        except Exception as error:
            return "crash", f"{type(error).__name__}: {_line(error)}"
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception as error:
            return "invalid", _line(error)
        compiled = [np.asarray(leaf) for leaf in jax.jit(program)(*inputs)]
        for name, level in LEVELS.items():
            try:
                founds = _run(model, inputs, level)
            except Exception as error:
                return "fails", f"optimizations {name}: {_line(error)}"
            problem = _difference(one, compiled, founds)
            if problem and _difference(one, _op_by_op(program, inputs), founds):
                return "wrong", f"optimizations {name}: {problem}"
    return RIGHT, ""


def _op_by_op(program: Callable[..., Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns what JAX computes one operation after the other.

    XLA simplifies what it compiles as a whole, which changes `0 / 0` and `inf - inf`. Both are
    JAX's numbers, and a result is right if it is either.
    """
    with jax.disable_jit():
        return [np.asarray(leaf) for leaf in program(*map(jax.numpy.asarray, inputs))]


def _difference(
    one: ArgumentSet, wants: Sequence[np.ndarray], founds: Sequence[np.ndarray]
) -> str | None:
    """Returns how the results differ from JAX's, if they do."""
    if len(founds) != len(wants):
        return f"{len(founds)} results where JAX has {len(wants)}"
    for index, (want, found) in enumerate(zip(wants, founds, strict=True)):
        if want.dtype.kind == "c" and found.shape[-1:] == (2,):
            found = np.ascontiguousarray(found).view(want.dtype)[..., 0]
        comparison = compare(f"result {index}", want, found, one.rtol, one.atol)
        if not comparison.is_match:
            return str(comparison)
    return None


def _run(model: onnx.ModelProto, inputs: Sequence[np.ndarray], level: Any) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {
        value.name: _in_parts(leaf) for value, leaf in zip(model.graph.input, inputs, strict=True)
    }
    return session.run(None, feeds)


def _in_parts(leaf: np.ndarray) -> np.ndarray:
    """Returns the array as the model takes it: complex numbers have an axis of two parts."""
    if leaf.dtype.kind != "c":
        return leaf
    return np.stack([leaf.real, leaf.imag], axis=-1)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
