"""The documentation of runtimes that cannot run everywhere, as facts with version and date.

The lists are those of the operators that `examples.py` knows. Nothing here was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import onnx
from onnx import helper

from . import models, operators
from .abilities import Ability
from .examples import EXAMPLES
from .forms import abilities

FLOATS: Final = ("float32", "float16", "bfloat16")
NUMBERS: Final = (*FLOATS, "int32", "int64")
ALL: Final = (*NUMBERS, "bool")


@dataclass(frozen=True)
class Documented:
    """A runtime, the page that describes it, and what the page says."""

    name: str
    version: str
    opset: int
    #: Where and when.
    source: str
    date: str
    #: The types of the first operand, or of the first result, by operator.
    types: dict[str, tuple[str, ...]]
    #: The prefixes of forms that the page excludes.
    lacks: tuple[str, ...]
    inputs: tuple[str, ...] = ALL
    limits: tuple[str, ...] = field(default=())


def _listed(groups: dict[tuple[str, ...], str]) -> dict[str, tuple[str, ...]]:
    return {op: types for types, ops in groups.items() for op in ops.split()}


TENSORRT: Final = Documented(
    name="tensorrt",
    version="10.15",
    opset=24,
    source="`docs/operators.md` of onnx/onnx-tensorrt",
    date="2026-11-18",
    types=_listed({
        ("bool",):
        "And Not Or Xor",
        ("float32", "float16"):
        "BlackmanWindow GridSample HammingWindow HannWindow Mish NonZero",
        FLOATS:
        "Acos Acosh Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Ceil Celu "
        "Clip Conv ConvTranspose Cos Cosh CumSum Dropout Einsum Elu Erf Exp Floor Gemm "
        "GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization GRU HardSigmoid "
        "HardSwish Hardmax InstanceNormalization IsInf LayerNormalization LeakyRelu Log "
        "LogSoftmax LRN LSTM LpNormalization LpPool MatMul MaxPool MeanVarianceNormalization "
        "PRelu QuantizeLinear Reciprocal Resize RMSNormalization RNN RotaryEmbedding Round "
        "Scan Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu",
        (*FLOATS, "int32"):
        "TensorScatter",
        NUMBERS:
        "Abs Add ArgMax ArgMin DepthToSpace Div Equal Gelu Greater GreaterOrEqual IsNaN Less "
        "LessOrEqual Max Mean Min Mod Mul Neg Pad Pow Range ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare "
        "Relu ScatterElements ScatterND Shrink Sign SpaceToDepth Sub Sum",
        ALL:
        "Concat Constant ConstantOfShape Expand EyeLike Flatten Gather GatherElements "
        "GatherND Identity If Loop OneHot ReverseSequence Reshape Shape Size Slice Split "
        "Squeeze Tile Transpose Trilu Unsqueeze Where",
        (*ALL, "uint8"):
        "Cast CastLike",
        ("int8",):
        "DequantizeLinear",
    }),
    lacks=(
        "AttentionPast", "AttentionSoftcap", "AttentionThreeDimensions", "AveragePoolDilation",
        "AveragePoolOneDimension", "BatchNormalizationTwoDimensions", "DynamicTopK", "EmptyReduce",
        "LayerNormalizationSeveralResults", "LoopGrowingState", "LoopScanOutputWhile",
        "MaxPoolDilation", "MaxPoolIndices", "MaxPoolOneDimension", "ReduceDynamicAxes",
        "ResizeAxes", "ResizeCubic", "ResizeLinearAntialias", "ResizeExcludeOutside",
        "ScatterNdAdd", "ScatterNdMax", "ScatterNdMin", "ScatterNdMul", "DequantizePerAxis",
        "QuantizePerAxis",
    ),
    inputs=(*ALL, "uint8"),
    limits=(
        "A double becomes a float32.",
        "A uint8 is an input or an output of the model only.",
        "`TopK` sorts, and takes less than 3840 elements.",
        "The zero point of a quantization is 0.",
        "The branches of an `If` return arrays of the same rank.",
        "The values that a `Loop` carries keep their shapes.",
        "`CumSum` has a constant axis, `OneHot` a constant depth.",
        "`TensorScatter` takes four axes, and writes along the last but one.",
    ),
)  # fmt: skip

COREML: Final = Documented(
    name="coreml",
    version="1.31",
    opset=23,
    source="`tools/ci_build/github/apple/coreml_supported_mlprogram_ops.md` of "
    "microsoft/onnxruntime (ML Program)",
    date="2026-11-18",
    types=_listed({
        ("float32",):
        "Pow",
        ("float32", "float16"):
        "Add ArgMax AveragePool Cast Clip Concat Conv ConvTranspose Cos DepthToSpace Ceil Div "
        "Elu Erf Exp GatherND Gemm Gelu GlobalAveragePool GlobalMaxPool GridSample "
        "GroupNormalization HardSigmoid Identity InstanceNormalization LayerNormalization "
        "LeakyRelu MatMul MaxPool Max Mul PRelu Reciprocal ReduceSum ReduceMean ReduceMax "
        "Relu Reshape Resize Round Shape Sin Slice Softplus Split Sub Sigmoid Softmax Sqrt "
        "Squeeze Tanh Tile Transpose Unsqueeze",
        ("float32", "float16", "int32"):
        "Range",
    }),
    lacks=(
        "AveragePoolOneDimension", "AveragePoolThreeDimensions", "ConvBatch",
        "ConvThreeDimensions", "ConvTransposeDynamicWeights", "ConvTransposeGroup",
        "ConvTransposeDilation", "ConvTransposePads", "ConvTransposeOneDimension",
        "ConvTransposeThreeDimensions", "ConvTransposeOutputPadding", "DynamicSlice",
        "GemmTransposed", "GemmWithoutBias", "GemmScalarBias", "MaxPoolIndices",
        "MaxPoolOneDimension", "MaxPoolThreeDimensions",
        "PowIntegerExponent", "SymbolicSlice", "GatherNdBatch",
    ),
    inputs=("float32", "float16", "int32", "int64", "bool"),
    limits=(
        "ONNX Runtime runs what this provider does not on the CPU.",
        "The page names no types; most builders take float32 and float16.",
        "`Gemm` has a constant second operand, `Conv` a constant bias, `ConvTranspose` constant "
        "weights.",
        "`Reciprocal` adds 1e-4 to its operand.",
        "`Tile` takes at most five axes.",
    ),
)  # fmt: skip

QNN: Final = Documented(
    name="qnn",
    version="2.5.0",
    opset=26,
    source="`docs/execution_providers/QNN-ExecutionProvider.md` of onnxruntime/onnxruntime-qnn "
    "2.3, and the notes of releases 2.4.0 and 2.5.0",
    date="2026-08-20",
    types=_listed({
        ("bool",):
        "And Not Or Xor",
        ("float32", "float16"):
        "Abs Add ArgMax ArgMin Asin Atan AveragePool BatchNormalization Cast Ceil Clip Concat "
        "Conv ConvTranspose Cos CumSum DepthToSpace Div Einsum Elu Equal Exp Expand Flatten "
        "Floor Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool "
        "Greater GreaterOrEqual GridSample GroupNormalization GRU HardSigmoid HardSwish "
        "Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu "
        "Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool Mean Min "
        "Mod Mul Neg NonZero OneHot Pad Pow QuantizeLinear Reciprocal ReduceL2 "
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu "
        "RMSNormalization Reshape Resize Round RotaryEmbedding ScatterElements ScatterND Selu "
        "Shape Sigmoid Sign Sin Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub "
        "Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Unsqueeze Where",
        ("float32", "float16", "int32"):
        "PRelu",
        ("uint8", "uint16", "int8", "int16", "int32"):
        "DequantizeLinear",
    }),
    lacks=("Symbolic", "ScanSymbolic", "Loop", "Scan", "Dynamic", "GatherNegative"),
    inputs=("float32", "float16", "int32", "int64", "bool", "uint8", "uint16"),
    limits=(
        "ONNX Runtime runs what this provider does not on the CPU.",
        "The types depend on the backend; the page lists few. By default, the HTP backend computes "
        "float32 in float16.",
        "The sizes of all arrays are fixed when the session is created.",
        "`Gather` takes indices from 0 on.",
        "`GRU` is unrolled, and has its default activations.",
        "`OneHot` has a constant depth and constant values, and takes indices from 0 on.",
        "`LpNormalization` has `p` = 2.",
        "`RotaryEmbedding` needs the HTP backend.",
    ),
)  # fmt: skip

DOCUMENTED: Final = (TENSORRT, COREML, QNN)


def found(documented: Documented) -> dict[str, Any]:
    """Returns the facts in the form in which a probe stores its results."""
    entries = {}
    for op in sorted(EXAMPLES):
        entries[op] = [
            {"since": since, "until": until, "types": _types(documented, op, until)}
            for since, until in operators.versions(op, documented.opset)
        ]
    places = {place: {"right": list(documented.inputs)} for place in ("inputs", "outputs")}
    able = [form.name for form in abilities() if _is_able(documented, form)]
    return {
        "runtime": documented.name,
        "version": documented.version,
        "documentation": documented.date,
        "source": documented.source,
        "limits": documented.limits,
        "opsets": list(range(operators.OLDEST, documented.opset + 1)),
        "abilities": {"right": able},
        "boundaries": {**places, "constants": {"right": list(documented.inputs)}},
        "casts": {},
        "operators": entries,
    }


def _types(documented: Documented, op: str, opset: int) -> dict[str, dict[str, list[str]]]:
    schema = onnx.defs.get_schema(op, opset, "")
    listed = documented.types.get(op, ())
    # The condition of these is not what the page means.
    at = {"If": -1, "Loop": -1, "Where": 1, "OneHot": 2}.get(op, 0)
    parameters = schema.inputs or schema.outputs
    main = (schema.outputs if at < 0 else parameters)[max(at, 0)].type_str
    taken: dict[str, dict[str, list[str]]] = {}
    for variable, allowed in models.variables(op, opset).items():
        names = listed if variable == main else (*documented.inputs, *listed)
        both = [name for name in allowed if listed and name in names]
        taken[variable] = {
            "right": both,
            "refused: not listed": [name for name in allowed if name not in both],
        }
    return taken


def _is_able(documented: Documented, form: Ability) -> bool:
    if form.name.startswith(documented.lacks) or form.parsed.functions:
        return False
    types = {
        helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
        for value in (*form.parsed.graph.input, *form.parsed.graph.output)
    }
    known = all(node.op_type in documented.types for node in _nodes(form.parsed.graph))
    return known and types <= {*documented.inputs}


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
