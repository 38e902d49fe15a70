"""How fast exported models run, and how large they are, side by side in one run.

    python benches/runtime.py [--networks resnet50 gpt2-small] [--rounds 15]

Every network is exported by us and by the Python package `jax2onnx`, each in an environment of its
own, and run in ONNX Runtime with two threads, by turns with `jax.jit` on the same machine. Weights
and inputs are random. Figures are medians over the rounds. The exit code is 1 where a limit is not
kept.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = [
    "jax2onnx==0.17.1",
    "jax==0.10.2",
    "jaxlib==0.10.2",
    "flax==0.12.8",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
]
THREADS = 2
PATIENCE = 900
"""Seconds that one export may take."""
TURN = 0.005
"""Seconds that a turn takes at least, so that short programs are measured well."""
PAUSE = 0.06
"""Seconds before a turn. For 45 ms after a run, the threads of a session of ONNX Runtime wait in a
busy loop. Without a pause, they take a processor from the task that is measured next."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--networks", nargs="*", help="which ones; all where none is named")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    parser.add_argument("--export", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        return export(*options.export)
    # JAX takes all the processors there are; so everyone has the same two.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    from networks import NETWORKS

    python = reference_python()
    rows = []
    titles = ("nodes", "theirs", "ours ms", "theirs", "jit", "ours/theirs", "ours/jit")
    print("{:12} {:>6} {:>7} {:>9} {:>9} {:>9}  {}  {}".format("", *titles))
    for name in options.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(name, Path(folder), python, options.rounds)
        rows.append(row)
        print(row, flush=True)
    return verdict(rows)


def export(name: str, path: str) -> int:
    """Export one network, with the `jax2onnx` of this environment."""
    from networks import NETWORKS

    from jax2onnx import to_onnx

    network = NETWORKS[name]
    to_onnx(network.build(), network.inputs(), return_mode="file", output_path=path)
    return 0


def reference_python() -> str:
    """The environment with the package that we compare with, made where it is missing."""
    named = os.environ.get("JAX2ONNX_REFERENCE_PYTHON")
    if named:
        return named
    folder = ROOT / ".venvs" / "reference"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *REFERENCE], check=True)
    return str(python)


def reference_environment() -> dict[str, str]:
    """The variables of that environment, which finds `testkit` but not our `jax2onnx`."""
    folder = ROOT / ".venvs" / "shared"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "testkit"
    link.unlink(missing_ok=True)
    link.symlink_to(ROOT / "python" / "testkit")
    return {**os.environ, "PYTHONPATH": str(folder)}


class Row:
    """What was measured of one network."""

    def __init__(self, name: str, feed_forward: bool) -> None:
        self.name = name
        self.feed_forward = feed_forward
        self.nodes: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.reason = ""

    def ratio(self, other: str) -> float | None:
        if other not in self.seconds:
            return None
        return self.seconds["ours"] / self.seconds[other]

    def __str__(self) -> str:
        def shown(value: float | None, text: str) -> str:
            return "-" if value is None else text.format(value)

        nodes = [shown(self.nodes.get(who), "{:d}") for who in ("ours", "theirs")]
        times = [
            shown(1e3 * self.seconds[who] if who in self.seconds else None, "{:.2f}")
            for who in ("ours", "theirs", "jit")
        ]
        ratios = [shown(self.ratio(other), "{:.2f}") for other in ("theirs", "jit")]
        text = (
            f"{self.name:12} {nodes[0]:>6} {nodes[1]:>7} {times[0]:>9} {times[1]:>9} {times[2]:>9}"
        )
        return f"{text}  {ratios[0]:>11}  {ratios[1]:>8}  {self.reason}"


def measure(name: str, folder: Path, python: str, rounds: int) -> Row:
    import jax
    import numpy as np
    import onnx
    import onnxruntime
    from networks import NETWORKS

    network = NETWORKS[name]
    row = Row(name, network.feed_forward)
    inputs = network.inputs()
    fn = jax.jit(network.build())
    device = [jax.device_put(one) for one in inputs]
    want = np.asarray(jax.tree.leaves(fn(*device))[0])
    tasks: dict[str, Callable[[], Any]] = {}
    for who, interpreter in (("ours", sys.executable), ("theirs", python)):
        path = folder / f"{who}.onnx"
        command = [interpreter, __file__, "--export", name, str(path)]
        env = reference_environment() if who == "theirs" else None
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, cwd=folder, env=env
        )
        if done.returncode:
            row.reason += f"{who}: {done.stderr.strip().splitlines()[-1][:80]} "
            continue
        row.nodes[who] = count(onnx.load(str(path), load_external_data=False))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        # The runtime warns about models of the package.
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(str(path), options)
            names = [one.name for one in session.get_inputs()]
            feeds = dict(zip(names, inputs, strict=True))
            found = session.run(None, feeds)[0]
        except Exception as error:
            row.reason += f"{who}: {str(error).splitlines()[0][:80]} "
            continue
        error = float(np.max(np.abs(found - want)) / (np.max(np.abs(want)) or 1.0))
        if error > 1e-3:
            row.reason += f"{who} differs from JAX by {error:.1e} "
        tasks[who] = lambda session=session, feeds=feeds: session.run(None, feeds)
    tasks["jit"] = lambda: jax.block_until_ready(fn(*device))
    row.seconds = {who: statistics.median(times) for who, times in by_turns(tasks, rounds).items()}
    return row


def count(model: Any) -> int:
    """The nodes of a model, of bodies and functions too."""

    def of(nodes: Any) -> int:
        bodies = [a.g for node in nodes for a in node.attribute if a.HasField("g")]
        return len(nodes) + sum(of(body.node) for body in bodies)

    return of(model.graph.node) + sum(of(function.node) for function in model.functions)


def by_turns(tasks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each task in each round. Short tasks run several times per round.

    Each turn begins with a run that is not measured, because the threads of the task have slept.
    """
    times: dict[str, list[float]] = {who: [] for who in tasks}
    repeats = {}
    for who, task in tasks.items():
        task()
        start = time.perf_counter()
        task()
        repeats[who] = max(1, int(TURN / (time.perf_counter() - start)))
    for _ in range(rounds):
        for who, task in tasks.items():
            time.sleep(PAUSE)
            task()
            start = time.perf_counter()
            for _ in range(repeats[who]):
                task()
            times[who].append((time.perf_counter() - start) / repeats[who])
    return times


def verdict(rows: list[Row]) -> int:
    """Say which limits are not kept."""
    complaints = []
    compared = [ratio for row in rows if (ratio := row.ratio("theirs")) is not None]
    for row in rows:
        theirs, jit = row.ratio("theirs"), row.ratio("jit")
        if theirs is not None and theirs > 1.02:
            complaints.append(
                f"{row.name}: {theirs:.2f} of the existing package's time, limit 1.02"
            )
        if jit is not None and row.feed_forward and jit > 1.1:
            complaints.append(f"{row.name}: {jit:.2f} of jit's time, limit 1.1")
        # A loop that is unrolled has more nodes and is faster.
        if row.feed_forward and row.nodes.get("ours", 0) > row.nodes.get("theirs", sys.maxsize):
            complaints.append(f"{row.name}: more nodes than the existing package's")
    if compared:
        mean = statistics.geometric_mean(compared)
        print(f"geometric mean of ours/theirs: {mean:.2f}, limit 0.7")
        if mean > 0.7:
            complaints.append(f"geometric mean {mean:.2f}, limit 0.7")
    for complaint in complaints:
        print(f"over the limit: {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
