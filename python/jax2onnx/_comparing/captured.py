"""Find the first wrong number among those that another device computed and recorded.

Nothing runs the model there. Instead, ONNX Runtime computes each node of the reference from the
recorded operands. What differs from the recorded result is the error that the node adds on the
device. The nodes between recorded values are checked together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np

from .._errors import ConfigError, InputSpecError
from .._types import StrPath
from .._words import did_you_mean, quoted
from .arrays import Array
from .engine import Comparer, Fault, kind_of
from .executors import Local
from .graphs import Graph, label, submodel
from .judging import Statistics, Verdict, is_floating, machine_epsilon
from .levels import Level
from .models import Loaded
from .recordings import recorded
from .report import RECORDING, Coverage, Report
from .running import Runner, tensor_type
from .walk import Walk

if TYPE_CHECKING:
    from .compare import Options, Question

_SHOWN: Final = 3


def compare_captured(
    reference: Any,
    before: Loaded | None,
    after: Loaded,
    inputs: Mapping[str, Any] | Sequence[Any],
    source: "StrPath | Mapping[str, Any]",
    options: "Options",
) -> Report:
    """Compare what a device recorded with a function in JAX (`reference`) or a model (`before`)."""
    arrays = recorded(source)
    if not arrays:
        raise InputSpecError("the recording contains no arrays")
    if not len(inputs):
        inputs = _recorded_inputs(after, arrays)
    if before is None:
        question = options.with_jax(reference, after, inputs)
    else:
        question = options.with_model(before, after, inputs)
        if before.name == after.name:
            question.reference_name, question.model_name = "ONNX Runtime", after.name
    recording = _Recording(question, arrays)
    comparer = _Checker(recording)
    Walk(comparer).run(question.reference, question.feeds, recording)
    return _answer(question, recording, comparer)


def _recorded_inputs(model: Loaded, arrays: Mapping[str, Array]) -> list[Array]:
    weights = {tensor.name for tensor in model.proto.graph.initializer}
    taken = [each.name for each in model.proto.graph.input if each.name not in weights]
    missing = [name for name in taken if name not in arrays]
    if missing:
        raise InputSpecError(
            f"the input {quoted(missing[0])} is missing: pass the inputs, or record them"
        )
    return [arrays[name] for name in taken]


@dataclass(frozen=True)
class _Recorded:
    """The contents of a value on the device, in the type of the model.

    Attributes:
        epsilon: The precision of the type that the device recorded.
    """

    array: Array
    epsilon: float


class _Recording:
    """Knows the recorded values of the main graph.

    Attributes:
        values: The recorded values.
        expected: What ONNX Runtime computes for them.
        misshapen: What is wrong with recorded values that cannot be used.
    """

    def __init__(self, question: "Question", arrays: Mapping[str, Array]) -> None:
        self.graph = question.reference
        self.values: dict[str, _Recorded] = {}
        self.misshapen: dict[str, str] = {}
        names = _values(self.graph, arrays)
        unknown = [name for name in arrays if name not in names]
        names = {name: value for name, value in names.items() if value in self.graph.produced}
        if not names:
            known = [*self.graph.produced, *map(label, self.graph.nodes)]
            hint = did_you_mean(next(iter(unknown), ""), known, ": ")
            raise ConfigError(
                "the recording contains no value of the model: name each array by a value or by a "
                f"node of the main graph{hint}"
            )
        if unknown:
            shown = ", ".join(map(quoted, unknown[:_SHOWN]))
            question.notes.append(
                f"{len(unknown)} recorded arrays are not used, because the model has no value or "
                f"node of their names: {shown}{' …' if len(unknown) > _SHOWN else ''}"
            )
        self.expected = _computed(self.graph, question.feeds, set(names.values()))
        for name, value in names.items():
            if value in self.values and name != value:
                continue
            self._add(question, value, arrays[name])

    def _add(self, question: "Question", value: str, array: Array) -> None:
        expected = self.expected.get(value)
        if expected is None:
            return
        if array.shape != expected.shape and array.ndim == 1 and array.size == expected.size:
            # Whoever records need not know the shape.
            array = array.reshape(expected.shape)
        if array.shape != expected.shape:
            self.misshapen[value] = (
                f"the shape is {list(array.shape)} where {list(expected.shape)} is expected"
            )
            return
        with np.errstate(all="ignore"):
            cast = array.astype(expected.dtype)
        floats = is_floating(array.dtype) and is_floating(expected.dtype)
        if not floats and not np.array_equal(cast.astype(array.dtype), array):
            self.misshapen[value] = f"the type is {array.dtype.name}, not {expected.dtype.name}"
            return
        epsilon = machine_epsilon(array.dtype) if floats else 0.0
        self.values[value] = _Recorded(cast, epsilon)

    def take(self, name: str) -> "Array | None":
        """Return the contents of a value of the main graph."""
        found = self.values.get(name)
        return None if found is None else found.array

    def body(self, graph: Graph, iteration: int | None) -> None:
        """Know nothing about bodies."""


def _values(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, str]:
    """Return the value that each recorded array belongs to: by its name, or by that of its node."""
    known = {*graph.produced, *graph.inputs}
    nodes = {node.name: next(filter(None, node.output), "") for node in graph.nodes if node.name}
    found = {}
    for name in arrays:
        for spelled in (name, unquote(name)):
            value = spelled if spelled in known else nodes.get(spelled)
            if value:
                found[name] = value
                break
    return found


def _computed(graph: Graph, feeds: Mapping[str, Array], names: set[str]) -> dict[str, Array]:
    """Run the reference, and return some of its values."""
    types = {name: tensor_type(array.dtype) for name, array in feeds.items()}
    wanted = {name: name for name in names | set(graph.outputs) if name in graph.produced}
    part = submodel(graph, range(len(graph.nodes)), types, wanted)
    return Runner(part, graph.model, optimize=False).run(feeds)


class _Checker(Comparer):
    """Compares recorded results with what ONNX Runtime computes from recorded operands."""

    def __init__(self, recording: _Recording) -> None:
        super().__init__(
            recording.graph,
            executor=Local(),
            given={(): frozenset(recording.values)},
            ambiguous={},
            enters_bodies=False,
        )
        self._recording = recording

    def level(self, graph: Graph) -> Level:
        """Plan to run the reference with the recorded values in place of its own."""
        level = super().level(graph)
        cut, values = self.cuts[graph.key], self._recording.values
        segments = [each for each in cut.segments if each.partner in values]
        for place, segment in enumerate(segments):
            names = (segment.value, *segment.inputs)
            epsilon = max((values[name].epsilon for name in names if name in values), default=0.0)
            coarse = max(epsilon, segment.tolerance.epsilon)
            segments[place] = replace(segment, tolerance=replace(segment.tolerance, epsilon=coarse))
        cut.segments[:] = segments
        return level

    def _note(self, fault: Fault) -> None:
        """Exchange what is expected and what was found: the recorded numbers are those to check."""
        verdict = replace(fault.verdict, expected=fault.verdict.got, got=fault.verdict.expected)
        number = fault.nodes[-1]
        is_clear = fault.is_clear and not fault.graph.bodies(number)
        super()._note(replace(fault, verdict=verdict, kind=kind_of(verdict), is_clear=is_clear))


def _answer(question: "Question", recording: _Recording, comparer: _Checker) -> Report:
    from .summary import summarize

    known = question.known
    expected = {name: recording.expected.get(name) for name in question.reference.outputs}
    if known is not None:
        known.oracle(question.reference)
        expected |= dict(zip(question.reference.outputs, known.results(), strict=True))
    found = {
        name: recording.values[partner].array
        for name, partner in zip(question.model.outputs, question.reference.outputs, strict=False)
        if partner in recording.values
    }
    outputs = question.compared({n: a for n, a in expected.items() if a is not None}, found)
    _add_misshapen(comparer, recording)
    first = comparer.first
    if first is not None and first.segment is not None and first.kind != "shape":
        comparer.first = replace(first, expected=_result(first))
    elif first is None and not all(output.is_match for output in outputs):
        own = question.answer()
        if own.first is not None:
            note = "the device computed what the model computes: the model itself is wrong"
            return replace(own, notes=(*own.notes, note))
        question.notes.append("rounding errors accumulate: each recorded step is right")
    swapped = replace(
        question, model=question.reference, model_lines=question.lines, runtime_name=RECORDING
    )
    coverage = _coverage(swapped, comparer)
    return replace(summarize(swapped, comparer, outputs), coverage=coverage)


def _coverage(question: "Question", comparer: _Checker) -> Coverage:
    """Return how many nodes of the main graph were compared."""
    segments = comparer.cuts[()].segments
    behind = {number for each in segments for number in each.behind}
    alone = {each.nodes[-1] for each in segments if len(each.behind) < 2} - behind
    behind -= alone
    rest = len(question.reference.nodes) - len(alone) - len(behind)
    if rest:
        question.notes.append(f"{rest} nodes compute nothing that was recorded")
    return Coverage(len(alone), len(behind))


def _add_misshapen(comparer: _Checker, recording: _Recording) -> None:
    """Add the recorded values of another shape or type, which are wrong without a comparison."""
    cut = comparer.cuts[()]
    for value, problem in recording.misshapen.items():
        number = recording.graph.produced[value]
        if comparer.first is not None and comparer.first.order <= (number,):
            continue
        verdict = Verdict(Statistics(excess=np.inf), np.inf, problem=problem)
        expected = recording.expected[value]
        comparer.first = Fault(
            *((number,), cut, (number,), value, value, (), verdict, "shape", {}),
            expected,
            is_clear=False,
        )


def _result(fault: Fault) -> Array:
    """Return what ONNX Runtime computes from the recorded operands."""
    assert fault.segment is not None
    try:
        (result,) = fault.cut.runner([fault.segment]).run(fault.feeds).values()
    except Exception:
        return fault.expected
    return result
