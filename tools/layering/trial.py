"""A layer in each variant: its nodes, and why it has not become its operator."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import export

import jax2onnx
from testkit import bench

from .layer import Layer

#: The element type of each variant, and the largest error relative to the largest element.
VARIANTS: dict[str, tuple[Any, float]] = {
    "float32": (jnp.float32, 2e-5),
    "float16": (jnp.float16, 1e-2),
    "bfloat16": (jnp.bfloat16, 6e-2),
    "B": (jnp.float32, 2e-5),
}
BATCHES = (0, 1, 3)


@dataclass(frozen=True)
class Outcome:
    """What became of a layer in one variant."""

    operators: dict[str, int]
    declines: dict[str, str]
    problem: str = ""
    runs_empty: bool = True

    @property
    def nodes(self) -> int:
        return sum(self.operators.values())


#: The rewrites that write an operator, if its name does not say which.
REWRITES = {
    "Attention": ["fuse-attention"],
    "AveragePool": ["fuse-average-pool"],
    "GRU": ["fuse-recurrent"],
    "InstanceNormalization": ["fuse-group-norm", "fuse-layer-norm"],
    "LSTM": ["fuse-recurrent"],
    "LayerNormalization": ["fuse-layer-norm"],
    "PRelu": ["fuse-prelu"],
    "RMSNormalization": ["fuse-rms-norm"],
    "RNN": ["fuse-recurrent"],
    "Resize": ["fuse-resize"],
}


#: Why a formula of halves is not one operator.
HALVES = "JAX rounds to 16 bits after each operation, and the operator does not"


def reason(layer: Layer, variant: str, outcome: Outcome) -> str | None:
    """Returns why a layer is not the operator that ONNX has for it: nothing if it is, and `None` if
    nobody knows.
    """
    if layer.operator is None:
        return layer.because
    if layer.operator in outcome.operators:
        return ""
    rewrites = REWRITES.get(layer.operator, [])
    reasons = [outcome.declines[name] for name in rewrites if name in outcome.declines]
    is_half = jnp.dtype(VARIANTS[variant][0]).itemsize == 2
    return "; ".join(dict.fromkeys(reasons)) or layer.because or (HALVES if is_half else None)


def attempt(layer: Layer, variant: str, runs: bool = True) -> Outcome:
    """Exports a layer, runs it, and compares it with JAX."""
    dtype, tolerance = VARIANTS[variant]
    fn = layer.build(layer, dtype)
    is_symbolic = variant == "B"
    if is_symbolic:
        (size,) = export.symbolic_shape("B")
        specs: list[Any] = [spec.symbolic(size) for spec in layer.inputs]
    else:
        specs = list(layer.arrays(2, dtype))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "passes.txt"
        model = jax2onnx.to_onnx(fn, specs, explain_passes=report, provenance="off")
        declines = declined(report.read_text())
    problem, runs_empty = "", True
    for batch in () if not runs else BATCHES if is_symbolic else (2,):
        arrays = layer.arrays(batch, dtype)
        try:
            # ONNX Runtime's optimizations of casts end the process for some loops of halves.
            found = bench.run(model, arrays, optimize=jnp.dtype(dtype).itemsize > 2)
        except Exception:
            # `jax2onnx inspect` lists the sizes that an operator needs to be positive.
            if batch > 0:
                raise
            runs_empty = False
            continue
        try:
            results = jax.tree.leaves(jax.jit(fn)(*arrays))
        except Exception:
            # JAX itself does not run the layer on these types, or on an empty batch.
            continue
        want = [np.asarray(leaf) for leaf in results]
        problem = problem or difference(found, want, tolerance)
    return Outcome(operators(model), declines, problem, runs_empty)


def declined(report: str) -> dict[str, str]:
    """Returns the reasons in a report of the passes, by rewrite."""
    found = {}
    for line in report.splitlines():
        rewrite, _, rest = line.partition(" ")
        _, mark, why = rest.partition("not rewritten: ")
        if mark:
            found[rewrite] = re.sub(r", \d+ times$", "", why)
    return found


def operators(model: onnx.ModelProto) -> dict[str, int]:
    """Counts the operators of a model, of bodies and functions too."""
    found: Counter[str] = Counter()
    pending = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        for node in pending.pop():
            found[node.op_type] += 1
            pending += [one.g.node for one in node.attribute if one.HasField("g")]
    return dict(found)


def difference(found: list[np.ndarray], want: list[np.ndarray], tolerance: float) -> str:
    """Returns how results differ from JAX's; nothing if they do not."""
    for one, other in zip(found, want, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{one.dtype}{one.shape} in place of {other.dtype}{other.shape}"
        if one.size == 0:
            continue
        one, other = one.astype(np.float64), other.astype(np.float64)
        error = np.max(np.abs(one - other)) / max(np.max(np.abs(other)), 1e-30)
        if not error <= tolerance:
            return f"differs from JAX by {error:.1e}"
    return ""
