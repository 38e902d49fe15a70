"""Write crates/onnx/src/infer/cases.txt: the types that onnx infers for nodes of each operator.

    python tools/generate_types.py [--check]

Rust tests compare them with the types that jax2onnx infers, also with symbols in place of 7 and
11.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.defs
from onnx import TensorProto, helper, numpy_helper, shape_inference

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "crates" / "onnx" / "src" / "infer" / "cases.txt"
#: The opset of models that are read from text.
OPSET = 23
TYPES = {
    "bool": TensorProto.BOOL,
    "f16": TensorProto.FLOAT16,
    "f32": TensorProto.FLOAT,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
}
NAMES = {code: name for name, code in TYPES.items()}


class Case(NamedTuple):
    """A node: its operands are types, lists of integers, single integers, or left out."""

    op: str
    operands: tuple[Any, ...]
    results: int
    attrs: dict[str, Any]


def case(op: str, *operands: Any, results: int = 1, **attrs: Any) -> Case:
    return Case(op, operands, results, attrs)


X, M, IMAGE = "f32[2,7,11]", "f32[7,11]", "f32[2,6,7,11]"

ELEMENTWISE = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Clip", "Cos"),
    *("Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax"),
    *("Identity", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "Mish", "Neg"),
    *("Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid"),
    *("Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh"),
    *("ThresholdedRelu", "IsInf", "IsNaN", "Bernoulli", "RandomNormalLike", "RandomUniformLike"),
    *("Shape", "Size", "Trilu"),
)
BROADCASTING = (
    *("Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub", "Sum"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
)
REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
CASES = [
    *(case(op, X) for op in ELEMENTWISE),
    *(case(op, X, "f32[11]") for op in BROADCASTING),
    *(case(op, "f32[2,1,11]", M) for op in BROADCASTING),
    *(case(op, "bool[7,1]", "bool[11]") for op in ("And", "Or", "Xor")),
    *(case(op, "i32[7,1]", "i32[11]") for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(case(op, X, [1]) for op in REDUCTIONS),
    *(case(op, X, [0, -1], keepdims=0) for op in REDUCTIONS),
    *(case(op, X) for op in REDUCTIONS),
    case("ReduceSum", X, [], noop_with_empty_axes=1),
    case("Not", "bool[7,11]"),
    case("BitwiseNot", "i32[7,11]"),
    case("BitShift", "u8[7,1]", "u8[11]", direction="LEFT"),
    case("Where", "bool[7,1]", "f32[11]", X),
    case("Pow", X, "i32[11]"),
    case("Cast", X, to=TensorProto.FLOAT16),
    case("BitCast", X, to=TensorProto.INT32),
    case("CastLike", X, "i8[3]"),
    case("EyeLike", M, dtype=TensorProto.INT32),
    case("EyeLike", M),
    case("Dropout", X, results=2),
    case("Shape", X, start=1),
    case("Shape", X, start=-2, end=-1),
    case("ArgMax", X),
    case("ArgMin", X, axis=-1, keepdims=0),
    case("CumSum", X, 1),
    case("CumProd", X, 1),
    case("Transpose", X),
    case("Transpose", X, perm=[1, 2, 0]),
    case("Reshape", X, [2, -1]),
    case("Reshape", X, [0, 77]),
    case("Reshape", "f32[7,0]", [0, 3], allowzero=1),
    case("Squeeze", "f32[1,7,1,11]", [0, -2]),
    case("Squeeze", "f32[1,7,1,11]"),
    case("Unsqueeze", M, [0, -1]),
    case("Expand", "f32[7,1]", [2, 1, 11]),
    case("Flatten", X),
    case("Flatten", X, axis=0),
    case("Flatten", X, axis=3),
    case("Flatten", "f32[7]"),
    case("Flatten", X, axis=-1),
    case("Concat", X, "f32[2,5,11]", X, axis=1),
    case("Concat", M, "f32[2,11]", axis=-2),
    case("Split", X, [3, 8], results=2, axis=-1),
    case("Split", X, results=3, axis=1, num_outputs=3),
    case("Split", "f32[6,7]", results=2, num_outputs=2),
    case("Slice", X, [1], [2**63 - 1], [1]),
    case("Slice", X, [1, -3], [5, 2**63 - 1], [1, 2]),
    case("Slice", X, [0, 0], [-2, 9], [-1, 1], [3, 2]),
    case("Slice", X, [-1], [-(2**63)], [2], [-1]),
    case("Slice", X, [0, 2], [1, 4]),
    case("Gather", X, "i64[5,3]", axis=1),
    case("Gather", X, "i32[]"),
    case("GatherElements", X, "i64[2,3,11]", axis=1),
    case("GatherND", X, "i64[5,2]"),
    case("GatherND", X, "i64[2,5,1]", batch_dims=1),
    case("ScatterElements", X, "i64[1,3,11]", "f32[1,3,11]", axis=1),
    case("Scatter", X, "i64[1,3,11]", "f32[1,3,11]", axis=1),
    case("ScatterND", X, "i64[5,1]", "f32[5,7,11]"),
    case("TensorScatter", "f32[2,7,11]", "f32[2,3,11]"),
    case("Pad", X, [0, 1, 2, 0, 3, -1]),
    case("Pad", X, [1, 2, 3, 4], None, [0, -1]),
    case("Tile", X, [1, 3, 2]),
    case("Range", 2, 11, 3),
    case("Range", 7, 0, -1),
    case("ConstantOfShape", [7, 11]),
    case("Constant", value_ints=[1, 2, 3]),
    case("Constant", value_float=1.5),
    case("OneHot", M, 5, "i32[2]"),
    case("OneHot", M, 5, "f32[2]", axis=0),
    case("TopK", X, [3], results=2),
    case("TopK", X, [2], results=2, axis=1),
    case("DepthToSpace", "f32[2,12,7,11]", blocksize=2),
    case("SpaceToDepth", "f32[2,3,14,22]", blocksize=2),
    case("Resize", IMAGE, None, None, [2, 6, 14, 5]),
    case("ReverseSequence", X, "i64[7]"),
    case("MatMul", X, "f32[11,5]"),
    case("MatMul", "f32[11]", "f32[2,11,5]"),
    case("MatMul", X, "f32[11]"),
    case("MatMul", "f32[2,1,7,11]", "f32[3,11,7]"),
    case("MatMulInteger", "u8[2,7,11]", "u8[11,5]"),
    case("ConvInteger", "u8[2,6,7,11]", "u8[4,3,3,3]", group=2, pads=[1, 0, 1, 2], strides=[2, 1]),
    case("Gemm", M, "f32[11,5]"),
    case("Gemm", "f32[11,7]", "f32[5,11]", "f32[5]", transA=1, transB=1),
    case("Einsum", X, "f32[2,11,5]", equation="bij,bjk->bik"),
    case("Einsum", X, equation="bij->jb"),
    case("Det", "f32[7,3,3]"),
    case("Conv", IMAGE, "f32[5,6,3,3]"),
    case("Conv", IMAGE, "f32[6,3,2,3]", group=2, strides=[2, 3], pads=[1, 0, 2, 1]),
    case("Conv", "f32[2,3,11]", "f32[5,3,3]", dilations=[2]),
    case("ConvTranspose", IMAGE, "f32[6,5,3,3]", strides=[2, 3], pads=[1, 0, 1, 2]),
    case("ConvTranspose", IMAGE, "f32[6,4,2,3]", group=2, output_padding=[1, 0], strides=[2, 2]),
    case("MaxPool", IMAGE, results=2, kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 3], dilations=[2, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[1, 2]),
    case("LpPool", IMAGE, kernel_shape=[3, 3], strides=[2, 1]),
    *(case(op, IMAGE) for op in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")),
    case("GridSample", IMAGE, "f32[2,5,4,2]"),
    case("LRN", IMAGE, size=3),
    case("MeanVarianceNormalization", IMAGE, axes=[0, 2, 3]),
    case("BatchNormalization", IMAGE, *["f32[6]"] * 4),
    case("InstanceNormalization", IMAGE, "f32[6]", "f32[6]"),
    case("LayerNormalization", X, "f32[11]", results=3),
    case("LayerNormalization", X, "f32[7,11]", results=2, axis=1),
    case("RMSNormalization", X, "f32[11]"),
    case("PRelu", X, "f32[11]"),
    case("RotaryEmbedding", "f32[2,4,7,8]", "f32[2,7,4]", "f32[2,7,4]"),
    case("Attention", "f32[2,4,7,8]", "f32[2,2,11,8]", "f32[2,2,11,6]"),
    case("Attention", "f32[2,7,32]", "f32[2,11,16]", "f32[2,11,12]", q_num_heads=4, kv_num_heads=2),
    case("LSTM", "f32[7,11,3]", "f32[1,20,3]", "f32[1,20,5]", results=3, hidden_size=5),
    case("GRU", "f32[7,11,3]", "f32[1,15,3]", "f32[1,15,5]", results=2, hidden_size=5),
    case("RNN", "f32[7,11,3]", "f32[1,5,3]", "f32[1,5,5]", results=2, hidden_size=5),
    case("DFT", "f32[7,11,1]", onesided=1),
    case("DFT", "f32[7,11,2]", None, 0),
    case("DFT", "f32[7,11,2]", inverse=1),
    case("QuantizeLinear", X, "f32[]", "i8[]"),
    case("QuantizeLinear", X, "f32[]"),
    case("DequantizeLinear", "i8[7,11]", "f32[]"),
    case("DequantizeLinear", "i8[7,11]", "f16[]"),
    case("DynamicQuantizeLinear", M, results=3),
    case("RandomNormal", shape=[7, 11]),
    case("RandomUniform", shape=[7, 11], dtype=TensorProto.FLOAT16),
    case("Multinomial", M, sample_size=4, dtype=TensorProto.INT64),
    *(case(op, 7) for op in ("BlackmanWindow", "HammingWindow", "HannWindow")),
]


def type_text(proto: onnx.TypeProto) -> str | None:
    """The type as text, if onnx knows all sizes."""
    tensor = proto.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    return f"{NAMES[tensor.elem_type]}[{','.join(str(d.dim_value) for d in tensor.shape.dim)}]"


def opset_of(op: str) -> int:
    """The opset of the texts, or the one nearest to it that has the operator."""
    versions = {
        s.since_version: s
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == op and s.domain == ""
    }
    gone = [version for version, schema in versions.items() if schema.deprecated]
    return min(gone) - 1 if gone else max(OPSET, min(versions))


def attr_text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def text_of(this: Case) -> str:
    """The graph with the types that onnx infers."""
    inputs, initializers, names, shown = [], [], [], []
    for number, operand in enumerate(this.operands):
        name = f"x{number}"
        if operand is None:
            names.append("")
            shown.append("_")
        elif isinstance(operand, str):
            dtype, sizes = re.fullmatch(r"(\w+)\[(.*)\]", operand).groups()
            shape = [int(size) for size in sizes.split(",") if size]
            inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
            names.append(name)
            shown.append(name)
        else:
            initializers.append(numpy_helper.from_array(np.array(operand, np.int64), name))
            names.append(name)
            shown.append(f"{operand}:i64")
    results = [f"y{number}" for number in range(this.results)]
    node = helper.make_node(this.op, names, results, **this.attrs)
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], this.op, inputs, outputs, initializers)
    opset = helper.make_opsetid("", opset_of(this.op))
    model = helper.make_model(graph, opset_imports=[opset])
    found = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
    types = [type_text(value.type) for value in found]
    assert None not in types, f"onnx does not infer the types of {this}"
    typed = ", ".join(f"{name}:{ty}" for name, ty in zip(results, types, strict=True))
    given = [(value.name, type_text(value.type)) for value in inputs]
    head = ", ".join(f"{name}:{ty}" for name, ty in given)
    attrs = ", ".join(f"{name}={attr_text(value)}" for name, value in this.attrs.items())
    attrs = f" {{{attrs}}}" if attrs else ""
    return (
        f"graph g({head}) -> ({', '.join(results)})\n{typed} = {this.op}({', '.join(shown)}){attrs}"
    )


def text() -> str:
    head = "Generated by `tools/generate_types.py` from onnx; do not edit."
    return "\n\n".join([head, *map(text_of, CASES)]) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text() != text())
    TARGET.write_text(text())
