"""How loops are written: unrolled, over numbers, with less in each step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

import jax2onnx
from testkit import bench

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
W = np.linspace(-0.5, 0.5, 12, dtype=np.float32).reshape(3, 4)


def three_rounds(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) * (i + 1), x)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def bodies(model: onnx.ModelProto) -> list[list[str]]:
    """The operators of the body of each loop."""
    attributes = [attr for node in model.graph.node for attr in node.attribute]
    return [[node.op_type for node in attr.g.node] for attr in attributes if attr.HasField("g")]


def check(fn: Callable[..., Any], *inputs: np.ndarray, **options: Any) -> onnx.ModelProto:
    """Convert a function, and compare it with JAX, with and without the runtime's optimizations."""
    model = bench.convert(fn, inputs, **options)
    wanted = bench.expected(fn, inputs)
    for found, want in zip(bench.run(model, inputs), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    return model


def test_each_node_of_an_unrolled_loop_has_its_line_and_its_round() -> None:
    model = check(three_rounds, X, provenance="minimal")
    names = [node.name for node in model.graph.node if node.op_type == "Sin"]
    assert names == ["sin", "iteration_1/sin", "iteration_2/sin"]
    for node in model.graph.node:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        assert about["callsite"].startswith("three_rounds.<locals>.<lambda>:")


def test_no_loop_is_unrolled_if_no_nodes_are_allowed_for_it() -> None:
    model = check(three_rounds, X, unroll=0)
    assert ops(model) == ["Scan"]
    assert bodies(model) == [["Sin", "Mul"]]


def test_a_loop_with_more_nodes_than_allowed_stays() -> None:
    def long(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 100, lambda i, v: jnp.sin(v) * 0.5 + i, x)

    assert ops(check(long, X)) == ["Scan"]
    assert "Scan" not in ops(check(long, X, unroll=1000))


def test_rows_of_a_short_scan_are_nodes_unless_it_stacks_results() -> None:
    def run(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lax.scan(lambda c, y: (c * 0.5 + y, c.sum() + y), jnp.zeros(3), x, reverse=True)

    def last(x: jax.Array) -> jax.Array:
        return lax.scan(lambda c, y: (c * c.sum() + y, None), jnp.zeros(3), x, reverse=True)[0]

    assert "Scan" in ops(check(run, X, unroll=128))
    assert "Scan" not in ops(check(last, X, unroll=128))
    assert "Scan" in ops(check(last, X, unroll=8))


def test_an_unrolled_scan_returns_what_it_was_given() -> None:
    def run(x: jax.Array) -> Any:
        return lax.scan(lambda c, _: ((c[0], c[1] + 1.0), c[0]), (x, x), None, length=2)

    check(run, X)


def test_a_loop_in_a_loop_is_unrolled_inside_out() -> None:
    def run(x: jax.Array) -> jax.Array:
        def outer(_: int, v: jax.Array) -> jax.Array:
            return lax.fori_loop(0, 2, lambda _, u: jnp.sin(u) + 1.0, v)

        return lax.fori_loop(0, 2, outer, x)

    model = check(run, X)
    assert "Loop" not in ops(model)
    names = [node.name for node in model.graph.node if node.op_type == "Sin"]
    assert names == ["sin", "iteration_1/sin", "iteration_1/sin_1", "iteration_1/iteration_1/sin"]


@pytest.mark.parametrize("steps", [1, 4, 7])
def test_a_scan_of_any_length_computes_its_products_at_once(steps: int) -> None:
    def run(x: jax.Array) -> Any:
        def step(c: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
            c = jnp.tanh(c @ W.T @ W + (y @ W + 1.0) * y.sum())
            return c, c

        return lax.scan(step, jnp.zeros(4), x)

    x = np.resize(X, (steps, 3))
    model = bench.convert(run, [("T", 3)])
    (branches,) = [node for node in model.graph.node if node.op_type == "If"]
    (branch,) = [attr.g for attr in branches.attribute if attr.name == "then_branch"]
    assert [node.op_type for node in branch.node][-2:] == ["Scan", "Squeeze"]
    for found, want in zip(bench.run(model, (x,)), bench.expected(run, (x,)), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_a_step_that_is_kept_or_repeated_is_one_branch() -> None:
    """The parts of the state have NaN, an infinity and both zeros, whose signs a quotient tells."""

    def run(x: jax.Array, h: jax.Array) -> Any:
        def step(state: Any) -> Any:
            t, x, h = state
            y = -x * h
            is_accepted = jnp.sum(jnp.where(jnp.isfinite(y), y, 0.0)) < 0.2
            x, t = jnp.where(is_accepted, y, x), jnp.where(is_accepted, t + 1, t)
            return t, x, jnp.where(is_accepted, 0.5 * h, 1.5 * h)

        t, x, h = lax.while_loop(lambda state: state[0] < 7, step, (0, x, h))
        return t, x, 1.0 / x, h

    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -0.25], np.float32)
    model = check(run, x, np.array(1.25, np.float32))
    (body,) = bodies(model)
    assert body.count("If") == 1
    assert "Where" in body  # The one that chooses elements.


def test_a_step_whose_parts_depend_on_each_other_is_chosen_part_by_part() -> None:
    def run(x: jax.Array) -> jax.Array:
        def step(i: jax.Array, x: jax.Array) -> jax.Array:
            is_small = x.sum() < 1.0
            x = jnp.where(is_small, x + 0.5, x)
            return jnp.where(is_small, jnp.sin(x), x)

        return lax.fori_loop(0, 40, step, x)

    (body,) = bodies(check(run, X[0]))
    assert body.count("Where") == 2


def test_a_solver_of_a_network_computes_with_rows() -> None:
    """The vectors have NaN and an infinity, which stay where they are."""
    w, b, v = W, np.linspace(0.0, 1.0, 4, dtype=np.float32), W.T.copy()

    def field(y: jax.Array) -> jax.Array:
        return jnp.tanh(y @ w + b) @ v + y[::-1] * 0.0 + b[:3]

    def run(y: jax.Array) -> Any:
        def step(y: jax.Array, _: None) -> Any:
            half = y + 0.05 * field(y)
            y = y + 0.1 * field(half)
            return y, jnp.sqrt(jnp.mean(y**2))

        return lax.scan(step, y, None, length=30)

    model = check(run, X[0])
    (body,) = bodies(model)
    assert body.count("Gemm") == 4
    assert "MatMul" not in body
    for value in (np.nan, np.inf):
        y = np.array([0.5, value, -0.5], np.float32)
        for found, want in zip(bench.run(model, [y]), bench.expected(run, [y]), strict=True):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(want))


def test_a_network_on_one_example_computes_with_rows() -> None:
    weights = [np.sin(np.arange(64, dtype=np.float32) * k).reshape(8, 8) for k in (1, 2, 3)]

    def run(x: jax.Array) -> jax.Array:
        for w in weights:
            x = jax.nn.relu(w @ x + w[0])
        return x

    model = check(run, np.linspace(-1.0, 1.0, 8, dtype=np.float32))
    assert ops(model).count("Gemm") == 3
    assert "MatMul" not in ops(model)


def test_a_vector_is_reduced_before_it_is_a_row() -> None:
    def run(q: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
        def step(sum_: jax.Array, given: Any) -> Any:
            key, value = given
            scores = key @ q
            return sum_ + jnp.exp(scores - scores.max()) @ value, None

        return lax.scan(step, jnp.zeros(4), (keys, values))[0]

    arrays = np.sin(np.arange(164, dtype=np.float32))
    keys, values = arrays[:80].reshape(5, 4, 4), arrays[80:160].reshape(5, 4, 4)
    check(run, arrays[160:], keys, values)


def test_entries_of_the_last_axis_keep_it() -> None:
    def run(y: jax.Array) -> jax.Array:
        def step(y: jax.Array, _: None) -> Any:
            a, b = y[..., 0], y[..., 1]
            y = y + 0.01 * jnp.stack([1.1 * a - 0.4 * a * b, 0.1 * a * b - 0.4 * b], -1)
            return y, None

        return lax.scan(step, y, None, length=40)[0]

    model = check(run, np.linspace(0.5, 2.0, 12, dtype=np.float32).reshape(6, 2))
    (body,) = bodies(model)
    assert "Unsqueeze" not in body
    assert "Squeeze" not in body


@pytest.mark.parametrize("start", [0, 3])
def test_a_place_that_a_loop_counts_needs_no_correction(start: int) -> None:
    def run(x: jax.Array) -> Any:
        def goes_on(state: Any) -> jax.Array:
            return (state[0] < 9) & (jnp.max(state[1]) > 0.01)

        def step(state: Any) -> Any:
            n, x, kept = state
            return n + 1, x * 0.5, kept.at[n].set(x.sum())

        return lax.while_loop(goes_on, step, (start, x, jnp.zeros(9)))

    model = check(run, X[0])
    (body,) = bodies(model)
    assert not {"Clip", "GatherND"} & set(body)
    assert "Less" not in body  # The loop counts.


def test_a_place_that_is_counted_too_far_is_dropped() -> None:
    def run(x: jax.Array) -> jax.Array:
        def step(state: Any) -> Any:
            n, kept = state
            return n + 1, kept.at[n].set(x[n]).at[n - 2].add(1.0)

        return lax.while_loop(lambda state: state[0] < 12, step, (0, jnp.zeros(9)))[1]

    check(run, np.linspace(-1.0, 1.0, 9, dtype=np.float32))


@pytest.mark.parametrize(
    ("limit", "start", "step"), [(40, 0, 1), (-7, 33, -2), (5, 5, 1), (2**31 - 8, 2**31 - 300, 7)]
)
def test_a_loop_that_a_counter_ends_runs_over_numbers(limit: int, start: int, step: int) -> None:
    def run(x: jax.Array) -> Any:
        def goes_on(state: Any) -> jax.Array:
            return state[0] < limit if step > 0 else state[0] >= limit

        def once(state: Any) -> Any:
            i, x = state
            return i + step, jnp.sin(x) + i % 3

        return lax.while_loop(goes_on, once, (start, x))

    model = check(run, X[0], unroll=0)
    # Nothing runs over no numbers.
    assert ("Scan" if start != limit else "Loop") in ops(model)


def test_a_counter_that_stays_ends_no_loop() -> None:
    def run(x: jax.Array) -> Any:
        def goes_on(state: Any) -> jax.Array:
            return (state[0] < 10) & (state[1].sum() < 100.0)

        return lax.while_loop(goes_on, lambda state: (state[0] + 0, state[1] * 2 + 1), (0, x))

    check(run, np.ones(3, np.float32))


def test_a_loop_that_two_conditions_end_ends_at_the_first() -> None:
    def run(x: jax.Array, limit: jax.Array) -> Any:
        def goes_on(state: Any) -> jax.Array:
            return (state[1].sum() < limit) & (state[0] < 20)

        return lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))

    model = bench.convert(run, [np.ones(3, np.float32), np.float32(0)])
    (body,) = bodies(model)
    assert "And" not in body
    for limit in (0.0, 10.0, 1e9):
        inputs = [np.ones(3, np.float32), np.float32(limit)]
        for found, want in zip(bench.run(model, inputs), bench.expected(run, inputs), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-6)


