"""Distributions and bijectors of distrax."""

from __future__ import annotations

from typing import Any

import distrax
import jax
import jax.numpy as jnp
import numpy as np

from .program import Program, floats, ints


def density(make: Any, value: Any, *parameters: Any) -> Any:
    """Returns a function that builds the log density of a distribution, and its gradient."""

    def fn(value: Any, *parameters: Any) -> Any:
        return make(*parameters).log_prob(value)

    return lambda: (fn, (value, *parameters))


def mixture(logits: Any, means: Any) -> Any:
    parts = distrax.MultivariateNormalDiag(means, jnp.ones_like(means) * 0.7)
    return distrax.MixtureSameFamily(distrax.Categorical(logits=logits), parts)


def flow(shift: Any, scale: Any) -> Any:
    affine = distrax.ScalarAffine(shift, log_scale=scale)
    chain = distrax.Block(distrax.Chain([distrax.Tanh(), affine]), 1)
    base = distrax.MultivariateNormalDiag(jnp.zeros(3), jnp.ones(3))
    return distrax.Transformed(base, chain)


def sampled() -> Any:
    def fn(key: Any, mean: Any) -> Any:
        policy = distrax.MultivariateNormalDiag(mean, jnp.full(3, 0.3))
        return policy.sample_and_log_prob(seed=key)

    return fn, (jax.random.PRNGKey(0), floats(2, 3))


def spline() -> Any:
    def fn(x: Any, parameters: Any) -> Any:
        return distrax.RationalQuadraticSpline(parameters, -3.0, 3.0).forward_and_log_det(x)

    return fn, (floats(5), floats(5, 13, seed=2))


def hidden_markov() -> Any:
    def fn(logits: Any, observed: Any) -> Any:
        model = distrax.HMM(
            init_dist=distrax.Categorical(logits=logits[0]),
            trans_dist=distrax.Categorical(logits=logits),
            obs_dist=distrax.Normal(jnp.arange(3.0), jnp.ones(3)),
        )
        return model.forward(observed)

    return fn, (floats(3, 3), floats(6, seed=1))


INSIDE = np.tanh(floats(4, 3)).astype(np.float32) * 0.9
PROGRAMS = [
    Program("`Normal.log_prob`", density(distrax.Normal, floats(5), floats(5, seed=1), 0.7)),
    Program(
        "`Categorical.log_prob`",
        density(lambda x: distrax.Categorical(x), ints(4, 5), floats(5, 4)),
    ),
    Program(
        "`MultivariateNormalFullCovariance.log_prob`",
        density(
            distrax.MultivariateNormalFullCovariance,
            floats(4, 3),
            floats(3, seed=1),
            np.eye(3, dtype=np.float32) * 2 + 0.3,
        ),
    ),
    Program("`Gamma.log_prob`", density(distrax.Gamma, np.abs(floats(5)), 2.5, 1.5)),
    Program("`Beta.log_prob`", density(distrax.Beta, np.abs(INSIDE), 2.5, 1.5)),
    Program(
        "`MixtureSameFamily.log_prob`",
        density(mixture, floats(4, 3), floats(2), floats(2, 3, seed=1)),
    ),
    Program(
        "`Transformed` by `Tanh`, a policy's density",
        density(flow, INSIDE, floats(3), floats(3, seed=1) * 0.1),
    ),
    Program("`sample_and_log_prob`", sampled),
    Program("`RationalQuadraticSpline`", spline),
    Program("`HMM.forward`", hidden_markov),
]
