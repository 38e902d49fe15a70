"""Round one line after another in JAX, without ONNX: what a planted problem is judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax._src import source_info_util
from jax.extend import core

FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
#: Primitives whose results contain only elements of their operands.
MOVES = frozenset(
    (
        *("reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "slice", "rev"),
        *("concatenate", "select_n", "gather", "dynamic_slice", "dynamic_update_slice", "split"),
        *("pad", "copy", "copy_p", "stop_gradient", "convert_element_type", "max", "min", "abs"),
        *("neg", "reduce_max", "reduce_min", "sort", "clamp", "iota", "sign", "cummax", "tile"),
    )
)


@dataclass
class Emulation:
    """Runs a function with one of its lines rounded.

    Attributes:
        path: The file whose lines are rounded.
        to: The type.
        errors: The largest relative error of an output, for each line.
    """

    path: Path
    to: str
    errors: dict[int, float] = field(default_factory=dict)
    _ranges: dict[Any, tuple[float, float]] = field(default_factory=dict)
    _chosen: Any = None
    _is_watching: bool = False
    _lines: set[int] = field(default_factory=set)

    def run(self, fn: Callable[..., Any], inputs: Sequence[Any]) -> dict[int, float]:
        """Return the error of each line."""
        closed = jax.make_jaxpr(fn)(*inputs)
        flat = [jnp.asarray(each) for each in jax.tree.leaves(inputs)]

        def evaluated(chosen: Any) -> list[Any]:
            self._chosen = chosen
            return self._evaluate(closed.jaxpr, closed.consts, flat, [True] * len(flat), None)

        if self.to not in FLOATS:
            self._is_watching = True
            evaluated(None)
            self._is_watching = False
        # XLA would drop roundings otherwise.
        compiled = jax.jit(evaluated, compiler_options={"xla_allow_excess_precision": False})
        plain = compiled(-1)
        for line in sorted(self._lines):
            self.errors[line] = max(map(error_of, plain, compiled(line)))
        return self.errors

    def _line(self, eqn: Any) -> int | None:
        for frame in source_info_util.user_frames(eqn.source_info.traceback):
            if Path(frame.file_name) == self.path:
                return int(frame.start_line)
        return None

    def _evaluate(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        operands: Sequence[Any],
        given: Sequence[bool],
        line: int | None,
    ) -> list[Any]:
        """Evaluate a jaxpr.

        Args:
            jaxpr: The jaxpr.
            consts: Its constants.
            operands: Its operands.
            given: Which operands are weights or inputs.
            line: The line of all its equations; None if they have lines of their own.
        """
        known = dict(zip(jaxpr.constvars, consts, strict=True))
        known |= dict(zip(jaxpr.invars, operands, strict=True))
        is_given = dict.fromkeys(jaxpr.constvars, True)
        is_given |= dict(zip(jaxpr.invars, given, strict=True))

        for eqn in jaxpr.eqns:
            own = line if line is not None else self._line(eqn)
            values = [
                each.val if isinstance(each, core.Literal) else known[each] for each in eqn.invars
            ]
            are_given = [isinstance(each, core.Literal) or is_given[each] for each in eqn.invars]
            found = self._equation(eqn, values, are_given, own)
            known |= dict(zip(eqn.outvars, found, strict=True))
            # A primitive that moves weights returns weights.
            moved = eqn.primitive.name in MOVES and all(are_given)
            is_given |= dict.fromkeys(eqn.outvars, moved)
        return [
            each.val if isinstance(each, core.Literal) else known[each] for each in jaxpr.outvars
        ]

    def _equation(
        self, eqn: Any, values: list[Any], given: list[bool], line: int | None
    ) -> list[Any]:
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            return self._scan(eqn, values, given)
        if name == "while":
            return self._while(eqn, values, given)
        if name == "cond":
            branches = [
                lambda *rest, b=branch: self._evaluate(b.jaxpr, b.consts, rest, given[1:], None)
                for branch in params["branches"]
            ]
            return list(lax.switch(values[0], branches, *values[1:]))
        for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            if key in params:
                inner = params[key]
                consts = getattr(inner, "consts", ())
                inner = getattr(inner, "jaxpr", inner)
                return self._evaluate(inner, consts, values, given, line)
        if line is not None and not self._is_watching:
            values = [
                self._chosen_or(line, self._weight(eqn, n, each), each) if own else each
                for n, (each, own) in enumerate(zip(values, given, strict=True))
            ]
        out = eqn.primitive.bind(*values, **params)
        found = list(out) if eqn.primitive.multiple_results else [out]
        if line is None or name in MOVES:
            return found
        for n, each in enumerate(found):
            if not _is_float(each):
                continue
            value = line, eqn.outvars[n]
            self._lines.add(line)
            if self._is_watching:
                self._watch(value, each)
            else:
                found[n] = self._chosen_or(line, self._rounded(each, value), each)
        return found

    def _chosen_or(self, line: int, rounded: Any, value: Any) -> Any:
        return value if rounded is value else jnp.where(self._chosen == line, rounded, value)

    def _watch(self, key: Any, value: Any) -> None:
        low, high = self._ranges.get(key, (0.0, 0.0))
        array = np.asarray(value)
        array = array[np.isfinite(array)]
        if array.size:
            self._ranges[key] = min(low, float(array.min())), max(high, float(array.max()))

    def _rounded(self, value: Any, key: Any) -> Any:
        if self.to in FLOATS:
            return value.astype(FLOATS[self.to]).astype(value.dtype)
        low, high = self._ranges.get(key, (0.0, 0.0))
        step = max(high - low, 1e-30) / 255
        zero = np.rint(-low / step)
        whole = jnp.clip(jnp.rint(value / step) + zero, 0, 255)
        return ((whole - zero) * step).astype(value.dtype)

    def _weight(self, eqn: Any, position: int, value: Any) -> Any:
        if not _is_float(value):
            return value
        array = jnp.asarray(value)
        if self.to in FLOATS:
            return array.astype(FLOATS[self.to]).astype(array.dtype)
        if eqn.primitive.name not in ("dot_general", "conv_general_dilated") or array.ndim < 2:
            return value
        if eqn.primitive.name == "dot_general":
            axes = tuple(eqn.params["dimension_numbers"][0][position])
        else:
            numbers = eqn.params["dimension_numbers"].rhs_spec
            axes = tuple(n for n in range(array.ndim) if n != numbers[0])
        step = jnp.maximum(jnp.abs(array).max(axes, keepdims=True), 1e-30) / 127
        return (jnp.rint(array / step) * step).astype(array.dtype)

    def _scan(self, eqn: Any, values: list[Any], given: list[bool]) -> list[Any]:
        params = eqn.params
        body = params["jaxpr"]
        fixed, carried = params["num_consts"], params["num_carry"]
        consts, start, rows = (
            values[:fixed],
            values[fixed : fixed + carried],
            values[fixed + carried :],
        )
        flags = [*given[:fixed], *[False] * carried, *given[fixed + carried :]]

        def step(carry: Any, row: Any) -> tuple[list[Any], list[Any]]:
            found = self._evaluate(body.jaxpr, body.consts, [*consts, *carry, *row], flags, None)
            return found[:carried], found[carried:]

        if not self._is_watching:
            carry, stacked = lax.scan(
                step, start, rows, length=params["length"], reverse=params["reverse"]
            )
            return [*carry, *stacked]
        carry, kept = start, []
        for i in sorted(range(params["length"]), reverse=params["reverse"]):
            carry, some = step(carry, [row[i] for row in rows])
            kept.append(some)
        if params["reverse"]:
            kept.reverse()
        return [*carry, *(jnp.stack(each) for each in zip(*kept, strict=True))]

    def _while(self, eqn: Any, values: list[Any], given: list[bool]) -> list[Any]:
        params = eqn.params
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        first, second = params["cond_nconsts"], params["body_nconsts"]
        outer, inner, state = (
            values[:first],
            values[first : first + second],
            values[first + second :],
        )
        flags = [*given[first : first + second], *[False] * len(state)]

        def more(state: Any) -> Any:
            operands = [*outer, *state]
            return self._evaluate(cond.jaxpr, cond.consts, operands, [False] * len(operands), None)[
                0
            ]

        def step(state: Any) -> list[Any]:
            return self._evaluate(body.jaxpr, body.consts, [*inner, *state], flags, None)

        if not self._is_watching:
            return list(lax.while_loop(more, step, list(state)))
        while more(state):
            state = step(state)
        return list(state)


def _is_float(value: Any) -> bool:
    return (
        np.asarray(value).dtype == np.float32
        if not hasattr(value, "dtype")
        else value.dtype == jnp.float32
    )


def error_of(expected: Any, got: Any) -> float:
    """Return the error of an output, relative to it."""
    one, other = np.asarray(expected, np.float64), np.asarray(got, np.float64)
    if np.asarray(expected).dtype.kind != "f":
        return float((one != other).mean())
    distance = np.abs(one - other)
    if not np.isfinite(distance).all():
        return float("inf")
    size = np.abs(one).max(initial=0)
    ratio = float(distance.max(initial=0) / size) if size else 0.0
    return max(ratio, float(np.sqrt((distance**2).sum() / max((one**2).sum(), 1e-300))))