Step = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
FILLS: dict[str, tuple[Step, tuple[int, ...], list[str]]] = {
    "rows": (lambda out, i, h: out.at[i].set(h), (20, 4), []),
    "columns": (lambda out, i, h: out.at[:, i].set(h), (4, 20), ["Transpose"]),
    "slices": (
        lambda out, i, h: lax.dynamic_update_slice(out, jnp.stack([h, -h]), (2 * i, 0)),
        (40, 4),
        ["Reshape"],
    ),
    "backwards": (lambda out, i, h: out.at[19 - i].set(h), (20, 4), ["ScatterND"]),
    "some": (lambda out, i, h: out.at[2 * i + 1].set(h), (50, 4), ["ScatterND"]),
    "one entry": (lambda out, i, h: out.at[i, 1].set(h[0]), (20, 3), ["ScatterND"]),
    "sums": (lambda out, i, h: out.at[i].add(h), (20, 4), ["ScatterND"]),
    "the largest": (lambda out, i, h: out.at[i].max(h), (20, 4), []),
    "with the last": (lambda out, i, h: out.at[i].set(h + out[i - 1]), (20, 4), []),
    "with its own": (lambda out, i, h: out.at[i].set(h * out[i]), (20, 4), []),
    "with a later one": (lambda out, i, h: out.at[i].set(h + out[i + 1]), (21, 4), ["ScatterND"]),
}


