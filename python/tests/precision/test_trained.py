"""Models that were trained keep their accuracy in shorter types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from jax import lax

from jax2onnx import lower_precision, to_onnx

LAYOUT = ("NHWC", "HWIO", "NHWC")
CLASSES = 6


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy shapes and their classes."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:16, :16]
    found = 0.9 * random.standard_normal((count, 16, 16, 1)).astype(np.float32)
    classes = random.integers(0, CLASSES, count)
    for image, kind in zip(found, classes, strict=True):
        x, y = random.uniform(5, 11, 2)
        size, light = random.uniform(2.5, 5), random.uniform(0.6, 1.4)
        shapes = (
            (rows - y) ** 2 + (columns - x) ** 2 < size**2,
            (abs(rows - y) < size) & (abs(columns - x) < size),
            abs(columns - x) < 1.5,
            abs(rows - y) < 1.5,
            abs((columns - x) - (rows - y)) < 2,
            abs(np.hypot(rows - y, columns - x) - size) < 1,
        )
        image[..., 0] += light * shapes[kind]
    return found, classes


def initial(random: np.random.Generator, *shape: int) -> np.ndarray:
    size = np.sqrt(2 / np.prod(shape[:-1]))
    return (random.standard_normal(shape) * size).astype(np.float32)


def trained(
    params: Any, loss: Callable[..., Any], batches: Sequence[tuple[Any, ...]], rate: float
) -> Any:
    """Return parameters after Adam saw some batches."""

    @jax.jit
    def step(params: Any, first: Any, second: Any, count: Any, *batch: Any) -> Any:
        slope = jax.grad(loss)(params, *batch)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)

        def moved(w: Any, m: Any, v: Any) -> Any:
            size = jnp.sqrt(v / (1 - 0.99**count)) + 1e-8
            return w - rate * m / (1 - 0.9**count) / size

        return jax.tree.map(moved, params, first, second), first, second

    first = second = jax.tree.map(jnp.zeros_like, params)
    for number, batch in enumerate(batches, 1):
        params, first, second = step(params, first, second, float(number), *batch)
    return jax.tree.map(np.asarray, params)


def classify(params: Any, x: Any) -> Any:
    hidden = lax.conv_general_dilated(x, params["k1"], (2, 2), "SAME", dimension_numbers=LAYOUT)
    hidden = jax.nn.relu(hidden + params["b1"])
    hidden = lax.conv_general_dilated(
        hidden, params["k2"], (2, 2), "SAME", dimension_numbers=LAYOUT
    )
    hidden = jax.nn.relu(hidden + params["b2"]).reshape(x.shape[0], -1)
    hidden = jax.nn.relu(hidden @ params["w1"] + params["b3"])
    return hidden @ params["w2"]


@pytest.fixture(scope="module")
def classifier() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    params = {
        "k1": initial(random, 3, 3, 1, 16),
        "b1": np.zeros(16, np.float32),
        "k2": initial(random, 3, 3, 16, 32),
        "b2": np.zeros(32, np.float32),
        "w1": initial(random, 512, 64),
        "b3": np.zeros(64, np.float32),
        "w2": initial(random, 64, CLASSES),
    }

    def loss(params: Any, x: Any, y: Any) -> Any:
        likely = jax.nn.log_softmax(classify(params, x))
        return -likely[jnp.arange(len(y)), y].mean()

    x, y = images(3200, 1)
    batches = [(x[i : i + 64], y[i : i + 64]) for i in range(0, 3200, 64)] * 4
    params = trained(params, loss, batches, 2e-3)

    def predict(x: Any) -> Any:
        return classify(params, x)

    model = to_onnx(predict, ["f32[B,16,16,1]"], provenance="indexed")
    assert isinstance(model, onnx.ModelProto)
    return model


def outputs(model: onnx.ModelProto, *inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    (found,) = session.run(None, dict(zip(names, inputs, strict=True)))
    return np.asarray(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "budget", "share", "lost"),
    [
        ("float16", 1e-2, 0.51, 0.001),
        ("bfloat16", 5e-2, 0.51, 0.004),
        ("int8", 8e-2, 0.27, 0.005),
        ("int4", 0.4, 0.17, 0.01),
    ],
)
def test_a_trained_classifier_keeps_its_accuracy(
    classifier: onnx.ModelProto, to: str, budget: float, share: float, lost: float
) -> None:
    x, _ = images(1024, 1)
    short, report = lower_precision(
        classifier, [[x[i : i + 32]] for i in range(0, 1024, 32)], to=to, budget=budget
    )
    assert report.bytes_after <= share * report.bytes_before
    seen, classes = images(4000, 2)
    accuracy = [
        float((outputs(model, seen).argmax(-1) == classes).mean()) for model in (classifier, short)
    ]
    assert accuracy[0] > 0.9
    assert accuracy[1] >= accuracy[0] - lost


WIDTH, LENGTH = 48, 32


def continued(params: Any, tokens: Any) -> Any:
    """Return the logits of the next character after each one."""
    x = params["embedding"][tokens] + params["places"]
    for layer in params["layers"]:
        size = jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        y = x / size
        q, k, v = (y @ layer[name] for name in ("q", "k", "v"))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH)
        causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        x = x + jax.nn.softmax(jnp.where(causal, scores, -1e9)) @ v
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return x @ params["out"]


@pytest.mark.slow
@pytest.mark.parametrize(("to", "budget"), [("float16", 1e-2), ("int8", 0.1), ("int4", 0.4)])
def test_a_character_model_predicts_as_well(to: str, budget: float) -> None:
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    letters = sorted(set(text))
    numbers = np.array([letters.index(each) for each in text], np.int32)
    random = np.random.default_rng(0)
    layers = [
        {
            **{name: initial(random, WIDTH, WIDTH) / 1.4 for name in ("q", "k", "v")},
            "up": initial(random, WIDTH, 2 * WIDTH),
            "down": initial(random, 2 * WIDTH, WIDTH) / 4,
        }
        for _ in range(2)
    ]
    params = {
        "embedding": initial(random, len(letters), WIDTH),
        "places": initial(random, LENGTH, WIDTH),
        "layers": layers,
        "out": initial(random, WIDTH, len(letters)),
    }

    def loss(params: Any, tokens: Any) -> Any:
        likely = jax.nn.log_softmax(continued(params, tokens[:, :-1]))
        return -jnp.take_along_axis(likely, tokens[:, 1:, None], -1).mean()

    def batch(count: int) -> Any:
        starts = random.integers(0, len(numbers) - LENGTH - 1, count)
        return np.stack([numbers[start : start + LENGTH + 1] for start in starts])

    params = trained(params, loss, [(batch(32),) for _ in range(250)], 3e-3)
    model = to_onnx(
        lambda tokens: continued(params, tokens), [f"i32[B,{LENGTH}]"], provenance="indexed"
    )
    data = [[batch(8)[:, :-1]] for _ in range(12)]
    short, report = lower_precision(model, data, to=to, budget=budget)
    assert report.bytes_short > 0.8 * report.bytes_after
    seen = batch(256)

    def loss_of(model: Any) -> float:
        likely = jax.nn.log_softmax(outputs(model, seen[:, :-1]))
        return float(-jnp.take_along_axis(likely, seen[:, 1:, None], -1).mean())

    assert loss_of(model) < 2.8
    assert loss_of(short) < loss_of(model) + {"float16": 0.002, "int8": 0.02, "int4": 0.1}[to]
