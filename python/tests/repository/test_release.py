"""A release: its version, its changes, and what PyPI shows."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import release
import yaml

from testkit import ROOT

FILES = ("Cargo.toml", "CITATION.cff", "CHANGELOG.md", "README.md", "pyproject.toml")
URL = "https://github.com/someone/jax2onnx"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the files of a release, in which the next version is released."""
    (tmp_path / "docs").mkdir()
    for name in (*FILES, "docs/getting-started.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    change(tmp_path / "CHANGELOG.md", " (unreleased)", " (2026-12-01)")
    change(tmp_path / "README.md", "jax2onnx is not on PyPI yet.", "")
    change(tmp_path / "docs" / "getting-started.md", "Until the first release", "Or")
    return tmp_path


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_the_version_is_the_same_everywhere(root: Path) -> None:
    assert release.problems(root, f"v{release.version()}") == []


def test_a_release_without_a_date_or_with_another_tag_is_refused(root: Path) -> None:
    version = release.version()
    assert release.problems(root, "v9.9.9") == [
        f"the tag is v9.9.9, but Cargo.toml has the version {version}"
    ]
    change(root / "CHANGELOG.md", " (2026-12-01)", " (unreleased)")
    change(root / "CITATION.cff", f"version: {version}", "version: 0.0.1")
    said = release.problems(root, f"v{version}")
    assert [problem.split()[0] for problem in said] == ["CITATION.cff", "CHANGELOG.md"]


def test_the_notes_are_the_changes_of_the_version(root: Path) -> None:
    _, changes = release.section(root, release.version())
    assert changes.startswith("### Added")
    assert "\n## " not in changes


def test_pypi_shows_addresses_of_the_repository(root: Path) -> None:
    release.prepare(root, URL, "v0.1.0")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Repository"] == URL
    assert project["scripts"] == {"jax2onnx": "jax2onnx.__main__:main"}
    readme = (root / "README.md").read_text()
    assert f"({URL}/raw/v0.1.0/docs/assets/explain.svg)" in readme
    assert f"({URL}/blob/v0.1.0/docs/getting-started.md)" in readme
    assert release.LINK.search(readme) is None


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is missing")
@pytest.mark.parametrize(
    ("install", "ref", "expected"),
    [
        ("", "v0.2.0", "jax2onnx-rs==0.2.0"),
        ("", "v1.0.0rc1", "jax2onnx-rs==1.0.0rc1"),
        ("", "main", "/action"),
        ("", "v0", "/action"),
        ("", "", "/action"),
        ("jax2onnx-rs==0.1.0", "v0.2.0", "jax2onnx-rs==0.1.0"),
    ],
)
def test_the_action_installs_its_own_version(install: str, ref: str, expected: str) -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (step,) = [step for step in steps if "pip install" in step.get("run", "")]
    assert step["env"] == {
        "INSTALL": "${{ inputs.install }}",
        "ACTION": "${{ github.action_path }}",
        "REF": "${{ github.action_ref }}",
    }
    values = {"INSTALL": install, "ACTION": "/action", "REF": ref}
    script = 'python() { echo "${@: -1}"; }\n' + step["run"]
    ran = subprocess.run(
        ["bash", "-e", "-c", script], env=values, check=True, capture_output=True, text=True
    )
    assert ran.stdout == f"{expected}\n"
