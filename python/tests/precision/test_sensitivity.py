"""`jax2onnx.sensitivity` ranks the lines of a model by what a shorter type costs."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx
from jax import lax
from onnx import TensorProto, helper, numpy_helper

import jax2onnx
from jax2onnx import ConfigError, InputSpecError, sensitivity, to_onnx
from jax2onnx._comparing.running import Runner
from jax2onnx._precision.watch import Watch

RANDOM = np.random.default_rng(5)
W1 = RANDOM.standard_normal((8, 8)).astype(np.float32)
X = RANDOM.standard_normal((4, 8)).astype(np.float32)


def line_of(fn: Callable[..., Any], text: str) -> int:
    """Return the number of the line of a function that contains a text."""
    lines, start = inspect.getsourcelines(fn)
    (found,) = [number for number, line in enumerate(lines) if text in line]
    return start + found


def ranked(fn: Callable[..., Any], *inputs: Any, to: str = "float16") -> jax2onnx.Sensitivity:
    model = to_onnx(fn, list(inputs), provenance="indexed")
    return sensitivity(model, list(inputs), to=to)


def overflowing(x: Any) -> Any:
    hidden = x @ W1
    energy = (hidden * 300) ** 2
    total = energy.sum(-1, keepdims=True)
    return energy / total


def test_the_line_whose_values_exceed_the_range_is_first() -> None:
    first = ranked(overflowing, X).first
    assert first is not None
    assert first.line == line_of(overflowing, "** 2")
    assert first.function == "overflowing"
    assert first.error == math.inf
    assert first.sure
    assert first.overflow > 0
    assert "exceed float16 (65,504) at `" in first.reason


def test_a_range_that_suffices_is_no_problem() -> None:
    first = ranked(overflowing, X, to="bfloat16").first
    assert first is not None
    assert first.error < 0.02
    assert not first.sure


def tiny_epsilon(x: Any) -> Any:
    low = x - x.max(-1, keepdims=True)
    size = jnp.sqrt(low * low + 1e-9)
    return low / size


def test_an_epsilon_that_becomes_zero_is_named() -> None:
    first = ranked(tiny_epsilon, X).first
    assert first is not None
    assert first.line == line_of(tiny_epsilon, "1e-9")
    assert first.error == math.inf
    assert "the constant 1.0e-9 becomes 0 in float16" in first.reason


def standing_sum(x: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        total = jnp.maximum(total + row, 0.0)
        return total, None

    total, _ = lax.scan(step, jnp.zeros(4), x)
    return total * 0.5


def test_a_sum_in_a_loop_that_stands_still_is_first() -> None:
    rows = np.full((6000, 4), 0.9, np.float32)
    first = ranked(standing_sum, rows).first
    assert first is not None
    assert first.line == line_of(standing_sum, "total + row")
    assert first.error > 0.3
    assert "loses" in first.reason
    assert len(first.iterations) == 1


def late_overflow(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        square = state * state
        return state * row, square

    return lax.scan(step, jnp.ones(3), x)[1].sum(0) / 1e6


def test_the_iteration_in_which_values_overflow_is_named() -> None:
    rows = np.full((20, 3), 2.0, np.float32)
    first = ranked(late_overflow, rows).first
    assert first is not None
    assert first.line == line_of(late_overflow, "state * state")
    assert first.iterations == (8,), "2 to the power of 16 exceeds float16"


def hot_attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("qd,kd->qk", q, k) * 3e4
    return jax.nn.softmax(scores) @ v


def test_a_softmax_of_large_numbers_is_found() -> None:
    first = ranked(hot_attention, X, X, X).first
    assert first is not None
    assert first.error == math.inf
    assert first.line in (
        line_of(hot_attention, "3e4"),
        line_of(hot_attention, "softmax"),
    )


def test_a_weight_beyond_the_range_is_found() -> None:
    weight = W1.copy()
    weight[2, 3] = 2e5

    def outlier(x: Any) -> Any:
        mixed = x @ weight
        return mixed / (1 + jnp.abs(mixed).max())

    first = ranked(outlier, X).first
    assert first is not None
    assert first.line == line_of(outlier, "x @ weight")
    assert first.sure


def wide_channel(x: Any) -> Any:
    wide = x * jnp.ones(8).at[3].set(1e4)
    bent = jnp.tanh(wide / 50)
    return bent @ W1


def test_a_channel_that_takes_all_steps_of_int8_is_found() -> None:
    first = ranked(wide_channel, X, to="int8").first
    assert first is not None
    assert first.line in (line_of(wide_channel, "1e4"), line_of(wide_channel, "tanh"))
    assert first.error > 0.05


def masked(x: Any) -> Any:
    scores = x @ W1
    rest = jnp.where(scores > 0, scores, -1e9)
    return jnp.tanh(jax.nn.softmax(rest) @ W1)


def test_a_mask_that_takes_all_steps_of_int8_is_found() -> None:
    first = ranked(masked, X, to="int8").first
    assert first is not None
    assert first.line == line_of(masked, "-1e9")
    assert first.error > 0.05
    assert re.match(r"the steps of int8 are 3\.9e6 in a result .* up to 1\.0e9 at", first.reason)


def test_a_choice_between_numbers_of_one_range_is_not_rounded() -> None:
    def cut(x: Any) -> Any:
        scores = x @ W1
        return jnp.tanh(jnp.where(scores > -0.5, scores, 0.1) @ W1)

    ops = {op for line in ranked(cut, X, to="int8").lines for op in line.ops}
    assert "Tanh" in ops
    assert "Where" not in ops


def best_two(x: Any) -> Any:
    best, _ = lax.top_k(jnp.tanh(x @ W1), 2)
    return best / (3 + best.sum(-1, keepdims=True))


def test_values_in_float64_are_rounded_by_the_scales_of_int8() -> None:
    model = to_onnx(best_two, [X], provenance="indexed")
    assert TensorProto.DOUBLE in {
        attribute.i for node in model.graph.node for attribute in node.attribute
    }
    result = sensitivity(model, [X], to="int8")
    assert result.notes == ()
    assert all(line.is_measured for line in result.lines)


def handed_on(x: Any) -> Any:
    wide = jnp.tanh(x @ W1) * jnp.ones(8).at[3].set(3e4)
    bent = jnp.where(wide > 0, wide, 0.7 * wide)
    return bent / jnp.ones(8).at[3].set(3e4) + 0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_line_that_computes_a_bad_value_is_before_those_that_hand_it_on(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)
    first = ranked(handed_on, x, to="int8").first
    assert first is not None
    assert first.line == line_of(handed_on, "wide = ")


WIDE = np.ones(8, np.float32)
WIDE[3] = 2e5


def scaled(x: Any) -> Any:
    hidden = x @ W1
    hidden = hidden * WIDE
    hidden = jax.nn.relu(hidden)
    return hidden / WIDE


def shifted(x: Any) -> Any:
    hidden = x @ W1
    hidden = hidden + 1e5 * W1[0]
    return hidden / jnp.abs(hidden).max()


def outlier_with_bias(x: Any) -> Any:
    hidden = x @ (W1 * WIDE)
    hidden = hidden + W1[0]
    return hidden / jnp.abs(hidden).max()


@pytest.mark.parametrize(
    ("fn", "text", "op"),
    [
        (scaled, "* WIDE", "MatMul"),
        (shifted, "+ 1e5", "Gemm"),
        (outlier_with_bias, "(W1 * WIDE)", "Gemm"),
    ],
)
def test_a_product_with_a_scale_or_a_bias_is_charged_to_the_line_that_exceeds(
    fn: Callable[..., Any], text: str, op: str
) -> None:
    first = ranked(fn, X).first
    assert first is not None
    assert first.line == line_of(fn, text)
    assert first.ops == (op,)
    assert first.error == math.inf


def moved_far(x: Any) -> Any:
    hidden = x @ W1
    hidden = hidden + 700 * jnp.sign(W1[0])
    return jnp.sin(hidden)


@pytest.mark.parametrize("to", ["bfloat16", "int8"])
def test_a_bias_that_makes_the_steps_large_is_charged_to_its_line(to: str) -> None:
    result = ranked(moved_far, X, to=to)
    first = result.first
    assert first is not None
    assert first.line == line_of(moved_far, "+ 700")
    assert first.error > 0.3
    (product,) = [line for line in result.lines if line.line == line_of(moved_far, "x @ W1")]
    assert product.error < 0.1, "the weights alone"


def differences_of_sums(x: Any) -> Any:
    sums = jnp.cumsum(jnp.tanh(x @ W1) + 8.0, -1)
    return x + (sums[..., -1:] - sums) * 0.1 + jnp.diff(sums, axis=-1, prepend=0.0) - 8.0


def test_a_node_of_two_lines_that_is_no_product_belongs_to_the_line_that_computes_it() -> None:
    first = ranked(differences_of_sums, X, to="bfloat16").first
    assert first is not None
    assert first.line == line_of(differences_of_sums, "jnp.cumsum")


def test_a_transposed_product_belongs_to_the_line_of_the_product() -> None:
    def network(x: Any) -> Any:
        wide = x @ (1e5 * W1)
        turned = wide.T
        return turned / jnp.abs(turned).max()

    first = ranked(network, X).first
    assert first is not None
    assert first.line == line_of(network, "1e5")


def test_lines_are_sorted_and_complete() -> None:
    result = ranked(overflowing, X)
    errors = [line.error for line in result.lines]
    assert errors == sorted(errors, reverse=True)
    assert {line.line for line in result.lines} == {
        line_of(overflowing, text) for text in ("x @ W1", "** 2", "energy.sum", "/ total")
    }
    assert result.first is result.lines[0]


def test_what_int4_rounds_are_the_weights() -> None:
    def products(x: Any) -> Any:
        hidden = jnp.sin(x @ W1)
        return hidden * 0.3

    result = ranked(products, X, to="int4")
    assert [line.line for line in result.lines] == [line_of(products, "x @ W1")]
    assert 1e-3 < result.lines[0].error < 0.3


def test_a_function_is_ranked_by_its_own_lines() -> None:
    @jax2onnx.onnx_function
    def block(x: Any) -> Any:
        big = x * 1e5
        return jnp.tanh(big / jnp.abs(big).max())

    def network(x: Any) -> Any:
        return block(block(x) + 1)

    first = ranked(network, X).first
    assert first is not None
    assert first.line == line_of(block, "1e5")
    assert first.error == math.inf


@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8"])
def test_effects_do_not_depend_on_how_a_rounding_is_switched(
    to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @jax2onnx.onnx_function
    def block(x: Any) -> Any:
        return jnp.tanh(x @ W1) + x

    def network(x: Any) -> Any:
        hidden = block(jnp.exp(x) * 3)
        total = lax.scan(lambda s, r: (jnp.cos(s * 0.9 + r), r), hidden[0], hidden)[0]
        return block(hidden) @ W1 + total

    few = ranked(network, X, to=to)
    monkeypatch.setattr("jax2onnx._precision.switched._FEW", 0)
    many = ranked(network, X, to=to)
    assert all(line.is_measured for line in few.lines)
    assert few.lines == many.lines


def test_the_effects_of_weights_before_an_attention_are_measured() -> None:
    def attention(x: Any) -> Any:
        heads = (x @ W1).reshape(1, 4, 2, 4)
        return jax.nn.dot_product_attention(heads, heads, heads, is_causal=True)

    result = ranked(attention, X)
    assert result.notes == ()
    assert all(line.is_measured for line in result.lines)


def test_several_samples_are_read_from_a_list_and_from_one_more_axis() -> None:
    model = to_onnx(overflowing, [(4, 8)], provenance="indexed")
    small, large = X * 1e-3, X
    assert sensitivity(model, {"x": small}).first.error < 1
    for data in ([{"x": small}, {"x": large}], [[small], [large]], {"x": np.stack([small, large])}):
        result = sensitivity(model, data)
        assert result.samples == 2
        assert result.first.error == math.inf
    rows = np.concatenate([small, large])
    assert sensitivity(model, {"x": rows}).samples == 2


def test_a_model_without_lines_is_ranked_by_node() -> None:
    model = to_onnx(overflowing, [(4, 8)], provenance="off")
    result = sensitivity(model, [X])
    assert result.first.line is None
    assert result.first.error == math.inf
    assert any("no provenance" in note for note in result.notes)


def test_a_branch_that_does_not_run_is_no_problem() -> None:
    def choose(x: Any) -> Any:
        return lax.cond(x.sum() > 1e9, lambda y: y * 1e6, lambda y: y * 2, x)

    result = ranked(choose, X)
    assert result.first.error < 0.01


def test_mixed_types_are_left_alone() -> None:
    def mixed(x: Any) -> Any:
        short = x.astype(jnp.float16) * 2
        return short.astype(jnp.float32) + 1

    result = ranked(mixed, X)
    assert {line.line for line in result.lines} <= {
        line_of(mixed, "* 2"),
        line_of(mixed, "+ 1"),
    }


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "the data is empty"),
        ([np.full((4, 8), np.nan, np.float32)], "the input `x` contains NaN"),
        ([np.zeros((4, 9), np.float32)], "the model takes `x` float32[4,8], but got"),
        ({"y": X}, "has no input `y`"),
        (3, "the data is of type int"),
    ],
)
def test_data_that_does_not_fit_is_refused(data: Any, says: str) -> None:
    model = to_onnx(overflowing, [(4, 8)])
    with pytest.raises(InputSpecError) as raised:
        sensitivity(model, data)
    assert says in str(raised.value)


def test_an_unknown_type_is_refused() -> None:
    model = to_onnx(overflowing, [(4, 8)])
    with pytest.raises(ConfigError, match=r"`float61` is not a type .*did you mean `float16`"):
        sensitivity(model, [X], to="float61")


def test_a_model_that_the_runtime_refuses_is_named() -> None:
    graph = helper.make_graph(
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(ConfigError, match="ONNX Runtime does not run the model"):
        sensitivity(model, [np.ones(2, np.float32)])


def test_a_model_with_external_weights_is_ranked(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.full((8, 8), 1e5, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    first = sensitivity(path, [X]).first
    assert first.nodes == ("product",)
    assert first.error == math.inf
    assert "exceed" in first.reason


def test_the_result_is_text_json_and_html() -> None:
    result = ranked(overflowing, X)
    text = str(result)
    assert "in float16: one line makes the output `out_0` infinite or NaN" in text
    assert "energy = (hidden * 300) ** 2" in text
    table = result.table(2).splitlines()
    assert len(table) == 6
    assert all(len(line) <= 80 for line in table[2::2])
    assert table[-1] == f"… and {len(result.lines) - 2} more lines"
    known = json.loads(json.dumps(result.to_json()))
    assert known["first"]["error"] == "inf"
    assert [line["line"] for line in known["lines"]] == [line.line for line in result.lines]
    assert "exceed float16" in result._repr_html_()


def nested_loops(x: Any) -> Any:
    def outer(state: Any, row: Any) -> Any:
        driven = jnp.tanh(state @ W1 + row)

        def inner(total: Any, factor: Any) -> Any:
            total = 0.5 * total + jnp.sin(total) * factor * row
            return total, jnp.cos(total)

        last, waves = lax.scan(inner, driven, jnp.linspace(0.4, 1.1, 3))
        return last, waves.sum(0)

    return lax.scan(outer, x[0], x, reverse=True)


def counted(x: Any) -> Any:
    def step(state: Any) -> Any:
        number, total = state
        return number + 1, jnp.tanh(total * 1.1 + 0.1)

    return lax.while_loop(lambda state: state[0] < 9, step, (0, x))[1]


def stacked_weights(x: Any) -> Any:
    weights = jnp.stack([W1, W1 * 70000, W1 / 3])
    return lax.scan(lambda state, weight: (jnp.tanh(state @ weight), state), x, weights)


@pytest.mark.parametrize("fn", [nested_loops, counted, stacked_weights])
def test_all_iterations_at_once_look_like_one_after_another(
    fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = to_onnx(fn, [X], provenance="indexed")
    found = sensitivity(model, [X], to="float16").lines
    monkeypatch.setattr(Watch, "records", lambda *_: False)
    expected = sensitivity(model, [X], to="float16").lines
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.line, one.nodes, one.iterations) == (other.line, other.nodes, other.iterations)
        assert one.own_error == pytest.approx(other.own_error, rel=1e-4)
        assert one.error == other.error
        assert one.largest == other.largest
        assert one.overflow == other.overflow


def test_a_long_loop_is_run_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(length: int) -> int:
        x = np.ones((length, 8), np.float32)
        model = to_onnx(nested_loops, [x], provenance="indexed")
        runs = 0
        run = Runner.run

        def counting(self: Runner, feeds: Any) -> Any:
            nonlocal runs
            runs += 1
            return run(self, feeds)

        monkeypatch.setattr(Runner, "run", counting)
        sensitivity(model, [x])
        monkeypatch.setattr(Runner, "run", run)
        return runs

    assert count(60) == count(6)


def test_a_loop_with_branches_is_looked_at_step_by_step() -> None:
    def branching(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = lax.cond(row.sum() > 0, lambda s: s * 3e4, lambda s: s * 0.5, state)
            return jnp.tanh(state), state.sum()

        return lax.scan(step, x[0], jnp.abs(x) + 2)

    first = ranked(branching, X * 3).first
    assert first is not None
    assert first.line == line_of(branching, "3e4")


@pytest.mark.parametrize("library_code", [["flax"], []])
@pytest.mark.parametrize("has_scopes", [True, False])
def test_each_layer_of_a_library_has_an_entry(has_scopes: bool, library_code: list[str]) -> None:
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(8, 8, rngs=rngs), nnx.gelu, nnx.Linear(8, 8, rngs=rngs))
    exported = to_onnx(
        model,
        [("B", 8)],
        provenance="indexed",
        module_scopes=has_scopes,
        library_code=library_code,
    )
    result = sensitivity(exported, [X], to="bfloat16")
    products = [line for line in result.lines if "linear.py" in str(line.file)]
    products = [line for line in products if line.line == products[0].line]
    assert len(products) == 2
    modules = {"Sequential/layers.0", "Sequential/layers.2"} if has_scopes else {""}
    assert {line.module for line in products} == modules
    assert len({line.place for line in products}) == len(modules)
    module = products[0].module if has_scopes else products[0].nodes[0]
    _, report = jax2onnx.lower_precision(exported, [[X]] * 4, to="bfloat16", keep=[module])
    assert {line.nodes for line in report.kept} == {products[0].nodes}
