"""Real networks: the runtime computes what JAX computes, and every node has a line."""

from __future__ import annotations

import functools
import os
import re

import jax
import numpy as np
import onnx
import pytest

from testkit import bench
from testkit.accuracy import frames_of, metadata, nodes_of, places_of
from testkit.models import networks, nnx_unet, unets
from testkit.models.networks import NETWORKS

#: The folders of the tests and of what they share.
FOLDERS = tuple(os.path.dirname(file) for file in (os.path.dirname(__file__), bench.__file__))
#: The files in which networks are written.
FILES = frozenset([networks.__file__, unets.__file__, nnx_unet.__file__])

#: Networks in which every layer is as lean as it gets, with their number of nodes.
MAX_NODES = {
    "linen diffusion unet": 196,
    "nnx diffusion unet": 157,
    "equinox diffusion unet": 144,
}


#: All networks. Those with a limit take JAX half a minute to build.
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in MAX_NODES else name for name in NETWORKS
]


@functools.cache
def exported(name: str) -> tuple[networks.Built, onnx.ModelProto]:
    """A network, and its model with all there is to know."""
    fn, inputs = NETWORKS[name]()
    model = bench.convert(fn, inputs, provenance="full", provenance_paths="absolute")
    return (fn, inputs), model


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_exported_whole(name: str) -> None:
    (fn, inputs), model = exported(name)
    bench.check(fn, inputs, rtol=2e-4, atol=2e-5)
    nodes = nodes_of(model)
    assert len({node.name for node in nodes}) == len(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAX_NODES)
def test_a_network_is_as_lean_as_it_was(name: str) -> None:
    _, model = exported(name)
    assert len(nodes_of(model)) <= MAX_NODES[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_network_is_one_that_was_written_for_it(name: str) -> None:
    """A call site is a line of the networks' own files, or of the library whose module is exported.

    No node has the line of the export, nor any of a test, on its whole call path.
    """
    _, model = exported(name)
    places = set().union(*map(written_lines, FILES))
    for node in nodes_of(model):
        callsite, frames = metadata(node)["callsite"], frames_of(node)
        file = next(f for f, line, function in frames if f"{function}:{line}" == callsite)
        ours = [frame for frame in frames if frame[0].startswith(FOLDERS)]
        assert all(frame[0] in FILES for frame in ours), node.name
        assert (file in FILES) == bool(ours), node.name
        for other in [callsite, *metadata(node).get("fused_from", "").splitlines()]:
            assert not ours or other in places, f"{node.name} of {other}"
        # What has no line of ours is exported as it is: a module of a library, by its own lines.
        assert ours or IS_LIBRARY.search(file), f"{node.name} of {file}"


#: Small constants are stored as each node reads them, so that the file may have more of them.
SMALL_CONSTANTS = 1 << 14


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_is_stored_twice(name: str) -> None:
    (fn, inputs), model = exported(name)
    arrays = jax.make_jaxpr(lambda *inputs: fn(*inputs))(*inputs).consts
    parameters = sum({id(array): np.asarray(array).nbytes for array in arrays}.values())
    stored = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer)
    assert stored <= 1.001 * parameters + SMALL_CONSTANTS


IS_LIBRARY = re.compile(r"[/\\]site-packages[/\\](flax|equinox|haiku)[/\\]")


def written_lines(file: str) -> set[str]:
    """Every `function:line` that a file has."""
    with open(file, encoding="utf-8") as source:
        text = source.read()
    return {f"{name}:{line}" for name, line in places_of(compile(text, file, "exec"))}


@pytest.mark.parametrize("size", [1, 4])
def test_a_batch_of_any_size_runs(size: int) -> None:
    fn, (x,) = NETWORKS["nnx vit block"]()
    model = bench.convert(fn, [("B", *x.shape[1:])])
    batch = np.resize(x, (size, *x.shape[1:]))
    (found,), (want,) = bench.run(model, [batch]), bench.expected(fn, [batch])
    bench.assert_same(found, want, rtol=2e-4, atol=2e-5)
