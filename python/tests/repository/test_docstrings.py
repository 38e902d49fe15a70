"""The examples in docstrings, which the site shows in the API reference, run."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

import pytest

import jax2onnx
from jax2onnx._plugins import registry

PACKAGE = Path(jax2onnx.__file__).parent

Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def examples() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each docstring with examples."""
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, Documented) else None
            if text and ">>>" in text:
                yield f"{path.stem}.{getattr(node, 'name', '')}", text


@pytest.mark.parametrize(
    ("place", "text"), [pytest.param(*each, id=each[0]) for each in examples()]
)
def test_an_example_in_a_docstring_runs(
    place: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "REGISTERED", dict(registry.REGISTERED))
    test = doctest.DocTestParser().get_doctest(text, {}, place, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    assert not report, "\n".join(report)


def test_every_public_function_has_an_example() -> None:
    documented = {place.rpartition(".")[2] for place, _ in examples()}
    functions = {name for name in jax2onnx.__all__ if name[0].islower()}
    assert functions - documented == set()
