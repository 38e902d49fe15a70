"""Faults while files are written: a sample of what `make test-faults` tries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.faults.harness import SCENARIOS, Harness, Scenario, can_build, ready

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_build(), reason="needs Linux and a C compiler"),
]


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with ready() as harness:
        yield harness


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_fault_at_a_system_call_leaves_models_with_their_weights(
    harness: Harness, scenario: Scenario
) -> None:
    harness.try_calls(scenario, every=19, start=3 * SCENARIOS.index(scenario))
    assert harness.failures() == []


def test_a_full_disk_and_a_read_only_folder_leave_the_old_model(harness: Harness) -> None:
    for scenario in SCENARIOS:
        harness.try_full_disk(scenario, range(100, 20_000, 15_000))
        harness.try_read_only(scenario)
    assert harness.failures() == []


def test_processes_that_write_one_path_leave_one_model(harness: Harness) -> None:
    harness.try_together(4, rounds=1)
    assert harness.failures() == []


def test_signals_at_random_times_leave_a_model(harness: Harness) -> None:
    harness.try_signals(rounds=1)
    assert harness.failures() == []
