"""Record what a plugin written in Python builds for an equation.

Each call becomes a step, with the line that made it. The core builds the nodes from the steps.
"""

import difflib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import jax
import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from .. import _cells
from .._options import Frame
from .._tiers import is_own

Step: TypeAlias = tuple[Literal["node", "constant", "inline"], Any, list[int], list[Frame]]

_AttrType: Final = defs.OpSchema.AttrType


class PluginValue:
    """A value that a plugin builds with."""

    __slots__ = ("_slot", "_type", "constant")

    def __init__(
        self, slot: int, type_proto: onnx.TypeProto | None, constant: np.ndarray | None = None
    ) -> None:
        self._slot = slot
        self._type = type_proto
        #: The contents, if the operand of the equation is a literal.
        self.constant = constant

    @property
    def dtype(self) -> np.dtype | None:
        """The element type, or `None` if it is not known."""
        code = self._type.tensor_type.elem_type if self._type is not None else 0
        return helper.tensor_dtype_to_np_dtype(code) if code else None

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """The sizes, if known. A size is a number, the text of a symbolic size, or `None`."""
        if self._type is None or not self._type.tensor_type.HasField("shape"):
            return None
        return tuple(_size(dim) for dim in self._type.tensor_type.shape.dim)

    def __repr__(self) -> str:
        return (
            f"PluginValue({self.dtype or '?'}{list(self.shape) if self.shape is not None else '?'})"
        )


class PluginBody:
    """A body for an attribute such as `then_branch`."""

    __slots__ = ("_block",)

    def __init__(self, block: Any) -> None:
        self._block = block


class PluginContext:
    """The equation that is being lowered, and the methods that build its results."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        #: The operands of the equation.
        self.inputs: tuple[PluginValue, ...] = recorder.operands
        #: The types that the results must have, as `jax.ShapeDtypeStruct`s.
        self.outputs: tuple[Any, ...] = recorder.due
        #: The opset of the model.
        self.opset: int = recorder.opset
        #: The operators, as in `ctx.op.Mul(x, y)`.
        self.op = PluginOps(recorder)

    def constant(self, value: Any, dtype: Any = None) -> PluginValue:
        """Return a constant. A Python float gets the type of the equation's first float operand."""
        return self._recorder.constant(value, dtype)

    def lower(self, jaxpr: Any, *inputs: Any) -> tuple[PluginValue, ...]:
        """Return the results of a jaxpr, such as a parameter of the equation, for these inputs."""
        return self._recorder.inline(jaxpr, inputs)

    def body(self, build: Callable[..., Any], inputs: Sequence[Any] = ()) -> PluginBody:
        """Return a body for operators such as `If` and `Loop`.

        Args:
            build: A function that takes one value per input and returns the results of the body.
                It may use outer values.
            inputs: The types of the inputs: anything with a `shape` and a `dtype`.
        """
        return self._recorder.body(build, inputs)


