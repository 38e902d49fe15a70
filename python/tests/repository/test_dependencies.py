"""Every dependency at run time is listed with its license and the reason for it."""

import json
import re
import subprocess
import tomllib
from typing import Any

from testkit import ROOT


def listed(heading: str) -> set[str]:
    """Return the names in the table below a heading; each row has a license and a reason."""
    page = (ROOT / "docs" / "dependencies.md").read_text()
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert all(license_.strip() and reason.strip() for _, license_, reason in rows)
    return {name for name, _, _ in rows}


def metadata() -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version", "1", "--offline", "--locked"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return json.loads(printed)


def test_every_crate_that_is_compiled_in_is_listed() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    ours = {
        name: ROOT / spec["path"]
        for name, spec in workspace.items()
        if isinstance(spec, dict) and "path" in spec
    }
    used: set[str] = set()
    # The crates that only tests use are not compiled in.
    left, seen = [ROOT / "crates/python", ROOT / "crates/cli"], set()
    while left:
        folder = left.pop()
        tables = tomllib.loads((folder / "Cargo.toml").read_text())
        for part in (tables, *tables.get("target", {}).values()):
            used |= set(part.get("dependencies", {})) | set(part.get("build-dependencies", {}))
        seen.add(folder)
        left += [ours[name] for name in used & set(ours) if ours[name] not in seen]
    assert used - set(ours) == listed("Rust")


def test_every_python_package_that_is_installed_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[^\w-]", spec)[0] for group in groups for spec in group}
    assert names == listed("Python")


def test_every_crate_has_a_license_that_is_accepted() -> None:
    accepted = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    refused = []
    for package in metadata()["packages"]:
        if package["source"] is None:
            continue
        assert package["source"].startswith("registry+"), package["name"]
        license_ = (package["license"] or "").replace("/", " OR ")
        needed = re.sub(r"[()]", "", license_).split(" AND ")
        if not all(accepted & set(part.split(" OR ")) for part in needed):
            refused.append(f"{package['name']}: {license_}")
    assert not refused
