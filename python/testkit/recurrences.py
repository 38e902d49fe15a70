"""Numbers for recurrences, and the comparison of their models with JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from . import bench
from .accuracy import graphs_of


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def gates(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers from 0 to 1."""
    found: np.ndarray = 1.0 / (1.0 + np.exp(-draw(*shape, seed=seed)))
    return found.astype(np.float32)


def check(model: onnx.ModelProto, fn: Callable[..., Any], *inputs: np.ndarray) -> None:
    """Compare the results of a model with those of JAX."""
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6 * size)


def has_chunks(model: onnx.ModelProto) -> bool:
    """Return whether a recurrence is computed in chunks of steps."""
    return any(graph.name == "recurrence/chunks" for graph in graphs_of(model))


def always_in_chunks(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that never runs the loop."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    choice.input[0] = "always"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "always"))
    return model
