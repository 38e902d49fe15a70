"""Generations of evosax's strategies, with their key as an input."""

from __future__ import annotations

from typing import Any

import evosax.algorithms
import jax
import jax.numpy as jnp

from .program import Program, floats


def generation(name: str) -> Any:
    """Returns a function that builds one `ask` and `tell` on a sphere."""

    def build() -> Any:
        kind = getattr(evosax.algorithms, name)
        is_population = issubclass(
            kind, evosax.algorithms.population_based.base.PopulationBasedAlgorithm
        )
        strategy = kind(population_size=8, solution=jnp.zeros(3))
        params = strategy.default_params
        key = jax.random.PRNGKey(0)
        if is_population:
            population = jnp.asarray(floats(8, 3))
            state = strategy.init(key, population, jnp.sum(population**2, axis=-1), params)
        else:
            state = strategy.init(key, jnp.asarray(floats(3)), params)

        def fn(key: Any, state: Any) -> Any:
            ask, tell = jax.random.split(key)
            population, state = strategy.ask(ask, state, params)
            fitness = jnp.sum(population**2, axis=-1)
            state, _ = strategy.tell(tell, population, fitness, state, params)
            return population, state.best_solution, state.best_fitness

        return fn, (jax.random.PRNGKey(1), state)

    return build


PROGRAMS = [
    Program(f"a generation of `{name}`", generation(name), 1e-4)
    for name in (
        "SimpleES",
        "Open_ES",
        "CMA_ES",
        "Sep_CMA_ES",
        "SNES",
        "DifferentialEvolution",
        "PSO",
    )
]
