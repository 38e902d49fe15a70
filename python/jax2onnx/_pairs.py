"""Pairs: which value of the model holds which variable of the jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias, TypedDict

#: The index of the equation in a record on an input of a jaxpr, and in one on a constant.
INPUT: Final = -1
CONSTANT: Final = -2

Iteration: TypeAlias = int | Literal["each", "next", "all"]
ViewStep: TypeAlias = tuple[Literal["transpose", "reshape"], Sequence[int]]


class Pair(TypedDict, total=False):
    """A variable of a jaxpr, and a value of the model that holds it.

    Several values may hold a variable: each is a record, such as one per round of an unrolled loop.
    `crates/python/src/pairs.rs` writes the records.
    """

    #: The way from the main jaxpr to the one that has the variable: the index of an equation, the
    #: parameter that is or contains its body, and the position of the body in the parameter.
    path: Sequence[tuple[int, str, int]]
    #: The index of the equation that defines the variable, `INPUT` or `CONSTANT`.
    eqn: int
    #: The position among the results of the equation, among the inputs or among the constants.
    out: int
    #: Whether the value has one more axis, the last, for the parts of complex numbers or of keys.
    parts: bool
    #: `same`: the value has the shape, the order of elements and, apart from rounding, the contents
    #: of the variable. `view`: the value has its elements in other places. `covered`: nodes compute
    #: it as a part of something else. `unused`: no output needs it.
    how: Literal["same", "view", "covered", "unused"]

    #: The steps from the value to the variable: the axes of a transpose, the shape after a reshape.
    view: Sequence[ViewStep]
    #: The shape of the value, if it is known.
    shape: Sequence[int] | None

    #: Whether other contents are as correct, such as another sign of an eigenvector. Readers of the
    #: value may be given the contents of the variable, but the value is not wrong if it has others.
    ambiguous: bool
    #: The name of the value.
    value: str
    #: The way from the main graph to the one that defines the value: a node, and its attribute that
    #: is the body, or `None` if the node calls a function. Initializers are in the main graph.
    graph: Sequence[tuple[str, str | None]]
    #: One entry per loop on `path`, the outermost first: the number of a round, `each` if the value
    #: is that of each round, `next` if it is that of the round after, `all` if it is that of all
    #: rounds. Rounds are numbered in the order in which they run.
    iterations: Sequence[Iteration]

    #: The nodes and the constants that cover the variable.
    nodes: Sequence[str]
    constants: Sequence[str]


Listener: TypeAlias = Callable[[Any, Sequence[Pair]], object]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with the jaxpr and the pairs of each export."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def listener_of(closed_jaxpr: Any) -> Callable[[Sequence[Pair]], object] | None:
    """Return what the core calls with the pairs of a jaxpr, if anybody wants them."""
    listener = _listener.get()
    return None if listener is None else lambda pairs: listener(closed_jaxpr, pairs)
