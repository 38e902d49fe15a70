"""What an export says about layers in training mode, and about state that it drops."""

from __future__ import annotations

import inspect
import os
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from testkit import bench

from .test_silent_mistakes import said

KEY = jax.random.key(2)
FILE = os.path.relpath(__file__)

DROPS = "the model drops the same elements in every run"
BATCH = "the model uses the statistics of each batch and drops the new running statistics"


def line(fn: Any, text: str) -> str:
    """Return the place of the line of a function that contains a text."""
    lines, start = inspect.getsourcelines(fn)
    (offset,) = (place for place, each in enumerate(lines) if text in each)
    return f"{FILE}:{start + offset}, in {fn.__qualname__}"


def messages(fn: Any, inputs: Any = ((4, 3),)) -> list[str]:
    return said(fn, list(inputs))[1]


class Linen(nn.Module):
    is_training: bool = True

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(2):
            x = nn.BatchNorm(use_running_average=not self.is_training)(x)
        return nn.Dropout(0.5, deterministic=not self.is_training)(x)


LINEN = Linen().init({"params": KEY, "dropout": KEY}, jnp.ones((2, 3)))
LINEN_DROPOUT = (
    f"Dropout is in training mode at {line(Linen.__call__, 'nn.Dropout')}: {DROPS}; "
    "call it with `deterministic=True`"
)


def trained(x: Any, key: Any = KEY) -> Any:
    return Linen().apply(LINEN, x, mutable=["batch_stats"], rngs={"dropout": key})


@pytest.mark.parametrize("fn", [lambda x: trained(x)[0], lambda x: jax.jit(trained)(x)[0]])
def test_a_linen_model_in_training_mode_is_mentioned_with_its_lines(fn: Any) -> None:
    assert messages(fn) == [
        LINEN_DROPOUT,
        f"BatchNorm is in training mode at {line(Linen.__call__, 'nn.BatchNorm')}: {BATCH}; "
        "call it with `use_running_average=True`",
        "the function writes `batch_stats.BatchNorm_0.mean`, `batch_stats.BatchNorm_0.var`, "
        "`batch_stats.BatchNorm_1.mean`, `batch_stats.BatchNorm_1.var`, but the model drops the "
        "new values: return them, as in "
        "`y, updates = model.apply(variables, x, mutable=['batch_stats'])`",
    ]


def test_a_training_step_on_purpose_is_not_mentioned() -> None:
    """The statistics are returned, and the key is an input."""
    assert messages(trained) == [LINEN_DROPOUT]
    assert messages(lambda x, key: trained(x, key), [(4, 3), KEY]) == []


def test_a_linen_model_that_is_not_trained_is_not_mentioned() -> None:
    assert messages(lambda x: Linen(is_training=False).apply(LINEN, x)) == []


class Nnx(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norms = nnx.List([nnx.BatchNorm(3, rngs=rngs)])
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        for norm in self.norms:
            x = norm(x)
        return self.dropout(x)


NNX_DROPOUT = (
    f"Dropout is in training mode at {line(Nnx.__call__, 'self.dropout')}: {DROPS}; "
    "call `model.eval()` before the export"
)


def test_an_nnx_model_in_training_mode_is_mentioned_with_its_lines_and_variables() -> None:
    model = Nnx()
    assert messages(model) == [
        NNX_DROPOUT,
        f"BatchNorm is in training mode at {line(Nnx.__call__, 'norm(x)')}: {BATCH}; "
        "call `model.eval()` before the export",
        "the function writes `norms.0.mean`, `norms.0.var`, but the model drops the new values: "
        "return them, as in `return y, nnx.state(model)`",
    ]
    model.eval()
    assert messages(model) == []


def test_nnx_variables_that_are_returned_are_not_mentioned() -> None:
    model = Nnx()

    def step(x: Any) -> Any:
        y = model(x)
        return y, nnx.state(model, nnx.BatchStat)

    assert messages(step) == [NNX_DROPOUT]


class Counter(nnx.Module):
    def __init__(self) -> None:
        self.count = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x: Any) -> Any:
        self.count[...] += 1
        return x + self.count[...]


