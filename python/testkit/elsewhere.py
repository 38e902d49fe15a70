"""What JAX computes on other CPUs.

XLA compiles for the CPU at hand, and numbers depend on it: whether a product and a sum are rounded
once or twice, whether float64 becomes float16 in one step, how wide a vector is. The flag
`--xla_cpu_max_isa` stands in for older CPUs. XLA reads its flags once per process, so each CPU is
a process of its own. It is given a computation that is already lowered.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import numpy as np

from . import sampling
from .references import Computation, Results, kept, recent

#: Instruction sets, the oldest first. `make test` names several; without any, this CPU is the only
#: reference.
CPUS = os.environ.get("JAX2ONNX_TEST_CPUS", "").split()
#: XLA 0.10 calls functions that it lacks for float16 on CPUs without F16C. JAX registers kernels
#: for sparse arrays when it lowers their products, which these processes do not do.
NOT_COMPILED = re.compile("Failed to materialize symbols|No FFI handler registered")


#: The last computations that this process compiled.
_COMPILED: dict[bytes, Any] = {}


def compute(computation: Computation, here: Results) -> dict[str, Results]:
    """What JAX computes on each CPU, unless the oldest computes what this one does.

    If this CPU and the oldest for which the computation compiles agree to the last bit, so do those
    between.
    """
    found: dict[str, Results] = {}
    # A callback is a function of this process.
    if "callback" in computation.lowered.as_text() or not sampling.is_chosen(computation.key):
        return {}
    for cpu in CPUS:
        ask = functools.partial(_ask, cpu, computation)
        results = kept(computation, _flags(cpu), ask)
        if results is None:
            continue
        if not found and _identical(results, here):
            return {}
        found[cpu] = results
    return found


def _identical(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(one.tobytes() == other.tobytes() for one, other in pairs)


def _flags(cpu: str) -> str:
    return f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={cpu}"


@functools.cache
def _process(cpu: str) -> subprocess.Popen[bytes]:
    """The process that computes as on that CPU; it ends with this one."""
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.elsewhere"],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "XLA_FLAGS": _flags(cpu), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _ask(cpu: str, computation: Computation) -> Results | None:
    """The results on that CPU, or none where XLA does not compile the computation for it."""
    process = _process(cpu)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(computation.serialized())
    process.stdin.flush()
    answer = pickle.load(process.stdout)
    if isinstance(answer, str):
        assert NOT_COMPILED.search(answer), f"JAX on {cpu}: {answer}"
        return None
    return answer


def _serve() -> None:
    """Compute what is asked for on standard input until there is no more."""
    jax.config.update("jax_enable_x64", True)
    # Makes LAPACK known to XLA, as lowering does.
    jax.jit(jax.lax.linalg.cholesky).lower(np.eye(1))
    while True:
        try:
            code, inputs = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: list[np.ndarray] | str
        try:
            answer = _run(code, inputs)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _run(code: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compile and run a computation that JAX lowered in another process.

    JAX has no public function for this that does not trace and lower the computation once more.
    """
    from jax._src import compiler
    from jax._src.lib import xla_client

    def compiled() -> Any:
        backend = jax.extend.backend.get_backend()
        devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        return backend.compile_and_load(code, devices, options)

    executable = recent(_COMPILED, code, compiled)
    results = executable.execute_sharded([jax.device_put(array) for array in inputs])
    parts = results.disassemble_into_single_device_arrays()
    return [np.asarray(part[0]) for part in parts]


if __name__ == "__main__":
    _serve()
