"""Run models in runtimes other than ONNX Runtime in this process.

Each runtime runs in a process of its own, because a runtime may end its process, and because it may
need another interpreter. `docs/comparing.md` describes what such a process reads and writes.
"""

from .places import PROGRAM, checked, split, started
from .process import Process, RefusalError, Started, prepare

__all__ = [
    "PROGRAM",
    "Process",
    "RefusalError",
    "Started",
    "checked",
    "prepare",
    "split",
    "started",
]
