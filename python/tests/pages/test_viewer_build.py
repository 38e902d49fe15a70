"""The built viewer is what its source builds to, its tests pass, and its lock names no server."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from testkit import ROOT

VIEWER = ROOT / "viewer"


@pytest.mark.skipif(
    shutil.which("npm") is None or not (VIEWER / "node_modules").exists(),
    reason="node or its packages are missing: run `make viewer`",
)
@pytest.mark.parametrize("command", [["node", "build.mjs", "--check"], ["npm", "test"]])
def test_the_built_viewer_is_fresh_and_its_tests_pass(command: list[str]) -> None:
    checked = subprocess.run(command, cwd=VIEWER, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_lock_of_the_viewer_names_no_server() -> None:
    assert not re.search(r"https?://", (VIEWER / "package-lock.json").read_text())
