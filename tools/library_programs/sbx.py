"""Policies of SBX, as a control loop calls them."""

from __future__ import annotations

from typing import Any

import gymnasium
import sbx

from .program import Program, floats


def policy(algorithm: str, environment: str = "Pendulum-v1") -> Any:
    def build() -> Any:
        made = gymnasium.make(environment)
        policy = getattr(sbx, algorithm)("MlpPolicy", made).policy
        observed = floats(3, made.observation_space.shape[0])
        return (lambda observed: policy._predict(observed, deterministic=True)), (observed,)

    return build


PROGRAMS = [
    *(
        Program(f"`{name}`", policy(name))
        for name in ("PPO", "SAC", "TD3", "DDPG", "TQC", "CrossQ")
    ),
    Program("`DQN`", policy("DQN", "CartPole-v1")),
]
