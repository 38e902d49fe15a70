"""The sweep over JAX's public functions: nothing is left out, and a sample of it is right."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from sweeping import discover, listed, plan, trial

FUNCTIONS: dict[str, Any] = discover.functions()
#: One function in so many is tried here; `make sweep` tries them all.
SAMPLE = 24


def test_every_public_function_is_tried_or_listed() -> None:
    neither = [
        name
        for name, function in FUNCTIONS.items()
        if name not in listed.LISTED and not plan.is_tried(name, function)
    ]
    assert neither == [], "add an argument set to tools/sweeping/tables, or a reason to listed.py"


def test_every_name_of_the_tables_is_a_function_of_jax() -> None:
    assert set(listed.LISTED) - set(FUNCTIONS) == set()
    assert set(plan.TABLE) - set(FUNCTIONS) == set()
    assert set(plan.TABLE) & set(listed.LISTED) == set()


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if zlib.crc32(name.encode()) % SAMPLE == 0]
)
def test_an_argument_set_of_the_sweep_is_right_or_refused(name: str) -> None:
    wrong = []
    for one in plan.sets_of(name, FUNCTIONS[name]):
        verdict, said = trial.attempt(FUNCTIONS[name], one)
        if verdict not in (trial.RIGHT, trial.REFUSED):
            wrong.append(f"{verdict}: {name}{one.label}: {said}")
    assert not wrong, "\n".join(wrong)
