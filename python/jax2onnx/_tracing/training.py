"""Find layers in training mode, and the statistics that they drop, in a jaxpr.

JAX records for each equation the Python functions that led to it. So a layer is recognized by what
it does while it is traced: a dropout layer draws random numbers, and a batch norm computes the
statistics of the batch.
"""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from .. import _cells
from .._tiers import shown_path
from .._warn import warn
from .._words import quoted
from .weights import is_of_library
from .writes import Dropped, written

_DRAWS: Final = frozenset({"random_bits", "rng_bit_generator", "rng_uniform", "threefry2x32"})
_SUMS: Final = frozenset({"psum", "reduce_sum"})
_NAMES: Final = frozenset({"name"})

#: The qualified names of functions that draw the numbers of a dropout layer.
_DROPOUT: Final = re.compile(r"(.*\.)?(\w*Dropout\.\w+|dropout(_impl)?)$")
#: Functions of attention that draw the numbers of its own dropout.
_DROPOUT_FUNCTIONS: Final = ("dot_product_attention_weights", "dot_product_attention")
_BATCH_NORM: Final = re.compile(r"(.*\.)?\w*BatchNorm\w*\.(__call__|call)$")

_MAX_LINES: Final = 3

#: What to do about layers in training mode, by the folder of the library.
_ADVICE: Final = {
    ("Dropout", "flax/linen"): "call it with `deterministic=True`",
    ("Dropout", "flax/nnx"): "call `model.eval()` before the export",
    ("Dropout", "equinox"): "export `equinox.nn.inference_mode(model)`",
    ("Dropout", "haiku"): "do not call `hk.dropout` in inference mode",
    ("Dropout", "keras"): "call the model with `training=False`",
    ("BatchNorm", "flax/linen"): "call it with `use_running_average=True`",
    ("BatchNorm", "flax/nnx"): "call `model.eval()` before the export",
    ("BatchNorm", "equinox"): "export `equinox.nn.inference_mode(model)`",
    ("BatchNorm", "haiku"): "call it with `is_training=False`",
    ("BatchNorm", "keras"): "call the model with `training=False`",
}
_RESULT: Final = {
    "Dropout": "the model drops the same elements in every run",
    "BatchNorm": "the model uses the statistics of each batch and drops the new running statistics",
}


class _Frame(NamedTuple):
    file: str
    line: int
    function: str


class _Layer(NamedTuple):
    """A layer in training mode."""

    kind: str
    #: The folder of the library, such as `flax/linen`; empty if the layer is the user's own.
    library: str
    #: The user's line that calls the layer.
    line: str


def warn_of_training(closed_jaxpr: Any, dropped: Sequence[Dropped] = ()) -> None:
    """Warn about layers in training mode, once per kind of layer, and about dropped state.

    The search is slow. The core calls this only for a jaxpr that draws random numbers or computes
    what nothing reads.

    Args:
        closed_jaxpr: The jaxpr.
        dropped: The state that the function wrote and probably did not return, besides the state
            that has names in the jaxpr.
    """
    jaxpr = closed_jaxpr.jaxpr
    search = _Search()
    search.visit(jaxpr, set(jaxpr.invars), [True] * len(jaxpr.outvars))
    layers = list(dict.fromkeys(search.layers()))
    for kind, library in dict.fromkeys((layer.kind, layer.library) for layer in layers):
        lines = [layer.line for layer in layers if layer[:2] == (kind, library)]
        more = f" and {len(lines) - _MAX_LINES} more lines" if len(lines) > _MAX_LINES else ""
        advice = _ADVICE.get((kind, library))
        warn(
            f"{kind} is in training mode at {'; '.join(lines[:_MAX_LINES])}{more}: {_RESULT[kind]}"
            + (f"; {advice}" if advice else "")
        )
    state = [*dict.fromkeys(each for each in search.dropped if each not in search.kept), *dropped]
    for example in dict.fromkeys(each.example for each in state):
        names = [each.path for each in state if each.example == example]
        collections = sorted({name.partition(".")[0] for name in names})
        warn_of_dropped_state(names, example.format(collections=collections))


def warn_of_dropped_state(names: Sequence[str], example: str) -> None:
    """Warn about variables that the function writes and does not return."""
    shown = ", ".join(quoted(name) for name in names[: 2 * _MAX_LINES])
    more = f" and {len(names) - 2 * _MAX_LINES} more" if len(names) > 2 * _MAX_LINES else ""
    warn(
        f"the function writes {shown}{more}, but the model drops the new values: "
        f"return them, as in {quoted(example)}"
    )