class PluginOps:
    """The operators, by name."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder

    def __getattr__(self, op: str) -> Callable[..., Any]:
        if op.startswith("__"):
            raise AttributeError(op)

        def call(
            *inputs: Any,
            outputs: int = 1,
            domain: str = "",
            version: int = 1,
            attributes: Mapping[str, Any] | None = None,
            **attrs: Any,
        ) -> Any:
            given = {**(attributes or {}), **attrs}
            results = self._recorder.node(op, inputs, outputs, domain, version, given)
            return results[0] if outputs == 1 else results

        return call


class Recorder:
    """The steps of a plugin, in order."""

    def __init__(self, eqn: Any, opset: int, plugin: str) -> None:
        self.eqn = eqn
        self.opset = opset
        self._plugin = plugin
        self._steps: list[Step] = []
        self._next = 0
        self.operands = tuple(
            PluginValue(self._slot(), _type_of(atom.aval), _literal(atom)) for atom in eqn.invars
        )
        self.due = tuple(
            cast(Any, jax.ShapeDtypeStruct)(var.aval.shape, var.aval.dtype) for var in eqn.outvars
        )

    def run(self, plugin: Any) -> Any:
        """Run a plugin. Return its recipe, or `NotImplemented`."""
        results = plugin.lower(PluginContext(self), self.eqn)
        if results is NotImplemented:
            return results
        slots = self._results(results)
        if len(slots) != len(self.due):
            raise ValueError(f"the plugin returned {len(slots)} results instead of {len(self.due)}")
        for index, (value, var) in enumerate(zip(slots, self.eqn.outvars, strict=True)):
            _check_type(index, value, _type_of(var.aval))
        return [], self._steps, [value._slot for value in slots]

    def node(
        self,
        op: str,
        inputs: Sequence[Any],
        outputs: int,
        domain: str,
        version: int,
        attrs: Mapping[str, Any],
    ) -> tuple[PluginValue, ...]:
        schema = self._schema(op, domain, inputs, outputs, attrs)
        like = next((value.dtype for value in inputs if isinstance(value, PluginValue)), None)
        operands = [None if value is None else self._operand(value, like) for value in inputs]
        read = [(name, *_attr(name, value, schema)) for name, value in attrs.items()]
        types = _infer(schema, op, domain, operands, read, outputs, self.opset)
        made = [PluginValue(self._slot(), one) for one in types]
        slots = [None if value is None else value._slot for value in operands]
        self._record("node", (domain, version, op, slots, read), made)
        return tuple(made)

    def constant(self, value: Any, dtype: Any = None) -> PluginValue:
        if dtype is None and isinstance(value, float):
            known = (operand.dtype for operand in self.operands)
            dtype = next((one for one in known if one is not None and _is_float(one)), np.float32)
        if dtype is None and isinstance(value, jax.Array):
            value = np.asarray(value)
        array = np.asarray(value, dtype)
        if array.dtype.kind in "OSUMmc":
            raise TypeError(f"{value!r} cannot be an ONNX constant")
        one = PluginValue(self._slot(), _tensor_type(array.dtype, array.shape), array)
        self._record("constant", array, [one])
        return one

    def inline(self, jaxpr: Any, inputs: Sequence[Any]) -> tuple[PluginValue, ...]:
        body = getattr(jaxpr, "jaxpr", jaxpr)
        if not hasattr(body, "eqns"):
            raise TypeError(f"{jaxpr!r} is not a jaxpr")
        if len(inputs) != len(body.invars):
            raise ValueError(f"{len(inputs)} inputs for a jaxpr that takes {len(body.invars)}")
        operands = []
        for index, (value, var) in enumerate(zip(inputs, body.invars, strict=True)):
            operand = self._operand(value, var.aval.dtype)
            _check_type(index, operand, _type_of(var.aval), "input")
            operands.append(operand._slot)
        made = [PluginValue(self._slot(), _type_of(atom.aval)) for atom in body.outvars]
        self._record("inline", (jaxpr, operands), made)
        return tuple(made)

    def body(self, build: Callable[..., Any], inputs: Sequence[Any]) -> PluginBody:
        if not callable(build):
            raise TypeError(f"{build!r} is not a function that builds a body")
        avals = [jax.core.ShapedArray(tuple(one.shape), np.dtype(one.dtype)) for one in inputs]
        given = [PluginValue(self._slot(), _type_of(aval)) for aval in avals]
        outside, self._steps = self._steps, []
        try:
            results = [value._slot for value in self._results(build(*given))]
            block = (list(zip([one._slot for one in given], avals, strict=True)), self._steps)
        finally:
            self._steps = outside
        return PluginBody((*block, results))

    def _results(self, results: Any) -> list[PluginValue]:
        given = list(results) if isinstance(results, list | tuple) else [results]
        for value in given:
            if not isinstance(value, PluginValue):
                raise TypeError(
                    f"the plugin returned {value!r}, which is not a value of this plugin: return "
                    "results of `ctx.op`, or NotImplemented"
                )
        return given

    def _operand(self, value: Any, like: Any) -> PluginValue:
        if isinstance(value, PluginValue):
            return value
        # As in JAX, a Python number takes the type of the other operands.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self.constant(value, like if is_number else None)

    def _schema(
        self, op: str, domain: str, inputs: Sequence[Any], outputs: int, attrs: Mapping[str, Any]
    ) -> defs.OpSchema | None:
        """Check a call against the schema of the operator, and return the schema."""
        known = _operators(domain)
        if not known:
            return None
        version = self.opset if domain == "" else defs.onnx_opset_version()
        try:
            schema = defs.get_schema(op, version, domain)
        except defs.SchemaError:
            near = difflib.get_close_matches(op, known, 3)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            raise AttributeError(f"opset {version} has no operator {op}{hint}") from None
        for what, count, least, most in (
            ("inputs", len(inputs), schema.min_input, schema.max_input),
            ("outputs", outputs, schema.min_output, schema.max_output),
        ):
            if not least <= count <= most:
                allowed = str(least) if least == most else f"{least} to {most}"
                raise TypeError(f"{op} has {count} {what} instead of {allowed}")
        for name in attrs:
            if name not in schema.attributes:
                others = ", ".join(schema.attributes) or "none"
                raise TypeError(f"{op} has no attribute {name}: it has {others}")
        return schema

    def _record(
        self, kind: Literal["node", "constant", "inline"], action: Any, made: list[PluginValue]
    ) -> None:
        self._steps.append((kind, action, [one._slot for one in made], self._frames()))

    def _frames(self) -> list[Frame]:
        """Return the running lines of the plugin, outermost first."""
        frames: list[Frame] = []
        frame = sys._getframe(2)
        while frame is not None and frame.f_code is not Recorder.run.__code__:
            code = frame.f_code
            if not is_own(code.co_filename):
                function = code.co_qualname.rpartition("<locals>.")[2]
                frames.append((*_cells.place(code, frame.f_lineno), function))
            frame = cast(Any, frame.f_back)
        if frames:
            file, line, _ = frames[-1]
            frames[-1] = (file, line, f"{self._plugin}.lower")
        return frames[::-1]

    def _slot(self) -> int:
        self._next += 1
        return self._next - 1


def is_for_plugins(eqn: Any) -> bool:
    """Return whether ONNX supports the types of all operands and results."""
    kinds = (
        getattr(getattr(atom.aval, "dtype", None), "kind", None)
        for atom in (*eqn.invars, *eqn.outvars)
    )
    return all(kind not in (None, "c") for kind in kinds)


@functools.cache
def _operators(domain: str) -> frozenset[str]:
    """Return the names of ONNX's own operators."""
    return frozenset(one.name for one in defs.get_all_schemas() if one.domain == domain)


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value
    return dim.dim_param or None


