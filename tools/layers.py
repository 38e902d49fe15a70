"""Export every layer of the libraries for JAX, and write the page that says what each becomes.

    python tools/layers.py                   try everything, write docs/layers.md
    python tools/layers.py nnx GroupNorm     print only layers that have all of the words
    python tools/layers.py nnx --resume      try only those, keep the others of the last run

Each layer is exported in several types and with a symbolic batch, run in ONNX Runtime, and compared
with JAX. Keras is tried if it is installed; otherwise its rows stay as they are. The exit code is 1
if a layer fails or differs from JAX, or if it is not the operator that ONNX has for it and neither
a pass nor its row says why.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "layers.md"
CACHE = ROOT / ".cache" / "layers.json"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")

from layering import equinox, haiku, linen, nnx, page  # noqa: E402
from layering.trial import VARIANTS, Outcome, attempt  # noqa: E402

LIBRARIES = {
    "linen": linen.LAYERS,
    "nnx": nnx.LAYERS,
    "equinox": equinox.LAYERS,
    "haiku": haiku.LAYERS,
}
HAS_KERAS = importlib.util.find_spec("keras") is not None
if HAS_KERAS:
    from layering import keras

    LIBRARIES["keras"] = keras.LAYERS
KERAS = ("layers.", "keras.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of the names of layers")
    parser.add_argument("--resume", action="store_true", help="keep the outcomes of the last run")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(CACHE.read_text()) if options.resume and CACHE.exists() else {}
    rows, problems = [], 0
    for library, layers in LIBRARIES.items():
        for layer in layers:
            title = f"{library} {layer.kind} {layer.code}"
            key = f"{title} {[spec.shape for spec in layer.inputs]} {layer.named}"
            is_chosen = all(word in title for word in options.words)
            if not is_chosen and not options.resume:
                continue
            is_kept = key in kept and not (options.words and is_chosen)
            outcomes = {name: Outcome(**one) for name, one in kept.get(key, {}).items() if is_kept}
            try:
                outcomes = outcomes or {name: attempt(layer, name) for name in VARIANTS}
            except Exception as error:
                print(f"{title} fails: {str(error)[:300]}", flush=True)
                problems += 1
                continue
            kept[key] = {name: asdict(one) for name, one in outcomes.items()}
            row = page.Row(layer, outcomes)
            rows.append(row)
            wrong = [f"{name} {one.problem}" for name, one in outcomes.items() if one.problem]
            unknown = [name for name, why in row.reasons().items() if why is None]
            problems += len(wrong) + len(unknown)
            for problem in [*wrong, *(f"{name} is not explained" for name in unknown)]:
                print(f"{title}: {problem}", flush=True)
            if options.words and is_chosen:
                print(" | ".join(row.cells()), flush=True)
            if options.resume or not options.words:
                CACHE.parent.mkdir(exist_ok=True)
                CACHE.write_text(json.dumps(kept))
    if options.resume or not options.words:
        others = {} if HAS_KERAS or not PAGE.exists() else page.rows_of(PAGE.read_text(), KERAS)
        PAGE.write_text(page.text(rows, others))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
