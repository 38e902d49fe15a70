"""Compare two arrays, and find where they differ most."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import _html
from .._words import quoted

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class OutputComparison:
    """An output of the model, compared with the result of JAX.

    Attributes:
        name: The name of the output in the model.
        is_match: Whether type, shape and every element match.
        problem: Why the elements do not match: another type or shape, or how many differ.
        index: The index of the worst element, in the layout of JAX; None if there is none.
        expected: The worst element as JAX computes it.
        found: The worst element as ONNX Runtime computes it.
        error: The distance between the two; NaN if only one of them is NaN.
        node: The name of the node that computes the output.
        op: The operator of that node.
        callsite: `function:line` of the code that created that node, if the model contains it.
        line: The same with the file or the cell: `model.py:12, in forward`.
    """

    name: str
    is_match: bool
    problem: str | None = None
    index: tuple[int, ...] | None = None
    expected: Any = None
    found: Any = None
    error: float = 0.0
    node: str | None = None
    op: str | None = None
    callsite: str | None = None
    line: str | None = None

    def __str__(self) -> str:
        """Return the comparison in one line."""
        is_equal = self.is_match and self.error == 0
        parts = [
            f"{quoted(self.name)} " + (self.problem or ("is equal" if is_equal else "matches"))
        ]
        if self.index is not None and not is_equal:
            parts.append(
                f"worst at {list(self.index)}: {self.expected!s} in JAX, {self.found!s} in ONNX "
                f"Runtime, off by {self.error:.3g}"
            )
        if self.node is not None:
            producer = f"computed by {self.op} {quoted(self.node)}"
            parts.append(f"{producer} at {self.line}" if self.line else producer)
        return "; ".join(parts)


class _Answer(NamedTuple):
    is_match: bool
    message: str


class Comparison(_Answer):
    """Contains the result of `allclose`: `(is_match, message)`. True if everything matches.

    Attributes:
        outputs: One `OutputComparison` per output of the model.
    """

    __module__ = "jax2onnx"

    outputs: tuple[OutputComparison, ...]

    @classmethod
    def of(
        cls, is_match: bool, message: str, outputs: Sequence[OutputComparison] = ()
    ) -> "Comparison":
        """Create a result, which unpacks as two values and has more attributes."""
        made = cls(is_match, message)
        made.outputs = tuple(outputs)
        return made

    def __bool__(self) -> bool:
        """Return whether everything matches."""
        return self.is_match

    def __repr__(self) -> str:
        """Return the message, as a terminal shows it."""
        return self.message

    def _repr_html_(self) -> str:
        sentence, *rest = self.message.splitlines()
        rows = [_cells(output) for output in self.outputs]
        table = _html.Table(
            ("output", "result", "worst at", "JAX", "ONNX Runtime", "off by", "computed by"),
            rows,
            numbers=(3, 4, 5),
        )
        facts = rest[len(rows) :]
        return _html.answer(sentence, is_right=self.is_match, facts=facts, table=table)


def _cells(output: OutputComparison) -> tuple[str, ...]:
    is_equal = output.is_match and output.error == 0
    result = output.problem or ("is equal" if is_equal else "matches")
    producer = f"{output.op} {output.node}" if output.node is not None else ""
    computed = f"{producer} at {output.line}" if output.line else producer
    if output.index is None or is_equal:
        return output.name, result, "", "", "", "", computed
    worst = (str(list(output.index)), str(output.expected), str(output.found))
    return output.name, result, *worst, f"{output.error:.3g}", computed


def compare(name: str, want: Array, found: Array, rtol: float, atol: float) -> OutputComparison:
    """Compare an output with the result of JAX."""
    if found.shape != want.shape:
        problem = f"has the shape {_shown(found)}, but JAX returns {_shown(want)}"
        return OutputComparison(name, is_match=False, problem=problem)
    result = _elements(name, want, found, rtol, atol)
    if found.dtype != want.dtype:
        problem = f"is {_shown(found)}, but JAX returns {_shown(want)}"
        if result.problem is not None:
            problem = f"{problem}, and {result.problem}"
        return replace(result, is_match=False, problem=problem)
    return result


def _elements(name: str, want: Array, found: Array, rtol: float, atol: float) -> OutputComparison:
    """Compare arrays of one shape; the worst element exceeds its tolerance the most."""
    if want.size == 0:
        return OutputComparison(name, is_match=True)
    with np.errstate(all="ignore"):
        if _is_exact(want.dtype) and _is_exact(found.dtype):
            error = excess = _distance(want, found)
            differs = want != found
        else:
            error, excess, differs = _float_errors(want, found, rtol, atol)
    flat = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    index = tuple(int(place) for place in np.unravel_index(flat, want.shape))
    count = int(np.count_nonzero(differs))
    return OutputComparison(
        name,
        is_match=count == 0,
        problem=_count(count, want.size) if count else None,
        index=index,
        expected=want[index],
        found=found[index],
        error=float(error[index]),
    )


def _count(count: int, size: int) -> str:
    return f"differs in {count} of {size} element{'' if size == 1 else 's'}"


def _is_exact(dtype: np.dtype[Any]) -> bool:
    """Return whether a type has no rounding, so that tolerances do not apply."""
    return dtype.kind in "biu" or dtype.name.startswith(("int", "uint"))


def _distance(a: Array, b: Array) -> Array:
    """Return the distance of whole numbers, without overflow if the types are the same."""
    if a.dtype != b.dtype or a.dtype.kind not in "iu":
        return np.abs(a.astype(np.float64) - b.astype(np.float64))
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    # The difference of two signed numbers, modulo 2⁶⁴, is their distance.
    return (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)


def _float_errors(want: Array, found: Array, rtol: float, atol: float) -> tuple[Array, Array, Any]:
    """Return each element's distance, its distance in tolerances, and whether it is too far."""
    wide = np.complex128 if "c" in (want.dtype.kind, found.dtype.kind) else np.float64
    a, b = want.astype(wide), found.astype(wide)
    both_nan = np.isnan(a) & np.isnan(b)
    same = (a == b) | both_nan
    error = np.where(same, 0.0, np.abs(b - a))
    tolerance = atol + rtol * np.abs(a)
    # An infinity is never within the tolerance of another number, nor a number within that of it.
    far = ~same & (~(error <= tolerance) | ~np.isfinite(a) | ~np.isfinite(b))
    in_tolerances = np.where(same, 0.0, error / tolerance)
    excess = np.where(far & ~np.isfinite(in_tolerances), np.inf, in_tolerances)
    return error, excess, far


def _shown(array: Array) -> str:
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
