"""Compare exports of random programs with JAX: `python tools/fuzz_numbers.py --seconds 600`.

Each program runs with passes off and on, and with ONNX Runtime's optimizations off and on. A worker
process runs the programs, so that a program that ends the process is found like any other. The exit
code is 1 if a program failed.
"""

from __future__ import annotations

import argparse
import base64
import collections
import contextlib
import json
import os
import pickle
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Final

os.environ.setdefault("JAX_PLATFORMS", "cpu")

#: A worker is replaced after this many programs, because compiled programs stay in memory.
MAX_PROGRAMS: Final = 400
#: A program that takes longer is a failure, unless other processes leave it less than a third of
#: the time.
MAX_SECONDS: Final = 180.0
SHRINK_SECONDS: Final = 60.0
#: What a worker notes in its errors when it starts a program, and when JAX has computed it.
STARTED: Final = "program"
ANSWERED: Final = "JAX answered"


class WorkerError(Exception):
    """The worker ended, or did not answer, and what it said last."""


class Worker:
    """A process that checks programs, one after the other."""

    def __init__(self) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, __file__, "--worker"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            bufsize=1,
        )
        self.programs = 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.programs += 1
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            ready = self.wait(self.process.stdout)
            line = self.process.stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        alive = self.process.poll() is None and not ready
        self.close()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines() or [""]
        if alive:
            said = f"no answer in {MAX_SECONDS:.0f} s"
            notes = [line for line in lines if line in (STARTED, ANSWERED)]
            if notes[-1:] == [STARTED]:
                return {"refused by JAX": said}
            raise WorkerError(said)
        last = lines[-1]
        raise WorkerError(f"the process ended with {self.process.returncode}: {last}")

    def wait(self, answers: IO[str]) -> bool:
        """Return whether the process answers or ends in time: see `MAX_SECONDS`."""
        start, began = self.seconds(), time.monotonic()
        while not select.select([answers], [], [], 5)[0]:
            late = time.monotonic() - began > MAX_SECONDS
            if late and self.seconds() - start > MAX_SECONDS / 3:
                return False
            if time.monotonic() - began > 10 * MAX_SECONDS:
                return False
        return True

    def seconds(self) -> float:
        """Return how long the process has computed, if the system says so."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def work() -> None:
    """Check the programs that are asked for, and answer each with a line."""
    import jax

    import jax2onnx
    from testkit.programs import JaxError, difference, draw_program, fails_like, shrink

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        if "seed" in request:
            program = draw_program(request["seed"], theme_name=request.get("theme"))
        else:
            program = pickle.loads(base64.b64decode(request["program"]))

        answer: dict[str, Any] = {}
        try:
            print(STARTED, file=sys.stderr, flush=True)
            wrong = difference(program, lambda: print(ANSWERED, file=sys.stderr, flush=True))
            if wrong is not None:
                small = program
                if request.get("shrink"):
                    small = shrink(program, fails_like(wrong), SHRINK_SECONDS)
                answer = {"wrong": str(difference(small) or wrong), "program": str(small)}
        except jax2onnx.UnsupportedError as error:
            answer = {"refused": str(error).splitlines()[0]}
        except JaxError as error:
            answer = {"refused by JAX": str(error).splitlines()[0]}
        except Exception as error:
            answer = {
                "wrong": f"the check itself: {type(error).__name__}: {error}",
                "program": str(program),
            }
        print(json.dumps(answer), file=answers)
        jax.clear_caches()


def shrunk_after_death(seed: int, theme: str | None) -> str:
    """The text of a small program that ends the process, as that of the seed does."""
    from testkit.programs import draw_program, shrink

    worker = Worker()

    def fails(candidate: Any) -> bool:
        nonlocal worker
        if worker.process.poll() is not None:
            worker = Worker()
        try:
            worker.ask({"program": base64.b64encode(pickle.dumps(candidate)).decode()})
        except WorkerError:
            return True
        return False

    small = shrink(draw_program(seed, theme_name=theme), fails, SHRINK_SECONDS)
    worker.close()
    return str(small)


def fuzz(seconds: float, first: int, folder: Path | None, theme: str | None, minimize: bool) -> int:
    """Check programs of one seed after the other; the number of those that failed.

    Ctrl-C ends the run before its time.
    """
    end = time.monotonic() + seconds
    reasons: dict[str, collections.Counter[str]] = {
        kind: collections.Counter() for kind in ("refused", "refused by JAX")
    }
    failures, seed = 0, first
    worker = Worker()
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < end:
            if worker.programs >= MAX_PROGRAMS or worker.process.poll() is not None:
                worker.close()
                worker = Worker()
            try:
                answer = worker.ask({"seed": seed, "theme": theme, "shrink": minimize})
            except WorkerError as error:
                text = shrunk_after_death(seed, theme) if minimize else ""
                answer = {"wrong": str(error), "program": text}
                worker = Worker()
            for kind, counter in reasons.items():
                if kind in answer:
                    counter[answer[kind]] += 1
            if "wrong" in answer:
                failures += 1
                text = f"# seed {seed}: {answer['wrong']}\n".replace("\n", "\n# ").rstrip("# ")
                print(f"{text}\n{answer['program']}\n" if minimize else text.rstrip(), flush=True)
                if folder is not None:
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / f"seed-{seed}.py").write_text(f"{text}\n{answer['program']}")
            seed += 1
    worker.close()
    tried = seed - first
    counts = [f"{failures} failed", *(f"{each.total()} {kind}" for kind, each in reasons.items())]
    print(f"{tried} programs, seeds {first} to {seed - 1}: {', '.join(counts)}")
    for reason, count in sum(reasons.values(), collections.Counter()).most_common():
        print(f"  {count:4}  {reason}")
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="where to start [default: the time]")
    parser.add_argument("--folder", type=Path, help="where to write each failing program")
    parser.add_argument("--theme", help="a theme of python/testkit/programs/table.py alone")
    parser.add_argument("--seeds-only", action="store_true", help="do not minimize what fails")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
    else:
        start = int(time.time()) * 1000 if arguments.seed is None else arguments.seed
        options = arguments.folder, arguments.theme, not arguments.seeds_only
        sys.exit(fuzz(arguments.seconds, start, *options) > 0)
