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
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

#: Instruction sets, the oldest first. `make test` names several; without any, this CPU is the only
#: reference.
CPUS = os.environ.get("JAX2ONNX_TEST_CPUS", "").split()
#: XLA 0.10 calls functions that it does not have for float16 on CPUs without F16C.
NOT_COMPILED = "Failed to materialize symbols"


def compute(
    fn: Callable[..., Any], inputs: Sequence[Any], here: Sequence[np.ndarray]
) -> dict[str, list[np.ndarray]]:
    """What `fn` returns on each CPU, unless the oldest returns what this one does.

    If this CPU and the oldest for which `fn` compiles agree to the last bit, so do those between.
    """
    flat, leaves = _flattened(fn, inputs)
    jitted = jax.jit(flat)
    # JAX promises nothing about these calls in other versions of itself; both ends have the same.
    calls = set(re.findall(r"custom_call @(\w+)", jitted.lower(*leaves).as_text()))
    checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in calls]
    exported = jax.export.export(jitted, disabled_checks=checks)(*leaves)
    request = pickle.dumps((bytes(exported.serialize()), leaves))
    found = {}
    for cpu in CPUS:
        results = _ask(cpu, request)
        if results is None:
            continue
        if not found and _identical(results, here):
            return {}
        found[cpu] = results
    return found


def _flattened(fn: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, list[np.ndarray]]:
    """The function of plain arrays that `fn` is, and its arguments."""
    given, tree = jax.tree.flatten(tuple(inputs))
    kinds = [jax.random.key_impl(leaf) if _is_key(leaf) else None for leaf in given]

    def flat(*leaves: jax.Array) -> list[jax.Array]:
        wrapped = [
            leaf if kind is None else jax.random.wrap_key_data(leaf, impl=kind)
            for leaf, kind in zip(leaves, kinds, strict=True)
        ]
        results = jax.tree.leaves(fn(*jax.tree.unflatten(tree, wrapped)))
        return [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in results]

    return flat, [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in given]


def _is_key(array: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key)


def _identical(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(one.tobytes() == other.tobytes() for one, other in pairs)


@functools.cache
def _process(cpu: str) -> subprocess.Popen[bytes]:
    """The process that computes as on that CPU; it ends with this one."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={cpu}"
    return subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _ask(cpu: str, request: bytes) -> list[np.ndarray] | None:
    """The results on that CPU, or none where XLA does not compile the function for it."""
    process = _process(cpu)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    process.stdin.flush()
    answer = pickle.load(process.stdout)
    if isinstance(answer, str):
        assert NOT_COMPILED in answer, f"JAX on {cpu}: {answer}"
        return None
    return answer


def _serve() -> None:
    """Compute what is asked for on standard input until there is no more."""
    jax.config.update("jax_enable_x64", True)
    while True:
        try:
            exported, inputs = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: list[np.ndarray] | str
        try:
            results = jax.export.deserialize(bytearray(exported)).call(*inputs)
            answer = [np.asarray(result) for result in results]
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
