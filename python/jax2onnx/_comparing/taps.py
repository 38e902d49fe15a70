"""Confirm wrong numbers of another runtime in the model as it is.

A runtime may compute a node alone in another way than in the model, where it joins nodes. Only what
is wrong there, too, is a fault.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .engine import Comparer, Fault
from .judging import is_floating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .arrays import OutputComparison
    from .compare import Question

#: How many faults to look at.
_MAX_FAULTS: Final = 8


def confirm(
    question: "Question", comparer: Comparer, outputs: "Sequence[OutputComparison]"
) -> None:
    """Choose the first fault that an output shows and that appears in the model as it is.

    If the runtime does not run the model with one more output, nothing is sure.
    """
    first = comparer.first
    if first is None:
        return
    wrong = {output.name for output in outputs if not output.is_match}
    candidates = sorted(comparer.faults, key=lambda each: each.order)
    if wrong:
        candidates = [each for each in candidates if wrong & _reached(each)]
    for fault in candidates[:_MAX_FAULTS]:
        if fault.graph.key:
            # Nobody can look into the body of a loop.
            comparer.first = fault
            return
        found = _value(question, fault)
        if found is None or _is_there(fault, found):
            is_clear = fault.is_clear and found is not None
            comparer.first = replace(fault, is_clear=is_clear)
            return
    comparer.first = replace(first, is_clear=False)


def _reached(fault: Fault) -> set[str]:
    """Return the values of the main graph that depend on a wrong one."""
    graph, number, reached = fault.graph, fault.nodes[-1], {fault.value}
    while graph.around is not None and graph.owner is not None:
        number = graph.owner
        graph = graph.around
        reached = set(graph.nodes[number].output)
    for later in range(number + 1, len(graph.nodes)):
        if reached.intersection(graph.reads(later)):
            reached.update(graph.nodes[later].output)
    return reached


def is_small(fault: Fault, rtol: float, atol: float) -> bool:
    """Return whether an error is within the tolerance for outputs."""
    errors = fault.verdict.statistics
    is_float = is_floating(fault.expected.dtype)
    return (
        is_float and fault.kind == "error" and (errors.relative <= rtol or errors.absolute <= atol)
    )


def _value(question: "Question", fault: Fault) -> Any:
    """Return what the whole model computes for a value; None if the runtime refuses to show it."""
    executor: Any = question.executor
    try:
        dtype = fault.cut.types[fault.value]
        runner = executor.tapped(question.model.model, fault.value, fault.expected, dtype)
        return runner.run(question.model_feeds())[fault.value]
    except Exception:
        return None


def _is_there(fault: Fault, found: Any) -> bool:
    """Return whether the whole model computes the wrong number, and not the expected one."""
    index = fault.verdict.index
    if index is None:
        return bool(found.shape != fault.expected.shape)
    if found.shape != fault.expected.shape:
        return True
    element, expected, got = found[index], fault.verdict.expected, fault.verdict.got
    if not (is_floating(np.asarray(element).dtype) and is_floating(np.asarray(expected).dtype)):
        return bool(element != expected)
    with np.errstate(all="ignore"):
        numbers = [np.float64(each) for each in (element, expected, got)]
        if not np.isfinite(numbers).all():
            kinds = [_kind(each) for each in numbers]
            return kinds[0] != kinds[1]
        return bool(abs(numbers[0] - numbers[2]) <= abs(numbers[0] - numbers[1]))


def _kind(number: Any) -> str:
    return "nan" if np.isnan(number) else str(number) if np.isinf(number) else "finite"
