"""Numbers that count what is done to them, and nodes whose formulas are computed on them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

BITS = {"f32": 32, "f16": 16, "i64": 64, "i32": 32, "i8": 8, "u8": 8, "bool": 8, "i4": 4}


class Counter:
    """The operations so far."""

    simple = 0
    functions = 0


class N:
    """A number that counts what is done to it."""

    def _simple(self, *_: Any) -> N:
        Counter.simple += 1
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _simple
    __truediv__ = __rtruediv__ = __neg__ = __abs__ = _simple
    __lt__ = __gt__ = _simple


def f(x: N) -> N:
    """Compute a transcendental function."""
    Counter.functions += 1
    return x


def most(a: N, b: Any) -> N:
    """Choose the larger number, which is one comparison."""
    return a + b


def choose(_: Any, a: N, b: Any) -> N:
    """Choose by a condition."""
    return a + b


def array(*shape: int) -> list[N]:
    return [N() for _ in range(math.prod(shape))]


def total(numbers: Sequence[N]) -> N:
    """Add numbers, one operation less than there are."""
    first, *others = numbers
    for other in others:
        first = first + other
    return first


def each(function: Callable[[N], Any]) -> Callable[..., None]:
    """Apply a function to each element of the result."""

    def run(case: Case) -> None:
        for x in array(*case.result(0)):
            function(x)

    return run


def nothing(_: Case) -> None:
    """Compute nothing."""


def rows(count: int, length: int, function: Callable[[list[N]], Any]) -> Callable[..., None]:
    def run(_: Case) -> None:
        for _ in range(count):
            function(array(length))

    return run


def softmax(row: list[N]) -> list[N]:
    largest = total(row)
    powers = [f(x - largest) for x in row]
    whole = total(powers)
    return [x / whole for x in powers]


def log_softmax(row: list[N]) -> None:
    largest = total(row)
    shifted = [x - largest for x in row]
    whole = f(total([f(x) for x in shifted]))
    for x in shifted:
        x - whole


def normalize(row: list[N], *, bias: bool = True, scale: bool = True) -> None:
    mean = total(row) / N()
    centered = [x - mean for x in row]
    variance = total([x * x for x in centered]) / N()
    factor = 1 / f(variance + 1e-5) if scale else f(variance + 1e-5)
    for x in centered:
        y = x * factor
        if scale:
            y = y * N()
        if bias:
            y = y + N()


def rms_normalize(row: list[N]) -> None:
    factor = 1 / f(total([x * x for x in row]) / N() + 1e-5)
    for x in row:
        x * factor * N()


def matmul(*shape: int) -> Callable[..., None]:
    *batch, m, k, n = shape

    def run(_: Case) -> None:
        for _ in itertools.product(*map(range, [*batch, m, n, k])):
            N() + N() * N()

    return run


def after(*parts: Callable[..., None]) -> Callable[..., None]:
    def run(case: Case) -> None:
        for part in parts:
            part(case)

    return run


def convolve(
    size: Sequence[int],
    kernel: Sequence[int],
    *,
    batch: int,
    channels: int,
    results: int,
    group: int = 1,
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    bias: bool = False,
) -> Callable[..., None]:
    """Multiply and add the elements that each window meets."""

    def run(case: Case) -> None:
        places = case.result(0)[2:]
        for _ in range(batch * results * (channels // group)):
            for place in itertools.product(*map(range, places)):
                for entry in itertools.product(*map(range, kernel)):
                    at = [
                        p * s + e * d - before
                        for p, s, e, d, before in zip(
                            place, strides, entry, dilations, pads, strict=False
                        )
                    ]
                    if all(0 <= a < n for a, n in zip(at, size, strict=True)):
                        N() + N() * N()
        if bias:
            each(lambda x: x + N())(case)

    return run


def scatter_convolve(
    size: Sequence[int],
    kernel: Sequence[int],
    *,
    batch: int,
    channels: int,
    per_group: int,
    strides: Sequence[int],
    pads: Sequence[int],
) -> Callable[..., None]:
    """Add the product of each element and each entry of the kernel to the result."""

    def run(case: Case) -> None:
        places = case.result(0)[2:]
        for _ in range(batch * channels * per_group):
            for place in itertools.product(*map(range, size)):
                for entry in itertools.product(*map(range, kernel)):
                    parts = zip(place, strides, entry, pads, places, strict=False)
                    if all(0 <= p * s + e - before < n for p, s, e, before, n in parts):
                        N() + N() * N()

    return run


def windows(count: int, function: Callable[[list[N]], Any]) -> Callable[..., None]:
    def run(case: Case) -> None:
        for _ in range(math.prod(case.result(0))):
            function(array(count))

    return run


def attention(
    heads: int, length: int, keys: int, width: int, values: int, *, mask: bool, soft: bool = False
) -> Callable[..., None]:
    def run(_: Case) -> None:
        for _ in range(heads * length):
            scores = []
            for _ in range(keys):
                score = N()
                for _ in range(width):
                    score = score + N() * N()
                score = score * N()
                if soft:
                    score = f(score / N()) * N()
                scores.append(score + N() if mask else score)
            softmax(scores)
            for _ in range(keys * values):
                N() + N() * N()

    return run


def sigmoid(x: N) -> N:
    return 1 / (1 + f(-x))


def softplus(x: N) -> N:
    return most(x, 0) + f(f(-abs(x)))


def recurrent(kind: str, steps: int, batch: int, inputs: int, units: int) -> Callable[..., None]:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]

    def run(_: Case) -> None:
        for _ in range(steps * batch * units):
            computed = []
            for _ in range(gates):
                for _ in range(inputs + units):
                    N() + N() * N()
                # The two products, and two biases.
                computed.append(N() + N() + N() + N())
            if kind == "LSTM":
                i, o, g, c = computed
                cell = sigmoid(g) * N() + sigmoid(i) * f(c)
                sigmoid(o) * f(cell)
            elif kind == "GRU":
                z, r, h = computed
                update, new = sigmoid(z), f(sigmoid(r) * h)
                (1 - update) * new + update * N()
            else:
                f(computed[0])

    return run


class Case(NamedTuple):
    """A node with the types of its operands and results."""

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    count: Callable[[Case], None]
    attrs: dict[str, Any]
    traffic: str

    def result(self, place: int) -> list[int]:
        return shape_of(self.results[place])

    def text(self) -> str:
        names = []
        inputs = []
        for place, operand in enumerate(self.operands):
            if re.fullmatch(r"\w+\[[\d,]*\]", operand):
                names.append(f"x{place}")
                inputs.append(f"x{place}:{operand}")
            else:
                names.append(operand)
        outputs = [f"y{place}:{ty}" for place, ty in enumerate(self.results)]
        attrs = ", ".join(f"{key}={written(value)}" for key, value in sorted(self.attrs.items()))
        tail = f" {{{attrs}}}" if attrs else ""
        results = ", ".join(f"y{place}" for place in range(len(self.results)))
        Counter.simple = Counter.functions = 0
        self.count(self)
        read, made = self.bytes()
        return (
            f"graph g({', '.join(inputs)}) -> ({results})\n"
            f"{', '.join(outputs)} = {self.op}({', '.join(names)}){tail}\n"
            f"= {Counter.simple} {Counter.functions} {read} {made}"
        )

    def bytes(self) -> tuple[int, int]:
        made = sum(map(bytes_of, self.results))
        operands = [bytes_of(it) for it in self.operands if it != "_"]
        match self.traffic:
            case "whole":
                return sum(operands), made
            case "picks":
                return bytes_of(self.results[0]) + sum(operands[1:]), made
            case "writes":
                return 0, made
            case _:
                return 0, 0


def shape_of(ty: str) -> list[int]:
    return [int(size) for size in re.findall(r"\d+", ty.split("[", 1)[1])]


def bytes_of(operand: str) -> int:
    """Return the bytes of a type or a literal."""
    if match := re.fullmatch(r"(\w+)\[([\d,]*)\]", operand):
        return -(-math.prod(shape_of(operand)) * BITS[match[1]] // 8)
    literal, _, dtype = operand.rpartition(":")
    count = literal.count(",") + 1 if literal.startswith("[") else 1
    return count * BITS[dtype] // 8


def written(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def case(
    op: str,
    operands: Sequence[str],
    results: str | Sequence[str],
    count: Callable[[Case], None] = nothing,
    traffic: str = "whole",
    **attrs: Any,
) -> Case:
    results = (results,) if isinstance(results, str) else tuple(results)
    return Case(op, tuple(operands), results, count, attrs, traffic)
