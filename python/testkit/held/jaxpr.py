"""Run a jaxpr equation by equation, and keep the contents of every variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.extend.core
import numpy as np

from jax2onnx import _pairs
from jax2onnx._comparing.jaxprs import CALLS
from jax2onnx._tracing.compat import bind_params

#: The bodies on the way to a jaxpr.
Path: TypeAlias = tuple[tuple[int, str, int], ...]
#: A variable: its jaxpr, the equation that defines it, and its position there.
Key: TypeAlias = tuple[Path, int, int]
#: The rounds of the loops around something, the outermost first.
Rounds: TypeAlias = tuple[int, ...]


class Variables:
    """The contents of each variable in each round."""

    def __init__(self) -> None:
        self.contents: dict[Key, dict[Rounds, Any]] = {}
        #: The largest number that an equation reads: what it computes is rounded relative to that.
        self.scales: dict[Key, float] = {}

    def run(self, closed: Any, inputs: Sequence[Any]) -> list[Any]:
        """Run a whole program."""
        return self._closed(closed, inputs, (), ())

    def _keep(self, key: Key, rounds: Rounds, value: Any) -> None:
        self.contents.setdefault(key, {})[rounds] = value

    def _closed(self, body: Any, inputs: Sequence[Any], path: Path, rounds: Rounds) -> list[Any]:
        if isinstance(body, jax.extend.core.ClosedJaxpr):
            for position, value in enumerate(body.consts):
                self._keep((path, _pairs.CONSTANT, position), rounds, value)
            return self._jaxpr(body.jaxpr, body.consts, inputs, path, rounds)
        # The constants of an open jaxpr are its first inputs.
        count = len(body.constvars)
        for position, value in enumerate(inputs[:count]):
            self._keep((path, _pairs.INPUT, position), rounds, value)
        return self._jaxpr(body, inputs[:count], inputs[count:], path, rounds, count)

    def _jaxpr(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        inputs: Sequence[Any],
        path: Path,
        rounds: Rounds,
        first: int = 0,
    ) -> list[Any]:
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        for position, (var, value) in enumerate(zip(jaxpr.invars, inputs, strict=True)):
            values[var] = value
            self._keep((path, _pairs.INPUT, first + position), rounds, value)

        def read(atom: Any) -> Any:
            if isinstance(atom, jax.extend.core.Literal):
                return np.asarray(atom.val, getattr(atom.aval, "dtype", None))
            return values[atom]

        for index, eqn in enumerate(jaxpr.eqns):
            operands = [read(atom) for atom in eqn.invars]
            results = self._equation(index, eqn, operands, path, rounds)
            scale = max(map(_largest, operands), default=0.0)
            for position, (var, value) in enumerate(zip(eqn.outvars, results, strict=True)):
                values[var] = value
                self._keep((path, index, position), rounds, value)
                key = (path, index, position)
                self.scales[key] = max(scale, self.scales.get(key, 0.0))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(
        self, index: int, eqn: Any, inputs: list[Any], path: Path, rounds: Rounds
    ) -> list[Any]:
        name, params = eqn.primitive.name, eqn.params

        def body(param: str, inputs: Sequence[Any], position: int = 0, *more: int) -> list[Any]:
            found = params[param][position] if param == "branches" else params[param]
            step = (index, param, position)
            return self._closed(found, inputs, (*path, step), (*rounds, *more))

        if name in CALLS:
            return body(CALLS[name], inputs)
        if name == "onnx_function":
            return inputs
        if name == "cond":
            return body("branches", inputs[1:], int(inputs[0]))
        if name == "scan":
            return self._scan(eqn, inputs, lambda round, values: body("jaxpr", values, 0, round))
        if name == "while":
            condition, own = params["cond_nconsts"], params["body_nconsts"]
            outside, carry = inputs[: condition + own], inputs[condition + own :]
            round = 0
            while True:
                holds = body("cond_jaxpr", [*outside[:condition], *carry], 0, round)[0]
                if not np.any(holds):
                    return carry
                after = body("body_jaxpr", [*outside[condition:], *carry], 0, round)
                carry = [_where(holds, new, old) for new, old in zip(after, carry, strict=True)]
                round += 1
        functions, bound = bind_params(eqn.primitive, params)
        with eqn.ctx.manager:
            results = eqn.primitive.bind(*functions, *inputs, **bound)
        return list(results) if eqn.primitive.multiple_results else [results]

    def _scan(self, eqn: Any, inputs: list[Any], body: Any) -> list[Any]:
        params = eqn.params
        if "ft_in" in params:
            groups = params["ft_in"]
            groups = groups.elts if hasattr(groups, "elts") else groups.unpack()
            consts, carries = len(groups[0]), len(groups[1])
        else:
            consts, carries = params["num_consts"], params["num_carry"]
        outside, carry = inputs[:consts], inputs[consts : consts + carries]
        arrays = inputs[consts + carries :]
        length = params["length"]
        stacks: list[Any] = [None] * length
        for round in range(length):
            place = length - 1 - round if params["reverse"] else round
            results = body(round, [*outside, *carry, *(array[place] for array in arrays)])
            carry, stacks[place] = results[:carries], results[carries:]
        if not length:
            empty = [jax.numpy.zeros(var.aval.shape, var.aval.dtype) for var in eqn.outvars]
            return [*carry, *empty[carries:]]
        stacked = [jax.numpy.stack(rows) for rows in zip(*stacks, strict=True)]
        return [*carry, *stacked]


def _largest(value: Any) -> float:
    """The largest finite magnitude in an array of floats."""
    if not jax.dtypes.issubdtype(value.dtype, np.inexact):
        return 0.0
    magnitudes = np.abs(np.asarray(value)).astype(np.float64)
    return float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0.0))


def _where(holds: Any, new: Any, old: Any) -> Any:
    """Choose by a condition that has only the leading axes."""
    if not holds.ndim:
        return new
    behind = jax.numpy.ndim(new) - holds.ndim
    return jax.numpy.where(holds.reshape(holds.shape + (1,) * behind), new, old)
