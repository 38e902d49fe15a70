"""The tables of what runtimes run are what `tools/probe.py` writes from the stored results."""

from __future__ import annotations

from pathlib import Path

import pytest
from probing import forms, table, values
from probing.judging import same


@pytest.fixture(scope="module")
def files() -> dict[Path, str]:
    return table.files()


def test_the_tables_are_what_the_stored_results_say(files: dict[Path, str]) -> None:
    outdated = [path.name for path, text in files.items() if path.read_text() != text]
    assert not outdated, f"run `python tools/probe.py --write`: {outdated}"


def test_every_table_is_a_module(files: dict[Path, str]) -> None:
    names = {path.name for path in table.FOLDER.iterdir()}
    assert names == {path.name for path in files}
    modules = table.FOLDER.with_suffix(".rs").read_text()
    assert [name for name in names if f"mod {name[:-3]};" not in modules] == []


def test_each_form_has_a_name_of_its_own() -> None:
    names = [form.name for form in forms.abilities()]
    assert len(names) == len(set(names))


def test_a_verdict_for_ordinary_numbers_stands_for_all_numbers() -> None:
    assert table.kinds_of("wrong: ordinary,negative") == ["ordinary"]
    assert table.kinds_of("wrong: nan,ends") == ["nan", "ends"]
    assert table.kinds_of("refused: no kernel") == []


def test_a_wrong_number_is_noticed() -> None:
    numbers = values.fill("nan", "float32", (3, 4), 0, "any")
    other = numbers.copy()
    other[0, 0] = 0
    assert same([numbers], [numbers])
    assert not same([other], [numbers])
    assert not same([numbers.T], [numbers])
    signed = values.fill("negative_zero", "float32", (3, 4), 0, "any")
    assert same([abs(signed) * 0], [signed * 0])
    assert not same([abs(signed) * 0], [signed * 0], kind="negative_zero")
