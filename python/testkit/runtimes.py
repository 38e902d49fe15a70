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
_LACKS: Final = re.compile(
    r"Could not find an implementation for \w+\(\d+\)"
    r"|Failed to find kernel for com.microsoft.FusedMatMul"
    r"|Unsupported model IR version: \d+"
)
#: Cases that older versions compute wrongly.
_WRONG: Final = {
    r"erf\..*ends": "`Erf` of NaN is 1",
    r"reduce\.reduce_and\.of an? .*empty.* of bool": "`ReduceMin` of no booleans is false",
    r"sort\.empty": "the process ends in `TopK`",
}


@contextlib.contextmanager
def allowed_to_lack_kernels(case: str = "") -> Iterator[None]:
    """Skips a test that an older version of ONNX Runtime is known to fail."""
    if VERSION >= NEWEST:
        yield
        return
    for pattern, reason in _WRONG.items():
        if re.fullmatch(pattern, case):
            pytest.skip(reason)
    try:
        yield
    except Exception as error:
        found = _LACKS.search(str(error))
        if found:
            pytest.skip(found[0])
        raise
