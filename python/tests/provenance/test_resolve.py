"""What becomes of a model: every node of it is led back to its lines, and none to wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.inliner
import onnx.version_converter
import onnxruntime
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import Resolution, SourceMap
from testkit import accuracy
from testkit.accuracy import Source, metadata
from testkit.accuracy.every import SAMPLES

OPTIMIZATIONS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


@jax2onnx.onnx_function
def squash(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) * jnp.exp(-x)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node, of bodies and functions too."""
    yield from accuracy.all_nodes(model.graph)
    for function in model.functions:
        yield from function.node


def line(resolution: Resolution) -> str:
    """The call site as the metadata has it."""
    frame = resolution.callsite
    return f"{frame.function}:{frame.line}" if frame else ""


def optimized(model: onnx.ModelProto, level: Any, folder: Path) -> onnx.ModelProto:
    """What ONNX Runtime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.load(options.optimized_model_filepath)


class Sliced:
    """A model as makers of values, to find what a node of a later form stands for."""

    def __init__(self, model: onnx.ModelProto) -> None:
        nodes = list(accuracy.all_nodes(model.graph))
        self.makers = {output: node for node in nodes for output in node.output}
        self.functions = {function.name: function for function in model.functions}

    def between(self, results: Iterable[str], operands: Iterable[str]) -> list[onnx.NodeProto]:
        """The nodes that compute `results` from `operands`, those that make `results` first."""
        found: dict[str, onnx.NodeProto] = {}
        stops, waiting = set(operands), [name for name in results if name in self.makers]
        while waiting:
            node = self.makers[waiting.pop(0)]
            if node.name not in found:
                found[node.name] = node
                around = {name for inner in bodies_of(node) for name in inner.input}
                waiting += [n for n in (*node.input, *around) if n in self.makers.keys() - stops]
        return list(found.values())

    def lines(self, nodes: Iterable[onnx.NodeProto]) -> set[str]:
        """Every line of nodes, and of the functions that they call."""
        found = set()
        for node in nodes:
            found |= lines_of(node)
            if node.op_type in self.functions:
                found |= self.lines(accuracy.all_nodes(self.functions[node.op_type]))
        return found


def bodies_of(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes in the bodies of a node."""
    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [inner for graph in graphs for inner in accuracy.all_nodes(graph)]


def lines_of(node: onnx.NodeProto) -> set[str]:
    """Every line that a node says it is of."""
    said = metadata(node)
    return {said["callsite"], *said.get("fused_from", "").splitlines()}


def check_answers(
    model: onnx.ModelProto,
    later: onnx.ModelProto,
    found: SourceMap,
    source: Source | None = None,
) -> Counter[str]:
    """Compare each answer with what the node stands for; count how sure they are.

    What keeps the name of a value has exactly the lines of the node that made it; what was joined
    has lines of nodes between its operands and its results, that of the result among them. Each
    line asks for what the answer says, by the tags in the source where there is one.
    """
    before = Sliced(model)
    every = before.lines(all_nodes(model))
    operands = {
        name: [operand for operand in node.input if operand]
        + [operand for inner in bodies_of(node) for operand in inner.input]
        for node in all_nodes(later)
        for name in node.output
    }
    sures: Counter[str] = Counter()
    for answer in found.resolve_model(later):
        sures[answer.sure] += 1
        lines = {accuracy.name_of(frame) for frame in answer.callsites}
        for site in (site for origin in answer.origins for site in origin.sites):
            assert site.callsite is not None
            assert site.plugin is not None
            primitive = site.plugin.name.partition(".")[0]
            if source is not None:
                assert source.tags[site.callsite.line].asks_for(primitive), (answer, primitive)
        assert lines <= every, answer
        known = [before.makers[name] for name in answer.outputs if name in before.makers]
        if known and answer.sure in ("exact", "name"):
            assert lines == lines_of(known[0]), answer
        if known and answer.sure == "fused":
            reads = [name for output in answer.outputs for name in operands[output]]
            right = before.between(answer.outputs, reads)
            assert lines_of(known[0]) <= lines <= before.lines(right), answer
    return sures


@dataclass
class Exported:
    """A sample as a model, and its map."""

    build: accuracy.Sample
    model: onnx.ModelProto
    map: SourceMap


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Exported]:
    path = tmp_path_factory.mktemp("maps") / "m"
    exported = []
    for build in SAMPLES:
        fn, inputs = build()
        model = jax2onnx.to_onnx(fn, inputs, provenance="minimal", source_map=path)
        exported.append(Exported(build, model, SourceMap.load(path)))
    return exported


@pytest.mark.slow
@pytest.mark.parametrize("level", OPTIMIZATIONS)
def test_nodes_of_the_optimized_model_are_never_resolved_wrongly(
    level: str, samples: list[Exported], tmp_path: Path
) -> None:
    sures: Counter[str] = Counter()
    for each in samples:
        later = optimized(each.model, OPTIMIZATIONS[level], tmp_path)
        sures += check_answers(each.model, later, each.map, Source.of(each.build))
    resolved = sures.total() - sures["unknown"] - sures["neighbour"]
    print(f"{level}: {resolved / sures.total():.1%} of {sures.total()} nodes are resolved: {sures}")
    assert sures.total() > 700
    assert resolved / sures.total() >= 0.95, sures
    assert sures["exact"] / sures.total() >= 0.9, sures


