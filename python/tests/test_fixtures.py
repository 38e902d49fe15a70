"""The reference models are what is written today, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from jax2onnx.testing import expect_graph

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "stacktrace_sample.onnx"


def check(tool: str) -> None:
    command = [sys.executable, ROOT / "tools" / tool, "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_models_are_fresh() -> None:
    check("fixtures.py")


@pytest.mark.slow
def test_the_list_of_primitives_is_fresh() -> None:
    check("primitives.py")


def test_the_sample_has_full_metadata_on_every_node() -> None:
    source = (ROOT / "examples" / "stacktrace_sample.py").read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(source) if "jnp.sin(x) * 2.0" in text)
    model = onnx.load(SAMPLE)
    callsite = {"pkg.jax2onnx.callsite": f"fn:{line}"}
    expect_graph(
        model,
        """
        %0 = Sin(x)
        out_0 = Mul(%0, 2.0)
        """,
        metadata={"%0": callsite, "out_0": callsite},
    )
    for node in model.graph.node:
        keys = {entry.key.removeprefix("pkg.jax2onnx.") for entry in node.metadata_props}
        assert keys == {"callsite", "plugin", "stacktrace", "jax_traceback"}
