"""Models that were trained for a few seconds lose hardly any accuracy in a shorter type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax2onnx
from testkit import bench

ROOT = Path(__file__).parents[3]
#: The part of the score that each type may lose.
MAX_LOST = {"int8": 0.005, "int4": 0.01}
CALIBRATING, BUDGET = 16, 0.1

Params = dict[str, Any]
Batch = tuple[np.ndarray, np.ndarray]


class Task:
    """A model with random weights, data that it is trained with, and other data that judges it."""

    def __init__(
        self,
        model: Callable[[Params, Any], jax.Array],
        shapes: dict[str, tuple[int, ...]],
        spec: str,
        draw: Callable[[np.random.Generator, int, bool], Batch],
        steps: int,
    ) -> None:
        random = np.random.default_rng(0)
        scale = {name: np.sqrt(np.prod(shape[:-1])) for name, shape in shapes.items()}
        params = {
            name: (random.standard_normal(shape) / scale[name]).astype(np.float32)
            for name, shape in shapes.items()
        }
        self._model, self._spec = model, spec
        self._params = trained(self.loss, params, (draw(random, 64, True) for _ in range(steps)))
        self.known = [{"x": draw(random, 32, True)[0]} for _ in range(CALIBRATING)]
        self.new = draw(random, 1500, False)

    def loss(self, params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        found = self._model(params, x)
        if y.dtype == jnp.float32:
            return jnp.square(found - y).mean()
        return -jnp.take_along_axis(jax.nn.log_softmax(found), y[..., None], -1).mean()

    def exported(self) -> Any:
        params = jax.tree.map(jnp.asarray, self._params)
        fn = lambda x: self._model(params, x)  # noqa: E731
        return jax2onnx.to_onnx(fn, [self._spec], provenance="indexed")

    def score(self, model: Any) -> float:
        """Return the accuracy, or the share of the spread that is explained."""
        x, y = self.new
        (found,) = bench.run(model, [x])
        if y.dtype == np.float32:
            return float(1 - np.square(found - y).mean() / y.var())
        return float((found.argmax(-1) == y).mean())


def trained(loss: Callable[..., jax.Array], params: Params, batches: Iterator[Batch]) -> Params:
    """Return parameters after steps of Adam."""

    @jax.jit
    def step(params: Params, mean: Params, square: Params, count: Any, x: Any, y: Any) -> Any:
        slope = jax.grad(loss)(params, x, y)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, square, slope)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return p - 3e-3 * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-8)

        return jax.tree.map(moved, params, mean, square), mean, square

    mean = square = jax.tree.map(jnp.zeros_like, params)
    for number, (x, y) in enumerate(batches, 1):
        params, mean, square = step(params, mean, square, float(number), x, y)
    return jax.tree.map(np.asarray, params)


def images(random: np.random.Generator, count: int, _: bool) -> Batch:
    """Patterns with noise, moved by a few pixels."""
    patterns = np.random.default_rng(9).standard_normal((10, 16, 16, 1)) * 0.7
    labels = random.integers(0, 10, count)
    moves = random.integers(-2, 3, (count, 2))
    moved = [np.roll(patterns[k], tuple(by), (0, 1)) for k, by in zip(labels, moves, strict=True)]
    noise = random.standard_normal((count, 16, 16, 1)) * 0.6
    return (np.stack(moved) + noise).astype(np.float32), labels


def classifier(p: Params, x: jax.Array) -> jax.Array:
    for name in ("near", "far"):
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, p[name], (2, 2), "SAME", dimension_numbers=layout)
        x = jax.nn.relu(x)
    return jax.nn.relu(x.reshape(x.shape[0], -1) @ p["up"]) @ p["out"]


TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CODES = np.clip(np.frombuffer(TEXT.encode("ascii", "replace"), np.uint8) - 31, 0, 95)
CODES = CODES.astype(np.int32)
LENGTH, WIDTH = 16, 48


def texts(random: np.random.Generator, count: int, is_known: bool) -> Batch:
    """Characters of a page, and the characters that follow. New data is from its end."""
    cut = len(CODES) * 9 // 10
    low, high = (0, cut) if is_known else (cut, len(CODES) - LENGTH - 1)
    starts = random.integers(low, high - LENGTH, count)
    rows = CODES[starts[:, None] + np.arange(LENGTH + 1)]
    return rows[:, :-1], rows[:, 1:]


def language_model(p: Params, x: jax.Array) -> jax.Array:
    hidden = jnp.asarray(p["embedding"])[x] + p["place"]
    query, key, value = jnp.split(hidden @ p["heads"], 3, -1)
    scores = jnp.einsum("btd,bsd->bts", query, key) / np.sqrt(WIDTH)
    scores = jnp.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    hidden += jax.nn.softmax(scores) @ value
    return (hidden + jax.nn.gelu(hidden @ p["up"]) @ p["down"]) @ p["out"]


def points(random: np.random.Generator, count: int, _: bool) -> Batch:
    x = random.uniform(-1, 1, (count, 6)).astype(np.float32)
    y = np.sin(3 * x[:, :1]) * x[:, 1:2] + np.square(x[:, 2:3]) - 0.5 * x[:, 3:4] * x[:, 4:5]
    return x, y


def regressor(p: Params, x: jax.Array) -> jax.Array:
    return jnp.tanh(jnp.tanh(3 * x @ p["up"] + p["bias"]) @ p["middle"]) @ p["out"]


TASKS = {
    "classifier": lambda: Task(
        classifier,
        {"near": (5, 5, 1, 16), "far": (3, 3, 16, 32), "up": (512, 64), "out": (64, 10)},
        "x=f32[B,16,16,1]",
        images,
        200,
    ),
    "language model": lambda: Task(
        language_model,
        {
            "embedding": (96, WIDTH),
            "place": (LENGTH, WIDTH),
            "heads": (WIDTH, 3 * WIDTH),
            "up": (WIDTH, 192),
            "down": (192, WIDTH),
            "out": (WIDTH, 96),
        },
        f"x=i32[B,{LENGTH}]",
        texts,
        400,
    ),
    "regressor": lambda: Task(
        regressor,
        {"up": (6, 64), "bias": (64,), "middle": (64, 64), "out": (64, 1)},
        "x=f32[B,6]",
        points,
        600,
    ),
}
#: A score that shows that the training worked.
LEAST = {"classifier": 0.8, "language model": 0.3, "regressor": 0.9}


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_trained_model_keeps_its_accuracy(name: str) -> None:
    task = TASKS[name]()
    model = task.exported()
    before = task.score(model)
    assert before > LEAST[name]
    ways: list[tuple[str, dict[str, Any]]] = [("int8", {}), ("int8", {"dynamic": True})]
    if name != "regressor":
        # Its products are so short that four bits exceed the budget.
        ways.append(("int4", {}))
    for to, options in ways:
        short, report = jax2onnx.lower_precision(model, task.known, to=to, budget=BUDGET, **options)
        assert report.error <= BUDGET
        assert report.bytes_short > 0
        lost = before - task.score(short)
        assert lost <= MAX_LOST[to]
