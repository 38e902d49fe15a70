"""Turn what was measured into a report."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from .._words import quoted
from .arrays import OutputComparison
from .cuts import Cut, Segment
from .engine import Comparer, Fault, Measured
from .graphs import Graph, label
from .judging import Statistics, float_info, machine_epsilon
from .lines import SourceLine
from .optimizers import group_model
from .refusals import Refusal, guilty
from .report import Coverage, First, Report, Row
from .reproducer import Case

if TYPE_CHECKING:
    from .compare import Question

#: A node of a converted model that loses more units of its type than this is worth keeping.
_MAX_LOSS: Final = 4.0
#: The maximum number of nodes that a note names.
_MAX_SHOWN: Final = 8
#: An element that loses this share of itself is too small for the shorter type.
_UNDERFLOW: Final = 0.5


def summarize(
    question: "Question",
    comparer: Comparer,
    outputs: Sequence[OutputComparison],
    optimizer: str | None = None,
    refusal: Refusal | None = None,
) -> Report:
    """Return the report on a comparison.

    Args:
        question: What was compared.
        comparer: What was measured.
        outputs: The outputs of the model as it is.
        optimizer: The optimization of the runtime that is responsible, if one is.
        refusal: The words of the runtime, if it refuses the model.
    """
    fault = comparer.first
    # A recording need not contain the outputs.
    agrees = bool(outputs) and all(output.is_match for output in outputs)
    is_sure = comparer.unknown is None or fault is None or fault.order < comparer.unknown
    first = None
    if fault is not None:
        first = _first(question, fault, optimizer, agrees=agrees or not is_sure)
    elif refusal is not None:
        fault, first = _refused(question, comparer, refusal)
    if refusal is not None and (first is None or first.kind != "failure"):
        where = f" ({refusal.lines[0]})" if refusal.lines else ""
        question.notes.append(
            f"{question.executor.title} refuses the model{where}: {refusal.sentence}"
        )
    kept = tuple(dict.fromkeys([*_blamed(fault), *_kept(comparer, agrees=agrees)]))
    if first is None and not agrees and any(map(_is_shorter, comparer.measured.values())):
        shown = ", ".join(map(quoted, kept[:_MAX_SHOWN]))
        question.notes.append(
            f"the shorter type is too small for numbers of {shown}: keep these nodes in float32"
            if kept
            else "no node loses so much precision that float32 would help: many small rounding "
            "errors of the shorter type add up, so allow a larger `rtol` or keep whole layers in "
            "float32"
        )
    return Report(
        first,
        tuple(outputs),
        tuple(_rows(question, comparer)),
        _coverage(question, comparer),
        tuple(question.notes),
        question.reference_name,
        question.model_name,
        question.runtime_name or question.executor.title,
        kept,
        None if fault is None else _case(question, fault),
    )


def _refused(
    question: "Question", comparer: Comparer, refusal: Refusal
) -> tuple[Fault | None, First | None]:
    """Return the node that another runtime refuses: by a run of it alone, or by the message."""

    def lines_of_fault(fault: Fault) -> list[SourceLine]:
        return lines_of(question, fault.cut, fault.nodes, fault.partner, fault.segment)

    def lines_around(fault: Fault) -> list[SourceLine]:
        graph, found = fault.cut.reference, []
        while graph.around is not None and graph.owner is not None:
            found += question.lines.of_node(graph.around, graph.owner)
            graph = graph.around
        return found

    fault, is_sure = guilty(refusal, comparer.refused, lines_of_fault, lines_around)
    if fault is not None:
        found = _first(question, replace(fault, is_clear=is_sure), None, agrees=False)
        return fault, replace(found, problem=refusal.sentence)
    if refusal.node is None and not refusal.lines and not question.executor.is_local:
        return None, None
    best = refusal.lines[0] if refusal.lines else SourceLine(None, None, "")
    node = refusal.node or ("", "")
    return None, First(
        best.file,
        best.line,
        best.function,
        iterations=(),
        index=None,
        expected=None,
        got=None,
        node=node[0],
        op=node[1],
        value="",
        lines=refusal.lines,
        sure=is_sure,
        kind="failure",
        nodes=(node[0],),
        problem=refusal.sentence,
        unknown=question.model_lines.unknown,
    )


def _first(question: "Question", fault: Fault, optimizer: str | None, *, agrees: bool) -> First:
    if fault.is_conversion and fault.segment is not None:
        lines = question.lines.of_nodes(fault.cut.reference, fault.segment.behind)
    else:
        lines = _narrowed(question, fault) or lines_of(
            question, fault.cut, fault.nodes, fault.partner, fault.segment
        )
    node = fault.graph.nodes[fault.nodes[-1]]
    best = lines[0] if lines else SourceLine(None, None, "")
    verdict = fault.verdict
    return First(
        file=best.file,
        line=best.line,
        function=best.function,
        iterations=fault.iterations,
        index=verdict.index,
        expected=verdict.expected,
        got=verdict.got,
        node=label(node),
        op=node.op_type,
        value=fault.value,
        lines=tuple(lines),
        sure=fault.is_clear and not agrees and len({line.place for line in lines}) == 1,
        kind=fault.kind,
        nodes=tuple(label(fault.graph.nodes[number]) for number in fault.nodes),
        problem=verdict.problem,
        optimizer=optimizer,
        statistics=verdict.statistics,
        unknown=question.model_lines.unknown,
    )


def lines_of(
    question: "Question", cut: Cut, nodes: Sequence[int], partner: str, segment: Segment | None
) -> list[SourceLine]:
    """Return the lines of nodes of the model: those of the reference's nodes, if there are any."""
    number = cut.reference.produced.get(partner)
    before = [] if number is None else [number]
    if segment is not None:
        before = cut.reference_nodes(segment)
    known = question.lines.of_nodes(cut.reference, before)
    return known or question.model_lines.of_nodes(cut.graph, reversed(nodes))