class _Search:
    """Looks through the equations of a jaxpr and of the jaxprs inside it."""

    def __init__(self) -> None:
        self._dropouts: list[_Layer] = []
        #: The lines of batch norms that compute something that no output needs.
        self._dropping: set[str] = set()
        #: Equations that may compute the statistics of a batch.
        self._sums: list[Any] = []
        #: The state that is written and dropped, and the state that a later write keeps.
        self.dropped: list[Dropped] = []
        self.kept: set[Dropped] = set()
        self._primitives: dict[int, frozenset[str]] = {}

    def layers(self) -> Iterator[_Layer]:
        """Yield the layers in training mode."""
        yield from self._dropouts
        yield from self._norms()

    def _norms(self) -> Iterator[_Layer]:
        """Yield the batch norms that compute statistics and drop them."""
        for eqn in self._sums if self._dropping else ():
            frames = _frames(eqn)
            norm = _library_frame(frames, _BATCH_NORM)
            line = _users_line(frames)
            if norm is not None and line in self._dropping:
                yield _Layer("BatchNorm", _library(norm.file), line)

    def visit(self, jaxpr: Any, varying: Collection[Any], needed: Sequence[bool]) -> None:
        """Look through a jaxpr.

        Args:
            jaxpr: The jaxpr.
            varying: The variables that depend on the inputs of the model.
            needed: Whether an output of the model needs each result.
        """
        varying = set(varying)
        live = _live(jaxpr, needed)
        for eqn, is_live in zip(jaxpr.eqns, live, strict=True):
            inputs = [var for var in eqn.invars if not hasattr(var, "val")]
            is_varying = any(var in varying for var in inputs)
            names = self._names(eqn)
            found = self._equation(eqn, names, is_varying=is_varying, is_live=any(is_live))
            if is_varying:
                varying.update(eqn.outvars)
            is_worth_a_look = not found and names & (_DRAWS | _SUMS | _NAMES)
            for inner in _inner(eqn) if is_worth_a_look else ():
                operands = eqn.invars[len(eqn.invars) - len(inner.invars) :]
                if eqn.primitive.name == "while" or len(operands) != len(inner.invars):
                    # Nothing is known about the operands, so no random number counts as fixed.
                    seen = set(inner.invars)
                else:
                    pairs = zip(inner.invars, operands, strict=True)
                    seen = {mine for mine, theirs in pairs if _is_in(theirs, varying)}
                is_same = len(is_live) == len(inner.outvars)
                wanted = is_live if is_same else [any(is_live)] * len(inner.outvars)
                self.visit(inner, seen, wanted)

    def _equation(
        self, eqn: Any, names: Collection[str], *, is_varying: bool, is_live: bool
    ) -> bool:
        """Look at one equation. Return whether it belongs to a dropout layer."""
        if not _SUMS.isdisjoint(names):
            self._sums.append(eqn)
        if eqn.primitive.name in _NAMES and (state := written(eqn.params["name"])) is not None:
            if is_live:
                self.kept.add(state)
            else:
                self.dropped.append(state)
        draws = not _DRAWS.isdisjoint(names)
        if not draws and is_live:
            return False
        frames = _frames(eqn)
        if draws and (frame := _dropout(frames)) is not None:
            if not is_varying:
                self._dropouts.append(_Layer("Dropout", _library(frame.file), _users_line(frames)))
            return True
        if not is_live and is_varying and _library_frame(frames, _BATCH_NORM) is not None:
            self._dropping.add(_users_line(frames))
        return False

    def _names(self, eqn: Any) -> frozenset[str]:
        """Return the primitives of an equation and of all equations inside it."""
        names = frozenset({eqn.primitive.name})
        for inner in _inner(eqn):
            if id(inner) not in self._primitives:
                inside = (self._names(each) for each in inner.eqns)
                self._primitives[id(inner)] = frozenset().union(*inside)
            names |= self._primitives[id(inner)]
        return names


def _inner(eqn: Any) -> Iterator[Any]:
    """Yield the jaxprs in the parameters of an equation."""
    for value in eqn.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            jaxpr = getattr(each, "jaxpr", each)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr


def _live(jaxpr: Any, needed: Sequence[bool]) -> list[list[bool]]:
    """Return for each equation which of its results an output needs."""
    outputs = zip(jaxpr.outvars, needed, strict=False)
    wanted = {var for var, is_needed in outputs if is_needed and not hasattr(var, "val")}
    live = []
    for eqn in reversed(jaxpr.eqns):
        results = [var in wanted for var in eqn.outvars]
        live.append(results)
        if any(results):
            wanted.update(var for var in eqn.invars if not hasattr(var, "val"))
    return live[::-1]


def _is_in(var: Any, known: Collection[Any]) -> bool:
    return not hasattr(var, "val") and var in known


def _frames(eqn: Any) -> list[_Frame]:
    """Return the Python functions that led to an equation, the innermost first."""
    traceback = eqn.source_info.traceback
    if traceback is None:
        return []
    return [
        _Frame(frame.file_name, frame.line_num, frame.function_name) for frame in traceback.frames
    ]


def _library_frame(frames: Sequence[_Frame], pattern: re.Pattern[str]) -> _Frame | None:
    """Return the innermost frame of a library whose function matches, if any."""
    for frame in frames:
        if pattern.match(frame.function) and is_of_library(frame.file):
            return frame
    return None


def _dropout(frames: Sequence[_Frame]) -> _Frame | None:
    """Return the frame of a dropout layer, if any."""
    for frame in frames:
        is_attention = frame.function in _DROPOUT_FUNCTIONS and _library(frame.file)
        if _DROPOUT.match(frame.function) or is_attention:
            return frame
    return None


def _library(file: str) -> str:
    """Return the folder of the library that a file belongs to, if the library has advice."""
    place = file.replace(os.sep, "/")
    folders = {library for _, library in _ADVICE}
    return next((folder for folder in sorted(folders) if f"/{folder}/" in place), "")


def _users_line(frames: Sequence[_Frame]) -> str:
    """Return the innermost line of the user's code, with the name of its function."""
    for frame in frames:
        if not is_of_library(frame.file) and not frame.file.startswith("<frozen"):
            cell = _cells.find(frame.file, (frame.function, frame.line))
            file, line = _cells.moved(cell, frame.file, frame.line)
            return f"{shown_path(file)}:{line}, in {frame.function}"
    return "an unknown line"
