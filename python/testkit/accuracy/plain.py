"""The forms that a Python program has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from . import sample

Traced = tuple[Callable[..., Any], list[Any]]


@sample
def nested_functions() -> Traced:
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:1

    def middle(x: jax.Array) -> jax.Array:
        y = inner(x)
        return y * 2.0  # <- mul:1

    def outer(x: jax.Array) -> jax.Array:
        return jnp.exp(middle(x))  # <- exp:1

    return outer, [(2,)]


@sample
def a_helper_called_on_two_lines() -> Traced:
    def helper(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)  # <- tanh:2

    def fn(x: jax.Array) -> jax.Array:
        y = helper(x)
        return helper(y) + 1.0  # <- add:1

    return fn, [(2,)]


@sample
def a_closure() -> Traced:
    def scaled(scale: float) -> Callable[[jax.Array], jax.Array]:
        def scale_it(x: jax.Array) -> jax.Array:
            return x * scale  # <- mul:2

        return scale_it

    double, triple = scaled(2.0), scaled(3.0)
    return lambda x: double(triple(x)), [(2,)]


@sample
def methods() -> Traced:
    class Net:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def hidden(self, x: jax.Array) -> jax.Array:
            return jnp.cos(x)  # <- cos

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.hidden(x) * self.scale  # <- mul

    return Net(3.0), [(2,)]


@sample
def a_bound_method() -> Traced:
    class Net:
        def forward(self, x: jax.Array) -> jax.Array:
            return -x  # <- neg

    return Net().forward, [(2,)]


@sample
def class_and_static_methods() -> Traced:
    class Ops:
        @classmethod
        def first(cls, x: jax.Array) -> jax.Array:
            return cls.second(jnp.floor(x))  # <- floor

        @staticmethod
        def second(x: jax.Array) -> jax.Array:
            return jnp.ceil(x)  # <- ceil

    return Ops.first, [(2,)]


@sample
def inherited_methods() -> Traced:
    class Base:
        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.abs(self.body(x))  # <- abs

        def body(self, x: jax.Array) -> jax.Array:
            return x

    class Derived(Base):
        def body(self, x: jax.Array) -> jax.Array:
            return super().body(x) - 1.0  # <- sub

    return Derived(), [(2,)]


@sample
def properties_and_operators() -> Traced:
    class Wave:
        def __init__(self, x: jax.Array) -> None:
            self.x = x

        @property
        def sine(self) -> jax.Array:
            return jnp.sin(self.x)  # <- sin

        @functools.cached_property
        def cosine(self) -> jax.Array:
            return jnp.cos(self.x)  # <- cos

        def __matmul__(self, other: Wave) -> jax.Array:
            return self.sine * other.cosine  # <- mul

        def __getitem__(self, power: int) -> jax.Array:
            return self.x**power  # <- integer_pow

    def fn(x: jax.Array) -> jax.Array:
        wave = Wave(x)
        return (wave @ wave) + wave[3]  # <- add

    return fn, [(2,)]


@sample
def lambdas() -> Traced:
    steps = [
        lambda x: jnp.sin(x),  # <- sin
        lambda x: x * 2.0,  # <- mul
        lambda x: jnp.exp(x),  # <- exp
    ]
    return lambda x: functools.reduce(lambda value, step: step(value), steps, x), [(2,)]


@sample
def a_list_comprehension() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        parts = [
            jnp.sin(x) * scale  # <- sin mul:2
            for scale in (2.0, 3.0)
        ]
        return parts[0] + parts[1]  # <- add:1

    return fn, [(2,)]


@sample
def dict_and_set_comprehensions() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        waves = {
            name: wave(x)  # <- sin cos
            for name, wave in {"sine": jnp.sin, "cosine": jnp.cos}.items()
        }
        return waves["sine"] - waves["cosine"]  # <- sub

    return fn, [(2,)]


@sample
def generators() -> Traced:
    def powers(x: jax.Array) -> Iterator[jax.Array]:
        for _ in range(3):
            x = x * 1.5  # <- mul:3
            yield x

    def fn(x: jax.Array) -> jax.Array:
        total = x
        for power in powers(x):
            total = total + power  # <- add:3
        return total

    return fn, [(2,)]


@sample
def generator_expressions() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        waves = (
            jnp.tanh(x + shift)  # <- add:2 tanh:2
            for shift in (1.0, 2.0)
        )
        return functools.reduce(jnp.multiply, waves)  # <- mul:1

    return fn, [(2,)]


@sample
def decorators() -> Traced:
    def squared(fn: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        @functools.wraps(fn)
        def wrapper(x: jax.Array) -> jax.Array:
            y = fn(x)
            return y * y  # <- mul

        return wrapper

    @squared
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin

    return sine, [(2,)]


@sample
def a_decorator_that_is_a_class() -> Traced:
    class Scaled:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __call__(self, fn: Callable[[jax.Array], jax.Array]) -> Any:
            def wrapper(x: jax.Array) -> jax.Array:
                return fn(x) / self.scale  # <- div

            return wrapper

    @Scaled(3.0)
    def log(x: jax.Array) -> jax.Array:
        return jnp.log(x)  # <- log

    return log, [(2,)]


@sample
def partials() -> Traced:
    def affine(scale: float, x: jax.Array, *, shift: float) -> jax.Array:
        y = x * scale  # <- mul:1
        return y + shift  # <- add:1

    return functools.partial(functools.partial(affine, 2.0), shift=1.0), [(2,)]


@sample
def partial_methods() -> Traced:
    class Net:
        def scaled(self, x: jax.Array, scale: float) -> jax.Array:
            return x * scale  # <- mul:2

        double = functools.partialmethod(scaled, scale=2.0)
        triple = functools.partialmethod(scaled, scale=3.0)

    def fn(x: jax.Array) -> jax.Array:
        net = Net()
        return net.double(net.triple(x))

    return fn, [(2,)]


@sample
def recursion() -> Traced:
    def power(x: jax.Array, n: int) -> jax.Array:
        if n == 0:
            return jnp.cos(x)  # <- cos:1
        return power(x, n - 1) * x  # <- mul:4

    return lambda x: power(x, 4), [(2,)]


@sample
def loops() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        for _ in range(3):
            x = jnp.sin(x)  # <- sin:3
        while x.ndim < 3:
            x = x[None] + 1.0  # <- add:2 *
        return x

    return fn, [(2,)]


@sample
def an_expression_over_several_lines() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.maximum(  # <- max:1
            jnp.sin(x),  # <- sin
            jnp.cos(  # <- cos
                jnp.exp(y),  # <- exp
            ),
        )

    return fn, [(2,), (2,)]


@sample
def a_chain_of_methods() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        return (
            jnp.abs(x)  # <- abs
            .reshape(2, 3)  # <- reshape
            .transpose()  # <- transpose
            .sum(axis=0)  # <- reduce_sum
        )

    return fn, [(6,)]


@sample
def several_operations_on_one_line() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.exp(jnp.sin(x) * 2.0 + 1.0) - x / 3.0  # <- sin mul add exp sub div

    return fn, [(2,)]


@sample
def augmented_assignments() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = x
        y += 1.0  # <- add
        y *= x  # <- mul
        y -= 3.0  # <- sub
        return y

    return fn, [(2,)]


@sample
def conditional_expressions_and_walrus() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = (
            jnp.sin(x)  # <- sin
            if x.ndim
            else jnp.cos(x)
        )
        if (z := jnp.exp(y)).ndim:  # <- exp
            return z + y  # <- add
        return z

    return fn, [(2,)]


@sample
def try_with_and_match() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        try:
            y = jnp.sin(x)  # <- sin
            raise KeyError
        except KeyError:
            y = jnp.exp(y)  # <- exp
        finally:
            z = jnp.cos(x)  # <- cos
        match x.shape:
            case (2,):
                return y + z  # <- add
            case _:
                return y

    return fn, [(2,)]


@sample
def containers_in_and_out() -> Traced:
    def fn(batch: dict[str, jax.Array], scale: tuple[jax.Array, ...]) -> dict[str, jax.Array]:
        return {
            "sine": jnp.sin(batch["x"]),  # <- sin
            "sum": batch["y"] + scale[0],  # <- add
        }

    return fn, [{"x": (2,), "y": (3,)}, ((3,),)]


@sample
def the_same_value_asked_for_twice() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        first = x + y  # <- add:1
        second = x + y  # <- add:1
        return first * second  # <- mul

    return fn, [(2,), (2,)]


@sample
def unicode_names() -> Traced:
    def größe(ψ: jax.Array) -> jax.Array:
        return jnp.sin(ψ)  # <- sin

    return größe, [(2,)]
