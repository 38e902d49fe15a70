"""The places of tests, and how tools and tests find what they share."""

from __future__ import annotations

import re
from collections import Counter

from testkit import ROOT

TESTS = ROOT / "python" / "tests"
#: The most test files in one folder.
MAX_FILES = 25


def test_every_test_is_in_a_folder_that_contributing_describes() -> None:
    files = [path.relative_to(TESTS) for path in TESTS.glob("**/test_*.py")]
    assert [path for path in files if len(path.parts) != 2] == []
    folders = Counter(path.parts[0] for path in files)
    assert {name: count for name, count in folders.items() if count > MAX_FILES} == {}
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Find the place of a test\n")[2]
    described = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert sorted(described) == sorted(folders)


def test_nothing_changes_the_path_of_imports() -> None:
    folders = (TESTS, ROOT / "python" / "testkit", ROOT / "tools", ROOT / "benches")
    changed = [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in folder.glob("**/*.py")
        if re.search(r"^sys\.path\b", path.read_text(), re.MULTILINE)
    ]
    assert changed == []
