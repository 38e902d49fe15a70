"""Probes a whole runtime, and stores what was found."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import helper, numpy_helper
from runtimes.installed import Runtime
from runtimes.process import RefusalError

from . import models, operators
from .examples import EXAMPLES, NUMBER, Example, d
from .forms import abilities
from .judging import Expected, same
from .models import PLAIN
from .running import Runner
from .values import fill

RESULTS: Final = Path(__file__).resolve().parent / "results"

#: Verdicts, each with what it holds for.
Grouped = dict[str, list[str]]


def probe(
    runner: Runner, runtime: Runtime, only: list[str], stored: dict[str, Any]
) -> dict[str, Any]:
    """Returns everything that the models show about a runtime.

    With `only`, returns what is stored, with these operators or parts probed again.
    """
    opsets = stored.get("opsets") or [
        opset for opset in range(operators.OLDEST, operators.NEWEST + 1) if loads(runner, opset)
    ]
    newest = max(opsets)
    brief, usual = runtime.name in operators.SLOW, operators.USUAL

    def is_usual(name: str) -> bool:
        return name in usual

    found = {
        "runtime": runtime.name,
        "version": runtime.version,
        "opsets": opsets,
        "abilities": {},
        "boundaries": {},
        "casts": {},
        "operators": {},
        **stored,
    }
    forms = [form for form in abilities() if not only or {form.name, "abilities"} & {*only}]
    if forms:
        known = {name: verdict for verdict, n in found["abilities"].items() for name in n}
        known |= {form.name: able(runner, form) for form in forms}
        found["abilities"] = grouped(
            {a.name: known[a.name] for a in abilities() if a.name in known}
        )
    parts: dict[str, Callable[[], Any]] = {
        "boundaries": lambda: boundaries(runner),
        "casts": lambda: casts(runner, min(newest, 21), usual if brief else (*PLAIN, "bfloat16")),
    }
    for name, part in parts.items():
        if not only or name in only:
            found[name] = part()
    table = dict(found["operators"])
    chosen = [op for op in sorted(EXAMPLES) if not only or op in only]
    for op in chosen:
        table[op] = []
        for since, until in operators.versions(op, newest, brief):
            if brief:
                runner.run_together(operators.cases(op, until, is_usual, False))
            types = operators.probe(runner, op, until, lambda name: not brief or is_usual(name))
            if brief and any(
                "ordinary" in each for found in types.values() for each in found.values()
            ):
                # The runtime may compute the operator wrongly beside others only.
                runner.forget()
                types = operators.probe(runner, op, until, is_usual)
            variables = {variable: grouped(verdicts) for variable, verdicts in types.items()}
            table[op].append({"since": since, "until": until, "types": variables})
        found["operators"] = dict(sorted(table.items()))
        store(runtime.name, found)
        print(op, end=" ", file=sys.stderr, flush=True)
    return found


def grouped(verdicts: dict[str, str]) -> Grouped:
    """Returns what each verdict holds for."""
    groups: Grouped = {}
    for name, verdict in verdicts.items():
        groups.setdefault(verdict, []).append(name)
    return groups


def loads(runner: Runner, opset: int) -> bool:
    """True if the runtime runs a model of this opset."""
    types = {"T": "float32", "V": "float32"}
    made = models.make("Identity", opset, Example((d(2, 3),)), types, False)
    inputs = made.fill("ordinary")
    try:
        return same(runner(made.model, inputs), Expected(made.model).of(inputs)[0])
    except RefusalError:
        return False


def able(runner: Runner, form: Any) -> str:
    """Returns the verdict for a form."""
    inputs = form.inputs()
    # ONNX Runtime returns zeros for a row in which every entry of the mask is the lowest float.
    oracle = -1 if form.name == "AttentionLowestMask" else 0
    wanted = Expected(form.model).of(inputs)[oracle]
    try:
        try:
            got = runner(form.model, inputs)
        except RefusalError as error:
            if "the process ended" not in str(error):
                raise
            # A model before this one may have destroyed memory. Now the process is new.
            got = runner(form.model, inputs)
    except RefusalError as error:
        return f"refused: {operators.words(error)}"
    return "right" if same(got, wanted) else "wrong"


def boundaries(runner: Runner) -> dict[str, Grouped]:
    """Returns the types that inputs, outputs and constants of a model may have."""
    return {
        place: grouped({name: _boundary(runner, place, name) for name in PLAIN})
        for place in ("inputs", "outputs", "constants")
    }


def _boundary(runner: Runner, place: str, name: str) -> str:
    inner = models.carrier(name)
    node = helper.make_node
    value = helper.make_tensor_value_info
    numbers = fill("ordinary", name, (2, 3), 0, "any")
    given = [numbers if place == "inputs" else numbers.astype(inner)]
    kind = name if place == "inputs" else inner
    values = [value("x", NUMBER[kind], [2, 3])]
    constants = []
    if place == "constants":
        constants = [numpy_helper.from_array(numbers, "c")]
        nodes = [node("Cast", ["c"], ["d"], to=NUMBER[inner]), node("Add", ["x", "d"], ["y"])]
    else:
        to = NUMBER[inner if place == "inputs" else name]
        nodes = [node("Cast", ["x"], ["y"], to=to)]
    made = NUMBER[name] if place == "outputs" else NUMBER[inner]
    graph = helper.make_graph(nodes, "g", values, [value("y", made, [2, 3])], constants)
    model = models.finish(graph, 18)
    try:
        got = runner(model, given)
    except RefusalError as error:
        return f"refused: {operators.words(error)}"
    right = same(got, Expected(model).of(given)[0])
    if place == "outputs" and got[0].dtype != np.dtype(name):
        return f"as {got[0].dtype.name}" if right else "wrong"
    return "right" if right else "wrong"


def casts(runner: Runner, opset: int, names: Sequence[str]) -> Grouped:
    """Returns what casts between types do, for each pair."""
    found = {}
    for source, target in itertools.product(names, repeat=2):
        types = {"T1": source, "T2": target}
        verdict = operators.judge(runner, "Cast", opset, EXAMPLES["Cast"](opset), types, source)
        if verdict:
            found[f"{source} {target}"] = verdict
    return grouped(found)


def show(runner: Runner, ops: list[str]) -> None:
    for op in ops:
        for since, until in operators.versions(op, operators.NEWEST):
            for variable, verdicts in operators.probe(runner, op, until).items():
                for verdict, names in grouped(verdicts).items():
                    print(f"{op} {since}-{until} {variable} {' '.join(names)}: {verdict}")
    for form in abilities():
        if form.name in ops:
            print(form.name, able(runner, form))


def store(name: str, found: dict[str, Any]) -> None:
    """Writes one line for each verdict, operator and opset."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(_text(found, 0) + "\n")


def _text(value: Any, depth: int) -> str:
    is_leaf = not isinstance(value, dict) or (depth > 1 and "types" not in value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        each = (" " * (depth + 1) + json.dumps(one, ensure_ascii=False) for one in value)
        return "[\n" + ",\n".join(each) + "\n" + " " * depth + "]"
    if is_leaf:
        return json.dumps(value, ensure_ascii=False)
    lines = (
        " " * (depth + 1) + f"{json.dumps(key, ensure_ascii=False)}: {_text(each, depth + 1)}"
        for key, each in value.items()
    )
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())
