"""Run the command line: `jax2onnx` or `python -m jax2onnx`."""

import sys
from typing import Any

from . import _core


def main() -> int:
    """Run the program. Return the exit code."""
    return _core.main(["jax2onnx", *sys.argv[1:]], _export)


def _export(**request: Any) -> int:
    from ._command.export import run

    return run(**request)


if __name__ == "__main__":
    sys.exit(main())
