"""Differential equations, solved by diffrax."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from .program import Program, floats

START = floats(2)
STEPS = diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 5))


def spiral(t: Any, y: Any, args: Any) -> Any:
    return jnp.stack([-0.5 * y[0] + y[1], -y[0] - 0.5 * y[1]]) + 0.1 * jnp.sin(t)


def solved(solver: Any, adaptive: bool, **options: Any) -> Any:
    def build() -> Any:
        controller = diffrax.PIDController(1e-4, 1e-5) if adaptive else diffrax.ConstantStepSize()

        def fn(y0: Any) -> Any:
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(spiral),
                solver,
                0.0,
                1.0,
                0.05,
                y0,
                stepsize_controller=controller,
                **{"saveat": STEPS, **options},
            )
            return solution.ys

        return fn, (START,)

    return build


def neural() -> Any:
    field = eqx.nn.MLP(2, 2, 16, 2, activation=jax.nn.softplus, key=jax.random.key(0))

    def fn(y0: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: field(y)),
            diffrax.Tsit5(),
            0.0,
            1.0,
            0.1,
            y0,
            saveat=STEPS,
            stepsize_controller=diffrax.PIDController(1e-3, 1e-6),
        )
        return solution.ys

    return fn, (START,)


def neural_gradient() -> Any:
    field = eqx.nn.MLP(2, 2, 8, 1, activation=jnp.tanh, key=jax.random.key(0))

    def loss(y0: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: field(y)), diffrax.Euler(), 0.0, 1.0, 0.1, y0
        )
        return jnp.sum(solution.ys**2)

    return jax.grad(loss), (START,)


def interpolated() -> Any:
    ts = jnp.linspace(0.0, 1.0, 6)

    def fn(ys: Any, t: Any) -> Any:
        coefficients = diffrax.backward_hermite_coefficients(ts, ys)
        return diffrax.CubicInterpolation(ts, coefficients).evaluate(t)

    return fn, (floats(6, 2), jnp.float32(0.37))


def stochastic() -> Any:
    def fn(y0: Any, key: Any) -> Any:
        motion = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(2,), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: -y),
            diffrax.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(2), motion),
        )
        return diffrax.diffeqsolve(terms, diffrax.EulerHeun(), 0.0, 1.0, 0.1, y0).ys

    return fn, (START, jax.random.PRNGKey(0))


def moved_end() -> Any:
    def fn(y0: Any, end: Any) -> Any:
        controller = diffrax.PIDController(1e-4, 1e-5)
        return diffrax.diffeqsolve(
            diffrax.ODETerm(spiral),
            diffrax.Tsit5(),
            0.0,
            end,
            0.05,
            y0,
            stepsize_controller=controller,
        ).ys

    return fn, (START, jnp.float32(0.7))


def batched() -> Any:
    fn, _ = solved(diffrax.Tsit5(), True)()
    return jax.vmap(fn), (floats(3, 2),)


def ended() -> Any:
    event = diffrax.Event(lambda t, y, args, **_: jnp.sum(jnp.abs(y)) < 1.5)
    return solved(diffrax.Tsit5(), True, saveat=diffrax.SaveAt(t1=True), event=event)()


PROGRAMS = [
    Program("`Euler`, constant steps", solved(diffrax.Euler(), False)),
    Program("`Heun`, constant steps", solved(diffrax.Heun(), False)),
    Program("`Tsit5`, constant steps", solved(diffrax.Tsit5(), False)),
    Program("`Tsit5`, adaptive steps", solved(diffrax.Tsit5(), True), 1e-4),
    Program("`Dopri5`, adaptive steps", solved(diffrax.Dopri5(), True), 1e-4),
    Program(
        "`Dopri8`, adaptive steps, the last value only",
        solved(diffrax.Dopri8(), True, saveat=diffrax.SaveAt(t1=True)),
        1e-4,
    ),
    Program("`Kvaerno3`, adaptive and implicit", solved(diffrax.Kvaerno3(), True), 1e-4),
    Program("`Kvaerno5`, adaptive and implicit", solved(diffrax.Kvaerno5(), True), 1e-4),
    Program("`LeapfrogMidpoint`, constant steps", solved(diffrax.LeapfrogMidpoint(), False)),
    Program("`Tsit5`, the end is an input", moved_end, 1e-4),
    Program("`Tsit5`, vmapped", batched, 1e-4),
    Program("`Tsit5` until an event", ended, 1e-4),
    Program("a neural ODE with `Tsit5`", neural, 1e-4),
    Program("the gradient of a neural ODE", neural_gradient, 1e-4),
    Program("a cubic interpolation", interpolated),
    Program("an SDE with `VirtualBrownianTree`", stochastic, 1e-4),
]
