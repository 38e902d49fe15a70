"""Every case: the numbers of ONNX Runtime against those of JAX, and one graph at every level."""

from __future__ import annotations

import jax
import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import _core
from testkit import bench, runtimes
from testkit.accuracy import LEVELS, emitted, nodes_of, strip
from testkit.cases import HAS_JAX_OF_TABLE, Case, Limit, all_cases, all_limits, is_lacking

CASES = all_cases()
needs_jax_of_table = pytest.mark.skipif(
    not HAS_JAX_OF_TABLE, reason="the table is that of the JAX in requirements-dev.txt"
)
#: Each primitive with each operator that the table of primitives lists for it.
OPERATORS = {(plugin.primitive, op) for plugin in _core.plugins() for op in plugin.ops}
#: The same for complex numbers alone.
COMPLEX_OPERATORS = {
    (plugin.primitive, op) for plugin in _core.plugins() for op in plugin.complex_ops
}

#: Primitives that the JAX at hand has under another name or not at all, or that no case can have.
ELSEWHERE = {
    "checkpoint": "`remat2` in newer versions",
    "core_call": "`call` in newer versions",
    "custom_vjp_call_jaxpr": "`custom_vjp_call` in newer versions",
    "dll_constraint": "`layout_constraint` in newer versions",
    "dim_as_value": "of symbolic sizes: see `test_symbolic.py`",
    "eval_jaxpr": "`closed_call` in older versions",
    "log2": "in newer versions, for `jnp.log2`",
    "mesh_cast": "`reshard` in newer versions",
    "one_minus_square": "in newer versions, for the derivative of `tanh`",
    "pjit": "`jit` in newer versions",
    "xla_pmap": "`shard_map` in newer versions",
    "reduced_vary_cast": "`reduced_vary_cast_p` in older versions",
    "relayout": "in newer versions, for explicit layouts",
    "xla_metadata_call": "in newer versions, for metadata of XLA",
    "vary_unreduced_cast": "`vary_unreduced_cast_p` in older versions",
    "random_gamma_grad": "made of others in newer versions",
}


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_case_has_the_numbers_of_jax_and_one_graph_at_every_level(case: Case) -> None:
    """One test per case, so that its checks share the model and what JAX traced."""
    try:
        primitives = bench.primitives_of(case.fn, case.inputs, double=case.double)
    except (AttributeError, TypeError) as error:
        if not is_lacking(error):
            raise
        pytest.skip(f"JAX {jax.__version__} lacks what the case uses: {error}")
    assert set(case.covers) <= primitives or not HAS_JAX_OF_TABLE
    with runtimes.allowed_to_lack_kernels():
        model = bench.check(
            case.fn,
            case.inputs,
            rtol=case.rtol,
            atol=case.atol,
            double=case.double,
            want=None if case.reference is None else reference(case),
            opset=case.opset,
            provenance="off",
        )
    check_levels(case, model)


def reference(case: Case) -> list[np.ndarray]:
    """What the case is compared with in place of JAX, whose types and shapes it must have."""
    assert case.reference is not None
    with bench.precision(case.double):
        shapes = jax.tree.leaves(jax.eval_shape(case.fn, *case.inputs))
    results = [np.asarray(leaf) for leaf in jax.tree.leaves(case.reference(*case.inputs))]
    assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in shapes]
    return results


def check_levels(case: Case, plain: onnx.ModelProto) -> None:
    """Every level has the same graph, and a second export the same bytes."""
    bytes_of_plain = plain.SerializeToString()
    assert not any(node.metadata_props for node in nodes_of(plain))
    assert export(case, "off").SerializeToString() == bytes_of_plain, "not reproducible"
    for level in LEVELS:
        model = export(case, level)
        assert all(node.metadata_props for node in nodes_of(model)), level
        if level == "minimal" and HAS_JAX_OF_TABLE:
            of_complex = bench.complex_primitives(case.fn, case.inputs, double=case.double)
            others = {op for op in COMPLEX_OPERATORS if op[0] in of_complex}
            assert emitted(model) <= OPERATORS | others, "run `make generate`"
        strip(model)
        assert model.SerializeToString() == bytes_of_plain, level


def export(case: Case, level: str) -> onnx.ModelProto:
    return jax2onnx.to_onnx(
        case.fn,
        list(case.inputs),
        enable_double_precision=case.double,
        opset=case.opset,
        provenance=level,
    )


@pytest.mark.parametrize("limit", all_limits(), ids=repr)
def test_a_limit_is_said(limit: Limit) -> None:
    with pytest.raises((jax2onnx.UnsupportedError, TypeError)) as refused:
        bench.convert(limit.fn, limit.inputs, double=limit.double, opset=limit.opset)
    if is_lacking(refused.value):
        pytest.skip(f"JAX {jax.__version__} lacks what is refused: {refused.value}")
    assert isinstance(refused.value, jax2onnx.UnsupportedError)
    assert limit.message in str(refused.value)


@needs_jax_of_table
def test_every_primitive_of_the_table_is_covered_by_a_case() -> None:
    """The test of each case checks that it has the primitives that it says it covers."""
    covered = {name for case in CASES for name in case.covers}
    table = {plugin.primitive for plugin in _core.plugins()}
    assert table - covered - set(ELSEWHERE) == set()


@needs_jax_of_table
@pytest.mark.slow
def test_every_operator_that_the_table_lists_is_in_a_case() -> None:
    """The test of each case checks the reverse."""
    missing = OPERATORS | COMPLEX_OPERATORS
    for case in CASES:
        primitives = bench.primitives_of(case.fn, case.inputs, double=case.double)
        if any(primitive in primitives for primitive, _ in missing):
            missing -= emitted(export(case, "minimal"))
    assert missing == set(), "run `make generate`"
