"""Programs to export and checks of their models, which tests, tools and benchmarks share.

`make develop` puts the folder `python` on the path of `.venv`, so that everything imports this
package by its name. The wheel does not contain it.
"""

from __future__ import annotations

from pathlib import Path

#: The folder of the repository.
ROOT = Path(__file__).resolve().parents[2]
