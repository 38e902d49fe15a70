"""Run the command line: `jax2onnx` or `python -m jax2onnx`."""

import signal
import sys
import threading
from typing import Any, Final, Literal

from . import _core

#: The commands that Python runs, which end in an orderly way if they are interrupted.
_INTERRUPTIBLE: Final = ("compare", "export", "lower", "sensitivity")


def main() -> int:
    """Run the program. Return the exit code."""
    arguments = ["jax2onnx", *sys.argv[1:]]
    is_main = threading.current_thread() is threading.main_thread()
    if arguments[1:2] in ([name] for name in _INTERRUPTIBLE) or not is_main:
        return _core.main(arguments, _run)
    # Nothing of Python runs that could be interrupted, and nothing is half written.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return _core.main(arguments, _run)
    finally:
        signal.signal(signal.SIGINT, before)


def _run(
    command: Literal["compare", "config", "doctor", "export", "lower", "machine", "sensitivity"],
    **request: Any,
) -> int:
    """Run a command that needs Python."""
    if command == "compare":
        from ._command import compare

        return compare.run(**request)
    if command == "config":
        from ._command import config

        return config.run(**request)
    if command == "doctor":
        from ._command import doctor

        return doctor.run(**request)
    if command == "lower":
        from ._command import lower

        return lower.run(**request)
    if command == "machine":
        from ._command import machine

        return machine.run(**request)
    if command == "sensitivity":
        from ._command import sensitivity

        return sensitivity.run(**request)
    from ._command import export

    return export.run(**request)


if __name__ == "__main__":
    sys.exit(main())
