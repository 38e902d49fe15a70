"""The programs of `tools/libraries.py`: one module per library, each with a list `PROGRAMS`."""
