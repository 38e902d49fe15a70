"""Find the optimization of ONNX Runtime that makes a number wrong, and the nodes that it changes.

An optimizer joins nodes. A model that shows every value does not let it, so that the error vanishes
when somebody looks. These functions therefore look only at the ends of small groups of nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .arrays import Array
from .cuts import Cut, Segment
from .engine import Fault
from .executors import Runs
from .graphs import Graph, Key, submodel
from .judging import Tolerance, Verdict, judge
from .levels import Level, Values
from .running import tensor_type
from .walk import Oracle, Place, Walk

if TYPE_CHECKING:
    from .compare import Question

#: The names of the optimizations that can be turned off, in ONNX Runtime 1.23 to 1.31.
NAMES: Final = (
    *("EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout"),
    *("ExpandElimination", "CastElimination", "CastChainElimination", "PreShapeNodeElimination"),
    *("NoopElimination", "DivMulFusion", "FuseReluClip", "GemmSumFusion", "GemmTransposeFusion"),
    *(
        "NotWhereFusion",
        "ConvAddFusion",
        "ConvMulFusion",
        "ConvBNFusion",
        "PadFusion",
        "Pad_Fusion",
    ),
    *("MatmulBNFusion", "MatMul_BatchNormalization_Fusion", "LabelEncoderFusion"),
    *("ConstantFolding", "CommonSubexpressionElimination", "MatMulAddFusion", "ReshapeFusion"),
    *("ConstantSharing", "TransposeOptimizer", "DoubleQDQPairsRemover", "GemmActivationFusion"),
    *("MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "ConvActivationFusion"),
    *("GeluFusionL1", "GeluFusionL2", "LayerNormFusionL1", "LayerNormFusionL2"),
    *("SimplifiedLayerNormFusion", "AttentionFusion", "EmbedLayerNormFusion"),
    *("GatherSliceToSplitFusion", "GatherToSplitFusion", "GatherToSliceFusion"),
    *("MatmulTransposeFusion", "BiasGeluFusion", "GroupQueryAttentionFusion"),
    *("GroupQueryAttentionPreNormFusion", "SkipLayerNormFusion", "BiasSkipLayerNormFusion"),
    *("FastGeluFusion", "QuickGeluFusion", "BiasSoftmaxFusion", "BiasDropoutFusion"),
    *("MatMulScaleFusion", "MatMulActivationFusion", "QDQPropagationTransformer"),
    *("QDQS8ToU8Transformer", "QDQSelectorActionTransformer", "QDQFinalCleanupTransformer"),
    *("NchwcTransformer", "NhwcTransformer", "ConvAddActivationFusion", "DQMatMulNBitsFusion"),
    *("MatMulNBitsFusion", "MatMulNBitsMlpFusion", "MatMulNBitsQkvFusion"),
    *("IsInfReduceSumFusion", "RemoveDuplicateCastTransformer", "Avx2WeightS8ToU8Transformer"),
    *("SliceConcatToSpaceToDepthFusion", "WhereDummyDq", "EnsureUniqueDQForNodeUnit"),
)
#: How many nodes before a value to leave to the optimizer.
_DEPTHS: Final = (2, 3, 5)
_MAX_ITERATIONS: Final = 64


def responsible(is_right: Callable[[Sequence[str]], bool]) -> str | None:
    """Return the optimization without which a model is right.

    Args:
        is_right: Returns whether the model is right without some optimizations.
    """
    suspects = list(NAMES)
    if not is_right(suspects):
        return None
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        suspects = half if is_right(half) else suspects[len(suspects) // 2 :]
    return suspects[0] if is_right(suspects) else None


def optimizer_fault(
    question: "Question", given: Mapping[Key, frozenset[str]], oracle: Callable[[], Oracle | None]
) -> Fault | None:
    """Return the first group of nodes that is wrong only when it is optimized."""
    for depth in _DEPTHS:
        hunter = _Hunter(question, given, depth)
        Walk(hunter).run(question.reference, question.feeds, oracle())
        if hunter.first is not None:
            return hunter.first
    return None


class _Hunter:
    """Runs small groups of nodes with the optimizations of the runtime."""

    def __init__(
        self, question: "Question", given: Mapping[Key, frozenset[str]], depth: int
    ) -> None:
        self._question, self._given, self._depth = question, given, depth
        self._cuts: dict[Key, Cut] = {}
        self._groups: dict[Key, list[Segment]] = {}
        self._runners: dict[tuple[Key, str], dict[bool, Runs | None]] = {}
        self.first: Fault | None = None

    def level(self, graph: Graph) -> Level:
        """Find the groups of nodes of a graph."""
        level = Level(graph, self._given.get(graph.key, frozenset()))
        outer = None if graph.around is None else self._cuts[graph.around.key]
        own = self._question.model
        if outer is not None and graph.owner is not None:
            own = outer.graph.bodies(outer.aligned[graph.owner])[graph.key[-1][1]]
        cut = Cut(level, own, outer, executor=self._question.executor)
        self._cuts[graph.key] = cut
        groups = [self._group(cut, each) for each in cut.segments]
        self._groups[graph.key] = [each for each in groups if len(each.nodes) > 1]
        for group in self._groups[graph.key]:
            for name in (group.partner, *(cut.partners[each] for each in group.inputs)):
                level.needs(name, group.ready)
        return level

    def _group(self, cut: Cut, segment: Segment) -> Segment:
        """Return a segment with the nodes before it."""
        nodes, inputs, ready = set(segment.nodes), dict.fromkeys(segment.inputs), segment.ready
        known = {each.value: each for each in cut.segments}
        for _ in range(self._depth - 1):
            for name in list(inputs):
                if name in known and name != segment.value:
                    before = known[name]
                    nodes.update(before.nodes)
                    del inputs[name]
                    inputs.update(dict.fromkeys(before.inputs))
        produced = {name for number in nodes for name in cut.graph.nodes[number].output}
        inputs = {name: None for name in inputs if name not in produced}
        tolerance = Tolerance.of([cut.graph.nodes[number].op_type for number in nodes])
        return replace(
            segment,
            nodes=tuple(sorted(nodes)),
            inputs=tuple(inputs),
            ready=ready,
            tolerance=replace(tolerance, own=64, largest=64) if tolerance.own else tolerance,
        )

    def part(self, place: Place, start: int, stop: int, values: Values) -> None:
        """Run the groups that are ready."""
        if any(each >= _MAX_ITERATIONS for each in place.iterations):
            return
        cut = self._cuts[place.graph.key]
        is_last = stop >= len(place.graph.nodes)
        for group in self._groups[place.graph.key]:
            order = (*place.order, group.nodes[-1])
            is_ready = start <= group.ready and (group.ready < stop or is_last)
            if is_ready and (self.first is None or order < self.first.order):
                self._check(place, order, cut, group, values)

    def check_input(self, place: Place, name: str, got: Array, expected: Array) -> None:
        """Look at nothing: bodies get what they need."""

    def enters(self, place: Place, number: int, values: Values) -> bool:
        """Look into the bodies that both graphs have."""
        return number in self._cuts[place.graph.key].aligned

    def _check(
        self, place: Place, order: tuple[int, ...], cut: Cut, group: Segment, values: Values
    ) -> None:
        feeds = cut.feeds(group.inputs, values)
        expected = values.get(group.partner)
        if expected is None or len(feeds) != len(group.inputs):
            return
        got = self._result(cut, group, feeds, optimize=True)
        if got is None:
            return
        verdict = judge(expected, got, group.tolerance)
        if not verdict.is_wrong:
            return
        plain = self._result(cut, group, feeds, optimize=False)
        if plain is None or judge(expected, plain, group.tolerance).is_wrong:
            return
        group, verdict = self._smallest(cut, group, verdict, values, expected)
        feeds = cut.feeds(group.inputs, values)
        self.first = Fault(
            *(order, cut, group.nodes, group.value, group.partner, place.iterations),
            verdict,
            "optimizer",
            feeds,
            expected,
            group,
        )

    def _smallest(
        self, cut: Cut, group: Segment, verdict: Verdict, values: Values, expected: Array
    ) -> tuple[Segment, Verdict]:
        """Leave out the nodes without which the result is wrong, too."""
        for number in group.nodes[:-1]:
            names = [name for name in cut.graph.nodes[number].output if name]
            known = [name for name in names if cut.partners.get(name) in values]
            rest = tuple(each for each in group.nodes if each != number)
            read = {name for each in rest for name in cut.graph.reads(each)}
            if set(names) - set(known) or not read & set(known):
                continue
            inputs = [name for name in (*group.inputs, *known) if name in read]
            smaller = replace(group, nodes=rest, inputs=tuple(dict.fromkeys(inputs)))
            feeds = cut.feeds(smaller.inputs, values)
            try:
                got = self._runner(cut, smaller, feeds, optimize=True).run(feeds)
            except Exception:
                continue
            again = judge(expected, got[f"{group.value}|computed"], group.tolerance)
            if again.is_wrong:
                group, verdict = smaller, again
        return group, verdict

    def _result(
        self, cut: Cut, group: Segment, feeds: Mapping[str, Array], *, optimize: bool
    ) -> "Array | None":
        runners = self._runners.setdefault((cut.graph.key, group.value), {})
        try:
            if optimize not in runners:
                runners[optimize] = None
                runners[optimize] = self._runner(cut, group, feeds, optimize=optimize)
            runner = runners[optimize]
            return None if runner is None else runner.run(feeds)[f"{group.value}|computed"]
        except Exception:
            return None

    def _runner(
        self, cut: Cut, group: Segment, feeds: Mapping[str, Array], *, optimize: bool
    ) -> Runs:
        return self._question.executor.load(
            group_model(cut, group, feeds),
            cut.graph.model,
            types={f"{name}|computed": dtype for name, dtype in cut.types.items()},
            constants=cut.constants,
            optimize=optimize,
        )


def group_model(cut: Cut, group: Segment, feeds: Mapping[str, Array]) -> Any:
    """Return the model of a group. Values that others read too are outputs, as they are there."""
    types = {name: tensor_type(feeds[name].dtype, feeds[name].shape) for name in group.inputs}
    outputs = {group.value: f"{group.value}|computed"}
    inside = set(group.nodes)
    for number in group.nodes:
        for name in cut.graph.nodes[number].output:
            if name and name != group.value and _is_read_elsewhere(cut.graph, name, inside):
                outputs[name] = f"{name}|computed"
    return submodel(cut.graph, group.nodes, types, outputs)


def _is_read_elsewhere(graph: Graph, name: str, inside: set[int]) -> bool:
    return name in graph.outputs or any(
        name in graph.reads(number) for number in range(len(graph.nodes)) if number not in inside
    )
