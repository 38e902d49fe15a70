"""Run the end-to-end cases and the networks on the oldest and the newest ONNX Runtime.

    python tools/test_runtimes.py            the oldest that we support and the newest
    python tools/test_runtimes.py 1.26.0     these versions

Each version is installed below .venvs, and is imported in place of the one of the environment. Each
case runs with passes off and on, and with the optimizations of ONNX Runtime off and on. Cases that
an older version is known to fail are skipped; `docs/runtime-faults.md` lists the reasons.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The first that loads the default opset.
OLDEST = "1.23.0"
TESTS = [
    "python/tests/numbers/test_cases.py",
    "python/tests/numbers/test_networks.py",
    "python/tests/passes/test_runtime_faults.py",
]


def main(versions: list[str]) -> int:
    failed = [version for version in versions if run(version) != 0]
    print(f"failed on {', '.join(failed)}" if failed else "every version passed")
    return 1 if failed else 0


def run(version: str) -> int:
    folder = ROOT / ".venvs" / f"onnxruntime-{version or 'newest'}"
    package = f"onnxruntime=={version}" if version else "onnxruntime"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "--no-deps", "--upgrade", "--target", folder, package]
    subprocess.run(install, check=True)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    show = "import onnxruntime; print(f'ONNX Runtime {onnxruntime.__version__}', flush=True)"
    subprocess.run([sys.executable, "-c", show], check=True, env=env)
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", *TESTS]
    return subprocess.run(tests, cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [OLDEST, ""]))