def _narrowed(question: "Question", fault: Fault) -> list[SourceLine]:
    """Return the lines of the only weight that differs, if that is what is wrong with a node."""
    number = fault.cut.reference.produced.get(fault.partner)
    if number is None or len(fault.nodes) > 1 or fault.segment is None:
        return []
    before, after = fault.cut.reference.nodes[number], fault.graph.nodes[fault.nodes[0]]
    same = (before.op_type, [each.SerializeToString() for each in before.attribute]) == (
        after.op_type,
        [each.SerializeToString() for each in after.attribute],
    )
    if not same or len(before.input) != len(after.input):
        return []
    differing = [
        one
        for one, other in zip(before.input, after.input, strict=True)
        if _differs(fault.cut.reference, one, fault.graph, other)
    ]
    if len(differing) != 1:
        return []
    node = {line.place for line in question.lines.of_node(fault.cut.reference, number)}
    lines = question.lines.of_weight(fault.cut.reference, differing[0])
    return [line for line in lines if line.place in node]


def _differs(before: Graph, one: str, after: Graph, other: str) -> bool:
    first, second = before.initializer(one), after.initializer(other)
    if first is None or second is None:
        return False
    a, b = before.model.array(first), after.model.array(second)
    has_nan = a.dtype.kind == "f"
    return a.shape != b.shape or not np.array_equal(a, b.astype(a.dtype), equal_nan=has_nan)


