"""Every opset that the runtime loads: the same numbers, or a refusal with the opset needed.

What JAX computes is compared in `test_cases.py`, at one opset; here the others are compared with
that one, which saves compiling every case again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest

import jax2onnx
from jax2onnx import _export, _tiers
from jax2onnx._options import ExportOptions
from jax2onnx._settings import DEFAULTS
from jax2onnx._tracing import definitions, trace
from testkit import bench
from testkit.cases import Case, families, is_lacking

OPSETS = range(17, 27)

#: Operators and types that older opsets lack, and that no others replace.
NEEDS_LATER = re.compile(
    r"`(?:Bitwise(?:And|Not|Or|Xor)|ScatterElements with min or max|[iu]4|f8_\w+)`"
    r" needs opset (18|19|21)"
)

FAMILIES = families()


def sample(cases: list[Case]) -> Iterator[Case]:
    """A case for every primitive of a family."""
    seen: set[str] = set()
    for case in cases:
        try:
            found = bench.primitives_of(case.fn, case.inputs, double=case.double)
        except (AttributeError, TypeError) as error:
            if not is_lacking(error):
                raise
            continue
        if found - seen:
            yield case
        seen |= found


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_opset_computes_the_same_or_says_which_it_needs(family: str) -> None:
    cases = list(sample(FAMILIES[family]))
    assert cases
    for case in cases:
        traced = trace.trace(case.fn, list(case.inputs), double_precision=case.double)
        want = bench.run(model_at(case, traced, case.opset), case.inputs)
        for opset in OPSETS:
            try:
                check(case, traced, want, opset)
            except (AssertionError, RuntimeError) as error:
                raise AssertionError(f"{case} at opset {opset}: {error}") from error


def model_at(case: Case, traced: trace.Traced, opset: int) -> onnx.ModelProto:
    options = ExportOptions(
        tiers=_tiers.rules(trace.folders()),
        define=functools.partial(definitions.definition, double_precision=case.double),
        settings=DEFAULTS._replace(opset=opset),
    )
    return onnx.ModelProto.FromString(_export.export_traced(traced.closed_jaxpr, options) or b"")


def check(case: Case, traced: trace.Traced, want: list[np.ndarray], opset: int) -> None:
    refusal = ""
    try:
        model = model_at(case, traced, opset)
    except jax2onnx.UnsupportedError as error:
        refusal = str(error)
    if refusal:
        needed = NEEDS_LATER.search(refusal)
        assert needed is not None, refusal
        assert opset < int(needed[1]), refusal
        return
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [opset]
    onnx.checker.check_model(model)
    for one, other in zip(bench.run(model, case.inputs), want, strict=True):
        bench.assert_same(one, other, case.rtol, case.atol)


def test_no_opset_past_the_newest_is_loaded_by_the_runtime() -> None:
    """The limit of `to_onnx` is the runtime's, and not one short of it."""
    model = jax2onnx.to_onnx(lambda x: x + 1, [(2,)], opset=OPSETS[-1])
    onnxruntime.InferenceSession(model.SerializeToString())
    model.opset_import[0].version = OPSETS[-1] + 1
    with pytest.raises(Exception, match="only \\*guarantees\\* support"):
        onnxruntime.InferenceSession(model.SerializeToString())
    with pytest.raises(jax2onnx.ConfigError, match=f"use 16 to {OPSETS[-1]}"):
        jax2onnx.to_onnx(lambda x: x + 1, [(2,)], opset=OPSETS[-1] + 1)
