"""How many equations of each network a value of the model holds, and what it costs to know.

    python benches/pairs.py [--rounds 3] [NETWORK …]

An equation is held if a value has its result, viewed if a value has its elements in other places,
covered if nodes compute it as a part of something else, and unused if no output needs it. The cost
is the time of an export with pairs, relative to one without.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from networks import NETWORKS

import jax2onnx
from jax2onnx import _pairs
from testkit.held.check import shares


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="the networks, all by default")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds")
    options = parser.parse_args()
    columns = f"{'held':>7} {'viewed':>7} {'covered':>8} {'unused':>7} {'time':>6}"
    print(f"{'network':<22} {'equations':>9} {columns}")
    for name in options.networks or NETWORKS:
        network = NETWORKS[name]
        fn, inputs = network.build(), network.inputs()
        found: list[Sequence[_pairs.Pair]] = []
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(options.rounds):
            for with_pairs in times:
                times[with_pairs].append(export(fn, inputs, found if with_pairs else None))
        share = shares(found[0])
        count = max(share.total(), 1)
        words = [f"{share[how] / count:.1%}" for how in ("same", "view", "covered", "unused")]
        ratio = statistics.median(times[True]) / statistics.median(times[False])
        held, viewed, covered, unused = words
        print(f"{name:<22} {count:>9} {held:>7} {viewed:>7} {covered:>8} {unused:>7} {ratio:>6.2f}")


def export(fn: Any, inputs: Sequence[Any], found: list[Sequence[_pairs.Pair]] | None) -> float:
    """Export once. Returns the seconds that it took."""
    listening = nullcontext()
    if found is not None:
        listening = _pairs.listening(lambda _, pairs: found.append(pairs))
    start = time.perf_counter()
    with listening:
        jax2onnx.to_onnx(fn, inputs)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
