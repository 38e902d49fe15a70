"""What tests, tools and benchmarks share: programs to export, and ways to check what comes out.

`make develop` puts the folder `python` on the path of `.venv`, so that everything imports this
package by its name. The wheel does not contain it.
"""

from __future__ import annotations

from pathlib import Path

#: The folder of the repository.
ROOT = Path(__file__).resolve().parents[2]
