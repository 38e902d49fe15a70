"""A sample of `tools/precision_faults.py`: planted problems are ranked first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import precision_faults
import pytest
from precision.plants import plants


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_planted_problems_are_ranked_first(seed: int, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    found = [
        precision_faults.asked(planted, counts, is_timed=False)
        for planted in plants(tmp_path, 8, seed)
    ]
    assert [each for each in found if each] == []
    assert counts["found"] == counts["problems"] == 8
    assert counts["wrong and sure"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8"])
def test_planted_problems_of_networks_of_several_libraries_are_ranked_first(
    to: str, tmp_path: Path
) -> None:
    counts: Counter[str] = Counter()
    found = [
        precision_faults.asked(planted, counts, is_timed=False, to=to)
        for planted in plants(tmp_path, 4, 1, to)
    ]
    assert [each for each in found if each] == []
    assert counts["found"] == counts["problems"] > 0
    assert counts["wrong and sure"] == 0
