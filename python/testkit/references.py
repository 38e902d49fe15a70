"""What JAX computes, kept on disk.

Compiling a function takes XLA longer than all other parts of a test together. What JAX computes is
therefore kept in `.cache/references`, and a function that was compiled once is not compiled again.
The name of an entry depends on everything that the numbers depend on: the computation that JAX
gives to XLA, the inputs, the version of XLA, its flags, and the CPU.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import math
import os
import pickle
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import jax
import jax.extend.core
import jaxlib
import numpy as np

FOLDER: Final = Path(__file__).parents[2] / ".cache" / "references"
Results = list[np.ndarray]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Computation:
    """A function of arrays as JAX gives it to XLA, and its inputs."""

    jaxpr: jax.extend.core.ClosedJaxpr
    lowered: jax.stages.Lowered
    inputs: list[np.ndarray]

    @staticmethod
    def of(fn: Callable[..., Any], inputs: Sequence[Any]) -> Computation:
        given, tree = jax.tree.flatten(tuple(inputs))
        kinds = [jax.random.key_impl(leaf) if is_key(leaf) else None for leaf in given]

        def flat(*leaves: jax.Array) -> list[jax.Array]:
            wrapped = [
                leaf if kind is None else jax.random.wrap_key_data(leaf, impl=kind)
                for leaf, kind in zip(leaves, kinds, strict=True)
            ]
            results = jax.tree.leaves(fn(*jax.tree.unflatten(tree, wrapped)))
            return [jax.random.key_data(leaf) if is_key(leaf) else leaf for leaf in results]

        leaves = [jax.random.key_data(leaf) if is_key(leaf) else leaf for leaf in given]
        traced = jax.jit(flat, keep_unused=True).trace(*leaves)
        types = [aval.dtype for aval in traced.jaxpr.in_avals]
        arrays = [np.asarray(leaf).astype(t) for leaf, t in zip(leaves, types, strict=True)]
        return Computation(traced.jaxpr, traced.lower(), arrays)

    @functools.cached_property
    def program(self) -> bytes:
        """A hash of the computation without its inputs."""
        return hashlib.sha256(self.lowered.as_text().encode()).digest()

    @functools.cached_property
    def key(self) -> str:
        """A name that no other computation or inputs have."""
        digest = hashlib.sha256(self.program)
        for array in self.inputs:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def run(self) -> Results:
        """Compute on this CPU."""
        name = "jax_persistent_cache_min_compile_time_secs"
        before = getattr(jax.config, name)
        # The results are kept; what XLA compiled is not needed again.
        jax.config.update(name, math.inf)
        try:
            compiled = recent(_COMPILED, self.program, self.lowered.compile)
            return [np.asarray(result) for result in compiled(*self.inputs)]
        finally:
            jax.config.update(name, before)

    def serialized(self) -> bytes:
        """The computation and its inputs, for another process."""
        code = io.BytesIO()
        self.lowered.compiler_ir("stablehlo").operation.write_bytecode(code)
        return pickle.dumps((code.getvalue(), self.inputs))


#: The last computations that were compiled. A test may run one of them on many inputs.
_COMPILED: dict[bytes, jax.stages.Compiled] = {}


def recent(entries: dict[bytes, T], key: bytes, make: Callable[[], T]) -> T:
    """The entry of a key, which is made if it is not among the last ones."""
    entry = entries.pop(key) if key in entries else make()
    entries[key] = entry
    while len(entries) > 4:
        del entries[next(iter(entries))]
    return entry


def is_key(array: Any) -> bool:
    """Return whether an array holds keys of random numbers."""
    return jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key)


def kept(computation: Computation, flags: str, compute: Callable[[], Results | None]) -> Any:
    """The results of XLA with these flags, which are computed if none are kept."""
    entry = _folder(flags) / f"{computation.key}.pickle"
    try:
        return pickle.loads(entry.read_bytes())
    except (OSError, EOFError):
        results = compute()
    entry.parent.mkdir(parents=True, exist_ok=True)
    # Another process may read the entry at any time.
    with tempfile.NamedTemporaryFile(dir=entry.parent, delete=False) as file:
        pickle.dump(results, file)
    os.replace(file.name, entry)
    return results


@functools.cache
def _folder(flags: str) -> Path:
    """Where the results of one XLA on one CPU are."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = sorted({line for line in lines if line.startswith(("flags", "Features"))})
    text = "\n".join([jax.__version__, jaxlib.__version__, flags, *features])
    return FOLDER / hashlib.sha256(text.encode()).hexdigest()[:12]
