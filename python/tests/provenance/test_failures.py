"""The corpus of failures: what is written there is what ONNX Runtime says today."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    # The generator changes the directory.
    monkeypatch.chdir(tmp_path)
    yield importlib.import_module("failures")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("failures", "failing")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "name",
    [
        "in_a_branch_of_a_scan",
        "product_before_bias",
        "take_a_row",
        "operator_of_nobody_in_a_function",
    ],
)
def test_a_failure_is_as_it_is_written(name: str, generator: Any, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    entry = generator.write(name, generator.FAILURES[name], tmp_path, fresh)
    expected = json.loads((generator.CORPUS / "expected.json").read_text())["failures"][name]
    real = [log for log in expected["logs"] if log["real"]]
    assert {**expected, "logs": real} == entry
    for log in real:
        text = (generator.CORPUS / log["log"]).read_text()
        assert (fresh / log["log"]).read_text() == text


def test_there_are_enough_failures_of_every_kind(generator: Any) -> None:
    index = json.loads((generator.CORPUS / "expected.json").read_text())["failures"]
    assert list(index) == list(generator.FAILURES)
    assert len(index) >= 40
    for name, build in generator.FAILURES.items():
        file = Path(build.__code__.co_filename).relative_to(TOOLS.parent).as_posix()
        marked = [f"{file}:{line}" for line in generator.lines_to_blame(build)]
        assert index[name]["lines"] == marked, "run `python tools/failures.py`"
    levels = {
        level for it in index.values() for log in it["logs"] for level in log.get("levels", ())
    }
    assert levels == {"disable", "basic", "extended", "all", "checker", "inference"}
    size = sum(path.stat().st_size for path in generator.CORPUS.iterdir())
    assert size < 2 << 20