@pytest.mark.parametrize("kind", FILLS)
def test_an_array_that_a_loop_fills_is_a_stack(kind: str) -> None:
    fill, shape, behind = FILLS[kind]

    def run(h: jax.Array) -> Any:
        def step(i: jax.Array, state: Any) -> Any:
            h, out = state
            h = jnp.sin(h[::-1]) + 0.1
            return h, fill(out, i, h)

        return lax.fori_loop(0, 20, step, (h, jnp.ones(shape)))

    model = check(run, X.reshape(-1)[:4])
    loop = ops(model).index("Scan")
    assert "ScatterND" not in bodies(model)[0]
    assert [op for op in ops(model)[loop + 1 :] if op in ("Reshape", "Transpose", "ScatterND")] == (
        behind
    )


def test_a_batch_of_arrays_that_a_loop_fills_is_a_stack() -> None:
    def run(h: jax.Array) -> jax.Array:
        def step(i: jax.Array, state: Any) -> Any:
            h, out = state
            return jnp.sin(h) + 0.1, out.at[i].set(h)

        return lax.fori_loop(0, 20, step, (h, jnp.zeros((20, 3))))[1]

    model = check(jax.vmap(run), X)
    assert ops(model) == ["Scan", "Transpose"]


@pytest.mark.parametrize(
    "fill",
    [
        lambda out, i, h: out.at[i].set(h + out[i - 2]),
        lambda out, i, h: out.at[i].set(h + out.sum(0)),
        lambda out, i, h: out.at[i].set(h + out[(i + 1) % 20]),
        lambda out, i, h: out.at[i % 7].set(h),
        lambda out, i, h: out.at[i + 15].set(h),
        lambda out, i, h: out.at[i % 7].add(h) * 0.5,
    ],
)
def test_an_array_that_is_read_or_filled_twice_is_carried(fill: Step) -> None:
    def run(h: jax.Array) -> Any:
        def step(i: jax.Array, state: Any) -> Any:
            h, out = state
            h = jnp.sin(h[::-1]) + 0.1
            return h, fill(out, i, h)

        return lax.fori_loop(0, 20, step, (h, jnp.ones((20, 4))))

    model = check(run, X.reshape(-1)[:4])
    assert "ScatterND" in bodies(model)[0]


