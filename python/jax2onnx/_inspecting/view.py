"""Show a model as an HTML page, with the source beside the graph."""

import html
import json
import os
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _core, _files
from .._cells import is_notebook
from .._errors import errors_of_core
from .._types import StrPath
from .cost import checked_sizes
from .explain import path_or_bytes

if TYPE_CHECKING:
    from .._comparing.report import Report
    from .._precision.sensitivity import Sensitivity
    from .explain import Model

#: The height of a page in a notebook, in pixels.
_HEIGHT = 640


class View:
    """Contains the HTML page of a model. A notebook shows it inline."""

    def __init__(self, page: str, inputs: Sequence[_files.Named] = ()) -> None:
        """Hold a page, and the names of the files that it was made from."""
        self._page = page
        self._inputs = inputs

    @property
    def html(self) -> str:
        """The page, as one HTML document."""
        return self._page

    def save(self, path: StrPath) -> None:
        """Write the page to a file.

        Args:
            path: The path of the HTML file.

        Raises:
            ConfigError: The page was made from this file.
            WriteError: The file cannot be written.
        """
        _files.write_text("the page", path, self._page, self._inputs)

    def open(self) -> None:
        """Open the page in the browser, from a temporary file that is kept."""
        webbrowser.open(_files.write_page(self._page).as_uri())

    def _repr_html_(self) -> str:
        """Return the page for a notebook, in a frame of its own that may run only its script."""
        page = html.escape(self._page, quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="100%" height="{_HEIGHT}" '
            'style="border: 1px solid #d5dbe1; border-radius: 6px"></iframe>'
        )

    def __repr__(self) -> str:
        """Say how large the page is."""
        return f"<jax2onnx page of {len(self._page) / 1024:.0f} KiB; open() shows it>"


def view(
    model: "Model",
    *,
    open: bool | None = None,
    source: bool = True,
    profile: StrPath | None = None,
    compare: "StrPath | Report | None" = None,
    sensitivity: "StrPath | Sensitivity | None" = None,
    cost: bool | Mapping[str, int] = False,
    against: "Model | None" = None,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> View:
    """Show a model as an HTML page, with the source beside the graph.

    A notebook shows the page inline. Otherwise, `view` opens the page in your browser.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        open: Whether to open the browser. By default, `view` opens it except in a notebook.
        source: Whether the page contains the text of the source files.
        profile: The path of an ONNX Runtime profile. The page then shows the time of each line.
        compare: The report of `jax2onnx.compare`, or the path of a file with the output of
            `jax2onnx compare --format json`. The page then shows the error of each line.
        sensitivity: The result of `jax2onnx.sensitivity`, or the path of a file with the output of
            `jax2onnx sensitivity --format json`. The page then shows what each line loses in a
            shorter type.
        cost: True to show the operations, bytes and memory of each line, with sliders for symbolic
            sizes; or the sizes to begin with, such as `{"B": 8}`.
        against: An earlier export of the model. The page then shows which lines gained or lost
            nodes.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        The page.

    Raises:
        ConfigError: An argument is not valid.
        SourceMapError: The model or its map cannot be read.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> model = jax2onnx.to_onnx(jnp.tanh, [(3,)], provenance="indexed")
        >>> page = jax2onnx.view(model, open=False)
        >>> page.html[:15]
        '<!doctype html>'
    """
    with errors_of_core():
        page, inputs = _core.view_page(
            path_or_bytes(model),
            has_source=source,
            profile=None if profile is None else os.fspath(profile),
            report=_report(compare),
            sensitivity=_report(sensitivity),
            cost=_sizes(cost),
            against=None if against is None else path_or_bytes(against),
            source_map=None if source_map is None else os.fspath(source_map),
            source_roots=[os.fspath(root) for root in source_roots],
        )
    inputs += [
        ("the report", os.path.abspath(report))
        for report in (compare, sensitivity)
        if isinstance(report, str | os.PathLike)
    ]
    shown = View(page, inputs)
    if open is True or (open is None and not is_notebook()):
        shown.open()
    return shown


def _sizes(cost: bool | Mapping[str, int]) -> dict[str, int] | None:
    """Return the sizes to begin with; None if there are no costs."""
    if isinstance(cost, bool):
        return {} if cost else None
    return checked_sizes(cost)


def _report(report: "StrPath | Report | Sensitivity | None") -> str | None:
    """Return a report as JSON."""
    if report is None:
        return None
    if isinstance(report, str | os.PathLike):
        return Path(report).read_text(encoding="utf-8")
    return json.dumps(report.to_json())
