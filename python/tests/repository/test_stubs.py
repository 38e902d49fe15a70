"""What type checkers read of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jax2onnx

PACKAGE = Path(jax2onnx.__file__).parent


@pytest.mark.slow
def test_the_stubs_are_those_of_the_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy.stubtest")
    # The stub needs no types of JAX, whose checking takes 20 seconds.
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nfollow_imports = skip\n")
    command = [sys.executable, "-m", "mypy.stubtest", "jax2onnx._core"]
    command += ["--mypy-config-file", str(config)]
    path = str(PACKAGE.parent)
    env = {**os.environ, "PYTHONPATH": path, "MYPYPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout


def test_the_package_says_that_it_has_types() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert set(jax2onnx.__all__) <= set(dir(jax2onnx))
