"""Know the nodes of a model that round: in the main graph, in bodies and in functions."""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import onnx

from .. import _core
from .._comparing.graphs import FUNCTION, Graph, label
from .._comparing.levels import attribute
from .formats import LONG

#: A node: what the core calls its graph, and its position in the file.
Site: TypeAlias = tuple[tuple[Any, ...], int]

#: A node, and which of its parts.
Part: TypeAlias = tuple[Site, str]
#: What can be rounded of a node.
VALUES: Final[str] = "values"
WEIGHTS: Final[str] = "weights"
#: Operators whose result contains only elements of their operands.
CHOOSING: Final = frozenset(
    (
        *_core.operators("exact"),
        *("CenterCropPad", "Dropout", "GlobalMaxPool", "MaxUnpool", "Optional", "RandomUniform"),
        *("RandomNormal", "RandomNormalLike", "RandomUniformLike", "Scan", "Loop", "If"),
    )
)
#: Operators among them whose result may have the range of one operand, and elements of another.
MIXING: Final = ("Where", "Concat", "Pad", "Max", "Min")
#: Operators that compute with integers or scales of their own.
_QUANTIZED: Final = frozenset(
    (
        *_core.operators("quantized"),
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulNBits"),
        *("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "NonMaxSuppression", "Bernoulli"),
        *("Multinomial", "Range", "EyeLike"),
    )
)
#: Operands that are sizes or limits, not values.
_SETTINGS: Final = {"Resize": (1, 2), "Upsample": (1,), "Dropout": (1, 2), "Range": (0, 1, 2)}
#: Operators that ONNX Runtime computes in float16 inside, whose inner values may overflow.
INSIDE: Final = frozenset(("Attention", "MultiHeadAttention", "GroupQueryAttention"))
#: The first opset with one scale per channel.
CHANNELS: Final = 13
#: The first opset with one scale per block, and numbers of four bits.
BLOCKS: Final = 21
#: Operators that multiply by a weight, for which runtimes have kernels with integers.
PRODUCTS: Final = ("MatMul", "Gemm", "Conv")


def site_of(graph: Graph, number: int) -> Site:
    """Return the node of a graph."""
    return graph.place, graph.numbers[number]


def is_long(dtype: Any) -> bool:
    """Return whether a type is rounded."""
    return dtype in LONG


def rounds(node: onnx.NodeProto) -> bool:
    """Return whether the results of a node are rounded, apart from its operands."""
    if node.domain == "" and node.op_type in CHOOSING:
        return False
    return node.op_type not in _QUANTIZED and not node.op_type.startswith("QLinear")


def takes_values(node: onnx.NodeProto, position: int) -> bool:
    """Return whether an operand of a node may be rounded."""
    if node.op_type in _QUANTIZED or node.op_type.startswith("QLinear"):
        return False
    return position not in _SETTINGS.get(node.op_type, ())


def is_given(graph: Graph, name: str) -> bool:
    """Return whether a value is a weight, a constant or an input of the model: no node rounds it.

    A function and a scan may get it from outside.
    """
    at: Graph | None = graph
    while at is not None:
        if name in at.initializers:
            return True
        if name in at.produced:
            node = at.nodes[at.produced[name]]
            return node.op_type == "Constant" and node.domain == ""
        if name in at.inputs:
            return _is_given_from_outside(at, name)
        at = at.outer
    return False


def _is_given_from_outside(graph: Graph, name: str) -> bool:
    around, owner = graph.around, graph.owner
    if around is None or owner is None:
        return True
    node, position = around.nodes[owner], graph.inputs.index(name)
    if position >= len(node.input):
        return False
    if FUNCTION in around.bodies(owner):
        return is_given(around, node.input[position])
    if node.op_type == "Scan":
        states = len(node.input) - int(attribute(node, "num_scan_inputs", 0))
        return position >= states and is_given(around, node.input[position])
    return False


def has_blocks(model: onnx.ModelProto) -> bool:
    """Return whether the opset of a model has weights with one scale per block."""
    return any(each.version >= BLOCKS for each in model.opset_import if not each.domain)


def weight_axis(node: onnx.NodeProto, position: int, rank: int) -> int | None:
    """Return the axis along which a weight has one scale per channel; None if it has none."""
    if rank < 2 or not takes_values(node, position):
        return None
    if node.domain == "":
        if node.op_type == "Gather":
            return int(attribute(node, "axis", 0)) % rank if position == 0 else None
        if node.op_type == "MatMul" and position == 0:
            return rank - 2
        if node.op_type == "Gemm" and position < 2:
            is_transposed = bool(attribute(node, ("transA", "transB")[position], 0))
            return int(is_transposed) if position == 0 else 1 - int(is_transposed)
        if node.op_type in ("Conv", "ConvTranspose"):
            # The channels of the result; a transposed convolution has those of the operand first.
            return int(node.op_type == "ConvTranspose") if position == 1 else None
        if node.op_type in ("LSTM", "GRU", "RNN"):
            return 1 if position in (1, 2) and rank == 3 else None
    return rank - 1


@dataclass
class Range:
    """The range of the numbers of a value.

    Attributes:
        size: The number of elements, over all iterations and samples.
        largest: The largest finite element.
        least: The smallest element.
        most: The largest element, with its sign.
        overflowing: How many elements become infinite.
        vanishing: How many elements become 0.
        subnormal: How many others lose digits because they are small.
        smallest: The smallest element that is not 0.
    """

    size: int = 0
    largest: float = 0.0
    least: float = 0.0
    most: float = 0.0
    overflowing: int = 0
    vanishing: int = 0
    subnormal: int = 0
    smallest: float = np.inf

    def add(self, other: "Range") -> None:
        """Add the numbers of another iteration or sample."""
        self.size += other.size
        self.overflowing += other.overflowing
        self.vanishing += other.vanishing
        self.subnormal += other.subnormal
        self.largest, self.most = max(self.largest, other.largest), max(self.most, other.most)
        self.least, self.smallest = min(self.least, other.least), min(self.smallest, other.smallest)


@dataclass
class Weight:
    """A weight that a node reads.

    Attributes:
        name: The name.
        position: Which operand it is.
        range: What its numbers are like.
        error: The relative error of rounding it.
    """

    name: str
    position: int
    range: Range
    error: float = 0.0


@dataclass
class Facts:
    """The observed numbers of a node.

    Attributes:
        graph: A graph that contains the node.
        number: The position of the node in the order of execution.
        order: Where it ran first.
        elements: The number of elements of the largest value that it reads or computes.
        results: Which of its results are rounded.
        given: Which of its operands are rounded where it reads them, because no node computes them.
        operands: Which others are rounded where it reads them, instead of where they are computed.
        values: What its results are like.
        weights: The weights that it reads.
        own_error: The largest relative error of its results if it alone is rounded.
        iterations: The iteration of each loop around it in which the error was largest.
        absorbed: The share of addends that a sum loses.
        addend: How large the smaller addends of a sum are.
        outlier: The channel whose elements are far larger than those of the others.
        is_inside: Whether the node computes numbers that exceed the range, inside.
        axes: The axis of the channels of its weights, if other readers have a say in it.
        ranged: The value whose range a result has, if it is not that of the result itself.
        is_dynamic: Whether the ranges of the operands follow from them when the model runs.
    """

    graph: Graph
    number: int
    order: tuple[int, ...]
    elements: int = 0
    results: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    operands: set[int] = field(default_factory=set)
    values: Range = field(default_factory=Range)
    weights: dict[int, Weight] = field(default_factory=dict)
    own_error: float = 0.0
    iterations: tuple[int, ...] = ()
    absorbed: float = 0.0
    addend: float = 0.0
    outlier: tuple[int, float] | None = None
    is_inside: bool = False
    axes: dict[int, int] = field(default_factory=dict)
    ranged: dict[str, str] = field(default_factory=dict)
    is_dynamic: bool = False

    def axis(self, position: int, rank: int) -> int | None:
        """Return the axis of the channels of a weight."""
        if position in self.axes:
            return self.axes[position]
        return weight_axis(self.node, position, rank)

    @property
    def node(self) -> onnx.NodeProto:
        """The node."""
        return self.graph.nodes[self.number]

    @property
    def name(self) -> str:
        """The name of the node."""
        return label(self.node)

    @property
    def site(self) -> Site:
        """Return the place of the node."""
        return site_of(self.graph, self.number)

    @property
    def matters(self) -> bool:
        """True if lowering the node rounds anything."""
        return bool(self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the node that can be rounded: its values, and the weights that it reads."""
        has_values = self.results or self.operands
        return (*((VALUES,) if has_values else ()), *((WEIGHTS,) if self.given else ()))
