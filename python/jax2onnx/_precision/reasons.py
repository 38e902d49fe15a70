"""Say in words why a line loses precision."""

import math
from typing import Final

from .._comparing.lines import SourceLine
from .._words import quoted
from .formats import Format
from .ranking import Group, exceeds, mixes_ranges, severity
from .sites import Facts, Weight

#: A share from which on something is worth a sentence.
_MANY: Final = 0.05
_AMPLIFIED: Final = 30.0
_ABSORBING: Final = 0.25


def culprit(group: Group, kind: Format) -> Facts:
    """Return the node of a line that loses most."""
    return min(group.facts, key=lambda each: (-severity(each, kind), each.order))


def problem(facts: Facts, kind: Format) -> str:
    """Return what is wrong with the numbers of a node, in a word; empty if they only round."""
    if facts.values.overflowing or facts.is_inside:
        return "overflow"
    for weight in facts.weights.values():
        if exceeds(facts, weight):
            return "weight"
    for weight in facts.weights.values():
        if weight.range.vanishing:
            return "underflow"
    if facts.outlier is not None and not kind.is_float:
        return "outlier"
    if mixes_ranges(facts, kind):
        return "mixed"
    if facts.values.size and facts.values.vanishing > _MANY * facts.values.size:
        return "underflow"
    if facts.graph.key and (facts.absorbed > _ABSORBING or _stands_still(facts, kind)):
        return "absorbed"
    return ""


def _stands_still(facts: Facts, kind: Format) -> bool:
    """Return whether a sum in a loop becomes too large for its addends."""
    return 0 < facts.addend < kind.epsilon * facts.values.largest / 4


def reason(group: Group, kind: Format) -> str:
    """Return the reason in words."""
    facts = culprit(group, kind)
    where = _where(group.line)
    what = problem(facts, kind)
    name = kind.name
    if what == "overflow" and facts.values.overflowing:
        return f"values up to {_number(facts.values.largest)} exceed {name} ({_limit(kind)}){where}"
    if what == "overflow":
        return f"sums inside {facts.node.op_type} exceed {name} ({_limit(kind)}){where}"
    if what == "weight":
        weight = _first(facts, "overflowing")
        return (
            f"{_named(weight)} up to {_number(weight.range.largest)} exceed {name} "
            f"({_limit(kind)}){where}"
        )
    if what == "underflow" and any(each.range.vanishing for each in facts.weights.values()):
        return _vanishing(_first(facts, "vanishing"), kind) + where
    if what == "underflow":
        share = facts.values.vanishing / facts.values.size
        return (
            f"{_percent(share)} of the values become 0 in {name}, because they are below "
            f"{_number(kind.smallest)}{where}"
        )
    if what == "absorbed":
        return (
            f"a running sum of up to {_number(facts.values.largest)} loses addends such as "
            f"{_number(facts.addend)}, because the steps of {name} are "
            f"{_number(kind.epsilon * facts.values.largest / 2)} there{where}"
        )
    if what == "outlier" and facts.outlier is not None:
        channel, ratio = facts.outlier
        return (
            f"channel {channel} is {ratio:,.0f} times as large as the median channel, so that "
            f"{name} has few steps left for the others{where}"
        )
    if what == "mixed":
        step = (facts.values.most - facts.values.least) / 255
        return (
            f"the steps of {name} are {_number(step)} in a result that contains values up to "
            f"{_number(facts.values.largest)}{where}"
        )
    return _rounding(group, facts, kind) + where


def _rounding(group: Group, facts: Facts, kind: Format) -> str:
    own = facts.own_error
    weight = max(facts.weights.values(), key=lambda each: each.error, default=None)
    what = f"rounding to {kind.name} changes the result by {_share(own)}"
    if weight is not None and weight.error > 2 * own:
        what = (
            f"rounding {_named(weight).removesuffix(' has values')} to {kind.name} changes it by "
        )
        what += _share(weight.error)
    tiny = facts.values.subnormal / max(facts.values.size, 1)
    if tiny > _MANY:
        what += f": {_percent(tiny)} of the values are below {_number(kind.normal)}"
    if group.output is not None and own > 0 and group.error > _AMPLIFIED * own:
        what += f", and later lines amplify this to {_share(group.error)} in {quoted(group.output)}"
    return what


def _first(facts: Facts, which: str) -> Weight:
    return next(each for each in facts.weights.values() if getattr(each.range, which))


def _vanishing(weight: Weight, kind: Format) -> str:
    if weight.range.size == 1:
        return (
            f"the constant {_number(weight.range.largest)} becomes 0 in {kind.name}, whose "
            f"smallest number is {_number(kind.smallest)}"
        )
    return (
        f"{weight.range.vanishing} of {weight.range.size} elements of the weight "
        f"{quoted(weight.name)} become 0 in {kind.name}, whose smallest number is "
        f"{_number(kind.smallest)}"
    )


def _named(weight: Weight) -> str:
    if weight.range.size == 1:
        return "a constant"
    return f"the weight {quoted(weight.name)} has values"


def _where(line: SourceLine | None) -> str:
    if line is None or line.line is None:
        return ""
    place = f"{line.file}:{line.line}" if line.file else f"line {line.line}"
    return f" at {quoted(place)}"


def _number(value: float) -> str:
    """Return a number with two digits: 8.1e4."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    if 0.01 <= value < 1e4:
        return f"{value:.3g}"
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits}e{int(exponent)}"


def _limit(kind: Format) -> str:
    return f"{kind.largest:,.0f}" if kind.largest < 1e7 else _number(kind.largest)


def _share(error: float) -> str:
    if not math.isfinite(error):
        return "an infinite amount"
    return f"{100 * error:.2g} %"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
