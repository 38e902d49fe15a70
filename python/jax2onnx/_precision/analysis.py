"""Run a model once, and know what each of its nodes loses in a shorter type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .. import _progress
from .._comparing.graphs import Graph, main
from .._comparing.lines import Lines
from .._comparing.models import Loaded
from .._comparing.runtime import onnxruntime_for
from .._errors import ConfigError
from .._types import StrPath
from .formats import Format
from .ranking import Effects, Group, groups_of, rank
from .samples import Feeds, check_outputs, place_of, samples_of
from .sites import Part
from .switched import Switched
from .watch import Watch

if TYPE_CHECKING:
    from .._comparing.runtime import AnyModel

#: So many samples are looked at closely, and so many are used to measure effects.
_MAX_WATCHED: Final = 4
_MAX_TRIED: Final = 4


@dataclass
class Analysis:
    """The known properties of a model.

    Attributes:
        loaded: The model.
        graph: Its main graph.
        lines: The lines of its nodes.
        watch: What was seen of its nodes.
        groups: The lines, the largest effect on the outputs first.
        samples: The sets of inputs.
        problem: Why no effect could be measured, in the words of the runtime.
    """

    loaded: Loaded
    graph: Graph
    lines: Lines
    watch: Watch
    groups: list[Group]
    samples: list[Feeds]
    problem: str | None = None


def analyze(
    model: "AnyModel | Loaded",
    data: Any,
    kind: Format,
    *,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
    is_ranked: bool = True,
    most_watched: int = _MAX_WATCHED,
) -> Analysis:
    """Look at all values of a model, and rank its lines.

    Raises:
        InputSpecError: The data does not fit the model.
        ConfigError: ONNX Runtime does not run the model.
    """
    onnxruntime_for("sensitivity")
    _progress.stage("reading")
    loaded = model if isinstance(model, Loaded) else Loaded(model)
    samples = samples_of(loaded, data)
    graph = main(loaded)
    lines = Lines(loaded, source_map, source_roots)
    watch = Watch(kind)
    watched = samples[:most_watched]
    for number, feeds in enumerate(watched):
        _progress.stage(f"looking at the values of sample {number + 1} of {len(watched)}")
        try:
            outputs = watch.run(graph, feeds)
        except ConfigError:
            raise
        except Exception as error:
            raise _refused(loaded, error) from None
        check_outputs(outputs, place_of(number, samples))
    groups = groups_of(watch.facts.values(), lines, by_part=is_ranked)
    found = Analysis(loaded, graph, lines, watch, groups, samples)
    if is_ranked:
        effects = None
        if groups:
            try:
                effects = effects_of(found, [group.parts for group in groups], kind)
            except Exception as error:
                found.problem = str(error).strip().partition("\n")[0]
        found.groups = rank(groups, effects, kind)
    return found


def effects_of(
    analysis: Analysis,
    parts: Sequence[Sequence[Part]],
    kind: Format,
    samples: Sequence[Feeds] | None = None,
) -> Effects:
    """Return what measures the effects of groups of nodes."""
    watch = analysis.watch
    switched = Switched(analysis.loaded, parts, watch.facts, watch.types, kind)
    chosen = analysis.samples[:_MAX_TRIED] if samples is None else samples
    return Effects(switched, chosen, watch.ranges)


def _refused(loaded: Loaded, error: Exception) -> ConfigError:
    from .._comparing.refusals import loading_error

    words = loading_error(loaded) or str(error)
    said = words.strip().partition("\n")[0]
    return ConfigError(f"ONNX Runtime does not run {loaded.name}: {said}")
