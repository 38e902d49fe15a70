"""Check the graph of a model in a test.

The text of a graph has one node per line. Inputs and outputs of the graph have their names. Other
values have numbers, in the order of their definitions. Small constants appear where they are used,
with their type unless it is `f32`. Larger constants appear with their name, type and shape.
Attributes are in braces, sorted. Bodies of nodes and functions are indented below their header.

Examples:
    >>> import jax.numpy as jnp
    >>> import jax2onnx
    >>> from jax2onnx.testing import graph_text
    >>> print(graph_text(jax2onnx.to_onnx(lambda x: 2 * jnp.sin(x), [(3,)])))
    %0 = Sin(x)
    out_0 = Mul(2.0, %0)
"""

import difflib
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

if TYPE_CHECKING:
    from ._types import StrPath

Expected: TypeAlias = "str | re.Pattern[str] | None"
"""A string, a pattern for the whole value, or None if the key must be absent."""

_SMALL: Final = 8
_TYPES: Final = {
    "FLOAT": "f32",
    "DOUBLE": "f64",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "BOOL": "bool",
    "STRING": "str",
    "COMPLEX64": "c64",
    "COMPLEX128": "c128",
}


def graph_text(model: "onnx.ModelProto | StrPath", *, signature: bool = False) -> str:
    """Return the graph of a model as text, in the form that `expect_graph` takes.

    Args:
        model: The model, or the path of its file.
        signature: Whether the text starts with a line that shows the types of the inputs and
            outputs.
    """
    lines = _Writer().model(_load(model))
    return "\n".join(line.text for line in (lines if signature else lines[1:]))


def expect_graph(
    model: "onnx.ModelProto | StrPath",
    text: str,
    *,
    metadata: Mapping[int | str, Mapping[str, Expected]] | None = None,
    fragment: bool = False,
) -> None:
    """Assert that a model has exactly this graph.

    If the first line is a signature such as `(x: f32[2]) -> (y: f32[2])`, `expect_graph` also
    checks the types of the inputs and outputs.

    Args:
        model: The model, or the path of its file.
        text: The graph, as `graph_text` returns it.
        metadata: The expected metadata of nodes. The keys are positions, or names of outputs in the
            text. Each entry is the value of a metadata key, a pattern for the whole value, or None
            if the key must be absent.
        fragment: Whether the text is only a part: consecutive lines somewhere in the graph, with
            numbers that count from the first line of the part.

    Raises:
        AssertionError: The graph or the metadata differs. The message contains a diff.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> from jax2onnx.testing import expect_graph
        >>> def gain(x):
        ...     return 2 * jnp.sin(x)
        >>> model = jax2onnx.to_onnx(gain, [(3,)], provenance="minimal")
        >>> expect_graph(
        ...     model,
        ...     '''
        ...     %0 = Sin(x)
        ...     out_0 = Mul(2.0, %0)
        ...     ''',
        ...     metadata={0: {"pkg.jax2onnx.callsite": "gain:2"}},
        ... )
    """
    lines = _Writer().model(_load(model))
    expected = textwrap.dedent(text).strip("\n").rstrip().split("\n")
    if not (expected[0].startswith("(") and "->" in expected[0]):
        lines = lines[1:]
    actual = [line.text for line in lines]
    if fragment:
        _check_fragment(actual, expected)
    elif actual != expected:
        raise AssertionError("the graph differs:\n" + _diff(expected, actual))
    _check_metadata([line for line in lines if line.node is not None], metadata or {})


@dataclass
class _Line:
    """A line of the text, and its node."""

    text: str
    node: onnx.NodeProto | None = None
    outputs: Sequence[str] = ()


@dataclass
class _Names:
    """The names of the values of a graph in the text, in the scope of the enclosing graph."""

    shown: dict[str, str] = field(default_factory=dict)
    outer: "_Names | None" = None

    def get(self, name: str) -> str:
        if not name:
            return "_"
        if name in self.shown:
            return self.shown[name]
        return self.outer.get(name) if self.outer is not None else name


