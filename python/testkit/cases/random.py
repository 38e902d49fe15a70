"""Random numbers: the bits are JAX's to the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.extend.random import threefry2x32_p

from .case import Case, Limit

KEY = random.key(42)
KEYS = random.split(random.key(7), 6).reshape(2, 3)
RAW = np.asarray(random.PRNGKey(2**31 - 5))
INDICES = np.arange(5, dtype=np.int32)
SHAPES = np.geomspace(0.1, 20.0, 20, dtype=np.float32).reshape(4, 5)
X = np.linspace(-2.0, 2.0, 24, dtype=np.float32).reshape(4, 6)
WORDS = np.arange(12, dtype=np.uint32).reshape(3, 4) * np.uint32(0x9E3779B9)
CLOSE = {"rtol": 2e-6, "atol": 1e-6}


def bits(shape: tuple[int, ...], width: str = "uint32") -> Callable[[Any], Any]:
    return lambda key: random.bits(key, shape, jnp.dtype(width))


def through_a_loop(key: Any) -> Any:
    def body(key: Any, _: Any) -> Any:
        key, draw = random.split(key)
        return key, random.uniform(draw, (3,))

    return lax.scan(body, key, None, length=3)


def through_a_choice(key: Any, x: Any) -> Any:
    other = lax.cond(x[0, 0] > 0, lambda k: random.fold_in(k, 1), lambda k: k, key)
    return random.bits(jnp.where(x[0, 0] > 0, other, key), (2,))


def moved(keys: Any) -> Any:
    """Every way of moving keys about."""
    joined = jnp.concatenate([keys, keys[:1]]).T[::-1].reshape(-1)[None, 1:7:2]
    return random.key_data(joined), random.key_data(jnp.stack([joined, joined], 1))


def gamma(key: Any, a: Any) -> Any:
    return random.gamma(key, a, dtype=a.dtype)


def dropout(key: Any, x: Any) -> Any:
    keep = random.bernoulli(key, 0.7, x.shape)
    return jnp.where(keep, x / 0.7, 0.0)


def until_small(key: Any) -> Any:
    def again(state: Any) -> Any:
        key, _ = random.split(state[0])
        return key, random.uniform(key)

    return lax.while_loop(lambda state: state[1] > 0.2, again, (key, jnp.float32(1.0)))


def seeded(seed: Any) -> Any:
    return random.key_data(random.key(seed))


CASES = [
    *(
        Case(f"random.bits.{width}", bits((3, 5), width), (KEY,), double=True)
        for width in ("uint8", "uint16", "uint32", "uint64")
    ),
    Case("random.bits", bits((7,)), (KEY,), covers=("random_bits",)),
    Case("random.bits.scalar", bits(()), (KEY,)),
    Case("random.bits.empty", bits((0, 3)), (KEY,)),
    Case("random.bits.many", bits((30, 40)), (KEY,)),
    Case("random.bits.vmap", jax.vmap(jax.vmap(bits((4,)))), (KEYS,)),
    Case("random.bits.raw", bits((4,)), (RAW,), covers=("random_wrap",)),
    Case("random.split", lambda k: random.split(k, (2, 3)), (KEY,), covers=("random_split",)),
    Case("random.split.raw", lambda k: random.split(k), (RAW,), covers=("random_unwrap",)),
    Case("random.split.one", lambda k: random.split(k, ()), (KEY,)),
    Case("random.split.vmap", jax.vmap(random.split), (KEYS[0],)),
    Case("random.fold_in", random.fold_in, (KEY, np.int32(-3)), covers=("random_fold_in",)),
    Case("random.fold_in.u8", random.fold_in, (KEY, np.uint8(200))),
    Case("random.fold_in.vmap", jax.vmap(random.fold_in, (None, 0)), (KEY, INDICES)),
    Case("random.fold_in.vmap_2", jax.vmap(random.fold_in), (KEYS[0], INDICES[:3])),
    Case("random.seed", seeded, (np.int32(-7),), covers=("random_seed",)),
    Case("random.seed.i64", seeded, (np.int64(-(2**40) + 3),), double=True),
    Case("random.seed.u64", seeded, (np.uint64(2**63 + 12345),), double=True),
    Case("random.seed.i8", seeded, (np.int8(-2),)),
    Case("random.seed.known", lambda x: x + random.uniform(random.key(3), (4, 6)), (X,)),
    Case("random.clone", lambda k: bits((2,))(random.clone(k)), (KEY,), covers=("random_clone",)),
    Case(
        "random.threefry2x32",
        lambda k, x: threefry2x32_p.bind(k[0], k[1], x, x + 5),
        (RAW, WORDS),
        covers=("threefry2x32",),
    ),
    Case("random.keys.moved", moved, (KEYS,)),
    Case("random.keys.scan", through_a_loop, (KEY,)),
    Case("random.keys.while", until_small, (KEY,)),
    Case("random.keys.cond", through_a_choice, (KEY, X)),
    Case("random.keys.cond_true", through_a_choice, (KEY, -X)),
    Case("random.uniform", lambda k: random.uniform(k, (50,)), (KEY,)),
    Case("random.uniform.range", lambda k: random.uniform(k, (50,), minval=-3, maxval=5), (KEY,)),
    Case("random.uniform.f16", lambda k: random.uniform(k, (50,), jnp.float16), (KEY,)),
    Case("random.uniform.bf16", lambda k: random.uniform(k, (50,), jnp.bfloat16), (KEY,)),
    Case("random.uniform.f64", lambda k: random.uniform(k, (50,), float), (KEY,), double=True),
    Case("random.normal", lambda k: random.normal(k, (400,)), (KEY,), **CLOSE),
    Case("random.truncated", lambda k: random.truncated_normal(k, -1, 2, (40,)), (KEY,), **CLOSE),
    Case("random.bernoulli", lambda k: random.bernoulli(k, 0.3, (50,)), (KEY,)),
    Case("random.dropout", dropout, (KEY, X), **CLOSE),
    Case("random.randint", lambda k: random.randint(k, (50,), -5, 1000), (KEY,)),
    Case("random.randint.u8", lambda k: random.randint(k, (50,), 0, 255, jnp.uint8), (KEY,)),
    Case("random.permutation", lambda k: random.permutation(k, 20), (KEY,)),
    Case("random.permutation.rows", lambda k, x: random.permutation(k, x, 1, True), (KEY, X)),
    Case("random.categorical", lambda k, x: random.categorical(k, x), (KEY, X)),
    Case("random.gumbel", lambda k: random.gumbel(k, (50,)), (KEY,), **CLOSE),
    Case("random.exponential", lambda k: random.exponential(k, (50,)), (KEY,), **CLOSE),
    Case("random.laplace", lambda k: random.laplace(k, (50,)), (KEY,), **CLOSE),
    Case("random.cauchy", lambda k: random.cauchy(k, (50,)), (KEY,), rtol=1e-5),
    Case("random.logistic", lambda k: random.logistic(k, (50,)), (KEY,), rtol=2e-5, atol=1e-6),
    Case("random.gamma", gamma, (KEY, SHAPES), covers=("random_gamma",), **CLOSE),
    Case("random.gamma.f64", gamma, (KEY, SHAPES.astype(np.float64)), double=True, rtol=1e-9),
    Case("random.gamma.f16", gamma, (KEY, SHAPES[:2].astype(np.float16)), rtol=2e-2, atol=1e-3),
    Case("random.gamma.bf16", gamma, (KEY, jnp.asarray(SHAPES[:2], jnp.bfloat16)), rtol=2e-2),
    Case("random.gamma.empty", gamma, (KEY, SHAPES[:0])),
    Case("random.gamma.scalar", gamma, (KEY, np.float32(2.5)), **CLOSE),
    Case("random.gamma.vmap", jax.vmap(gamma), (KEYS[0], SHAPES[:3]), **CLOSE),
    Case("random.loggamma", random.loggamma, (KEY, SHAPES * 0.1), **CLOSE),
    Case("random.beta", lambda k: random.beta(k, 2.0, 0.5, (30,)), (KEY,), rtol=1e-5),
    Case("random.dirichlet", lambda k: random.dirichlet(k, X[0] + 3), (KEY,), rtol=1e-5),
    Case("random.t", lambda k: random.t(k, 3.0, (30,)), (KEY,), rtol=1e-5, atol=1e-6),
    Case("random.poisson", lambda k: random.poisson(k, SHAPES * 9, (4, 5)), (KEY,)),
    Case("random.rademacher", lambda k: random.rademacher(k, (50,)), (KEY,)),
]

LIMITS = [
    Limit("random.bits.rbg", bits((4,)), (random.key(1, impl="rbg"),), "random_bits of key<rbg>"),
]
