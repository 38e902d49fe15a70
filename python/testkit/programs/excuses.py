"""List the errors and results of a symbolic program that do not count at a size, and why.

What JAX traces may not be right at a size: see `traced.py`. This excuses the step whose equation
does not fit, and the steps that read its result, and no other step of the program. ONNX Runtime may
also fail at a node that `jax2onnx inspect` lists with a size that must be positive.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import onnx

import jax2onnx
from jax2onnx._tracing.compat import double_precision_kept
from jax2onnx.provenance_reader import read_model

from .program import SCOPE, SIZES, Program, size_at
from .traced import failures, makes_float32, misfits, traced

#: ONNX Runtime gives a value the memory of any earlier one with the same declared size.
SHARED_MEMORY: Final = "Shape mismatch attempting to re-use buffer"


class Excuses:
    """The steps of a program that need not be right at a size, and those that need not run."""

    def __init__(self, program: Program, size: int) -> None:
        self.program, self.size = program, size
        #: JAX traces for large sizes.
        self.is_small = program.is_symbolic and size != SIZES[-1]

    @functools.cached_property
    def wrong(self) -> set[int]:
        return self.program.with_readers(steps_of(misfits(self.jaxpr, self.size)))

    @functools.cached_property
    def failing(self) -> set[int]:
        return self.program.with_readers(steps_of(failures(self.jaxpr, self.size)))

    @functools.cached_property
    def coarse(self) -> set[int]:
        """The steps that noise leaves alone, although they round to float32, and their readers."""
        if not self.program.double:
            return set()
        found = steps_of(eqn for eqn in self.jaxpr.eqns if makes_float32(eqn))
        return self.program.with_readers(
            {number for number in found if not self.program.steps[number].rounds}
        )

    @functools.cached_property
    def jaxpr(self) -> Any:
        with double_precision_kept(self.program.double):
            return traced(self.program).jaxpr

    def cover_result(self, value: int) -> bool:
        """Return whether a result, given as the number of its value, need not be right."""
        return self.is_small and value - len(self.program.leaves) in self.wrong

    def is_coarse(self, value: int) -> bool:
        """Return whether a result has the precision of float32 whatever its type is."""
        return value - len(self.program.leaves) in self.coarse

    def cover_error(self, error: Exception, model: onnx.ModelProto) -> bool:
        """Return whether ONNX Runtime may fail with an error."""
        if not self.is_small:
            return False
        if self.failing and SHARED_MEMORY in str(error):
            return True
        nodes = failing_nodes(error, model)
        if self.failing & self.steps_behind(nodes, model):
            return True
        return any(
            size_at(entry["size"], self.size) < 1
            for entry in positive_sizes(model)
            if nodes & {need["node"] for need in entry["needed_by"]}
        )

    def steps_behind(self, nodes: set[str], model: onnx.ModelProto) -> set[int]:
        """The steps that became a part of nodes."""
        origins = read_model(model)
        sites = [site for node in nodes if node in origins for site in origins[node].sites]
        found = {step_in(site.scope) for site in sites}
        if None in found:
            # Calls from several steps share the nodes of a function.
            steps = enumerate(self.program.steps)
            found |= {number for number, step in steps if step.context == "function"}
        return {step for step in found if step is not None}


def steps_of(equations: Iterable[Any]) -> set[int]:
    """The steps that equations belong to."""
    found = (step_in(str(eqn.source_info.name_stack)) for eqn in equations)
    return {step for step in found if step is not None}


def step_in(scope: str) -> int | None:
    """The number of the step that a path of name scopes starts with."""
    found = re.match(SCOPE.format(r"(\d+)"), scope)
    return None if found is None else int(found[1])


def failing_nodes(error: Exception, model: onnx.ModelProto) -> set[str]:
    """The nodes that a message of ONNX Runtime is about."""
    findings = jax2onnx.explain(model).message(str(error)).findings
    found = {finding.node[0] for finding in findings if finding.node is not None}
    # ONNX Runtime names a convolution in its own layout after the result.
    renamed = set(re.findall(r"Name:'(.+?)_nchwc'", str(error)))
    made = [node for node in model.graph.node if renamed & {*node.output}]
    # It names one that computes an activation too after the result of the activation.
    renamed |= {name for node in made for name in node.input}
    return found | {node.name for node in model.graph.node if renamed & {*node.output}}


def positive_sizes(model: onnx.ModelProto) -> list[dict[str, Any]]:
    """The sizes that must be positive, with the nodes that need them: see `jax2onnx inspect`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        command = [sys.executable, "-m", "jax2onnx", "inspect", str(path), "--format", "json"]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    sizes: list[dict[str, Any]] = json.loads(run.stdout)["positive_sizes"]
    return sizes
