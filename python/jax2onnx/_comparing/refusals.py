"""Find the line that makes another runtime refuse a model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from .._errors import ConfigError
from .engine import Fault
from .graphs import Graph
from .lines import Lines, SourceLine
from .models import Loaded

#: Words that two messages share say little if they are fewer letters.
_MIN_LETTERS: Final = 32
#: How many characters of a message to show, and how many of them from its start.
_MAX_SHOWN: Final = 500
_SHOWN_START: Final = 120


@dataclass(frozen=True)
class Refusal:
    """The words of a runtime that refuses a model, and what they say about lines.

    Attributes:
        words: The message.
        lines: The lines that `explain` finds in the message, the best match first.
        node: The name and the operator of the node that it finds.
        is_sure: Whether the message names one line.
    """

    words: str
    lines: tuple[SourceLine, ...] = ()
    node: tuple[str, str] | None = None
    is_sure: bool = False

    @property
    def sentence(self) -> str:
        """The part of the message to show."""
        said = " ".join(line.strip() for line in self.words.splitlines() if line.strip())
        if len(said) > _MAX_SHOWN:
            # Some runtimes write the reason at the end.
            said = f"{said[:_SHOWN_START]} … {said[_SHOWN_START - _MAX_SHOWN :]}"
        return said or "nothing"

    @property
    def where(self) -> str:
        """The lines as they follow a sentence, with their source."""
        shown = [text for line in self.lines[:1] for text in line.excerpt.splitlines()]
        shown += [f"   = or {line}" for line in self.lines[1:]]
        return "".join(f"\n{text}" for text in shown)


def loading_error(model: Loaded) -> str | None:
    """Return what ONNX Runtime says if it does not load a model; None if it loads it."""
    from .running import Runner

    try:
        Runner(model.path or model.proto, model)
    except ConfigError:
        raise
    except Exception as error:
        return str(error).strip() or type(error).__name__
    return None


def refusal(graph: Graph, lines: Lines, words: str) -> Refusal:
    """Read the message of a runtime about a model as `explain` does."""
    from .._inspecting.explain import explain

    try:
        findings = explain(graph.model.source).message(words).findings
    except Exception:
        return Refusal(words)
    finding = next((each for each in findings if each.lines or each.node), None)
    if finding is None:
        return Refusal(words)
    named = [
        number
        for number, node in enumerate(graph.nodes)
        if finding.node == (node.name, node.op_type)
    ]
    known = [*lines.of_nodes(graph, named), *lines.frames]
    found = [_shown(known, SourceLine(x.file, x.line, x.function, x.text)) for x in finding.lines]
    is_sure = finding.sure in ("certain", "likely") and len({line.place for line in found}) == 1
    return Refusal(words, tuple(found), finding.node, is_sure)


def with_lines(refusal: Refusal, graph: Graph, lines: Lines) -> Refusal:
    """Add the lines of the node of another graph that has the same name and operator."""
    same = [
        number
        for number, node in enumerate(graph.nodes)
        if refusal.node is not None and refusal.node[0] == node.name
    ]
    found = tuple(lines.of_nodes(graph, same))
    is_sure = len({line.place for line in found}) == 1
    return replace(refusal, lines=found, is_sure=is_sure)


def check_loads(graph: Graph, lines: Lines, name: str) -> None:
    """Raise an error with the line if ONNX Runtime does not load a model.

    Raises:
        ConfigError: ONNX Runtime does not load the model.
    """
    words = loading_error(graph.model)
    if words is not None:
        found = refusal(graph, lines, words)
        raise ConfigError(f"ONNX Runtime refuses {name}: {found.sentence}{found.where}") from None


def _shown(known: Sequence[SourceLine], line: SourceLine) -> SourceLine:
    """Return a line with its excerpt."""
    return next((each for each in known if each.place == line.place), line)


def guilty(
    refusal: Refusal, refused: Sequence[Fault], lines_of: "LinesOf", lines_around: "LinesOf"
) -> tuple[Fault | None, bool]:
    """Return the node that the runtime refuses alone for the same reason, and whether it is sure.

    A node may fail alone for a reason that does not count in the model, such as a missing shape.
    A message about a node in a body often starts with the loop.

    Args:
        refusal: The words of the runtime about the whole model.
        refused: The nodes that fail alone.
        lines_of: Returns the lines of a node.
        lines_around: Returns the lines of the nodes whose bodies contain a node.
    """
    ordered = sorted(refused, key=lambda each: each.order)
    said = _words(refusal.words)
    places = {line.place for line in refusal.lines}
    same = [each for each in ordered if _is_part(_words(each.verdict.problem or ""), said)]
    if not places:
        return (same[0], True) if same else (ordered[0] if ordered else None, False)
    for find in (lines_around, lines_of):
        for fault in same:
            if places & {line.place for line in find(fault)}:
                return fault, True
    for fault in ordered:
        if places & {line.place for line in lines_of(fault)}:
            return fault, refusal.is_sure
    return None, refusal.is_sure


def _is_part(words: str, said: str) -> bool:
    return len(words) >= _MIN_LETTERS and words in said


def _words(message: str) -> str:
    """Return a message without numbers, names and quoted texts, which differ in a part."""
    plain = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|<[^>\n]*>|\S*[\d_|/]\S*", " ", message)
    return " ".join(re.findall(r"[A-Za-z]{2,}", plain))


if TYPE_CHECKING:
    from collections.abc import Callable

    LinesOf = Callable[[Fault], Sequence[SourceLine]]
