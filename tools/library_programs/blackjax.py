"""Steps of blackjax's samplers, with their key as an input."""

from __future__ import annotations

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from .program import Program, floats

MASS = np.ones(2, np.float32)


def density(x: Any) -> Any:
    """Returns the log density of the banana."""
    return -0.5 * (x[0] ** 2 + 4.0 * (x[1] - 0.5 * x[0] ** 2) ** 2)


def stepped(make: Any) -> Any:
    def build() -> Any:
        kernel = make()
        state = kernel.init(floats(2))

        def step(key: Any, state: Any) -> Any:
            return kernel.step(key, state)[0]

        return step, (jax.random.PRNGKey(1), state)

    return build


def elliptical() -> Any:
    return blackjax.elliptical_slice(density, mean=jnp.zeros(2), cov=jnp.eye(2))


def walk() -> Any:
    return blackjax.additive_step_random_walk(
        density, blackjax.mcmc.random_walk.normal(jnp.full(2, 0.3))
    )


PROGRAMS = [
    Program("a step of random walk Metropolis", stepped(walk)),
    Program("a step of `mala`", stepped(lambda: blackjax.mala(density, 0.1))),
    Program("a step of `hmc`", stepped(lambda: blackjax.hmc(density, 0.1, MASS, 8))),
    Program("a step of `nuts`", stepped(lambda: blackjax.nuts(density, 0.3, MASS)), 1e-4),
    Program("a step of elliptical slice sampling", stepped(elliptical), 1e-4),
    Program("a step of `barker`", stepped(lambda: blackjax.barker_proposal(density, 0.1))),
]
