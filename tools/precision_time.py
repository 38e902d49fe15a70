"""Compare `sensitivity` with rounding one node after another, each in a model of its own.

    python tools/precision_time.py [--only NAME]

The other way does the least that is possible: see `precision/one_by_one.py`. Both get the same
model in memory and one set of inputs, after a first run, so that no import counts. The times are
CPU times of the process, because the time on a clock depends on other jobs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

from precision.one_by_one import one_by_one
from precision.sizes import SIZES

import jax2onnx


def milliseconds(run: Callable[[], Any], times: int) -> float:
    """Return the CPU time of a function, the least of some runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return 1000 * min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="a part of the names of networks")
    only = parser.parse_args().only or ""
    warnings.simplefilter("ignore")
    is_warm = False
    print("| network | nodes | lines | `sensitivity` | one by one | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, build in SIZES.items():
        if only not in name:
            continue
        fn, inputs = build()
        model = jax2onnx.to_onnx(fn, inputs, provenance="indexed")
        if not is_warm:
            jax2onnx.sensitivity(model, inputs)
            is_warm = True
        lines = len(jax2onnx.sensitivity(model, inputs).lines)
        own = milliseconds(lambda m=model, i=inputs: jax2onnx.sensitivity(m, i), 3)
        nodes = len(one_by_one(model, inputs))
        other = milliseconds(lambda m=model, i=inputs: one_by_one(m, i), 1)
        print(
            f"| {name} | {nodes} | {lines} | {own:.0f} ms | {other:.0f} ms | {own / other:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