class _Writer:
    def __init__(self) -> None:
        self._count = 0

    def model(self, model: onnx.ModelProto) -> list[_Line]:
        graph = model.graph
        names = _Names()
        self._constants(graph, names)
        for value in [*graph.input, *graph.output]:
            names.shown.setdefault(value.name, value.name)
        lines = [_Line(f"{_signature(graph.input)} -> {_signature(graph.output)}")]
        lines += self._nodes(graph.node, names, "")
        for function in model.functions:
            lines += self._function(function)
        return lines

    def _function(self, function: onnx.FunctionProto) -> list[_Line]:
        names = _Names({name: name for name in [*function.input, *function.output]})
        name = f"{function.domain}::{function.name}" if function.domain else function.name
        header = f"function {name}({', '.join(function.input)}) -> ({', '.join(function.output)}):"
        return [_Line(header), *self._nodes(function.node, names, "  ")]

    def _nodes(self, nodes: Iterable[onnx.NodeProto], names: _Names, indent: str) -> list[_Line]:
        lines: list[_Line] = []
        for node in nodes:
            inputs = ", ".join(names.get(name) for name in node.input)
            outputs = [self._define(name, names) for name in node.output]
            operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
            shown = ", ".join(f"{a.name}={_attribute(a)}" for a in attributes)
            braces = f"{{{shown}}}" if shown else ""
            text = f"{indent}{', '.join(outputs)} = {operator}({inputs}){braces}"
            lines.append(_Line(text, node, outputs))
            for attribute in attributes:
                if attribute.HasField("g"):
                    lines += self._body(attribute.name, attribute.g, names, indent + "  ")
                for position, graph in enumerate(attribute.graphs):
                    name = f"{attribute.name}[{position}]"
                    lines += self._body(name, graph, names, indent + "  ")
        return lines

    def _body(self, name: str, graph: onnx.GraphProto, outer: _Names, indent: str) -> list[_Line]:
        names = _Names(outer=outer)
        self._constants(graph, names)
        inputs = ", ".join(self._number(value.name, names) for value in graph.input)
        nodes = self._nodes(graph.node, names, indent + "  ")
        outputs = ", ".join(names.get(value.name) for value in graph.output)
        return [_Line(f"{indent}{name}({inputs}) -> ({outputs}):"), *nodes]

    def _define(self, name: str, names: _Names) -> str:
        return names.shown[name] if name in names.shown else self._number(name, names)

    def _number(self, name: str, names: _Names) -> str:
        if not name:
            return "_"
        names.shown[name] = f"%{self._count}"
        self._count += 1
        return names.shown[name]

    def _constants(self, graph: onnx.GraphProto, names: _Names) -> None:
        for tensor in graph.initializer:
            names.shown[tensor.name] = _tensor(tensor)


def _load(model: "onnx.ModelProto | StrPath") -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    return onnx.load(os.fspath(model), load_external_data=False)


def _signature(values: Iterable[onnx.ValueInfoProto]) -> str:
    shown = (f"{value.name}: {value_type(value.type)}" for value in values)
    return f"({', '.join(shown)})"


