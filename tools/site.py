"""Add the pages to the documentation site that are not files in `docs/`. MkDocs calls this module.

The home page is the README. Other documents at the top of the repository are pages too. The page on
the command line ends with what `--help` prints. Each page ends with the version and the file that
it comes from, and links to that file if the repository is known.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
#: Files at the top of the repository, and the pages that they become.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    "SECURITY.md": "SECURITY.md",
}
SOURCES = {page: source for source, page in PAGES.items()}
#: Pages whose tables need the width of the table of contents.
WIDE = {"coverage.md", "grid.md", "layers.md", "primitives.md", "runtime-faults.md"}
LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)]*)?\)")
WORKERS = "https://unpkg.com/iframe-worker/shim"
COMMAND = re.compile(r"^  (\w+) +\S", re.MULTILINE)
#: A block that shows what the block before it prints.
OUTPUT = re.compile(r"(^```(?:bash|python)\n(?:(?!^```).*\n)*?^```\n\n?)```text\n", re.MULTILINE)
#: The repository in examples, where the repository of the site is not known.
EXAMPLE = "OWNER/jax2onnx"


def repository() -> str:
    """Return the name of the repository as GitHub sets it: `owner/name`, or nothing."""
    return os.environ.get("GITHUB_REPOSITORY", "")


def address() -> str:
    """Return the address of the repository."""
    return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository()}"


def version() -> str:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    found: str = manifest["workspace"]["package"]["version"]
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of other files."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, page, content=with_links(text, ROOT)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Link to pages instead of files, describe the page, and make room for wide tables."""
    uri = page.file.src_uri
    page.meta.setdefault("description", description(markdown))
    if uri in WIDE:
        page.meta["hide"] = ["toc"]
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    if uri == "command-line.md":
        markdown += commands()
    if repository():
        markdown = markdown.replace(EXAMPLE, repository())
    markdown = OUTPUT.sub(r"\1``` { .text .output .no-copy }\n", markdown)
    return with_links(markdown, ROOT / "docs") + origin(SOURCES.get(uri, f"docs/{uri}"))


def origin(file: str) -> str:
    """Return the last line of a page.

    The theme has a link to the repository, too. It would download the number of stars.
    """
    parts = [f"jax2onnx {version()}", f"<code>{file}</code>"]
    if repository():
        edit = f'<a href="{address()}/edit/main/{file}">Edit {parts.pop()}</a>'
        parts += [f'<a href="{address()}">Repository</a>', edit]
    return f'\n\n<p class="origin">{" · ".join(parts)}</p>\n'


def on_post_page(output: str, **_: object) -> str:
    """Use our own replacement for workers, because the theme's is on another server."""
    return output.replace(WORKERS, "assets/worker.js")


def on_post_template(output_content: str, **_: object) -> str:
    """Do the same in the page for missing addresses, which only servers show."""
    return output_content.replace(WORKERS, "/assets/worker.js")


def description(markdown: str) -> str:
    """Return the first sentence of the first paragraph as plain text."""
    paragraphs = (each.strip() for each in markdown.split("\n\n"))
    first = next(each for each in paragraphs if re.match(r"[\w*\[]|`[^`]", each))
    plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", " ".join(first.split()))
    return re.split(r"(?<=[.?:]) ", plain)[0].removesuffix(":")


def with_links(text: str, folder: Path) -> str:
    """Replace links between files by links between pages, and drop links to source code."""

    def link(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups()
        path = (folder / target).resolve()
        if path.is_relative_to(ROOT / "docs"):
            page = path.relative_to(ROOT / "docs").as_posix()
        elif path.parent == ROOT and path.name in PAGES:
            page = PAGES[path.name]
        elif path.exists():
            return str(label)
        else:
            page = target
        return f"{image}[{label}]({page}{anchor or ''})"

    return LINK.sub(link, text)


def commands() -> str:
    """Return the help of every command."""
    overview = help_of()
    text = ["\n\n## All options\n\nThis is what `jax2onnx COMMAND --help` prints."]
    for name in COMMAND.findall(overview.split("Options:")[0]):
        if name != "help":
            shown = "\n".join(f"    {line}".rstrip() for line in help_of(name).splitlines())
            fence = "``` { .text .output .no-copy }"
            text.append(f'??? quote "jax2onnx {name}"\n\n    {fence}\n{shown}\n    ```')
    return "\n\n".join(text) + "\n"


def help_of(*command: str) -> str:
    """Return what a command prints for `--help`."""
    program = [sys.executable, "-m", "jax2onnx", *command, "--help"]
    done = subprocess.run(program, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"jax2onnx is not installed: run `make docs`\n{done.stderr}")
    return done.stdout
