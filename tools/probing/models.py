"""Makes a model of one node out of an example."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnx.defs
from onnx import helper, numpy_helper

from .examples import NUMBER, Data, Example, Types
from .judging import Expected
from .values import EXTENDED, dtype_of, fill, is_float

#: The types that a runtime may take as inputs of a model.
PLAIN = (
    "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """A model, and how to fill its inputs."""

    model: onnx.ModelProto
    #: The type in which each input arrives, its type in the node, its shape and its domain.
    inputs: tuple[tuple[str, str, tuple[int, ...], str], ...]

    def fill(self, kind: str) -> list[np.ndarray]:
        return [
            np.asarray(fill(kind, name, shape, at, domain)).astype(carried)
            for at, (carried, name, shape, domain) in enumerate(self.inputs)
        ]


def variables(op: str, opset: int) -> dict[str, list[str]]:
    """Returns the types that each variable of an operator may have, as ONNX says."""
    schema = onnx.defs.get_schema(op, opset, "")
    declared = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    found: dict[str, list[str]] = {}
    for parameter in (*schema.inputs, *schema.outputs):
        allowed = declared.get(parameter.type_str, [parameter.type_str])
        found.setdefault(parameter.type_str, [plain(each) for each in allowed if plain(each)])
    return found


def plain(declared: str) -> str:
    """Returns the name of the element type of a tensor, as NumPy spells it."""
    if not declared.startswith("tensor("):
        return ""
    name = declared[len("tensor(") : -1]
    name = {"float": "float32", "double": "float64"}.get(name, name)
    return name if name in PLAIN or name in EXTENDED else ""


def variable_of(op: str, opset: int, operand: int) -> str:
    inputs = onnx.defs.get_schema(op, opset, "").inputs
    return inputs[min(operand, len(inputs) - 1)].type_str


def defaults(op: str, opset: int, example: Example) -> Types:
    """Returns a type for each variable that most runtimes have."""
    usual = ("float32", "int64", "int32", "bool", "uint8", "uint32")
    types = {}
    for variable, allowed in variables(op, opset).items():
        chosen = example.types.get(variable)
        if chosen not in allowed:
            chosen = next((name for name in usual if name in allowed), "")
        types[variable] = chosen or (allowed[0] if allowed else "")
    return types


def carrier(name: str) -> str:
    """Returns a type that every runtime takes, and that is cast to this one in the model."""
    return "float32" if is_float(name) else "int32"


def make(op: str, opset: int, example: Example, types: Types, cast: bool) -> Probe:
    """Makes a model; with `cast`, its inputs and outputs have types that every runtime takes."""
    nodes, values, constants, inputs, names = [], [], [], [], []
    for at, operand in enumerate(example.operands):
        if operand is None:
            names.append("")
            continue
        name = types[variable_of(op, opset, at)]
        if not isinstance(operand, Data):
            names.append(f"c{at}")
            array = np.asarray(operand.numbers).astype(dtype_of(name))
            constants.append(numpy_helper.from_array(array, f"c{at}"))
            continue
        carried = carrier(name) if (cast and name != "float32") or name in EXTENDED else name
        values.append(helper.make_tensor_value_info(f"x{at}", NUMBER[carried], operand.shape))
        inputs.append((carried, name, operand.shape, operand.domain))
        names.append(f"x{at}")
        if carried != name:
            nodes.append(helper.make_node("Cast", [f"x{at}"], [f"t{at}"], to=NUMBER[name]))
            names[-1] = f"t{at}"
    schema = onnx.defs.get_schema(op, opset, "")
    outputs = []
    attributes = example.attributes_for(types)
    made = [f"y{at}" for at in range(example.outputs)]
    nodes.append(helper.make_node(op, names, list(made), **attributes))
    for at in range(example.outputs):
        name = types[schema.outputs[min(at, len(schema.outputs) - 1)].type_str]
        carried = carrier(name) if (cast and name != "float32") or name in EXTENDED else name
        if carried != name:
            nodes.append(helper.make_node("Cast", [made[at]], [f"z{at}"], to=NUMBER[carried]))
            made[at] = f"z{at}"
        outputs.append(helper.make_tensor_value_info(made[at], NUMBER[carried], None))
    graph = helper.make_graph(nodes, "probe", values, outputs, constants)
    found = Probe(finish(graph, opset), tuple(inputs))
    complete(found.model, found.fill("ordinary"))
    return found


def complete(model: onnx.ModelProto, inputs: list[np.ndarray]) -> None:
    """Adds the shapes of outputs that shape inference does not find; some runtimes want them."""
    lacking = [
        at
        for at, output in enumerate(model.graph.output)
        if not output.type.tensor_type.HasField("shape")
    ]
    results = Expected(model).of(inputs) if lacking else []
    if results:
        for at in lacking:
            output = model.graph.output[at]
            kind = output.type.tensor_type.elem_type
            sizes = list(results[0][at].shape)
            output.CopyFrom(helper.make_tensor_value_info(output.name, kind, sizes))


def finish(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    """Returns a model with the shapes of its results."""
    version = 8 if opset <= 18 else 10
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=version)
    return onnx.shape_inference.infer_shapes(model)
