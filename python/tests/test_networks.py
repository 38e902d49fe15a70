"""Real networks: the runtime computes what JAX computes, and every node has a line."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from . import bench
from .models.networks import NETWORKS


def all_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return list(graph.node) + [node for body in bodies for node in all_nodes(body)]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_exported_whole(name: str) -> None:
    fn, inputs = NETWORKS[name]()
    want = bench.expected(fn, inputs)
    model = bench.convert(fn, inputs, provenance="full")
    found = bench.run(model, inputs)
    assert len(found) == len(want)
    for one_found, one_want in zip(found, want, strict=True):
        bench.assert_same(one_found, one_want, rtol=2e-4, atol=2e-5)
    nodes = all_nodes(model.graph)
    assert len({node.name for node in nodes}) == len(nodes)
    for node in nodes:
        origin = {entry.key: entry.value for entry in node.metadata_props}
        assert origin["pkg.jax2onnx.callsite"], node.name
        # The line of the export, in the bench, asked for nothing.
        assert "(convert)" not in origin["pkg.jax2onnx.jax_traceback"], node.name


@pytest.mark.parametrize("size", [1, 4])
def test_a_batch_of_any_size_runs(size: int) -> None:
    fn, (x,) = NETWORKS["nnx vit block"]()
    model = bench.convert(fn, [("B", *x.shape[1:])])
    batch = np.resize(x, (size, *x.shape[1:]))
    (found,), (want,) = bench.run(model, [batch]), bench.expected(fn, [batch])
    bench.assert_same(found, want, rtol=2e-4, atol=2e-5)
