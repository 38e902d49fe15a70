"""Real notebooks for the tests: a kernel of Jupyter runs their cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from testkit import ROOT


class Ran:
    """A notebook whose cells ran, one after the other."""

    def __init__(self, cells: Sequence[str], folder: Path, *, is_saved: bool = True) -> None:
        self.path = folder / "notebook.ipynb"
        made = [nbformat.v4.new_code_cell(cell) for cell in cells]
        self.notebook: Any = nbformat.v4.new_notebook(cells=made)
        if is_saved:
            self.save()
        # The kernel inherits the environment.
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(ROOT / "python")
        try:
            NotebookClient(
                self.notebook,
                timeout=300,
                kernel_name="python3",
                allow_errors=True,
                resources={"metadata": {"path": str(folder)}},
            ).execute()
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before

    def save(self) -> None:
        """Write the notebook, as a user saves it."""
        nbformat.write(self.notebook, self.path)

    def outputs(self, number: int) -> list[Any]:
        """Return the outputs of a cell, which is `In [number]`."""
        outputs: list[Any] = self.notebook.cells[number - 1].outputs
        return outputs

    def text(self, number: int) -> str:
        """Return what a cell shows on a page without HTML: prints, values, and errors."""
        parts = []
        for output in self.outputs(number):
            match output.output_type:
                case "stream":
                    parts.append(output.text)
                case "error":
                    parts.append("\n".join(output.traceback))
                case _:
                    parts.append(output.data["text/plain"])
        return "\n".join(parts)

    def html(self, number: int) -> str:
        """Return the HTML of the value of a cell."""
        found = [output.data for output in self.outputs(number) if "data" in output]
        return "".join(data.get("text/html", "") for data in found)

    def errors(self) -> list[str]:
        """Return the errors of all cells."""
        outputs = [output for cell in self.notebook.cells for output in cell.outputs]
        return [
            f"{output.ename}: {output.evalue}"
            for output in outputs
            if output.output_type == "error"
        ]

    def write_page(self, path: Path, theme: str = "light") -> None:
        """Write the notebook as JupyterLab shows it, without the scripts that it loads."""
        scripts = dict.fromkeys(("mathjax_url", "require_js_url", "jquery_url"), "")
        page, _ = HTMLExporter(theme=theme, **scripts).from_notebook_node(self.notebook)
        path.write_text(page)
