"""Measure the worth of each rewrite: the nodes that a model has more without it."""

from __future__ import annotations

from typing import Any

import jax
import pytest

import jax2onnx
from jax2onnx import _core, _export


def test_a_model_without_a_rewrite_has_as_many_more_nodes_as_it_is_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []

    def measure(closed_jaxpr: Any, options: Any) -> bytes | None:
        found.append(_core.worth(closed_jaxpr, options))
        return _core.export(closed_jaxpr, options, without="fuse-gelu")

    monkeypatch.setattr(_export, "export_traced", measure)
    model = jax2onnx.to_onnx(lambda x: jax.nn.gelu(x), [(4,)])
    [(nodes, rewrites)] = found
    saved = {name: saved for name, _, saved in rewrites}
    assert nodes == 1
    assert saved["fuse-gelu"] > 0
    assert len(model.graph.node) == nodes + saved["fuse-gelu"]
    assert saved.keys() <= set(_core.rewrites())
