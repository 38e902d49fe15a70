"""Densities and predictions of numpyro models."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.infer import util

from .program import Program, floats

X = floats(6, 3)
Y = floats(6, seed=1)
#: The data of numpyro's first example, Eight Schools.
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def schools(sigma: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", sigma.shape[0]):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def regression(x: Any, y: Any = None) -> None:
    weights = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    noise = numpyro.sample("noise", dist.Exponential(1.0))
    numpyro.sample("obs", dist.Normal(x @ weights, noise), obs=y)


def logistic(x: Any, y: Any = None) -> None:
    weights = numpyro.sample("w", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3) * 2))
    numpyro.sample("obs", dist.Bernoulli(logits=x @ weights), obs=y)


def potential(model: Any, args: Any, values: Any) -> Any:
    """Returns a function that builds the potential energy of a model, and its gradient."""

    def fn(values: Any) -> Any:
        return jax.value_and_grad(lambda v: util.potential_energy(model, args, {}, v))(values)

    return lambda: (fn, (values,))


def density(make: Any, value: Any, *parameters: Any) -> Any:
    return lambda: ((lambda value, *rest: make(*rest).log_prob(value)), (value, *parameters))


def predicted() -> Any:
    def fn(weights: Any, noise: Any, x: Any, key: Any) -> Any:
        fixed = handlers.substitute(regression, {"w": weights, "noise": noise})
        return handlers.trace(handlers.seed(fixed, key)).get_trace(x)["obs"]["value"]

    return fn, (floats(3), np.float32(0.3), X, jax.random.PRNGKey(0))


def sampled_correlation() -> Any:
    return (lambda key: dist.LKJ(3, 1.5).sample(key, (2,))), (jax.random.PRNGKey(0),)


PROGRAMS = [
    Program(
        "the potential of Eight Schools",
        potential(
            schools,
            (ERRORS, EFFECTS),
            {"mu": np.float32(4.0), "tau": np.float32(0.5), "theta": floats(8) + 4},
        ),
    ),
    Program(
        "the potential of a linear regression",
        potential(regression, (X, Y), {"w": floats(3), "noise": np.float32(0.2)}),
    ),
    Program(
        "the potential of a logistic regression",
        potential(logistic, (X, (Y > 0).astype(np.int32)), {"w": floats(3)}),
    ),
    Program("a predictive sample", predicted),
    Program("`StudentT.log_prob`", density(lambda df: dist.StudentT(df, 0.0, 1.0), floats(5), 3.0)),
    Program(
        "`Dirichlet.log_prob`",
        density(
            dist.Dirichlet,
            np.array([0.2, 0.3, 0.5], np.float32),
            np.array([2.0, 3.5, 4.0], np.float32),
        ),
    ),
    Program(
        "`NegativeBinomial2.log_prob`",
        density(dist.NegativeBinomial2, np.arange(5.0, dtype=np.float32), 2.0, 3.0),
    ),
    Program(
        "`LKJCholesky.log_prob`",
        density(lambda c: dist.LKJCholesky(3, c), np.eye(3, dtype=np.float32), 2.0),
    ),
    Program("a sample of `LKJ`", sampled_correlation, 1e-4),
    Program("`VonMises.log_prob`", density(dist.VonMises, floats(5), 0.3, 2.0)),
]
