"""Check that a release is ready, prepare the files that PyPI shows, and print the notes.

    python tools/release.py check v0.1.0      exit with 1 if a file does not fit the tag
    python tools/release.py prepare URL REF   link to the repository in what PyPI shows
    python tools/release.py notes v0.1.0      print the changes, for the page of the release

The name of the repository is not in any file: the workflow passes what GitHub fills in.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def version(root: Path = ROOT) -> str:
    manifest = tomllib.loads((root / "Cargo.toml").read_text())
    found: str = manifest["workspace"]["package"]["version"]
    return found


def section(root: Path, wanted: str) -> tuple[str, str]:
    """Return what follows a version in its heading of the changelog, and the changes."""
    pattern = rf"^## {re.escape(wanted)}(?: \((.*?)\))?\n(.*?)(?=^## |\Z)"
    found = re.search(pattern, (root / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL)
    return ("missing", "") if found is None else (found[1] or "", found[2].strip())


def problems(root: Path, tag: str) -> list[str]:
    """Return what is not ready for the release of a tag."""
    wanted = version(root)
    found = []
    if tag != f"v{wanted}":
        found.append(f"the tag is {tag}, but Cargo.toml has the version {wanted}")
    if f"\nversion: {wanted}\n" not in (root / "CITATION.cff").read_text():
        found.append(f"CITATION.cff does not have the version {wanted}")
    when, changes = section(root, wanted)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", when) or not changes:
        found.append(f"CHANGELOG.md needs a heading `## {wanted} (YEAR-MONTH-DAY)` with changes")
    for name in ("README.md", "docs/getting-started.md"):
        if re.search(r"not on PyPI yet|Until the first release", (root / name).read_text()):
            found.append(f"{name} says that there is no release yet")
    return found


def prepare(root: Path, url: str, ref: str) -> None:
    """Write the addresses of the repository to pyproject.toml, and to the links of the README."""
    project = root / "pyproject.toml"
    urls = {
        "Repository": url,
        "Documentation": f"{url}/tree/{ref}/docs",
        "Changelog": f"{url}/blob/{ref}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    rows = "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    text = project.read_text()
    project.write_text(
        text.replace("[project.scripts]", f"[project.urls]\n{rows}\n[project.scripts]", 1)
    )

    def absolute(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        kind = "raw" if image else "blob"
        return f"{image}[{label}]({url}/{kind}/{ref}/{target})"

    readme = root / "README.md"
    readme.write_text(LINK.sub(absolute, readme.read_text()))


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check", tag]:
            found = problems(ROOT, tag)
            for problem in found:
                print(problem, file=sys.stderr)
            return 1 if found else 0
        case ["prepare", url, ref]:
            prepare(ROOT, url, ref)
            return 0
        case ["notes", tag]:
            print(section(ROOT, tag.removeprefix("v"))[1])
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
