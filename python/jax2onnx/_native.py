"""Import libraries whose native modules must not be interrupted while they are imported."""

import importlib
import sys
import threading
from types import ModuleType


def imported(name: str) -> ModuleType:
    """Import a library in another thread, because signal handlers run in the main thread.

    If Ctrl-C interrupts the import of onnx, its native module ends the process with SIGSEGV or
    SIGABRT, or every later import fails. The native module of ONNX Runtime reports the interrupt
    as an `ImportError`. In another thread, the import ends first, and then the main thread raises
    the `KeyboardInterrupt`.
    """
    # Another thread would wait forever if the import of the library called jax2onnx.
    if name in sys.modules:
        return importlib.import_module(name)
    failures: list[BaseException] = []
    has_ended = threading.Event()

    def run() -> None:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failures.append(error)
        finally:
            has_ended.set()

    try:
        threading.Thread(target=run, name=f"import of {name}").start()
    except RuntimeError:
        # While the interpreter shuts down, it starts no threads.
        return importlib.import_module(name)
    try:
        has_ended.wait()
    finally:
        has_ended.wait()
    for error in failures:
        raise error
    return sys.modules[name]
