"""One cell of the grid: a function at all special values of a type, against JAX."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core
import ml_dtypes
import numpy as np

import jax2onnx
from testkit import bench

from .avoided import without_avoided
from .deviations import DEVIATIONS, Deviation, Element
from .functions import Function
from .types import FAMILIES, Kind, values

RIGHT, REFUSED, DEVIATES, WRONG = "right", "refused", "deviates", "wrong"
#: There is nothing to compare with.
NONE = "none"
#: Compiling is what takes the time, and most numbers do not need it to be thorough.
QUICK = {"xla_backend_optimization_level": 0}


@dataclasses.dataclass
class Verdict:
    """The comparison of the model of a cell with JAX."""

    verdict: str
    said: str = ""
    #: The names of the documented deviations that the results need.
    deviations: tuple[str, ...] = ()

    def entry(self, label: str) -> dict[str, Any]:
        return {"label": label, **dataclasses.asdict(self)}


def attempt(function: Function, name: str) -> Verdict:
    """Judges one cell: exported with passes on and off, run with optimizations on and off."""
    cell = prepared(function, name)
    return Verdict(NONE, "XLA cannot compile it") if cell is None else cell.verdict()


def prepared(function: Function, name: str) -> Cell | None:
    """Returns a cell with the results of JAX, which may not return at some values.

    XLA has no code for some functions of types that JAX accepts.
    """
    kind = Kind(name)
    with _context(function, kind):
        inputs = without_avoided(function.name, _inputs(function, kind))
        try:
            return Cell(function, kind, inputs, function.program(kind))
        except jax.errors.JaxRuntimeError:
            return None


@contextlib.contextmanager
def _context(function: Function, kind: Kind) -> Iterator[None]:
    """JAX with the types that a cell needs, and without warnings."""
    with (
        bench.precision(_is_double(function, kind)),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        yield


def _is_double(function: Function, kind: Kind) -> bool:
    return kind.is_double or "64" in function.name


#: Verdicts by jaxpr and type: many public functions are one.
_DONE: dict[tuple[str, str], Verdict] = {}


def _inputs(function: Function, kind: Kind) -> list[np.ndarray]:
    if not function.others:
        return list(values(kind.name, function.count))
    # Every value of the first type with every value of the others.
    columns = [np.unique(values(one.name, 2)[0]) for one in function.kinds(kind)[1:]]
    first = values(kind.name, 2)[0]
    first = first[:: max(1, first.size // max(1, int(first.size**0.5)))]
    grids = np.meshgrid(np.arange(first.size), *[np.arange(one.size) for one in columns])
    return [one[grid.reshape(-1)] for one, grid in zip([first, *columns], grids, strict=True)]


def _normalized(program: Callable[..., Any], inputs: Sequence[np.ndarray]) -> str:
    """The jaxpr of a program without the names of its functions."""
    text = str(jax.make_jaxpr(program)(*inputs))
    return re.sub(r"name=\w+|0x[0-9a-f]+", "", text)


class Cell:
    """The results of JAX at the special values, in each of the ways that it has."""

    def __init__(
        self,
        function: Function,
        kind: Kind,
        inputs: list[np.ndarray],
        program: Callable[..., list[Any]],
    ) -> None:
        self.function, self.kind, self.inputs, self.program = function, kind, inputs, program
        self.quick = self._run(jax.jit(program, compiler_options=QUICK))
        #: The results of the models, by variant.
        self.found: dict[str, list[np.ndarray]] = {}

    @functools.cached_property
    def others(self) -> list[list[np.ndarray]]:
        """JAX with all optimizations, and one operation after the other."""
        return [self._run(jax.jit(self.program)), self._run(self._one_by_one)]

    def _one_by_one(self, *arrays: jax.Array) -> list[Any]:
        closed = jax.make_jaxpr(self.program)(*arrays)
        return _evaluate(closed.jaxpr, closed.consts, arrays)

    @functools.cached_property
    def double(self) -> list[np.ndarray] | None:
        """Return what JAX computes in double precision, where the type has less."""
        wide = WIDER.get(self.kind.name)
        if wide is None or self.function.others:
            return None
        if any(one.dtype.kind in "biu" for one in self.quick):
            # Integers wrap at other numbers there.
            return None
        given = [array.astype(wide) for array in self.inputs]
        with bench.precision(True), contextlib.suppress(Exception):
            program = self.function.program(Kind(wide))
            found = [bench.in_parts(leaf) for leaf in jax.jit(program)(*given)]
            if [one.shape for one in found] == [want.shape for want in self.quick]:
                return found
        return None

    def verdict(self) -> Verdict:
        """Exports the function, runs the models, and judges the results."""
        self.run_models()
        with _context(self.function, self.kind):
            if self._key not in _DONE:
                _DONE[self._key] = self._judged()
            return _DONE[self._key]

    def run_models(self) -> None:
        """Exports the function and runs the models. After this, only JAX may not return."""
        with _context(self.function, self.kind):
            if self._key not in _DONE:
                failed = self._failed()
                if failed is not None:
                    _DONE[self._key] = failed

    @functools.cached_property
    def _key(self) -> tuple[str, str]:
        return _normalized(self.program, self.inputs), self.kind.name

    def _failed(self) -> Verdict | None:
        """Runs the models, keeps their results, and returns the verdict if one has none."""
        double = _is_double(self.function, self.kind)
        for passes in (True, False):
            try:
                model = bench.convert(
                    self.program, self.inputs, double=double, optimize=passes, provenance="off"
                )
            except jax2onnx.UnsupportedError as error:
                return Verdict(REFUSED, str(error).splitlines()[0].removeprefix("error: "))
            except Exception as error:
                return Verdict("crash", f"{type(error).__name__}: {_line(error)}")
            for optimize in (True, False):
                variant = bench.variant_name(passes, optimize)
                try:
                    session = bench.session(model, optimize=optimize)
                    self.found[variant] = bench.run_session(session, model, self.inputs)
                except Exception as error:
                    return Verdict("fails", f"{variant}: {_line(error)}")
        return None

    def _judged(self) -> Verdict:
        verdict = Verdict(RIGHT)
        for variant, found in self.found.items():
            excused, wrong = self.judge(found)
            verdict.deviations = tuple(dict.fromkeys([*verdict.deviations, *excused]))
            if wrong and verdict.verdict != WRONG:
                verdict = Verdict(WRONG, f"{variant}: {wrong}", verdict.deviations)
        if verdict.verdict == RIGHT and verdict.deviations:
            verdict.verdict = DEVIATES
        return verdict

    def _run(self, program: Callable[..., Any]) -> list[np.ndarray]:
        return [bench.in_parts(leaf) for leaf in program(*map(jax.numpy.asarray, self.inputs))]

    def judge(self, found: Sequence[np.ndarray]) -> tuple[list[str], str]:
        """Returns the deviations that excuse what differs, and what no deviation excuses."""
        if len(found) != len(self.quick):
            return [], f"{len(found)} results where JAX has {len(self.quick)}"
        excused: list[str] = []
        for index, (one, want) in enumerate(zip(found, self.quick, strict=True)):
            if one.dtype != want.dtype or one.shape != want.shape:
                return excused, f"{one.dtype}{one.shape} where JAX has {want.dtype}{want.shape}"
            same = self._same(one, want)
            if same.all():
                continue
            wanted = [want, *(other[index] for other in self.others)]
            for other in wanted[1:]:
                same |= self._same(one, other)
            wrong: list[str] = []
            for element in self._elements(index, one, wanted, same):
                deviation = self._deviation(element)
                if deviation is None:
                    wrong.append(str(element))
                elif deviation.name not in excused:
                    excused.append(deviation.name)
            if wrong:
                more = f" ({len(wrong)} such)" if len(wrong) > 1 else ""
                return excused, "; ".join(wrong[:4]) + more
        return excused, ""

    def _elements(
        self, index: int, found: np.ndarray, wanted: list[np.ndarray], same: np.ndarray
    ) -> Iterator[Element]:
        for place in np.argwhere(~same):
            at = int(place[0])
            double, is_near = None, False
            if self.double is not None:
                double = self.double[index][at : at + 1]
                is_near = bool(self._same(found[at : at + 1], double.astype(found.dtype)).all())
            yield Element(
                self.function.name,
                self.kind.name,
                tuple(_number(array[at]) for array in self.inputs),
                _number(found[at]),
                tuple(_number(want[at]) for want in wanted),
                None if double is None else _number(double[0]),
                is_double=is_near,
                reads_denormal=any(_is_denormal(array[at]) for array in self.inputs),
                returns_denormal=any(_is_denormal(array[at]) for array in (*wanted, found)),
            )

    def _deviation(self, element: Element) -> Deviation | None:
        return next((one for one in DEVIATIONS if one.excuses(element)), None)

    def _same(self, found: np.ndarray, want: np.ndarray) -> np.ndarray:
        """Return which elements are right, the signs of zeros included."""
        if want.dtype.kind in "biu":
            return np.asarray(found == want)
        rtol, atol = TOLERANCES.get(want.dtype.name, (0.0, 0.0))
        found, want = found.astype(np.float64), want.astype(np.float64)
        scale = np.abs(want)
        if want.ndim > self.inputs[0].ndim:
            # The parts of a complex number share its rounding.
            finite = np.where(np.isfinite(want), np.abs(want), 0)
            scale = np.maximum(scale, finite.max(-1, keepdims=True))
        close = np.abs(found - want) <= atol * np.minimum(1, scale + 1) + rtol * scale
        equal = (found == want) & ((want != 0) | (np.signbit(found) == np.signbit(want)))
        both = equal | (np.isnan(found) & np.isnan(want))
        close &= np.isfinite(want) & ((want != 0) | (found != 0)) if rtol else False
        both |= close
        return both.all(-1) if want.ndim > self.inputs[0].ndim else both


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Computes one operation after the other; a loop and a branch are one operation."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, jax.extend.core.Literal) else known[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        inner = next((eqn.params[name] for name in INNER if name in eqn.params), None)
        if inner is not None and eqn.primitive.name not in WHOLE:
            results = _evaluate(inner.jaxpr, inner.consts, operands)
        else:
            results = eqn.primitive.bind(*operands, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
        known |= dict(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


#: Parameters that contain the body of a call, and operations that are more than a call.
INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
WHOLE = ("while", "scan", "cond", "reduce")
WIDER = {
    **dict.fromkeys(["float32", "float16", "bfloat16", *FAMILIES["float8"]], "float64"),
    "complex64": "complex128",
    # Results in floating point become double ones.
    **dict.fromkeys(["int8", "int16", "int32"], "int64"),
    **dict.fromkeys(["uint8", "uint16", "uint32"], "uint64"),
}
TOLERANCES = {
    "float16": (4e-3, 1e-3),
    "bfloat16": (3e-2, 1e-2),
    "float32": (2e-5, 2e-6),
    "float64": (1e-9, 1e-10),
}


def _number(value: Any) -> Any:
    """An element as a number of Python."""
    value = np.asarray(value)
    if value.ndim:
        return complex(*value.astype(np.float64).tolist())
    if value.dtype.kind in "biu":
        return value.item()
    return complex(value) if value.dtype.kind == "c" else float(value)


def _is_denormal(value: Any) -> bool:
    """Return whether a number, or a part of a complex one, is below the normal ones."""
    value = np.asarray(value)
    if value.dtype.kind in "biu":
        return False
    if value.dtype.kind == "c":
        value = np.array([value.real, value.imag])
    tiny = float(ml_dtypes.finfo(value.dtype).tiny)
    magnitude = np.abs(value.astype(np.float64))
    return bool(((magnitude > 0) & (magnitude < tiny)).any())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