def value_type(value: onnx.TypeProto) -> str:
    """Return a type as text, such as `f32[B,2]`.

    Args:
        value: The type of an input or output.
    """
    if not value.HasField("tensor_type"):
        return value.WhichOneof("value") or "?"
    tensor = value.tensor_type
    element = _element_type(tensor.elem_type)
    if not tensor.HasField("shape"):
        return element
    sizes = []
    for size in tensor.shape.dim:
        sizes.append(str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?")
    return f"{element}[{','.join(sizes)}]"


def _element_type(number: int) -> str:
    name: str = onnx.TensorProto.DataType.Name(onnx.TensorProto.DataType.ValueType(number))
    if name in _TYPES:
        return _TYPES[name]
    for long, short in (("UINT", "u"), ("INT", "i"), ("FLOAT", "f")):
        if name.startswith(long):
            return short + name[len(long) :].lower()
    return name.lower()


def _tensor(tensor: onnx.TensorProto) -> str:
    element = _element_type(tensor.data_type)
    count = int(np.prod(tensor.dims, dtype=np.int64))
    is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if is_external or count > _SMALL or (count == 0 and len(tensor.dims) != 1):
        return f"{tensor.name}:{element}[{','.join(map(str, tensor.dims))}]"
    shown = _nested(
        numpy_helper.to_array(tensor), is_float=element[0] in "fb" and element != "bool"
    )
    return shown if element == "f32" else f"{shown}:{element}"


def _nested(array: "np.ndarray[Any, Any]", *, is_float: bool) -> str:
    if array.ndim:
        return f"[{', '.join(_nested(part, is_float=is_float) for part in array)}]"
    text = str(array[()])
    return _with_point(text) if is_float else text


def _with_point(text: str) -> str:
    """Return the text of a float, which always differs from that of an integer."""
    return text + ".0" if re.fullmatch(r"-?\d+", text) else text


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, list | tuple) or not isinstance(value, str | bytes | int | float):
        items = getattr(value, "__iter__", None)
        if items is not None:
            return f"[{', '.join(_attribute_item(item) for item in value)}]"
    return _attribute_item(value)


def _attribute_item(value: Any) -> str:
    if isinstance(value, float):
        return _with_point(str(np.float32(value)))
    if isinstance(value, bytes):
        return f'"{value.decode(errors="replace")}"'
    if isinstance(value, onnx.TensorProto):
        return _tensor(value)
    if isinstance(value, onnx.GraphProto):
        return "…"
    if isinstance(value, onnx.TypeProto):
        return value_type(value)
    return str(value)


def _diff(expected: Sequence[str], actual: Sequence[str]) -> str:
    context = max(len(expected), len(actual))
    diff = difflib.unified_diff(expected, actual, "expected", "the model", lineterm="", n=context)
    return "\n".join(diff)


def _check_fragment(actual: Sequence[str], expected: Sequence[str]) -> None:
    wanted = _renumbered(expected)
    starts = range(max(len(actual) - len(expected), 0) + 1)
    windows = [_renumbered(actual[start : start + len(expected)]) for start in starts]
    if wanted in windows:
        return
    closest = max(
        windows, key=lambda window: sum(a == b for a, b in zip(window, wanted, strict=False))
    )
    raise AssertionError(
        "the graph does not contain the fragment; the closest part is:\n"
        + _diff(wanted, closest)
        + "\n\nthe whole graph:\n"
        + "\n".join(actual)
    )


def _renumbered(lines: Sequence[str]) -> list[str]:
    """Renumber the values of a fragment from 0, and remove its indentation."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"%{len(numbers)}")

    return re.sub(r"%\d+", number, textwrap.dedent("\n".join(lines))).split("\n")


def _check_metadata(
    lines: Sequence[_Line], expected: Mapping[int | str, Mapping[str, Expected]]
) -> None:
    problems = []
    for key, wanted in expected.items():
        line = _find(lines, key)
        if line is None or line.node is None:
            problems.append(f"no node {key!r}")
            continue
        found = {entry.key: entry.value for entry in line.node.metadata_props}
        for name, value in wanted.items():
            if not _matches(found.get(name), value):
                shown = value.pattern if isinstance(value, re.Pattern) else value
                problems.append(
                    f"{line.text.strip()}\n  {name}\n"
                    f"    expected:  {shown!r}\n    the model: {found.get(name)!r}"
                )
    if problems:
        raise AssertionError("the metadata differs:\n" + "\n".join(problems))


def _find(lines: Sequence[_Line], key: int | str) -> _Line | None:
    if isinstance(key, int):
        return lines[key] if -len(lines) <= key < len(lines) else None
    return next((line for line in lines if key in line.outputs), None)


def _matches(found: str | None, wanted: Expected) -> bool:
    if isinstance(wanted, re.Pattern):
        return found is not None and wanted.fullmatch(found) is not None
    return found == wanted
