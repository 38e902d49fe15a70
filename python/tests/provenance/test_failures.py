"""The corpus of failures: what is written there is what ONNX Runtime says today."""

from __future__ import annotations

import json
from pathlib import Path

import failures
import pytest

from testkit import ROOT


@pytest.mark.parametrize(
    "name",
    [
        "in_a_branch_of_a_scan",
        "product_before_bias",
        "take_a_row",
        "operator_of_nobody_in_a_function",
    ],
)
def test_a_failure_is_as_it_is_written(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The generator changes the directory.
    monkeypatch.chdir(tmp_path)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    entry = failures.write(name, failures.FAILURES[name], tmp_path, fresh)
    expected = json.loads((failures.CORPUS / "expected.json").read_text())["failures"][name]
    real = [log for log in expected["logs"] if log["real"]]
    assert {**expected, "logs": real} == entry
    for log in real:
        text = (failures.CORPUS / log["log"]).read_text()
        assert (fresh / log["log"]).read_text() == text


def test_there_are_enough_failures_of_every_kind() -> None:
    index = json.loads((failures.CORPUS / "expected.json").read_text())["failures"]
    assert list(index) == list(failures.FAILURES)
    assert len(index) >= 40
    for name, build in failures.FAILURES.items():
        file = Path(build.__code__.co_filename).relative_to(ROOT).as_posix()
        marked = [f"{file}:{line}" for line in failures.lines_to_blame(build)]
        assert index[name]["lines"] == marked, "run `python tools/failures.py`"
    levels = {
        level for it in index.values() for log in it["logs"] for level in log.get("levels", ())
    }
    assert levels == {"disable", "basic", "extended", "all", "checker", "inference"}
    size = sum(path.stat().st_size for path in failures.CORPUS.iterdir())
    assert size < 2 << 20
