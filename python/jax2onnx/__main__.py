"""The command line: `jax2onnx` and `python -m jax2onnx`."""

import sys

from . import _core


def main() -> int:
    """Run the program; the exit code says whether it could answer."""
    return _core.main(["jax2onnx", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
