"""Plant problems of short types into networks, and count how many `sensitivity` ranks first.

    python tools/precision_faults.py [--count 100] [--seed 0] [--to int8] [--time] [--verbose]

A problem counts if float16 changes the outputs: the model is converted, with the planted line alone
rounded, and the outputs are compared. It is found if the line that `sensitivity` ranks first is the
line that was planted. The exit code is 1 if fewer than 95 % are found, or if an answer is wrong and
sure. With `--to`, the networks are written with several libraries, and a problem counts if rounding
its line in JAX, without ONNX, loses more than rounding any other line. With `--time`, the tool also
measures how long it takes to round one node after another, each in a model of its own.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from precision.emulated import Emulation
from precision.one_by_one import one_by_one
from precision.plants import OTHER_PROBLEMS, Planted, plants

import jax2onnx

MIN_FOUND = 0.95
#: A planted line is a problem if it loses so much, and so many times as much as every other line.
MIN_ERROR, CLEAR = 0.02, 1.2


def asked(
    planted: Planted, counts: Counter[str], *, is_timed: bool, to: str | None = None
) -> str | None:
    """Rank the lines of a network. Returns what went wrong."""
    if to is not None and not _is_worst(planted, to):
        counts["no problem"] += 1
        return None
    model = jax2onnx.to_onnx(planted.fn, list(planted.inputs), provenance="indexed")
    start = time.perf_counter()
    result = jax2onnx.sensitivity(model, list(planted.inputs), to=to or "float16")
    counts["ms"] += round(1000 * (time.perf_counter() - start))
    if is_timed:
        start = time.perf_counter()
        one_by_one(model, list(planted.inputs))
        counts["ms one by one"] += round(1000 * (time.perf_counter() - start))
    first = result.first
    is_found = first is not None and first.line == planted.line
    counts["problems"] += 1
    counts["in loops"] += planted.is_in_loop
    if first is None:
        return f"{planted.name}: nothing found"
    counts["sure"] += first.sure
    if is_found:
        counts["found"] += 1
        return None
    counts["wrong and sure"] += first.sure
    return (
        f"{planted.name} at {planted.path}:{planted.line}: found line {first.line}, "
        f"{'SURE' if first.sure else 'not sure'}\n{result.table(4)}"
    )


def _is_worst(planted: Planted, to: str) -> bool:
    """Return whether the planted line loses most if lines are rounded in JAX."""
    errors = Emulation(planted.path, to).run(planted.fn, planted.inputs)
    capped = {
        line: error if math.isinf(error) else min(error, 1.0) for line, error in errors.items()
    }
    own = capped.pop(planted.line, 0.0)
    return own > MIN_ERROR and own > CLEAR * max(capped.values(), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", choices=OTHER_PROBLEMS)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for planted in plants(Path(folder), arguments.count, arguments.seed, arguments.to):
            own: Counter[str] = Counter()
            problem = asked(planted, own, is_timed=arguments.time, to=arguments.to)
            kinds.setdefault(planted.name.split(":")[0], Counter()).update(own)
            counts.update(own)
            if problem:
                problems.append(problem)
    columns = ["problems", "in loops", "found", "sure", "wrong and sure", "ms"]
    columns += ["no problem"] if arguments.to else []
    columns += ["ms one by one"] if arguments.time else []
    print("| network | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, own in [*kinds.items(), ("**all**", counts)]:
        print(f"| {name} | " + " | ".join(str(own[each]) for each in columns) + " |")
    for problem in problems if arguments.verbose else [each.splitlines()[0] for each in problems]:
        print(problem, file=sys.stderr)
    is_good = counts["found"] >= MIN_FOUND * counts["problems"] and not counts["wrong and sure"]
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
