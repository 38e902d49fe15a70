"""Find the lines that lose precision in a shorter type, and write models in shorter types."""

from .._native import imported

# The modules of this package import onnx, which must not be interrupted.
imported("onnx")