@pytest.mark.parametrize("length", [1, 6])
def test_what_follows_a_recurrence_is_computed_after_it(length: int) -> None:
    head = np.sin(np.arange(20, dtype=np.float32)).reshape(4, 5)

    def run(h: jax.Array, xs: jax.Array) -> Any:
        def step(h: jax.Array, x: jax.Array) -> Any:
            h = jnp.sin(x @ W + h[::-1])
            logits = jax.nn.softmax(h @ head)
            return h, (logits, h * x.mean(), x.sum(-1))

        return lax.scan(step, h, xs)

    xs = np.cos(np.arange(length * 6, dtype=np.float32)).reshape(length, 2, 3)
    model = check(run, np.ones((2, 4), np.float32), xs, unroll=0)
    (body,) = bodies(model)
    assert not {"Softmax", "ReduceSum", "ReduceMean", "MatMul", "Gemm"} & set(body)
    assert "Softmax" in ops(model)


def test_a_result_of_a_reverse_scan_stays_with_its_step() -> None:
    def run(h: jax.Array, xs: jax.Array) -> Any:
        def step(h: jax.Array, x: jax.Array) -> Any:
            h = jnp.sin(h) + x
            return h, jnp.exp(h * 0.1) @ W

        return lax.scan(step, h, xs, reverse=True)

    check(run, np.ones(3, np.float32), np.cos(np.arange(18, dtype=np.float32)).reshape(6, 3))


