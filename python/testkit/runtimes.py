"""What older versions of ONNX Runtime lack or compute wrongly, as `docs/runtime-faults.md` says."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

import onnxruntime
import pytest

VERSION: Final = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
#: The version that the tests are written for.
NEWEST: Final = (1, 31)
#: What a release lacks: a float64 `FusedMatMul` that 1.23 makes itself, and newer opsets.
_LACKS: Final = re.compile(
    r"Failed to find kernel for com.microsoft.FusedMatMul"
    r"|Unsupported model IR version: \d+"
    r"|opset \d+ is under development"
)


@contextlib.contextmanager
def allowed_to_lack_kernels() -> Iterator[None]:
    """Skips a test that an older version of ONNX Runtime is known to fail."""
    if VERSION >= NEWEST:
        yield
        return
    try:
        yield
    except Exception as error:
        found = _LACKS.search(str(error))
        if found:
            pytest.skip(found[0])
        raise
