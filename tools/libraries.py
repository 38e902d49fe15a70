"""Export programs of libraries for JAX, and write the page that compares each with `jax.jit`.

    python tools/libraries.py                   try every library, write docs/libraries.md
    python tools/libraries.py diffrax keras     try these libraries, keep the others' rows

Each program has random weights. ONNX Runtime runs it with its graph optimizations off and on. The
exit code is 1 if a program differs from JAX, is refused without a reason in its entry, or does not
use the names of the library's weights.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "libraries.md"
CACHE = ROOT / ".cache" / "libraries.json"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")
# XLA takes minutes to fold the weights of an image model, which are constants of `jax.jit`.
os.environ.setdefault("XLA_FLAGS", "--xla_disable_hlo_passes=constant_folding")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import tables  # noqa: E402
from layering.trial import operators  # noqa: E402
from library_programs.program import Program  # noqa: E402

import jax2onnx  # noqa: E402
from testkit import bench  # noqa: E402

#: The libraries by the name of their module, with the name of their package.
LIBRARIES = {
    "keras": "keras",
    "keras_hub": "keras-hub",
    "flax": "flax",
    "equinox": "equinox",
    "equimo": "equimo",
    "optax": "optax",
    "qwix": "qwix",
    "aqt": "aqtp",
    "diffrax": "diffrax",
    "lineax": "lineax",
    "optimistix": "optimistix",
    "distrax": "distrax",
    "numpyro": "numpyro",
    "blackjax": "blackjax",
    "dynamax": "dynamax",
    "jraph": "jraph",
    "e3nn": "e3nn-jax",
    "evosax": "evosax",
    "brax": "brax",
    "sbx": "sbx-rl",
    "mjx": "mujoco-mjx",
}
#: Libraries that requirements-libraries.txt leaves out: SBX needs PyTorch.
OPTIONAL = ("sbx",)

HEAD = """# Libraries

<!-- `tools/libraries.py` generates this page. -->

**{right} programs that use {libraries} libraries for JAX compute the same numbers in ONNX Runtime
as with `jax.jit`.**{refused}

`make test-libraries` exports the programs with random weights, runs each model in ONNX Runtime
with graph optimizations off and on, and compares the results with `jax.jit`. *Error* is the
largest difference, relative to the largest element of the result. *Export* is the CPU time of one
export, including the time that JAX takes to trace the program.

Some iterative solvers stop after another number of steps if a sum is rounded differently. If a
model differs from `jax.jit` by more than the limit of its program, it is compared with what JAX
computes in `float64`, and must be at least as close to it as `jax.jit` in `float32` is. The table
then shows both distances.

