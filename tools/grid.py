"""Compare every elementwise function of JAX with its model, for every type, at special values.

    python tools/grid.py                      try everything, write docs/grid.md
    python tools/grid.py lgamma expm1         only functions whose name contains one of the words
    python tools/grid.py --types float32,int8 only these element types
    python tools/grid.py --resume             keep the verdicts of a run that was interrupted

Each function runs at both zeros, both infinities, NaN, the ends of its type, denormal numbers, and
values near the thresholds of its formulas; a function of two arrays runs at all pairs of them. The
model runs with passes on and off, and with ONNX Runtime's optimizations on and off. An element is
right if it is what `jax.jit` computes, or what JAX computes one operation after the other. What
differs must be a deviation in `tools/gridding/deviations.py`; anything else makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".cache" / "grid.jsonl"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from gridding import page  # noqa: E402
from gridding.functions import candidates, functions, types_of  # noqa: E402
from gridding.trial import DEVIATES, NONE, REFUSED, RIGHT, prepared  # noqa: E402
from gridding.types import TYPES  # noqa: E402
from sweeping.serving import BEGUN, Entry, answer_requests, serve  # noqa: E402

#: Set for the processes: the element types to try.
TYPES_VARIABLE = "JAX2ONNX_GRID_TYPES"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of the names of functions")
    parser.add_argument(
        "--types",
        type=lambda text: text.split(","),
        default=TYPES,
        help="element types, with commas",
    )
    parser.add_argument("--resume", action="store_true", help="keep verdicts of the last run")
    parser.add_argument("--page", action="store_true", help="write the page of the last run alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=300, help="time limit per cell")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    os.environ[TYPES_VARIABLE] = " ".join(options.types)
    if options.page:
        (ROOT / "docs" / "grid.md").write_text(page.text(_kept()))
        return 0
    words = options.words
    names = [name for name in functions() if not words or any(word in name for word in words)]
    results = run(names, options)
    bad = report(results[name] for name in names if name in results)
    if not options.words and set(options.types) == set(TYPES):
        (ROOT / "docs" / "grid.md").write_text(page.text(results))
    return 1 if bad else 0


def _kept() -> dict[str, list[Entry]]:
    """Returns the verdicts of the last run; those of one function may be in several lines."""
    results: dict[str, list[Entry]] = {}
    for line in RESULTS.read_text().splitlines():
        entry = json.loads(line)
        cells = {one["label"]: one for one in (*results.get(entry["function"], []), *entry["sets"])}
        results[entry["function"]] = list(cells.values())
    return results


def run(names: Iterable[str], options: argparse.Namespace) -> dict[str, list[Entry]]:
    """Returns the verdicts of every cell, by function."""
    RESULTS.parent.mkdir(exist_ok=True)
    results = _kept() if options.resume and RESULTS.exists() else {}
    pending = [
        name
        for name in names
        if not set(options.types) <= {one["label"] for one in results.get(name, ())}
    ]
    with RESULTS.open("a" if options.resume else "w") as log:

        def done(name: str, cells: list[Entry]) -> None:
            for one in cells:
                if one["verdict"] == "crash" and one.get("stage") == "JAX":
                    one |= {"verdict": NONE, "said": "JAX does not return"}
            kept = {one["label"]: one for one in (*results.get(name, []), *cells)}
            results[name] = list(kept.values())
            log.write(json.dumps({"function": name, "sets": cells}) + "\n")
            log.flush()
            for one in cells:
                if not is_right(one):
                    print(f"{one['verdict']:8} {name} {one['label']}: {one['said']}", flush=True)

        serve(__file__, pending, done, jobs=options.jobs, seconds=options.seconds)
    return results


def work() -> None:
    """Tries what standard input asks for, and answers with one line per verdict."""
    import jax

    wanted = os.environ[TYPES_VARIABLE].split()

    def entries(name: str, skipped: int) -> Iterator[Entry]:
        function = candidates()[name]
        taken = set(types_of(function, wanted))
        for label in wanted[skipped:]:
            if label not in taken:
                yield {"label": label, "verdict": NONE, "said": ""}
                continue
            yield {"label": label, **BEGUN, "stage": "JAX"}
            cell = prepared(function, label)
            if cell is None:
                yield {"label": label, "verdict": NONE, "said": "XLA cannot compile it"}
                continue
            yield {"label": label, **BEGUN, "stage": "model"}
            cell.run_models()
            yield {"label": label, **BEGUN, "stage": "JAX"}
            yield cell.verdict().entry(label)
        jax.clear_caches()

    answer_requests(entries)


def is_right(one: Entry) -> bool:
    return one["verdict"] in (RIGHT, REFUSED, DEVIATES, NONE)


def report(results: Iterable[list[Entry]]) -> int:
    """Prints the counts, and returns how many cells are wrong."""
    counts: dict[str, int] = {}
    cells: list[dict[str, Any]] = [one for cells in results for one in cells]
    for one in cells:
        counts[one["verdict"]] = counts.get(one["verdict"], 0) + 1
    counts.pop(NONE, None)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return sum(not is_right(one) for one in cells)


if __name__ == "__main__":
    sys.exit(main())
