"""The tables of generated pages: rows that say the same share one, and the head says the result."""

from __future__ import annotations

import re

from layering import page as layers
from sweeping import page as coverage
from sweeping.page import Module, Verdicts

HALVES = f"`float16`, `bfloat16`: {layers.HALVES}"


def row(name: str, nodes: str, why: str = "") -> layers.Cells:
    return (f"`{name}`", nodes, "3", "3", nodes, "`LayerNormalization`", why)


def test_arguments_of_a_layer_with_the_same_nodes_share_a_row() -> None:
    rows = [
        row("nn.LayerNorm()", "1", HALVES),
        row("nn.LayerNorm(use_bias=False)", "1"),
        row("nn.LayerNorm(axis=1)", "3"),
        row("nn.RMSNorm()", "1"),
    ]
    short = layers.grouped(rows)
    assert [(cells[0], cells[1], cells[-1]) for cells in short] == [
        ("`nn.LayerNorm()` and 1 more", "1", ""),
        ("`nn.LayerNorm(axis=1)`", "3", ""),
        ("`nn.RMSNorm()`", "1", ""),
    ]
    # A page that is read and written again does not change.
    assert layers.grouped(short) == short


def test_the_page_of_layers_keeps_the_rows_of_a_library_that_is_not_installed() -> None:
    kept = [row("layers.LayerNormalization()", "1"), row("layers.LayerNormalization(axis=1)", "1")]
    text = layers.page({kind: kept if kind == "normalization" else [] for kind in layers.TITLES})
    assert "Of 2 layers" in text
    assert "2 become one ONNX operator" in " ".join(text.split())
    (found,) = layers.rows_of(text, ("layers.",))["normalization"]
    assert found[0] == "`layers.LayerNormalization()` and 1 more"
    again = layers.text([], {"normalization": [found]})
    assert again == text


def test_the_page_of_functions_counts_those_that_refuse_something() -> None:
    refusal = "`(c64[3])`: `acos of c64` has no ONNX counterpart"
    modules = [
        Module(
            "jax.numpy",
            {
                "abs": Verdicts(6, 6, ""),
                "acos": Verdicts(8, 9, refusal),
                "arccos": Verdicts(8, 9, refusal),
            },
            {"reads files": ["load", "save"]},
        )
    ]
    text = coverage.page(modules)
    head = " ".join(text.split())
    assert "converts 1 of the 3 public functions" in head
    assert "22 of 24 sets of arguments convert" in head
    assert "| `jax.numpy` | 3 | 1 | 2 | 2 |" in text
    assert f"| `jax.numpy.acos`, `jax.numpy.arccos` | 8 of 9 | {refusal} |" in text
    folded = r"<summary>jax.numpy: 1 function, all right</summary>\n\n`abs`\n\{ .names \}"
    assert re.search(folded, text)
    assert "| `jax.numpy.load`, `jax.numpy.save` | reads files |" in text
