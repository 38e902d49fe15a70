"""A model past what protobuf holds: its export in a file, the memory for that, and that it runs.

    python benches/large.py [--gigabytes 3]

The weights are real arrays of JAX's, and as many bytes are written to the temporary folder. The
exit code is 1 where a limit is not kept or the runtime computes something else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SIDE = 4096
#: The most memory that an export may take besides the arrays, in MB.
LIMIT = 64

EXPORT = """
import resource, sys
import jax, jax.numpy as jnp, jax2onnx
path, side, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
spec = jax.ShapeDtypeStruct((1, side), "float32")
jax2onnx.to_onnx(lambda x: x @ jnp.ones((side, 1)), [spec])
before = peak()
layers = [jnp.full((side, side), index, "float32") for index in range(count)]
jax.block_until_ready(layers)
def forward(x):
    return sum(x @ layer for layer in layers)
jax2onnx.to_onnx(forward, [spec], return_mode="file", output_path=path)
print(peak() - before - sum(layer.nbytes for layer in layers) / 2**20)
"""

RUN = """
import sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
side = int(sys.argv[2])
(found,) = session.run(None, {"x": np.full((1, side), 1 / side, "float32")})
print(found.min(), found.max())
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=3.0, help="the size of the weights")
    options = parser.parse_args()
    count = round(options.gigabytes * 1e9 / (4 * SIDE * SIDE)) + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        (over,) = numbers(EXPORT, path, SIDE, count)
        written = sum(data.stat().st_size for data in path.parent.glob("model.onnx.*.data"))
        smallest, largest = numbers(RUN, path, SIDE)
    expected = count * (count - 1) / 2
    kept = over <= LIMIT
    right = max(abs(smallest - expected), abs(largest - expected)) < 1e-4 * expected
    print(f"weights in the file beside the model  {written / 1e9:8.2f} GB")
    print(f"peak memory over the arrays           {over:8.2f} MB  limit {LIMIT} MB")
    print(f"the runtime computes                  {largest:8.2f}     due {expected:g}")
    return 0 if kept and right and written >= options.gigabytes * 1e9 else 1


def numbers(script: str, *arguments: object) -> list[float]:
    """What a program of its own prints."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


if __name__ == "__main__":
    sys.exit(main())
