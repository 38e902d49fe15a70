"""Evaluate a jaxpr equation by equation, and the bodies of its loops round by round."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import jax
import jax.extend.core
import numpy as np

from .._tracing.compat import bind_params
from .samples import Sizes

#: The way to a jaxpr: the index of an equation, its parameter, the position in the parameter.
Path: TypeAlias = tuple[tuple[int, str, int], ...]
#: A variable: its jaxpr, the equation that defines it or a negative number, and its position.
Variable: TypeAlias = tuple[Path, int, int]

INPUT: Final = -1
_MAX_KEPT: Final = 64
#: The parameter that is the body of a primitive which runs it once.
CALLS: Final = {
    "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat2": "jaxpr",
}
#: The parameters that are bodies of loops.
LOOP_BODIES: Final = {"scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr")}


class Evaluator:
    """Evaluates equations with sizes that are numbers.

    Args:
        sizes: The numbers of the named sizes.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """Know the sizes."""
        self._sizes = Sizes(sizes)
        self._functions: dict[int, tuple[Any, Callable[..., Any]]] = {}

    def bind(self, eqn: Any, operands: Sequence[Any]) -> list[Any]:
        """Return the results of an equation, without looking into its bodies."""
        name, params = eqn.primitive.name, eqn.params
        if name == "onnx_function":
            return list(operands)
        if name == "dim_as_value":
            return [jax.numpy.asarray(self._size(params["dim"]), eqn.outvars[0].aval.dtype)]
        if name in CALLS:
            return self.call(params[CALLS[name]], operands)
        if name in ("scan", "while", "cond") and _has_symbols(eqn):
            return self._control(eqn, operands)
        functions, bound = bind_params(eqn.primitive, self._concrete(dict(params)))
        with eqn.ctx.manager:
            results = eqn.primitive.bind(*functions, *operands, **bound)
        return list(results) if eqn.primitive.multiple_results else [results]

    def call(self, body: Any, operands: Sequence[Any]) -> list[Any]:
        """Return the results of a jaxpr."""
        jaxpr, consts, inputs = opened(body, operands)
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))
        for eqn in jaxpr.eqns:
            results = self.bind(eqn, [read(values, atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(values, atom) for atom in jaxpr.outvars]

    def _control(self, eqn: Any, operands: Sequence[Any]) -> list[Any]:
        """Run a loop or a branch whose sizes have names."""
        if id(eqn) not in self._functions:
            self._functions[id(eqn)] = eqn, jax.jit(lambda *given: self._driven(eqn, given))
        return list(self._functions[id(eqn)][1](*operands))

    def _driven(self, eqn: Any, operands: Sequence[Any]) -> list[Any]:
        name, params = eqn.primitive.name, eqn.params
        if name == "cond":
            index, *rest = operands
            branches = [
                (lambda *given, body=body: self.call(body, given)) for body in params["branches"]
            ]
            return list(jax.lax.switch(index, branches, *rest))
        if name == "scan":
            outside, carry, rows = split_scan(eqn, operands)
            count = len(carry)

            def step(state: Any, row: Any) -> Any:
                results = self.call(params["jaxpr"], [*outside, *state, *row])
                return results[:count], results[count:]

            length = self._concrete(params["length"])
            state, stacked = jax.lax.scan(step, list(carry), list(rows), length, params["reverse"])
            return [*state, *stacked]
        condition, own, carry = split_while(eqn, operands)

        def goes_on(state: Any) -> Any:
            return self.call(params["cond_jaxpr"], [*condition, *state])[0].any()

        def body(state: Any) -> Any:
            holds = self.call(params["cond_jaxpr"], [*condition, *state])[0]
            after = self.call(params["body_jaxpr"], [*own, *state])
            return [chosen(holds, new, old) for new, old in zip(after, state, strict=True)]

        return list(jax.lax.while_loop(goes_on, body, list(carry)))

    def _size(self, size: Any) -> int:
        return self._sizes.size(size)

    def length(self, eqn: Any) -> int:
        """Return the number of rounds of a scan."""
        found: int = self._concrete(eqn.params["length"])
        return found

    def _concrete(self, param: Any) -> Any:
        """Return a parameter in which all sizes are numbers."""
        if hasattr(param, "scope") and hasattr(param, "_to_single_term"):
            return self._size(param)
        if isinstance(param, dict):
            return {key: self._concrete(each) for key, each in param.items()}
        if type(param) in (tuple, list):
            return type(param)(self._concrete(each) for each in param)
        return param


class Frame:
    """One evaluation of a jaxpr, with the variables of all bodies that run once.

    Args:
        evaluator: Evaluates equations.
        body: The jaxpr.
        operands: Its inputs.
        path: The way to the jaxpr.
        wanted: The variables to keep. The others are dropped after their last use.
        loops: The loops whose rounds somebody asks for, by the way to them.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        body: Any,
        operands: Sequence[Any],
        path: Path,
        wanted: "Wanted",
    ) -> None:
        """Prepare to evaluate; equations run when a variable is asked for."""
        self._evaluator = evaluator
        self._wanted = wanted
        self._kept: dict[Variable, Any] = {}
        self._loops: dict[Path, Loop] = {}
        self.results: list[Any] | None = None
        self._steps = self._run(body, operands, path)

    def get(self, variable: Variable) -> Any:
        """Return the contents of a variable; None if it was not computed."""
        while variable not in self._kept and self._advance():
            pass
        return self._kept.get(variable)

    def drop(self, variable: Variable) -> None:
        """Forget a variable that nobody asks for again."""
        self._kept.pop(variable, None)

    def loop(self, path: Path) -> "Loop | None":
        """Return the loop at an equation: the way to its jaxpr, and the equation."""
        while path not in self._loops and self._advance():
            pass
        return self._loops.get(path)

    def finish(self) -> list[Any]:
        """Evaluate everything. Returns the results."""
        while self._advance():
            pass
        assert self.results is not None
        return self.results

    def _advance(self) -> bool:
        if self.results is not None:
            return False
        try:
            next(self._steps)
        except StopIteration as done:
            self.results = done.value
            return False
        return True

    def _keep(self, variable: Variable, value: Any) -> None:
        if variable in self._wanted.variables:
            self._kept[variable] = value

    def _run(
        self, body: Any, operands: Sequence[Any], path: Path
    ) -> Generator[None, None, list[Any]]:
        jaxpr, consts, inputs = opened(body, operands)
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))
        is_open = not isinstance(body, jax.extend.core.ClosedJaxpr)
        for position, value in enumerate((*consts, *inputs) if is_open else inputs):
            self._keep((path, INPUT, position), value)
        last = _last_uses(jaxpr)
        for index, eqn in enumerate(jaxpr.eqns):
            given = [read(values, atom) for atom in eqn.invars]
            results = yield from self._equation(index, eqn, given, path)
            for position, (var, value) in enumerate(zip(eqn.outvars, results, strict=True)):
                self._keep((path, index, position), value)
                if var in last:
                    values[var] = value
            for atom in eqn.invars:
                if not isinstance(atom, jax.extend.core.Literal) and last.get(atom) == index:
                    values.pop(atom, None)
            yield
        return [read(values, atom) for atom in jaxpr.outvars]

    def _equation(
        self, index: int, eqn: Any, operands: list[Any], path: Path
    ) -> Generator[None, None, list[Any]]:
        name, params = eqn.primitive.name, eqn.params
        here = (*path, (index, "", 0))
        if name in CALLS and self._wanted.is_around((*path, (index, CALLS[name], 0))):
            step = (index, CALLS[name], 0)
            return (yield from self._run(params[CALLS[name]], operands, (*path, step)))
        if name == "cond":
            taken = int(np.clip(int(operands[0]), 0, len(params["branches"]) - 1))
            step = (index, "branches", taken)
            return (yield from self._run(params["branches"][taken], operands[1:], (*path, step)))
        bodies = [(*path, (index, each, 0)) for each in LOOP_BODIES.get(name, ())]
        if any(map(self._wanted.is_around, bodies)):
            self._loops[here] = Loop(self._evaluator, eqn, operands, (path, index), self._wanted)
        return self._evaluator.bind(eqn, operands)


class Wanted:
    """The variables that values of the model hold."""

    def __init__(self, variables: frozenset[Variable]) -> None:
        """Know the variables."""
        self.variables = variables
        self._around = {path[: depth + 1] for path, _, _ in variables for depth in range(len(path))}

    def is_around(self, path: Path) -> bool:
        """Return whether a variable is in a jaxpr, or in a body of it."""
        return path in self._around


class Loop:
    """A loop that is run round by round. At most a few rounds are kept."""

    def __init__(
        self,
        evaluator: Evaluator,
        eqn: Any,
        operands: list[Any],
        place: tuple[Path, int],
        wanted: Wanted,
    ) -> None:
        """Prepare to run a scan or a while."""
        self._evaluator, self._eqn, self._wanted = evaluator, eqn, wanted
        self._operands = operands
        self._path, self._index = place
        self._restart()

    def _restart(self) -> None:
        self._next = 0
        self._frames: dict[tuple[int, str], Frame | None] = {}
        self._holds: Any = None
        if self._eqn.primitive.name == "scan":
            self._outside, self._carry, rows = split_scan(self._eqn, self._operands)
            # JAX takes much longer than NumPy to take a row.
            self._rows = [row if _is_key(row) else np.asarray(row) for row in rows]
            self._length = self._evaluator.length(self._eqn)
        else:
            self._condition, self._outside, self._carry = split_while(self._eqn, self._operands)

    def frame(self, round_: int, param: str) -> Frame | None:
        """Return a round of a body; None if the loop ends before."""
        if (round_, param) not in self._frames and round_ < self._next - 1:
            self._restart()
        while (round_, param) not in self._frames and self._step(round_):
            pass
        return self._frames.get((round_, param))

    def _step(self, wanted: int) -> bool:
        """Run one more round. Returns whether there was one."""
        current = self._next
        if self._eqn.primitive.name == "scan":
            if current >= self._length:
                return False
            place = self._length - 1 - current if self._eqn.params["reverse"] else current
            rows = [row[place] for row in self._rows]
            frame = self._frame("jaxpr", [*self._outside, *self._carry, *rows])
            self._carry = frame.finish()[: len(self._carry)]
            self._note(current, {"jaxpr": frame})
            return True
        if self._holds is not None and not np.any(self._holds):
            return False
        condition = self._frame("cond_jaxpr", [*self._condition, *self._carry])
        self._holds = condition.finish()[0]
        frames: dict[str, Frame] = {"cond_jaxpr": condition}
        if np.any(self._holds):
            body = self._frame("body_jaxpr", [*self._outside, *self._carry])
            after = body.finish()
            self._carry = [
                chosen(self._holds, new, old) for new, old in zip(after, self._carry, strict=True)
            ]
            frames["body_jaxpr"] = body
        self._note(current, frames)
        return True

    def _frame(self, param: str, operands: list[Any]) -> Frame:
        path = (*self._path, (self._index, param, 0))
        return Frame(self._evaluator, self._eqn.params[param], operands, path, self._wanted)

    def _note(self, current: int, frames: dict[str, Frame]) -> None:
        self._frames.update({(current, param): frame for param, frame in frames.items()})
        self._next = current + 1
        oldest = current - _MAX_KEPT
        for param in LOOP_BODIES[self._eqn.primitive.name]:
            self._frames.pop((oldest, param), None)


def opened(body: Any, operands: Sequence[Any]) -> tuple[Any, Sequence[Any], Sequence[Any]]:
    """Return a jaxpr, its constants and its inputs."""
    if isinstance(body, jax.extend.core.ClosedJaxpr):
        return body.jaxpr, body.consts, operands
    count = len(body.constvars)
    return body, operands[:count], operands[count:]


def read(values: Mapping[Any, Any], atom: Any) -> Any:
    """Return the contents of a variable or a literal."""
    if isinstance(atom, jax.extend.core.Literal):
        return np.asarray(atom.val, getattr(atom.aval, "dtype", None))
    return values[atom]


def split_scan(
    eqn: Any, operands: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Return what a scan reads in each round, what it carries, and what it runs over."""
    params = eqn.params
    if "ft_in" in params:
        groups = params["ft_in"]
        groups = groups.elts if hasattr(groups, "elts") else groups.unpack()
        consts, carries = len(groups[0]), len(groups[1])
    else:
        consts, carries = params["num_consts"], params["num_carry"]
    return operands[:consts], operands[consts : consts + carries], operands[consts + carries :]


def split_while(
    eqn: Any, operands: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Return what the condition of a while reads, what its body reads, and what it carries."""
    condition, own = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    return (
        operands[:condition],
        operands[condition : condition + own],
        operands[condition + own :],
    )


def chosen(holds: Any, new: Any, old: Any) -> Any:
    """Choose by a condition that has only the leading axes."""
    if not jax.numpy.ndim(holds):
        return new
    behind = jax.numpy.ndim(new) - holds.ndim
    return jax.numpy.where(holds.reshape(holds.shape + (1,) * behind), new, old)


def _is_key(array: Any) -> bool:
    """Return whether an array contains random keys."""
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key))


def _last_uses(jaxpr: Any) -> dict[Any, int]:
    """Return the last equation that reads each variable; results are read behind all."""
    last: dict[Any, int] = {}
    for index, eqn in enumerate(jaxpr.eqns):
        for atom in eqn.invars:
            if not isinstance(atom, jax.extend.core.Literal):
                last[atom] = index
    for atom in jaxpr.outvars:
        if not isinstance(atom, jax.extend.core.Literal):
            last[atom] = len(jaxpr.eqns)
    return last


def _has_symbols(eqn: Any) -> bool:
    """Return whether a body of an equation has sizes that are not numbers."""
    bodies = [eqn.params[each] for each in LOOP_BODIES.get(eqn.primitive.name, ())]
    bodies += eqn.params.get("branches", ())
    waiting = [getattr(body, "jaxpr", body) for body in bodies]
    while waiting:
        jaxpr = waiting.pop()
        atoms = [*jaxpr.invars, *(var for inner in jaxpr.eqns for var in inner.outvars)]
        for atom in atoms:
            if any(not isinstance(size, int) for size in getattr(atom.aval, "shape", ())):
                return True
        for inner in jaxpr.eqns:
            for param in inner.params.values():
                found = param if isinstance(param, tuple | list) else (param,)
                waiting += [
                    getattr(each, "jaxpr", each)
                    for each in found
                    if hasattr(getattr(each, "jaxpr", each), "eqns")
                ]
    return False
