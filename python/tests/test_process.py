"""What an export does to the process that it runs in: threads, interrupts, memory, arrays."""

import _thread
import dataclasses
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import _core

FIXTURES = Path(__file__).parents[2] / "crates" / "cli" / "tests" / "fixtures"


def chain(count: int) -> Callable[[jax.Array], jax.Array]:
    """Return a function of many equations, whose export takes a while."""

    def fn(x: jax.Array) -> jax.Array:
        for i in range(count):
            x = jnp.sin(x) * (1.0 + i) + jnp.cos(x)
        return x

    return fn


def with_phases(options: Any, on_phase: Callable[[str], None]) -> Any:
    """Return the options of an export that tells its phases."""
    return dataclasses.replace(options, on_phase=on_phase)


def longest_pause(work: threading.Thread) -> float:
    """Return the longest time that this thread had to wait while another one works."""
    longest, before = 0.0, time.perf_counter()
    while work.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    return longest


def test_another_thread_runs_while_weights_are_written(tmp_path: Path) -> None:
    weights = jnp.ones((4096, 8192))  # 128 MB
    export = threading.Thread(
        target=jax2onnx.to_onnx,
        args=(lambda x: x @ weights.T, [(1, 8192)]),
        kwargs={"return_mode": "file", "output_path": tmp_path / "m.onnx"},
    )
    jax2onnx.to_onnx(lambda x: x @ weights[:8, :8], [(1, 8)])
    begin = time.perf_counter()
    export.start()
    pause = longest_pause(export)
    took = time.perf_counter() - begin
    assert pause < max(0.25, took / 2), f"{pause:.2f} s of {took:.2f} s"


def test_an_array_that_changes_during_the_export_is_exported_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = np.arange(8, dtype=np.float32)
    options = []
    export = _core.export
    monkeypatch.setattr(_core, "export", lambda jaxpr, given: options.append((jaxpr, given)))
    jax2onnx.to_onnx(lambda x: x + weights, [(8,)])
    monkeypatch.undo()
    jaxpr, given = options[0]
    jaxpr = jaxpr.replace(consts=[weights]) if jaxpr.consts else jaxpr

    def change(phase: str) -> None:
        weights[:] = -1

    model = onnx.load_model_from_string(export(jaxpr, with_phases(given, change)))
    stored = {
        float(number)
        for tensor in model.graph.initializer
        for number in onnx.numpy_helper.to_array(tensor).ravel()
    }
    assert -1.0 not in stored
    assert {2.0, 7.0} <= stored


def test_a_large_array_is_read_only_during_the_export_and_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = np.ones((600, 600), np.float32)
    view = base[:]
    seen: list[tuple[bool, bool]] = []

    def look(phase: str) -> None:
        seen.append((view.flags.writeable, base.flags.writeable))

    export = _core.export
    monkeypatch.setattr(
        _core,
        "export",
        lambda jaxpr, given: export(jaxpr.replace(consts=[view]), with_phases(given, look)),
    )
    jax2onnx.to_onnx(lambda x: x @ view, [(4, 600)])
    assert set(seen) == {(False, False)}
    assert view.flags.writeable
    assert base.flags.writeable


def test_ctrl_c_ends_an_export_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    # Others may have changed what Ctrl-C does in this process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(phase: str) -> None:
        seen.append(phase)
        if phase == "formulas":
            _thread.interrupt_main()
        if "formulas" in seen:
            # The main thread looks for signals meanwhile.
            time.sleep(0.5)

    export = _core.export
    monkeypatch.setattr(
        _core, "export", lambda jaxpr, given: export(jaxpr, with_phases(given, interrupt))
    )
    output = tmp_path / "m.onnx"
    try:
        with pytest.raises(KeyboardInterrupt):
            jax2onnx.to_onnx(chain(50), [(4,)], return_mode="file", output_path=output)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "formulas" in seen
    assert "write" not in seen
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_a_command_at_once(tmp_path: Path) -> None:
    names = ",\n".join(
        f'{{"cat":"Node","name":"n{i}_kernel_time","ts":{i},"dur":1,"args":{{"op_name":"Add"}}}}'
        for i in range(400_000)
    )
    profile = tmp_path / "profile.json"
    profile.write_text(f"[{names}]")
    command = [sys.executable, "-m", "jax2onnx", "profile", FIXTURES / "indexed.onnx", profile]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.7)
    if process.poll() is not None:
        pytest.skip("the command was faster than the interrupt")
    begin = time.perf_counter()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    # A shell shows a process that SIGINT ended as status 130.
    assert process.returncode == -signal.SIGINT
    assert time.perf_counter() - begin < 2


@pytest.mark.slow
def test_many_exports_leave_no_memory_behind() -> None:
    def size() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("only Linux says how large a process is")
    weights = jnp.ones((512, 512))
    fn = chain(20)

    def export(count: int) -> None:
        for _ in range(count):
            jax2onnx.to_onnx(lambda x: fn(x @ weights), [(4, 512)], source_map=None)
            jax.clear_caches()

    export(30)
    before = size()
    export(270)
    grown = size() - before
    print(f"270 further exports: {before:.0f} MB, then {grown:+.1f} MB")
    assert grown < 60


def nested_loops(depth: int) -> Callable[[jax.Array], jax.Array]:
    """Return loops within each other, whose numbers of rounds are not known."""

    def fn(x: jax.Array, count: jax.Array) -> jax.Array:
        body = jnp.sin
        for _ in range(depth):
            body = lambda c, body=body: jax.lax.fori_loop(0, count, lambda _, c: body(c), c)  # noqa: E731
        return body(x)

    return fn


def test_loops_are_nested_as_deep_as_protobuf_reads() -> None:
    inputs = [jax.ShapeDtypeStruct((), "float32"), jax.ShapeDtypeStruct((), "int32")]
    model = jax2onnx.to_onnx(nested_loops(31), inputs, return_mode="proto")
    onnx.load_model_from_string(model.SerializeToString())
    with pytest.raises(jax2onnx.UnsupportedError, match="nested 32 levels deep") as raised:
        jax2onnx.to_onnx(nested_loops(32), inputs)
    assert "test_process.py" in str(raised.value)
