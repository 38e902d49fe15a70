"""Measure the time of a model, by the user's lines."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import _core
from .._config import StrPath
from .._errors import ConfigError, errors_of_core
from .explain import Line, explain, line_of, path_or_bytes

if TYPE_CHECKING:
    from .explain import Model

#: How to group times.
By: TypeAlias = Literal["line", "function", "scope", "op", "plugin", "node"]


@dataclass(frozen=True)
class Row:
    """The time of a group of kernels, in microseconds."""

    #: What the kernels have in common; None if it is not known.
    key: str | None
    line: Line | None
    #: The time of a run: the median over the runs.
    median: float
    mean: float
    #: The standard deviation over the runs.
    deviation: float
    #: The time of each run.
    times: tuple[int, ...]
    #: The fraction of the medians of all rows.
    share: float
    calls: int
    #: The operators, the longest time first.
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """The times of a model. Prints as a table, the longest time first."""

    rows: tuple[Row, ...]
    #: The time of all kernels in one run, in microseconds: the median over the runs.
    median: float
    mean: float
    deviation: float
    #: The total over all runs, including the warm-up, as in the profile of the runtime.
    total: int
    #: The fraction of the time that has a line of the user.
    share_of_user_lines: float
    _table: str
    _flamegraph: str
    _speedscope: str

    def __str__(self) -> str:
        """Return a table, the longest time first."""
        return self._table.rstrip()

    __repr__ = __str__

    def save_flamegraph(self, path: StrPath) -> None:
        """Write a flame graph of the call stacks as SVG."""
        Path(path).write_text(self._flamegraph, encoding="utf-8")

    def save_speedscope(self, path: StrPath) -> None:
        """Write a file for https://www.speedscope.app."""
        Path(path).write_text(self._speedscope, encoding="utf-8")


def profile(
    model: "Model",
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    runs: int = 10,
    warmup: int = 1,
    by: By = "line",
    top: int = 20,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    session_options: Any = None,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> Profile:
    """Run a model in ONNX Runtime, and measure which lines of Python take the most time.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        inputs: The inputs: arrays by name, or in the order of the model.
        runs: The number of runs to measure.
        warmup: The number of runs before these, which are not measured.
        by: How to group times.
        top: The number of rows to print.
        providers: The execution providers of ONNX Runtime.
        session_options: The options of the session. `profile` restores them.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Raises:
        ConfigError: An argument is not valid, or ONNX Runtime is not installed.
    """
    if runs < 1 or warmup < 0:
        raise ConfigError(f"`runs={runs}`, `warmup={warmup}`: measure at least one run")
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(
            "`profile` needs ONNX Runtime: pip install 'jax2onnx-rs[runtime]'"
        ) from error
    source = path_or_bytes(model)
    with tempfile.TemporaryDirectory() as folder:
        options = session_options or _without_warnings(onnxruntime.SessionOptions())
        optimized = Path(folder) / "optimized.onnx"
        asked = {
            "enable_profiling": True,
            "profile_file_prefix": str(Path(folder) / "profile"),
            "optimized_model_filepath": str(optimized) if _is_small(source) else "",
        }
        with explain(source, source_map=source_map, source_roots=source_roots):
            with _changed(options, asked):
                session = onnxruntime.InferenceSession(source, options, providers=list(providers))
            feeds = _feeds(session, inputs)
            for _ in range(warmup + runs):
                session.run(None, feeds)
        path = session.end_profiling()
        # The runtime's own form of the model has the names in the profile.
        later = optimized.exists()
        original = Path(folder) / "model.onnx"
        if later and isinstance(source, bytes):
            original.write_bytes(source)
        known = _origins(source, source_map, original) if later else source_map
        with errors_of_core():
            shown = _core.profile_summary(
                str(optimized) if later else source,
                path,
                by=by,
                top=top,
                warmup=warmup,
                source_map=None if known is None else os.fspath(known),
                source_roots=[os.fspath(root) for root in source_roots],
            )
    return _profile(*shown)


def _without_warnings(options: Any) -> Any:
    """Silence the warning that the runtime's form of a model is only for this machine."""
    options.log_severity_level = 3
    return options


@contextmanager
def _changed(options: Any, asked: dict[str, Any]) -> Iterator[None]:
    """Change some options inside the block."""
    kept = {name: getattr(options, name) for name in asked}
    for name, value in asked.items():
        setattr(options, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(options, name, value)


def _origins(source: str | bytes, source_map: StrPath | None, original: Path) -> StrPath:
    """Return the file with the origins of the model: its source map, or the model itself."""
    if source_map is not None:
        return source_map
    if isinstance(source, bytes):
        return original
    beside = f"{source}.map"
    return beside if os.path.exists(beside) else source


def _is_small(source: str | bytes) -> bool:
    """Return whether the runtime can write its own form of the model to one file."""
    limit = 1 << 29
    if isinstance(source, bytes):
        return len(source) < limit
    folder = Path(source).parent
    data = [Path(source), *folder.glob(f"{Path(source).name}*.data")]
    return sum(path.stat().st_size for path in data if path.exists()) < limit


def _feeds(session: Any, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(inputs):
        raise ConfigError(
            f"the model has {len(names)} inputs, but {len(inputs)} arrays were passed"
        )
    import numpy as np

    return {name: np.asarray(value) for name, value in zip(names, inputs, strict=True)}


def _profile(table: str, data: str, flamegraph: str, speedscope: str) -> Profile:
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
        median=found["kernels_us"]["median"],
        mean=found["kernels_us"]["mean"],
        deviation=found["kernels_us"]["deviation"],
        total=found["total_us"],
        share_of_user_lines=found["share_of_user_lines"],
        _table=table,
        _flamegraph=flamegraph,
        _speedscope=speedscope,
    )
