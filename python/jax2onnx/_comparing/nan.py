"""Find the line that computes the first NaN or infinity: `find_nan`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .. import _html, _progress
from .._errors import ConfigError
from .._types import StrPath
from .._words import lines, quoted
from .report import VERSION, First, excerpt_of, in_iterations

if TYPE_CHECKING:
    from .arrays import Array
    from .graphs import Graph
    from .levels import Level, Values
    from .lines import Lines
    from .runtime import AnyModel
    from .walk import Place

_SHOWN_ROWS: Final = 10
_BORN: Final = {"nan": "a NaN", "infinity": "an infinity"}


@dataclass(frozen=True)
class NanReport:
    """Contains the result of `find_nan`. Prints as text, and is true if no node creates a NaN.

    Attributes:
        births: The first NaN or infinity of each value whose node created it, in the order of
            execution. A node creates a NaN if none of its operands contains one.
        model: The name of the model.
        outputs: The names of the outputs that are not finite.
        inputs: The names of the inputs that are not finite.
    """

    __module__ = "jax2onnx"

    births: tuple[First, ...]
    model: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()

    @property
    def first(self) -> First | None:
        """The first NaN or infinity; None if all numbers are finite."""
        return self.births[0] if self.births else None

    def __bool__(self) -> bool:
        """Return whether no node creates a NaN or an infinity."""
        return not self.births

    def __str__(self) -> str:
        """Return the line of the first NaN or infinity."""
        first = self.first
        if first is None:
            return lines([self._headline(), *(f"   = {fact}" for fact in self._origins())])
        parts = [f"   = {fact}" for fact in self._facts(first)]
        return lines([self._headline(), *excerpt_of(first), *parts])

    __repr__ = __str__

    def _headline(self) -> str:
        first = self.first
        if first is None and self.outputs:
            return "no node creates a NaN or an infinity from finite numbers"
        if first is None:
            return f"{self.model} computes no NaN and no infinity"
        where = in_iterations(first.iterations)
        return f"{quoted(first.node)} ({first.op}) creates {_BORN[first.kind]}{where}"

    def _origins(self) -> list[str]:
        """Say where a NaN comes from that no node created."""
        if not self.outputs:
            return []
        outputs = f"the outputs {_listed(self.outputs)} are not finite"
        if not self.inputs:
            return [f"{outputs}, because a weight or a constant is not"]
        return [f"{outputs}, because the inputs {_listed(self.inputs)} are not"]

    def _facts(self, first: First) -> list[str]:
        place = f" at {list(first.index)}" if first.index else ""
        facts = [f"the element{place} is {first.got!s}, and every operand is finite"]
        if first.kind == "nan":
            facts = [f"the element{place} is {first.got!s}, and no operand contains one"]
        reached = ", ".join(map(quoted, self.outputs))
        facts.append(
            f"the outputs {reached} are not finite" if reached else "all outputs are finite"
        )
        if not first.lines:
            facts.append(f"the line is unknown: {first.unknown}")
        later = len(self.births) - 1
        if later:
            nodes = (
                "1 later node also creates" if later == 1 else f"{later} later nodes also create"
            )
            facts.append(f"{nodes} a NaN or an infinity")
        return facts

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for JSON. `docs/json-formats.md` describes the format."""
        return {
            "version": VERSION,
            "model": self.model,
            "agrees": bool(self),
            "first": None if self.first is None else self.first.to_json(),
            "births": [birth.to_json() for birth in self.births],
            "outputs_not_finite": list(self.outputs),
            "inputs_not_finite": list(self.inputs),
        }

    def _repr_html_(self) -> str:
        first = self.first
        others = [] if first is None else [f"or {line}" for line in first.lines[1:]]
        rows = [
            (
                _BORN[birth.kind],
                str(birth.lines[0]) if birth.lines else "",
                f"{birth.node} ({birth.op})",
            )
            for birth in self.births[:_SHOWN_ROWS]
        ]
        return _html.answer(
            self._headline(),
            is_right=bool(self),
            excerpt="" if first is None else first.excerpt,
            facts=others + (self._origins() if first is None else self._facts(first)),
            table=_html.Table(
                ("creates", "line", "node"),
                rows,
                name="" if len(rows) == len(self.births) else f"The first {len(rows)} nodes",
            )
            if len(rows) > 1
            else None,
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def find_nan(
    model: "AnyModel",
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> NanReport:
    """Find the line that computes the first NaN or infinity, also inside loops.

    `find_nan` reports a node only if the node computes a NaN and none of its operands contains
    one. It ignores infinities in the weights and inputs, such as those of a mask.

    Args:
        model: The model: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`.
        inputs: The inputs, as a sequence or by name.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        A report that prints as text. `report.first` is the first NaN or infinity, or None.

    Raises:
        InputSpecError: The inputs do not match the model.
        ConfigError: ONNX Runtime is missing, or does not load the model.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> import numpy as np
        >>> def norm(x):
        ...     return x / jnp.sum(x)
        >>> model = jax2onnx.to_onnx(norm, [(3,)], provenance="indexed")
        >>> report = jax2onnx.find_nan(model, [np.zeros(3, np.float32)])
        >>> report.first.op, report.first.function
        ('Div', 'norm')
    """
    import numpy as np

    from . import graphs, models
    from .inputs import feeds_of
    from .lines import Lines
    from .refusals import check_loads
    from .runtime import onnxruntime_for
    from .walk import Walk

    onnxruntime_for("find_nan")
    _progress.stage("reading")
    loaded = models.Loaded(model)
    graph = graphs.main(loaded)
    known = Lines(loaded, source_map, source_roots)
    watch = _Watch(known)
    feeds = feeds_of(loaded, inputs)
    try:
        found = Walk(watch).run(graph, feeds)
    except ConfigError:
        raise
    except Exception:
        check_loads(graph, known, loaded.name)
        raise

    def not_finite(arrays: "Mapping[str, Array | None]") -> tuple[str, ...]:
        return tuple(
            name
            for name, array in arrays.items()
            if array is not None and _is_float(array) and not np.isfinite(array).all()
        )

    births = [birth for _, birth in sorted(watch.births.values(), key=lambda each: each[0])]
    return NanReport(tuple(births), loaded.name, not_finite(found), not_finite(feeds))


class _Watch:
    """Looks for numbers that are not finite although all operands are."""

    def __init__(self, lines: "Lines") -> None:
        self._lines = lines
        #: The first birth of each value, and its position in the order of execution.
        self.births: dict[Any, tuple[tuple[int, ...], First]] = {}

    def level(self, graph: "Graph") -> "Level":
        """Run a graph as it is."""
        from .levels import Level

        return Level(graph)

    def check_input(self, place: "Place", name: str, got: "Array", expected: "Array") -> None:
        """Look at nothing: the model is its own reference."""

    def enters(self, place: "Place", number: int, values: "Values") -> bool:
        """Look into every body."""
        return True

    def part(self, place: "Place", start: int, stop: int, values: "Values") -> None:
        """Look at the values that some nodes computed."""
        graph = place.graph
        for number in range(start, stop):
            node = graph.nodes[number]
            if node.op_type == "Constant" or graph.bodies(number):
                continue
            for name in node.output:
                array = values.get(name)
                if array is None or (graph.key, name) in self.births or not _is_float(array):
                    continue
                birth = _born(array, graph, number, values)
                if birth is not None:
                    order = (*place.order, number)
                    first = self._first(place, number, name, array, *birth)
                    self.births[graph.key, name] = order, first

    def _first(
        self,
        place: "Place",
        number: int,
        value: str,
        array: "Array",
        kind: str,
        index: tuple[int, ...],
    ) -> First:
        from .graphs import label

        node = place.graph.nodes[number]
        lines = self._lines.of_node(place.graph, number)
        best = lines[0] if lines else None
        return First(
            file=best.file if best else None,
            line=best.line if best else None,
            function=best.function if best else "",
            iterations=place.iterations,
            index=index,
            expected=None,
            got=array[index],
            node=label(node),
            op=node.op_type,
            value=value,
            lines=tuple(lines),
            sure=len({line.place for line in lines}) == 1,
            kind=kind,
            nodes=(label(node),),
            unknown=self._lines.unknown,
        )


def _born(
    array: "Array", graph: "Graph", number: int, values: "Values"
) -> tuple[str, tuple[int, ...]] | None:
    """Return whether a NaN or an infinity is born in a node, and where."""
    import numpy as np

    from .levels import contents

    if np.isfinite(array).all():
        return None
    operands = [contents(graph, values, name) for name in graph.reads(number)]
    floats = [each for each in operands if each is not None and _is_float(each)]
    is_nan = np.isnan(array)
    if is_nan.any() and not any(np.isnan(each).any() for each in floats):
        return "nan", _place(is_nan)
    is_infinite = np.isinf(array)
    if is_infinite.any() and all(np.isfinite(each).all() for each in floats):
        return "infinity", _place(is_infinite)
    return None


def _place(mask: Any) -> tuple[int, ...]:
    import numpy as np

    return tuple(int(each) for each in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _is_float(array: Any) -> bool:
    from .judging import is_floating

    return is_floating(array.dtype)
