"""Training steps with optax: the gradient of a loss, and the update of an optimizer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from .program import Program, floats, ints


def initial() -> dict[str, Any]:
    return {"w": floats(4, 3) * 0.5, "b": floats(3, seed=8) * 0.1}


def predicted(weights: Any, x: Any) -> Any:
    return jnp.tanh(x @ weights["w"] + weights["b"])


def squared(weights: Any, x: Any, y: Any) -> Any:
    return optax.l2_loss(predicted(weights, x), y).mean()


def training(optimizer: Any) -> Any:
    """Returns a function that builds a step from weights and a state that are not the first."""

    def build() -> Any:
        def step(weights: Any, state: Any, x: Any, y: Any) -> Any:
            loss, gradients = jax.value_and_grad(squared)(weights, x, y)
            updates, state = optimizer.update(gradients, state, weights)
            return optax.apply_updates(weights, updates), state, loss

        weights, x, y = initial(), floats(5, 4, seed=1), floats(5, 3, seed=2)
        weights, state, _ = step(weights, optimizer.init(weights), x, y)
        return step, (weights, state, x, y)

    return build


def loss(fn: Any, *inputs: Any) -> Any:
    return lambda: (jax.value_and_grad(lambda x, *rest: fn(x, *rest).mean()), inputs)


def lbfgs() -> Any:
    optimizer = optax.lbfgs()
    x, y = floats(5, 4, seed=1), floats(5, 3, seed=2)

    def step(weights: Any, state: Any) -> Any:
        def value(weights: Any) -> Any:
            return squared(weights, x, y)

        loss, gradients = optax.value_and_grad_from_state(value)(weights, state=state)
        updates, state = optimizer.update(
            gradients, state, weights, value=loss, grad=gradients, value_fn=value
        )
        return optax.apply_updates(weights, updates), loss

    weights = initial()
    return step, (weights, optimizer.init(weights))


SCHEDULE = optax.warmup_cosine_decay_schedule(0.0, 0.1, 10, 100)
PROGRAMS = [
    *(
        Program(f"a step of `{name}`", training(optimizer))
        for name, optimizer in {
            "sgd": optax.sgd(0.1, momentum=0.9, nesterov=True),
            "adam": optax.adam(0.1),
            "adamw": optax.adamw(SCHEDULE, weight_decay=0.01),
            "lamb": optax.lamb(0.1),
            "lion": optax.lion(0.1),
            "rmsprop": optax.rmsprop(0.1),
            "adafactor": optax.adafactor(0.1),
            "chain(clip_by_global_norm, adam)": optax.chain(
                optax.clip_by_global_norm(1.0), optax.adam(SCHEDULE)
            ),
            "contrib.muon": optax.contrib.muon(0.1),
        }.items()
    ),
    Program("a step of `lbfgs` with its line search", lbfgs, 1e-4),
    Program(
        "the gradient of `softmax_cross_entropy_with_integer_labels`",
        loss(optax.softmax_cross_entropy_with_integer_labels, floats(5, 7), ints(7, 5)),
    ),
    Program(
        "the gradient of `ctc_loss`",
        loss(
            optax.ctc_loss,
            floats(2, 8, 5),
            jnp.zeros((2, 8)),
            ints(4, 2, 3) + 1,
            jnp.zeros((2, 3)),
        ),
    ),
]
