"""What holds for every test: where XLA keeps what it compiled, and which part of the tests runs."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from pathlib import Path

import pytest

from testkit import ROOT, sampling


def _cpu() -> str:
    """A name for the instructions of this CPU; XLA compiles for them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return hashlib.sha256("\n".join(features).encode()).hexdigest()[:12]


# JAX reads these when it is imported; programs that a test starts inherit them. The key of an entry
# has the computation, the versions and the flags of XLA, but not the CPU.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "xla" / _cpu()))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


# Before Python 3.12, modules have names only on request.
os.environ.setdefault("JAX2ONNX_MODULE_SCOPES", "on")


def pytest_configure() -> None:
    """Let modules write `nnx.List` with every flax.

    The flax for JAX 0.6 lacks it, and takes plain lists and dictionaries.
    """
    try:
        from flax import nnx
    except ImportError:
        return
    for name, plain in {"List": list, "Dict": dict}.items():
        if not hasattr(nnx, name):
            setattr(nnx, name, plain)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        type=int,
        default=sampling.sample,
        metavar="N",
        help="run one of every N parameters of each test, and one of every N slow tests;"
        " JAX2ONNX_TEST_SEED chooses which",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.sample = config.getoption("--sample")
    tests: dict[str, list[str]] = defaultdict(list)
    for item in items:
        test = item.nodeid.partition("[")[0]
        if not item.get_closest_marker("slow") or sampling.is_chosen(test):
            tests[test].append(item.nodeid)
    chosen = {name for names in tests.values() for name in sampling.some_of(names)}
    left_out = [item for item in items if item.nodeid not in chosen]
    items[:] = [item for item in items if item.nodeid in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
