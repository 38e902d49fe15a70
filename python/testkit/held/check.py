"""Compare the variables of a jaxpr with the values that hold them."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import onnx

import jax2onnx
from jax2onnx import _pairs

from .. import bench
from .graph import Values
from .jaxpr import Rounds, Variables

#: How far floats may be from those of JAX, relative to the largest element: for 64, 32 and 16 bits.
_TOLERANCES = {8: 1e-6, 4: 2e-4, 2: 3e-2}


@dataclasses.dataclass
class Checked:
    """What was found about the pairs of one export."""

    #: A line for each value that does not hold its variable.
    wrong: list[str] = dataclasses.field(default_factory=list)
    #: How many arrays were compared, in the main graph and in bodies.
    compared: int = 0
    compared_in_bodies: int = 0
    #: How many equations are held by a value, covered by nodes, or unused.
    equations: Counter[str] = dataclasses.field(default_factory=Counter)


def check(fn: Any, inputs: Sequence[Any], *, double: bool = False, **options: Any) -> Checked:
    """Export, run both sides, and compare each value with the variable that it holds."""
    found: list[tuple[Any, Sequence[_pairs.Pair]]] = []
    with _pairs.listening(lambda jaxpr, pairs: found.append((jaxpr, pairs))):
        model = jax2onnx.to_onnx(fn, list(inputs), enable_double_precision=double, **options)
    (closed, pairs) = found[0]
    return compare(model, closed, pairs, inputs, double=double)


def compare(
    model: onnx.ModelProto,
    closed: Any,
    pairs: Sequence[_pairs.Pair],
    inputs: Sequence[Any],
    *,
    double: bool = False,
) -> Checked:
    leaves = jax.tree.leaves(tuple(inputs))
    checked = Checked(equations=shares(pairs))
    with bench.precision(double):
        variables = Variables()
        variables.run(closed, leaves)
        values = Values(model, _ambiguous(pairs, variables))
        values.run([bench.in_parts(leaf) for leaf in leaves])
        for pair in pairs:
            if pair["how"] in ("same", "view") and not pair["ambiguous"]:
                _compare_pair(pair, variables, values, checked)
    return checked


def _ambiguous(pairs: Sequence[_pairs.Pair], variables: Variables) -> dict[Any, Any]:
    """The contents in JAX of the values that may have others."""

    def contents(pair: _pairs.Pair) -> Any:
        wanted = variables.contents.get((tuple(pair["path"]), pair["eqn"], pair["out"]), {})

        def of(rounds: Rounds, computed: np.ndarray) -> np.ndarray:
            found = (rounds for rounds in _rounds_of(pair["iterations"], rounds, wanted))
            known = next((rounds for rounds in found if rounds in wanted), None)
            return computed if known is None else bench.in_parts(wanted[known])

        return of

    same = (pair for pair in pairs if pair["how"] == "same" and pair["ambiguous"])
    return {(tuple(pair["graph"]), pair["value"]): contents(pair) for pair in same}


def shares(pairs: Sequence[_pairs.Pair]) -> Counter[str]:
    """Count the equations by what became of their results."""
    order = ("unused", "same", "view", "covered")
    equations: dict[Any, str] = {}
    for pair in pairs:
        if pair["eqn"] >= 0:
            key = (tuple(pair["path"]), pair["eqn"])
            equations[key] = max(equations.get(key, "unused"), pair["how"], key=order.index)
    return Counter(equations.values())


def _compare_pair(
    pair: _pairs.Pair, variables: Variables, values: Values, checked: Checked
) -> None:
    key = (tuple(pair["path"]), pair["eqn"], pair["out"])
    place = (tuple(pair["graph"]), pair["value"])
    held = values.contents.get(place)
    if held is None:
        # A branch that was not taken.
        if not any(body in ("then_branch", "else_branch") for _, body in place[0]):
            loops = any(body == "body" for _, body in place[0])
            if not loops:
                checked.wrong.append(f"{place}: no such value")
        return
    wanted = variables.contents.get(key, {})
    for rounds, array in held.items():
        for jax_rounds in _rounds_of(pair["iterations"], rounds, wanted):
            if jax_rounds not in wanted:
                continue
            checked.compared += 1
            checked.compared_in_bodies += bool(place[0])
            want = bench.in_parts(wanted[jax_rounds])
            why = difference(viewed(array, pair["view"]), want, variables.scales.get(key, 0.0))
            if why:
                checked.wrong.append(f"{key} {jax_rounds} is not {place} {rounds}: {why}")
                return


def _rounds_of(
    iterations: Sequence[_pairs.Iteration], rounds: Rounds, wanted: dict[Rounds, Any]
) -> Iterator[Rounds]:
    """The rounds of JAX that a value of these rounds of the model is about."""
    given = iter(rounds)
    known: list[int | None] = []
    for iteration in iterations:
        if iteration == "each":
            known.append(next(given))
        elif iteration == "next":
            known.append(next(given) + 1)
        elif iteration == "all":
            known.append(None)
        else:
            known.append(iteration)
    assert next(given, None) is None, "a loop of the model is not one of the jaxpr"
    if None not in known:
        yield tuple(round for round in known if round is not None)
        return
    for candidate in itertools.islice(wanted, 4):
        if all(k is None or k == c for k, c in zip(known, candidate, strict=True)):
            yield candidate


def viewed(array: np.ndarray, view: Sequence[_pairs.ViewStep]) -> np.ndarray:
    """Take the steps from a value to the variable."""
    for step, numbers in view:
        array = array.transpose(numbers) if step == "transpose" else array.reshape(numbers)
    return array


def difference(found: np.ndarray, want: np.ndarray, scale: float = 0.0) -> str:
    """Why an array is not another one; empty if it is."""
    found = np.asarray(found)
    if found.dtype != want.dtype:
        return f"type {found.dtype} instead of {want.dtype}"
    if found.shape != want.shape:
        return f"shape {found.shape} instead of {want.shape}"
    if found.dtype.kind in "biu":
        return "" if np.array_equal(found, want) else f"{found} instead of {want}"
    a, b = found.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return f"NaN elsewhere: {found} instead of {want}"
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return f"infinite elsewhere: {found} instead of {want}"
    scale = np.max(np.abs(b[finite]), initial=scale)
    worst = np.max(np.abs(a[finite] - b[finite]), initial=0.0)
    tolerance = _TOLERANCES.get(found.dtype.itemsize, 0.3)
    return "" if worst <= tolerance * max(scale, 1e-2) else f"off by {worst}: {found} not {want}"
