"""The answer of `compare`: the first wrong number, and what each line adds."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .. import _files, _html
from .._errors import ConfigError
from .._types import StrPath
from .._words import lines, quoted
from .arrays import OutputComparison
from .judging import Statistics
from .lines import SourceLine

if TYPE_CHECKING:
    from .reproducer import Case

VERSION: Final = 1
_ONNXRUNTIME: Final = "ONNX Runtime"
#: The runtime of a report on numbers that a device recorded.
RECORDING: Final = "the recording"
_SHOWN_ROWS: Final = 10
_MAX_LINES: Final = 8
_HEADER: Final = ("loss", "SNR", "max error", "ulp", "line", "nodes")

#: How a sentence describes each kind of fault.
_KINDS: Final = {
    "error": "computes a wrong number",
    "nan": "computes NaN instead of a number",
    "infinity": "overflows to infinity",
    "shape": "computes an array of the wrong shape",
    "input": "passes on other numbers than the reference",
    "failure": "fails",
    "optimizer": "is computed wrongly after {runtime} optimized it",
}


@dataclass(frozen=True)
class First:
    """The first wrong number in the order of execution.

    Attributes:
        file: The file of the line as the model names it; None if it is unknown.
        line: The number of the line; None if it is unknown.
        function: The qualified name of the function.
        iterations: The iteration of each loop around the node, outermost first, counted from 0.
        index: The index of the worst element; None if there is none.
        expected: The element of the reference.
        got: The element of the model.
        node: The name of the node.
        op: The operator of the node.
        value: The name of the value that the node computes.
        lines: All lines that the node came from, the best match first.
        sure: Whether only this line can explain the error.
        kind: `"error"`, `"nan"`, `"infinity"`, `"shape"`, `"input"`, `"failure"` or `"optimizer"`.
        nodes: All nodes that may be responsible.
        problem: A description of the error if no element shows it.
        optimizer: The optimization of ONNX Runtime that causes the error, if one does.
        statistics: The errors of the value over all iterations.
    """

    file: str | None
    line: int | None
    function: str
    iterations: tuple[int, ...]
    index: tuple[int, ...] | None
    expected: Any
    got: Any
    node: str
    op: str
    value: str
    lines: tuple[SourceLine, ...]
    sure: bool
    kind: str
    nodes: tuple[str, ...] = ()
    problem: str | None = None
    optimizer: str | None = None
    statistics: Statistics = field(default_factory=Statistics)
    #: Why the line is unknown, if it is.
    unknown: str = field(default="", repr=False)

    @property
    def excerpt(self) -> str:
        """The line with the expression underlined, as in error messages; empty if it is unknown."""
        return self.lines[0].excerpt if self.lines else ""

    @property
    def is_read(self) -> bool:
        """Return whether a message of the runtime names the node, so that nothing ran."""
        return self.kind == "failure" and not self.value

    def to_json(self) -> dict[str, Any]:
        """Return the finding as data for JSON."""
        return {
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "iterations": list(self.iterations),
            "index": None if self.index is None else list(self.index),
            "expected": _number(self.expected),
            "got": _number(self.got),
            "node": self.node,
            "op": self.op,
            "value": self.value,
            "nodes": list(self.nodes),
            "lines": [line.to_json() for line in self.lines],
            "sure": self.sure,
            "kind": self.kind,
            "problem": self.problem,
            "optimizer": self.optimizer,
            **_metrics(self.statistics),
        }


@dataclass(frozen=True)
class Row:
    """The error that a line adds.

    Attributes:
        line: The line; None for nodes without a line.
        nodes: The names of the nodes from this line.
        ops: The operators of the nodes.
        statistics: The errors that the nodes add to the errors of their inputs.
    """

    line: SourceLine | None
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    statistics: Statistics

    def to_json(self) -> dict[str, Any]:
        """Return the row as data for JSON."""
        return {
            "line": None if self.line is None else self.line.to_json(),
            "nodes": list(self.nodes),
            "ops": list(self.ops),
            **_metrics(self.statistics),
        }


@dataclass(frozen=True)
class Coverage:
    """How much of the model was compared.

    Attributes:
        compared: The number of nodes that were compared one by one.
        covered: The number of nodes that were compared together with others.
        skipped: The number of nodes that did not run, because they are in a branch that was not
            taken or in a loop without iterations.
        equations: The number of equations of the jaxpr, if the reference is JAX.
        paired: The number of equations whose result is a value of the model.
        fused: The number of equations that are part of a fused node.
    """

    compared: int
    covered: int
    skipped: int = 0
    equations: int | None = None
    paired: int | None = None
    fused: int | None = None

    def __str__(self) -> str:
        """Return the coverage in a sentence."""
        total = self.compared + self.covered + self.skipped
        text = f"{self.compared} of {total} nodes are compared one by one"
        if self.covered:
            text += f", {self.covered} together with a later node"
        if self.skipped:
            text += f", {self.skipped} did not run"
        if self.skipped and self.compared + self.covered:
            text += " with these inputs: pass others to check them"
        return text

    @property
    def of_equations(self) -> str:
        """The share of the equations that nodes were compared with, as a sentence; or empty."""
        if not self.equations:
            return ""
        paired = 100 * (self.paired or 0) / self.equations
        text = f"{paired:.0f} % of {self.equations} equations have a value in the model"
        if self.fused:
            text += f", and {100 * self.fused / self.equations:.0f} % are part of a fused node"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return the coverage as data for JSON."""
        return {
            "nodes_compared": self.compared,
            "nodes_covered": self.covered,
            "nodes_skipped": self.skipped,
            "equations": self.equations,
            "equations_paired": self.paired,
            "equations_fused": self.fused,
        }


