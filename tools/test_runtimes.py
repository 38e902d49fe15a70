"""Run the end-to-end cases and the networks on several releases of ONNX Runtime.

    python tools/test_runtimes.py            the oldest that we promise, two between, and the newest
    python tools/test_runtimes.py 1.25.0     these releases
    python tools/test_runtimes.py --sample   a few cases on the oldest

Each release is installed below .venvs, and is imported in place of the one of the environment. Each
case runs with passes off and on, and with the optimizations of ONNX Runtime off and on. Cases that
need a newer opset than a release loads, or that it is known to fail, are skipped;
`docs/runtime-faults.md` lists the reasons.
"""

from __future__ import annotations

import subprocess
import sys

import releases

BETWEEN = ("1.26.0", "1.29.0")
#: Cases that need another form in the oldest release.
SAMPLE = ["-k", "searchsorted or uint4 or empty or (max and uint8) or (cos and f64) or grouped"]
ATTENTION = "python/tests/passes/test_idioms_attention.py"
TESTS = [
    "python/tests/numbers/test_cases.py",
    "python/tests/numbers/test_networks.py",
    "python/tests/passes/test_runtime_faults.py",
    ATTENTION,
]


def main(versions: list[str]) -> int:
    if versions == ["--sample"]:
        return run(releases.RELEASES[0], [TESTS[0], ATTENTION, *SAMPLE])
    failed = [version for version in versions if run(version) != 0]
    print(f"failed on {', '.join(failed)}" if failed else "every release passed")
    return 1 if failed else 0


def run(version: str, chosen: list[str] = TESTS) -> int:
    env = releases.environment(releases.installed(version))
    show = "import onnxruntime; print(f'ONNX Runtime {onnxruntime.__version__}', flush=True)"
    subprocess.run([sys.executable, "-c", show], check=True, env=env)
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", *chosen]
    return subprocess.run(tests, cwd=releases.ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [releases.RELEASES[0], *BETWEEN, ""]))
