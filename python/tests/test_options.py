"""The options of an export: Python and Rust know the same ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import pytest

from jax2onnx import _core, _tiers
from jax2onnx._options import ExportOptions
from jax2onnx._tracing import trace

NAMES = [field.name for field in dataclasses.fields(ExportOptions)]


def options() -> dict[str, Any]:
    return vars(ExportOptions(tiers=_tiers.rules(trace.folders())))


def export(fields: dict[str, Any]) -> bytes | None:
    options = dataclasses.make_dataclass("Options", fields)(**fields)
    return _core.export(jax.make_jaxpr(lambda x: x + 1)(1.0), options)


def test_the_core_reads_every_option() -> None:
    assert export(options())


def test_an_option_that_only_python_knows_is_refused() -> None:
    with pytest.raises(TypeError, match=r"does not read these options: \['added'\]"):
        export({**options(), "added": 1})


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_only_rust_knows_is_refused(name: str) -> None:
    fewer = options()
    del fewer[name]
    with pytest.raises(TypeError, match=f"`ExportOptions` has no field `{name}`"):
        export(fewer)


def test_an_option_of_another_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"`opset` of `ExportOptions`: .*cannot be"):
        export({**options(), "opset": "new"})
