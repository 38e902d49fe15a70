"""Write a model with full metadata on every node.

python examples/stacktrace_sample.py [PATH]
"""

import sys

import jax
import jax.numpy as jnp

from jax2onnx import to_onnx


def fn(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2.0


if __name__ == "__main__":
    to_onnx(
        fn,
        [jax.ShapeDtypeStruct((2,), jnp.float32)],
        return_mode="file",
        output_path=sys.argv[1] if len(sys.argv) > 1 else "stacktrace_sample.onnx",
        provenance="full",
    )
