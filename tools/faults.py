"""Tries faults while models are written, prints a table, and writes it to `docs/reliability.md`.

    python tools/faults.py [--rounds 40]

Kills the process before, after and in the middle of every system call that changes a file, lets
each of them fail, fills the disk, writes one path from four processes, and sends signals at random
times.
`python/testkit/faults/harness.py` says what must hold afterward. The exit code is 1 if it does not.
"""

from __future__ import annotations

import argparse
import sys

from testkit import ROOT
from testkit.faults.harness import SCENARIOS, ready

PAGE = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- tools/faults.py generates this table. -->\n\n"
END = "\n\n<!-- The table ends here. -->"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40, help="how many random times to try")
    options = parser.parse_args()
    with ready() as harness:
        for scenario in SCENARIOS:
            harness.try_calls(scenario)
            harness.try_full_disk(scenario, range(0, 24_000, 1_500))
            harness.try_read_only(scenario)
        harness.try_together(4, options.rounds)
        harness.try_signals(options.rounds)
    table = harness.table()
    print(table)
    for failure in harness.failures():
        print(failure, file=sys.stderr)
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1])
    return 1 if harness.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
