"""Outages that are too long fail; requests that do not cover the phase prove nothing."""

from __future__ import annotations

from harness.validate.facts.availability import (
    Availability,
)
from harness.validate.phases.interruptions import interrupted
from tests.unit.validate.facts.test_availability import REFUSED, rows, steady


def judged(answers: Availability, *, seconds: float = 20.0, limit: float | None = 5.0) -> list[str]:
    return [finding.expected for finding in interrupted(answers, phase_seconds=seconds, limit=limit)]


def test_an_outage_beyond_the_limit_fails() -> None:
    answers = rows(*steady(10), (11, 0, REFUSED), (17, 0, ""), *((at, 0.01, "") for at in range(18, 22)))
    assert judged(answers) == ["no outage longer than 5 s"]
    assert judged(answers, limit=None) == []


def test_what_never_answered_fails_without_any_limit_too() -> None:
    assert judged(rows((0, 0, REFUSED), (21, 0, REFUSED)), limit=None) == ["successful requests during the phase"]


def test_what_does_not_answer_at_the_end_fails() -> None:
    assert judged(rows(*steady(20), (21, 0, REFUSED))) == ["an answer after the phase"]


def test_questions_that_ended_before_the_phase_fail() -> None:
    assert judged(rows(*steady(12))) == ["requests during all 20 s of the phase"]


def test_what_answered_all_the_time_passes() -> None:
    assert judged(rows(*steady(21))) == []


def test_an_outage_within_the_limit_passes() -> None:
    assert judged(rows(*steady(10), (11, 0, REFUSED), (13, 0, ""), *((at, 0.01, "") for at in range(14, 22)))) == []


def test_a_long_time_without_requests_fails() -> None:
    seen = rows((0, 0.1, ""), (1, 0.1, ""), (19, 0.1, ""), (20, 0.1, ""))
    assert judged(seen) == ["a request at least every 5 s"]
