"""Run a model node by node, and keep the contents of every value."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from .. import bench
from .jaxpr import Rounds

#: The nodes with their bodies on the way to a graph.
Path: TypeAlias = tuple[tuple[str, str | None], ...]


class Values:
    """The contents of each value in each round, as ONNX Runtime computes them node by node."""

    def __init__(self, model: onnx.ModelProto, given: Mapping[tuple[Path, str], Any]) -> None:
        """`given` replaces the contents of some values in their rounds."""
        self._given = given
        self.contents: dict[tuple[Path, str], dict[Rounds, np.ndarray]] = {}
        self._model = model
        self._functions = {
            (function.domain, function.name): function for function in model.functions
        }
        self._single: dict[str, tuple[onnx.ModelProto, Any]] = {}

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Run the whole model."""
        graph = self._model.graph
        names = [value.name for value in graph.input]
        values: dict[str, np.ndarray] = {}
        for tensor in graph.initializer:
            values[tensor.name] = onnx.numpy_helper.to_array(tensor)
            self._keep((), tensor.name, (), values[tensor.name])
        return self._graph(graph, names, inputs, values, (), ())

    def _keep(self, path: Path, name: str, rounds: Rounds, value: np.ndarray) -> None:
        self.contents.setdefault((path, name), {})[rounds] = value

    def _graph(
        self,
        graph: Any,
        names: Sequence[str],
        inputs: Sequence[Any],
        outside: MutableMapping[str, Any],
        path: Path,
        rounds: Rounds,
    ) -> list[np.ndarray]:
        values = ChainMap({}, outside) if path or not isinstance(outside, dict) else outside
        for name, value in zip(names, inputs, strict=True):
            values[name] = np.asarray(value)
            self._keep(path, name, rounds, values[name])
        for node in graph.node:
            results = self._node(node, values, path, rounds)
            for name, value in zip(node.output, results, strict=False):
                values[name] = self._given.get((path, name), lambda _, value: value)(rounds, value)
                self._keep(path, name, rounds, values[name])
        outputs = [getattr(output, "name", output) for output in graph.output]
        return [values[name] for name in outputs]

    def _node(
        self, node: onnx.NodeProto, values: MutableMapping[str, Any], path: Path, rounds: Rounds
    ) -> list[np.ndarray]:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        inputs = [values[name] if name else None for name in node.input]

        def body(name: str, inputs: Sequence[Any], *more: int) -> list[np.ndarray]:
            graph = attributes[name].g
            names = [value.name for value in graph.input]
            inner = (*path, (node.name, name))
            return self._graph(graph, names, inputs, values, inner, (*rounds, *more))

        function = self._functions.get((node.domain, node.op_type))
        if function is not None:
            inner = (*path, (node.name, None))
            given = inputs + [None] * (len(function.input) - len(inputs))
            return self._graph(function, list(function.input), given, {}, inner, rounds)
        if node.op_type == "If":
            return body("then_branch" if inputs[0] else "else_branch", [])
        if node.op_type == "Loop":
            return _loop(inputs, lambda round, given: body("body", given, round), attributes)
        if node.op_type == "Scan":
            return _scan(inputs, lambda round, given: body("body", given, round), attributes)
        return self._run(node, inputs)

    def _run(self, node: onnx.NodeProto, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Run a node alone."""
        if node.name not in self._single:
            given = {
                name: onnx.helper.make_tensor_value_info(
                    name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), None
                )
                for name, value in zip(node.input, inputs, strict=True)
                if name
            }
            outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
            graph = onnx.helper.make_graph([node], "node", list(given.values()), outputs)
            model = onnx.helper.make_model(
                graph,
                ir_version=self._model.ir_version,
                opset_imports=self._model.opset_import,
            )
            session = bench.session(model, optimize=False)
            for output, found in zip(graph.output, session.get_outputs(), strict=True):
                code = _CODES[found.type]
                model.graph.output[
                    list(graph.output).index(output)
                ].type.tensor_type.elem_type = code
            self._single[node.name] = model, session
        model, session = self._single[node.name]
        given_values = dict(zip(node.input, inputs, strict=True))
        found = bench.run_session(
            session, model, [given_values[value.name] for value in model.graph.input]
        )
        results = iter(found)
        return [next(results) if name else np.zeros(0) for name in node.output]


#: The codes of types, by the names that ONNX Runtime has for them.
_CODES: Mapping[str, int] = {
    f"tensor({name})": code
    for name, code in {
        "bool": onnx.TensorProto.BOOL,
        "bfloat16": onnx.TensorProto.BFLOAT16,
        "double": onnx.TensorProto.DOUBLE,
        "float": onnx.TensorProto.FLOAT,
        "float16": onnx.TensorProto.FLOAT16,
        "float8e4m3fn": onnx.TensorProto.FLOAT8E4M3FN,
        "float8e5m2": onnx.TensorProto.FLOAT8E5M2,
        **{
            f"{sign}int{bits}": getattr(onnx.TensorProto, f"{sign}int{bits}".upper())
            for sign in ("", "u")
            for bits in (8, 16, 32, 64)
        },
    }.items()
}


def _ints(attributes: Mapping[str, Any], name: str, count: int) -> list[int]:
    return list(attributes[name].ints) if name in attributes else [0] * count


def _loop(inputs: Sequence[Any], body: Any, _: Mapping[str, Any]) -> list[np.ndarray]:
    most, goes_on = inputs[0], inputs[1]
    carry = list(inputs[2:])
    rows: list[list[np.ndarray]] = []
    round = 0
    while (most is None or round < int(most)) and (goes_on is None or bool(goes_on)):
        results = body(round, [np.array(round, np.int64), np.array(True), *carry])
        goes_on = results[0]
        carry, row = results[1 : 1 + len(carry)], results[1 + len(carry) :]
        rows.append(row)
        round += 1
    return [*carry, *(np.stack(column) for column in zip(*rows, strict=True))]


def _scan(inputs: Sequence[Any], body: Any, attributes: Mapping[str, Any]) -> list[np.ndarray]:
    count = attributes["num_scan_inputs"].i
    carry, arrays = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    ways = _ints(attributes, "scan_input_directions", count)
    axes = _ints(attributes, "scan_input_axes", count)
    length = arrays[0].shape[axes[0]]
    rows: list[list[np.ndarray]] = []
    for round in range(length):
        elements = [
            np.take(array, length - 1 - round if way else round, axis)
            for array, way, axis in zip(arrays, ways, axes, strict=True)
        ]
        results = body(round, [*carry, *elements])
        carry, row = results[: len(carry)], results[len(carry) :]
        rows.append(row)
    columns = list(zip(*rows, strict=True))
    back = _ints(attributes, "scan_output_directions", len(columns))
    stacked = [
        np.stack(column[::-1] if way else column) for column, way in zip(columns, back, strict=True)
    ]
    return [*carry, *stacked]