@pytest.mark.parametrize("shape", [(40, 1), (5, 30, 1, 1), (1, 1)])
def test_a_number_beside_a_column_is_read_as_one_run(shape: tuple[int, ...]) -> None:
    """ONNX Runtime takes up to 70 times as long if the number has no axes."""

    def run(x: jax.Array, t: jax.Array) -> jax.Array:
        return jnp.where(x < 0.5, jnp.maximum(x * 2.0, 0.25), t - x) ** 3.0 * t

    x = np.linspace(-1.0, 1.0, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    model = check(run, x, np.array(1.5, np.float32))
    numbers = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    trailing = next((i for i, size in enumerate(shape[::-1]) if size > 1), -1)
    assert {len(number.dims) for number in numbers} == {trailing + 1}


def test_the_place_among_rows_and_columns_needs_no_correction() -> None:
    def run(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        place = jnp.argmax(x.reshape(-1))
        return place // 3, place % 3

    found = ops(check(run, X, nan="ignore"))
    assert found == ["Reshape", "ArgMax", "Cast", "Div", "Mul", "Sub"]


def test_the_argument_takes_precedence_over_the_environment_and_that_over_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_unrolled(**options: Any) -> bool:
        return "Scan" not in ops(jax2onnx.to_onnx(three_rounds, [(3,)], **options))

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAX2ONNX_UNROLL", raising=False)
    assert is_unrolled()
    (tmp_path / "pyproject.toml").write_text("[tool.jax2onnx]\nunroll = 0\n")
    assert not is_unrolled()
    monkeypatch.setenv("JAX2ONNX_UNROLL", "64")
    assert is_unrolled()
    assert not is_unrolled(unroll=0)


def test_anything_but_a_number_of_nodes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = (
        r"^`-1` is not a number of nodes \(`unroll`\): use a whole number, or 0 to keep all loops$"
    )
    with pytest.raises(jax2onnx.ConfigError, match=message):
        jax2onnx.to_onnx(jnp.sin, [(2,)], unroll=-1)
    monkeypatch.setenv("JAX2ONNX_UNROLL", "no")
    with pytest.raises(jax2onnx.ConfigError, match=r"\(JAX2ONNX_UNROLL\)"):
        jax2onnx.to_onnx(jnp.sin, [(2,)])
    monkeypatch.delenv("JAX2ONNX_UNROLL")
    (tmp_path / "pyproject.toml").write_text('[tool.jax2onnx]\nunroll = "no"\n')
    with pytest.raises(jax2onnx.ConfigError, match=r"^`unroll` .* is not a number$"):
        jax2onnx.to_onnx(jnp.sin, [(2,)])


@pytest.mark.slow
def test_the_command_line_takes_a_number_of_nodes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    target = f"{__name__}:three_rounds"
    command = ["export", target, "--input", "f32[2]", "--output", str(path), "--quiet"]
    for unroll, is_kept in (("0", True), ("64", False)):
        words = [sys.executable, "-m", "jax2onnx", *command, "--unroll", unroll]
        run = subprocess.run(words, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert ("Scan" in ops(onnx.load(path))) == is_kept
