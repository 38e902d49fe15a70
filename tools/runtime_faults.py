"""List the forms in docs/runtime-faults.md that the installed ONNX Runtime gets wrong.

    python tools/runtime_faults.py

The tool builds each form without jax2onnx, and runs it with optimizations off and on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Form = tuple[list[onnx.NodeProto], dict[str, np.ndarray], dict[str, np.ndarray]]


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def forms() -> dict[str, Form]:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    vector = np.arange(3, dtype=np.float32)
    counts = np.array([2, 3, 4], np.int32)
    image = -np.ones((1, 1, 4, 4), np.float32)
    around = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    transpose = node("Transpose", "a", "t", perm=[1, 0])
    padded = node("Pad", "t p v k", "u")
    return {
        "MatMul(Transpose(a), v)": (
            [transpose, node("MatMul", "t v", "y")],
            {"a": square, "v": vector},
            {},
        ),
        "MatMul(Transpose(a), b) of float64": (
            [transpose, node("MatMul", "t a", "y")],
            {"a": square.astype(np.float64)},
            {},
        ),
        "Mul(Div(1, x), y) of integers": (
            [node("Div", "c x", "d"), node("Mul", "d x", "y")],
            {"x": counts},
            {"c": np.int32(1)},
        ),
        "Mul(Div(1, x), y) that overflows": (
            [node("Div", "c x", "d"), node("Mul", "d x", "y")],
            {"x": np.array([1e-39], np.float32)},
            {"c": np.float32(1)},
        ),
        "Mul(Div(c, x), y) with c of rank 2": (
            [node("Div", "c x", "d"), node("Mul", "d x", "y")],
            {"x": vector + 1},
            {"c": np.ones((1, 1), np.float32)},
        ),
        "MatMul(Mul(x, c), y) with c of rank 3": (
            [node("Mul", "a c", "d"), node("MatMul", "d a", "y")],
            {"a": square},
            {"c": np.full((1, 1, 1), 2, np.float32)},
        ),
        "MatMul(Mul(x, inf), y)": (
            [node("Mul", "a c", "d"), node("MatMul", "d a", "y")],
            {"a": square},
            {"c": np.float32(np.inf)},
        ),
        "MatMul(Mul(x, 0.9), y) of float64": (
            [node("Mul", "a c", "d"), node("MatMul", "d a", "y")],
            {"a": square.astype(np.float64)},
            {"c": np.float64(0.9)},
        ),
        "Div(MatMul(x, y), 3) of float64": (
            [node("MatMul", "a a", "d"), node("Div", "d c", "y")],
            {"a": square.astype(np.float64)},
            {"c": np.float64(3)},
        ),
        "Clip(Relu(x), lo, hi) of float64": (
            [node("Relu", "x", "r"), node("Clip", "r lo hi", "y")],
            {"x": vector.astype(np.float64)},
            {"lo": np.float64(-1), "hi": np.float64(1)},
        ),
        "MaxPool(Pad(x))": (
            [node("Pad", "x p", "q"), node("MaxPool", "q", "y", kernel_shape=[2, 2])],
            {"x": image},
            {"p": around},
        ),
        "Reshape(Expand(Reshape(x))), empty": (
            [
                node("Reshape", "x q", "g"),
                node("Expand", "g s", "e"),
                node("Reshape", "e r", "f", allowzero=1),
                node("Concat", "f f", "y", axis=1),
            ],
            {"x": vector},
            {
                "q": np.array([3, 1, 1]),
                "s": np.array([3, 1, 0]),
                "r": np.array([3, 0]),
            },
        ),
        "Expand(x, [0])": (
            [node("Tanh", "x", "t"), node("Expand", "t s", "e"), node("Tanh", "e", "y")],
            {"x": square[:, :1]},
            {"s": np.array([0])},
        ),
        "Add of an empty constant": (
            [node("Add", "x c", "d"), node("Tanh", "d", "y")],
            {"x": square[:1, :1]},
            {"c": np.zeros((0, 3), np.float32)},
        ),
        "Pad with axes between transposes": (
            [transpose, padded, node("Transpose", "u", "y", perm=[1, 0])],
            {"a": square},
            {"p": np.array([1, 2]), "v": np.float32(0), "k": np.array([1])},
        ),
    }


def model_of(form: Form) -> onnx.ModelProto:
    nodes, inputs, constants = form

    def typed(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    graph = helper.make_graph(
        nodes,
        "form",
        [typed(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opset = helper.make_opsetid("", 22)
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[opset], ir_version=10)
    )


def run(form: Form, level: str) -> np.ndarray | str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    try:
        session = onnxruntime.InferenceSession(
            model_of(form).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, form[1])[0]
    except Exception as error:
        return f"fails: {str(error).splitlines()[0][:80]}"


def main() -> None:
    print(f"ONNX Runtime {onnxruntime.__version__}")
    for name, form in forms().items():
        off, on = run(form, "ORT_DISABLE_ALL"), run(form, "ORT_ENABLE_ALL")
        is_same = not isinstance(on, str) and np.array_equal(on, off, equal_nan=True)
        said = on if isinstance(on, str) else "right" if is_same else "wrong"
        print(f"{name:40} {said}")


if __name__ == "__main__":
    main()
