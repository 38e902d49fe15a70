"""Write crates/onnx/src/cost/cases.txt: nodes of each operator, and what they cost.

    python tools/generate_costs.py [--check]

The formula of each operator is computed on numbers that count what is done to them. Rust tests
compare the counts with those of jax2onnx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from costs.counting import (
    Case,
    N,
    after,
    array,
    attention,
    case,
    choose,
    convolve,
    each,
    f,
    log_softmax,
    matmul,
    most,
    normalize,
    recurrent,
    rms_normalize,
    rows,
    scatter_convolve,
    sigmoid,
    softmax,
    softplus,
    total,
    windows,
)

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "crates" / "onnx" / "src" / "cost" / "cases.txt"
X = "f32[2,7,11]"
R = "f32[2,7,1]"
IMAGE = "f32[2,6,7,11]"
SIMPLE = ["Abs", "Ceil", "Floor", "Neg", "Reciprocal", "Relu", "Round", "Sign"]
FUNCTIONS = [
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Erf"),
    *("Exp", "Log", "Sin", "Sqrt", "Tan", "Tanh"),
]
BINARY = ["Add", "Div", "Mod", "Mul", "Sub"]
FORMULAS: dict[str, Callable[[N], Any]] = {
    "Celu": lambda x: most(x, 0) + most((f(x / N()) - 1) * N(), 0),
    "Cosh": lambda x: (f(x) + f(-x)) / 2,
    "Elu": lambda x: choose(x > 0, x, f(x) * N()),
    "HardSigmoid": lambda x: most(most(x * N() + N(), 0), 1),
    "HardSwish": lambda x: x * most(most(x / 6 + 0.5, 0), 1),
    "LeakyRelu": lambda x: choose(x < 0, x * N(), x),
    "Mish": lambda x: x * f(softplus(x)),
    "Selu": lambda x: choose(x > 0, x, f(x) * N()) * N(),
    "Shrink": lambda x: choose(x < N(), x + N(), choose(x > N(), x - N(), 0)),
    "Sigmoid": sigmoid,
    "Sinh": lambda x: (f(x) - f(-x)) / 2,
    "Softplus": softplus,
    "Softsign": lambda x: x / (1 + abs(x)),
    "Swish": lambda x: x * sigmoid(x),
    "ThresholdedRelu": lambda x: choose(x > N(), x, 0),
}


def elementwise() -> Iterator[Case]:
    for op in SIMPLE:
        yield case(op, [X], X, each(lambda x: -x))
    for op in FUNCTIONS:
        yield case(op, [X], X, each(f))
    for op, formula in FORMULAS.items():
        yield case(op, [X], X, each(formula))
    for op in BINARY:
        yield case(op, [X, "f32[7,1]"], X, each(lambda x: x + x))
    yield case("Add", ["i32[2,3]", "i32[3]"], "i32[2,3]", each(lambda x: x + x))
    for op in ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]:
        yield case(op, [X, "f32[11]"], "bool[2,7,11]", each(lambda x: x < x))
    for op in ["And", "Or", "Xor"]:
        yield case(op, ["bool[2,3]", "bool[3]"], "bool[2,3]", each(lambda x: x + x))
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"]:
        yield case(op, ["u8[2,3]", "u8[3]"], "u8[2,3]", each(lambda x: x + x))
    for op in ["BitwiseNot"]:
        yield case(op, ["u8[2,3]"], "u8[2,3]", each(lambda x: -x))
    yield case("Not", ["bool[2,3]"], "bool[2,3]", each(lambda x: -x))
    for op in ["IsInf", "IsNaN"]:
        yield case(op, [X], "bool[2,7,11]", each(lambda x: x < x))
    yield case("Where", ["bool[7,11]", X, "f32[1,7,11]"], X, each(lambda x: x + x))
    yield case("PRelu", [X, "f32[11]"], X, each(lambda x: choose(x < 0, x * N(), x)))
    yield case("Pow", [X, "2.0:f32"], X, each(lambda x: x * x))
    yield case("Pow", [X, "3.0:f32"], X, each(lambda x: x * x * x))
    yield case("Pow", [X, "f32[11]"], X, each(f))
    yield case("Clip", [X, "0.0:f32", "6.0:f32"], X, each(lambda x: most(most(x, 0), 6)))
    yield case("Clip", [X, "_", "6.0:f32"], X, each(lambda x: most(x, 6)))
    gelu = each(lambda x: 0.5 * x * (1 + f(x * N())))
    yield case("Gelu", [X], X, gelu)
    tanh = each(lambda x: 0.5 * x * (1 + f(N() * (x + N() * (x * x * x)))))
    yield case("Gelu", [X], X, tanh, approximate="tanh")
    yield case("Swish", [X], X, each(lambda x: x * sigmoid(x * N())), alpha=2.0)
    yield case("SwiGLU", [X, X], X, each(lambda x: x * sigmoid(x) * x))
    for op in ["Max", "Min", "Sum"]:
        yield case(op, [X, "f32[11]", X], X, each(lambda x: x + x + x))
    yield case("Mean", [X, "f32[11]", X], X, each(lambda x: (x + x + x) / 3))
    yield case("Cast", [X], "f16[2,7,11]", each(lambda x: -x), to=10)
    yield case("Cast", [X], X, to=1)
    yield case("Cast", ["i32[3]"], "i64[3]", each(lambda x: -x), to=7)
    yield case("CastLike", [X, "f16[1]"], "f16[2,7,11]", each(lambda x: -x))
    yield case("Bernoulli", [X], X, each(lambda x: f(x) < x))
    scaled = each(lambda x: f(x) * N() + N())
    for op in ["RandomNormalLike", "RandomUniformLike"]:
        yield case(op, [X], X, scaled, "writes")
    for op in ["RandomNormal", "RandomUniform"]:
        yield case(op, [], "f32[2,3]", scaled, "writes", shape=[2, 3])
    yield case("Multinomial", ["f32[2,7]"], "i32[2,3]", scaled, "writes", sample_size=3)
    yield case(
        "QuantizeLinear", [X, "0.5:f32", "u8[]"], "u8[2,7,11]", each(lambda x: -(x / N()) + N())
    )
    yield case(
        "DequantizeLinear", ["u8[2,7,11]", "0.5:f32", "u8[]"], X, each(lambda x: (x - N()) * N())
    )
    yield case("DequantizeLinear", ["i4[3]", "0.5:f32"], "f32[3]", each(lambda x: x * N()))


def reductions() -> Iterator[Case]:
    axes = "[-1]:i64"
    plain = rows(14, 11, total)
    for op in ["ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"]:
        yield case(op, [X, axes], R, plain)
    yield case("ReduceMean", [X, axes], R, rows(14, 11, lambda row: total(row) / N()))
    yield case("ReduceL1", [X, axes], R, rows(14, 11, lambda row: total([abs(x) for x in row])))
    squares = rows(14, 11, lambda row: total([x * x for x in row]))
    yield case("ReduceSumSquare", [X, axes], R, squares)
    yield case("ReduceL2", [X, axes], R, rows(14, 11, lambda row: f(total([x * x for x in row]))))
    yield case("ReduceLogSum", [X, axes], R, rows(14, 11, lambda row: f(total(row))))

    def log_sum_exp(row: list[N]) -> None:
        largest = total(row)
        f(total([f(x - largest) for x in row])) + largest

    yield case("ReduceLogSumExp", [X, axes], R, rows(14, 11, log_sum_exp))
    for op in ["ArgMax", "ArgMin"]:
        yield case(op, [X], "i64[2,7,1]", plain, axis=-1)
    yield case("Softmax", [X], X, rows(14, 11, softmax))
    yield case("Softmax", [X], X, rows(22, 7, softmax), axis=1)
    yield case("LogSoftmax", [X], X, rows(14, 11, log_softmax))

    def hardmax(row: list[N]) -> None:
        total(row)
        total([*row, N()])

    yield case("Hardmax", [X], X, rows(14, 11, hardmax))
    for op in ["CumSum", "CumProd"]:
        yield case(op, [X, "1:i64"], X, rows(22, 7, total))

    def by_length(row: list[N]) -> None:
        length = f(total([x * x for x in row]))
        for x in row:
            x / length

    yield case("LpNormalization", [X], X, rows(14, 11, by_length))
    norm = rows(14, 11, normalize)
    yield case("LayerNormalization", [X, "f32[11]", "f32[11]"], X, norm)
    yield case(
        "LayerNormalization",
        [X, "f32[11]"],
        X,
        rows(14, 11, lambda row: normalize(row, bias=False)),
    )
    yield case("LayerNormalization", [X, "f32[77]", "f32[77]"], X, rows(2, 77, normalize), axis=1)
    yield case("RMSNormalization", [X, "f32[11]"], X, rows(14, 11, rms_normalize))
    yield case("InstanceNormalization", [IMAGE, "f32[6]", "f32[6]"], IMAGE, rows(12, 77, normalize))
    yield case(
        "GroupNormalization",
        [IMAGE, "f32[6]", "f32[6]"],
        IMAGE,
        rows(6, 154, normalize),
        num_groups=3,
    )
    plain_norm = rows(6, 154, lambda row: normalize(row, bias=False, scale=False))
    yield case("MeanVarianceNormalization", [IMAGE], IMAGE, plain_norm)

    def batch_norm(case: Case) -> None:
        for _ in range(6):
            N() / f(N() + 1e-5)
        for x in array(*case.result(0)):
            (x - N()) * N() + N()

    yield case("BatchNormalization", [IMAGE, *["f32[6]"] * 4], IMAGE, batch_norm)
    response = each(lambda x: x / f(total([x * x, *array(2)]) * N() + N()))
    yield case("LRN", [IMAGE], IMAGE, response, size=3)
    quantized = after(rows(1, 154, lambda row: [-(x / N()) + x + x + x for x in row]))
    yield case("DynamicQuantizeLinear", [X], ["u8[2,7,11]", "f32[]", "u8[]"], quantized)
    loss = after(rows(1, 7, lambda row: [x * x + x for x in row]))
    yield case("NegativeLogLikelihoodLoss", ["f32[7,5]", "i64[7]"], "f32[]", loss)
    cross = after(rows(7, 5, log_softmax), loss)
    yield case("SoftmaxCrossEntropyLoss", ["f32[7,5]", "i64[7]"], "f32[]", cross)


def products() -> Iterator[Case]:
    yield case("MatMul", ["f32[2,7,11]", "f32[11,5]"], "f32[2,7,5]", matmul(2, 7, 11, 5))
    yield case("MatMul", ["f32[11]", "f32[11,5]"], "f32[5]", matmul(1, 11, 5))
    yield case("MatMul", ["f32[3,11]", "f32[11]"], "f32[3]", matmul(3, 11, 1))
    yield case("MatMulInteger", ["u8[3,11]", "u8[11,4]"], "i32[3,4]", matmul(3, 11, 4))
    bias = each(lambda x: x + N())
    yield case(
        "Gemm", ["f32[3,11]", "f32[11,4]", "f32[4]"], "f32[3,4]", after(matmul(3, 11, 4), bias)
    )
    scaled = after(matmul(3, 11, 4), each(lambda x: x * N()))
    yield case(
        "Gemm", ["f32[11,3]", "f32[4,11]"], "f32[3,4]", scaled, alpha=0.5, transA=1, transB=1
    )
    quantized = after(matmul(3, 11, 4), each(lambda x: -(x * N()) + N()))
    scale = ["0.5:f32", "u8[]"]
    yield case(
        "QLinearMatMul", ["u8[3,11]", *scale, "u8[11,4]", *scale, *scale], "u8[3,4]", quantized
    )
    yield case(
        "Einsum",
        ["f32[2,3,5]", "f32[2,5,7]"],
        "f32[2,3,7]",
        matmul(2, 3, 5, 7),
        equation="bij,bjk->bik",
    )
    outer = each(lambda x: x * x)
    yield case("Einsum", ["f32[3]", "f32[7]"], "f32[3,7]", outer, equation="i,j->ij")
    yield case("Einsum", ["f32[3,7]"], "f32[3]", rows(3, 7, total), equation="ij->i")
    chain = after(matmul(2, 3, 5), matmul(2, 5, 7))
    yield case(
        "Einsum", ["f32[2,3]", "f32[3,5]", "f32[5,7]"], "f32[2,7]", chain, equation="ab,bc,cd->ad"
    )
    heads = ["f32[2,3,5,4]", "f32[2,3,7,4]", "f32[2,3,7,6]"]
    yield case("Attention", heads, "f32[2,3,5,6]", attention(6, 5, 7, 4, 6, mask=False))
    yield case(
        "Attention",
        [*heads, "f32[5,7]"],
        "f32[2,3,5,6]",
        attention(6, 5, 7, 4, 6, mask=True, soft=True),
        softcap=2.0,
    )
    flat = ["f32[2,5,12]", "f32[2,7,8]", "f32[2,7,12]"]
    yield case(
        "Attention",
        flat,
        "f32[2,5,18]",
        attention(6, 5, 7, 4, 6, mask=True),
        is_causal=1,
        kv_num_heads=2,
        q_num_heads=3,
    )
    sides = ["f32[5,2,3]", "f32[1,16,3]", "f32[1,16,4]", "f32[1,32]"]
    state = "f32[5,1,2,4]"
    yield case("LSTM", sides, state, recurrent("LSTM", 5, 2, 3, 4), hidden_size=4)
    sides = ["f32[5,2,3]", "f32[1,12,3]", "f32[1,12,4]", "f32[1,24]"]
    yield case("GRU", sides, state, recurrent("GRU", 5, 2, 3, 4), hidden_size=4)
    sides = ["f32[5,2,3]", "f32[1,4,3]", "f32[1,4,4]", "f32[1,8]"]
    yield case("RNN", sides, state, recurrent("RNN", 5, 2, 3, 4), hidden_size=4)

    def eliminate(_: Case) -> None:
        for _ in range(2):
            for pivot in range(4):
                for _ in range(pivot + 1, 4):
                    N() / N()
                    for _ in range(pivot + 1, 4):
                        N() - N() * N()
            for _ in range(3):
                N() * N()

    yield case("Det", ["f32[2,4,4]"], "f32[2]", eliminate)
    rotated = each(lambda x: x * x + x * x)
    cache = ["f32[8,2]", "f32[8,2]", "i64[2,5]"]
    yield case("RotaryEmbedding", ["f32[2,3,5,4]", *cache], "f32[2,3,5,4]", rotated)
    half = rows(2 * 3 * 5, 2, lambda row: [x * x + x * x for x in row])
    cache = ["f32[8,1]", "f32[8,1]", "i64[2,5]"]
    yield case(
        "RotaryEmbedding",
        ["f32[2,5,12]", *cache],
        "f32[2,5,12]",
        half,
        num_heads=3,
        rotary_embedding_dim=2,
    )
    yield case(
        "CausalConvWithState",
        ["f32[2,3,8]", "f32[3,1,4]"],
        "f32[2,3,8]",
        each(lambda x: total([x * x for _ in range(4)]) + x),
    )

    def butterflies(count: int, length: int, parts: int) -> Callable[..., None]:
        def run(_: Case) -> None:
            for _ in range(count * length * 5 * (length - 1).bit_length() * parts // 2):
                N() + N()

        return run

    yield case("DFT", ["f32[3,8,2]", "_", "1:i64"], "f32[3,8,2]", butterflies(3, 8, 2))
    yield case("DFT", ["f32[3,8,1]", "_", "1:i64"], "f32[3,5,2]", butterflies(3, 8, 1), onesided=1)
    frames = after(butterflies(2 * 4, 8, 1), rows(8, 8, lambda row: [x * x for x in row]))
    yield case("STFT", ["f32[2,20,1]", "4:i64", "f32[8]", "8:i64"], "f32[2,4,5,2]", frames)


def images() -> Iterator[Case]:
    x = "f32[2,6,7,9]"

    def conv(y: str, kernel: str, count: Callable[[Case], None], *more: str, **attrs: Any) -> Case:
        return case("Conv", [x, kernel, *more], y, count, **attrs)

    plain = {"batch": 2, "channels": 6, "results": 4}
    size, k = (7, 9), (3, 3)
    yield conv("f32[2,4,5,7]", "f32[4,6,3,3]", convolve(size, k, **plain))
    yield conv(
        "f32[2,4,7,9]",
        "f32[4,6,3,3]",
        convolve(size, k, **plain, pads=(1, 1, 1, 1), bias=True),
        "f32[4]",
        pads=[1, 1, 1, 1],
    )
    yield conv(
        "f32[2,4,4,5]",
        "f32[4,3,3,3]",
        convolve(size, k, **plain, group=2, strides=(2, 2), pads=(1, 1, 1, 1)),
        group=2,
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    )
    yield conv(
        "f32[2,4,7,7]",
        "f32[4,6,3,3]",
        convolve(size, k, **plain, dilations=(2, 2), pads=(2, 1, 2, 1)),
        dilations=[2, 2],
        pads=[2, 1, 2, 1],
    )
    yield conv(
        "f32[2,4,4,5]",
        "f32[4,6,3,3]",
        convolve(size, k, **plain, strides=(2, 2), pads=(1, 1, 1, 1)),
        auto_pad="SAME_UPPER",
        strides=[2, 2],
    )
    yield conv(
        "f32[2,4,4,5]",
        "f32[4,6,2,2]",
        convolve(size, (2, 2), **plain, strides=(2, 2), pads=(1, 1, 0, 0)),
        auto_pad="SAME_LOWER",
        strides=[2, 2],
    )
    integer = {"batch": 1, "channels": 2, "results": 3}
    yield case(
        "ConvInteger",
        ["u8[1,2,4,4]", "u8[3,2,3,3]", "u8[]"],
        "i32[1,3,2,2]",
        convolve((4, 4), k, **integer),
    )
    quantized = after(convolve((4, 4), k, **integer), each(lambda x: -(x * N()) + N()))
    scale = ["0.5:f32", "u8[]"]
    yield case(
        "QLinearConv",
        ["u8[1,2,4,4]", *scale, "u8[3,2,3,3]", *scale, *scale],
        "u8[1,3,2,2]",
        quantized,
    )
    spread = scatter_convolve(
        (4, 5), k, batch=1, channels=6, per_group=2, strides=(2, 2), pads=(1, 1, 1, 1)
    )
    yield case(
        "ConvTranspose",
        ["f32[1,6,4,5]", "f32[6,2,3,3]"],
        "f32[1,2,7,9]",
        spread,
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    )
    spread = scatter_convolve(
        (4, 5), k, batch=1, channels=6, per_group=2, strides=(2, 2), pads=(0, 0, 0, 0)
    )
    yield case(
        "ConvTranspose",
        ["f32[1,6,4,5]", "f32[6,2,3,3]"],
        "f32[1,6,9,11]",
        spread,
        group=3,
        strides=[2, 2],
    )

    def deform(_: Case) -> None:
        for _ in range(9 * 4):
            for _ in range(6):
                total([x * x for x in array(4)])
            for _ in range(4 * 6):
                N() + N() * N()

    yield case(
        "DeformConv", ["f32[1,6,4,4]", "f32[4,6,3,3]", "f32[1,18,2,2]"], "f32[1,4,2,2]", deform
    )
    pooled = "f32[2,6,3,4]"
    window = {"kernel_shape": [3, 2], "strides": [2, 2]}
    yield case("MaxPool", [x], pooled, windows(6, total), **window)
    yield case("AveragePool", [x], pooled, windows(6, lambda row: total(row) / N()), **window)
    yield case(
        "LpPool", [x], pooled, windows(6, lambda row: f(total([x * x for x in row]))), **window
    )
    whole = "f32[2,6,1,1]"
    yield case("GlobalAveragePool", [x], whole, windows(63, lambda row: total(row) / N()))
    yield case("GlobalMaxPool", [x], whole, windows(63, total))
    yield case("GlobalLpPool", [x], whole, windows(63, lambda row: f(total([x * x for x in row]))))
    near = each(lambda _: total([x * x for x in array(4)]))
    yield case(
        "Resize", [x, "_", "[1.0, 1.0, 2.0, 2.0]:f32"], "f32[2,6,14,18]", near, mode="linear"
    )
    yield case("Resize", [x, "_", "[1.0, 1.0, 2.0, 2.0]:f32"], "f32[2,6,14,18]")
    cubic = each(lambda _: total([x * x for x in array(4)]))
    yield case("Resize", [x, "_", "[1.0, 1.0, 1.0, 2.0]:f32"], "f32[2,6,7,18]", cubic, mode="cubic")
    yield case("Upsample", [x, "[1.0, 1.0, 2.0, 2.0]:f32"], "f32[2,6,14,18]", near, mode="linear")
    yield case("GridSample", [x, "f32[2,3,5,2]"], "f32[2,6,3,5]", near)
    sampled = each(lambda _: total([total([x * x for x in array(4)]) for _ in range(4)]) / N())
    yield case(
        "RoiAlign",
        [x, "f32[3,4]", "i64[3]"],
        "f32[3,6,2,2]",
        sampled,
        output_height=2,
        output_width=2,
        sampling_ratio=2,
    )
    grid = each(lambda _: [N() + N() * N() for _ in range(3)])
    yield case("AffineGrid", ["f32[2,2,3]", "[2, 1, 4, 5]:i64"], "f32[2,4,5,2]", grid)
    yield case(
        "Col2Im",
        ["f32[1,8,12]", "[4, 5]:i64", "[2, 2]:i64"],
        "f32[1,2,4,5]",
        rows(96, 1, lambda row: -row[0]),
    )


def moves() -> Iterator[Case]:
    yield case("Transpose", [X], "f32[11,2,7]", perm=[2, 0, 1])
    yield case("Concat", [X, "f32[2,7,3]"], "f32[2,7,14]", axis=-1)
    yield case("Split", [X], ["f32[1,7,11]", "f32[1,7,11]"], axis=0, num_outputs=2)
    yield case("Expand", ["f32[7,1]", "[2, 7, 11]:i64"], X)
    yield case("Tile", ["f32[7,1]", "[1, 3]:i64"], "f32[7,3]")
    yield case("Pad", [X, "[0, 0, 1, 0, 0, 1]:i64"], "f32[2,7,13]")
    yield case("Trilu", [X], X)
    yield case("DepthToSpace", ["f32[1,8,2,3]"], "f32[1,2,4,6]", blocksize=2)
    yield case("SpaceToDepth", ["f32[1,2,4,6]"], "f32[1,8,2,3]", blocksize=2)
    yield case("ReverseSequence", ["f32[4,2]", "i64[2]"], "f32[4,2]")
    yield case("CenterCropPad", [X, "[2, 5, 5]:i64"], "f32[2,5,5]")
    yield case("Compress", [X, "bool[2]"], "f32[1,7,11]", axis=0)
    yield case("MaxUnpool", ["f32[1,1,2,2]", "i64[1,1,2,2]"], "f32[1,1,4,4]", kernel_shape=[2, 2])
    yield case("OneHot", ["i64[3]", "5:i64", "f32[2]"], "f32[3,5]")
    yield case("Scatter", [X, "i64[2,1,11]", "f32[2,1,11]"], X)
    yield case("ScatterElements", [X, "i64[2,1,11]", "f32[2,1,11]"], X, axis=1)
    added = rows(22, 1, lambda row: -row[0])
    yield case(
        "ScatterElements", [X, "i64[2,1,11]", "f32[2,1,11]"], X, added, axis=1, reduction="add"
    )
    yield case("ScatterND", [X, "i64[3,1]", "f32[3,7,11]"], X)
    yield case("TensorScatter", [X, "f32[2,1,11]"], X)
    yield case("NonZero", [X], "i64[3,5]", rows(154, 1, lambda row: -row[0]))
    yield case(
        "TopK",
        [X, "[4]:i64"],
        ["f32[2,7,4]", "i64[2,7,4]"],
        rows(154, 2, lambda row: [-x for x in row]),
    )
    for op, operands, result in (
        ("Gather", [X, "i64[3]"], "f32[3,7,11]"),
        ("GatherElements", [X, "i64[2,7,11]"], X),
        ("GatherND", [X, "i64[3,1]"], "f32[3,7,11]"),
        ("Slice", [X, "[1]:i64", "[4]:i64", "[1]:i64"], "f32[2,3,11]"),
    ):
        yield case(op, operands, result, traffic="picks")
    yield case("Shape", [X], "i64[3]", traffic="writes")
    yield case("Size", [X], "i64[]", traffic="writes")
    yield case("ConstantOfShape", ["[2, 3]:i64"], "f32[2,3]", traffic="writes")
    yield case("EyeLike", ["f32[3,3]"], "f32[3,3]", traffic="writes")
    yield case("Range", ["0:i64", "5:i64", "1:i64"], "i64[5]", traffic="writes")
    cosine = each(lambda x: x - x * f(x * x / x))
    for op in ["HannWindow", "HammingWindow"]:
        yield case(op, ["5:i64"], "f32[5]", cosine, "writes")
    both = each(lambda x: x - x * f(x * x / x) + x * f(x * x))
    yield case("BlackmanWindow", ["5:i64"], "f32[5]", both, "writes")
    for op, operands, result in (
        ("Reshape", [X, "[14, 11]:i64"], "f32[14,11]"),
        ("Squeeze", ["f32[1,3]", "[0]:i64"], "f32[3]"),
        ("Unsqueeze", ["f32[3]", "[0]:i64"], "f32[1,3]"),
        ("Flatten", [X], "f32[2,77]"),
        ("Identity", [X], X),
        ("Dropout", [X], X),
    ):
        yield case(op, operands, result, traffic="nothing")
    trained = each(lambda x: choose(f(x) < x, x * x, 0))
    yield case("Dropout", [X, "0.5:f32", "true:bool"], X, trained)
    yield case("BitCast", ["f32[3]"], "i32[3]", traffic="nothing", to=6)


def main() -> None:
    families = (elementwise, reductions, products, images, moves)
    cases = [made.text() for family in families for made in family()]
    text = "\n\n".join(["Generated by `tools/generate_costs.py`; do not edit.", *cases]) + "\n"
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() != text:
            sys.exit(f"{TARGET} is not up to date: run python tools/generate_costs.py")
        return
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
