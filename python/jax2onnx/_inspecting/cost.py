"""Find what each line of Python costs: operations and bytes, before anything runs."""

import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import _core
from .._errors import ConfigError, errors_of_core
from .._types import StrPath
from .explain import path_or_bytes
from .machine import Machine, machine

if TYPE_CHECKING:
    from .explain import Model

#: What costs are grouped by.
By: TypeAlias = Literal["line", "function", "module", "operator", "node"]
#: The order in which nodes run.
Order: TypeAlias = Literal["onnxruntime", "file", "early"]


@dataclass(frozen=True)
class Amounts:
    """The cost of something. A number is None if it depends on a size that is not known.

    Attributes:
        flops: The operations on floating-point numbers, without transcendental functions.
        transcendentals: The functions of floating-point numbers such as `exp`, `tanh` and `sqrt`.
        operations: The operations on integers and booleans.
        bytes_read: The bytes that are read.
        bytes_written: The bytes that are written.
        weights: The bytes of the weights that are read, each counted once.
        intensity: The floating-point operations, with transcendental functions, per byte.
        formulas: The same costs as formulas of sizes, in the notation of Python. None if a
            formula is very long.
    """

    flops: int | None
    transcendentals: int | None
    operations: int | None
    bytes_read: int | None
    bytes_written: int | None
    weights: int | None
    intensity: float | None
    formulas: Mapping[str, str | None]


@dataclass(frozen=True)
class CostRow(Amounts):
    """The cost of a line, or of another group of nodes.

    Attributes:
        key: The line, function, module path, operator or node; None if it is unknown.
        file: The file of the line as the model names it; None if it is unknown.
        line: The number of the line; None if it is unknown.
        function: The function of the line; None if it is unknown.
        text: The text of the line; None if the file is missing or changed after the export.
        nodes: The number of nodes.
        ops: The operators of the nodes.
    """

    key: str | None
    file: str | None
    line: int | None
    function: str | None
    text: str | None
    nodes: int
    ops: tuple[str, ...]


@dataclass(frozen=True)
class SizeSymbol:
    """A symbol in the formulas.

    Attributes:
        name: Its name.
        size: The size that replaces it; None if there is none.
        kind: `"name"` for a size with a name in the model, `"input"` for an axis of an input
            without a name, `"steps"` for the number of iterations of a loop, and `"value"` for
            another axis.
        place: The line or the node of the loop or the value; None for the other kinds.
        most: The largest number of iterations of a loop, as a formula; None if it is unknown.
    """

    name: str
    size: int | None
    kind: Literal["name", "input", "steps", "value"]
    place: str | None
    most: str | None


@dataclass(frozen=True)
class Uncounted:
    """Nodes whose cost is not known.

    Attributes:
        op: Their operator.
        nodes: Their number.
        why: The reason.
        place: The line or the name of the first of them.
    """

    op: str
    nodes: int
    why: str
    place: str


