"""Measure what ONNX Runtime can do on this machine: operations and bytes per second.

The rates are measured with matrix products and a sum, and kept in the cache folder of the
user under the names of the CPU and of the runtime, and the number of threads.
"""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .. import _files
from .._errors import ConfigError, WriteError
from .observed import CPU, runtime

#: The lengths of the axes of the matrices. Short products run often between the pauses of a busy
#: machine, and long ones use all threads.
_MATRICES: Final = (256, 512, 1024)
#: The elements of each array of the sum. The arrays do not fit in most caches.
_ARRAY: Final = 1 << 24
#: The seconds and runs that a measurement takes at least.
_SECONDS: Final = 0.4
_RUNS: Final = 5
#: The maximum size of the file with the rates.
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Machine:
    """The highest rates of a machine.

    Attributes:
        flops_per_second: The floating-point operations per second of matrix products in `float32`.
        bytes_per_second: The bytes per second that a sum of large arrays reads and writes.
    """

    flops_per_second: float
    bytes_per_second: float


def machine(threads: int = 0) -> Machine:
    """Return the rates of this machine from the cache, or measure them, which takes seconds.

    Args:
        threads: The number of threads of ONNX Runtime. 0 is its default.

    Raises:
        ConfigError: ONNX Runtime is not installed.
    """
    onnxruntime = runtime("cost")
    file = cache_folder() / "machines.json"
    known = _read(file)
    key = f"{_cpu()}, {_threads(threads)}, ONNX Runtime {onnxruntime.__version__}"
    found = known.get(key)
    if found is None:
        found = _measured(onnxruntime, threads)
        _write(file, {**known, key: found})
    return found


def cache_folder() -> Path:
    """Return the folder for what can be computed again, as the system says."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return Path(chosen) / "jax2onnx"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/jax2onnx").expanduser()
    local = os.environ.get("LOCALAPPDATA")
    if sys.platform == "win32" and local:
        return Path(local) / "jax2onnx" / "Cache"
    return Path("~/.cache/jax2onnx").expanduser()


def _read(file: Path) -> dict[str, Machine]:
    """Return the rates in a file. A file that is damaged has none."""
    try:
        with file.open("rb") as opened:
            data = json.loads(opened.read(_MAX_BYTES))
        entries = data["machines"].items() if data["version"] == 1 else ()
        found = {str(key): Machine(**entry) for key, entry in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {
        key: rates for key, rates in found.items() if all(map(_is_rate, asdict(rates).values()))
    }


def _is_rate(rate: Any) -> bool:
    return isinstance(rate, int | float) and math.isfinite(rate) and rate > 0


def _write(file: Path, machines: dict[str, Machine]) -> None:
    """Keep the rates. If the folder cannot be written, they are measured again the next time."""
    data = {"version": 1, "machines": {key: asdict(it) for key, it in machines.items()}}
    with suppress(ConfigError, WriteError), _files.folder(str(file.parent)):
        _files.write_text("the rates of the machine", file, json.dumps(data, indent=2) + "\n")


def _cpu() -> str:
    """Return the name of the CPU."""
    with suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _threads(threads: int) -> str:
    """Return the number of threads. The default of ONNX Runtime depends on the cores."""
    if threads > 0:
        return f"{threads} threads"
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return f"threads for {usable} cores"


def _measured(onnxruntime: Any, threads: int) -> Machine:
    import numpy as np

    flops = max(
        2 * size**3 / _seconds(onnxruntime, threads, "MatMul", (size, size), np)
        for size in _MATRICES
    )
    moved = 3 * 4 * _ARRAY / _seconds(onnxruntime, threads, "Add", (_ARRAY,), np)
    return Machine(round(flops), round(moved))


def _seconds(onnxruntime: Any, threads: int, op: str, shape: tuple[int, ...], np: Any) -> float:
    """Return the shortest time of a node with two operands of one shape."""
    import onnx

    value = onnx.helper.make_tensor_value_info
    names = {name: value(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y", "z")}
    node = onnx.helper.make_node(op, ["x", "y"], ["z"])
    graph = onnx.helper.make_graph([node], op, [names["x"], names["y"]], [names["z"]])
    imports = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    binding = session.io_binding()
    # The memory is allocated and touched before the first run.
    arrays = {name: np.ones(shape, np.float32) for name in names}
    binding.bind_cpu_input("x", arrays["x"])
    binding.bind_cpu_input("y", arrays["y"])
    result = onnxruntime.OrtValue.ortvalue_from_numpy(arrays["z"])
    binding.bind_ortvalue_output("z", result)
    return _shortest(lambda: session.run_with_iobinding(binding))


def _shortest(run: Callable[[], object]) -> float:
    run()
    times: list[float] = []
    while len(times) < _RUNS or sum(times) < _SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