def _rows(question: "Question", comparer: Comparer) -> list[Row]:
    """Return the lines by the error that they add."""
    groups: dict[object, tuple[SourceLine | None, list[Measured]]] = {}
    for measured in comparer.measured.values():
        lines = lines_of(question, measured.cut, measured.nodes, measured.partner, measured.segment)
        line = lines[0] if lines else None
        place = (measured.cut.graph.key, measured.value) if line is None else line.place
        groups.setdefault(place, (line, []))[1].append(measured)
    rows = []
    for line, members in groups.values():
        worst = Statistics()
        for measured in members:
            worst.add(measured.statistics)
        ordered = sorted(members, key=lambda each: -each.statistics.loss)
        nodes = [(each.cut.graph.nodes[each.nodes[-1]]) for each in ordered]
        rows.append(
            Row(
                line,
                tuple(dict.fromkeys(map(label, nodes))),
                tuple(dict.fromkeys(node.op_type for node in nodes)),
                worst,
            )
        )
    return sorted(rows, key=lambda row: (-row.statistics.excess > -1, -row.statistics.loss))


def _coverage(question: "Question", comparer: Comparer) -> Coverage:
    compared = covered = skipped = 0
    for graph in _graphs(question.model):
        cut = next((each for each in comparer.cuts.values() if each.graph is graph), None)
        if cut is None:
            skipped += len(graph.nodes)
            continue
        inner = set(cut.aligned.values())
        alone = {segment.nodes[-1] for segment in cut.segments}
        together = {number for segment in cut.segments for number in segment.nodes} - alone
        compared += len(alone | inner)
        covered += len(together - inner)
        skipped += len(graph.nodes) - len(alone | inner | together)
    known = question.known
    if known is None:
        return Coverage(compared, covered, skipped)
    return Coverage(compared, covered, skipped, known.equations, known.paired, known.covered)


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for number in range(len(graph.nodes)):
        for body in graph.bodies(number).values():
            yield from _graphs(body)


def _blamed(fault: Fault | None) -> Iterator[str]:
    """Yield the node of the reference whose result is wrong, if the model has a shorter type."""
    if fault is None or not _has_shorter_type(fault.cut, fault.value, fault.partner):
        return
    number = fault.cut.reference.produced.get(fault.partner)
    if number is not None:
        yield label(fault.cut.reference.nodes[number])


def _has_shorter_type(cut: Cut, value: str, partner: str) -> bool:
    own, before = cut.types.get(value), cut.reference_types.get(partner)
    return (
        own is not None
        and before is not None
        and own.itemsize < before.itemsize
        and own.kind != "i"
    )


def _is_shorter(measured: Measured) -> bool:
    return _has_shorter_type(measured.cut, measured.value, measured.partner)


def _kept(comparer: Comparer, *, agrees: bool) -> Iterator[str]:
    """Yield the nodes of the reference that lose most in a shorter type.

    Args:
        comparer: What was measured.
        agrees: Whether the outputs match, so that numbers that became zero do no harm.
    """
    for measured in filter(_is_shorter, comparer.measured.values()):
        cut = measured.cut
        own = cut.types[measured.value]
        number = cut.reference.produced.get(measured.partner)
        if number is None:
            continue
        underflows = not agrees and measured.statistics.relative > _UNDERFLOW
        if underflows or measured.statistics.loss > _MAX_LOSS * machine_epsilon(own):
            yield label(cut.reference.nodes[number])
        if underflows or measured.largest > _largest_number(own):
            # What reads a number that the type does not have must stay as it is, too.
            for reader, node in enumerate(cut.reference.nodes):
                if measured.partner in cut.reference.reads(reader):
                    yield label(node)


def _largest_number(dtype: "np.dtype[np.generic]") -> float:
    return float(float_info(dtype).max)


def _case(question: "Question", fault: Fault) -> Case | None:
    if fault.segment is None or (fault.kind == "failure" and not question.executor.is_local):
        return None
    if fault.kind == "optimizer":
        model = group_model(fault.cut, fault.segment, fault.feeds)
    else:
        model = fault.cut.model([fault.segment])
    providers = question.executor.providers
    names = tuple(each[0] if isinstance(each, tuple) else each for each in providers)
    output = model.graph.output[0].name
    runtime = question.executor.name
    return Case(fault.graph, model, fault.feeds, fault.expected, output, names, runtime)
