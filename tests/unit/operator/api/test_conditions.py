"""Conditions change their time with their status only, and keep their places."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.operator.api.conditions import MESSAGE_LENGTH, READY, Condition, new, with_conditions

FIRST, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


def test_a_condition_that_stays_keeps_its_time_and_takes_the_new_words() -> None:
    found = [new(READY, False, "Deploying", "cp-0 is not there", FIRST, 1)]
    (made,) = with_conditions(found, new(READY, False, "Deploying", "cp-1 is not there", LATER, 2))
    assert made["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert (made["message"], made["observedGeneration"]) == ("cp-1 is not there", 2)


def test_a_condition_that_turns_takes_the_new_time_in_its_old_place() -> None:
    found = [new("Accepted", True, "Sound", "", FIRST, 1), new(READY, None, "Waiting", "", FIRST, 1)]
    made = with_conditions(
        found, new("Accepted", False, "Mistakes", "x", LATER, 2), new("Degraded", False, "No", "", LATER, 2)
    )
    assert [c["type"] for c in made] == ["Accepted", READY, "Degraded"]
    assert made[0]["lastTransitionTime"] == "2026-01-02T00:00:00Z"
    assert made[1] == found[1]


def test_a_status_is_one_of_three_words() -> None:
    assert [new(READY, status, "R", "", FIRST, 1)["status"] for status in (True, False, None)] == [
        "True",
        "False",
        "Unknown",
    ]


def test_a_condition_fits_its_schema() -> None:
    made = new(READY, True, "Ready", "x" * (MESSAGE_LENGTH + 1), FIRST, None)
    assert "observedGeneration" not in made
    assert Condition.model_validate(made).message == "x" * MESSAGE_LENGTH
