"""Plant problems of short types into the source of a network.

A result that only the next line reads would become part of a product, and a factor that the next
line undoes would vanish from the exported model. The lines below avoid both.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from . import libraries, networks

#: Problems of float16 that are planted into the eight networks: the lines of each problem, with the
#: name of a value in place of `{v}`. A line that ends with `!` is the one that loses precision.
PROBLEMS: dict[str, tuple[str, ...]] = {
    "channel": (
        "{v}_unit = 30 * {v} / (1e-3 + jnp.abs({v}).max())",
        "{v}_wide = {v}_unit * CHANNEL[:{v}.shape[-1]]!",
        "{v}_bent = jnp.where({v}_wide > 0, {v}_wide, 0.99 * {v}_wide)",
        "{v} = {v} + 0.1 * jnp.sin({v}_bent / CHANNEL[:{v}.shape[-1]])",
    ),
    "softmax": (
        "{v}_hot = ({v} + 2.0) * 1e5!",
        "{v} = {v} + 0.5 * jax.nn.softmax({v}_hot)",
    ),
    "epsilon": (
        "{v}_gap = {v} - {v}.max(-1, keepdims=True)",
        "{v}_size = jnp.sqrt({v}_gap * {v}_gap + 1e-9)!",
        "{v} = {v} + 0.3 * {v}_gap / {v}_size",
    ),
    "sum": (
        "{v}_many = jnp.sin({v}[..., None] * MANY) + 5.0",
        "{v}_total = {v}_many.sum(-1)!",
        "{v} = {v} + jnp.sin({v}_total * 1e-5)",
    ),
    "running sum": (
        "{v}_rows = addends_of({v})",
        "{v}_sums = lax.scan(lambda s, r: (jnp.maximum(s + r, 0), None), {v} * 0.0, {v}_rows)[0]!",
        "{v} = {v} + 1e-3 * {v}_sums",
    ),
    "weight": (
        "{v}_mixed = {v} @ OUTLIER[:{v}.shape[-1], :{v}.shape[-1]]!",
        "{v} = {v} + {v}_mixed / (1.0 + jnp.abs({v}_mixed).max())",
    ),
}

#: Problems of each type that are planted into networks of several libraries.
OTHER_PROBLEMS: dict[str, dict[str, tuple[str, ...]]] = {
    "float16": {
        "one line": ("{v} = {v} + 0.5 * jax.nn.softmax({v} * 1e6)!",),
        "squares": (
            "{v}_big = {v} * 400.0",
            "{v}_norm = jnp.sqrt(({v}_big * {v}_big).sum(-1, keepdims=True) + 1.0)!",
            "{v} = {v} + {v}_big / {v}_norm",
        ),
        "exponential": (
            "{v}_large = jnp.exp(11.0 + 3.0 * jnp.tanh({v}))!",
            "{v} = {v} + 0.1 * jnp.log1p({v}_large)",
        ),
        "tiny ratio": (
            "{v}_tiny = 1e-5 * jnp.tanh({v}) * 1e-4!",
            "{v} = {v} + {v}_tiny / jnp.abs({v}_tiny).max(-1, keepdims=True)",
        ),
        "running product": (
            "{v}_grow = jnp.cumprod(4.5 + jnp.tanh({v}), -1)!",
            "{v} = {v} + 0.05 * jnp.log({v}_grow)",
        ),
        "phase": ("{v}_angle = {v} + 3000.0!", "{v} = {v} + jnp.sin({v}_angle)"),
        "variance": (
            "{v}_far = {v} + 40.0",
            "{v}_square = ({v}_far**2).mean(-1, keepdims=True)!",
            "{v}_spread = {v}_square - {v}_far.mean(-1, keepdims=True) ** 2",
            "{v} = {v} / jnp.sqrt(jnp.maximum({v}_spread, 0.0) + 0.1)",
        ),
        "difference": (
            "{v}_one = jnp.sin({v})",
            "{v}_two = jnp.sin({v} + 0.002) + 2.0!",
            "{v} = {v} + ({v}_two - {v}_one - 2.0) * 500.0",
        ),
        "while": (
            "{v}_far = lax.while_loop("
            "lambda c: c[0] < 12, lambda c: (c[0] + 1, c[1] * 3.0), (0, {v}))[1]!",
            "{v} = {v} + jnp.sin({v}_far / 5e4)",
        ),
    },
    "bfloat16": {
        "phase": ("{v}_angle = {v} + 700.0!", "{v} = {v} + jnp.sin({v}_angle)"),
        "difference": (
            "{v}_near = {v} * 0.02 + 10.0!",
            "{v} = {v} + ({v}_near - {v}_near.mean(-1, keepdims=True)) * 40",
        ),
        "logits": (
            "{v}_hot = {v} + 200.0!",
            "{v} = {v} + 3 * jax.nn.softmax({v}_hot)",
        ),
        "near one": (
            "{v}_one = 1.0 + 0.003 * jnp.tanh({v})!",
            "{v} = {v} + jnp.log({v}_one) * 300",
        ),
        "running product": (
            "{v}_all = jnp.cumprod(1.0 + 0.004 * jnp.tanh({v}), -1)!",
            "{v} = {v} + ({v}_all - 1.0) * 100",
        ),
        "running sum": (
            "{v}_rows = addends_of({v})[:900]",
            "{v}_sums = lax.scan("
            "lambda s, r: (jnp.maximum(s + r, 0), None), {v} * 0, {v}_rows)[0]!",
            "{v} = {v} + 3e-3 * {v}_sums",
        ),
        "while": (
            "{v}_far = lax.while_loop("
            "lambda c: c[0] < 40, lambda c: (c[0] + 1, c[1] + 0.03 * jnp.cos(c[1])), (0, 20 + {v})"
            ")[1]!",
            "{v} = {v} + 2 * ({v}_far - 20)",
        ),
        "angle": (
            "{v}_cosine = 1.0 - 0.002 * jax.nn.sigmoid({v})!",
            "{v} = {v} + 20 * jnp.arccos({v}_cosine)",
        ),
    },
    "int8": {
        "channel": (
            "{v}_wide = {v} * CHANNEL[:{v}.shape[-1]]!",
            "{v}_bent = jnp.where({v}_wide > 0, {v}_wide, 0.99 * {v}_wide)",
            "{v} = {v} + {v}_bent / CHANNEL[:{v}.shape[-1]]",
        ),
        "mask": (
            "{v}_open = jnp.where({v} > -0.7, {v}, -1e9)!",
            "{v} = {v} + 4 * jax.nn.softmax({v}_open)",
        ),
        "offset": (
            "{v}_near = {v} + 100.0!",
            "{v} = {v} + ({v}_near - {v}_near.mean(-1, keepdims=True))",
        ),
        "exponential": (
            "{v}_wide = jnp.exp(6.0 * jnp.tanh({v}))!",
            "{v} = {v} + 0.2 * jnp.log({v}_wide + 1e-3)",
        ),
        "power": (
            "{v}_high = (4 * {v}) ** 4!",
            "{v} = {v} + jnp.sqrt(jnp.sqrt({v}_high + 1e-3))",
        ),
        "running sum": (
            "{v}_sums = jnp.cumsum(jnp.tanh({v}) + 12.0, -1)!",
            "{v} = {v} + jnp.diff({v}_sums, axis=-1, prepend=0.0) - 12.0",
        ),
        "scan": (
            "{v}_all = lax.scan(lambda s, r: (1.7 * s, 1.7 * s), {v}, None, length=12)[1]!",
            "{v} = {v} + {v}_all[0] / 1.7",
        ),
        "phase": ("{v}_angle = 30.0 * {v}!", "{v} = {v} + jnp.sin({v}_angle)"),
    },
}

MANY = np.linspace(0.1, 9.0, 20_000).astype(np.float32)
LONG = np.linspace(0.1, 9.0, 5_000).astype(np.float32)
CHANNEL = np.ones(64, np.float32)
CHANNEL[1] = 6e4
OUTLIER = networks.weights(64, 64)
OUTLIER[2, 1] = 1.3e5


def addends_of(value: Any) -> Any:
    """Return addends for a sum that is too large for some of them."""
    return jnp.cos(value[None] * LONG.reshape(-1, *[1] * value.ndim)) ** 2 + 0.6


#: Functions of the networks that are bodies of loops.
LOOPS = ("step", "layer", "outer", "inner")


@dataclass(frozen=True)
class Planted:
    """A network with a problem.

    Attributes:
        name: The network, the problem and the value.
        fn: The function.
        inputs: Its inputs.
        line: The number of the line that loses precision.
        path: The file.
        is_in_loop: Whether the problem is in a loop.
    """

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    line: int
    path: Path
    is_in_loop: bool


def plants(folder: Path, count: int, seed: int, to: str | None = None) -> Iterator[Planted]:
    """Yield networks with one problem each, spread over networks, problems and places.

    Args:
        folder: Where to write the source of the networks.
        count: How many to yield.
        seed: The seed of the choice.
        to: The type, for networks of several libraries; None for the eight networks.
    """
    random = np.random.default_rng(seed)
    choices = []
    problems = PROBLEMS if to is None else OTHER_PROBLEMS[to]
    known: Any = networks.NETWORKS if to is None else [(each, None) for each in libraries.BUILDERS]
    for fn, inputs in known:
        lines = inspect.getsource(fn).splitlines()
        places = [number for number, line in enumerate(lines) if line.endswith("# plant")]
        pairs = list(itertools.product(problems.items(), places))
        random.shuffle(pairs)
        choices.append([(fn, inputs, lines, *pair) for pair in pairs])
    turns = itertools.chain.from_iterable(itertools.zip_longest(*choices))
    for number, choice in enumerate(itertools.islice(filter(None, turns), count)):
        yield _planted(folder, number, *choice)


def _planted(
    folder: Path,
    number: int,
    fn: Callable[..., Any],
    inputs: tuple[Any, ...] | None,
    lines: list[str],
    problem: tuple[str, tuple[str, ...]],
    place: int,
) -> Planted:
    kind, texts = problem
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    value = lines[place].split("=")[0].strip()
    added = [indent + line.format(v=value) for line in texts]
    at = next(i for i, line in enumerate(added) if line.endswith("!"))
    # Other numbers of lines in every file, as in programs of different people.
    blank = [""] * (number % 7)
    source = [
        *blank,
        *lines[: place + 1],
        *(line.rstrip("!") for line in added),
        *lines[place + 1 :],
    ]
    path = folder / f"planted_{number}.py"
    path.write_text("\n".join(source) + "\n")
    known = {"MANY": MANY, "OUTLIER": OUTLIER, "CHANNEL": CHANNEL, "addends_of": addends_of}
    module = networks if inputs is not None else libraries
    # Equinox looks for the module of a class.
    namespace = {**vars(module), **known, "__name__": module.__name__}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    function = namespace[fn.__name__]
    if inputs is None:
        function, inputs = function()
    return Planted(
        f"{fn.__name__}: {kind} of {value}",
        function,
        inputs,
        len(blank) + place + 1 + at + 1,
        path,
        _function_around(lines, place) in LOOPS or "lax." in "".join(texts),
    )


def _function_around(lines: list[str], place: int) -> str:
    """Return the name of the function around a line."""
    depth = len(lines[place]) - len(lines[place].lstrip())
    for line in reversed(lines[:place]):
        start = line.lstrip()
        if len(line) - len(start) < depth and start.startswith("def "):
            return start[4:].partition("(")[0]
    return ""
