"""Build the wheel, install it in an empty environment, and use it from another directory.

python tools/test_wheel.py [WHEEL] [--everywhere | --quick]

With a WHEEL, the tool tests that one. With `--everywhere`, it tries every Python from 3.11 on that
is on the PATH or in JAX2ONNX_PYTHONS, each with the oldest and the newest JAX. With `--quick`, it
builds without optimizations, and the new environment reads JAX and the other packages from the
environment that runs the tool, instead of installing them again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = re.search(
    r"```bash\n(JAX2ONNX_ENABLE_STACKTRACE_METADATA=1 python - <<'PY'\n.*?\nPY\n)```",
    (ROOT / "docs" / "provenance.md").read_text(),
    re.DOTALL,
)
#: A program, a question about the model that it writes, and the answer.
EXAMPLE = re.search(
    r"```python\n(.*?)```\n.*?```bash\njax2onnx (where .*?)\n```\n\n```text\n(.*?)```",
    (ROOT / "README.md").read_text(),
    re.DOTALL,
)
PINS = [
    line
    for line in (ROOT / "requirements-dev.txt").read_text().splitlines()
    if re.match(r"(jax|jaxlib|numpy|ml_dtypes|onnx|onnxruntime)==", line)
]
# JAX 0.6.0 needs absl-py for symbolic sizes, and does not install it.
OLDEST = ["jax==0.6.0", "jaxlib==0.6.0", "absl-py", "numpy==2.2.6", "onnxruntime"]
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


def main(wheel: Path | None, everywhere: bool, quick: bool) -> None:
    assert SAMPLE, "provenance.md has lost its sample"
    assert EXAMPLE, "README.md has lost its example"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if wheel is None:
            say("building the wheel")
            maturin = Path(sys.executable).with_name("maturin")
            profile = "dev" if quick else "release"
            options = ["--profile", profile, "--quiet", "--out", work / "dist"]
            call([maturin, "build", *options], cwd=ROOT)
            (wheel,) = (work / "dist").glob("*.whl")
        check_contents(wheel)
        if quick:
            check(wheel, borrow(wheel, work / "env"), work / "env")
            return
        if not everywhere:
            check(wheel, install(wheel, sys.executable, PINS, work / "env"), work / "env")
            return
        for python in pythons():
            for name, packages in (("oldest", OLDEST), ("newest", ["jax", "onnxruntime"])):
                folder = work / f"{Path(python).name}-{name}"
                check(wheel, install(wheel, python, packages, folder), folder)


def pythons() -> list[str]:
    """Return the interpreters on this machine that the wheel supports."""
    named = os.environ.get("JAX2ONNX_PYTHONS", "").split(os.pathsep)
    candidates = [f"python3.{minor}" for minor in range(11, 16)] if named == [""] else named
    found = [path for name in candidates if (path := shutil.which(name)) and works(path)]
    return found or [sys.executable]


def works(python: str) -> bool:
    """Tell an interpreter from a stub that only reports that the version is not installed."""
    return subprocess.run([python, "--version"], capture_output=True).returncode == 0


def install(wheel: Path, python: str, packages: list[str], folder: Path) -> Path:
    """Return the Python of an empty environment with the wheel and these packages."""
    call([python, "-m", "venv", folder])
    own = folder / "bin" / "python"
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call([*pip, wheel, *packages])
    return own


def borrow(wheel: Path, folder: Path) -> Path:
    """Return the Python of an environment with the wheel, which finds other packages here."""
    call([sys.executable, "-m", "venv", "--without-pip", folder])
    own = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", own, "install", "--quiet", "--no-deps"]
    call([*pip, "--disable-pip-version-check", wheel])
    (packages,) = folder.glob("lib/python*/site-packages")
    here = sysconfig.get_path("purelib")
    # Python does not read the `.pth` files of a folder that a `.pth` file names, so the package of
    # this environment, which is one, stays unknown.
    (packages / "borrowed.pth").write_text(f"{here}\n")
    return own


def check(wheel: Path, own: Path, folder: Path) -> None:
    """Use the wheel from another directory."""
    show = "import jax, sys; print(f'JAX {jax.__version__} on Python {sys.version.split()[0]}')"
    shown = subprocess.run([own, "-c", show], check=True, capture_output=True, text=True)
    say(f"{wheel.name} with {shown.stdout.strip()}")
    away = folder / "away"
    away.mkdir()
    for detail in ("", "minimal", "full"):
        check_sample(own, away, detail)
    check_module(own, away)
    check_readme(own, away)
    check_explain(own, away)
    say("the wheel works by itself")


def check_readme(python: Path, away: Path) -> None:
    """Run the example of the README, ask for a line, and compare the answer."""
    program, question, answer = EXAMPLE.groups()
    (away / "predict.py").write_text(program)
    subprocess.run([python, "predict.py"], cwd=away, check=True)
    done = subprocess.run(
        [python, "-m", "jax2onnx", *question.split()],
        cwd=away,
        check=True,
        capture_output=True,
        text=True,
    )
    parts = [re.escape(part) for part in answer.split("…")]
    assert re.fullmatch(".*?".join(parts), done.stdout, re.DOTALL), done.stdout


def check_explain(python: Path, away: Path) -> None:
    """Ask the command line for the line of a node."""
    message = "running Tanh node. Name:'tanh' Status Message: no"
    script = MODULE.replace("output_path=", "provenance='indexed', output_path=")
    (away / "explained.py").write_text(script)
    call([python, "explained.py"], cwd=away)
    command = [python.with_name("jax2onnx"), "explain", "sandbox_stacktrace_sample.onnx"]
    done = subprocess.run(
        [*command, "-m", message], cwd=away, check=True, capture_output=True, text=True
    )
    assert "explained.py:7" in done.stdout, done.stdout


def check_contents(wheel: Path) -> None:
    """Check that the wheel contains every module and the types, and no tests."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "python"
    modules = {path.relative_to(package).as_posix() for path in package.glob("jax2onnx/**/*.py")}
    expected = modules | {"jax2onnx/py.typed", "jax2onnx/_core.pyi"}
    assert expected <= names, expected - names
    folders = {name.partition("/")[0] for name in names}
    assert not folders & {"testkit", "tests"}, folders


def check_sample(python: Path, away: Path, detail: str) -> None:
    """Run the sample of the documentation unchanged."""
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
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    main(
        Path(arguments[0]).resolve() if arguments else None,
        everywhere="--everywhere" in sys.argv,
        quick="--quick" in sys.argv,
    )
