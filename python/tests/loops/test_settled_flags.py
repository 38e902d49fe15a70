"""Loops that drop entries of an array one after another, as non-maximum suppression does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from testkit import bench

COUNT = 40
NUMBERS = jnp.arange(COUNT)
Covers = jax.Array
"""Which entries an entry drops, as a matrix."""


def by_a_mask(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(keep[i] & covers[i] & (i < NUMBERS))

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def by_a_choice(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return jnp.where(keep[i], jnp.where(covers[i] & (i < NUMBERS), False, keep), keep)

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def by_a_branch(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        dropped = covers[i] & (i < NUMBERS)
        return lax.cond(keep[i], lambda: keep & ~dropped, lambda: keep)

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def with_what_is_dropped(covers: Covers) -> jax.Array:
    def step(i: jax.Array, dropped: jax.Array) -> jax.Array:
        return dropped | (~dropped[i] & covers[i] & (i < NUMBERS))

    return lax.fori_loop(0, COUNT, step, jnp.zeros(COUNT, bool))


def of_those_that_are_valid(covers: Covers) -> jax.Array:
    def step(keep: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, row = given
        return keep & (~keep[i] | ~row | (i >= NUMBERS)), None

    return lax.scan(step, covers.any(0), (NUMBERS, covers))[0]


def in_both_directions(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(keep[i] & covers[i] & (i != NUMBERS))

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def with_itself(covers: Covers) -> jax.Array:
    return lax.fori_loop(
        0, COUNT, lambda i, keep: keep & ~(keep[i] & covers[i]), jnp.ones(COUNT, bool)
    )


def with_one_more(covers: Covers) -> jax.Array:
    """Some of what a round drops is behind it in any case, and some is not."""

    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(keep[i] & (covers[i] | (i + 3 == NUMBERS)))

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def of_the_first(covers: Covers) -> jax.Array:
    return lax.fori_loop(
        0, 20, lambda i, keep: jnp.where(keep[i] & covers[i], False, keep), jnp.ones(COUNT, bool)
    )


def with_scores(covers: Covers) -> jax.Array:
    scores = jnp.linspace(0.9, -0.1, COUNT)

    def step(i: jax.Array, scores: jax.Array) -> jax.Array:
        return jnp.where((scores[i] > 0.2) & covers[i] & (i < NUMBERS), -1.0, scores)

    return lax.fori_loop(0, COUNT, step, scores)


def with_numbers(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep * (1.0 - keep[i] * (covers[i] & (i < NUMBERS)))

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT))


def with_integers(covers: Covers) -> jax.Array:
    row = covers.astype(jnp.int32)
    return lax.fori_loop(
        0, COUNT, lambda i, keep: keep - keep * keep[i] * row[i], jnp.ones(COUNT, jnp.int32)
    )


def while_there_are_more(covers: Covers) -> jax.Array:
    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        i, keep = state
        return i + 1, keep & ~(keep[i] & covers[i] & (i < NUMBERS))

    return lax.while_loop(lambda s: s[0] < COUNT, step, (0, jnp.ones(COUNT, bool)))[1]


def of_each_class(covers: Covers) -> jax.Array:
    return jax.vmap(by_a_mask)(jnp.stack([covers, covers.T, covers & covers.T]))


def of_each_image_and_class(covers: Covers) -> jax.Array:
    both = jax.vmap(jax.vmap(with_what_is_dropped))
    return both(jnp.stack([jnp.stack([covers, covers.T]), jnp.stack([~covers, covers])]))


LATER = np.triu(np.ones((COUNT, COUNT), bool), 1)


def of_all_but_the_first(covers: Covers) -> jax.Array:
    """The mask is the same in each round, so it says nothing about the order."""
    row = covers & (np.arange(COUNT) > 0)[None, :]
    return lax.fori_loop(
        0, COUNT, lambda i, keep: keep & ~(keep[i] & row[i]), jnp.ones(COUNT, bool)
    )


def of_classes_that_drop_nothing(covers: Covers) -> jax.Array:
    rows = jnp.stack([covers, covers.T], 1) & LATER[:, None]
    is_on = np.array([True, False])

    def step(keep: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, row = given
        return keep & ~((jnp.take(keep, i, axis=1) & is_on)[:, None] & row), None

    return lax.scan(step, jnp.ones((2, COUNT), bool), (NUMBERS, rows))[0]


def of_classes_that_others_drop(covers: Covers) -> jax.Array:
    rows = jnp.stack([covers, covers.T], 1) & LATER[:, None]
    is_off = np.array([True, False])

    def step(gone: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, row = given
        return gone | (~(jnp.take(gone, i, axis=1) | is_off)[:, None] & row), None

    return lax.scan(step, jnp.stack([covers[0], covers[1]]), (NUMBERS, rows))[0]


def of_rows_that_keep_the_axis(covers: Covers) -> jax.Array:
    both = jnp.stack([covers, covers.T])
    return lax.fori_loop(
        0,
        COUNT,
        lambda i, keep: keep & ~(keep[:, i, None] & both[:, i] & (i < NUMBERS)),
        jnp.stack([covers[0], ~covers[1]]),
    )


def of_classes_by_a_slice(covers: Covers) -> jax.Array:
    both = jnp.stack([covers, covers.T])
    is_on = np.array([[True], [False]])

    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(lax.dynamic_slice(keep, (0, i), (2, 1)) & is_on & both[:, i])

    return lax.fori_loop(0, COUNT, step, jnp.stack([covers[0], ~covers[1]]))


def by_a_slice(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(lax.dynamic_slice(keep, (i,), (1,)) & covers[i] & (i < NUMBERS))

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


SETTLED = [
    by_a_mask,
    by_a_choice,
    with_what_is_dropped,
    of_those_that_are_valid,
    in_both_directions,
    with_itself,
    with_one_more,
    while_there_are_more,
    of_each_class,
    of_each_image_and_class,
    of_all_but_the_first,
    of_classes_that_drop_nothing,
    of_classes_that_others_drop,
    of_rows_that_keep_the_axis,
    of_classes_by_a_slice,
    by_a_slice,
]


def matrices() -> list[np.ndarray]:
    """Chains of every length: few pairs, many, each entry drops the next, and none or all."""
    pairs = np.zeros((COUNT, COUNT), bool)
    pairs[[5, 2, 9], [2, 9, 30]] = True
    random = np.random.default_rng(0).uniform(size=(COUNT, COUNT))
    return [
        pairs,
        random < 0.03,
        random < 0.2,
        random < 0.7,
        np.eye(COUNT, k=1, dtype=bool),
        np.eye(COUNT, k=-1, dtype=bool),
        np.zeros((COUNT, COUNT), bool),
        np.ones((COUNT, COUNT), bool),
    ]


def check(fn: Callable[..., Any], **options: Any) -> onnx.ModelProto:
    """Convert a function, and compare all results with JAX."""
    model = bench.convert(fn, [matrices()[0]], **options)
    for covers in matrices():
        (found,), (want,) = bench.run(model, [covers]), bench.expected(fn, [covers])
        np.testing.assert_array_equal(found, want)
    return model


def loops(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node if node.op_type in ("Loop", "Scan")]


def branch(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The branch of the only choice in a graph that is taken if its condition holds."""
    (choice,) = [node for node in graph.node if node.op_type == "If"]
    (taken,) = [attr.g for attr in choice.attribute if attr.name == "then_branch"]
    return taken