class Mixer(nnx.Module):
    """Products with a bias over three axes, which the runtime makes Gemms between reshapes."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(8, 16, rngs=rngs)
        self.down = nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = nnx.silu(self.up(x))
        y = self.down(hidden)
        return y + x


@pytest.fixture
def mixer(tmp_path: Path) -> tuple[onnx.ModelProto, SourceMap]:
    path = tmp_path / "mixer.map"
    # The quantiser and the inliner know opsets up to this one.
    model = jax2onnx.to_onnx(Mixer(nnx.Rngs(0)), [(2, 3, 8)], opset=21, source_map=path)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("bias"):
            # A bias of zeros would be dropped.
            tensor.raw_data = rng.normal(size=tensor.dims).astype(np.float32).tobytes()
    return model, SourceMap.load(path)


def answers(found: SourceMap, later: onnx.ModelProto) -> dict[str, tuple[str, list[int]]]:
    """For each node how sure its answer is, and the lines as they are counted from `__call__`."""
    start = Mixer.__call__.__code__.co_firstlineno
    return {
        answer.node or answer.outputs[0]: (
            answer.sure,
            [frame.line - start for frame in answer.callsites],
        )
        for answer in found.resolve_model(later)
    }


def test_a_fused_product_has_both_lines_and_a_new_node_those_around_it(
    mixer: tuple[onnx.ModelProto, SourceMap], tmp_path: Path
) -> None:
    model, found = mixer
    later = answers(found, optimized(model, OPTIMIZATIONS["all"], tmp_path))
    assert later["Mixer/up/dot_general/MatMulAddFusion"] == ("fused", [1])
    assert later["gemm_input_reshape"] == ("neighbour", [1])
    assert later["Mixer/add"] == ("exact", [3])
    fused = {name: lines for name, (sure, lines) in later.items() if sure == "fused"}
    assert {(1,), (2,)} <= {tuple(lines) for lines in fused.values()}
    assert not any(sure == "unknown" for sure, _ in later.values())


def converted(model: onnx.ModelProto, _: Path) -> onnx.ModelProto:
    return onnx.version_converter.convert_version(model, 22)


def inlined(model: onnx.ModelProto, _: Path) -> onnx.ModelProto:
    return onnx.inliner.inline_local_functions(model)


def quantised(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(model, before)
    quantize_dynamic(before, after)
    return onnx.load(after)


def slimmed(model: onnx.ModelProto, _: Path) -> onnx.ModelProto:
    import onnxslim

    return onnxslim.slim(model)


def simplified(model: onnx.ModelProto, _: Path) -> onnx.ModelProto:
    import onnxsim

    simple, is_same = onnxsim.simplify(model)
    assert is_same
    return simple


@pytest.mark.parametrize("tool", [converted, inlined, quantised, slimmed, simplified])
def test_nodes_of_other_tools_are_resolved(
    tool: Callable[[onnx.ModelProto, Path], onnx.ModelProto],
    mixer: tuple[onnx.ModelProto, SourceMap],
    tmp_path: Path,
) -> None:
    model, found = mixer
    true = answers(found, model)
    later = tool(model, tmp_path)
    sures = Counter(answer.sure for answer in found.resolve_model(later))
    assert sures["unknown"] == 0, sures
    assert (sures["exact"] + sures["name"] + sures["fused"]) / sures.total() >= 0.5, sures
    for name, (sure, lines) in answers(found, later).items():
        assert lines, name
        if sure in ("exact", "name"):
            assert lines == true[name][1]
    if tool is quantised:
        assert answers(found, later)["Mixer/up/dot_general_quant"] == ("fused", [1])
        assert answers(found, later)["Mixer/down/dot_general_quant_scales_mul"] == ("fused", [2])


@pytest.mark.parametrize("tool", ["onnx", "onnxruntime"])
def test_inlined_nodes_have_the_lines_of_the_function(tool: str, tmp_path: Path) -> None:
    def twice(x: jax.Array) -> jax.Array:
        return squash(squash(x))

    path = tmp_path / "m"
    model = jax2onnx.to_onnx(twice, [(2,)], source_map=path)
    assert [node.op_type for node in model.graph.node] == ["squash", "squash"]
    basic = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    later = inlined(model, tmp_path) if tool == "onnx" else optimized(model, basic, tmp_path)
    start = squash.__wrapped__.__code__.co_firstlineno
    found = SourceMap.load(path).resolve_model(later)
    assert Counter(answer.op for answer in found)["Tanh"] == 2
    for answer in found:
        assert answer.sure in ("name", "fused"), answer
        assert line(answer) == f"squash:{start + 2}"