"""
COLUMNS = ("Program", "Nodes", "Error", "Export")


@dataclass(frozen=True)
class Outcome:
    """The row of a program. `problem` is empty if the program is as its entry says."""

    name: str
    nodes: int = 0
    error: float = 0.0
    #: The distance of `jax.jit` from JAX in `float64`. If there is one, `error` is the model's.
    of_jit: float | None = None
    seconds: float = 0.0
    refused: str = ""
    problem: str = ""

    def cells(self) -> tuple[str, ...]:
        if self.refused:
            reason = self.refused.replace("|", "\\|")
            return self.name, "", f"refused: {reason}", ""
        error = self.problem or f"{self.error:.0e}"
        if self.of_jit is not None:
            error += f" from `float64`; `jax.jit`: {self.of_jit:.0e}"
        return self.name, str(self.nodes), error, f"{self.seconds:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", help=f"of {', '.join(LIBRARIES)}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(CACHE.read_text()) if options.libraries and CACHE.exists() else {}
    for library in options.libraries or LIBRARIES:
        if library in OPTIONAL and importlib.util.find_spec(library) is None:
            print(f"{library} is not installed")
            continue
        programs = importlib.import_module(f"library_programs.{library}").PROGRAMS
        outcomes = []
        for program in programs:
            outcome = attempt(program)
            outcomes.append(outcome)
            print(library, " | ".join(outcome.cells()), flush=True)
        kept[library] = [asdict(outcome) for outcome in outcomes]
        CACHE.parent.mkdir(exist_ok=True)
        CACHE.write_text(json.dumps(kept))
    rows = {name: [Outcome(**row) for row in kept[name]] for name in LIBRARIES if name in kept}
    cells = {titled(name): [row.cells() for row in rows[name]] for name in rows}
    PAGE.write_text(page(cells))
    outcomes = [row for name in rows for row in rows[name]]
    refused = sum(bool(row.refused) for row in outcomes)
    wrong = sum(bool(row.problem) for row in outcomes)
    print(f"{len(outcomes)} programs, {refused} refused for a known reason, {wrong} wrong")
    return 1 if wrong else 0


def attempt(program: Program) -> Outcome:
    """Exports a program, runs it, and compares it with JAX."""
    try:
        fn, inputs = program.build()
        given = [jax.tree.map(jnp.asarray, one) for one in (inputs, *program.others)]
        wanted = [in_jax(fn, one) for one in given]
    except Exception as error:
        return Outcome(program.name, problem=f"JAX fails: {first_line(error)}")
    start = time.process_time()
    try:
        model = jax2onnx.to_onnx(fn, list(program.specs or given[0]), **program.options)
    except Exception as error:
        if program.refused and program.refused in str(error):
            return Outcome(program.name, refused=program.refused)
        return Outcome(program.name, problem=f"the export fails: {first_line(error)}")
    seconds = time.process_time() - start
    nodes = sum(operators(model).values())
    errors, problems, of_jit = [0.0], [], None
    for one, want in zip(given, wanted, strict=True):
        found = compare(model, fn, one, want, program.tolerance)
        errors.append(found.error)
        problems += found.problems
        of_jit = found.of_jit if of_jit is None else of_jit
    if program.refused:
        problems.append("is no longer refused")
    # A weight that a pass changed is called `kernel/Transpose`.
    names = [f"{one.name}/" for one in model.graph.initializer]
    missing = [w for w in program.weights if not any(name.startswith(f"{w}/") for name in names)]
    if missing:
        problems.append(f"no weights {', '.join(missing)}")
    return Outcome(program.name, nodes, max(errors), of_jit, seconds, problem="; ".join(problems))


@dataclass(frozen=True)
class Comparison:
    """How far a model is from JAX for one set of inputs, as `Outcome` has it."""

    error: float
    problems: list[str]
    of_jit: float | None = None


def compare(model: Any, fn: Any, inputs: Any, want: list[np.ndarray], limit: float) -> Comparison:
    """Runs a model without and with the optimizations of ONNX Runtime, and compares it with JAX."""
    errors, problems, found = [0.0], [], []
    for optimize in (False, True):
        try:
            found.append(bench.run(model, inputs, optimize=optimize))
        except Exception as error:
            problems.append(f"ONNX Runtime fails: {first_line(error)}")
            continue
        errors.append(difference(found[-1], want))
        if not errors[-1] <= limit:
            words = "with" if optimize else "without"
            problems.append(f"differs by {errors[-1]:.1e} {words} optimizations")
    if problems and len(found) == 2:
        double = in_double(fn, inputs, want)
        distances, distance = [difference(one, double) for one in found], difference(want, double)
        if max(distances) <= distance:
            return Comparison(max(distances), [], distance)
    return Comparison(max(errors), problems)


def in_jax(fn: Any, inputs: Any) -> list[np.ndarray]:
    results = jax.tree.leaves(jax.jit(lambda *args: fn(*args))(*inputs))
    return [bench.in_parts(result) for result in results]


def in_double(fn: Any, inputs: Any, want: list[np.ndarray]) -> list[np.ndarray]:
    """Returns what JAX computes with 64-bit types, in the types of `want`."""
    with bench.precision(True):
        inputs = jax.tree.map(widened, inputs)
        results = jax.tree.leaves(jax.jit(lambda *args: fn(*args))(*inputs))
    pairs = zip(results, want, strict=True)
    return [bench.in_parts(result).astype(other.dtype) for result, other in pairs]


def widened(array: jax.Array) -> jax.Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0][:300]


def difference(found: list[np.ndarray], want: list[np.ndarray]) -> float:
    """Returns the largest difference, relative to the largest element of its result."""
    return max((relative(*pair) for pair in zip(found, want, strict=True)), default=0.0)


def relative(found: np.ndarray, want: np.ndarray) -> float:
    if found.shape != want.shape or found.dtype != want.dtype:
        return float("inf")
    if found.dtype.kind in "biu":
        return 0.0 if np.array_equal(found, want) else float("inf")
    found, want = found.astype(np.float64), want.astype(np.float64)
    is_finite = np.isfinite(want)
    if not np.array_equal(found[~is_finite], want[~is_finite], equal_nan=True):
        return float("inf")
    found, want = found[is_finite], want[is_finite]
    largest = max(np.max(np.abs(want), initial=0.0), 1e-30)
    return float(np.max(np.abs(found - want), initial=0.0) / largest)


def titled(library: str) -> str:
    """Returns the name and the version of a library."""
    package = LIBRARIES[library]
    return f"{package} {importlib.metadata.version(package)}"


def page(libraries: dict[str, list[tuple[str, ...]]]) -> str:
    """Returns the page for the rows of each library."""
    rows = [row for rows in libraries.values() for row in rows]
    refused = sum(row[2].startswith("refused: ") for row in rows)
    others = f" jax2onnx refuses {refused}, and the table says why." if refused else ""
    head = HEAD.format(right=len(rows) - refused, libraries=len(libraries), refused=others)
    parts = [
        tables.folded(
            f"{library}: {tables.plain(len(rows), 'program')}",
            tables.table(COLUMNS, rows, right="Nodes,Export"),
        )
        for library, rows in libraries.items()
    ]
    return head + tables.filterable("programs", "\n".join(parts))


if __name__ == "__main__":
    sys.exit(main())
