"""Find the line that makes another runtime refuse a model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .engine import Fault
from .lines import Lines, SourceLine
from .models import Loaded

if TYPE_CHECKING:
    from .compare import Question

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


def refusal(question: "Question", words: str) -> Refusal:
    """Read the message of a runtime as `explain` does."""
    from .._inspecting.explain import explain

    loaded, lines = question.model.model, question.model_lines
    if not lines.exist:
        loaded, lines = question.reference.model, question.lines
    try:
        findings = explain(_readable(loaded)).message(words).findings
    except Exception:
        return Refusal(words)
    finding = next((each for each in findings if each.lines), None)
    if finding is None:
        return Refusal(words)
    found = [_shown(lines, SourceLine(x.file, x.line, x.function, x.text)) for x in finding.lines]
    is_sure = finding.sure in ("certain", "likely") and len({line.place for line in found}) == 1
    return Refusal(words, tuple(found), finding.node, is_sure)


def _readable(model: Loaded) -> "str | bytes":
    return model.source


def _shown(lines: Lines, line: SourceLine) -> SourceLine:
    """Return a line with its excerpt."""
    return next((each for each in lines.frames if each.place == line.place), line)


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
