"""Run programs of typical JAX code in the runtimes that people ship with.

    python tools/matrix.py                         every runtime
    python tools/matrix.py --runtime tract rten    these runtimes
    python tools/matrix.py --program lstm gru      these programs
    python tools/matrix.py --default               models for the default target in every runtime

Each runtime is installed below .venvs/runtimes. Each program is exported with the runtime as its
`target`. Each result is compared with that of `jax.jit`. The command prints what is wrong or
refused, with the words of jax2onnx or of the runtime.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

import jax
import numpy as np
from runtimes.installed import Runtime, runtimes
from runtimes.process import Process, RefusalError
from runtimes.programs import PROGRAMS, Program

import jax2onnx

#: Elements may differ by this share of the largest one: runtimes sum in other orders than XLA.
TOLERANCE: Final = {"float16": 5e-3, "float32": 2e-5, "float64": 1e-9}


#: The targets of runtimes that have another name there.
TARGETS: Final = {"onnxruntime-node": "onnxruntime-web", "reference": None}


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--runtime", nargs="+", help="the names of runtimes")
    parser.add_argument("--program", nargs="+", help="the names of programs")
    parser.add_argument("--default", action="store_true", help="export for the default target")
    parser.add_argument("--json", type=Path, help="write the results to a file")
    options = parser.parse_args()
    programs = [p for p in PROGRAMS if not options.program or p.name in options.program]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        references = {p.name: _reference(p) for p in programs}
        results: dict[str, dict[str, str]] = {}
        for runtime in runtimes():
            key = f"{runtime.name} {runtime.version}".strip()
            if options.runtime and not {runtime.name, key} & {*options.runtime}:
                continue
            runtime.install()
            target = None if options.default else TARGETS.get(runtime.name, runtime.name)
            results[key] = _run(runtime, target, programs, references, folder / key)
            _report(key, results[key])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


def _report(runtime: str, results: dict[str, str]) -> None:
    kinds = ("right", "wrong", "declined", "refused")
    counts = {kind: sum(each.startswith(kind) for each in results.values()) for kind in kinds}
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"{runtime}: {said}", flush=True)
    for program, result in results.items():
        if result != "right":
            print(f"    {program}: {result[:300]}", flush=True)


def _reference(program: Program) -> list[np.ndarray]:
    results = jax.jit(program.function)(*program.arguments)
    return [np.asarray(each) for each in jax.tree.leaves(results)]


def _export(program: Program, target: str | None, folder: Path) -> Path:
    folder.mkdir(parents=True)
    model = folder / "exported.onnx"
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments]
    jax2onnx.to_onnx(program.function, specs, target=target, return_mode="file", output_path=model)
    return model


def _run(
    runtime: Runtime,
    target: str | None,
    programs: list[Program],
    references: dict[str, list[np.ndarray]],
    folder: Path,
) -> dict[str, str]:
    results = {}
    with Process(runtime) as process:
        for program in programs:
            own = folder / program.name
            try:
                found = process.run(_export(program, target, own), program.arguments, own)
            except jax2onnx.UnsupportedError as error:
                results[program.name] = f"declined: {error}"
            except RefusalError as error:
                results[program.name] = f"refused: {error}"
            else:
                kinds = {each.dtype.name for each in program.arguments}
                results[program.name] = compare(found, references[program.name], kinds)
    return results


def compare(found: list[np.ndarray], expected: list[np.ndarray], kinds: set[str]) -> str:
    """Returns `right`, or how the results differ. `kinds` are the types of the arguments."""
    if len(found) != len(expected):
        return f"wrong: {len(found)} results instead of {len(expected)}"
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            return f"wrong: result {i} has shape {one.shape} instead of {other.shape}"
        # Some runtimes know fewer types than ONNX, and return flags and whole numbers as int32.
        one, other = one.astype(np.float64), other.astype(np.float64)
        largest = float(np.max(np.abs(other[np.isfinite(other)]), initial=1))
        # A float32 that was computed from halves has their precision.
        own = expected[i].dtype.name
        precisions = [TOLERANCE[kind] for kind in {own, *kinds} if kind in TOLERANCE]
        tolerance = max(precisions) * largest if own in TOLERANCE else 0
        if not np.allclose(one, other, 0, tolerance, equal_nan=True):
            return f"wrong: result {i} is {one.ravel()[:4]} instead of {other.ravel()[:4]}"
    return "right"


if __name__ == "__main__":
    sys.exit(main())