@dataclass(frozen=True)
class Report:
    """Contains the result of `compare`. Prints as text, and is true if all numbers agree.

    Attributes:
        first: The first wrong number in the order of execution, with its `file`, `line`, `node`,
            `iterations`, `index`, `expected` and `got`; None if all numbers agree.
        outputs: The outputs of the whole model, compared with those of the reference.
        rows: The error that each line adds, the largest error first.
        coverage: How much of the model was compared.
        notes: Further remarks, one sentence each.
        reference: The name of the reference.
        model: The name of the model.
        runtime: The runtime that ran the model, with its version if it is another one.
    """

    __module__ = "jax2onnx"

    first: First | None
    outputs: tuple[OutputComparison, ...]
    rows: tuple[Row, ...]
    coverage: Coverage
    notes: tuple[str, ...]
    reference: str
    model: str
    runtime: str = "ONNX Runtime"
    _kept: tuple[str, ...] = field(default=(), repr=False)
    _case: "Case | None" = field(default=None, repr=False)
    _models: tuple[_files.ModelInput, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        """Return whether all numbers agree."""
        return self.first is None and all(output.is_match for output in self.outputs)

    def __str__(self) -> str:
        """Return the first wrong number with its line, and the outputs."""
        parts = [self._headline()]
        if self.first is not None:
            parts += self.first.excerpt.splitlines()
            parts += [f"   = {fact}" for fact in _facts(self.first, self.runtime)]
        parts += [f"   = {_output(each, self.reference, self.runtime)}" for each in self.outputs]
        parts.append(f"   = {self.coverage}")
        parts += [f"note: {note}" for note in self.notes]
        return lines(parts)

    __repr__ = __str__

    def _headline(self) -> str:
        if self.first is None:
            if self:
                return f"{self.model} agrees with {self.reference}"
            return (
                f"the outputs of {self.model} differ from {self.reference}, but every node "
                "alone is right"
            )
        first = self.first
        if first.is_read:
            named = f" because of {quoted(first.node)} ({first.op})" if first.node else ""
            return f"error: {self.runtime} refuses {self.model}{named}"
        where = in_iterations(first.iterations)
        what = _KINDS[first.kind]
        if self.runtime != _ONNXRUNTIME and "{runtime}" not in what:
            what += " in {runtime}"
        what = what.replace("{runtime}", self.runtime)
        return f"error: {quoted(first.node)} ({first.op}) {what}{where}"

    def table(self, top: int = _SHOWN_ROWS) -> str:
        """Return a table of the lines and their errors, the largest error first.

        Args:
            top: The maximum number of lines.
        """
        rows = [_cells(row) for row in self.rows[:top]]
        widths = [max(len(row[place]) for row in [_HEADER, *rows]) for place in range(5)]
        shown = [
            "  ".join(
                [cell.rjust(width) for cell, width in zip(row[:4], widths, strict=False)]
                + [row[4].ljust(widths[4]), row[5]]
            ).rstrip()
            for row in [_HEADER, *rows]
        ]
        more = len(self.rows) - top
        return lines([*shown, f"… and {more} more lines"] if more > 0 else shown)

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for JSON. `docs/json-formats.md` describes the format."""
        return {
            "version": VERSION,
            "reference": self.reference,
            "model": self.model,
            "runtime": self.runtime,
            "agrees": bool(self),
            "first": None if self.first is None else self.first.to_json(),
            "outputs": [_output_json(output) for output in self.outputs],
            "rows": [row.to_json() for row in self.rows],
            "coverage": self.coverage.to_json(),
            "keep_float32": list(self._kept),
            "notes": list(self.notes),
        }

    def keep_float32(self, path: StrPath | None = None) -> list[str]:
        """Return the names of the nodes that lose the most precision in a converted model.

        The names are those in the reference, including nodes in loops. Pass them to a converter as
        the nodes to keep in float32, for example as `node_block_list`.

        Args:
            path: The path of a file to write, with one name per line. A name that contains the end
                of a line is left out.

        Raises:
            ConfigError: The file was compared.
            WriteError: The file cannot be written.
        """
        if path is not None:
            self._write_kept(path)
        return list(self._kept)

    def _write_kept(self, path: StrPath, more_inputs: Sequence[_files.Named] = ()) -> None:
        text = "".join(f"{name}\n" for name in self._kept if name.splitlines() == [name])
        inputs = [*self._inputs(), *more_inputs]
        _files.write_text("the names of nodes", path, text, inputs)

    def _inputs(self) -> list[_files.Named]:
        """Return the files that were compared."""
        return [file for model in self._models for file in model.files()]

    def save_reproducer(self, folder: StrPath) -> str:
        """Write a folder that reproduces the first error without the rest of the model.

        The folder contains a model of the nodes that cause the error, its inputs, the expected
        result, and a script that runs the model.

        Args:
            folder: The folder to write. It is new, empty, or an earlier reproducer that nobody
                changed.

        Returns:
            The path of the script.

        Raises:
            ConfigError: No node causes an error, or the folder contains other files.
            WriteError: A file cannot be written.
        """
        return self._save_reproducer(folder)

    def _save_reproducer(self, folder: StrPath, more_inputs: Sequence[_files.Named] = ()) -> str:
        if self._case is None:
            raise ConfigError("there is nothing to reproduce: every node alone is right")
        path = _files.path_of("the reproducer", folder)
        return self._case.save(path, self, [*self._inputs(), *more_inputs])

    def _repr_html_(self) -> str:
        facts = [] if self.first is None else _facts(self.first, self.runtime)
        facts += [_output(each, self.reference, self.runtime) for each in self.outputs]
        rows = self.rows[:_SHOWN_ROWS]
        table = _html.Table(
            _HEADER,
            [_cells(row) for row in rows],
            numbers=range(4),
            is_open=not self,
            name=f"The error that each of {len(rows)} lines adds"
            if len(rows) == len(self.rows)
            else f"The error that each of {len(self.rows)} lines adds, of which these {len(rows)} "
            "add the most",
        )
        return _html.answer(
            self._headline().removeprefix("error: "),
            is_right=bool(self),
            excerpt=self.first.excerpt if self.first else "",
            facts=[*facts, str(self.coverage), *(f"note: {note}" for note in self.notes)],
            table=table,
        )


def _facts(first: First, runtime: str) -> list[str]:
    """Return both values, and how certain the line is, as sentences."""
    facts = []
    if first.index is not None:
        place = "" if not first.index else f" at {list(first.index)}"
        facts.append(f"expected {_shown(first.expected)}{place}, got {_shown(first.got)}")
    if first.problem:
        is_refused = first.kind == "failure" and (runtime != _ONNXRUNTIME or first.is_read)
        facts.append(f"{runtime} says: {first.problem}" if is_refused else first.problem)
    statistics = first.statistics
    if first.kind in ("error", "optimizer") and statistics.elements:
        facts.append(
            f"{statistics.wrong} of {statistics.elements} elements are wrong, by at most "
            f"{statistics.absolute:.3g}{_relative(statistics.relative)}"
        )
    if first.optimizer:
        facts.append(
            f"the optimization {quoted(first.optimizer)} of ONNX Runtime causes the error: pass "
            f"disabled_optimizers=[{first.optimizer!r}] to InferenceSession"
        )
    if first.kind == "optimizer":
        facts.append("each node alone is right, so the error disappears when values are inspected")
    elif not first.is_read and (first.kind not in ("input", "failure") or runtime == _ONNXRUNTIME):
        facts.append(
            "ONNX Runtime computes another result from the recorded operands"
            if runtime == RECORDING
            else "the node received the numbers of the reference, so it causes the error"
        )
    others = first.lines[1:]
    if others:
        facts.append(
            "certain: this line and these lines together cause the error"
            if first.sure
            else "certain: this line or one of these lines causes the error"
        )
        facts += [f"  {line}" for line in others[:_MAX_LINES]]
    elif first.is_read and not first.node:
        facts.append("the line is unknown, because the message names no node")
    elif not first.lines:
        facts.append(f"the line is unknown: {first.unknown}")
    else:
        facts.append(
            "certain: only this line can cause the error"
            if first.sure
            else "not certain: nodes around it may cause the error"
        )
    if len(first.nodes) > 1:
        nodes = ", ".join(map(quoted, first.nodes[:_MAX_LINES]))
        facts.append(f"together with the nodes {nodes}")
    return facts


def _relative(share: float) -> str:
    """Return a relative error in percent, with three digits; empty text for integers."""
    if not share:
        return ""
    shown = f"{100 * share:.3g}" if share < 10 else "more than 1000"
    return f" (relative error {shown} %)"


def excerpt_of(first: First) -> list[str]:
    """Return the line with the expression underlined, and the other lines of the node."""
    others = [f"   = or {line}" for line in first.lines[1:_MAX_LINES]]
    return first.excerpt.splitlines() + others


def in_iterations(iterations: Sequence[int]) -> str:
    """Return the iterations in words, or nothing."""
    if not iterations:
        return ""
    if len(iterations) == 1:
        return f" in iteration {iterations[0]}"
    return f" in iteration {', '.join(map(str, iterations))} (outermost loop first)"


def _output(output: OutputComparison, reference: str, runtime: str) -> str:
    text = f"output {quoted(output.name)} "
    if output.is_match:
        return text + ("is equal" if output.error == 0 else f"matches, off by {output.error:.3g}")
    text += output.problem or "differs"
    if output.index is not None:
        text += (
            f"; worst at {list(output.index)}: {_shown(output.expected)} in {reference}, "
            f"{_shown(output.found)} in {runtime}"
        )
    return text


def _output_json(output: OutputComparison) -> dict[str, Any]:
    return {
        "name": output.name,
        "matches": output.is_match,
        "problem": output.problem,
        "index": None if output.index is None else list(output.index),
        "expected": _number(output.expected),
        "got": _number(output.found),
        "error": _number(output.error),
    }


def _cells(row: Row) -> tuple[str, ...]:
    statistics = row.statistics
    ops = ", ".join(row.ops[:3]) + (" …" if len(row.ops) > 3 else "")
    births = [
        f"{count} {what}"
        for count, what in (
            (statistics.nans, "NaN"),
            (statistics.infinities, "inf"),
            (statistics.flips, "flips"),
        )
        if count
    ]
    return (
        f"{statistics.loss:.1e}",
        "∞" if statistics.snr == math.inf else f"{statistics.snr:.0f} dB",
        f"{statistics.absolute:.2e}",
        f"{statistics.ulp:.3g}",
        ", ".join(map(quoted, row.nodes[:1])) if row.line is None else str(row.line),
        ops + (f" ({', '.join(births)})" if births else ""),
    )


def _metrics(statistics: Statistics) -> dict[str, Any]:
    return {
        "elements": statistics.elements,
        "elements_wrong": statistics.wrong,
        "max_absolute_error": _number(statistics.absolute),
        "max_relative_error": _number(statistics.relative),
        "max_ulp": _number(statistics.ulp),
        "loss": _number(statistics.loss),
        "cosine": _number(statistics.cosine),
        "snr_db": _number(statistics.snr),
        "flips": statistics.flips,
        "argmax_flips": statistics.argmax_flips,
        "nans_born": statistics.nans,
        "infinities_born": statistics.infinities,
    }


def _number(value: Any) -> Any:
    """Return a number for JSON, which has no NaN and no infinity: these are texts."""
    if value is None or isinstance(value, bool | str):
        return value
    known = value.item() if hasattr(value, "item") else value
    if isinstance(known, bool | int):
        return known
    known = float(known)
    return known if math.isfinite(known) else str(known)


def _shown(value: Any) -> str:
    return str(value)


def as_text(report: dict[str, Any]) -> str:
    """Return a report for programs as text."""
    return json.dumps(report, indent=2)
