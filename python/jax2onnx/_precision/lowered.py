"""The result of `lower_precision`: the lines in the shorter type, and those that kept theirs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import onnx

from .. import _html
from .._comparing.lines import SourceLine
from .._words import lines as joined
from .._words import quoted
from .sensitivity import number, with_module

VERSION: Final = 1
_SHOWN: Final = 10
_FLOATING_POINT: Final = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
)


@dataclass(frozen=True)
class LoweredLine:
    """A line, and why it has the type that it has.

    Attributes:
        file: The file of the line as the model names it; None if it is unknown.
        line: The number of the line; None if it is unknown.
        function: The qualified name of the function.
        nodes: The names of its nodes.
        reason: Why, in words.
        module: The module of the nodes, if the line is in a library. Each module that runs the line
            has an entry.
    """

    file: str | None
    line: int | None
    function: str
    nodes: tuple[str, ...]
    reason: str
    module: str = ""

    @property
    def place(self) -> str:
        """The line as text: `model.py:12, in forward`."""
        if self.line is None:
            return ", ".join(map(quoted, self.nodes[:1]))
        return with_module(str(SourceLine(self.file, self.line, self.function)), self.module)

    def to_json(self) -> dict[str, Any]:
        """Return the line as data for JSON."""
        return {
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "nodes": list(self.nodes),
            "reason": self.reason,
            "module": self.module,
        }


@dataclass(frozen=True)
class Lowering:
    """Contains what `lower_precision` did. Prints as text.

    Attributes:
        to: The shorter type.
        lowered: The lines whose results or weights have the shorter type.
        kept: The lines that kept their type, with the reason.
        error: The error of the outputs on the data that was held back.
        budget: The largest error that was allowed.
        metric: What the error is: `"error"`, `"snr"` or `"metric"`, if it is a function.
        held_back: The number of sets of inputs that were held back to measure the error.
        bytes_before: The bytes of the weights before, without arrays of integers such as indices.
        bytes_after: The bytes of these weights after, with their scales.
        bytes_short: The bytes of the weights that have the shorter type.
        inserted: The number of nodes that were inserted.
        model: The name of the model.
        notes: Further remarks, one sentence each.
    """

    __module__ = "jax2onnx"

    to: str
    lowered: tuple[LoweredLine, ...]
    kept: tuple[LoweredLine, ...]
    error: float
    budget: float
    metric: str
    held_back: int
    bytes_before: int
    bytes_after: int
    bytes_short: int
    inserted: int
    model: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return what was done, and the lines that kept their type."""
        parts = [self._headline(), *(f"   = {fact}" for fact in self._facts())]
        for line in self.kept[:_SHOWN]:
            parts += [f"kept {line.place}", f"   = {line.reason}"]
        if len(self.kept) > _SHOWN:
            parts.append(f"… and {len(self.kept) - _SHOWN} more lines")
        parts += [f"note: {note}" for note in self.notes]
        return joined(parts)

    __repr__ = __str__

    def _headline(self) -> str:
        total = len(self.lowered) + len(self.kept)
        return f"{self.model}: {len(self.lowered)} of {total} lines are in {self.to}"

    def _facts(self) -> list[str]:
        unit = " dB" if self.metric == "snr" else ""
        where = (
            f"on {self.held_back} samples that were held back"
            if self.held_back > 1
            else "on a sample that was held back"
            if self.held_back
            else "on the data that lines were chosen with"
        )
        inserted = "1 node was" if self.inserted == 1 else f"{self.inserted} nodes were"
        return [
            f"error {self.error:.3g}{unit} {where}; the budget is {self.budget:.3g}{unit}",
            f"weights: {self.bytes_before:,} bytes before, {self.bytes_after:,} bytes after",
            f"{inserted} inserted",
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for JSON. `docs/json-formats.md` describes the format."""
        return {
            "version": VERSION,
            "model": self.model,
            "to": self.to,
            "lowered": [line.to_json() for line in self.lowered],
            "kept": [line.to_json() for line in self.kept],
            "error": number(self.error),
            "budget": self.budget,
            "metric": self.metric,
            "held_back": self.held_back,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "bytes_short": self.bytes_short,
            "inserted": self.inserted,
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        return _html.answer(
            self._headline(),
            is_right=True,
            facts=[*self._facts(), *(f"note: {note}" for note in self.notes)],
            table=_html.Table(
                ("kept", "reason"),
                [(line.place, line.reason) for line in self.kept],
                name=f"{len(self.kept)} lines kept their type",
                is_open=len(self.kept) <= _SHOWN,
            ),
        )


class Lowered(NamedTuple):
    """A model in a shorter type, and what was done. Unpacks as two values.

    Attributes:
        model: The model.
        report: What was done.
    """

    model: onnx.ModelProto
    report: Lowering


def bytes_of_weights(
    model: onnx.ModelProto, code: int | None = None, names: Collection[str] | None = None
) -> int:
    """Return the bytes of the weights of a model, or of those of a type or with some names."""
    return sum(
        _bytes(tensor)
        for tensor in _tensors(model)
        if (code is None or tensor.data_type == code) and (names is None or tensor.name in names)
    )


def bytes_of_others(model: onnx.ModelProto) -> int:
    """Return the bytes of the arrays of a model that are not floating-point numbers."""
    return sum(
        _bytes(tensor) for tensor in _tensors(model) if tensor.data_type not in _FLOATING_POINT
    )


def _bytes(tensor: onnx.TensorProto) -> int:
    elements = 1
    for size in tensor.dims:
        elements *= size
    return -(-elements * _bits(tensor.data_type) // 8)


def _bits(code: int) -> int:
    if code in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4):
        return 4
    if code == onnx.TensorProto.STRING:
        return 0
    return 8 * int(onnx.helper.tensor_dtype_to_np_dtype(code).itemsize)


def _tensors(model: onnx.ModelProto) -> Sequence[onnx.TensorProto]:
    found: list[onnx.TensorProto] = []
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        found += getattr(graph, "initializer", ())
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    found.append(attribute.t)
                elif attribute.type == onnx.AttributeProto.GRAPH:
                    waiting.append(attribute.g)
    return found
