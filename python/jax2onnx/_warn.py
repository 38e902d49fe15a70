"""Warn the user, at the line that called jax2onnx."""

import sys
import warnings

from . import _cells, _core
from ._errors import Jax2OnnxWarning
from ._tiers import is_own


def warn(message: str) -> None:
    """Issue a `Jax2OnnxWarning` for the innermost line outside of this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    text = _core.clean_lines(message)
    file, line = _cells.place(frame.f_code, frame.f_lineno)
    if file == frame.f_code.co_filename:
        warnings.warn(text, Jax2OnnxWarning, stacklevel=level)
        return
    # As `warnings.warn` does it, but with the name of the cell.
    module = frame.f_globals.get("__name__", "<unknown>")
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, Jax2OnnxWarning, file, line, module, registry)
