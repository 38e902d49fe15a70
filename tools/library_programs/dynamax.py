"""Filters and smoothers of dynamax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from dynamax import hidden_markov_model as hmm
from dynamax import linear_gaussian_ssm as lgssm
from dynamax import nonlinear_gaussian_ssm as nlgssm

from .program import Program, floats

OBSERVED = floats(8, 2)


def linear(infer: Any) -> Any:
    def build() -> Any:
        model = lgssm.LinearGaussianSSM(3, 2)
        weights, _ = model.initialize(jax.random.PRNGKey(0))
        return (lambda observed: infer(weights, observed)), (OBSERVED,)

    return build


def smoothed(weights: Any, observed: Any) -> Any:
    found = lgssm.lgssm_smoother(weights, observed)
    return found.smoothed_means, found.smoothed_covariances, found.marginal_loglik


def filtered(weights: Any, observed: Any) -> Any:
    found = lgssm.lgssm_filter(weights, observed)
    return found.filtered_means, found.filtered_covariances, found.marginal_loglik


def extended(infer: Any) -> Any:
    def build() -> Any:
        weights = nlgssm.ParamsNLGSSM(
            initial_mean=jnp.zeros(2),
            initial_covariance=jnp.eye(2),
            dynamics_function=lambda x: jnp.stack([x[0] + 0.1 * x[1], x[1] - 0.1 * jnp.sin(x[0])]),
            dynamics_covariance=0.1 * jnp.eye(2),
            emission_function=jnp.sin,
            emission_covariance=0.2 * jnp.eye(2),
        )
        return (lambda observed: infer(weights, observed).filtered_means), (OBSERVED,)

    return build


def markov(infer: Any) -> Any:
    def build() -> Any:
        start, moves = jax.nn.softmax(floats(3)), jax.nn.softmax(floats(3, 3), axis=-1)
        return (lambda likelihoods: infer(start, moves, likelihoods)), (floats(8, 3, seed=5),)

    return build


def states(start: Any, moves: Any, likelihoods: Any) -> Any:
    found = hmm.hmm_smoother(start, moves, likelihoods)
    return found.smoothed_probs, found.marginal_loglik


PROGRAMS = [
    Program("the Kalman filter", linear(filtered), 1e-4),
    Program("the Kalman smoother", linear(smoothed), 1e-4),
    Program(
        "the extended Kalman filter",
        extended(nlgssm.extended_kalman_filter),
        1e-4,
    ),
    Program(
        "the unscented Kalman filter",
        extended(lambda w, y: nlgssm.unscented_kalman_filter(w, y, nlgssm.UKFHyperParams())),
        1e-4,
    ),
    Program("the smoother of a hidden Markov model", markov(states)),
    Program("the Viterbi path of a hidden Markov model", markov(hmm.hmm_posterior_mode)),
]
