"""Tries faults while files are written, and looks at what is left.

After each fault, every model in the folder loads in ONNX Runtime and computes the answer of the old
weights or of the new ones. After the next export, no temporary file remains and every file of
weights has a model.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

HERE = Path(__file__).parent
KILL_BEFORE, KILL_AFTER, KILL_MIDWAY, FAIL = 1, 2, 3, 4
OLD, NEW, NEXT = 1, 2, 3
SIDE = 64


def can_build() -> bool:
    """Return whether this system can run the harness."""
    return sys.platform == "linux" and shutil.which("cc") is not None


@contextmanager
def ready() -> Iterator[Harness]:
    """Return a harness. Its files are in memory if possible, where syncing takes no time."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        place = Path(folder).resolve()
        harness = Harness(build_shim(place), place)
        yield harness
        harness.worker.close()


def build_shim(folder: Path) -> Path:
    library = folder / "shim.so"
    source = str(HERE / "shim.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), source]
    subprocess.run([*command, "-ldl"], check=True)
    return library


class Worker:
    """A process that performs tasks."""

    def __init__(self, shim: Path) -> None:
        paths = [str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "LD_PRELOAD": str(shim),
                "JAX_PLATFORMS": "cpu",
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            },
        )

    def begin(self, **task: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        report: dict[str, Any] = json.loads(self.process.stdout.readline())
        return report

    def run(self, **task: Any) -> dict[str, Any]:
        self.begin(**task)
        return self.end()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Scenario:
    """Something that replaces the model `m.onnx` in a folder, which may fail."""

    name: str
    task: dict[str, Any]
    #: The models that a fault must not change.
    kept: tuple[str, ...] = ("release.onnx",)
    #: The folder in which faults happen.
    folder: str = ""
    #: Whether no other model has the weights of the old one, so that they are removed.
    is_alone: bool = False

    def prepare(self, folder: Path, worker: Worker) -> None:
        """Write an old model and a stripped copy of it, and the same in a folder below."""
        other = folder / "other"
        other.mkdir(parents=True)
        for place, value in ((other, NEXT), (folder, OLD)):
            expect_done(worker.run(**export_task(place, value)))
            arguments = ["strip", str(place / "m.onnx"), "-o", str(place / "release.onnx")]
            expect_done(worker.run(do="strip", folder="", arguments=arguments))

    def begin(self, folder: Path, fault: dict[str, Any]) -> dict[str, Any]:
        """Return the task."""
        task = {**self.task, "folder": str(folder / self.folder), "fault": fault}
        if task["do"] == "strip":
            words = task["arguments"]
            task["arguments"] = [word.replace("FOLDER", str(folder)) for word in words]
        else:
            task["path"] = str(folder / "m.onnx")
        return task


def export_task(folder: Path, value: int, **more: Any) -> dict[str, Any]:
    path = str(folder / "m.onnx")
    return {"do": "export", "folder": "", "path": path, "value": value, **more}


SCENARIOS = [
    Scenario(
        "export, weights beside the model", {"do": "export", "value": NEW}, kept=(), is_alone=True
    ),
    Scenario("export beside a stripped copy", {"do": "export", "value": NEW}),
    Scenario(
        "export, weights in the model, source map",
        {"do": "export", "value": NEW, "weights": "inline", "source_map": True},
    ),
    Scenario(
        "`strip` in the same folder, with a map",
        {
            "do": "strip",
            "arguments": [
                *("strip", "FOLDER/m.onnx", "-o", "FOLDER/m.onnx"),
                *("--map", "FOLDER/m.onnx.map"),
            ],
        },
    ),
    Scenario(
        "`strip` into another folder",
        {"do": "strip", "arguments": ["strip", "FOLDER/m.onnx", "-o", "FOLDER/other/m.onnx"]},
        kept=("release.onnx", "m.onnx", "other/release.onnx"),
        folder="other",
    ),
]


def expect_done(report: dict[str, Any]) -> None:
    assert report["outcome"] == "done", report


def answer(path: Path, side: int = SIDE) -> int:
    """Load a model and return the value that its weights consist of."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.full((1, side), 1 / side, np.float32)})
    assert np.ptp(found) == 0, "the weights are mixed"
    return int(found[0, 0])


def check_models(folder: Path, kept: tuple[str, ...], side: int = SIDE) -> None:
    """Check that every model computes a right answer."""
    before = {"m.onnx": OLD, "release.onnx": OLD, "other/m.onnx": NEXT, "other/release.onnx": NEXT}
    for path in folder.rglob("*.onnx"):
        name = str(path.relative_to(folder))
        right = (before[name],) if name in kept else (before[name], NEW, OLD)
        assert answer(path, side) in right, name
    assert all((folder / name).exists() for name in before if name in kept)


def temporaries(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*") if path.is_file()]


def check_tidy(folder: Path) -> None:
    """Check that each file is a model, the weights of one, or a source map."""
    known = set(folder.rglob("*.onnx")) | set(folder.rglob("*.map"))
    for path in folder.rglob("*.onnx"):
        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            places = {entry.key: entry.value for entry in tensor.external_data}
            known |= {path.parent / places["location"]} if places else set()
    files = {path for path in folder.rglob("*") if path.is_file()}
    assert files <= known, sorted(str(path.relative_to(folder)) for path in files - known)


@dataclass
class Row:
    """A line of the table: how often a fault was tried, and how often it was survived."""

    scenario: str
    fault: str
    tried: int = 0
    survived: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class Harness:
    shim: Path
    place: Path
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.worker = Worker(self.shim)

    def fresh(self, scenario: Scenario) -> Path:
        """Return a folder with the old models."""
        original = self.place / "original"
        if not original.exists():
            scenario.prepare(original, self.worker)
        folder = self.place / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)
        if scenario.is_alone:
            (folder / "release.onnx").unlink()
        return folder

    def calls(self, scenario: Scenario) -> list[str]:
        """Return the system calls of a task without a fault."""
        report = self.worker.run(**scenario.begin(self.fresh(scenario), {}))
        expect_done(report)
        calls: list[str] = report["calls"]
        return calls

    def attempt(self, row: Row, scenario: Scenario, what: str, fault: dict[str, Any]) -> None:
        """Try a fault, look at what is left, and export again."""
        folder = self.fresh(scenario)
        row.tried += 1
        report: dict[str, Any] = {}
        try:
            report = self.worker.run(**scenario.begin(folder, fault))
            check_models(folder, scenario.kept)
            if fault.get("kind") == FAIL or "space" in fault:
                assert report["outcome"] != "killed", report
                if what not in ("unlink", "create"):
                    assert temporaries(folder) == [], temporaries(folder)
            self.export_again(folder)
            row.survived += 1
        except Exception as error:
            row.failures.append(f"{scenario.name}: {row.fault}, {what}: {error!r} {report}")

    def export_again(self, folder: Path) -> None:
        """Export to both folders without a fault, which removes leftovers."""
        for place in (folder, folder / "other"):
            expect_done(self.worker.run(**export_task(place, NEW)))
            assert answer(place / "m.onnx") == NEW
        check_tidy(folder)

    def try_calls(self, scenario: Scenario, every: int = 1, start: int = 0) -> None:
        """Try each kind of fault at each system call, or at every so many of them."""
        calls = self.calls(scenario)
        for name, kind, error in (
            ("killed before a system call", KILL_BEFORE, 0),
            ("killed after a system call", KILL_AFTER, 0),
            ("killed in the middle of a write", KILL_MIDWAY, 0),
            ("system call returns an error", FAIL, errno.EIO),
        ):
            row = self.row(scenario.name, name)
            for number, call in list(enumerate(calls, 1))[start::every]:
                if kind != KILL_MIDWAY or call == "write":
                    fault = {"kind": kind, "number": number, "error": error}
                    self.attempt(row, scenario, f"{call} {number}" if kind != FAIL else call, fault)

    def try_full_disk(self, scenario: Scenario, sizes: Iterator[int] | range) -> None:
        row = self.row(scenario.name, "full disk")
        for size in sizes:
            self.attempt(row, scenario, f"{size} bytes", {"space": size})

    def try_read_only(self, scenario: Scenario) -> None:
        row = self.row(scenario.name, "read-only folder")
        self.attempt(row, scenario, "all", {"kind": FAIL, "number": -1, "error": errno.EROFS})

    def try_together(self, count: int, rounds: int) -> None:
        """Let several processes export to one path at the same time."""
        row = self.row("export, weights beside the model", f"{count} processes write one path")
        scenario = SCENARIOS[0]
        workers = [Worker(self.shim) for _ in range(count)]
        for number in range(rounds):
            folder = self.fresh(scenario)
            row.tried += 1
            try:
                for place, worker in enumerate(workers):
                    # Some have the same weights.
                    worker.begin(**export_task(folder, (NEW, OLD)[(number + place) % 3 == 0]))
                for worker in workers:
                    expect_done(worker.end())
                check_models(folder, scenario.kept)
                check_tidy(folder)
                row.survived += 1
            except Exception as error:
                row.failures.append(f"{row.fault}: {error!r}")
        for worker in workers:
            worker.close()

    def try_signals(self, rounds: int, side: int = 1024, seconds: float = 1.5) -> None:
        """Interrupt exports at random times."""
        randomness = random.Random(0)
        for name in ("SIGINT", "SIGTERM", "SIGKILL"):
            row = self.row("export, weights beside the model", f"{name} at a random time")
            folder = self.place / "signals"
            for _ in range(rounds):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                expect_done(self.worker.run(**export_task(folder, OLD, side=side)))
                row.tried += 1
                try:
                    delay = randomness.uniform(0, seconds)
                    what = {"signal": getattr(signal, name), "delay": delay, "side": side}
                    self.worker.run(**export_task(folder, NEW, **what))
                    assert answer(folder / "m.onnx", side) in (OLD, NEW)
                    expect_done(self.worker.run(**export_task(folder, NEXT, side=side)))
                    assert answer(folder / "m.onnx", side) == NEXT
                    check_tidy(folder)
                    row.survived += 1
                except Exception as error:
                    row.failures.append(f"{row.fault}: {error!r}")

    def row(self, scenario: str, fault: str) -> Row:
        self.rows.append(Row(scenario, fault))
        return self.rows[-1]

    def table(self) -> str:
        lines = ["| What is written | Fault | Tried | Survived |", "| --- | --- | --- | --- |"]
        for row in self.rows:
            lines.append(f"| {row.scenario} | {row.fault} | {row.tried} | {row.survived} |")
        return "\n".join(lines)

    def failures(self) -> list[str]:
        return [failure for row in self.rows for failure in row.failures]
