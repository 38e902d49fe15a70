"""No signal interrupts the import of a native library, which could end the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from jax2onnx._native import imported


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot send SIGINT to a process")
def test_an_import_ends_before_an_interrupt_is_raised(folder: Path) -> None:
    # The module sends the signal when the main thread already waits, and runs on for many steps.
    code = """
        import os, signal, time
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        sum(range(100_000))
        is_complete = True
    """
    (folder / "interrupted_library.py").write_text(textwrap.dedent(code))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            imported("interrupted_library")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert sys.modules["interrupted_library"].is_complete
    assert imported("interrupted_library") is sys.modules["interrupted_library"]


def test_an_import_that_fails_raises_its_error(folder: Path) -> None:
    (folder / "broken_library.py").write_text("raise ImportError('no such symbol')")
    with pytest.raises(ImportError, match="no such symbol"):
        imported("broken_library")
    with pytest.raises(ModuleNotFoundError, match="absent_library"):
        imported("absent_library")


def test_a_library_whose_import_asks_for_itself_is_imported(folder: Path) -> None:
    code = "from jax2onnx._native import imported\nitself = imported(__name__)"
    (folder / "recursive_library.py").write_text(code)
    module = imported("recursive_library")
    assert module.itself is module


def test_a_library_is_imported_in_this_thread_if_no_thread_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    (folder / "late_library.py").write_text("import threading\nthread = threading.current_thread()")
    assert imported("late_library").thread is threading.main_thread()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("onnx.onnx_cpp2py_export", "to_onnx(jnp.tanh, [(3,)])"),
        ("onnx.onnx_cpp2py_export", "jax2onnx.Report"),
        ("onnx.onnx_cpp2py_export", "registry.record(None, 21)"),
        ("onnxruntime.capi", "jax2onnx.InferenceSession"),
        ("onnxruntime.capi", "jax2onnx.profile('model.onnx', [])"),
    ],
)
def test_the_main_thread_does_not_import_a_native_module(module: str, use: str) -> None:
    code = f"""
        import contextlib, sys, threading
        import jax.numpy as jnp
        import jax2onnx
        from jax2onnx import to_onnx
        from jax2onnx._plugins import registry

        threads = []

        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == {module!r}:
                    threads.append(threading.current_thread())

        sys.meta_path.insert(0, Finder())
        with contextlib.suppress(Exception):
            {use}
        assert threads and threading.main_thread() not in threads, threads
    """
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