def test_any_nnx_variable_that_is_written_is_mentioned() -> None:
    assert messages(Counter()) == [
        "the function writes `count`, but the model drops the new values: "
        "return them, as in `return y, nnx.state(model)`"
    ]


class Equinox(eqx.Module):
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout

    def __call__(self, x: Any, state: Any) -> Any:
        x, state = self.norm(x, state)
        return self.dropout(x, key=KEY), state


def test_an_equinox_model_in_training_mode_is_mentioned_with_its_line() -> None:
    model, state = eqx.nn.make_with_state(Equinox)(
        eqx.nn.BatchNorm(3, "batch", mode="batch"), eqx.nn.Dropout(0.5)
    )

    def predict(model: Any) -> Any:
        call = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
        return lambda x: call(x, state)[0]

    assert messages(predict(model)) == [
        f"Dropout is in training mode at {line(Equinox.__call__, 'self.dropout')}: {DROPS}; "
        "export `equinox.nn.inference_mode(model)`",
        f"BatchNorm is in training mode at {line(Equinox.__call__, 'self.norm')}: {BATCH}; "
        "export `equinox.nn.inference_mode(model)`",
    ]
    assert messages(predict(eqx.nn.inference_mode(model))) == []


class Remembering(eqx.Module):
    layers: list[eqx.nn.StateIndex]

    def __call__(self, x: Any, state: Any) -> Any:
        for layer in self.layers:
            state = state.set(layer, state.get(layer) + x)
        return x * 2.0, state


def test_any_state_of_equinox_that_is_dropped_is_mentioned() -> None:
    def make() -> Any:
        indices = [eqx.nn.StateIndex(jnp.zeros(3)) for _ in range(2)]
        return eqx.nn.make_with_state(Remembering)(indices)

    model, state = make()
    before = vars(state).copy()
    dropped = [
        "the function writes `state`, but the model drops the new values: "
        "return them, as in `y, state = model(x, state)`"
    ]
    assert messages(lambda x: model(x, state)[0], [(3,)]) == dropped
    assert messages(lambda x: model(x, state), [(3,)]) == []
    assert messages(lambda x, state: model(x, state)[0], [(3,), state]) == dropped
    assert messages(lambda x, state: model(x, state), [(3,), state]) == []
    # Equinox makes a state invalid when it is written.
    assert vars(state) == before


def haiku(x: Any, is_training: bool) -> Any:
    x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, is_training)
    return hk.dropout(hk.next_rng_key(), 0.5, x) if is_training else x


def test_a_haiku_model_in_training_mode_is_mentioned_with_its_line() -> None:
    model = hk.transform_with_state(haiku)
    weights, state = model.init(KEY, jnp.ones((2, 3)), True)
    dropout = (
        f"Dropout is in training mode at {line(haiku, 'hk.dropout')}: {DROPS}; "
        "do not call `hk.dropout` in inference mode"
    )
    assert messages(lambda x: model.apply(weights, state, KEY, x, True)[0]) == [
        dropout,
        f"BatchNorm is in training mode at {line(haiku, 'hk.BatchNorm')}: {BATCH}; "
        "call it with `is_training=False`",
        "the function writes `batch_norm/~/mean_ema.counter`, `batch_norm/~/mean_ema.hidden`, "
        "`batch_norm/~/mean_ema.average`, `batch_norm/~/var_ema.counter`, "
        "`batch_norm/~/var_ema.hidden`, `batch_norm/~/var_ema.average`, but the model drops the "
        "new values: return them, as in `y, state = model.apply(params, state, rng, x)`",
    ]
    assert messages(lambda x: model.apply(weights, state, KEY, x, True)) == [dropout]
    assert messages(lambda x: model.apply(weights, state, None, x, False)[0]) == []
    assert (
        messages(lambda x, state: model.apply(weights, state, None, x, False)[0], [(2, 3), state])
        == []
    )


