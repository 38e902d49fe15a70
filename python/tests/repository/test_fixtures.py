"""The reference models are what is written today, and say what they should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from jax2onnx.testing import expect_graph
from testkit import ROOT

SAMPLE = ROOT / "examples" / "stacktrace_sample.onnx"


def check(tool: str) -> None:
    command = [sys.executable, ROOT / "tools" / tool, "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_models_are_fresh() -> None:
    check("fixtures.py")


def test_the_list_of_primitives_is_fresh() -> None:
    check("primitives.py")


@pytest.mark.slow
def test_the_types_that_onnx_infers_are_fresh() -> None:
    check("generate_types.py")


def test_the_costs_of_the_unit_tests_are_counted() -> None:
    check("generate_costs.py")


def test_the_picture_of_the_readme_is_fresh() -> None:
    check("capture.py")


def test_contributing_lists_every_generated_file_with_its_tool() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Generated files\n")[2]
    rows = [row for row in section.partition("\n## ")[0].splitlines() if row.startswith("| `")]
    tools = {
        path: re.findall(r"`([^`]*)`", rest)
        for files, rest in (row[1:].split(" | ", 1) for row in rows)
        for path in re.findall(r"`([^`]*)`", files)
    }
    assert [path for path in tools if not (ROOT / path).exists()] == []
    generated = {path: tool for path in sources() if (tool := generator_of(path))}
    assert len(generated) >= 6
    for path, tool in generated.items():
        commands = " ".join(tools.get(path) or tools.get(Path(path).parent.as_posix(), ()))
        assert tool in commands, f"CONTRIBUTING.md does not say that {tool} generates {path}"


def test_make_generate_runs_every_tool_of_its_table() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Generated files\n")[2]
    own = section.partition("`make generate` does not regenerate these files")[0]
    recipe = (ROOT / "Makefile").read_text().partition("\ngenerate: ")[2].partition("\n\n")[0]
    assert re.findall(r"tools/\w+\.py", recipe) == re.findall(r"tools/\w+\.py", own)


def sources() -> list[str]:
    """The text files that may be generated."""
    patterns = ("crates/**/*.rs", "docs/*.md", "python/jax2onnx/**/*.py*", "*.md")
    found = [path for pattern in patterns for path in ROOT.glob(pattern)]
    return [path.relative_to(ROOT).as_posix() for path in found if path.suffix != ".pyc"]


def generator_of(path: str) -> str | None:
    """The tool that generates a file, by what the file says at its beginning."""
    if path == "crates/onnx/src/proto/generated.rs":
        return "tools/generate-proto"
    head = (ROOT / path).read_text()[:2000]
    named = re.search(r"[Gg]enerated by `([^`]*)`", head)
    return named[1] if named else None


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
