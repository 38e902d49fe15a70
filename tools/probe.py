"""Find out what the installed runtimes run, by running tiny models in them.

    python tools/probe.py tract rten      probe these runtimes, and write their tables
    python tools/probe.py --all           probe every runtime
    python tools/probe.py rten --only Add abilities
                                          probe these parts again
    python tools/probe.py --write         write the tables from the stored results

The results are stored in tools/probing/results. The tables are crates/onnx/src/kernels/probed.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from probing import operators, report, table
from probing.running import Runner
from runtimes.installed import runtimes
from runtimes.process import Process

NAMES = ("openvino", "tract", "rten", "iree", "mnn", "onnxruntime-web", "onnxruntime-cuda")

#: The most bytes of a file that a runtime writes.
MAX_FILE = 1 << 30


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("runtime", nargs="*", help=f"the names of runtimes: {', '.join(NAMES)}")
    parser.add_argument("--all", action="store_true", help="probe every runtime")
    parser.add_argument("--write", action="store_true", help="only write the tables")
    parser.add_argument("--only", nargs="+", default=[], help="probe these parts again")
    parser.add_argument("--op", nargs="+", help="only show the verdicts for these operators")
    options = parser.parse_args()
    chosen = NAMES if options.all else options.runtime
    if unknown := {*chosen} - {*NAMES}:
        parser.error(f"no runtime is called {', '.join(sorted(unknown))}")
    for runtime in runtimes():
        if runtime.name not in chosen:
            continue
        if runtime.place is not None and not runtime.place.exists():
            runtime.install()
        started = time.monotonic()
        seconds = 120 if runtime.name in operators.SLOW else 30
        # A runtime that reads a size wrongly may write a file until the disk is full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
        with tempfile.TemporaryDirectory() as name, Process(runtime, seconds) as process:
            # The process starts with the first model.
            os.environ["TMPDIR"] = name
            runner = Runner(process, Path(name))
            if options.op:
                report.show(runner, options.op)
                continue
            stored = report.read(runtime.name) if options.only else {}
            found = report.probe(runner, runtime, options.only, stored)
        report.store(runtime.name, found)
        print(f"{runtime.name}: {runner.count} runs, {time.monotonic() - started:.0f} seconds")
    if not options.op:
        table.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