@dataclass(frozen=True)
class PeakLine:
    """A line that holds memory at the peak.

    Attributes:
        key: The line, or the node if the model has no lines.
        file: The file of the line as the model names it; None if it is unknown.
        line: The number of the line; None if it is unknown.
        function: The function of the line; None if it is unknown.
        text: The text of the line; None if the file is missing or changed after the export.
        bytes: The bytes that it holds; None if a size is not known.
        formula: The same as a formula of sizes. None if the formula is very long.
        value: The bytes of values that are still read, and of outputs.
        kept: The bytes of buffers whose value is no longer read, and that the runtime keeps for a
            later value of the same shape.
        working: The bytes that the nodes of the line need while they run.
        nodes: The nodes that the memory was allocated for.
    """

    key: str
    file: str | None
    line: int | None
    function: str | None
    text: str | None
    bytes: int | None
    formula: str | None
    value: int | None
    kept: int | None
    working: int | None
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Peak:
    """The largest memory that a run allocates at the same time, without inputs and weights.

    Attributes:
        bytes: The size; None if it depends on a size that is not known.
        formula: The size as a formula of sizes. None if the formula is very long.
        place: The line or the node that runs at the peak; None if nothing runs.
        inputs: The bytes of the inputs, which the size does not include.
        outputs: The bytes of the outputs, which it does.
        weights: The bytes of the weights, which it does not.
        lines: The lines that hold the memory, the one that holds most first.
        notes: What the size leaves out.
    """

    bytes: int | None
    formula: str | None
    place: str | None
    inputs: int | None
    outputs: int | None
    weights: int | None
    lines: tuple[PeakLine, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Rate:
    """The work of a line in a profile, by its time. A rate is None if the line has no cost.

    Attributes:
        key: The line, function, module path or node; None if it is unknown.
        file: The file of the line as the model names it; None if it is unknown.
        line: The number of the line; None if it is unknown.
        function: The function of the line; None if it is unknown.
        time: The median time in a run, in microseconds.
        share: The fraction of the time of all rows.
        flops_per_second: The floating-point operations per second, with transcendental functions.
        bytes_per_second: The bytes per second that are read and written.
        limit: The rate that limits the line on this machine, `"flops"` or `"bytes"`.
        reached: The fraction of what the machine can do. It exceeds 1 if the values are in a cache.
        lost: The microseconds that the machine needs less at its highest rates.
    """

    key: str | None
    file: str | None
    line: int | None
    function: str | None
    time: float
    share: float
    flops_per_second: float | None
    bytes_per_second: float | None
    limit: Literal["flops", "bytes"] | None
    reached: float | None
    lost: float | None


@dataclass(frozen=True)
class Rates:
    """The rates of each line in a profile. Prints as a table.

    Attributes:
        rows: The rows with a time, the longest first.
        machine: What the machine can do; None if it is not known.
        total: The rates of the whole model.
        runs: The number of runs that count.
        rows_without_time: The number of rows of the costs that no kernel of the profile belongs to.
        share_without_time: The fraction of the floating-point operations that these rows have.
    """

    rows: tuple[Rate, ...]
    machine: Machine | None
    total: Rate
    runs: int
    rows_without_time: int
    share_without_time: float
    _text: str

    def __str__(self) -> str:
        """Return the table."""
        return self._text.rstrip()

    __repr__ = __str__


@dataclass(frozen=True)
class Cost:
    """The cost of a model. Prints as a table.

    Attributes:
        total: The costs of the whole model.
        lines: The costs of each line, the largest first.
        peak: The peak of memory.
        rows: The costs by what `by` says. They are the lines by default.
        symbols: The symbols in the formulas.
        branches: The number of branches of `If` that do not count, because the other branch costs
            more.
        uncounted: The nodes whose cost is not known. The costs do not include them.
        rates: The rates in the profile; None if there is none.
    """

    total: Amounts
    lines: tuple[CostRow, ...]
    peak: Peak
    rows: tuple[CostRow, ...]
    symbols: tuple[SizeSymbol, ...]
    branches: int
    uncounted: tuple[Uncounted, ...]
    rates: Rates | None
    _text: str

    def __str__(self) -> str:
        """Return the table."""
        return self._text.rstrip()

    __repr__ = __str__


def cost(
    model: "Model",
    sizes: Mapping[str, int] | None = None,
    *,
    by: By = "line",
    order: Order = "onnxruntime",
    top: int = 20,
    profile: StrPath | None = None,
    warmup: int | None = None,
    threads: int = 0,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> Cost:
    """Count the operations and the bytes of each line of Python, without running the model.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        sizes: The sizes that replace symbols, such as `{"B": 8}`. Without them, costs that depend
            on symbols are formulas.
        by: What to group the costs by: `"line"`, `"function"`, `"module"`, `"operator"` or
            `"node"`.
        order: The order in which the nodes run, for the peak of memory: that of ONNX Runtime, that
            of the file, or each node as soon as its operands exist (`"early"`).
        top: The number of rows to print.
        profile: A profile that ONNX Runtime wrote. Its sizes replace symbols that are not in
            `sizes`, and `rates` compares each line with what the machine can do, which is measured
            once.
        warmup: The number of runs of the profile to ignore at the start, by default 1 if there are
            several.
        threads: The number of threads of the session that was profiled; 0 is the default of ONNX
            Runtime.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        The costs, which print as a table.

    Raises:
        ConfigError: A size is not a size of the model or less than 1, the model is of another type,
            or the profile cannot be read.

    Examples:
        >>> import jax2onnx
        >>> model = jax2onnx.to_onnx(lambda x: x @ x.T, [("B", 16)])
        >>> jax2onnx.cost(model).total.formulas["flops"]
        '32*B*B'
        >>> jax2onnx.cost(model, {"B": 8}).total.flops
        2048
    """
    with errors_of_core():
        text, data, rates = _core.cost_summary(
            path_or_bytes(model),
            checked_sizes(sizes or {}),
            by=by,
            order=order,
            top=top,
            profile=None if profile is None else os.fspath(profile),
            warmup=warmup,
            machine=None if profile is None else _machine(threads),
            source_map=None if source_map is None else os.fspath(source_map),
            source_roots=[os.fspath(root) for root in source_roots],
        )
    answer: dict[str, Any] = json.loads(data)
    lines = tuple(_row(entry) for entry in answer["lines"])
    return Cost(
        total=Amounts(**_amounts(answer["total"])),
        lines=lines,
        peak=_peak(answer["peak"]),
        rows=tuple(_row(entry) for entry in answer["rows"]) if "rows" in answer else lines,
        symbols=tuple(
            SizeSymbol(it["name"], it["size"], it["kind"], it.get("place"), it.get("most"))
            for it in answer["symbols"]
        ),
        branches=answer["branches"],
        uncounted=tuple(
            Uncounted(it["op"], it["nodes"], it["why"], it["place"]) for it in answer["uncounted"]
        ),
        rates=None if rates is None else _rates(answer["roofline"], rates),
        _text=text,
    )


def _machine(threads: int) -> tuple[float, float] | None:
    """Return what the machine can do; None if ONNX Runtime is not installed."""
    try:
        found = machine(threads)
    except ConfigError:
        return None
    return found.flops_per_second, found.bytes_per_second


def _rates(entry: dict[str, Any], text: str) -> Rates:
    return Rates(
        rows=tuple(map(_rate, entry["rows"])),
        machine=None if entry["machine"] is None else Machine(**entry["machine"]),
        total=_rate(entry["total"] | {"share": 1.0}),
        runs=entry["runs"],
        rows_without_time=entry["rows_without_time"],
        share_without_time=entry["share_without_time"],
        _text=text,
    )


def _rate(entry: dict[str, Any]) -> Rate:
    return Rate(
        key=entry.get("key"),
        file=entry.get("file"),
        line=entry.get("line"),
        function=entry.get("function"),
        time=entry["time_us"],
        share=entry["share"],
        flops_per_second=entry.get("flops_per_second"),
        bytes_per_second=entry.get("bytes_per_second"),
        limit=entry.get("limit"),
        reached=entry.get("reached"),
        lost=entry.get("lost_us"),
    )


def _amounts(entry: dict[str, Any]) -> dict[str, Any]:
    names = [*entry["formulas"], "intensity", "formulas"]
    return {name: entry[name] for name in names}


def _peak(entry: dict[str, Any]) -> Peak:
    lines = (PeakLine(**(line | {"nodes": tuple(line["nodes"])})) for line in entry["lines"])
    names = ("bytes", "formula", "place", "inputs", "outputs", "weights")
    sizes = {name: entry[name] for name in names}
    return Peak(**sizes, lines=tuple(lines), notes=tuple(entry["notes"]))


def _row(entry: dict[str, Any]) -> CostRow:
    return CostRow(
        key=entry["key"],
        file=entry["file"],
        line=entry["line"],
        function=entry["function"],
        text=entry["text"],
        nodes=entry["nodes"],
        ops=tuple(entry["ops"]),
        **_amounts(entry),
    )


def checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes as Rust takes them.

    Raises:
        ConfigError: A size is not a whole number, or the sizes are not in a dictionary.
    """
    if not isinstance(sizes, Mapping):
        raise ConfigError(f'the sizes are of type {type(sizes).__name__}: use {{"B": 8}}')
    checked: dict[str, int] = {}
    for name, size in sizes.items():
        try:
            checked[str(name)] = operator.index(size)
        except TypeError:
            raise ConfigError(f"`{name}={size!r}` is not a size: use a whole number") from None
    return checked
