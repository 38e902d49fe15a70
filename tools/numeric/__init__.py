"""Programs and faults for `tools/numeric_faults.py`."""
