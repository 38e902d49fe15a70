"""Compare a model in ONNX Runtime with its function in JAX."""
