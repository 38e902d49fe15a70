"""The cost of a model: compared with XLA, with counts by hand, and with models of fixed sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax2onnx
from jax2onnx import ConfigError
from testkit.models import networks
from testkit.models.counted import PROGRAMS, attention, layer_norm

WEIGHT = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def total(function: Callable[..., Any], *shapes: Any, **sizes: int) -> Any:
    model = jax2onnx.to_onnx(function, list(shapes))
    return jax2onnx.cost(model, sizes).total


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_without_loops_has_the_flops_that_xla_counts(name: str) -> None:
    function, operands = PROGRAMS[name]()
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    # XLA does not guard a maximum against NaN.
    model = jax2onnx.to_onnx(function, specs, nan="ignore")
    counted = jax2onnx.cost(model)
    assert not counted.uncounted
    assert counted.total.flops is not None
    analysis = jax.jit(function).lower(*specs).cost_analysis()
    assert counted.total.flops == pytest.approx(analysis["flops"], rel=0.05)


def test_a_model_without_passes_costs_about_the_same() -> None:
    shapes = [(2, 24, 4, 32)] * 3
    whole = jax2onnx.cost(jax2onnx.to_onnx(attention, shapes)).total.flops
    plain = jax2onnx.cost(jax2onnx.to_onnx(attention, shapes, optimize=False)).total.flops
    assert whole == pytest.approx(plain, rel=0.02)


def step(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    state = jnp.tanh(state @ WEIGHT) + x
    return state, state


#: The products of a step with a row of 8, its sums, and their tanh.
PER_STEP = 2 * 8 * 8 + 8


def test_a_scan_costs_its_body_in_each_step() -> None:
    def scanned(x: jax.Array) -> jax.Array:
        return lax.scan(step, jnp.ones(8), x)[0]

    counted = total(scanned, (20, 8))
    assert counted.flops == 20 * PER_STEP
    assert counted.transcendentals == 20 * 8
    assert total(scanned, ("T", 8)).formulas["flops"] == f"{PER_STEP}*T"


def test_a_while_loop_with_a_known_count_costs_its_body_in_each_step() -> None:
    def repeated(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 50, lambda _, x: jnp.tanh(x @ WEIGHT), x)

    counted = total(repeated, (3, 8))
    assert counted.flops == 50 * 2 * 3 * 8 * 8
    assert counted.transcendentals == 50 * 3 * 8


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize(
    ("start", "condition", "step", "iterations"),
    [
        (0, lambda n, _: n < 17, 3, 6),
        (21, lambda n, _: n > 0, -2, 11),
        (1, lambda n, _: n <= 10, 2, 5),
        (0, lambda n, _: n != 12, 2, 6),
        (0, lambda n, length: n < length, 1, 9),
        (0, lambda n, length: n < length // 2, 1, 4),
        (2, lambda n, length: n < 2 * length, 3, 6),
    ],
)
def test_a_loop_that_a_counter_ends_costs_its_body_in_each_iteration(
    start: int, condition: Any, step: int, iterations: int, optimize: bool
) -> None:
    def repeated(x: jax.Array) -> jax.Array:
        length = x.shape[0]

        def body(state: Any) -> Any:
            return state[0] + step, jnp.tanh(state[1] @ WEIGHT)

        return lax.while_loop(lambda state: condition(state[0], length), body, (start, x))[1]

    model = jax2onnx.to_onnx(repeated, [("T", 8)], optimize=optimize)
    counted = jax2onnx.cost(model, {"T": 9}).total
    assert counted.flops == iterations * 2 * 9 * 8 * 8
    assert counted.transcendentals == iterations * 9 * 8


def test_a_loop_over_an_axis_has_the_size_in_its_formula() -> None:
    def repeated(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, x.shape[0], lambda i, state: jnp.tanh(state @ WEIGHT) + x[i], x[0])

    assert total(repeated, ("T", 8)).formulas["flops"] == f"{2 * 8 * 8 + 8}*T"


def test_weights_that_a_runtime_casts_when_it_loads_the_model_cost_nothing() -> None:
    weight = np.ones((64, 64), np.float16)
    counted = jax2onnx.cost(
        jax2onnx.to_onnx(lambda x: x @ weight, [jax.ShapeDtypeStruct((5, 64), np.float16)])
    )
    assert counted.total.flops is not None
    assert counted.total.flops < 2 * 5 * 64 * 64 + 64 * 64
    assert counted.total.weights == 64 * 64 * 2


def test_nested_loops_multiply() -> None:
    def nested(x: jax.Array) -> jax.Array:
        def outer(state: jax.Array, _: None) -> tuple[jax.Array, None]:
            def inner(state: jax.Array, _: None) -> tuple[jax.Array, None]:
                return jnp.sin(state @ WEIGHT), None

            return lax.scan(inner, jnp.cos(state), None, length=30)[0], None

        return lax.scan(outer, x, None, length=40)[0]

    counted = total(nested, (2, 8))
    assert counted.flops == 40 * 30 * 2 * 2 * 8 * 8
    assert counted.transcendentals == 40 * 2 * 8 + 40 * 30 * 2 * 8


def test_a_loop_whose_end_depends_on_numbers_has_a_symbol_for_its_steps() -> None:
    def until(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: jnp.sum(x) < 10, lambda x: x + x @ WEIGHT, x)

    model = jax2onnx.to_onnx(until, [(8,)])
    counted = jax2onnx.cost(model)
    assert counted.total.flops is None
    (symbol,) = counted.symbols
    assert (symbol.name, symbol.kind, symbol.size) == ("steps", "steps", None)
    two, three = (jax2onnx.cost(model, {"steps": steps}).total.flops for steps in (2, 3))
    # The product, the two sums, and the comparison.
    assert two is not None
    assert three is not None
    assert three - two == 2 * 8 * 8 + 8 + 7 + 1


def test_a_branch_costs_what_the_larger_one_costs() -> None:
    def branched(x: jax.Array) -> jax.Array:
        return lax.cond(x[0, 0] > 0, lambda x: x @ WEIGHT @ WEIGHT, lambda x: x + 1, x)

    counted = jax2onnx.cost(jax2onnx.to_onnx(branched, [(4, 8)]))
    assert counted.branches == 1
    assert counted.total.flops == 2 * (2 * 4 * 8 * 8) + 1


def test_a_function_costs_for_each_call() -> None:
    @jax2onnx.onnx_function
    def block(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ WEIGHT)

    counted = total(lambda x: block(block(block(x))), ("B", 8))
    assert counted.formulas["flops"] == f"{3 * 2 * 8 * 8}*B"


def attended(x: jax.Array) -> jax.Array:
    x = layer_norm(x @ WEIGHT, jnp.ones(8), jnp.zeros(8))
    return attention(x[:, :, None], x[:, :, None], x[:, :, None])


def recurrent(x: jax.Array) -> jax.Array:
    x = jnp.concatenate([x, x[:, :1]], axis=1)
    return lax.scan(step, x[:, 0], x.swapaxes(0, 1))[1]


def padded(x: jax.Array) -> jax.Array:
    kernel = np.ones((3, 8, 4), np.float32)
    return lax.conv_general_dilated(
        x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )


@pytest.mark.parametrize("function", [attended, recurrent, padded])
def test_formulas_are_the_costs_of_models_of_fixed_sizes(function: Callable[..., Any]) -> None:
    formulas = jax2onnx.cost(jax2onnx.to_onnx(function, [("B", "T", 8)], optimize=False)).total
    for b, t in ((2, 3), (1, 20), (5, 9), (8, 8), (3, 33)):
        fixed = jax2onnx.cost(jax2onnx.to_onnx(function, [(b, t, 8)], optimize=False)).total
        for name in ("flops", "transcendentals"):
            formula = formulas.formulas[name]
            assert formula is not None
            assert eval(formula, {"max": max, "min": min}, {"B": b, "T": t}) == getattr(fixed, name)


NETWORKS = ["nnx causal block", "linen unet", "haiku convolutional", "linen gru", "ode solver"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_every_node_of_a_network_costs_something_known_at_a_line(name: str) -> None:
    function, operands = networks.NETWORKS[name]()
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    model = jax2onnx.to_onnx(function, shapes, provenance="indexed")
    counted = jax2onnx.cost(model)
    assert not counted.uncounted
    assert all(line.file and line.line and line.function for line in counted.lines)
    steps = {symbol.name: 1 for symbol in counted.symbols}
    counted = jax2onnx.cost(model, steps)
    for sums in ("flops", "transcendentals", "operations", "bytes_read", "bytes_written"):
        assert sum(getattr(line, sums) for line in counted.lines) == getattr(counted.total, sums)


def test_rows_of_every_kind_add_up_to_the_total() -> None:
    model = jax2onnx.to_onnx(attended, [(2, 5, 8)], provenance="indexed")
    for by in ("line", "function", "module", "operator", "node"):
        counted = jax2onnx.cost(model, by=by)
        assert sum(row.flops or 0 for row in counted.rows) == counted.total.flops


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"S": 3}, "the model has no size `S`: it has `B`"),
        ({"B": 0}, "`B=0` is not a size: sizes are at least 1"),
        ({"B": -2}, "`B=-2` is not a size: sizes are at least 1"),
    ],
)
def test_a_size_that_is_not_one_is_refused(sizes: dict[str, int], message: str) -> None:
    model = jax2onnx.to_onnx(lambda x: x + 1, [("B",)])
    with pytest.raises(ConfigError, match=message):
        jax2onnx.cost(model, sizes)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"B": 4.5}, "^`B=4.5` is not a size: use a whole number$"),
        ({"B": "8"}, "^`B='8'` is not a size: use a whole number$"),
        ([8], '^the sizes are of type list: use {"B": 8}$'),
    ],
)
def test_sizes_of_another_type_are_refused(sizes: Any, message: str) -> None:
    model = jax2onnx.to_onnx(lambda x: x + 1, [("B",)])
    with pytest.raises(ConfigError, match=message):
        jax2onnx.cost(model, sizes)


def test_sizes_that_remain_stay_in_the_formulas() -> None:
    model = jax2onnx.to_onnx(lambda x: x @ x.swapaxes(1, 2), [("B", "T", 4)])
    counted = jax2onnx.cost(model, {"B": 3})
    assert counted.total.flops is None
    assert counted.total.formulas["flops"] == "24*T*T"
    counted = jax2onnx.cost(model, {"B": 3, "T": 2})
    assert counted.total.flops == 96
    assert counted.total.formulas["flops"] == "8*B*T*T"


def test_an_axis_without_a_name_has_a_symbol() -> None:
    model = jax2onnx.to_onnx(lambda x: x * 2, [("B", 4)], input_names=["x"])
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    del model.graph.value_info[:]
    counted = jax2onnx.cost(model)
    assert counted.total.formulas["flops"] == "4*x_0"
    assert jax2onnx.cost(model, {"x_0": 5}).total.flops == 20