def _literal(atom: Any) -> np.ndarray | None:
    value = getattr(atom, "val", None)
    return None if value is None else np.asarray(value, atom.aval.dtype)


def _is_float(dtype: np.dtype) -> bool:
    return bool(jax.numpy.issubdtype(dtype, np.floating))


def _type_of(aval: Any) -> onnx.TypeProto:
    return _tensor_type(aval.dtype, aval.shape)


def _tensor_type(dtype: Any, shape: Sequence[Any]) -> onnx.TypeProto:
    sizes = [size if isinstance(size, int) else str(size) for size in shape]
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), sizes)


def _check_type(index: int, value: PluginValue, due: onnx.TypeProto, what: str = "result") -> None:
    """Raise an error if a value is known to have the wrong type or shape."""
    wanted = PluginValue(0, due)
    shape, wanted_shape = value.shape, wanted.shape or ()
    differs = value.dtype not in (None, wanted.dtype)
    if shape is not None:
        differs |= len(shape) != len(wanted_shape) or any(
            isinstance(one, int) and isinstance(other, int) and one != other
            for one, other in zip(shape, wanted_shape, strict=True)
        )
    if differs:
        raise TypeError(f"{what} {index} is {value!r}, but should be {wanted!r}")


def _attr(name: str, value: Any, schema: defs.OpSchema | None) -> tuple[str, Any]:
    """Return the kind of an attribute, and its value as that kind."""
    if isinstance(value, PluginBody):
        return "body", value._block
    due = schema.attributes[name].type if schema is not None else None
    if isinstance(value, np.ndarray | jax.Array):
        return "tensor", np.asarray(value)
    if isinstance(value, bytes):
        return "str", value.decode()
    if isinstance(value, str):
        return "str", value
    if isinstance(value, np.dtype | type):
        return "int", helper.np_dtype_to_tensor_dtype(np.dtype(value))
    if isinstance(value, float | np.floating) or (due == _AttrType.FLOAT and _is_number(value)):
        return "float", float(value)
    if _is_number(value):
        return "int", int(value)
    if isinstance(value, list | tuple):
        items = list(value)
        if due == _AttrType.STRINGS or (items and all(isinstance(item, str) for item in items)):
            return "strs", items
        if due == _AttrType.FLOATS or any(isinstance(item, float) for item in items):
            return "floats", [float(item) for item in items]
        if all(_is_number(item) for item in items):
            return "ints", [int(item) for item in items]
    raise TypeError(f"the attribute {name} is {value!r}, which is not a valid value")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer | np.bool_)


def _infer(
    schema: defs.OpSchema | None,
    op: str,
    domain: str,
    inputs: Sequence[PluginValue | None],
    attrs: Sequence[tuple[str, str, Any]],
    outputs: int,
    opset: int,
) -> list[onnx.TypeProto | None]:
    """Return the types of the results that ONNX infers; raise its error about the operands."""
    known = all(value is None or value._type is not None for value in inputs)
    if schema is None or not known or any(kind == "body" for _, kind, _ in attrs):
        return [None] * outputs
    names = ["" if value is None else f"in_{index}" for index, value in enumerate(inputs)]
    results = [f"out_{index}" for index in range(outputs)]
    plain = {
        name: onnx.numpy_helper.from_array(value) if kind == "tensor" else value
        for name, kind, value in attrs
    }
    node = helper.make_node(op, names, results, domain=domain, **plain)
    given = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    types = {name: value._type for name, value in given.items() if value._type is not None}
    data = {
        name: onnx.numpy_helper.from_array(value.constant)
        for name, value in given.items()
        if value.constant is not None
    }
    imports = [helper.make_opsetid(domain, opset if domain == "" else schema.since_version)]
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, types, input_data=data, opset_imports=imports
        )
    except Exception as error:
        shown = ", ".join("none" if value is None else repr(value) for value in inputs)
        raise TypeError(f"{op}({shown}): {error}") from None
    return [found.get(name) for name in results]
