"""How the cost of an export grows with the number of equations.

    python benches/scaling.py [--sizes 1000 10000 50000]

For each size: `to_onnx` against `jax.make_jaxpr` in one run, and the cost an equation against
that of the smallest size. The exit code is 1 where a limit is not kept.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import jax2onnx

SPEC = jax.ShapeDtypeStruct((4, 4), np.float32)
MOST_OVER_TRACING = 1.3
MOST_OVER_PROPORTIONAL = 1.3


def chain(equations: int) -> Callable[[jax.Array], jax.Array]:
    """A function of that many equations, none of which can be shared."""

    def forward(x: jax.Array) -> jax.Array:
        for step in range(equations // 5):
            x = jnp.tanh(x @ x + step) * 0.5 - jnp.sin(x)
        return x

    return forward


def cpu_time(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000, 50000])
    options = parser.parse_args()
    jax2onnx.to_onnx(chain(100), [SPEC])
    failed = False
    smallest: float | None = None
    for size in options.sizes:
        rounds = max(1, 30000 // size)
        ratios, costs = [], []
        for _ in range(rounds):
            forward = chain(size)
            traced = cpu_time(lambda forward=forward: jax.make_jaxpr(lambda x: forward(x))(SPEC))
            exported = cpu_time(
                lambda forward=forward: jax2onnx.to_onnx(lambda x: forward(x), [SPEC])
            )
            ratios.append(exported / traced)
            costs.append((exported - traced) / size)
        ratio, cost = statistics.median(ratios), statistics.median(costs)
        smallest = smallest or cost
        growth = cost / smallest
        kept = ratio <= MOST_OVER_TRACING and growth <= MOST_OVER_PROPORTIONAL
        failed |= not kept
        print(
            f"{size:6} equations: to_onnx / make_jaxpr {ratio:.2f} (limit {MOST_OVER_TRACING}), "
            f"{cost * 1e6:.1f} us an equation beyond tracing, {growth:.2f} of proportional "
            f"(limit {MOST_OVER_PROPORTIONAL}){'' if kept else '   over the limit'}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
