"""A program as data: steps over numbered values, which also print as Python."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import helpers
from .table import OPERATIONS

#: What an expression may name.
NAMES: Final = {
    **{name: value for name, value in vars(helpers).items() if inspect.isfunction(value)},
    "jax": jax,
    "jnp": jnp,
    "lax": lax,
    "np": np,
    "nan": np.nan,
    "inf": np.inf,
}

#: Where an expression stands; `{body}` is a function of the operands.
CONTEXTS: Final = {
    "plain": "",
    "function": "part({body})({operands})",
    "jit": "jax.jit({body})({operands})",
    "map": "lax.map({body}, {operands})",
    "vmap": "jax.vmap({body})({operands})",
    "loop": "lax.fori_loop(0, 2, lambda i, a: ({body})(a), {operands})",
    "branch": "lax.cond({first}.size > 3, {body}, {body}, {operands})",
    "choice": "lax.cond(jnp.isfinite({first}).all(), {body}, {body}, {operands})",
}

#: Expressions whose small results may be zero, because of a sigmoid in ONNX Runtime or the absolute
#: error of JAX.
HAS_SIGMOID: Final = re.compile(
    r"sigmoid|logistic|silu|swish|glu|gru|lstm|1 / \(1 \+ jnp\.exp|lgamma"
)

#: Products and Fourier transforms of complex numbers. `docs/faq.md` says how infinities and NaN in
#: them may differ.
IS_PRODUCT: Final = re.compile(r"lax\.complex\([^()]*\) (@|\*\*? (lax|jnp|-?\d\b(?!\.)))")
IS_TRANSFORM: Final = re.compile(r"\bparts\(jnp\.fft\.(fft|ifft|rfft)\((?!.*axis=)")
#: Fourier transforms of the last axis whose results are real.
IS_REAL_TRANSFORM: Final = re.compile(r"\b(jnp\.fft\.(irfft|hfft)|jax\.scipy\.fft\.dct)\(")
#: The same of other shapes, and factorizations and what is made of them: a number that is not
#: finite may spread to all of the result.
SPREADS: Final = re.compile(
    r"fft\.\w+\(|fftconvolve|(einsum|prod|outer|scan|vmap)\(.*complex|\b1j\b"
    r"|linalg\.(?!norm|multi_dot|toeplitz|block_diag)"
)
#: Convolutions that pad with zeros. `docs/faq.md` says how infinities and NaN in a kernel spread.
IS_CONVOLUTION: Final = re.compile(r"\b(convolve|correlate|polymul)\(")
#: Factors of matrices. `docs/primitives.md` says how those with infinities may differ.
IS_FACTOR: Final = re.compile(r"linalg\.cholesky\(")

#: Expressions that choose elements, where ONNX Runtime loses the sign of a zero, as complex
#: functions do, and those whose zeros may be numbers below the normal ones, which XLA takes for
#: zeros. `docs/grid.md` has both.
CHOOSES: Final = re.compile(r"where|select|trunc|\b(grad|jvp|vjp|jac(fwd|rev)|hessian|linearize)\(")
LOSES_ZERO_SIGNS: Final = re.compile(rf"complex|{CHOOSES.pattern}")
UNDERFLOWS: Final = re.compile(r"\bexp2?\(|softmax|nextafter")

#: The name scope of each step, by its number.
SCOPE: Final = "step_{}"

#: What the symbol `N` is when the model runs, and what `M` is then.
SIZES: Final = (0, 1, 2, 7)
SYMBOLS: Final = {"N": dict(zip(SIZES, SIZES, strict=True)), "M": {0: 2, 1: 0, 2: 3, 7: 4}}
Size = int | str


def size_at(size: Size, at: int) -> int:
    """A size, which may be a polynomial of the symbols, where `N` is `at`."""
    if isinstance(size, int):
        return size
    names = {name: sizes[at] for name, sizes in SYMBOLS.items()}
    return int(
        eval(
            size.replace("^", "**"),
            {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min, **names},
        )
    )


def is_symbolic(shape: Sequence[Size]) -> bool:
    return any(isinstance(size, str) for size in shape)


@functools.lru_cache(maxsize=4096)
def compiled(source: str, operands: int) -> Callable[..., jax.Array]:
    """The function of the operands `a`, `b`, … that an expression is."""
    names = ", ".join("abcd"[:operands])
    return eval(f"lambda {names}: {source}", dict(NAMES))


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An input, or a constant that the program closes over."""

    #: The array at each size; a leaf without a symbolic size has one for all.
    arrays: dict[int, np.ndarray]
    shape: tuple[Size, ...]
    dtype: np.dtype
    constant: bool = False

    def array(self, size: int) -> np.ndarray:
        return self.arrays[size if is_symbolic(self.shape) else SIZES[-1]]


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation on earlier values."""

    operation: int
    operands: tuple[int, ...]
    params: tuple[tuple[str, Any], ...] = ()
    context: str = "plain"
    #: Whether last digits of operands count for nothing.
    rounds: bool = False

    def source(self, names: Sequence[str]) -> str:
        template = OPERATIONS[self.operation].source
        if self.context == "plain":
            return template.format(*names, **dict(self.params))
        inner = "abcd"[: len(names)]
        expression = template.format(*inner, **dict(self.params))
        body = f"lambda {', '.join(inner)}: {expression}"
        return CONTEXTS[self.context].format(body=body, operands=", ".join(names), first=names[0])

    @property
    def text(self) -> str:
        """The expression with its parameters."""
        return self.source("abcd"[: len(self.operands)])

    def error(self, value: jax.Array) -> Any:
        """Return how far all results of this step may be off: complex products round all."""
        source, expressions = self.text, (IS_TRANSFORM, IS_PRODUCT, SPREADS)
        is_floating = jnp.issubdtype(value.dtype, np.floating)
        if not is_floating or not any(one.search(source) for one in expressions):
            return value.dtype.type(0)
        largest = jnp.max(jnp.abs(value), initial=0, where=jnp.isfinite(value))
        return 4 * jnp.finfo(value.dtype).eps * largest

    def unsure_as(self, number: float, value: jax.Array) -> jax.Array:
        """A result of this step, with another number where infinities and NaN may differ."""
        source = self.text
        if IS_PRODUCT.search(source):
            return jnp.where(jnp.isfinite(value), value, number)
        if IS_TRANSFORM.search(source):
            # The axis of the two parts follows those that are mapped.
            axes = (1 if self.context in ("map", "vmap") else 0, -1)
            return jnp.where(jnp.isfinite(value).all(axes, keepdims=True), value, number)
        if IS_REAL_TRANSFORM.search(source):
            return jnp.where(jnp.isfinite(value).all(-1, keepdims=True), value, number)
        if "depthwise" in source and value.dtype == np.float64:
            # XLA multiplies the other channels by zero, so NaN spreads to them.
            return jnp.where(jnp.isfinite(value), value, number)
        if IS_FACTOR.search(source):
            return jnp.where(jnp.isinf(value).any((-2, -1), keepdims=True), number, value)
        spreads = SPREADS.search(source) or IS_CONVOLUTION.search(source)
        if spreads and jnp.issubdtype(value.dtype, np.floating):
            return jnp.where(jnp.isfinite(value).all(), value, number)
        return value

    def with_zeros(self, number: float, value: jax.Array) -> jax.Array:
        """A result of this step, with another number for each zero that may be this number.

        A number below the normal ones keeps its sign.
        """
        expression = LOSES_ZERO_SIGNS if number == 0 else UNDERFLOWS
        if not expression.search(self.text) or not jnp.issubdtype(value.dtype, np.floating):
            return value
        other = jnp.asarray(number, value.dtype)
        return jnp.where(value == 0, other if number == 0 else jnp.copysign(other, value), value)

    def run(self, *operands: Any) -> jax.Array:
        names = "abcd"[: len(operands)]
        return compiled(self.source(names), len(operands))(*operands)

    def run_by_rounds(self, made: Callable[[Any, Step], Any], operands: Sequence[Any]) -> jax.Array:
        """The result after `made` changed it, and also the results of the rounds of a loop."""
        if self.context != "loop":
            return made(self.run(*operands), self)
        once, (value,) = dataclasses.replace(self, context="plain"), operands
        for _ in range(2):
            value = made(once.run(value), self)
        return value


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """Leaves, then steps; every value that nothing reads is a result."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    double: bool = False
    #: The sizes at which it runs.
    sizes: tuple[int, ...] = SIZES[-1:]

    @property
    def is_symbolic(self) -> bool:
        return any(is_symbolic(leaf.shape) for leaf in self.leaves)

    @property
    def may_lose_zero_signs(self) -> bool:
        """Return whether a step chooses elements, where ONNX Runtime loses the sign of a zero."""
        sources = (OPERATIONS[step.operation].source for step in self.steps)
        return any(CHOOSES.search(source) for source in sources)

    def inputs(self, size: int) -> list[np.ndarray]:
        return [leaf.array(size) for leaf in self.leaves if not leaf.constant]

    def specs(self) -> list[Any]:
        """What to export for."""
        return [
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
            for leaf in self.leaves
            if not leaf.constant
        ]

    def values(
        self,
        inputs: Sequence[Any],
        read: Callable[[Any, int, Any], Any] | None = None,
        made: Callable[[Any, Step], Any] | None = None,
        run: Callable[[Step, Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        """Every value.

        `read` changes what steps read that round their operands anyway, and `made` what they make.
        The arguments of `read` are the value, its number, and the step as a function. `run`
        computes the steps another way.
        """
        given = iter(inputs)
        values: list[Any] = [
            jnp.asarray(leaf.array(SIZES[-1])) if leaf.constant else next(given)
            for leaf in self.leaves
        ]
        for number, step in enumerate(self.steps):
            operands = [values[index] for index in step.operands]
            if read is not None and step.rounds:
                function = functools.partial(step.run, *operands)
                pairs = zip(operands, step.operands, strict=True)
                operands = [read(value, index, function) for value, index in pairs]
            with jax.named_scope(SCOPE.format(number)):
                if run is not None:
                    values.append(run(step, operands))
                elif made is not None:
                    values.append(step.run_by_rounds(made, operands))
                else:
                    values.append(step.run(*operands))
        return values

    def with_readers(self, steps: set[int]) -> set[int]:
        """These steps, given by number, and all steps that depend on them."""
        found, first = set(steps), len(self.leaves)
        for number, step in enumerate(self.steps):
            if any(index - first in found for index in step.operands):
                found.add(number)
        return found

    def __call__(self, *inputs: jax.Array) -> tuple[jax.Array, ...]:
        values = self.values(inputs)
        return tuple(values[index] for index in self.results())

    def results(self) -> list[int]:
        read = {index for step in self.steps for index in step.operands}
        first = len(self.leaves)
        return [first + i for i in range(len(self.steps)) if first + i not in read]

    def exact(self) -> list[bool]:
        """Which values are the same to the last bit wherever they are computed."""
        exact = [True] * len(self.leaves)
        for step in self.steps:
            keeps = OPERATIONS[step.operation].keeps
            exact.append(keeps and all(exact[index] for index in step.operands))
        return exact

    def sigmoids(self) -> list[bool]:
        """Which values are results of a sigmoid, perhaps moved."""
        found = [False] * len(self.leaves)
        for step in self.steps:
            operation = OPERATIONS[step.operation]
            is_moved = operation.moves and any(found[index] for index in step.operands)
            found.append(is_moved or HAS_SIGMOID.search(operation.source) is not None)
        return found

    def __str__(self) -> str:
        """The program as a file of Python that shows what is wrong."""
        size = self.sizes[0]
        first = len(self.leaves)
        lines = [
            f"    v{first + i} = {step.source(step_names(step))}"
            for i, step in enumerate(self.steps)
        ]
        body = "\n".join([*lines, f"    return {', '.join(f'v{i}' for i in self.results())},"])
        named = list(enumerate(self.leaves))
        inputs = [i for i, leaf in named if not leaf.constant]
        constants = [
            f"v{i} = jnp.asarray({text(leaf.array(size))})" for i, leaf in named if leaf.constant
        ]
        arrays = [f"    {text(leaf.array(size))}," for leaf in self.leaves if not leaf.constant]
        specs = [
            f"    jax.ShapeDtypeStruct({leaf.shape!r}, {dtype_text(leaf.dtype)}),"
            for leaf in self.leaves
            if not leaf.constant
        ]
        parts = [
            HEADER + (DOUBLE if self.double else ""),
            *sources_in(body),
            *(["\n".join(constants)] if constants else []),
            f"def program({', '.join(f'v{i}' for i in inputs)}):\n{body}",
            "specs = [\n" + "\n".join(specs) + "\n]",
            "inputs = [\n" + "\n".join(arrays) + "\n]",
            FOOTER.replace("DOUBLE", str(self.double)),
        ]
        return "\n\n".join(parts)


def step_names(step: Step) -> list[str]:
    return [f"v{index}" for index in step.operands]


def sources_in(body: str) -> list[str]:
    """The source of the helpers that a text names, and that these name."""
    found: list[str] = []
    for name, value in vars(helpers).items():
        if inspect.isfunction(value) and re.search(rf"\b{name}\(", "\n".join([body, *found])):
            found.append(inspect.getsource(value).rstrip())
    if any("weight(" in source for source in found) or "weight(" in body:
        weight = inspect.getsource(helpers.weight).rstrip()
        found = [weight, *(source for source in found if source != weight)]
    return found


def text(array: np.ndarray) -> str:
    """An array as Python."""
    values = array.astype(np.float64) if array.dtype.kind in "fV" else array
    shape = f".reshape({array.shape})" if array.size == 0 else ""
    return f"np.array({values.tolist()!r}, {dtype_text(array.dtype)}){shape}"


def dtype_text(dtype: np.dtype) -> str:
    return f"jnp.{'bool_' if dtype.name == 'bool' else dtype.name}"


HEADER: Final = """\
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from jax import lax
from numpy import inf, nan

import jax2onnx
"""
DOUBLE: Final = '\njax.config.update("jax_enable_x64", True)\n'
FOOTER: Final = """\
print("JAX", *jax.jit(program)(*inputs), sep="\\n")
levels = onnxruntime.GraphOptimizationLevel
for passes in (True, False):
    model = jax2onnx.to_onnx(program, specs, optimize=passes, enable_double_precision=DOUBLE)
    for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        feed = {value.name: array for value, array in zip(model.graph.input, inputs)}
        print("passes", passes, level, *session.run(None, feed), sep="\\n")
"""
