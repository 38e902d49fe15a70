"""Warn the user, at the line that called jax2onnx."""

import sys
import warnings

from . import _core
from ._errors import Jax2OnnxWarning
from ._tiers import is_own


def warn(message: str) -> None:
    """Issue a `Jax2OnnxWarning` for the innermost line outside of this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(_core.clean_lines(message), Jax2OnnxWarning, stacklevel=level)
