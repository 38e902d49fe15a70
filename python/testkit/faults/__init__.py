"""Faults while files are written: `shim.c` causes them in a `worker`, and `harness` tries them."""
