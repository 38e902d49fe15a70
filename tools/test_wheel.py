"""Build the wheel, install it in an empty environment, and use it from another directory.

python tools/test_wheel.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = re.search(
    r"```bash\n(JAX2ONNX_ENABLE_STACKTRACE_METADATA=1 python - <<'PY'\n.*?\nPY\n)```",
    (ROOT / "README.md").read_text(),
    re.DOTALL,
)
READ_BACK = """
import sys
import onnx
model = onnx.load("sandbox_stacktrace_sample.onnx")
for node in model.graph.node:
    print(node.op_type, *sorted(f"{p.key}={p.value!r}" for p in node.metadata_props), sep="|")
"""
MODULE = """
import jax
import jax.numpy as jnp
from jax2onnx import to_onnx

def fn(x):
    return jnp.tanh(x)

to_onnx(fn, [(3,)], return_mode="file", output_path="sandbox_stacktrace_sample.onnx")
"""


def main() -> None:
    assert SAMPLE, "README.md has lost its sample"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        say("building the wheel")
        maturin = Path(sys.executable).with_name("maturin")
        call([maturin, "build", "--release", "--quiet", "--out", work / "dist"], cwd=ROOT)
        (wheel,) = (work / "dist").glob("*.whl")
        check_contents(wheel)
        say(f"installing {wheel.name} alone")
        venv.create(work / "env", with_pip=True)
        python = work / "env" / "bin" / "python"
        pins = [
            line
            for line in (ROOT / "requirements-dev.txt").read_text().splitlines()
            if re.match(r"(jax|jaxlib|numpy|ml_dtypes|onnx|onnxruntime)==", line)
        ]
        call(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, *pins]
        )
        away = work / "away"
        away.mkdir()
        for detail in ("", "minimal", "full"):
            check_sample(python, away, detail)
        check_module(python, away)
    say("the wheel works by itself")


def check_contents(wheel: Path) -> None:
    """Check that the wheel contains every module and the types."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "python"
    modules = {path.relative_to(package).as_posix() for path in package.glob("jax2onnx/**/*.py")}
    expected = modules | {"jax2onnx/py.typed", "jax2onnx/_core.pyi"}
    assert expected <= names, expected - names


def check_sample(python: Path, away: Path, detail: str) -> None:
    """Run the sample of the README unchanged."""
    env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    if detail:
        env["JAX2ONNX_STACKTRACE_DETAIL"] = detail
    call(["bash", "-c", SAMPLE.group(1)], cwd=away, env=env)
    sin, mul = read_back(python, away)
    assert sin[0] == "Sin", sin
    assert mul[0] == "Mul", mul
    for row, plugin in ((sin, "SinPlugin"), (mul, "MulPlugin")):
        assert "pkg.jax2onnx.callsite='fn:6'" in row, row
        assert any(
            re.match(rf"pkg.jax2onnx.plugin='{plugin}\.lower:\d+'$", cell) for cell in row
        ), row
        keys = {cell.split("=")[0].removeprefix("pkg.jax2onnx.") for cell in row[1:]}
        full = {"stacktrace", "jax_traceback"} if detail == "full" else set()
        assert keys == {"callsite", "plugin"} | full, row


def check_module(python: Path, away: Path) -> None:
    """Run a user's script as a module; without the variable, there is no metadata."""
    (away / "your_export_script.py").write_text(MODULE)
    env = {key: value for key, value in os.environ.items() if not key.startswith("JAX2ONNX")}
    command = [python, "-m", "your_export_script"]
    call(command, cwd=away, env={**env, "JAX2ONNX_ENABLE_STACKTRACE_METADATA": "1"})
    assert "pkg.jax2onnx.callsite='fn:7'" in read_back(python, away)[0]
    call(command, cwd=away, env=env)
    assert read_back(python, away) == [["Tanh"]]


def read_back(python: Path, away: Path) -> list[list[str]]:
    done = subprocess.run(
        [python, "-c", READ_BACK], cwd=away, check=True, capture_output=True, text=True
    )
    return [line.split("|") for line in done.stdout.splitlines()]


def call(command: list[object], **options: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def say(text: str) -> None:
    print(f"test-wheel: {text}", flush=True)


if __name__ == "__main__":
    main()
