"""Run `jax2onnx cost --profile` with the rates of this machine."""

import sys

from .. import _core
from .._errors import ConfigError


def run(*, threads: int | None) -> int:
    """Measure the machine, and run the command line again. Return the exit code."""
    from .._inspecting.machine import machine

    arguments = ["jax2onnx", *sys.argv[1:]]
    try:
        found = machine(threads or 0)
    except ConfigError:
        # The command says that the rates of the machine are not known.
        return _core.main(arguments, None)
    rates = f"{found.flops_per_second:.0f},{found.bytes_per_second:.0f}"
    return _core.main([*arguments[:2], f"--machine={rates}", *arguments[2:]], None)
