"""Random programs: the runtime computes what JAX computes, with passes and without."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

import jax2onnx
from jax2onnx._tracing.compat import double_precision_kept
from testkit.programs import JaxError, difference, draw_program, fails_like, shrink
from testkit.programs.check import Reference
from testkit.programs.draw import value_of
from testkit.programs.excuses import Excuses
from testkit.programs.helpers import steps_to_overflow
from testkit.programs.program import SIZES, Leaf, Program, Step
from testkit.programs.table import OPERATIONS
from testkit.programs.traced import failures, jaxpr_at, misfits, rounds_to_float32

COUNT = int(os.environ.get("JAX2ONNX_RANDOM_PROGRAMS", "100"))
FIRST = int(os.environ.get("JAX2ONNX_RANDOM_SEED", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_random_program_computes_what_jax_computes(seed: int) -> None:
    program = draw_program(seed)
    try:
        found = difference(program)
    except (jax2onnx.UnsupportedError, JaxError):
        return
    if found is not None:
        small = shrink(program, fails_like(found))
        pytest.fail(f"{difference(small) or found}\n\n{small}", pytrace=False)


@pytest.mark.slow
def test_a_seed_always_creates_the_same_program_and_its_text_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed in range(5):
        text = str(draw_program(seed))
        assert text == str(draw_program(seed))
    program = next(p for p in map(draw_program, range(9)) if not p.is_symbolic and not p.double)
    exec(str(program), {"__name__": "program"})
    assert capsys.readouterr().out.count("passes") == 4


def test_a_small_sigmoid_may_be_zero() -> None:
    """ONNX Runtime returns 0 below -18, as `docs/primitives.md` says."""
    x = np.array([-30.0, -17.0, 1.0], np.float32)
    sources = [operation.source for operation in OPERATIONS]
    names = ["lax.logistic({0})", "jnp.flip({0})", "lax.lgamma({0})"]
    steps = [
        Step(sources.index(name), (i,), rounds=not OPERATIONS[sources.index(name)].keeps)
        for i, name in enumerate(names)
    ]
    assert difference(Program((Leaf({7: x}, (3,), x.dtype),), tuple(steps))) is None


def steps_of(*sources: tuple[str, tuple[int, ...]], **options: Any) -> tuple[Step, ...]:
    """Steps with these expressions and operands."""
    indices = {operation.source: index for index, operation in enumerate(OPERATIONS)}
    params: dict[str, Any] = options.pop("params", {})
    return tuple(
        Step(
            indices[source],
            operands,
            tuple((name, value) for name, value in params.items() if f"{{{name}}}" in source),
            rounds=not OPERATIONS[indices[source]].jumps,
            **options,
        )
        for source, operands in sources
    )


COMPLEX = "lax.complex({0}, {1})"
MAY_DIFFER = [
    # XLA takes `exp(-100)` for zero, and the next round of the loop compares it with zero.
    (
        [0.0, 0.5, 1.0],
        steps_of(
            ("jax.nn.softmax(jnp.where({0} > {c}, {0}, {number}), axis=-1)", (0,)),
            params={"c": "0", "number": "-100.0"},
            context="loop",
        ),
    ),
    # `sin` and `where` may change the sign of a zero, and then the logarithm is on the other side.
    (
        [-0.3, -0.0, 0.2],
        steps_of(
            (f"parts(jnp.sin({COMPLEX}))", (0, 0)),
            (f"parts(jnp.where({{0}} > 0, {COMPLEX}, lax.complex({{1}}, {{0}})))", (0, 0)),
            (f"parts(jnp.log2({COMPLEX}))", (1, 2)),
        ),
    ),
    # XLA adds the parts before it multiplies them, so that one product that overflows is in both.
    (
        [-1e20, 30.0, 1.0],
        steps_of(
            (f"parts({COMPLEX} / lax.complex({{1}}, {{0}}))", (0, 0)),
            (f"parts(jnp.where({{0}} > 0, {COMPLEX}, lax.complex({{1}}, {{0}})))", (0, 0)),
            (f"parts({COMPLEX} @ lax.complex({{1}}, {{0}}).T)", (2, 1)),
            ("{0} - {1}", (3, 3)),
        ),
    ),
    # The number after zero is positive, and XLA takes it for zero.
    (
        [-0.0, 0.5, 1.0],
        steps_of(
            ("jnp.exp({0})", (0,)),
            ("jnp.nextafter({0}, {1})", (0, 1)),
            ("jnp.where({0} > 0, {0}, {1})", (2, 1)),
        ),
    ),
    # The real parts of the transform are zero or a rounding error, and the model divides by them.
    (
        [-0.35, 0.53, -0.38],
        steps_of(
            ("{0} - {1}", (0, 0)),
            (f"parts(jnp.fft.{{name}}({COMPLEX}))", (1, 0)),
            (f"parts(jnp.reciprocal({COMPLEX}))", (2, 2)),
            params={"name": "fft"},
        ),
    ),
]


@pytest.mark.parametrize(("numbers", "steps"), MAY_DIFFER)
def test_what_differs_as_documented_is_right(numbers: list[float], steps: tuple[Step, ...]) -> None:
    x = np.array(numbers, np.float32)
    assert difference(Program((Leaf({7: x}, x.shape, x.dtype),), steps)) is None


def test_a_factor_of_a_matrix_with_infinities_may_differ() -> None:
    """LAPACK replaces the elements below an infinite pivot with zeros."""
    (steps,) = [
        Step(index, (0,), (("name", "cholesky"),), rounds=True)
        for index, operation in enumerate(OPERATIONS)
        if operation.source.startswith("jnp.linalg.{name}(")
    ]
    for number, may_differ in [(np.inf, True), (0.5, False)]:
        x = np.full((2, 2), number, np.float32)
        program = Program((Leaf({7: x}, x.shape, x.dtype),), (steps,))
        assert difference(program) is None
        reference = Reference(program, 7)
        found = np.where(np.eye(2) > 0, reference.want[0], np.nan).astype(np.float32)
        assert (reference.wrong([found]) is None) == may_differ


def test_a_loop_without_rounds_does_not_hide_what_xla_simplifies() -> None:
    """XLA computes `exp(x) / exp(x)` as 1, and JAX runs no empty loop without `jit`."""
    numbers, nothing = np.array([-1e30], np.float32), np.zeros((0, 3), np.float32)
    leaves = tuple(Leaf({7: each}, each.shape, each.dtype) for each in (numbers, nothing))
    quotient = "jnp.exp({0}) / jnp.exp({0}).sum({axis}, keepdims=True)"
    steps = (
        *steps_of((quotient, (0,)), params={"axis": 0}, context="function"),
        *steps_of(("jnp.exp({0})", (1,)), context="map"),
    )
    reference = Reference(Program(leaves, steps), 7)
    one, empty = reference.want
    assert one == 1
    nan = np.full_like(one, np.nan)
    assert reference.wrong([nan, empty]) is not None
    assert reference.wrong([np.asarray(value) for value in reference.plain()]) is None
    assert not reference.is_sure([nan, empty])


def test_a_zero_that_is_no_underflow_is_exact() -> None:
    """A run that changes zeros hides no other number."""
    x = np.array([-2.0, 0.0, 3.0], np.float32)
    steps = steps_of(("jax.nn.relu({0})", (0,)), ("jnp.exp({0})", (1,)))
    reference = Reference(Program((Leaf({7: x}, x.shape, x.dtype),), steps), 7)
    (right,) = reference.want
    assert reference.wrong([right]) is None
    assert reference.wrong([right + np.float32(1e-3)]) is not None


@pytest.mark.slow
def test_a_sum_of_float8_overflows_in_any_order() -> None:
    """Seven of the numbers have an exact sum, and eight of them have none."""
    for dtype in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz):
        x = jnp.ones(9, dtype)
        sums = np.asarray(jnp.cumsum(steps_to_overflow(x)).astype(np.float32))
        assert np.isfinite(sums).tolist() == [True] * 7 + [False] * 2
        assert sums[6] == 7 * sums[0]


def test_a_denormal_at_one_size_counts() -> None:
    """XLA takes it for a zero, so a value that has one at any size is only moved."""
    tiny = np.full(2, 1e-39, np.float32)
    arrays = {0: tiny[:0], 1: tiny[:1] + 1, 2: tiny, 7: np.ones(7, np.float32)}
    assert value_of(Leaf(arrays, ("N",), tiny.dtype)).denormal
    assert not value_of(Leaf({7: arrays[7]}, (7,), tiny.dtype)).denormal


def test_a_counter_of_a_loop_is_a_number_without_jit() -> None:
    """No program may depend on it, because JAX then runs without `jit` too."""
    assert not any("i.astype" in operation.source for operation in OPERATIONS)


def test_an_operation_on_a_small_matrix_makes_an_array() -> None:
    """`jnp.linalg.slogdet` makes two."""
    x = jax.ShapeDtypeStruct((3, 3), np.float32)
    random = np.random.default_rng(0)
    for place, operation in enumerate(OPERATIONS):
        if "linalg" in operation.source and "norm" not in operation.source:
            for _ in range(6):
                params = operation.draw(random, [x.shape]) or {}
                step = Step(place, (0,), tuple(params.items()))
                assert hasattr(jax.eval_shape(step.run, x), "shape"), step


def traced(function: Callable[..., Any], *sizes: str) -> Any:
    shapes = jax.export.symbolic_shape(", ".join(sizes))
    return jax.make_jaxpr(function)(jax.ShapeDtypeStruct(shapes, np.float32))


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x: x[1:], {0}),
        (lambda x: x[:1], {0}),
        (lambda x: x[0], {0}),
        (lambda x: x.at[:1].add(2), {0}),
        (lambda x: jax.jit(lambda y: y[2:])(x), set()),
        (lambda x: jax.jit(lambda y: y[1:])(x), {0}),
        (lambda x: lax.cond(x.sum() > 0, lambda y: y[1:], lambda y: 2 * y[1:], x), {0}),
        (lambda x: jnp.pad(jnp.append(x, 1.0), 1, mode="reflect"), {0}),
        (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID"), {0, 1}),
        (lambda x: jnp.concatenate([x, x]).sum() + jnp.zeros(x.shape[0] + 1), set()),
        (lambda x: x[jnp.arange(x.shape[0])], set()),
    ],
)
def test_sizes_at_which_a_trace_is_not_right(function: Any, sizes: set[int]) -> None:
    jaxpr = traced(function, "N").jaxpr
    assert {size for size in (0, 1, 2, 7) if misfits(jaxpr, size)} == sizes


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x: x.at[1:].add(1.0), set()),
        (lambda x: (x[2:], x[:-1]), set()),
        (lambda x: x[jnp.arange(2)], {0}),
        (lambda x: x[jnp.arange(0)], set()),
        (lambda x: x.at[0].add(1.0), {0}),
        (lambda x: x[1:].reshape(-1, 1) + jnp.zeros((x.shape[0] - 1, 3)), set()),
        (lambda x: x[:1], {0}),
        (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID"), {0, 1}),
    ],
)
def test_sizes_at_which_the_runtime_may_fail(function: Any, sizes: set[int]) -> None:
    """At other sizes, an error is a failure, also where JAX writes a size below zero."""
    jaxpr = traced(function, "N").jaxpr
    assert {size for size in (0, 1, 2, 7) if failures(jaxpr, size)} == sizes


def test_only_a_step_that_does_not_fit_and_its_readers_are_excused() -> None:
    """At size 0, `x[-1:]` has no element, which is no reason for a wrong sine of another array."""
    arrays = {size: np.ones(size, np.float32) for size in SIZES}
    leaves = (Leaf(arrays, ("N",), np.dtype(np.float32)),)
    steps = steps_of(("{0}[-1:]", (0,)), ("jnp.sin({0})", (0,)), ("jnp.exp({0})", (1,)))
    program = Program(leaves, steps, sizes=SIZES)
    excuses = Excuses(program, 0)
    assert [excuses.cover_result(value) for value in (1, 2, 3)] == [True, False, True]
    assert not Excuses(program, 2).cover_result(1)

    model = jax2onnx.to_onnx(program, program.specs(), optimize=False, provenance="indexed")
    covered = {
        node.name.partition("/")[0]: excuses.cover_error(
            RuntimeError(f"returned while running {node.op_type} node. Name:'{node.name}'"), model
        )
        for node in model.graph.node
    }
    assert covered == {"step_0": True, "step_1": False, "step_2": True}


def test_a_node_is_excused_by_the_size_that_it_needs() -> None:
    arrays = {size: np.ones((size, 4), np.float32) for size in SIZES}
    leaves = (Leaf(arrays, ("N", 4), np.dtype(np.float32)),)
    name = "jnp.sign({0})"
    program = Program(leaves, steps_of((name, (0,)), (name, (1,))), sizes=SIZES)
    model = jax2onnx.to_onnx(lambda x: jnp.argmax(x, 0), program.specs(), provenance="indexed")
    node = next(node for node in model.graph.node if node.op_type == "ArgMax")
    error = RuntimeError(f"returned while running ArgMax node. Name:'{node.name}'")
    assert Excuses(program, 0).cover_error(error, model)
    assert not Excuses(program, 1).cover_error(error, model)
    assert not Excuses(program, 7).cover_error(error, model)
    other = RuntimeError("returned while running Cast node. Name:'another'")
    assert not Excuses(program, 0).cover_error(other, model)


def test_the_activation_of_a_convolution_is_excused_by_its_size() -> None:
    """ONNX Runtime names a convolution with an activation after the result of the activation."""
    spec = jax.ShapeDtypeStruct((1, 4, "N", 4), jnp.float32)
    weights = jnp.ones((4, 4, 1, 3))
    model = jax2onnx.to_onnx(
        lambda x: jax.nn.relu(lax.conv_general_dilated(x, weights, (2, 2), "VALID")),
        [spec],
        provenance="indexed",
    )
    arrays = {size: np.ones((size,), np.float32) for size in SIZES}
    leaves = (Leaf(arrays, ("N",), np.dtype(np.float32)),)
    program = Program(leaves, steps_of(("jnp.sign({0})", (0,))), sizes=SIZES)
    last = model.graph.node[-1].output[0]
    error = RuntimeError(f"returned while running Conv node. Name:'{last}_nchwc'")
    assert Excuses(program, 0).cover_error(error, model)
    assert not Excuses(program, 7).cover_error(error, model)


def test_a_step_that_jumps_and_rounds_to_float32_has_its_precision() -> None:
    leaves = (Leaf({7: np.ones((2,))}, (2,), np.dtype(np.float64), constant=True),)
    jump = "jax.jvp(lambda x: jnp.interp(x, jnp.array([-1.0, 0, 2]), jnp.array([3.0, 1, 2]))"
    place = next(i for i, one in enumerate(OPERATIONS) if one.source.startswith(jump))
    sine = next(i for i, one in enumerate(OPERATIONS) if one.source == "jnp.sin({0})")
    steps = (Step(place, (0,)), Step(sine, (0,), rounds=True), Step(sine, (1,), rounds=True))
    excuses = Excuses(Program(leaves, steps, double=True), 7)
    assert [excuses.is_coarse(value) for value in (1, 2, 3)] == [True, False, True]
    assert not Excuses(Program(leaves, steps[1:2], double=True), 7).is_coarse(1)


def test_a_trace_runs_at_a_size() -> None:
    """`jnp.array_equal` compares sizes when JAX traces it, and takes `N` to be at least 1."""
    closed = traced(lambda x: jnp.array_equal(x, jnp.concatenate([x, x])), "N")
    (found,) = jaxpr_as_fun(jaxpr_at(closed, 0))(np.zeros(0, np.float32))
    assert not found
    closed = traced(lambda x: lax.map(jnp.sin, x) * x.shape[0], "N")
    (found,) = jaxpr_as_fun(jaxpr_at(closed, 2))(np.ones(2, np.float32))
    np.testing.assert_allclose(found, 2 * np.sin(np.ones(2)), rtol=1e-6)


def test_what_jax_computes_in_float32_has_its_noise() -> None:
    with double_precision_kept(True):
        x = np.ones((1, 2, 1, 3))
        assert rounds_to_float32(lambda: jax.nn.dot_product_attention(x, x, x))
        assert not rounds_to_float32(lambda: jnp.einsum("btnh,bsnh->bnts", x, x))


def test_a_program_that_jax_refuses_is_told_apart() -> None:
    """JAX has no float16 product with sums of float32 on a CPU."""
    x = np.ones((2, 3), np.float16)
    place = next(i for i, one in enumerate(OPERATIONS) if "dot_product_attention" in one.source)
    params = (("flag", True),)
    program = Program((Leaf({7: x}, (2, 3), x.dtype),), (Step(place, (0,), params),))
    with pytest.raises(JaxError, match="not supported"):
        difference(program)


@pytest.mark.slow
def test_a_wrong_number_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that adds 1 to every float is found out by a program of one step."""
    from testkit import bench

    run = bench.run_session

    def wrong(*arguments: object) -> list[np.ndarray]:
        return [value + 1 if value.dtype == np.float32 else value for value in run(*arguments)]

    monkeypatch.setattr(bench, "run_session", wrong)
    program = draw_program(0)
    found = difference(program)
    assert found is not None
    assert len(shrink(program, fails_like(found)).steps) == 1
