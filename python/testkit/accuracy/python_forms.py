"""More forms of Python: what is one expression over several lines, and what calls what."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import sample

Traced = tuple[Callable[..., Any], list[Any]]
Unary = Callable[[jax.Array], jax.Array]


@sample
def operators_on_lines_of_their_own() -> Traced:
    """An operator has the line on which its expression begins, not the one it stands on."""

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return (
            jnp.sin(x)  # <- sin:1{jnp.sin(x)} add:1{jnp.sin(x) + jnp.cos(y)}
            + jnp.cos(y)  # <- cos:1{jnp.cos(y)}
        )

    return fn, [(2,), (2,)]


@sample
def a_sum_of_products_over_several_lines() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return (
            x * 2.0  # <- mul:1{x * 2.0} sub:1{x * 2.0 - y / 3.0} add:1{x * 2.0 - y / 3.0 + x % y}
            - y / 3.0  # <- div:1{y / 3.0}
            + x % y  # <- rem{x % y} *
        )

    return fn, [(2,), (2,)]


@sample
def the_same_operator_twice_on_one_line() -> Traced:
    """One line and two columns; the tags tell them apart by what they are of."""

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.exp(x) - jnp.log(y)  # <- exp:1{jnp.exp(x)} log:1{jnp.log(y)} sub:1

    return fn, [(2,), (2,)]


@sample
def calls_with_arguments_over_several_lines() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.maximum(  # <- max:1{jnp.maximum( jnp.sin(x), y * 2.0, )}
            jnp.sin(x),  # <- sin:1{jnp.sin(x)}
            y * 2.0,  # <- mul:1{y * 2.0}
        )

    return fn, [(2,), (2,)]


@sample
def a_chain_of_comparisons() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return (
            (x > y)  # <- gt:1{x > y} and:1{(x > y) & (x != 0.0)}
            & (x != 0.0)  # <- ne:2{x != 0.0}
        )

    return fn, [(2,), (2,)]


@sample
def a_line_with_letters_of_several_bytes() -> Traced:
    """Columns count bytes of UTF-8, so letters before an expression do not move it."""

    def fn(größe: jax.Array) -> jax.Array:
        return jnp.sin(größe) * 2.0  # <- sin:1{jnp.sin(größe)} mul:1{jnp.sin(größe) * 2.0}

    return fn, [(2,)]


@sample
def an_assignment_over_several_lines() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        low, high = (
            jnp.sum(x),  # <- reduce_sum:1{jnp.sum(x)}
            jnp.prod(x),  # <- reduce_prod:1{jnp.prod(x)}
        )
        return high - low  # <- sub:1{high - low}

    return fn, [(2,)]


@sample
def a_dataclass_with_methods() -> Traced:
    @dataclasses.dataclass
    class Affine:
        scale: float
        shift: float = 1.0

        def __call__(self, x: jax.Array) -> jax.Array:
            return x * self.scale + self.shift  # <- mul:2{x * self.scale} add:2

    @dataclasses.dataclass(frozen=True)
    class Net:
        first: Affine
        second: Affine

        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.tanh(self.second(self.first(x)))  # <- tanh:1

    return Net(Affine(2.0), Affine(3.0, 0.5)), [(2,)]


@sample
def a_dataclass_that_is_a_pytree() -> Traced:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        position: jax.Array
        speed: jax.Array

        def moved(self) -> State:
            position = self.position + self.speed  # <- add:1{self.position + self.speed}
            return State(position, self.speed * 0.9)  # <- mul:1{self.speed * 0.9}

    def fn(x: jax.Array) -> Any:
        state = State(x, jnp.cos(x))  # <- cos:1{jnp.cos(x)}
        moved = jax.jit(State.moved)(state)
        return moved.position, moved.speed

    return fn, [(2,)]


@sample
def named_tuples_and_enumerations() -> Traced:
    class Pair(NamedTuple):
        left: jax.Array
        right: jax.Array

        def product(self) -> jax.Array:
            return self.left * self.right  # <- mul:1{self.left * self.right}

    class Wave(enum.Enum):
        SINE = enum.member(jnp.sin)
        COSINE = enum.member(jnp.cos)

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.value(x)  # <- sin:1{self.value(x)} cos:1{self.value(x)}

    def fn(x: jax.Array) -> jax.Array:
        return Pair(Wave.SINE(x), Wave.COSINE(x)).product()

    return fn, [(2,)]


@sample
def a_generator_that_is_sent_values() -> Traced:
    """The line is the generator's while it runs, and the caller's while it does not."""

    def averages() -> Generator[jax.Array | None, jax.Array, None]:
        total: Any = 0.0
        value = yield None
        while True:
            total = total + value  # <- add:2{total + value}
            value = yield total

    def fn(x: jax.Array) -> jax.Array:
        running = averages()
        next(running)
        running.send(x)
        last = running.send(jnp.exp(x))  # <- exp:1{jnp.exp(x)}
        assert last is not None
        return last

    return fn, [(2,)]


@sample
def generators_that_delegate() -> Traced:
    def inner(x: jax.Array) -> Iterator[jax.Array]:
        yield jnp.sin(x)  # <- sin:1{jnp.sin(x)}
        yield jnp.cos(x)  # <- cos:1{jnp.cos(x)}

    def outer(x: jax.Array) -> Iterator[jax.Array]:
        yield from inner(x)
        yield -x  # <- neg:1{-x}

    def fn(x: jax.Array) -> jax.Array:
        return functools.reduce(operator.mul, outer(x))  # <- mul:2

    return fn, [(2,)]


@sample
def functions_of_itertools_and_operator() -> Traced:
    """What C calls has the line of whoever called C."""

    def fn(x: jax.Array) -> jax.Array:
        parts = itertools.accumulate([x, x, x], operator.add)
        *_, total = parts  # <- add:2{*_, total}
        return next(map(jnp.negative, [total]))  # <- neg:1{next(map(jnp.negative, [total]))}

    return fn, [(2,)]


@sample
def partials_of_partials_with_keywords() -> Traced:
    def affine(x: jax.Array, /, scale: float, *, shift: float) -> jax.Array:
        return x * scale - shift  # <- mul:2{x * scale} sub:2{x * scale - shift}

    half = functools.partial(affine, scale=0.5)
    first = functools.partial(half, shift=1.0)
    second = functools.partial(affine, scale=3.0, shift=2.0)
    return lambda x: second(first(x)), [(2,)]


@sample
def match_on_a_container() -> Traced:
    def step(x: jax.Array, how: Any) -> jax.Array:
        match how:
            case {"kind": "scale", "by": by}:
                return x * by  # <- mul:1{x * by}
            case ["shift", by] if by > 0:
                return x + by  # <- add:1{x + by}
            case str(name):
                return getattr(jnp, name)(x)  # <- tanh:1{getattr(jnp, name)(x)}
            case _:
                raise ValueError(how)

    def fn(x: jax.Array) -> jax.Array:
        for how in ({"kind": "scale", "by": 2.0}, ["shift", 1.0], "tanh"):
            x = step(x, how)
        return x

    return fn, [(2,)]


@sample
def decorators_above_each_other() -> Traced:
    def doubled(fn: Unary) -> Unary:
        def call(x: jax.Array) -> jax.Array:
            return fn(x) * 2.0  # <- mul:1{fn(x) * 2.0}

        return call

    def shifted(by: float) -> Callable[[Unary], Unary]:
        def decorate(fn: Unary) -> Unary:
            @functools.wraps(fn)
            def call(x: jax.Array) -> jax.Array:
                return fn(x + by)  # <- add:1{x + by}

            return call

        return decorate

    @doubled
    @jax.jit
    @shifted(1.0)
    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:1{jnp.sin(x)}

    return wave, [(2,)]


@sample
def a_cached_function_and_a_single_dispatch() -> Traced:
    @functools.singledispatch
    def apply(how: Any, x: jax.Array) -> jax.Array:
        raise TypeError(how)

    @apply.register
    def _(how: float, x: jax.Array) -> jax.Array:
        return x * how  # <- mul:1{x * how}

    @apply.register
    def _(how: str, x: jax.Array) -> jax.Array:
        return jnp.abs(x)  # <- abs:1{jnp.abs(x)}

    return lambda x: apply("abs", apply(3.0, x)), [(2,)]


@sample
def context_managers() -> Traced:
    class Meter:
        def __init__(self, x: jax.Array) -> None:
            self.x = x

        def __enter__(self) -> jax.Array:
            return jnp.floor(self.x)  # <- floor:1{jnp.floor(self.x)}

        def __exit__(self, *_: object) -> None:
            self.x = self.x

    @contextlib.contextmanager
    def scaled(x: jax.Array) -> Iterator[jax.Array]:
        yield x * 0.5  # <- mul:1{x * 0.5}

    def fn(x: jax.Array) -> jax.Array:
        with Meter(x) as whole, scaled(x) as half:
            return whole - half  # <- sub:1{whole - half}

    return fn, [(2,)]


@sample
def a_descriptor_and_a_metaclass() -> Traced:
    class Scaled:
        def __get__(self, net: Any, owner: type) -> Unary:
            return lambda x: x * net.scale  # <- mul:1{x * net.scale}

    class Named(type):
        def __call__(cls, *args: Any) -> Any:
            return super().__call__(*args)

    class Net(metaclass=Named):
        scaled = Scaled()

        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.exp(self.scaled(x))  # <- exp:1

    return Net(2.0), [(2,)]


@sample
def starred_and_unpacked_arguments() -> Traced:
    def join(*parts: jax.Array, scale: float) -> jax.Array:
        first, *rest = parts
        for part in rest:
            first = first + part  # <- add:2{first + part}
        return first * scale  # <- mul:1{first * scale}

    def fn(x: jax.Array) -> jax.Array:
        waves = (f(x) for f in (jnp.sin, jnp.cos, jnp.tanh))  # <- sin:1{f(x)} cos:1 tanh:1
        options = {"scale": 2.0}
        return join(*waves, **options)

    return fn, [(2,)]
