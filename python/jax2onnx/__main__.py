"""Run the command line: `jax2onnx` or `python -m jax2onnx`."""

import signal
import sys
from typing import Any, Literal

from . import _core


def main() -> int:
    """Run the program. Return the exit code."""
    if sys.argv[1:2] != ["export"]:
        # Nothing of Python runs that could be interrupted, and nothing is half written.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.main(["jax2onnx", *sys.argv[1:]], _run)


def _run(command: Literal["export", "config"], **request: Any) -> int:
    """Run a command that needs Python."""
    if command == "config":
        from ._command import config

        return config.run(**request)
    from ._command import export

    return export.run(**request)


if __name__ == "__main__":
    sys.exit(main())
