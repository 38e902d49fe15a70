"""Write a model in a shorter floating-point type, with casts where float32 begins and ends."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .._comparing.arrays import Array
from .._comparing.graphs import main
from .._comparing.models import Loaded
from .errors import relative_error
from .formats import Format
from .names import all_names, drop_weights, weight_names
from .sites import Facts, Site, is_long, rounds, takes_values
from .switched import Types

#: A constant of so many elements is stored in both types instead of being cast.
_SMALL: Final = 16
#: Operators some of whose results keep their type whatever the operands are.
_MIXED: Final = ("LayerNormalization", "RMSNormalization", "GroupNormalization")

_Place = tuple[Any, ...]


class Scope:
    """A graph that is being written.

    Attributes:
        place: What the core calls the graph.
        outer: The graph around it, whose values it sees.
        names: The name of each value in the short type (True) and in its own (False).
        nodes: The nodes so far.
        weights: The weights so far.
    """

    def __init__(self, place: _Place, outer: "Scope | None" = None) -> None:
        """Begin a graph."""
        self.place, self.outer = place, outer
        self.names: dict[str, dict[bool, str]] = {}
        self.pending: dict[str, onnx.TensorProto] = {}
        #: The types that weights had.
        self.types: dict[str, np.dtype[Any]] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.has_weights = place[0] != "function"

    def find(self, name: str) -> "Scope | None":
        """Return the graph that defines a value of a long type."""
        at: Scope | None = self
        while at is not None:
            if name in at.names or name in at.pending:
                return at
            at = at.outer
        return None


class Caster:
    """Writes the model.

    Attributes:
        casts: The number of casts that were inserted.
        short: The nodes that compute in the short type.
    """

    def __init__(
        self,
        loaded: Loaded,
        facts: Mapping[Site, Facts],
        types: Types,
        kind: Format,
        *,
        long_values: Collection[Site],
        long_weights: Collection[Site],
        refused: Collection[str] = (),
        converts_interface: bool = False,
    ) -> None:
        """Plan to write a model.

        Args:
            loaded: The model.
            facts: What is known of its nodes.
            types: The types of its values.
            kind: The short type.
            long_values: The nodes whose results keep their type.
            long_weights: The nodes that read weights in their own type.
            refused: Operators without a kernel for the short type.
            converts_interface: Whether inputs and outputs get the short type, too.
        """
        self._loaded, self._facts, self._types, self._format = loaded, facts, types, kind
        self._long_values, self._long_weights = set(long_values), set(long_weights)
        self._refused, self._converts = frozenset(refused), converts_interface
        self._functions = {
            (each.domain, each.name, each.overload): each for each in loaded.proto.functions
        }
        self._opsets = {each.domain: each.version for each in loaded.proto.opset_import}
        self._used = set(all_names(loaded.proto))
        self._written: dict[tuple[str, str, str], tuple[onnx.FunctionProto, list[bool], list[bool]]]
        self._written = {}
        self._exact: set[str] = set()
        self._inputs = {value.name for value in loaded.proto.graph.input}
        self._weights = set(weight_names(loaded.proto))
        self.casts = 0
        self.short: set[Site] = set()

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        before = self._loaded.proto
        order = main(self._loaded).numbers
        self._find_exact(before.graph.node, ("main",))
        for function in before.functions:
            self._find_exact(function.node, _function_place(function))
        model = onnx.ModelProto()
        for field, value in before.ListFields():
            if field.name not in ("graph", "functions"):
                _assign(model, field, value)
        graph = model.graph
        for field, value in before.graph.ListFields():
            if field.name not in ("node", "initializer", "value_info"):
                _assign(graph, field, value)
        scope = Scope(("main",))
        for tensor in before.graph.initializer:
            self._begin_weight(scope, tensor)
        weights = {tensor.name for tensor in before.graph.initializer}
        drop_weights(model, weights)
        for value in graph.input:
            self._begin_input(scope, value)
        outputs = {value.name for value in graph.output}
        self._nodes(scope, before.graph.node, order, outputs)
        for value in graph.output:
            if self._is_long_value(value):
                wanted = self._read(scope, value.name, self._converts, None)
                if self._converts:
                    value.type.tensor_type.elem_type = self._format.code
                if wanted != value.name:
                    value.name = wanted
        for name in list(scope.pending):
            # A weight that nothing reads.
            self._settle(scope, name)
        graph.node.extend(scope.nodes)
        graph.initializer.extend(scope.weights)
        graph.value_info.extend(self._value_info(before.graph.value_info, scope))
        model.functions.extend(each[0] for each in self._written.values())
        written = {(each.domain, each.name, each.overload) for each in model.functions}
        for key, function in self._functions.items():
            if key not in written:
                model.functions.append(function)
        return model

    def _begin_weight(self, scope: Scope, tensor: onnx.TensorProto) -> None:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if is_long(dtype):
            scope.pending[tensor.name] = tensor
        else:
            scope.weights.append(self._embedded(tensor))

    def _begin_input(self, scope: Scope, value: onnx.ValueInfoProto) -> None:
        if not self._is_long_value(value):
            return
        scope.names[value.name] = {self._converts: value.name}
        if self._converts:
            value.type.tensor_type.elem_type = self._format.code

    def _is_long_value(self, value: onnx.ValueInfoProto) -> bool:
        code = value.type.tensor_type.elem_type
        return code in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)

    def _embedded(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return tensor
        return self._tensor(tensor, np.asarray(self._loaded.array(tensor)), tensor.name)

    def _tensor(self, like: onnx.TensorProto, array: Array, name: str) -> onnx.TensorProto:
        made = numpy_helper.from_array(np.asarray(array, order="C"), name)
        made.doc_string = like.doc_string
        made.metadata_props.extend(like.metadata_props)
        return made

    def _find_exact(self, nodes: Iterable[onnx.NodeProto], place: _Place) -> None:
        """Find the weights that some node reads in their own type."""
        for number, node in enumerate(nodes):
            site = (place, number)
            facts = self._facts.get(site)
            has_body = any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute)
            is_call = (node.domain, node.op_type, node.overload) in self._functions
            for position, name in enumerate(node.input):
                if not name or is_call or has_body:
                    continue
                if facts is None:
                    is_exact = not self._is_storable(name)
                elif position in facts.given:
                    is_exact = site in self._long_weights
                else:
                    is_exact = name in self._weights
                if is_exact:
                    self._exact.add(name)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._find_exact(attribute.g.node, (*place, number, attribute.name))

    def _is_storable(self, name: str) -> bool:
        """Return whether a weight of a branch that the data does not reach fits the short type."""
        tensor = self._initializers.get(name)
        if tensor is None or not is_long(helper.tensor_dtype_to_np_dtype(tensor.data_type)):
            return False
        array = np.asarray(self._loaded.array(tensor))
        if array.size <= _SMALL:
            return False
        return relative_error(array, self._format.rounded(array)) <= self._format.epsilon

    @cached_property
    def _initializers(self) -> dict[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in self._loaded.proto.graph.initializer}

    def _nodes(
        self,
        scope: Scope,
        nodes: Sequence[onnx.NodeProto],
        order: Iterable[int],
        outputs: Collection[str] = (),
    ) -> None:
        for number in order:
            self._node(scope, nodes[number], (scope.place, number), outputs)

    def _node(
        self, scope: Scope, node: onnx.NodeProto, site: Site, outputs: Collection[str]
    ) -> None:
        if node.op_type == "Constant" and not node.domain:
            self._constant(scope, node)
        elif (node.domain, node.op_type, node.overload) in self._functions:
            self._call(scope, node)
        elif any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute):
            from .bodies import write_bodies

            write_bodies(self, scope, node, site)
        else:
            self._plain(scope, node, site, outputs)

    def _constant(self, scope: Scope, node: onnx.NodeProto) -> None:
        """Begin a constant: it is a weight if it is long."""
        attribute = node.attribute[0]
        value = helper.get_attribute_value(attribute)
        if attribute.name == "value_float":
            value = numpy_helper.from_array(np.asarray(value, np.float32))
        elif attribute.name == "value_floats":
            value = numpy_helper.from_array(np.asarray(list(value), np.float32))
        if not isinstance(value, onnx.TensorProto) or not is_long(
            helper.tensor_dtype_to_np_dtype(value.data_type)
        ):
            made = scope.nodes
            made.append(node)
            return
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
        scope.pending[tensor.name] = tensor
        self._origins[tensor.name] = node

    @cached_property
    def _origins(self) -> dict[str, onnx.NodeProto]:
        """The nodes of constants."""
        return {}

    def _settle(self, scope: Scope, name: str) -> None:
        """Write a weight, in the type that most of its readers want."""
        tensor = scope.pending.pop(name)
        is_short = name not in self._exact
        array = np.asarray(self._loaded.array(tensor))
        if array.size <= _SMALL:
            scope.names[name] = {}
            self._lazy[id(scope), name] = tensor
        else:
            scope.names[name] = {is_short: name}
            scope.types[name] = array.dtype
            self._write_weight(scope, tensor, array, name, is_short=is_short)

    @cached_property
    def _lazy(self) -> dict[tuple[int, str], onnx.TensorProto]:
        """The small weights, which are written in each type that somebody reads."""
        return {}

    def _write_weight(
        self,
        scope: Scope,
        tensor: onnx.TensorProto,
        array: Array,
        name: str,
        *,
        is_short: bool,
    ) -> None:
        with np.errstate(all="ignore"):
            stored = self._clipped(array).astype(self._format.dtype) if is_short else array
        made = self._tensor(tensor, stored, name)
        origin = self._origins.get(tensor.name)
        if origin is None and scope.has_weights:
            scope.weights.append(made)
            return
        node = helper.make_node("Constant", [], [name], value=made)
        if origin is not None:
            node.name = origin.name if name == tensor.name else self._fresh(f"{origin.name}.copy")
            node.doc_string = origin.doc_string
            node.metadata_props.extend(origin.metadata_props)
        scope.nodes.append(node)

    def _clipped(self, array: Array) -> Array:
        """Return an array whose finite numbers stay finite, as those of masks should."""
        most = self._format.largest
        return np.where(np.isfinite(array), np.clip(array, -most, most), array)

    def _read(self, scope: Scope, name: str, is_short: bool, reader: onnx.NodeProto | None) -> str:
        """Return the name of a value in a type. Casts it where it is defined if necessary."""
        home = scope.find(name)
        if home is None:
            return name
        if name in home.pending:
            self._settle(home, name)
        known = home.names[name]
        if known.get(is_short):
            return known[is_short]
        if (id(home), name) in self._lazy:
            tensor = self._lazy[id(home), name]
            array = np.asarray(self._loaded.array(tensor))
            kind = self._format.name if is_short else array.dtype.name
            known[is_short] = self._fresh(f"{name}.{kind}") if known else name
            self._write_weight(home, tensor, array, known[is_short], is_short=is_short)
            return known[is_short]
        dtype = self._dtype(scope, home, name)
        result = self._fresh(f"{name}.{self._format.name if is_short else dtype.name}")
        code = self._format.code if is_short else helper.np_dtype_to_tensor_dtype(dtype)
        self._cast(home, known[not is_short], result, code, reader)
        known[is_short] = result
        return result

    def _dtype(self, scope: Scope, home: Scope, name: str) -> np.dtype[Any]:
        if name in home.types:
            return home.types[name]
        found = self._types.get((home.place, name)) or self._types.get((scope.place, name))
        return found if found is not None and is_long(found) else np.dtype(np.float32)

    def _cast(
        self, scope: Scope, name: str, result: str, code: int, reader: onnx.NodeProto | None
    ) -> None:
        cast = helper.make_node("Cast", [name], [result], to=code)
        origin = reader or next(
            (each for each in reversed(scope.nodes) if name in each.output), None
        )
        label = origin.name if origin is not None and origin.name else "cast"
        cast.name = self._fresh(f"{label}.cast")
        if origin is not None:
            cast.metadata_props.extend(origin.metadata_props)
            cast.doc_string = origin.doc_string
        scope.nodes.append(cast)
        self.casts += 1

    def _fresh(self, name: str) -> str:
        found, number = name, 2
        while found in self._used:
            found, number = f"{name}.{number}", number + 1
        self._used.add(found)
        return found

    def is_short(self, scope: Scope, name: str) -> bool:
        """Return whether a value is stored in the short type."""
        home = scope.find(name)
        if home is None:
            return False
        if name in home.pending:
            return name not in self._exact
        if (id(home), name) in self._lazy:
            return name not in self._exact
        return bool(home.names[name].get(True))

    def may_be_short(self, scope: Scope, name: str) -> bool:
        """Return whether a value is stored in the short type, or is an input that can be cast."""
        home = scope.find(name)
        if home is not None and home.place == ("main",) and name in self._inputs:
            return name not in self._exact
        return self.is_short(scope, name)

    def is_known_long(self, scope: Scope, name: str) -> bool:
        """Return whether a value has a type that is shortened."""
        return bool(name) and scope.find(name) is not None

    def _plain(
        self, scope: Scope, node: onnx.NodeProto, site: Site, outputs: Collection[str]
    ) -> None:
        facts = self._facts.get(site)
        long_results = [
            name for name in node.output if name and is_long(self._types.get((scope.place, name)))
        ]
        made = onnx.NodeProto()
        made.CopyFrom(node)
        computes_short, stores_short = self._decide(scope, node, site, facts, long_results)
        for position, name in enumerate(node.input):
            if self.is_known_long(scope, name):
                is_short = computes_short and takes_values(node, position)
                made.input[position] = self._read(scope, name, is_short, node)
        if computes_short:
            self.short.add(site)
            self._retype(made)
        scope.nodes.append(made)
        for position, name in enumerate(node.output):
            if name not in long_results:
                continue
            must_stay = name in outputs and computes_short != self._converts
            if must_stay or computes_short != stores_short:
                kind = self._format.name if computes_short else "float32"
                inner = self._fresh(f"{name}.{kind}")
                made.output[position] = inner
                scope.names[name] = {computes_short: inner}
                if must_stay:
                    dtype = self._types[scope.place, name]
                    code = helper.np_dtype_to_tensor_dtype(dtype)
                    self._cast(
                        scope, inner, name, self._format.code if self._converts else code, node
                    )
                    scope.names[name][self._converts] = name
                elif name in outputs:
                    scope.names[name] = {computes_short: name}
                    made.output[position] = name
                else:
                    self._cast(scope, inner, name, self._format.code, node)
                    scope.names[name] = {True: name}
            else:
                scope.names[name] = {computes_short: name}

    def _decide(
        self,
        scope: Scope,
        node: onnx.NodeProto,
        site: Site,
        facts: Facts | None,
        long_results: Sequence[str],
    ) -> tuple[bool, bool]:
        """Return whether a node computes in the short type, and whether its results have it."""
        operands = [
            (position, name)
            for position, name in enumerate(node.input)
            if self.is_known_long(scope, name) and takes_values(node, position)
        ]
        if facts is None or not (long_results or operands):
            return False, False
        if not operands and node.op_type not in ("Cast", "ConstantOfShape"):
            return False, False
        is_rounding = rounds(node)
        if is_rounding and site in self._long_values:
            return False, False
        all_short = all(
            site not in self._long_weights
            if position in facts.given
            else self.is_short(scope, name)
            for position, name in operands
        )
        if not self._has_kernel(node, long_results):
            return False, False
        if all_short:
            return True, True
        return False, is_rounding and bool(facts.results)

    def _has_kernel(self, node: onnx.NodeProto, long_results: Sequence[str]) -> bool:
        """Return whether an operator may have operands of the short type."""
        if node.op_type in self._refused or (node.domain and node.domain != "ai.onnx"):
            return False
        if node.op_type in _MIXED and len([name for name in node.output if name]) > 1:
            return False
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opsets.get("", 17), "")
        except Exception:
            return False
        wanted = f"tensor({self._format.name})"
        allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
        results = [i for i, name in enumerate(node.output) if name in long_results]
        formals = [schema.outputs[min(i, len(schema.outputs) - 1)] for i in results]
        for position, name in enumerate(node.input):
            if name and takes_values(node, position) and schema.inputs:
                formal = schema.inputs[min(position, len(schema.inputs) - 1)]
                if "tensor(float)" in allowed.get(formal.type_str, [formal.type_str]):
                    formals.append(formal)
        return all(wanted in allowed.get(each.type_str, [each.type_str]) for each in formals)

    def _retype(self, node: onnx.NodeProto) -> None:
        """Change the types that a node names in its attributes."""
        long_codes = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
        if node.op_type == "Cast":
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i in long_codes:
                    attribute.i = self._format.code
        elif node.op_type == "ConstantOfShape":
            array = np.zeros(1, np.float32)
            for attribute in node.attribute:
                if attribute.name == "value":
                    array = numpy_helper.to_array(attribute.t)
            del node.attribute[:]
            stored = self._clipped(array).astype(self._format.dtype)
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(stored)))

    def _call(self, scope: Scope, node: onnx.NodeProto) -> None:
        """Write a call, and the function if this is its first call."""
        key = node.domain, node.op_type, node.overload
        if key not in self._written:
            self._written[key] = self._function(scope, node, self._functions[key])
        _, inputs, outputs = self._written[key]
        made = onnx.NodeProto()
        made.CopyFrom(node)
        for position, name in enumerate(node.input):
            if self.is_known_long(scope, name):
                made.input[position] = self._read(scope, name, inputs[position], node)
        scope.nodes.append(made)
        for position, name in enumerate(node.output):
            if name and is_long(self._types.get((scope.place, name))):
                scope.names[name] = {outputs[position]: name}
                if scope.place == ("main",) and outputs[position] != self._converts:
                    self._rename_output(scope, made, position, name, is_short=outputs[position])

    def _rename_output(
        self, scope: Scope, made: onnx.NodeProto, position: int, name: str, *, is_short: bool
    ) -> None:
        """Keep the name of an output of the model for the value of its type."""
        if name not in {value.name for value in self._loaded.proto.graph.output}:
            return
        inner = self._fresh(f"{name}.{self._format.name if is_short else 'float32'}")
        made.output[position] = inner
        code = helper.np_dtype_to_tensor_dtype(self._types[scope.place, name])
        self._cast(scope, inner, name, self._format.code if self._converts else code, made)
        scope.names[name] = {is_short: inner, not is_short: name}

    def _function(
        self, scope: Scope, call: onnx.NodeProto, function: onnx.FunctionProto
    ) -> tuple[onnx.FunctionProto, list[bool], list[bool]]:
        """Return a function, and which of its inputs and results have the short type."""
        made = onnx.FunctionProto()
        made.CopyFrom(function)
        inner = Scope(_function_place(function))
        inputs = []
        for position, name in enumerate(function.input):
            operand = call.input[position] if position < len(call.input) else ""
            known = self.is_known_long(scope, operand)
            is_short = known and self.may_be_short(scope, operand) and name not in self._exact
            inputs.append(is_short)
            if known:
                inner.names[name] = {is_short: name}
        self._nodes(inner, function.node, range(len(function.node)))
        outputs = []
        for position, name in enumerate(function.output):
            is_short = self.is_short(inner, name)
            outputs.append(is_short)
            if inner.find(name) is not None:
                made.output[position] = self._read(inner, name, is_short, None)
        del made.node[:]
        made.node.extend(inner.nodes)
        del made.value_info[:]
        return made, inputs, outputs

    def _value_info(
        self, known: Iterable[onnx.ValueInfoProto], scope: Scope
    ) -> list[onnx.ValueInfoProto]:
        """Return the declared types of values, with the types that they have now."""
        found = []
        for value in known:
            names = scope.names.get(value.name)
            made = onnx.ValueInfoProto()
            made.CopyFrom(value)
            if names is not None and names.get(True) == value.name:
                made.type.tensor_type.elem_type = self._format.code
            found.append(made)
        return found


def _function_place(function: onnx.FunctionProto) -> _Place:
    return ("function", f"{function.domain}::{function.name}")


def _assign(message: Any, field: Any, value: Any) -> None:
    if isinstance(value, str | int | bytes | float):
        setattr(message, field.name, value)
    elif hasattr(value, "ListFields"):
        getattr(message, field.name).CopyFrom(value)
    else:
        getattr(message, field.name).extend(value)
