"""Put faults into models, and count how many of them `jax2onnx.compare` finds.

    python tools/numeric_faults.py [--per-program 26] [--program NAME] [--seed 0] [--runtime NAME]

A fault counts if an output changes. It is found if the first line that `compare` shows is a line of
the node that was changed. Two columns show what others would find: whether `allclose` of the
outputs notices the fault, and whether the first value of the main graph that differs, which is all
that tools without bodies can look at, belongs to that line. The exit code is 1 if fewer than 99 %
are found, or if an answer is wrong and sure.

With `--runtime`, another runtime runs the models: a name as in `jax2onnx.compare`, or the name of
one that `tools/matrix.py` installed. If the runtime refuses the unchanged model or computes a line
of it wrongly, that line is right, too. 95 % have to be found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numeric.faults import Fault, all_faults
from numeric.programs import PROGRAMS, Program
from runtimes.installed import runtimes

import jax2onnx
from jax2onnx import _core
from jax2onnx._comparing.executors import chosen

MIN_FOUND = 0.99
MIN_FOUND_ELSEWHERE = 0.95
RTOL, ATOL = 1e-3, 1e-5


@dataclass(frozen=True)
class Lines:
    """The lines of each node, by its first output."""

    of_output: dict[str, set[int]]

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Lines:
        data = json.loads(_core.model_lines(model.SerializeToString()))
        frames = [frame["line"] for frame in data["frames"]]
        graphs = _graphs(model)
        found: dict[str, set[int]] = {}
        for graph, entry in zip(graphs, data["graphs"], strict=True):
            for node, (_, numbers) in zip(graph, entry["nodes"], strict=True):
                found.setdefault(node.output[0], set()).update(frames[each] for each in numbers)
        return cls(found)


def _graphs(model: onnx.ModelProto) -> list[list[onnx.NodeProto]]:
    """Return the nodes of each graph, in the order of the core: breadth first."""
    waiting = [list(model.graph.node), *(list(each.node) for each in model.functions)]
    found = []
    while waiting:
        nodes = waiting.pop(0)
        found.append(nodes)
        for node in nodes:
            waiting += [list(each.g.node) for each in node.attribute if each.HasField("g")]
    return found


def outputs_of(
    model: onnx.ModelProto, feeds: dict[str, Any], *, taps: bool = False
) -> dict[str, Any]:
    """Run a model without optimizations; with `taps`, all values of the main graph are outputs."""
    if taps:
        tapped = onnx.ModelProto()
        tapped.CopyFrom(model)
        known = {value.name for value in tapped.graph.output}
        for node in tapped.graph.node:
            for name in node.output:
                if name and name not in known:
                    tapped.graph.output.add(name=name)
        model = tapped
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def is_close(one: Any, other: Any, rtol: float = RTOL, atol: float = ATOL) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol, atol, equal_nan=True)


def main_graph_lines(
    model: onnx.ModelProto, good: dict[str, Any], bad: dict[str, Any], lines: Lines
) -> set[int]:
    """Return the lines of the first node of the main graph whose result differs."""
    for node in model.graph.node:
        for name in node.output:
            if name in good and name in bad and not is_close(good[name], bad[name]):
                return lines.of_output[node.output[0]]
    return set()


def run(
    program: Program, wanted: int, seed: int, counts: Counter[str], runtime: Any = None
) -> list[str]:
    """Try the faults of a program. Returns what went wrong."""
    model = jax2onnx.to_onnx(program.fn, list(program.inputs), provenance="indexed")
    lines = Lines.of(model)
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, program.inputs, strict=True))
    plain, good = outputs_of(model, feeds), outputs_of(model, feeds, taps=True)
    problems = []
    own: set[int] = set()
    if runtime is not None:
        report = jax2onnx.compare(program.fn, model, list(program.inputs), runtime=runtime)
        if report.first is not None:
            own = {line.line for line in report.first.lines}
            problems.append(f"{program.name}, unchanged: {str(report)[:1000]}")
        elif not report:
            problems.append(f"{program.name}, unchanged: {str(report)[:1000]}")
    tried = 0
    for fault in all_faults(model, np.random.default_rng(seed)):
        if tried >= wanted:
            break
        try:
            spoiled = outputs_of(fault.model, feeds)
        except Exception:
            continue
        if all(is_close(plain[name], spoiled[name], 1e-4, 1e-6) for name in plain):
            continue
        tried += 1
        counts["faults"] += 1
        counts["in bodies"] += fault.depth > 0
        truth = set().union(*(lines.of_output[name] for name in fault.nodes))
        counts["allclose notices"] += not all(is_close(plain[n], spoiled[n]) for n in plain)
        bad = outputs_of(fault.model, feeds, taps=True)
        seen = main_graph_lines(model, good, bad, lines)
        counts["main graph finds"] += bool(seen) and seen <= truth
        problem = _asked(program, fault, truth, counts, runtime, own)
        if problem:
            problems.append(f"{program.name}: {problem}")
    return problems


def _asked(
    program: Program,
    fault: Fault,
    truth: set[int],
    counts: Counter[str],
    runtime: Any,
    own: set[int],
) -> str | None:
    what = f"{fault.kind} of {', '.join(fault.nodes)} at depth {fault.depth}, line {sorted(truth)}"
    try:
        inputs = list(program.inputs)
        first = jax2onnx.compare(program.fn, fault.model, inputs, runtime=runtime).first
    except Exception as error:
        return f"{what}: {type(error).__name__}: {str(error)[:300]}"
    if first is None:
        return f"{what}: nothing found"
    counts["sure"] += first.sure
    if first.line in truth | own:
        counts["found"] += 1
        counts["of the runtime"] += first.line not in truth
        return None
    counts["wrong and sure"] += first.sure
    found = f"{first.node} at line {first.line}, {first.iterations}, {first.kind}"
    return f"{what}: found {found}, {'SURE' if first.sure else 'not sure'}"


COLUMNS = ("faults", "in bodies", "found", "sure", "wrong and sure")
#: The answer is what the runtime does wrong by itself.
ELSEWHERE = ("of the runtime",)
OTHERS = ("main graph finds", "allclose notices")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-program", type=int, default=26)
    parser.add_argument("--program", action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runtime", help="the runtime that runs the models")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with chosen(_spelling(arguments.runtime)) as runtime:
        return _measure(arguments, None if arguments.runtime is None else runtime)


def _spelling(name: str | None) -> str | None:
    """Return a runtime as `compare` wants it; one that is installed for the tools has a place."""
    if name is None or "@" in name:
        return name
    known = [each for each in runtimes() if name in (each.name, f"{each.name}-{each.version}")]
    return known[-1].spelling if known else name


def _measure(arguments: argparse.Namespace, runtime: Any) -> int:
    total: Counter[str] = Counter()
    columns = (*COLUMNS, *(OTHERS if runtime is None else ELSEWHERE))
    print("| program | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    problems = []
    start = time.monotonic()
    for program in PROGRAMS:
        if arguments.program and program.name not in arguments.program:
            continue
        counts: Counter[str] = Counter()
        problems += run(program, arguments.per_program, arguments.seed, counts, runtime)
        total += counts
        print(
            f"| {program.name} | " + " | ".join(str(counts[c]) for c in columns) + " |", flush=True
        )
    print("| **all** | " + " | ".join(str(total[each]) for each in columns) + " |")
    for problem in problems:
        print(problem, file=sys.stderr)
    taken = time.monotonic() - start
    print(f"{total['found']} of {total['faults']} found in {taken:.0f} s", file=sys.stderr)
    least = MIN_FOUND if runtime is None else MIN_FOUND_ELSEWHERE
    is_good = total["found"] >= least * total["faults"] and not total["wrong and sure"]
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
