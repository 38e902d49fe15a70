"""The GitHub Action, as far as it runs without GitHub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "crates" / "cli" / "tests" / "fixtures"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is missing")
@pytest.mark.parametrize(("strict", "failed"), [("false", "false"), ("true", "true")])
def test_the_action_writes_findings_differences_and_a_page(
    tmp_path: Path, strict: str, failed: str
) -> None:
    command = tmp_path / "bin" / "jax2onnx"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jax2onnx "$@"\n')
    command.chmod(0o755)
    output, summary = tmp_path / "output", tmp_path / "summary"
    environment = os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "MODEL": "foreign/torch.onnx",
        "BASE": "indexed.onnx",
        "ROOT": "foreign",
        "STRICT": strict,
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    script = ["bash", str(ROOT / "tools" / "check_pull_request.sh")]
    ran = subprocess.run(
        script, cwd=FIXTURES, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    written = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert written["failed"] == failed
    assert '"version": "2.1.0"' in Path(written["findings"]).read_text()
    assert Path(written["page"]).read_text().startswith("<!doctype html>")
    assert "::warning file=/home/ann/project/torch_model.py,line=15,col=1::" in ran.stdout
    shown = summary.read_text()
    assert "### `torch.onnx`" in shown
    assert "11 → 3 nodes" in shown
    shutil.rmtree(written["folder"])
