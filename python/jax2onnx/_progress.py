"""Report the stages of an export, and show them on a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_TICK: Final = 0.2

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("jax2onnx_progress", default=None)

#: Is called with the name of each phase before it runs; `write` is the last one.
phase_listener: ContextVar[Callable[[str], object] | None] = ContextVar(
    "jax2onnx_phases", default=None
)

#: Is called with a summary of the model, which is then not written.
summary_listener: ContextVar[Callable[[Mapping[str, Any]], object] | None] = ContextVar(
    "jax2onnx_summary", default=None
)


def stage(name: str) -> None:
    """Report that a stage of the export begins."""
    listener = _listener.get()
    if listener is not None:
        listener(name)


class Stopwatch:
    """Measures how long each stage takes, and shows the current one on a terminal."""

    def __init__(self, *, show: bool) -> None:
        """Measure stages, and show them if wanted."""
        self.seconds: dict[str, float] = {}
        self._show = show
        self._stage = ""
        self._start = 0.0
        self._done = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Listen to the stages of everything inside the block."""
        token = _listener.set(self._begin)
        ticker = threading.Thread(target=self._tick, daemon=True) if self._show else None
        if ticker is not None:
            ticker.start()
        try:
            yield
        finally:
            _listener.reset(token)
            self._end()
            self._done.set()
            if ticker is not None:
                ticker.join()
                self._write("")

    def _begin(self, name: str) -> None:
        self._end()
        self._stage, self._start = name, time.perf_counter()

    def _end(self) -> None:
        if self._stage:
            self.seconds[self._stage] = time.perf_counter() - self._start
            self._stage = ""

    def _tick(self) -> None:
        while not self._done.wait(_TICK):
            if self._stage:
                self._write(f"{self._stage} … {time.perf_counter() - self._start:.1f} s")

    def _write(self, text: str) -> None:
        """Replace the line on the terminal."""
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
