"""Plant problems of short types into the source of a network."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from . import networks

#: The lines of each problem, with the name of a value in place of `{v}`. A line that ends with `!`
#: is the one that loses precision.
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

MANY = np.linspace(0.1, 9.0, 20_000).astype(np.float32)
LONG = np.linspace(0.1, 9.0, 5_000).astype(np.float32)
CHANNEL = np.ones(64, np.float32)
CHANNEL[1] = 6e4
OUTLIER = networks.weights(64, 64)
OUTLIER[2, 1] = 1.3e5


def addends_of(value: Any) -> Any:
    """Return addends for a sum that is too large for some of them."""
    return jnp.cos(value[None] * LONG.reshape(-1, *[1] * value.ndim)) ** 2 + 0.6


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


def plants(folder: Path, count: int, seed: int) -> Iterator[Planted]:
    """Yield networks with one problem each, spread over networks, problems and places."""
    random = np.random.default_rng(seed)
    choices = []
    for fn, inputs in networks.NETWORKS:
        lines = inspect.getsource(fn).splitlines()
        places = [number for number, line in enumerate(lines) if line.endswith("# plant")]
        pairs = list(itertools.product(PROBLEMS, places))
        random.shuffle(pairs)
        choices.append([(fn, inputs, lines, *pair) for pair in pairs])
    turns = itertools.chain.from_iterable(itertools.zip_longest(*choices))
    for number, choice in enumerate(itertools.islice(filter(None, turns), count)):
        yield _planted(folder, number, *choice)


def _planted(
    folder: Path,
    number: int,
    fn: Callable[..., Any],
    inputs: tuple[Any, ...],
    lines: list[str],
    problem: str,
    place: int,
) -> Planted:
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    value = lines[place].split("=")[0].strip()
    added = [indent + line.format(v=value) for line in PROBLEMS[problem]]
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
    namespace = {**vars(networks), **known, "__name__": path.stem}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return Planted(
        f"{fn.__name__}: {problem} of {value}",
        namespace[fn.__name__],
        inputs,
        len(blank) + place + 1 + at + 1,
        path,
        len(indent) > 4,
    )
