"""Cells become `LSTM` or `GRU`, and their numbers are those of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

import jax2onnx
from testkit import bench, cells
from testkit.cells import CELLS, SIZE, STEPS, Cell

OPERATORS = ("LSTM", "GRU", "RNN")


def operators(model: onnx.ModelProto) -> list[str]:
    """The recurrent operators of a model, also of its branches."""

    def of(nodes: Any) -> list[str]:
        found = []
        for node in nodes:
            found += [node.op_type] if node.op_type in OPERATORS else []
            for attribute in node.attribute:
                found += of(attribute.g.node)
        return found

    return of(model.graph.node)


def assert_same(cell: Cell, model: onnx.ModelProto, inputs: Any) -> None:
    wanted = bench.expected(cell.fn, inputs)
    for optimize in (True, False):
        for found, want in zip(bench.run(model, inputs, optimize=optimize), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("cell", CELLS.values(), ids=list(CELLS))
def test_a_cell_is_one_operator_and_a_near_miss_is_a_loop(cell: Cell) -> None:
    model = bench.convert(cell.fn, cell.inputs)
    assert operators(model) == ([cell.operator] * cell.count if cell.operator else [])
    assert_same(cell, model, cell.inputs)


SPECIAL = [name for name, cell in CELLS.items() if cell.operator][::3]


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -1e-40])
def test_a_cell_has_the_special_numbers_of_jax(name: str, value: float) -> None:
    """The number is in one feature of one example in the third step."""
    cell = CELLS[name]
    x = cell.inputs[0].copy()
    x[(2, *[1] * (x.ndim - 1))] = value
    inputs = (x, *cell.inputs[1:])
    assert_same(cell, bench.convert(cell.fn, cell.inputs), inputs)


MASKED = [name for name in CELLS if "mask" in name or "lengths" in name]


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize(
    "lengths", [[6, 6, 6], [1, 1, 1], [6, 2, 1], [0, 3, 6], [0, 0, 0], [9, -1, 4]]
)
def test_a_masked_cell_keeps_its_state_after_the_length(name: str, lengths: list[int]) -> None:
    cell = CELLS[name]
    model = bench.convert(cell.fn, cell.inputs)
    assert_same(cell, model, (cell.inputs[0], np.array(lengths, np.int32)))


def test_a_mask_with_gaps_keeps_the_state_where_it_says() -> None:
    def run(xs: jax.Array, mask: jax.Array) -> Any:
        def step(h: jax.Array, given: Any) -> Any:
            x, is_valid = given
            h = jnp.where(is_valid[:, None], cells.gru_step(h, x), h)
            return h, h

        return lax.scan(step, cells.zeros(xs), (xs, mask))

    xs = cells.sequence(STEPS, 3, cells.DEPTH)
    gaps = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0]], bool)
    model = bench.convert(run, (xs, gaps))
    assert operators(model) == ["GRU"]
    for mask in (gaps, ~gaps, np.zeros_like(gaps), np.ones_like(gaps)):
        wanted = bench.expected(run, (xs, mask))
        for found, want in zip(bench.run(model, (xs, mask)), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_masked_cell_from_a_given_state_runs_in_both_directions(reverse: bool) -> None:
    def run(xs: jax.Array, lengths: jax.Array, h: jax.Array) -> Any:
        mask = jnp.arange(STEPS)[:, None] < lengths

        def step(h: jax.Array, given: Any) -> Any:
            x, is_valid = given
            h = jnp.where(is_valid[:, None], cells.gru_step(h, x), h)
            return h, h

        return lax.scan(step, h, (xs, mask), reverse=reverse)

    xs, h = cells.sequence(STEPS, 3, cells.DEPTH), cells.sequence(3, SIZE)
    model = bench.convert(run, (xs, cells.LENGTHS, h))
    assert operators(model) == ["GRU"]
    for lengths in ([6, 2, 1], [0, 2, 5], [6, 6, 6]):
        inputs = (xs, np.array(lengths, np.int32), h)
        wanted = bench.expected(run, inputs)
        for found, want in zip(bench.run(model, inputs), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


SYMBOLIC = ["gru_with_projected_inputs", "gru_keeps_by_the_negated_gate", "lstm_with_peepholes"]


@pytest.mark.parametrize("name", SYMBOLIC)
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_a_cell_of_any_length_and_batch_is_one_operator(name: str, steps: int, batch: int) -> None:
    cell = CELLS[name]
    model = jax2onnx.to_onnx(cell.fn, [("T", "B", cells.DEPTH)])
    assert operators(model) == [cell.operator]
    assert_same(cell, model, (cells.sequence(steps, batch, cells.DEPTH),))


def test_a_plain_cell_adds_its_biases_before_the_loop() -> None:
    def run(xs: jax.Array) -> Any:
        def step(h: jax.Array, x: jax.Array) -> Any:
            h = jnp.tanh(x @ cells.W1 + h @ cells.U1 + cells.B1)
            return h, h

        return lax.scan(step, cells.zeros(xs), xs)

    inputs = (cells.sequence(STEPS, 3, cells.DEPTH),)
    model = bench.convert(run, inputs)
    (scan,) = [node for node in model.graph.node if node.op_type == "Scan"]
    (body,) = [attribute.g for attribute in scan.attribute if attribute.name == "body"]
    assert [node.op_type for node in body.node] == ["MatMul", "Add", "Tanh", "Identity"]
    for found, want in zip(bench.run(model, inputs), bench.expected(run, inputs), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


def test_an_operator_for_a_cell_has_the_lines_of_the_cell() -> None:
    cell = CELLS["lstm_with_peepholes"]
    model = bench.convert(cell.fn, cell.inputs, provenance="full")
    (fused,) = [
        node
        for branch in model.graph.node
        if branch.op_type == "If"
        for attribute in branch.attribute
        for node in attribute.g.node
        if node.op_type == "LSTM"
    ]
    about = {entry.key: entry.value for entry in fused.metadata_props}
    assert any("lstm_with_peepholes" in value for value in about.values())
