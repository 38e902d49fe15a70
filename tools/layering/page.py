"""The page that says what each layer becomes."""

from __future__ import annotations

from dataclasses import dataclass

from .layer import Layer
from .trial import VARIANTS, Outcome, reason

HEAD = """\
# Layers

This page lists the ONNX operators of each normalization, attention, pooling, activation, embedding,
recurrent and resize layer of Flax Linen, Flax NNX, Equinox, Haiku and Keras. Each layer is exported
alone.

The columns `float32`, `float16` and `bfloat16` contain the number of nodes for a batch of two, and
the column `B` the number for a symbolic batch. Nodes inside loops and branches are included. A star
marks models that ONNX Runtime cannot run with an empty batch.

`tools/layers.py` generates this page and compares every model with JAX, if JAX supports the type on
a CPU. Models with a symbolic batch run with the sizes 0, 1 and 3.

If ONNX Runtime has no kernel for a type, jax2onnx casts the values, which takes two nodes. In a
network, transposes between layers with the channels last cancel each other.
[Lean graphs](lean-graphs.md) explains when jax2onnx fuses a formula into an operator.
"""

TITLES = {
    "normalization": "Normalization",
    "attention": "Attention",
    "pooling": "Pooling",
    "activation": "Activations",
    "embedding": "Embeddings",
    "recurrent": "Recurrent layers",
    "resize": "Resizing",
}

COLUMNS = (
    "Layer",
    "Input",
    *(f"`{name}`" for name in VARIANTS),
    "Operators",
    "Why not one operator",
)

#: More operators than these are not listed.
MAX_LISTED = 7


@dataclass(frozen=True)
class Row:
    """A layer with what became of it in each variant."""

    layer: Layer
    outcomes: dict[str, Outcome]

    def reasons(self) -> dict[str, str | None]:
        """Returns the reasons of the variants in which the layer is not its operator."""
        found = {name: reason(self.layer, name, one) for name, one in self.outcomes.items()}
        return {name: why for name, why in found.items() if why != ""}

    def text(self) -> str:
        code = self.layer.code.replace("|", "\\|")
        inputs = ", ".join("x".join(str(size) for size in spec.shape) for spec in self.layer.inputs)
        nodes = [
            f"{outcome.nodes}{'' if outcome.runs_empty else '*'}"
            for outcome in map(self.outcomes.__getitem__, VARIANTS)
        ]
        return f"| `{code}` | {inputs} | {' | '.join(nodes)} | {self.operators()} | {self.why()} |"

    def operators(self) -> str:
        operators = self.outcomes["float32"].operators
        if len(operators) > MAX_LISTED:
            wanted = self.layer.operator
            return f"`{wanted}` and others" if wanted in operators else "elementary operators"
        times = {name: f" x{count}" if count > 1 else "" for name, count in operators.items()}
        return ", ".join(f"`{name}`{times[name]}" for name in operators) or "none"

    def why(self) -> str:
        by_reason: dict[str, list[str]] = {}
        for variant, why in self.reasons().items():
            by_reason.setdefault(why or "unknown", []).append(variant)
        if len(by_reason) == 1 and len(next(iter(by_reason.values()))) == len(VARIANTS):
            return next(iter(by_reason))
        parts = [
            f"{', '.join(f'`{name}`' for name in names)}: {why}" for why, names in by_reason.items()
        ]
        return "; ".join(parts)


def text(rows: list[Row], kept: dict[str, list[str]]) -> str:
    """Returns the page; `kept` are rows of libraries that were not tried, by kind."""
    page = HEAD
    for kind, title in TITLES.items():
        page += f"\n## {title}\n\n| {' | '.join(COLUMNS)} |\n"
        page += "| --- | --- | " + "---: | " * len(VARIANTS) + "--- | --- |\n"
        lines = [row.text() for row in rows if row.layer.kind == kind]
        page += "\n".join([*lines, *kept.get(kind, [])]) + "\n"
    return page


def rows_of(page: str, marks: tuple[str, ...]) -> dict[str, list[str]]:
    """Returns the rows of a page whose layer begins with one of the marks, by kind."""
    kinds = {title: kind for kind, title in TITLES.items()}
    kept: dict[str, list[str]] = {}
    kind = ""
    for line in page.splitlines():
        if line.startswith("## "):
            kind = kinds.get(line[3:], "")
        elif line.startswith(tuple(f"| `{mark}" for mark in marks)):
            kept.setdefault(kind, []).append(line)
    return kept
