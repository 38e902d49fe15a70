"""Write the corpus of failures: models, the messages of ONNX Runtime, and the lines to blame.

    python tools/failures.py           regenerate the corpus
    python tools/failures.py --check   exit with 1 if something is stale
    python tools/failures.py NAME...   regenerate some failures

Every message comes from a run of ONNX Runtime, or of the checker and the shape inference of onnx.
The messages of other runtimes are in `failing/documented.py`, and are counted separately. Times and
addresses, which differ between runs, are replaced. The models depend on the versions in
requirements-dev.txt.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from failing import (
    FAILURES,
    Build,
    Failing,
    bodies,  # noqa: F401
    fused,  # noqa: F401
    indices,  # noqa: F401
    lines_to_blame,
    loading,  # noqa: F401
    shapes,  # noqa: F401
)
from failing.documented import DOCUMENTED

import jax2onnx

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "crates/inspect/tests/failures"
MODEL = "model.onnx"

_LEVELS = {
    "disable": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
#: What differs between runs, and its replacement.
_CHANGING = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+"), "2026-01-01 00:00:00.000000000"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x7f0000000000"),
    (re.compile(r"thread id \d+"), "thread id 1"),
]
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    names = [name for name in arguments if not name.startswith("-")] or list(FAILURES)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "corpus"
        fresh.mkdir()
        index = {}
        for name in names:
            index[name] = write(name, FAILURES[name], Path(folder), fresh)
        for name, model, text in DOCUMENTED:
            if model in index:
                (fresh / f"{name}.log").write_text(text)
                index[model]["logs"].append({"log": f"{name}.log", "source": name, "real": False})
        text = json.dumps({"version": 1, "failures": index}, indent=1) + "\n"
        (fresh / "expected.json").write_text(text)
        stale = differing(fresh, CORPUS)
        if check:
            for name in stale:
                print(f"{name} is stale: run `python tools/failures.py`")
            return 1 if stale else 0
        CORPUS.mkdir(parents=True, exist_ok=True)
        for name in stale:
            if (fresh / name).exists():
                (CORPUS / name).write_bytes((fresh / name).read_bytes())
            elif names == list(FAILURES):
                (CORPUS / name).unlink()
        logs = sum(entry["real"] for failure in index.values() for entry in failure["logs"])
        print(f"{len(index)} failures, {logs} messages of real runs, {len(stale)} files changed")
    return 0


def differing(fresh: Path, old: Path) -> list[str]:
    names = {path.name for folder in (fresh, old) if folder.exists() for path in folder.iterdir()}

    def read(folder: Path, name: str) -> bytes | None:
        return (folder / name).read_bytes() if (folder / name).exists() else None

    return sorted(name for name in names if read(fresh, name) != read(old, name))


def write(name: str, build: Build, folder: Path, to: Path) -> dict[str, Any]:
    """Write the files of one failure. Return its entry in the index."""
    failing = build()
    place = folder / name
    place.mkdir()
    export(failing, place)
    data = (place / MODEL).read_bytes()
    (to / f"{name}.onnx").write_bytes(data)
    if failing.has_map:
        (to / f"{name}.onnx.map").write_bytes((place / f"{MODEL}.map").read_bytes())
    file = Path(build.__code__.co_filename).resolve().relative_to(ROOT).as_posix()
    logs: dict[str, list[str]] = {}
    for level in failing.levels if failing.judge == "session" else [failing.judge]:
        logs.setdefault(provoke(failing, place, level, name), []).append(level)
    entries = []
    for text, levels in logs.items():
        log = f"{name}.{levels[0]}.log"
        (to / log).write_text(text)
        source = "onnxruntime" if failing.judge == "session" else f"onnx {failing.judge}"
        entries.append({"log": log, "source": source, "levels": levels, "real": True})
    lines = [f"{file}:{line}" for line in lines_to_blame(build)]
    return {"model": f"{name}.onnx", "lines": lines, "logs": entries}


def export(failing: Failing, place: Path) -> None:
    # A failure in the body of a loop needs the loop.
    options = {"provenance": "indexed", "unroll": 0, **failing.options}
    if failing.has_map:
        options |= {"provenance": "off", "source_map": place / f"{MODEL}.map"}
    os.chdir(ROOT)
    jax2onnx.to_onnx(
        failing.fn, failing.inputs, return_mode="file", output_path=place / MODEL, **options
    )
    if failing.damage is not None:
        proto = onnx.load(place / MODEL, load_external_data=False)
        failing.damage(proto)
        (place / MODEL).write_bytes(proto.SerializeToString())
    if failing.spoil is not None:
        failing.spoil(place)


def provoke(failing: Failing, place: Path, level: str, name: str) -> str:
    """Run the failure. Return the message in the requested form."""
    os.chdir(place)
    said: list[str] = []
    with captured() as log:
        for feeds in [failing.feeds, *failing.more_feeds]:
            try:
                judge(failing, level, feeds)
            except Exception as error:
                said.append("".join(traceback.format_exception_only(error)))
            else:
                raise SystemExit(f"{name} does not fail ({level})")
    text = {"exception": said, "wrapped": said, "both": [*log, *said]}.get(failing.form, log)
    joined = "".join(text).replace(f"{place}/", "")
    for changing, fixed in _CHANGING:
        joined = changing.sub(fixed, joined)
    if failing.form != "colour":
        joined = _COLOUR.sub("", joined)
    if failing.form == "wrapped":
        wrap = textwrap.TextWrapper(72, break_long_words=True, drop_whitespace=False)
        joined = "\n".join(part for line in joined.splitlines() for part in wrap.wrap(line)) + "\n"
    if not joined.strip():
        raise SystemExit(f"{name} fails silently ({level})")
    return joined


def judge(failing: Failing, level: str, feeds: Any) -> None:
    if failing.judge == "checker":
        onnx.checker.check_model(onnx.load(MODEL), full_check=True)
    elif failing.judge == "inference":
        onnx.shape_inference.infer_shapes(onnx.load(MODEL), strict_mode=True, data_prop=True)
    else:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = _LEVELS[level]
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
        if feeds is not None:
            session.run(failing.outputs, dict(feeds))


@contextmanager
def captured() -> Iterator[list[str]]:
    """Capture standard error inside the block, including the output of C++."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            lines += file.read().decode().splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
