"""A sample of `tools/numeric_faults.py`: faults in models are found at their lines."""

from __future__ import annotations

from collections import Counter

import numeric_faults
import pytest
from numeric.programs import PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "branches", "functions", "loops in loops"])
def test_faults_in_numbers_are_found_at_their_lines(name: str) -> None:
    program = next(each for each in PROGRAMS if each.name == name)
    counts: Counter[str] = Counter()
    assert numeric_faults.run(program, 5, 1, counts) == []
    assert counts["faults"] == counts["found"] == 5
    assert counts["wrong and sure"] == 0