def counting(x: Any) -> Any:
    calls = hk.get_state("calls", (), init=jnp.zeros)
    hk.set_state("calls", calls + x[0, 0])
    hk.set_state("limit", hk.get_state("limit", (), init=jnp.ones))
    return x * hk.get_state("calls")


def counting_twice(x: Any) -> Any:
    return counting(counting(x))


def test_a_state_of_haiku_that_is_written_twice_is_kept_with_its_last_value() -> None:
    model = hk.transform_with_state(counting_twice)
    weights, state = model.init(KEY, jnp.ones((2, 3)))
    assert messages(lambda x: model.apply(weights, state, None, x)) == []
    (message,) = messages(lambda x: model.apply(weights, state, None, x)[0])
    assert "writes `~.calls`, but" in message


def test_any_state_of_haiku_that_is_dropped_is_mentioned() -> None:
    model = hk.transform_with_state(counting)
    weights, state = model.init(KEY, jnp.ones((2, 3)))
    advice = "return them, as in `y, state = model.apply(params, state, rng, x)`"
    for inputs in ([(2, 3)], [(2, 3), state]):
        assert messages(lambda x, s=state: model.apply(weights, s, None, x)[0], inputs) == [
            f"the function writes `~.calls`, but the model drops the new values: {advice}"
        ]
    assert messages(lambda x: model.apply(weights, state, None, x)) == []


def test_a_keras_model_in_training_mode_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    layers = keras.layers
    model = keras.Sequential([layers.Input((3,)), layers.BatchNormalization(), layers.Dropout(0.5)])
    weights = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    before = [np.asarray(value) for value in others]
    for predict in (
        lambda x: model.stateless_call(weights, others, x, training=True)[0],
        lambda x: model(x, training=True),
    ):
        dropout, norm, *dropped = messages(predict)
        assert dropout.startswith("Dropout is in training mode at ")
        assert norm.startswith("BatchNorm is in training mode at ")
        assert dropout.endswith("; call the model with `training=False`")
        assert norm.endswith("; call the model with `training=False`")
    (path, *_) = (each.path for each in model.non_trainable_variables)
    assert dropped[0].startswith(f"the function writes `{path}`, ")
    assert messages(model) == []
    after = [np.asarray(variable.value) for variable in model.non_trainable_variables]
    assert all(map(np.array_equal, before, after))


def test_a_keras_model_that_the_trace_builds_keeps_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(4)])
    x = np.ones((2, 3), np.float32)
    (found,) = bench.run(bench.convert(lambda x: model(x), [x]), [x])
    np.testing.assert_allclose(found, np.asarray(model(x)), rtol=1e-5)


def own(x: Any) -> Any:
    def dropout(x: Any) -> Any:
        return jnp.where(jax.random.bernoulli(KEY, 0.5, x.shape), x, 0)

    return dropout(x)


def test_a_dropout_function_of_the_user_is_mentioned_also_in_a_loop() -> None:
    (message,) = messages(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: own(x), x))
    assert message.startswith(f"Dropout is in training mode at {FILE}:")
    assert message.endswith(f", in own.<locals>.dropout: {DROPS}")


def test_random_numbers_elsewhere_are_not_mentioned() -> None:
    assert messages(lambda x: x + jax.random.normal(KEY, x.shape)) == []