@pytest.mark.parametrize("fn", SETTLED)
def test_rounds_that_drop_entries_are_decided_together(fn: Callable[..., Any]) -> None:
    model = check(fn)
    assert loops(model.graph) == []
    # If chains of entries are long, more products are computed, and then the loop runs.
    more = branch(model.graph)
    (loop,) = [node for node in more.node if node.op_type == "Loop"]
    assert "MatMul" in [node.op_type for node in loop.attribute[0].g.node]
    assert branch(more).node[-1].op_type == "Scan"


def test_the_matrices_need_few_products_and_more_and_the_loop() -> None:
    numbers = []
    for covers in matrices():
        keep, number, goes_on = np.ones(COUNT, bool), 0, True
        while goes_on:
            after = ~np.any(covers & LATER & keep[:, None], 0)
            keep, number, goes_on = after, number + 1, not np.array_equal(after, keep)
        numbers.append(number)
    assert min(numbers) <= 4
    assert any(4 < number <= 20 for number in numbers)
    assert max(numbers) > 20


def test_an_order_needs_no_triangle_if_the_program_has_one() -> None:
    def fn(covers: Covers) -> jax.Array:
        row = covers & LATER
        return lax.fori_loop(
            0, COUNT, lambda i, keep: keep & ~(keep[i] & row[i]), jnp.ones(COUNT, bool)
        )

    assert "Trilu" not in [node.op_type for node in check(fn).graph.node]
    assert "Trilu" in [node.op_type for node in check(with_itself).graph.node]


@pytest.mark.parametrize("opset", [16, 18, 21])
def test_older_opsets_have_the_same_results(opset: int) -> None:
    check(in_both_directions, opset=opset)
    check(by_a_mask, opset=opset)


def test_few_rounds_stay_a_loop() -> None:
    def few(covers: Covers) -> jax.Array:
        return lax.fori_loop(
            0, 12, lambda i, keep: keep & ~(keep[i] & covers[i]), jnp.ones(COUNT, bool)
        )

    assert loops(check(few, unroll=0).graph) == ["Scan"]


