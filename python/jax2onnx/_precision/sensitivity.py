"""Rank the lines of a model by what rounding does to them: `sensitivity`."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .. import _html
from .._comparing.lines import SourceLine
from .._types import StrPath
from .._words import lines as joined
from .._words import quoted
from .errors import LOST
from .formats import FORMATS, Format, format_of
from .ranking import Group, follows, severity
from .reasons import culprit, problem, reason

if TYPE_CHECKING:
    from .._comparing.runtime import AnyModel
    from .analysis import Analysis

VERSION: Final = 1
_SHOWN: Final = 10
_HEADER: Final = ("outputs", "own", "line", "")
_WIDTH: Final = 80
_INDENT: Final = "      "
#: An effect that is so many times as large as the next one has only one cause.
_CLEAR: Final = 4.0
_LARGE: Final = 0.02


@dataclass(frozen=True)
class SensitiveLine:
    """The loss of a line in a shorter type.

    Attributes:
        file: The file of the line as the model names it; None if it is unknown.
        line: The number of the line; None if it is unknown.
        function: The qualified name of the function.
        nodes: The names of the nodes from this line, the one that loses most first.
        ops: The operators of these nodes.
        iterations: The iteration of each loop around the first node in which it loses most,
            outermost first.
        own_error: The error of the line's own results if it alone is rounded, relative to them.
        error: The error of the output that suffers most if this line alone is rounded, relative to
            the output. From 1 on, nothing of the output is left. It is infinite if the output
            contains NaN or infinity.
        output: The output that suffers most; None if none does.
        reason: Why, in words.
        sure: Whether a run showed the error and only this line can be its cause.
        is_measured: Whether a run showed the error. Otherwise, it is an estimate.
        largest: The largest absolute value of the results.
        overflow: The share of the results that exceed the range of the type.
        underflow: The share of the results that become 0.
        subnormal: The share of the results that lose digits because they are small.
        text: The text of the line, if it can be shown.
        excerpt: The line with the expression underlined, as in error messages.
        module: The module of the nodes, if the line is in a library. Each module that runs the line
            has an entry.
    """

    file: str | None
    line: int | None
    function: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    iterations: tuple[int, ...]
    own_error: float
    error: float
    output: str | None
    reason: str
    sure: bool
    is_measured: bool
    largest: float
    overflow: float
    underflow: float
    subnormal: float
    text: str | None = None
    excerpt: str = field(default="", repr=False)
    module: str = ""

    @property
    def why(self) -> str:
        """The reason without the line."""
        return self.reason.rpartition(" at `")[0] or self.reason

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
            "text": self.text,
            "nodes": list(self.nodes),
            "ops": list(self.ops),
            "iterations": list(self.iterations),
            "own_error": number(self.own_error),
            "error": number(self.error),
            "output": self.output,
            "reason": self.reason,
            "sure": self.sure,
            "measured": self.is_measured,
            "largest": number(self.largest),
            "overflow": self.overflow,
            "underflow": self.underflow,
            "subnormal": self.subnormal,
            "module": self.module,
        }


def with_module(place: str, module: str) -> str:
    """Return a place with the module that runs the line, if it is known."""
    return f"{place}, by {quoted(module)}" if module else place


@dataclass(frozen=True)
class Sensitivity:
    """Contains the result of `sensitivity`. Prints as text.

    Attributes:
        lines: What each line loses, the largest effect on the outputs first.
        to: The type that the lines were rounded to.
        model: The name of the model.
        samples: The number of sets of inputs that were used.
        notes: Further remarks, one sentence each.
    """

    __module__ = "jax2onnx"

    lines: tuple[SensitiveLine, ...]
    to: str
    model: str
    samples: int
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> SensitiveLine | None:
        """The line that matters most; None if no line is rounded."""
        return self.lines[0] if self.lines else None

    def __str__(self) -> str:
        """Return the line that matters most, and a table of all lines."""
        parts = [self._headline()]
        first = self.first
        if first is not None:
            parts += first.excerpt.splitlines()
            parts += [f"   = {fact}" for fact in _facts(first)]
        parts += [f"note: {note}" for note in self.notes]
        return joined(parts)

    __repr__ = __str__

    def _headline(self) -> str:
        first = self.first
        if first is None:
            return f"no line of {self.model} is rounded to {self.to}"
        return f"{self.model} in {self.to}: {_effect(first)}"

    def table(self, top: int = _SHOWN) -> str:
        """Return a table of the lines, the largest effect on the outputs first.

        Args:
            top: The maximum number of lines.
        """
        rows = [_cells(line) for line in self.lines[:top]]
        widths = [max(len(row[place]) for row in [_HEADER, *rows]) for place in range(2)]
        shown = []
        for row in [_HEADER, *rows]:
            shown.append(f"{row[0].rjust(widths[0])}  {row[1].rjust(widths[1])}  {row[2]}")
            shown += textwrap.wrap(
                row[3], _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
            )
        more = len(self.lines) - top
        return joined([*shown, f"… and {more} more lines"] if more > 0 else shown)

    def to_json(self) -> dict[str, Any]:
        """Return the result as data for JSON. `docs/json-formats.md` describes the format."""
        return {
            "version": VERSION,
            "model": self.model,
            "to": self.to,
            "samples": self.samples,
            "first": None if self.first is None else self.first.to_json(),
            "lines": [line.to_json() for line in self.lines],
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        first = self.first
        shown = self.lines[:_SHOWN]
        return _html.answer(
            self._headline(),
            is_right=None if first is None else first.error < _LARGE,
            excerpt="" if first is None else first.excerpt,
            facts=[
                *(() if first is None else _facts(first)),
                *(f"note: {note}" for note in self.notes),
            ],
            table=_html.Table(
                (*_HEADER[:3], "reason"),
                [_cells(line) for line in shown],
                numbers=(0, 1),
                meters=(0, [min(line.error, LOST) for line in shown]),
                name=f"What each of {len(shown)} lines loses"
                if len(shown) == len(self.lines)
                else f"The {len(shown)} of {len(self.lines)} lines that matter most",
            ),
        )


def sensitivity(
    model: "AnyModel",
    data: Mapping[str, Any] | Sequence[Any],
    *,
    to: str = "float16",
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> Sensitivity:
    """Rank the lines of a model by what the outputs lose if a line has a shorter type.

    `sensitivity` looks at all values of the model once, also inside loops, branches and functions.
    Then it rounds one line after another: the weights that the line reads and the results that it
    computes. Each node accumulates in `float32`, as most kernels for 16 bits do.

    Args:
        model: The model: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`.
        data: The inputs, as a sequence or by name, or a list of several sets of inputs.
        to: The type: `"float16"`, `"bfloat16"`, `"int8"` or `"int4"`, which is for weights.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        A result that prints as text. `result.first` is the line that matters most.

    Raises:
        InputSpecError: The data does not match the model, or contains NaN.
        ConfigError: There is no such type, or ONNX Runtime does not run the model.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> import numpy as np
        >>> def energy(x):
        ...     square = x * x
        ...     return jnp.sqrt(square.mean())
        >>> model = jax2onnx.to_onnx(energy, [(3,)], provenance="indexed")
        >>> result = jax2onnx.sensitivity(model, [np.full(3, 300, np.float32)], to="float16")
        >>> result.first.error, result.first.overflow
        (inf, 1.0)
    """
    from .analysis import analyze

    kind = format_of(to, FORMATS)
    return report(
        analyze(model, data, kind, source_map=source_map, source_roots=source_roots), kind
    )


def report(analysis: "Analysis", kind: Format) -> Sensitivity:
    """Return what an analysis found."""
    notes = []
    if analysis.problem is not None:
        notes.append(f"the effects on the outputs are estimates: {analysis.problem}")
    if not analysis.lines.exist:
        notes.append(f"the lines are unknown: {analysis.lines.unknown}")
    groups = analysis.groups
    found = [_line(groups, number, analysis, kind) for number in range(len(groups))]
    return Sensitivity(
        tuple(found), kind.name, analysis.loaded.name, len(analysis.samples), tuple(notes)
    )


def _line(
    groups: Sequence[Group], number: int, analysis: "Analysis", kind: Format
) -> SensitiveLine:
    group = groups[number]
    line = group.line
    worst = culprit(group, kind)
    ordered = sorted(group.facts, key=lambda each: (-severity(each, kind), each.order))
    names = list(dict.fromkeys(each.name for each in ordered))
    ops = list(dict.fromkeys(each.node.op_type for each in ordered))
    size = sum(each.values.size for each in group.facts)
    shares = [
        sum(getattr(each.values, which) for each in group.facts) / max(size, 1)
        for which in ("overflowing", "vanishing", "subnormal")
    ]
    return SensitiveLine(
        None if line is None else line.file,
        None if line is None else line.line,
        "" if line is None else line.function,
        tuple(names),
        tuple(ops),
        worst.iterations,
        max(each.own_error for each in group.facts),
        group.error,
        group.output,
        reason(group, kind),
        _is_sure(groups, number, analysis, kind),
        group.is_measured,
        max(each.values.largest for each in group.facts),
        shares[0],
        shares[1],
        shares[2],
        None if line is None else line.text,
        "" if line is None else line.excerpt,
        group.module,
    )


def _is_sure(groups: Sequence[Group], number: int, analysis: "Analysis", kind: Format) -> bool:
    """Return whether only this line can be the cause of what it does to the outputs."""
    group = groups[number]
    if not group.is_measured or group.line is None or group.error < _LARGE:
        return False
    worst = culprit(group, kind)
    for each in group.facts:
        if len({line.place for line in analysis.lines.of_node(each.graph, each.number)}) != 1:
            return False
    others = [other for place, other in enumerate(groups) if place != number]
    if group.error > _CLEAR * max((other.error for other in others), default=0.0):
        return True
    if not problem(worst, kind) or group.error < LOST:
        return False
    # A node that reads a lost number loses it, too.
    lost = [other for other in others if other.error >= LOST]
    return all(follows(culprit(other, kind), group) for other in lost)


def _effect(first: SensitiveLine) -> str:
    where = "" if first.output is None else f" in {quoted(first.output)}"
    if math.isinf(first.error):
        return f"one line makes the output{where.replace(' in', '')} infinite or NaN"
    if first.error >= LOST:
        return f"one line leaves nothing of the output{where.replace(' in', '')}"
    return f"the line that matters most adds an error of {100 * first.error:.2g} %{where}"


def _facts(first: SensitiveLine) -> list[str]:
    from .._comparing.report import in_iterations

    facts = [first.reason + in_iterations(first.iterations)]
    shown = ", ".join(map(quoted, first.nodes[:4])) + (" …" if len(first.nodes) > 4 else "")
    facts.append(f"nodes: {shown}")
    facts.append(
        "certain: this line alone causes the error"
        if first.sure
        else "measured: the outputs were computed with this line rounded"
        if first.is_measured
        else "estimated: the outputs were not computed with this line rounded"
    )
    return facts


def _cells(line: SensitiveLine) -> tuple[str, ...]:
    about = "" if line.is_measured else "≈ "
    return about + _shown(line.error), _shown(line.own_error), line.place, line.why


def _shown(error: float) -> str:
    return "∞" if math.isinf(error) else f"{error:.1e}" if error else "0"


def number(value: float) -> Any:
    """Return a number for JSON, which has no NaN and no infinity: these are texts."""
    return value if math.isfinite(value) else str(value)
