"""Where the time of a model goes, by the lines of the user."""

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

#: What times are summed by.
By: TypeAlias = Literal["line", "function", "scope", "op", "plugin", "node"]


@dataclass(frozen=True)
class Row:
    """The time of all kernels that have something in common, in microseconds."""

    #: What they have in common; none where it is not known.
    key: str | None
    line: Line | None
    #: Of one run.
    mean: float
    #: The standard deviation over the runs.
    deviation: float
    #: In each run.
    times: tuple[int, ...]
    #: The part of the time of all kernels.
    share: float
    calls: int
    #: The operators that took the time, the longest first.
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """Where the time went; printed as a table, the longest first."""

    rows: tuple[Row, ...]
    #: The time of all kernels in one run, in microseconds.
    mean: float
    deviation: float
    #: The same over all runs, warm-up and all: what the profile of the runtime says.
    total: int
    #: The part of the time that has a line of the user.
    share_of_user_lines: float
    _table: str
    _flamegraph: str
    _speedscope: str

    def __str__(self) -> str:
        """A table, the longest first."""
        return self._table.rstrip()

    __repr__ = __str__

    def save_flamegraph(self, path: StrPath) -> None:
        """Write a picture of the call paths, as SVG."""
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
    """Run a model in ONNX Runtime, and say which lines the time goes to.

    Args:
        model: The path of the model, a model, or its bytes.
        inputs: What is fed: arrays by name, or in the order of the inputs.
        runs: How many runs are measured.
        warmup: How many runs before are not.
        by: What times are summed by.
        top: How many rows are printed.
        providers: The execution providers of ONNX Runtime.
        session_options: Options of the session; they are as they were afterwards.
        source_map: The source map of the model, where it is not `<model>.map`.
        source_roots: Where to look for source files, beside the current directory.

    Raises:
        ConfigError: An argument cannot be used, or ONNX Runtime is not installed.
    """
    if runs < 1 or warmup < 0:
        raise ConfigError(f"`runs={runs}`, `warmup={warmup}`: measure one run or more")
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(
            "`profile` needs ONNX Runtime: pip install 'jax2onnx-rs[runtime]'"
        ) from error
    source = path_or_bytes(model)
    with tempfile.TemporaryDirectory() as folder:
        options = session_options or _quiet(onnxruntime.SessionOptions())
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
        # The runtime's own form of the model has the names that the profile has.
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


def _quiet(options: Any) -> Any:
    """Options without the warning that the runtime's form of a model is for this machine."""
    options.log_severity_level = 3
    return options


@contextmanager
def _changed(options: Any, asked: dict[str, Any]) -> Iterator[None]:
    """Other values for some options meanwhile."""
    kept = {name: getattr(options, name) for name in asked}
    for name, value in asked.items():
        setattr(options, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(options, name, value)


def _origins(source: str | bytes, source_map: StrPath | None, original: Path) -> StrPath:
    """What knows the origins of the model: its map, or the model itself."""
    if source_map is not None:
        return source_map
    if isinstance(source, bytes):
        return original
    beside = f"{source}.map"
    return beside if os.path.exists(beside) else source


def _is_small(source: str | bytes) -> bool:
    """Whether the runtime can write its own form of the model in one piece."""
    most = 1 << 29
    if isinstance(source, bytes):
        return len(source) < most
    folder = Path(source).parent
    data = [Path(source), *folder.glob(f"{Path(source).name}*.data")]
    return sum(path.stat().st_size for path in data if path.exists()) < most


def _feeds(session: Any, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(inputs):
        raise ConfigError(f"the model has {len(names)} inputs, and {len(inputs)} arrays were given")
    import numpy as np

    return {name: np.asarray(value) for name, value in zip(names, inputs, strict=True)}


def _profile(table: str, data: str, flamegraph: str, speedscope: str) -> Profile:
    found = json.loads(data)
    rows = tuple(
        Row(
            key=row["key"],
            line=None if row["line"] is None else line_of(row["line"]),
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
        mean=found["kernels_us"]["mean"],
        deviation=found["kernels_us"]["deviation"],
        total=found["total_us"],
        share_of_user_lines=found["share_of_user_lines"],
        _table=table,
        _flamegraph=flamegraph,
        _speedscope=speedscope,
    )
