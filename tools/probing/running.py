"""Runs tiny models in a runtime, many at once in one that compiles each model for long."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import onnx.compose
from runtimes.process import Process, RefusalError

#: How many models are joined to one.
JOINED: Final = 24

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, and the inputs of each run."""

    model: onnx.ModelProto
    runs: list[Arrays]


class Runner:
    """Runs models in a runtime."""

    def __init__(self, process: Process, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._model = b""
        self._known: dict[bytes, Arrays | RefusalError] = {}
        self.count = 0

    def __call__(self, model: onnx.ModelProto, inputs: Arrays) -> Arrays:
        written = model.SerializeToString()
        known = self._known.get(_key(written, inputs)) or self._known.get(written)
        if isinstance(known, RefusalError):
            raise known
        return self._run(written, inputs) if known is None else known

    def _run(self, model: bytes, inputs: Arrays) -> Arrays:
        self.count += 1
        path = self._folder / "probe.onnx"
        # The process keeps a model loaded that is in the same folder as before.
        own = self._folder / "run"
        if model != self._model:
            self._model = model
            path.write_bytes(model)
            shutil.rmtree(own, ignore_errors=True)
        results = self._process.run(path, inputs, own)
        if self._process.fallback and (stayed := fallback(model, self._process.fallback)):
            raise RefusalError(f"on the CPU: {', '.join(stayed)}")
        return results

    def run_together(self, cases: Iterable[Case]) -> None:
        """Runs models of the same opset joined to few models, and keeps the results."""
        several = list(cases)
        for start in range(0, len(several), JOINED):
            self._run_joined(several[start : start + JOINED])

    def forget(self) -> None:
        """Forgets the results, so that each model is run alone."""
        self._known.clear()

    def _run_joined(self, cases: list[Case]) -> None:
        model = cases[0].model if len(cases) == 1 else _join([case.model for case in cases])
        written = model.SerializeToString()
        found: list[list[Arrays]] = [[] for _ in cases]
        try:
            for number in range(max(len(case.runs) for case in cases)):
                chosen = [case.runs[number % len(case.runs)] for case in cases]
                results = self._run(written, [each for inputs in chosen for each in inputs])
                for case, kept in zip(cases, found, strict=True):
                    size = len(case.model.graph.output)
                    kept.append(results[:size])
                    results = results[size:]
        except RefusalError as error:
            if len(cases) == 1:
                self._known[written] = error
                return
            middle = len(cases) // 2
            self._run_joined(cases[:middle])
            self._run_joined(cases[middle:])
            return
        for case, kept in zip(cases, found, strict=True):
            own = case.model.SerializeToString()
            for inputs, results in zip(case.runs, kept, strict=False):
                self._known[_key(own, inputs)] = results


def _key(model: bytes, inputs: Arrays) -> bytes:
    return b"|".join([model, *(each.tobytes() for each in inputs)])


def _join(models: list[onnx.ModelProto]) -> onnx.ModelProto:
    """Returns a model that computes the results of all models side by side."""
    joined = onnx.ModelProto()
    joined.CopyFrom(models[0])
    joined.graph.Clear()
    joined.graph.name = "joined"
    for number, model in enumerate(models):
        graph = onnx.compose.add_prefix(model, f"m{number}_").graph
        for part in ("node", "input", "output", "initializer", "value_info"):
            getattr(joined.graph, part).extend(getattr(graph, part))
    return joined


def fallback(model: bytes, stayed: list[str]) -> list[str]:
    """Returns the operators that stayed on the CPU, except casts around the one in question."""
    graph = onnx.ModelProto.FromString(model).graph
    others = {node.op_type for node in graph.node} - {"Cast"}
    return sorted({op for op in stayed if op != "Cast" or not others})
