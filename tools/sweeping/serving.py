"""Processes that try functions, so that an abort ends nothing else.

A script with the option `--worker` reads lines `[name, skipped]` from standard input. It answers
with two lines per set of arguments, one before it tries the set and one with the verdict, and with
`null` after the last one.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Entry = dict[str, Any]
BEGUN = {"verdict": "begun", "said": ""}


def serve(
    script: str,
    names: Iterable[str],
    done: Callable[[str, list[Entry]], None],
    *,
    jobs: int,
    seconds: float,
) -> None:
    """Tries every function in one of the processes; calls `done` with the verdicts of each."""
    pending: queue.Queue[str] = queue.Queue()
    for name in names:
        pending.put(name)
    lock = threading.Lock()

    def report(name: str, entries: list[Entry]) -> None:
        with lock:
            done(name, entries)

    threads = [
        threading.Thread(target=_serve, args=(script, pending, seconds, report))
        for _ in range(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def answer_requests(entries: Callable[[str, int], Iterator[Entry]]) -> None:
    """Runs in the process: answers with the entries of each function after the skipped ones.

    `entries` yields an entry with the verdict `begun` before each verdict.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, skipped = json.loads(line)
        for entry in itertools.chain(entries(name, skipped), [None]):
            answers.write(json.dumps(entry) + "\n")
            answers.flush()


def _serve(
    script: str,
    pending: queue.Queue[str],
    seconds: float,
    done: Callable[[str, list[Entry]], None],
) -> None:
    """Hands functions to a process, and starts another one when it ends or hangs."""
    worker: Worker | None = None
    while True:
        try:
            name = pending.get_nowait()
        except queue.Empty:
            break
        entries: list[Entry] = []
        while True:
            worker = worker or Worker(script, seconds)
            ended = worker.run(name, entries)
            if ended is None:
                break
            worker = None
            if entries and entries[-1]["verdict"] == "begun":
                entries[-1] |= {"verdict": "crash", "said": ended}
            else:
                entries.append({"label": "", "verdict": "crash", "said": ended})
                break
        done(name, entries)
    if worker is not None:
        worker.stop()


class Worker:
    """A process that tries functions."""

    def __init__(self, script: str, seconds: float) -> None:
        self._seconds = seconds
        self._process = subprocess.Popen(
            [sys.executable, script, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def run(self, name: str, entries: list[Entry]) -> str | None:
        """Tries the sets after the ones at hand; returns how the process ended, if it did."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, len(entries)]) + "\n")
        self._process.stdin.flush()
        while True:
            try:
                line = self._lines.get(timeout=self._seconds)
            except queue.Empty:
                self.stop()
                return f"no answer within {self._seconds:.0f} s"
            if not line:
                return f"the process ended with {self._process.wait()}"
            entry = json.loads(line)
            if entry is None:
                return None
            if entries and entries[-1]["verdict"] == "begun":
                entries.pop()
            entries.append(entry)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")