def test_many_entries_are_decided_by_the_loop() -> None:
    def fn(covers: Covers) -> jax.Array:
        return lax.fori_loop(
            0, 1100, lambda i, keep: keep & ~(keep[i] & covers[i]), jnp.ones(1100, bool)
        )

    covers = np.zeros((1100, 1100), bool)
    covers[::7, ::5] = True
    model = bench.convert(fn, [covers])
    assert loops(model.graph) == ["Scan"]
    np.testing.assert_array_equal(bench.run(model, [covers])[0], bench.expected(fn, [covers])[0])


def test_what_else_a_loop_computes_stays_in_it() -> None:
    def fn(covers: Covers) -> Any:
        def step(i: jax.Array, state: Any) -> Any:
            keep, total = state
            return keep & ~(keep[i] & covers[i]), jnp.sin(total) + covers[i].sum()

        return lax.fori_loop(0, COUNT, step, (jnp.ones(COUNT, bool), 0.0))

    model = bench.convert(fn, [matrices()[0]])
    assert loops(model.graph) == ["Scan"]
    for covers in matrices():
        found, wanted = bench.run(model, [covers]), bench.expected(fn, [covers])
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


def toggles(covers: Covers) -> jax.Array:
    return lax.fori_loop(
        0, COUNT, lambda i, keep: keep ^ (keep[i] & covers[i]), jnp.ones(COUNT, bool)
    )


def drops_and_adds(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return jnp.where(keep[i], keep & ~covers[i], keep | covers[:, i])

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def asks_another(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(keep[COUNT - 1 - i] & covers[i])

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def asks_two(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(keep[i] & keep[(i + 1) % COUNT] & covers[i])

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT, bool))


def stays_active(covers: Covers) -> jax.Array:
    """What was set asks for more."""

    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep & ~(~keep[i] & covers[i])

    return lax.fori_loop(0, COUNT, step, covers[0])


def with_other_numbers(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return keep * (1.0 - keep[i] * covers[i])

    return lax.fori_loop(0, COUNT, step, jnp.full(COUNT, 0.5))


def sets_to_another_number(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return jnp.where(keep.astype(bool) & (keep[i] > 0.5) & covers[i], 0.25, keep)

    return lax.fori_loop(0, COUNT, step, jnp.ones(COUNT))


def asks_another_number(covers: Covers) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return jnp.where(((1.0 - keep[i]) * covers[i]).astype(bool), 0.25, keep)

    return lax.fori_loop(0, COUNT, step, (covers[0] | covers[1]).astype(jnp.float32))


def backwards(covers: Covers) -> jax.Array:
    def step(keep: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, row = given
        return keep & ~(keep[i] & row), None

    return lax.scan(step, jnp.ones(COUNT, bool), (NUMBERS, covers), reverse=True)[0]


def with_each_step(covers: Covers) -> jax.Array:
    def step(keep: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        i, row = given
        return keep & ~(keep[i] & row), keep

    return lax.scan(step, jnp.ones(COUNT, bool), (NUMBERS, covers))[1]


@pytest.mark.parametrize(
    "fn",
    [
        toggles,
        drops_and_adds,
        asks_another,
        asks_two,
        stays_active,
        with_other_numbers,
        sets_to_another_number,
        asks_another_number,
        backwards,
        with_each_step,
        by_a_branch,
        of_the_first,
        with_scores,
        with_numbers,
        with_integers,
    ],
)
def test_rounds_that_do_more_stay_a_loop(fn: Callable[..., Any]) -> None:
    assert loops(check(fn).graph) == ["Scan"]


def test_scores_with_nan_are_dropped_as_in_jax() -> None:
    def fn(scores: jax.Array, covers: Covers) -> jax.Array:
        def step(i: jax.Array, scores: jax.Array) -> jax.Array:
            return jnp.where((scores[i] > 0) & covers[i], -jnp.inf, scores)

        return lax.fori_loop(0, COUNT, step, scores)

    scores = np.linspace(-0.5, 1.0, COUNT, dtype=np.float32)
    scores[::7], scores[3], scores[5] = np.nan, np.inf, -0.0
    for covers in matrices():
        inputs = [scores, covers]
        model = bench.convert(fn, inputs)
        assert loops(model.graph) == ["Scan"]
        (found,), (want,) = bench.run(model, inputs), bench.expected(fn, inputs)
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_a_node_shows_the_line_of_the_loop() -> None:
    model = bench.convert(by_a_mask, [matrices()[0]], provenance="minimal")
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    for node in [choice, *branch(model.graph).node]:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        assert about["callsite"].startswith("by_a_mask")
