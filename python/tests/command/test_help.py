"""The examples in every `--help`, run as people paste them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

import jax2onnx
from testkit import ROOT

PACKAGE = str(Path(jax2onnx.__file__).parent.parent)
PROFILES = ROOT / "crates/inspect/tests/profiles"
MODELS = ROOT / "crates/cli/tests/fixtures"

FILES = {
    "model.py": """
        import jax.numpy as jnp

        def predict(x):
            return jnp.tanh(x)

        def step(x, cache):
            return cache[0]["k"] + x[:, None, None]
    """,
    "train.py": """
        import numpy as np

        def forward(x):
            return x.mean((1, 2, 3))[:, None] * np.ones(4, np.float32)

        def make_model():
            return lambda images: images.mean((1, 2))
    """,
    "m.py": """
        def enc(x):
            return x * 2

        def dec(x):
            return x + 1

        def f(x):
            return x[:, 0, :4, 0]
    """,
    "run.py": """
        raise ValueError("[ONNXRuntimeError] : 1 : FAIL : running Add node. Name:'add'")
    """,
    "error.log": "running Add node. Name:'add' Status Message: dimension",
}

#: Folders that the examples write to, below the home folder.
FOLDERS = (
    ".zfunc",
    ".config/fish/completions",
    ".local/share/man/man1",
    "src/project",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with everything that the examples name."""
    folder = tmp_path_factory.mktemp("help")
    for name, text in FILES.items():
        (folder / name).write_text(textwrap.dedent(text).lstrip())
    for name in FOLDERS:
        (folder / "home" / name).mkdir(parents=True)
    shim = folder / "home" / "bin" / "jax2onnx"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jax2onnx "$@"\n')
    shim.chmod(0o755)
    (shim.parent / "python").symlink_to(sys.executable)
    for name in ("model.onnx", "before.onnx", "after.onnx", "optimized.onnx", "fp16.onnx"):
        shutil.copy(PROFILES / "images.onnx", folder / name)
    shutil.copy(MODELS / "indexed.onnx", folder / "predict.onnx")
    for name in ("profile.json", "onnxruntime_profile.json"):
        shutil.copy(PROFILES / "images.json", folder / name)
    images = np.linspace(0, 1, 3072, dtype=np.float32).reshape(1, 32, 32, 3)
    np.save(folder / "batch.npy", images)
    np.savez(folder / "inputs.npz", x=images)
    (folder / "phone").mkdir()
    output = onnx.load(folder / "model.onnx").graph.output[0].name
    np.save(folder / "phone" / f"{output}.npy", np.zeros((1, 4), np.float32))
    done = bash("jax2onnx strip model.onnx -o release.onnx --map release.onnx.map", folder)
    assert done.returncode == 0, done.stderr
    return folder


def bash(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    home = folder / "home"
    env = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": PACKAGE,
    }
    command = ["bash", "--norc", "-c", line]
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def examples(command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "jax2onnx", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80", "PYTHONPATH": PACKAGE},
    )
    _, _, after = done.stdout.partition("Examples:\n")
    lines = [line.strip() for line in after.splitlines() if line.startswith("  ")]
    return [line for line in lines if "jax2onnx " in line]


COMMANDS = (
    "attach", "blame", "check", "compare", "completions", "config", "cost", "diff", "doctor",
    "explain", "export", "inspect", "lower", "man", "plugins", "profile", "sensitivity", "strip",
    "view", "where",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_can_be_pasted_into_bash(command: str, folder: Path, tmp_path: Path) -> None:
    lines = examples(command)
    assert lines
    folder = shutil.copytree(folder, tmp_path / "folder", symlinks=True)
    for line in lines:
        done = bash(line, folder)
        assert done.returncode in (0, 1), f"{line}\n{done.stderr}"
        assert "error: " not in done.stderr or "run.py" in line, f"{line}\n{done.stderr}"
        assert done.stdout or done.stderr or ">" in line or "man" in line, line


def test_every_command_is_tried() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jax2onnx", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": PACKAGE},
    )
    _, _, after = done.stdout.partition("Commands:\n")
    known = [line.split()[0] for line in after.partition("\n\n")[0].splitlines()]
    assert set(known) - {"help"} == set(COMMANDS)
