"""Every case: the numbers of ONNX Runtime against those of JAX, and one graph at every level."""

from __future__ import annotations

import onnx
import pytest

import jax2onnx
from jax2onnx import _core

from . import bench
from .accuracy import LEVELS, nodes_of
from .cases import Case, Limit, all_cases, all_limits

CASES = all_cases()

#: Primitives that the JAX at hand has under another name or not at all, or that no case can have.
ELSEWHERE = {
    "checkpoint": "`remat2` in newer versions",
    "core_call": "`call` in newer versions",
    "custom_vjp_call_jaxpr": "`custom_vjp_call` in newer versions",
    "dim_as_value": "of symbolic sizes: see `test_symbolic.py`",
    "one_minus_square": "in newer versions, for the derivative of `tanh`",
    "pjit": "`jit` in newer versions",
    "random_gamma_grad": "made of others in newer versions",
}


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_the_runtime_computes_what_jax_computes(case: Case) -> None:
    tolerances = {"rtol": case.rtol, "atol": case.atol}
    bench.check(case.fn, case.inputs, double=case.double, opset=case.opset, **tolerances)


@pytest.mark.parametrize("limit", all_limits(), ids=repr)
def test_a_limit_is_said(limit: Limit) -> None:
    with pytest.raises(jax2onnx.UnsupportedError) as refused:
        bench.convert(limit.fn, limit.inputs, double=limit.double, opset=limit.opset)
    assert limit.message in str(refused.value)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_the_graph_is_the_same_at_every_level(case: Case) -> None:
    def export(level: str) -> onnx.ModelProto:
        return jax2onnx.to_onnx(
            case.fn,
            list(case.inputs),
            enable_double_precision=case.double,
            opset=case.opset,
            provenance=level,
        )

    plain = export("off")
    assert not any(node.metadata_props for node in nodes_of(plain))
    assert export("off").SerializeToString() == plain.SerializeToString(), "not reproducible"
    for level in LEVELS:
        model = export(level)
        assert all(node.metadata_props for node in nodes_of(model)), level
        strip(model)
        assert model.SerializeToString() == plain.SerializeToString(), level


def strip(model: onnx.ModelProto) -> None:
    """Take away what provenance adds."""
    del model.metadata_props[:]
    graph = model.graph
    for entry in (*graph.initializer, *graph.input, *graph.output, *nodes_of(model)):
        del entry.metadata_props[:]


@pytest.mark.parametrize("case", [case for case in CASES if case.covers], ids=repr)
def test_a_case_has_the_primitives_it_is_about(case: Case) -> None:
    found = bench.primitives_of(case.fn, case.inputs, double=case.double)
    assert set(case.covers) <= found


def test_every_primitive_of_the_table_has_a_case() -> None:
    covered: set[str] = set(ELSEWHERE)
    for case in CASES:
        covered |= bench.primitives_of(case.fn, case.inputs, double=case.double)
    table = {plugin.primitive for plugin in _core.plugins()}
    assert table - covered == set()
