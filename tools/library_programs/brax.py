"""Policies of brax, as a control loop calls them, and steps of its engines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax import envs
from brax.training import networks
from brax.training.acme import running_statistics, specs
from brax.training.agents.ppo import networks as ppo
from brax.training.agents.sac import networks as sac

from .program import Program, floats

OBSERVED = floats(3, 8)


def policy(make_networks: Any, make_inference: Any, *, deterministic: bool) -> Any:
    """Returns a function that builds a policy that normalizes its observations."""

    def build() -> Any:
        made = make_networks(8, 2, preprocess_observations_fn=running_statistics.normalize)
        statistics = running_statistics.init_state(specs.Array((8,), jnp.dtype("float32")))
        statistics = running_statistics.update(statistics, floats(32, 8, seed=1) * 2 + 1)
        weights = (statistics, made.policy_network.init(jax.random.PRNGKey(0)))
        act = make_inference(made)(weights, deterministic=deterministic)
        if deterministic:
            return (lambda observed: act(observed, jax.random.PRNGKey(0))[0]), (OBSERVED,)
        return act, (OBSERVED, jax.random.PRNGKey(1))

    return build


def value() -> Any:
    made = networks.make_value_network(8, running_statistics.normalize)
    statistics = running_statistics.init_state(specs.Array((8,), jnp.dtype("float32")))
    weights = made.init(jax.random.PRNGKey(0))
    return (lambda observed: made.apply(statistics, weights, observed)), (OBSERVED,)


def step(engine: str) -> Any:
    def build() -> Any:
        environment = envs.get_environment("inverted_pendulum", backend=engine)
        system = environment.sys

        def fn(q: Any, qd: Any, action: Any) -> Any:
            state = environment.pipeline_init(q, qd)
            state = environment.pipeline_step(state, action)
            return state.q, state.qd

        start = np.asarray(system.init_q, np.float32) + 0.01 * floats(system.q_size())
        speed = 0.1 * floats(system.qd_size(), seed=1)
        return fn, (start, speed, 0.3 * floats(system.act_size(), seed=2))

    return build


PPO = (ppo.make_ppo_networks, ppo.make_inference_fn)
SAC = (sac.make_sac_networks, sac.make_inference_fn)
PROGRAMS = [
    Program("a PPO policy, deterministic", policy(*PPO, deterministic=True)),
    Program("a PPO policy, sampled", policy(*PPO, deterministic=False)),
    Program("a SAC policy, deterministic", policy(*SAC, deterministic=True)),
    Program("a SAC policy, sampled", policy(*SAC, deterministic=False)),
    Program("a value network", value),
    *(
        Program(f"a step of an inverted pendulum, `{engine}`", step(engine), 1e-4)
        for engine in ("generalized", "positional", "spring")
    ),
]
