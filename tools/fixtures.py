"""Write the reference models, or list the stale ones.

    python tools/fixtures.py           write them
    python tools/fixtures.py --check   exit with 1 if one is stale

The models depend on the versions in requirements-dev.txt, because tracebacks contain lines of JAX.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The script that writes each model to the path in its first argument.
FIXTURES = {"examples/stacktrace_sample.onnx": "examples/stacktrace_sample.py"}


def main(check: bool) -> int:
    stale = []
    for model, script in FIXTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            fresh = Path(folder) / "model.onnx"
            env = {
                key: value for key, value in os.environ.items() if not key.startswith("JAX2ONNX")
            }
            command = [sys.executable, ROOT / script, fresh]
            subprocess.run(command, check=True, cwd=folder, env=env)
            data = fresh.read_bytes()
        target = ROOT / model
        if target.exists() and target.read_bytes() == data:
            continue
        stale.append(model)
        if not check:
            target.write_bytes(data)
    for model in stale:
        print(f"{model} is stale: run `make generate`" if check else f"wrote {model}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
