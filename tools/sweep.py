"""Try every public function of JAX's array modules, and write the page that says which convert.

    python tools/sweep.py                       try everything, write docs/coverage.md
    python tools/sweep.py jnp.fft sort          only functions whose name contains one of the words
    python tools/sweep.py --list                print the argument sets, try nothing
    python tools/sweep.py --resume              keep the verdicts of a run that was interrupted

Each argument set is exported, checked by ONNX, run in ONNX Runtime with graph optimizations off and
on, and compared with JAX. It has to be right or refused: anything else, and a function that has
neither an argument set nor a reason to have none, makes the exit code 1.
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
CACHE = ROOT / ".cache"
RESULTS = CACHE / "sweep.jsonl"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

from sweeping import page  # noqa: E402
from sweeping.discover import functions  # noqa: E402
from sweeping.listed import LISTED  # noqa: E402
from sweeping.plan import sets_of  # noqa: E402
from sweeping.serving import BEGUN, Entry, answer_requests, serve  # noqa: E402
from sweeping.trial import REFUSED, RIGHT, attempt  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of the names of functions")
    parser.add_argument("--list", action="store_true", help="print the argument sets")
    parser.add_argument("--resume", action="store_true", help="keep verdicts of the last run")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=300, help="time limit per argument set")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    names = [name for name in functions() if not options.words or _is_chosen(name, options.words)]
    if options.list:
        return show(names)
    results = sweep(names, options)
    bad = report(names, results)
    if not options.words:
        (ROOT / "docs" / "coverage.md").write_text(page.text(results))
    return 1 if bad else 0


def _is_chosen(name: str, words: Iterable[str]) -> bool:
    short = name.replace("jax.numpy", "jnp")
    return any(word in name or word in short for word in words)


def show(names: Iterable[str]) -> int:
    found = functions()
    for name in names:
        if name in LISTED:
            print(f"{name}: {LISTED[name]}")
        for one in sets_of(name, found[name]):
            print(f"{name}{one.label}")
    return 0


def sweep(names: Iterable[str], options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Returns the verdicts of every argument set, by function."""
    results: dict[str, list[dict[str, Any]]] = {}
    RESULTS.parent.mkdir(exist_ok=True)
    if options.resume and RESULTS.exists():
        for line in RESULTS.read_text().splitlines():
            entry = json.loads(line)
            results[entry["function"]] = entry["sets"]
    pending = [name for name in names if name not in LISTED and name not in results]
    with RESULTS.open("a" if options.resume else "w") as log:

        def done(name: str, sets: list[dict[str, Any]]) -> None:
            results[name] = sets
            log.write(json.dumps({"function": name, "sets": sets}) + "\n")
            log.flush()
            for one in sets:
                if one["verdict"] not in (RIGHT, REFUSED):
                    print(f"{one['verdict']:8} {name}{one['label']}: {one['said']}", flush=True)

        serve(__file__, pending, done, jobs=options.jobs, seconds=options.seconds)
    return results


def work() -> None:
    """Tries what standard input asks for, and answers with one line per verdict."""
    found = functions()

    def entries(name: str, skipped: int) -> Iterator[Entry]:
        for one in sets_of(name, found[name])[skipped:]:
            yield {"label": one.label, **BEGUN}
            verdict, said = attempt(found[name], one)
            yield {"label": one.label, "verdict": verdict, "said": said}

    answer_requests(entries)


def report(names: Iterable[str], results: dict[str, list[dict[str, Any]]]) -> int:
    """Prints the counts, and returns how many things are not as they have to be."""
    verdicts: dict[str, int] = {}
    untried = [name for name in names if name not in LISTED and not results.get(name)]
    for name in untried:
        print(f"not tried: {name}: add an argument set to tools/sweeping/tables, or a reason")
    for name in names:
        for one in results.get(name, ()):
            verdicts[one["verdict"]] = verdicts.get(one["verdict"], 0) + 1
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    wrong = sum(count for verdict, count in verdicts.items() if verdict not in (RIGHT, REFUSED))
    return wrong + len(untried)


if __name__ == "__main__":
    sys.exit(main())