class Average(nn.Module):
    """Keeps an average of its inputs, and the latest of them."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        average = self.variable("memory", "average", jnp.zeros, (3,))
        latest = self.variable("inputs", "latest", jnp.zeros, (3,))
        self.sow("intermediates", "rows", x)
        average.value = 0.9 * average.value + 0.1 * x.mean(0)
        latest.value = x[-1]
        return x - average.value


class Averages(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return Average(name="second")(Average(name="first")(x))


AVERAGES = Averages().init(KEY, jnp.ones((4, 3)))
STATE = ["memory", "inputs", "intermediates"]


def test_a_branch_may_compute_what_nothing_reads() -> None:
    def fn(x: jax.Array) -> jax.Array:
        def summed(x: jax.Array) -> jax.Array:
            x.sum()
            return x

        return jax.lax.cond(x[0] > 0, summed, lambda x: x, x)

    x = np.array([1.0, 2.0], np.float32)
    (found,) = bench.run(bench.convert(fn, [x]), [x])
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("transform", [lambda fn: fn, jax.jit, jax.checkpoint])
def test_a_variable_of_a_linen_module_that_is_dropped_is_mentioned(transform: Any) -> None:
    def step(x: Any) -> Any:
        return transform(lambda x: Averages().apply(AVERAGES, x, mutable=STATE))(x)

    def dropped(*names: str) -> str:
        collections = sorted({name.partition(".")[0] for name in names})
        return (
            f"the function writes {', '.join(f'`{name}`' for name in names)}, but the model drops "
            "the new values: return them, as in "
            f"`y, updates = model.apply(variables, x, mutable={collections!r})`"
        )

    def with_averages(x: Any) -> Any:
        y, updates = step(x)
        return y, updates["memory"]

    first = ("memory.first.average", "inputs.first.latest")
    second = ("memory.second.average", "inputs.second.latest")
    assert messages(lambda x: step(x)[0]) == [dropped(*first, *second)]
    assert messages(with_averages) == [dropped(first[1], second[1])]
    assert messages(step) == []


class Twice(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        average = Average(name="average")
        return average(average(x))


def test_a_variable_of_linen_that_is_written_twice_is_kept_with_its_last_value() -> None:
    variables = Twice().init(KEY, jnp.ones((4, 3)))

    def step(x: Any) -> Any:
        return Twice().apply(variables, x, mutable=["memory", "inputs"])

    assert messages(step) == []
    (message,) = messages(lambda x: step(x)[0])
    assert "`memory.average.average`, `inputs.average.latest`," in message


def test_a_function_that_initializes_its_model_writes_no_state() -> None:
    def fn(x: Any) -> Any:
        variables = Averages().init(KEY, x)
        return Averages().apply({**AVERAGES, "unused": variables["memory"]}, x, mutable=STATE)

    assert messages(fn) == []


def test_writing_state_without_an_export_is_as_before() -> None:
    def names(x: Any) -> Any:
        jaxpr = jax.make_jaxpr(lambda x: Averages().apply(AVERAGES, x, mutable=STATE))(x)
        return [eqn.primitive.name for eqn in jaxpr.jaxpr.eqns]

    messages(lambda x: Averages().apply(AVERAGES, x, mutable=STATE)[0])
    assert "name" not in names(jnp.ones((4, 3)))


class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.MultiHeadDotProductAttention(2, decode=True, name="attention")(x)


def test_a_cache_of_linen_that_is_dropped_is_mentioned() -> None:
    variables = Decoder().init(KEY, jnp.ones((2, 5, 8)))

    def step(x: Any) -> Any:
        return Decoder().apply(variables, x, mutable=["cache"])

    assert messages(lambda x: step(x)[0], [(2, 1, 8)]) == [
        "the function writes `cache.attention.cached_key`, `cache.attention.cached_value`, "
        "`cache.attention.cache_index`, but the model drops the new values: return them, as in "
        "`y, updates = model.apply(variables, x, mutable=['cache'])`"
    ]
    assert messages(step, [(2, 1, 8)]) == []


def test_a_cache_of_nnx_that_is_dropped_is_mentioned() -> None:
    model = nnx.MultiHeadAttention(2, 8, decode=True, rngs=nnx.Rngs(0))
    model.init_cache((2, 5, 8))
    assert messages(lambda x: model(x), [(2, 1, 8)]) == [
        "the function writes `cached_key`, `cached_value`, `cache_index`, but the model drops the "
        "new values: return them, as in `return y, nnx.state(model)`"
    ]
    assert model.cache_index is not None
    assert int(model.cache_index[...]) == 0
