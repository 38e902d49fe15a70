"""Compare a model in ONNX Runtime with its function in JAX."""

from .._native import imported

# The modules of this package import onnx, which must not be interrupted.
imported("onnx")
