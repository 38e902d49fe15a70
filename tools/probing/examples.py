"""One small use of each operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .values import dtype_of

NUMBER: Final = {
    **{name.lower(): value for name, value in TensorProto.DataType.items()},
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
}


@dataclass(frozen=True)
class Data:
    """An operand whose numbers vary."""

    shape: tuple[int, ...]
    domain: str = "any"


@dataclass(frozen=True)
class Fixed:
    """An operand with these numbers, which runtimes want to know when they load the model."""

    numbers: Any


Operand = Data | Fixed | None
#: The type of each variable of the schema.
Types = dict[str, str]


@dataclass(frozen=True)
class Example:
    operands: tuple[Operand, ...]
    attributes: dict[str, Any] | Callable[[Types], dict[str, Any]] = field(default_factory=dict)
    outputs: int = 1
    #: True if each number of the result depends on at most one number of each operand.
    elementwise: bool = False
    #: True if large floats would make the result depend on the order of a sum.
    sums: bool = False
    #: True if a small change of an operand never makes the result jump.
    smooth: bool = False
    #: The usual types of variables.
    types: Types = field(default_factory=dict)
    #: Variables of which only these types are in use.
    narrow: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def attributes_for(self, types: Types) -> dict[str, Any]:
        return self.attributes(types) if callable(self.attributes) else self.attributes


def d(*shape: int, domain: str = "any") -> Data:
    return Data(shape, domain)


def f(*numbers: Any) -> Fixed:
    return Fixed(list(numbers))


def scalar(number: Any) -> Fixed:
    return Fixed(number)


def tensor(numbers: Any, name: str) -> onnx.TensorProto:
    """Returns a constant of a type with this name of ONNX."""
    array = np.asarray(numbers).astype(dtype_of(name))
    return numpy_helper.from_array(array)


X: Final = d(9, 11)
IMAGE: Final = d(1, 2, 6, 6)

EXAMPLES: dict[str, Callable[[int], Example]] = {}


def add(ops: str, *operands: Operand, **rest: Any) -> None:
    for op in ops.split():
        EXAMPLES[op] = lambda _: Example(operands, **rest)


def by_opset(op: str) -> Callable[[Callable[[int], Example]], Callable[[int], Example]]:
    def note(function: Callable[[int], Example]) -> Callable[[int], Example]:
        for each in op.split():
            EXAMPLES[each] = function
        return function

    return note


add(
    "Abs Acos Asin Asinh Atan Atanh Ceil Celu Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
    "Identity IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign "
    "Sinh Softplus Softsign Sqrt Swish Tanh ThresholdedRelu BitwiseNot Not",
    X,
    elementwise=True,
)
# Programs have no angles as large as a mask, and the square of a mask overflows.
add("Acosh Cos Sin Tan", d(9, 11, domain="moderate"), elementwise=True, smooth=True)
add(
    "Add Sub Mul And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual BitwiseAnd BitwiseOr "
    "BitwiseXor Max Min Sum Mean PRelu",
    X,
    X,
    elementwise=True,
)
add("Div", X, d(9, 11, domain="divisor"), elementwise=True)
add(
    "Mod",
    X,
    d(9, 11, domain="divisor"),
    attributes=lambda types: {"fmod": int("float" in types["T"])},
    elementwise=True,
)
# A form of its own has an exponent that varies.
add("Pow", X, scalar(2), elementwise=True)
add("BitShift", X, d(9, 11, domain="shift"), attributes={"direction": "RIGHT"}, elementwise=True)
add("Where", d(9, 11), X, X, elementwise=True)
add("Clip", X, scalar(1), scalar(4), elementwise=True)
add("Cast", X, attributes=lambda types: {"to": NUMBER[types["T2"]]}, elementwise=True)
add("CastLike", X, d(2), elementwise=True)
add(
    "BitCast",
    X,
    attributes=lambda types: {"to": NUMBER[types["T2"]]},
    elementwise=True,
    types={"T1": "float32", "T2": "int32"},
)

# Moves.
add("Reshape", d(2, 3, 4), f(4, 6), elementwise=True)
add("Transpose", d(2, 3, 4), attributes={"perm": [2, 0, 1]}, elementwise=True)
add("Concat", d(2, 3), d(2, 2), attributes={"axis": 1}, elementwise=True)
add("Slice", d(4, 6), f(1, 0), f(4, 6), f(0, 1), f(1, 2), elementwise=True)
add("Squeeze", d(2, 1, 3), f(1), elementwise=True)
add("Unsqueeze", d(2, 3), f(1), elementwise=True)
add("Expand", d(2, 1, 3), f(2, 4, 3), elementwise=True)
add("Tile", d(2, 3), f(2, 2), elementwise=True)
add("Flatten", d(2, 3, 4), attributes={"axis": 2}, elementwise=True)
add(
    "Gather",
    d(4, 3),
    Fixed([[0, 2], [3, 1]]),
    attributes={"axis": 0},
    types={"Tind": "int64"},
    elementwise=True,
)
add(
    "GatherElements",
    d(3, 3),
    Fixed([[0, 2, 1], [2, 0, 0]]),
    attributes={"axis": 0},
    types={"Tind": "int64"},
    elementwise=True,
)
add("GatherND", d(3, 4), Fixed([[0, 1], [2, 3]]), elementwise=True)
add("ScatterND", d(4, 3), Fixed([[2], [0]]), d(2, 3), elementwise=True)
add(
    "ScatterElements",
    d(3, 3),
    Fixed([[1, 0, 2], [0, 2, 1]]),
    d(2, 3),
    attributes={"axis": 0},
    types={"Tind": "int64"},
    elementwise=True,
)
add("Compress", d(4, 3), f(True, False, True, True), attributes={"axis": 0}, elementwise=True)
add("Trilu", d(4, 4), scalar(1), attributes={"upper": 0}, elementwise=True)
add("Shape", d(2, 3), elementwise=True)
add("Size", d(2, 3), elementwise=True)
add(
    "ConstantOfShape",
    f(2, 3),
    attributes=lambda types: {"value": tensor([1], types["T2"])},
    elementwise=True,
)
add(
    "EyeLike",
    d(3, 3),
    attributes=lambda types: {"dtype": NUMBER[types["T2"]]},
    types={"T1": "float32"},
    elementwise=True,
)
add("Range", scalar(1), scalar(9), scalar(2), elementwise=True)
add(
    "OneHot",
    f(0, 2, 1),
    scalar(4),
    f(0, 1),
    types={"T1": "int64", "T2": "int64"},
    narrow={"T1": ("int32", "int64"), "T2": ("int32", "int64")},
    elementwise=True,
)
add("NonZero", d(3, 4), elementwise=True)
add("Unique", d(9), outputs=4, attributes={"sorted": 1}, elementwise=True)
add(
    "ReverseSequence",
    d(4, 3),
    f(2, 3, 4),
    attributes={"batch_axis": 1, "time_axis": 0},
    elementwise=True,
)
add("DepthToSpace", d(1, 8, 2, 3), attributes={"blocksize": 2}, elementwise=True)
add("SpaceToDepth", d(1, 2, 4, 6), attributes={"blocksize": 2}, elementwise=True)
add("CenterCropPad", d(4, 5), f(6, 3), elementwise=True)
add("TensorScatter", d(2, 4, 3), d(2, 1, 3), f(1, 2), attributes={"axis": 1}, elementwise=True)
add("Constant", attributes=lambda types: {"value": tensor([1, 2, 3], types["T"])}, elementwise=True)


@by_opset("Split")
def split(opset: int) -> Example:
    return Example((d(6, 2), f(2, 4)), {"axis": 0}, outputs=2, elementwise=True)


@by_opset("Pad")
def pad(opset: int) -> Example:
    return Example((d(2, 3), f(1, 0, 0, 2), scalar(1)), {"mode": "constant"}, elementwise=True)


@by_opset("Resize")
def resize(opset: int) -> Example:
    return Example(
        (d(1, 1, 3, 4), None, None, f(1, 1, 6, 8)),
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
         "nearest_mode": "floor"},
        elementwise=True,
    )  # fmt: skip


# Reductions.
for each in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):

    @by_opset(f"Reduce{each}")
    def reduce(opset: int, name: str = each) -> Example:
        sums = name not in ("Max", "Min")
        if opset >= 18 or name == "Sum":
            return Example((d(3, 7), f(1)), {"keepdims": 0}, sums=sums)
        return Example((d(3, 7),), {"axes": [1], "keepdims": 0}, sums=sums)


add("ArgMax ArgMin", d(3, 7), attributes={"axis": 1, "keepdims": 0})
add("CumSum CumProd", d(3, 4), scalar(1), sums=True)
add("TopK", d(3, 7), f(4), outputs=2, attributes={"axis": 1})
add("Softmax LogSoftmax Hardmax", d(3, 5), attributes={"axis": 1})

# Products.
add("MatMul", d(2, 3, 4), d(2, 4, 5), sums=True)
add("Gemm", d(3, 4), d(4, 5), d(5), sums=True)
add("Einsum", d(3, 4), d(4, 5), attributes={"equation": "ij,jk->ik"}, sums=True)
# Some runtimes want what ONNX has defaults for.
CONV: Final = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "dilations": [1, 1], "group": 1}
add("Conv", IMAGE, d(3, 2, 3, 3), d(3), attributes={**CONV, "strides": [1, 1]}, sums=True)
add("ConvTranspose", IMAGE, d(2, 3, 3, 3), attributes={**CONV, "strides": [2, 2]}, sums=True)
add(
    "ConvInteger",
    IMAGE,
    d(3, 2, 3, 3),
    attributes={**CONV, "strides": [1, 1]},
    types={"T1": "uint8", "T2": "uint8"},
)
add("MatMulInteger", d(3, 4), d(4, 5), types={"T1": "uint8", "T2": "uint8"})
add("Det", d(2, 3, 3), sums=True)

# Pools.
POOL: Final = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0]}
add("MaxPool", IMAGE, attributes=POOL)
add("AveragePool LpPool", IMAGE, attributes=POOL, sums=True)
add("GlobalMaxPool", IMAGE)
add("GlobalAveragePool GlobalLpPool", IMAGE, sums=True)

# Normalizations.
SPREAD: Final = d(2, domain="spread")
add("BatchNormalization", IMAGE, f(1, 2), f(3, 1), f(2, 1), f(1, 4), sums=True)
add("InstanceNormalization", IMAGE, SPREAD, SPREAD, sums=True)
add("LayerNormalization", d(2, 3, 8), d(8, domain="spread"), d(8, domain="spread"), sums=True)
add("RMSNormalization", d(2, 3, 8), d(8, domain="spread"), sums=True)
add("LpNormalization", d(3, 5), sums=True)
add("MeanVarianceNormalization", IMAGE, sums=True)
add("LRN", IMAGE, attributes={"size": 3}, sums=True)


@by_opset("GroupNormalization")
def group_normalization(opset: int) -> Example:
    size = 4 if opset >= 21 else 2
    scale = d(size, domain="spread")
    return Example((d(1, 4, 3, 3), scale, scale), {"num_groups": 2}, sums=True)


# Recurrent networks and attention.
for op, gates in {"RNN": 1, "GRU": 3, "LSTM": 4}.items():
    add(
        op,
        d(3, 2, 4),
        d(1, 5 * gates, 4, domain="spread"),
        d(1, 5 * gates, 5, domain="spread"),
        attributes={"hidden_size": 5},
        outputs=2,
        sums=True,
    )
add(
    "Attention",
    d(1, 2, 3, 4),
    d(1, 2, 5, 4),
    d(1, 2, 5, 4),
    sums=True,
)
add(
    "RotaryEmbedding",
    d(1, 2, 3, 4),
    d(1, 3, 2),
    d(1, 3, 2),
    sums=True,
)

# Signals and images.


@by_opset("DFT")
def dft(opset: int) -> Example:
    if opset >= 20:
        return Example((d(2, 8, 2), None, scalar(1)), sums=True)
    return Example((d(2, 8, 2),), {"axis": 1}, sums=True)


add("HannWindow HammingWindow BlackmanWindow", scalar(7))
add("GridSample", IMAGE, d(1, 3, 3, 2, domain="spread"), sums=True)
add("Col2Im", d(1, 4, 9), f(4, 4), f(2, 2), sums=True)
add("Dropout", X)

# Quantization.
add(
    "QuantizeLinear",
    d(3, 4),
    scalar(0.5),
    Fixed(1),
    types={"T1": "float32", "T2": "uint8", "T3": "uint8"},
    elementwise=True,
)
add(
    "DequantizeLinear",
    d(3, 4),
    scalar(0.5),
    Fixed(1),
    types={"T": "uint8", "T1": "uint8", "T2": "float32", "T3": "float32"},
    elementwise=True,
)
add("DynamicQuantizeLinear", X, outputs=3)


# Control flow: the value that bodies carry varies.
def _value(name: str, types: Types, shape: tuple[int, ...] = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, NUMBER[types["V"]], shape)


def _branches(types: Types) -> dict[str, Any]:
    def branch(name: str, by: int) -> onnx.GraphProto:
        value = numpy_helper.from_array(
            np.full((2, 3), by).astype(dtype_of(types["V"])), f"{name}_value"
        )
        node = helper.make_node("Identity", [f"{name}_value"], [f"{name}_out"])
        return helper.make_graph([node], name, [], [_value(f"{name}_out", types)], [value])

    return {"then_branch": branch("then", 1), "else_branch": branch("else", 0)}


add("If", scalar(True), attributes=_branches)


def _loop(types: Types) -> dict[str, Any]:
    nodes = [
        helper.make_node("Identity", ["more"], ["more_out"]),
        helper.make_node("Transpose", ["state"], ["turned"], perm=[1, 0]),
        helper.make_node("Transpose", ["turned"], ["state_out"], perm=[1, 0]),
        helper.make_node("Identity", ["state"], ["each"]),
    ]
    step = helper.make_tensor_value_info("step", TensorProto.INT64, [])
    more, more_out = (
        helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("more", "more_out")
    )
    state, state_out, each = (_value(name, types) for name in ("state", "state_out", "each"))
    return {
        "body": helper.make_graph(nodes, "body", [step, more, state], [more_out, state_out, each])
    }


add("Loop", scalar(3), scalar(True), d(2, 3), attributes=_loop, outputs=2)


def _scan(types: Types) -> dict[str, Any]:
    nodes = [
        helper.make_node("Concat", ["state", "x"], ["both"], axis=0),
        helper.make_node("Slice", ["both", "from", "to"], ["state_out"]),
        helper.make_node("Identity", ["state"], ["y"]),
    ]
    bounds = [
        numpy_helper.from_array(np.array([bound], "int64"), name)
        for bound, name in ((1, "from"), (4, "to"))
    ]
    state, x, state_out, y = (_value(n, types, (3,)) for n in ("state", "x", "state_out", "y"))
    body = helper.make_graph(nodes, "body", [state, x], [state_out, y], bounds)
    return {"body": body, "num_scan_inputs": 1}


add("Scan", d(3), d(4, 3), attributes=_scan, outputs=2)
