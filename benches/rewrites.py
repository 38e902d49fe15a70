"""Measure what each rewrite is worth: the nodes and the time that programs need without it.

    PYTHONPATH=tools python benches/rewrites.py                    all programs
    PYTHONPATH=tools python benches/rewrites.py --groups networks  some of them
    PYTHONPATH=tools python benches/rewrites.py --least 0.03       the rewrites that save less
    PYTHONPATH=tools python benches/rewrites.py --time keep-entries make-rows

Each program is traced once, and optimized with all rewrites and without each one that changed it.
The results of a group are stored, so that `--least` and `--time` need not repeat it; `--fresh`
measures it again. With the Python of .venvs/libraries, the group `libraries` contains the programs
of all installed libraries. `--time` runs the programs that a rewrite changed in ONNX Runtime, with
it and without it by turns.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import runpy
import statistics
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from library_programs.program import Program as LibraryProgram
from networks import NETWORKS
from recurrences import inputs as recurrences
from runtime import by_turns
from runtimes.programs import PROGRAMS

import jax2onnx
from jax2onnx import _core, _export
from testkit import bench, cases
from testkit.models import networks as small_networks

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "rewrites"
#: A rewrite that saves a smaller share of all nodes, in percent, is a candidate for deletion.
LEAST = 0.03
#: The programs that are shown of each rewrite, those with the largest difference first.
SHOWN = 3


@dataclass(frozen=True)
class Program:
    """A function, its inputs, and the other arguments of `to_onnx`."""

    name: str
    build: Callable[[], tuple[Any, Any]]
    options: dict[str, Any] = field(default_factory=dict)


def of_cases() -> Iterator[Program]:
    for case in cases.all_cases():
        options = {"opset": case.opset, "enable_double_precision": case.double}
        yield Program(case.name, lambda case=case: (case.fn, case.inputs), options)


def of_small_networks() -> Iterator[Program]:
    for name, build in small_networks.NETWORKS.items():
        yield Program(name, build)


def of_networks() -> Iterator[Program]:
    for name, network in NETWORKS.items():
        yield Program(name, lambda network=network: (network.build(), network.inputs()))


def of_recurrences() -> Iterator[Program]:
    for name, (fn, arrays) in recurrences(128).items():
        yield Program(name, lambda fn=fn, arrays=arrays: (fn, arrays), {"opset": 26})
        yield Program(f"{name}, opset 23", lambda fn=fn, arrays=arrays: (fn, arrays))


def of_matrix() -> Iterator[Program]:
    for file in sorted((ROOT / "tools" / "runtimes" / "others").glob("*.py")):
        runpy.run_path(str(file))
    for program in PROGRAMS:
        given = (program.function, program.arguments)
        yield Program(program.name, lambda given=given: given)


def of_libraries() -> Iterator[Program]:
    for file in sorted((ROOT / "tools" / "library_programs").glob("[a-z]*.py")):
        try:
            module = importlib.import_module(f"library_programs.{file.stem}")
        except ImportError:
            continue
        for program in getattr(module, "PROGRAMS", ()):
            yield Program(
                f"{file.stem} {program.name}", library_build(program), {**program.options}
            )


def library_build(program: LibraryProgram) -> Callable[[], tuple[Any, Any]]:
    def build() -> tuple[Any, Any]:
        fn, given = program.build()
        return fn, program.specs or given

    return build


GROUPS: dict[str, Callable[[], Iterator[Program]]] = {
    "cases": of_cases,
    "small-networks": of_small_networks,
    "networks": of_networks,
    "recurrences": of_recurrences,
    "matrix": of_matrix,
    "libraries": of_libraries,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--fresh", action="store_true", help="measure the groups again")
    parser.add_argument("--least", type=float, help="show rewrites that save less percent of nodes")
    parser.add_argument("--time", nargs="+", metavar="REWRITE", help="measure the time of programs")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds of --time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {name: measured(name, options.fresh) for name in options.groups}
    if options.time:
        for name in options.time:
            show_times(name, results, options.rounds)
    else:
        show_nodes(results, options.least)
    return 0


Worth = dict[str, Any]
"""The number of nodes of each program, and for each rewrite its effect on programs."""


def measured(group: str, fresh: bool) -> Worth:
    """Returns the stored results of a group, or measures it."""
    stored = CACHE / f"{group}.json"
    if stored.exists() and not fresh:
        return json.loads(stored.read_text())
    programs: Worth = {}
    for program in GROUPS[group]():
        try:
            nodes, rewrites = worth_of(program)
        except Exception as error:
            print(f"{group}/{program.name}: {str(error).splitlines()[:1]}", flush=True)
            continue
        programs[program.name] = {"nodes": nodes, "rewrites": rewrites}
    if programs:
        CACHE.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(programs))
    return programs


class MeasuredError(Exception):
    """Ends an export when its jaxpr was measured."""


def worth_of(program: Program) -> tuple[int, list[tuple[str, int, int]]]:
    """Returns the number of nodes, and each rewrite, how often it applied, and what it saved."""
    found: list[Any] = []

    def measure(closed_jaxpr: Any, options: Any) -> None:
        found.append(_core.worth(closed_jaxpr, options))
        raise MeasuredError

    with contextlib.suppress(MeasuredError):
        export(program, measure)
    return found[0]


def export(program: Program, convert: Callable[[Any, Any], Any]) -> onnx.ModelProto:
    """Exports a program with another function in the place of the conversion of its jaxpr."""
    before, _export.export_traced = _export.export_traced, convert
    try:
        fn, inputs = program.build()
        return jax2onnx.to_onnx(fn, list(inputs), **program.options)
    finally:
        _export.export_traced = before


def show_nodes(results: dict[str, Worth], least: float | None) -> None:
    programs = {(group, name): row for group, rows in results.items() for name, row in rows.items()}
    nodes = sum(row["nodes"] for row in programs.values())
    effects: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for (group, name), row in programs.items():
        for rewrite, applied, saved in row["rewrites"]:
            effects[rewrite].append((saved, applied, f"{group}/{name}"))
    print(f"{len(programs)} programs, {nodes} nodes")
    rows = []
    for rewrite in _core.rewrites():
        found = effects.get(rewrite, [])
        saved = sum(effect[0] for effect in found)
        if least is None or 100 * saved < least * nodes:
            rows.append((saved, rewrite, found))
    for saved, rewrite, found in sorted(rows, key=lambda row: row[0], reverse=True):
        applied, changed = sum(effect[1] for effect in found), sum(bool(e[0]) for e in found)
        share = 100 * saved / nodes
        print(
            f"{rewrite}: {saved:+d} nodes ({share:.2f} %), applied {applied} times "
            f"in {len(found)} programs, changes the number of nodes of {changed}"
        )
        for effect in sorted(found, key=lambda effect: -abs(effect[0]))[:SHOWN]:
            if effect[0]:
                print(f"    {effect[0]:+d} {effect[2]}")


def show_times(rewrite: str, results: dict[str, Worth], rounds: int) -> None:
    """Prints the time of programs without a rewrite, relative to the time with it."""
    for group, rows in results.items():
        changed = {name for name, row in rows.items() if rewrite in (r[0] for r in row["rewrites"])}
        for program in GROUPS[group]():
            if program.name not in changed:
                continue
            without = functools.partial(_core.export, without=rewrite)
            inputs = program.build()[1]
            models = {
                "with": export(program, _core.export),
                "without": export(program, without),
            }
            tasks = {
                which: functools.partial(bench.run_session, bench.session(model), model, inputs)
                for which, model in models.items()
            }
            times = by_turns(tasks, rounds)
            ratio = statistics.median(
                b / a for a, b in zip(times["with"], times["without"], strict=True)
            )
            print(f"{rewrite}: {group}/{program.name}: {ratio:.2f}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
