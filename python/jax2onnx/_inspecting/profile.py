"""Measure how much time each line of the user takes in a model."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from .. import _core, _files, _html
from .._errors import ConfigError, errors_of_core
from .._types import StrPath
from .cost import Rates, cost
from .explain import Line, explain, line_of, path_or_bytes
from .observed import observed, runtime
from .placement import Placement, placement_of

if TYPE_CHECKING:
    from .explain import Model

#: How to group times.
By: TypeAlias = Literal["line", "function", "scope", "op", "plugin", "node"]

_SHOWN_ROWS: Final = 20


@dataclass(frozen=True)
class Row:
    """The time of a group of kernels, in microseconds.

    Attributes:
        key: What the kernels have in common, such as their line; None if it is unknown.
        line: The line of Python; None if it is unknown.
        median: The median time per run.
        mean: The mean time per run.
        deviation: The standard deviation over the runs.
        times: The time of each run.
        share: The fraction of the total time.
        calls: The number of kernels per run.
        ops: The operators, the longest time first.
    """

    key: str | None
    line: Line | None
    median: float
    mean: float
    deviation: float
    times: tuple[int, ...]
    share: float
    calls: int
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """Contains the times of a model. Prints as a table, the longest time first.

    Attributes:
        rows: The time of each group, the longest time first, with its `key`, `line`, `median`,
            `share`, `calls` and `ops`.
        median: The usual time of all kernels per run in microseconds: the sum of the rows.
        mean: The mean time of all kernels per run.
        deviation: The standard deviation over the runs.
        total: The time of all runs including the warm-up, as in the profile of the runtime.
        share_of_user_lines: The fraction of the time that is in your lines.
        placement: The execution provider that runs each line, and the copies between devices.
        rates: What each line achieves per second; None unless `rates=True` was given.
    """

    rows: tuple[Row, ...]
    median: float
    mean: float
    deviation: float
    total: int
    share_of_user_lines: float
    placement: Placement
    rates: Rates | None
    _table: str
    _flamegraph: str
    _speedscope: str
    _inputs: Sequence[_files.Named] = ()
    _by: By = "line"

    def __str__(self) -> str:
        """Return a table, the longest time first, and the rates if there are any."""
        rates = "" if self.rates is None else f"\n\n{self.rates}"
        return f"{self._table.rstrip()}{rates}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, _, _ = self._table.partition("\n\n")
        first = self.rows[0] if self.rows else None
        name = "an unknown line" if first is None or first.key is None else first.key
        rows = self.rows[:_SHOWN_ROWS]
        more = len(self.rows) - len(rows)
        table = _html.Table(
            ("share", "median", self._by, "operators"),
            [
                (
                    f"{100 * row.share:.1f} %",
                    _time(row.median),
                    "(unknown)" if row.key is None else row.key,
                    ", ".join(row.ops),
                )
                for row in rows
            ],
            numbers=(0, 1),
            meters=(0, [row.share for row in rows]),
            name=f"The first {len(rows)} of {len(self.rows)} rows" if more else "",
        )
        return _html.answer(
            "no kernel ran"
            if first is None
            else f"{name} takes {100 * first.share:.0f} % of the time",
            excerpt=_excerpt(first) if first else "",
            facts=header.splitlines(),
            table=table,
        )

    def save_flamegraph(self, path: StrPath) -> None:
        """Write a flame graph of the call stacks as SVG.

        Args:
            path: The path of the SVG file.

        Raises:
            ConfigError: This file belongs to the model.
            WriteError: The file cannot be written.
        """
        _files.write_text("the flame graph", path, self._flamegraph, self._inputs)

    def save_speedscope(self, path: StrPath) -> None:
        """Write a file for https://www.speedscope.app.

        Args:
            path: The path of the JSON file.

        Raises:
            ConfigError: This file belongs to the model.
            WriteError: The file cannot be written.
        """
        _files.write_text("the profile", path, self._speedscope, self._inputs)


def profile(
    model: "Model",
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    runs: int = 10,
    warmup: int = 1,
    by: By = "line",
    top: int = 20,
    rates: bool = False,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    session_options: Any = None,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> Profile:
    """Run a model in ONNX Runtime, and measure how much time each line of Python takes.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        inputs: The inputs: arrays by name, or in the order of the model. They may be nested in
            containers, as the arguments of the function are.
        runs: The number of runs to measure.
        warmup: The number of runs before the measured ones.
        by: How to group times: by `"line"`, `"function"`, `"scope"`, `"op"`, `"plugin"` or
            `"node"`.
        top: The number of rows to print.
        rates: True to compare each line with what the machine can do, which is measured once.
        providers: The execution providers of ONNX Runtime, in the order of preference.
        session_options: The options of the session. `profile` changes some of them temporarily. If
            they contain providers, `providers` is ignored.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        The times, which print as a table.

    Raises:
        ConfigError: An argument is not valid, or ONNX Runtime is not installed.
        InputSpecError: An input is missing, unknown, or of another type or shape.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> import numpy as np
        >>> def half(x):
        ...     return jnp.tanh(x) / 2
        >>> model = jax2onnx.to_onnx(half, [(3,)], provenance="indexed")
        >>> times = jax2onnx.profile(model, [np.ones(3, np.float32)], runs=3)
        >>> times.rows[0].line.function
        'half'
    """
    if runs < 1 or warmup < 0:
        raise ConfigError(
            f"`runs={runs}` and `warmup={warmup}` are not valid: measure at least one run"
        )
    from .._comparing.inputs import feeds_of
    from .._comparing.models import Loaded

    onnxruntime = runtime("profile")
    source = path_or_bytes(model)
    with _files.Scratch() as scratch:
        folder = scratch.path
        asked = {"enable_profiling": True, "profile_file_prefix": str(folder / "profile")}
        with explain(source, source_map=source_map, source_roots=source_roots):
            found = observed(
                onnxruntime, source, providers, session_options, folder / "optimized.onnx", asked
            )
            session = found.session
            feeds = feeds_of(Loaded(model), inputs)
            for _ in range(warmup + runs):
                session.run(None, feeds)
        path = session.end_profiling()
        # The runtime's own form of the model has the names in the profile.
        form = found.form(scratch, source, source_map)
        with errors_of_core():
            shown = _core.profile_summary(
                form.model,
                path,
                by=by,
                top=top,
                warmup=warmup,
                assigned=found.assigned,
                source_map=form.source_map,
                exported=form.exported,
                source_roots=[os.fspath(root) for root in source_roots],
            )
        threads = getattr(session_options, "intra_op_num_threads", 0)
        counted = (
            cost(
                source,
                top=top,
                profile=path,
                warmup=warmup,
                threads=threads,
                source_map=source_map,
                source_roots=source_roots,
            )
            if rates
            else None
        )
    # The model that was summarized is the runtime's own form of it.
    read = []
    if isinstance(source, str):
        read += _files.model_input("the model", source, source_map, source_roots).files()
    found_rates = None if counted is None else counted.rates
    return replace(_profile(*shown[:5], [*shown[5], *read]), _by=by, rates=found_rates)


def _excerpt(row: Row) -> str:
    """Return the line of a row with its text, as in error messages."""
    if row.line is None or row.line.text is None:
        return ""
    return f"--> {row.line}\n{row.line.line} | {row.line.text}"


def _time(microseconds: float) -> str:
    """Return a time in the unit that fits: 13.5 ms."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"


def _profile(
    table: str,
    data: str,
    placement: str,
    flamegraph: str,
    speedscope: str,
    inputs: Sequence[_files.Named],
) -> Profile:
    found = json.loads(data)
    rows = tuple(
        Row(
            key=row["key"],
            line=None if row["line"] is None else line_of(row["line"]),
            median=row["median_us"],
            mean=row["mean_us"],
            deviation=row["deviation_us"],
            times=tuple(row["times_us"]),
            share=row["share"],
            calls=row["calls"],
            ops=tuple(row["ops"]),
        )
        for row in found["rows"]
    )
    return Profile(
        rows=rows,
        median=found["sum_us"],
        mean=found["kernels_us"]["mean"],
        deviation=found["kernels_us"]["deviation"],
        total=found["total_us"],
        share_of_user_lines=found["share_of_user_lines"],
        placement=placement_of(found["placement"], placement),
        rates=None,
        _table=table,
        _flamegraph=flamegraph,
        _speedscope=speedscope,
        _inputs=inputs,
    )
