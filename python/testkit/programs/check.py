"""Find what is wrong with an exported program: all four variants against JAX."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import export

import jax2onnx
from jax2onnx._tracing.compat import double_precision_kept
from testkit import bench

from .excuses import Excuses
from .program import SIZES, Program, Step
from .traced import results_at, rounds_to_float32

#: Compiling is what takes the time, and the numbers do not need it to be thorough.
QUICK: Final = {"xla_backend_optimization_level": 0}
#: Relative errors of one result, by the bytes of its type; wide types are told apart by name.
TOLERANCES: Final = {"float64": 1e-9, "float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}
#: The error of a sigmoid in ONNX Runtime, as `docs/primitives.md` says, and of `lgamma` near 1 or
#: 2 in JAX.
SIGMOID_ERROR: Final = 1e-6
#: What JAX raises for a program that it cannot compile or run.
REFUSALS: Final = (
    ValueError,
    TypeError,
    NotImplementedError,
    jax.errors.JaxRuntimeError,
    jax.errors.InconclusiveDimensionOperation,
)


class JaxError(Exception):
    """JAX refuses a program, so there is nothing to compare with."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """The failure of a program."""

    variant: str
    text: str
    #: The exception, and the operator that raised it, where these are known.
    error: str = ""

    @staticmethod
    def of(variant: str, error: Exception) -> Difference:
        name, operator = type(error).__name__, re.search(r"running \w+ node", str(error))
        return Difference(variant, f"{name}: {error}", name + (operator[0] if operator else ""))

    def __str__(self) -> str:
        return f"{self.variant}: {self.text}"


def difference(program: Program, answered: Callable[[], None] = lambda: None) -> Difference | None:
    """Return how an exported program differs from JAX; calls `answered` when JAX has computed it.

    Raises:
        UnsupportedError: The converter refuses the program.
        JaxError: JAX refuses it.
    """
    with double_precision_kept(program.double):
        references = {size: Reference(program, size) for size in program.sizes}
    answered()
    models = {}
    for passes in (True, False):
        try:
            models[passes] = bench.convert(
                program,
                program.specs(),
                double=program.double,
                optimize=passes,
                provenance="indexed",
            )
        except jax2onnx.UnsupportedError:
            raise
        except Exception as error:
            return Difference.of(f"export, optimize={passes}", error)
    for passes, runtime in bench.VARIANTS:
        variant = bench.variant_name(passes, runtime)
        try:
            session = bench.session(models[passes], optimize=runtime)
        except Exception as error:
            return Difference.of(variant, error)
        for size in program.sizes:
            inputs = program.inputs(size)
            try:
                found = bench.run_session(session, models[passes], inputs)
            except Exception as error:
                if references[size].excuses.cover_error(error, models[passes]):
                    continue
                return Difference.of(f"{variant}, size {size}", error)
            wrong = references[size].wrong(found)
            if wrong is None or not references[size].is_sure(found):
                continue
            if references[size].is_traced():
                return Difference(f"{variant}, size {size}", wrong)
    return None


def fails_like(found: Difference) -> Callable[[Program], bool]:
    """Return whether a program fails in the same way."""

    def fails(program: Program) -> bool:
        try:
            other = difference(program)
        except Exception:
            return False
        return other is not None and other.error == found.error

    return fails


class Change(enum.IntEnum):
    """Return what a run of the program changes in the results of a step, beside the noise."""

    NOTHING = 0
    #: Products and Fourier transforms of complex numbers where they are not finite, and factors
    #: of matrices that have infinities.
    NAN = 1
    INFINITY = 2
    FINITE = 3
    #: Zeros whose sign may be lost.
    POSITIVE_ZERO = 4
    NEGATIVE_ZERO = 5
    #: Zeros that may be numbers below the normal ones.
    TINY = 6

    def made(self, value: jax.Array, step: Step) -> jax.Array:
        """A result of a step with the change."""
        match self:
            case Change.NOTHING:
                return value
            case Change.NAN:
                return step.unsure_as(jnp.nan, value)
            case Change.INFINITY:
                return step.unsure_as(jnp.inf, value)
            case Change.FINITE:
                return step.unsure_as(1.0, value)
            case Change.POSITIVE_ZERO:
                return step.with_zeros(0.0, value)
            case Change.NEGATIVE_ZERO:
                return step.with_zeros(-0.0, value)
            case Change.TINY:
                tiny = ml_dtypes.finfo(value.dtype).tiny if is_floating(value) else 0
                return step.with_zeros(float(tiny), value)


#: The noise and the change of each run; the first is what JAX computes.
RUNS: Final = (
    (0, Change.NOTHING),
    *((noise, Change.NOTHING) for noise in (1, -1, 0.5, -0.5)),
    *((0, change) for change in Change if change != Change.NOTHING),
)


def is_floating(value: jax.Array) -> bool:
    return bool(jnp.issubdtype(value.dtype, np.floating))


class Reference:
    """The results of JAX, and how far off a result may be.

    The program runs again with noise of a few last digits in all that is rounded. Where the noise
    moves a result, rounding may. A sigmoid has absolute noise too, and small results of it become
    zero. The other runs have no noise, and change what may differ for another reason: `Change` says
    what.
    """

    def __init__(self, program: Program, size: int) -> None:
        inputs = program.inputs(size)
        results = program.results()
        exact, sigmoids = program.exact(), program.sigmoids()
        self.exact = [exact[index] for index in results]

        def noisy(noise: jax.Array, change: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
            def read(value: jax.Array, index: int, step: Callable[..., Any]) -> jax.Array:
                if not is_floating(value):
                    return value
                # The phase differs, so that no element has little noise each time.
                waves = noise * jnp.cos(np.arange(value.size) * 1.7 + index + 2 * noise)
                waves = waves.reshape(value.shape)
                is_rounded = value.dtype == np.float64 and rounds_to_float32(step)
                dtype = np.float32 if is_rounded else value.dtype
                digits = waves * float(ml_dtypes.finfo(dtype).eps) * 4
                moved = value * (1 + digits.astype(value.dtype))
                if not sigmoids[index]:
                    return moved
                moved += (waves * SIGMOID_ERROR / 10).astype(value.dtype)
                return jnp.where((noise == 1) & (jnp.abs(value) < SIGMOID_ERROR), 0, moved)

            def made(value: jax.Array, step: Step) -> jax.Array:
                value = value + step.error(value) * noise.astype(value.dtype)
                for one in Change:
                    changed = one.made(value, step)
                    if changed is not value:
                        value = jnp.where(change == one, changed, value)
                return value

            values = program.values(arrays, read, made)
            return [values[index] for index in results]

        self.program, self.inputs, self.size = program, inputs, size
        self.excuses = Excuses(program, size)
        self.plain = functools.partial(jax.jit(program, compiler_options=QUICK), *inputs)
        self.double = program.double
        compiled = jax.jit(noisy, compiler_options=QUICK)
        try:
            self.want, *self.others = (
                [np.asarray(value) for value in compiled(np.float32(noise), change, *inputs)]
                for noise, change in RUNS
            )
        except REFUSALS as error:
            raise JaxError(f"{type(error).__name__}: {error}") from error

    def is_sure(self, found: Sequence[np.ndarray]) -> bool:
        """Return whether no other way to run the program in JAX has other results.

        XLA may simplify the program otherwise without noise: it computes `exp(x) / exp(y)` as
        `exp(x - y)`, for example, and takes an unsigned index that it knows for a signed one. JAX
        without `jit` computes one operation after the other. With symbolic sizes, JAX indexes by
        64-bit integers where it otherwise converts them to 32 bits.
        """
        with double_precision_kept(self.double):
            if self.wrong([np.asarray(value) for value in self.plain()]) is not None:
                return False
            with contextlib.suppress(*REFUSALS):
                values = self.program.values(list(map(jnp.asarray, self.inputs)), run=without_jit)
                results = [np.asarray(values[index]) for index in self.program.results()]
                if self.wrong(found, results) is None:
                    return False
            if not self.program.is_symbolic:
                return True
            with contextlib.suppress(*REFUSALS):
                exported = export.export(jax.jit(self.program))(*symbolic(self.program.specs()))
                results = [np.asarray(value) for value in exported.call(*self.inputs)]
                return self.wrong(found, results) is not None
        return True

    def is_traced(self) -> bool:
        """Return whether what JAX traces with symbols computes the same at this size.

        It does not where JAX asks for a size when it traces, as `jnp.nonzero` does. JAX may also
        refuse what it traced.
        """
        if not self.program.is_symbolic or self.size == SIZES[-1]:
            return True
        with double_precision_kept(self.double), contextlib.suppress(*REFUSALS):
            return self.wrong(results_at(self.program, self.size)) is None
        return False

    def wrong(
        self, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray] | None = None
    ) -> str | None:
        """Return how results differ from what JAX computes, or from `wanted`."""
        values = self.program.results()
        for index, (one, want) in enumerate(zip(found, wanted or self.want, strict=True)):
            wrong = self.wrong_result(index, one, want)
            if wrong is not None and not self.excuses.cover_result(values[index]):
                return wrong
        return None

    def wrong_result(self, index: int, found: np.ndarray, want: np.ndarray) -> str | None:
        """Return how one result differs from what it should be."""
        if found.dtype != want.dtype or found.shape != want.shape:
            return f"{found.dtype}{found.shape} where JAX has {want.dtype}{want.shape}"
        if self.exact[index]:
            same = identical(found, want)
        else:
            is_coarse = self.excuses.is_coarse(self.program.results()[index])
            others = [other[index] for other in self.others]
            same = self.same(found, want, others, "float32" if is_coarse else want.dtype.name)
        if same.all():
            return None
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        return f"{found[place]} where JAX has {want[place]}, at {place} of result {index}"

    def same(
        self, found: np.ndarray, want: np.ndarray, others: list[np.ndarray], precision: str
    ) -> np.ndarray:
        """Return which elements are right."""
        if want.dtype.name not in TOLERANCES:
            return np.asarray(found == want)
        tolerance, tiny = TOLERANCES[precision], float(ml_dtypes.finfo(want.dtype).tiny)
        found, want, *others = (array.astype(np.float64) for array in (found, want, *others))
        with np.errstate(invalid="ignore", over="ignore"):
            finite = np.isfinite(want)
            scale = float(np.max(np.abs(want), initial=0.0, where=finite))
            moved: Any = np.zeros(want.shape)
            for other in others:
                moved = np.maximum(moved, np.abs(other - want))
            # Noise that makes a number of NaN or the reverse leaves nothing to compare.
            unsure = np.isnan(moved) & ~np.isnan(want) | np.isinf(moved)
            for other in others:
                unsure |= np.isnan(other) != np.isnan(want)
            # Near a pole, rounding may reach it.
            unsure |= np.isinf(found) & (moved > 0.01 * np.abs(want))
            allowed = tolerance * (np.abs(want) + 0.1 * max(scale, 1)) + 16 * moved + tiny
            close = np.abs(found - want) <= allowed
        if self.program.may_lose_zero_signs:
            unsure |= np.isinf(want) & (found == -want)
        return unsure | (np.isnan(found) & np.isnan(want)) | (found == want) | (finite & close)


def without_jit(step: Step, operands: Sequence[Any]) -> jax.Array:
    """The result of a step, without `jit` where JAX can.

    Without `jit`, JAX has fewer types, no loops without rounds, and numbers of Python as counters.
    """
    with jax.disable_jit(), contextlib.suppress(*REFUSALS, AttributeError):
        return step.run(*operands)
    return step.run(*operands)


def symbolic(specs: Sequence[jax.ShapeDtypeStruct]) -> list[jax.ShapeDtypeStruct]:
    """The specs with JAX's own symbolic sizes."""
    scope = export.SymbolicScope()
    shapes = (
        export.symbolic_shape(
            f"({','.join(map(str, spec.shape))},)" if spec.shape else "()", scope=scope
        )
        for spec in specs
    )
    return [
        jax.ShapeDtypeStruct(shape, spec.dtype) for shape, spec in zip(shapes, specs, strict=True)
    ]


def identical(found: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return which elements are the same number, or both NaN."""
    if want.dtype.name in TOLERANCES:
        found, want = found.astype(np.float64), want.astype(np.float64)
    return np.asarray((found == want) | ((found != found) & (want != want)))
