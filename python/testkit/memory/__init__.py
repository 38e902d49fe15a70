"""Measures how much memory ONNX Runtime allocates during a run, byte by byte."""
