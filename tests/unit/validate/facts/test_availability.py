"""Outages are measured between questions and answers; what was not asked about, or not to the end, is no proof."""

from __future__ import annotations

import json

import pytest

from harness.validate.facts.availability import (
    Availability,
    TimedRequest,
    availability_of,
    read_availability,
    read_requests,
)

REFUSED = "ConnectionRefusedError: refused"


def rows(*given: tuple[float, float, str]) -> Availability:
    return availability_of("workload", [TimedRequest(*row) for row in given])


def steady(seconds: int) -> list[tuple[float, float, str]]:
    return [(float(at), 0.01, "") for at in range(seconds + 1)]


def test_what_answered_all_the_time_passes() -> None:
    answers = rows(*steady(21))
    assert (answers.asked, answers.failed, answers.outage, answers.lasts) == (22, 0, 0.0, False)


def test_an_outage_lasts_from_the_first_bad_question_to_the_next_good_answer() -> None:
    answers = rows((0, 0.1, ""), (1, 3.0, "TimeoutError: timed out"), (4, 0.0, REFUSED), (4.5, 0.2, ""), (5, 0.1, ""))
    assert answers.outage == pytest.approx(3.7)
    assert (answers.failed, answers.why) == (2, "TimeoutError: timed out")


def test_the_longest_outage_counts() -> None:
    answers = rows((0, 0, REFUSED), (1, 0, ""), (2, 0, REFUSED), (6, 0, ""), (7, 0, REFUSED), (8, 0, ""))
    assert answers.outage == pytest.approx(4)


def test_an_outage_within_the_limit_passes_and_is_told() -> None:
    answers = rows(*steady(10), (11, 0, REFUSED), (13, 0, ""), *((at, 0.01, "") for at in range(14, 22)))
    assert answers.summary(5.0) == (
        "workload: longest outage 2.0 s (limit 5 s), 1 of 21 requests failed in 21 s; "
        f"the longest outage began with: {REFUSED}"
    )


def test_a_long_time_without_questions_fails() -> None:
    answers = rows((0, 0.1, ""), (1, 0.1, ""), (19, 0.1, ""), (20, 0.1, ""))
    assert answers.unwatched == pytest.approx(17.9)
    assert "no request was sent for 18 s" in answers.summary(5)


def test_lines_of_others_and_a_last_one_that_was_cut_off_do_not_count() -> None:
    good = json.dumps({"of": "workload", "at": 0.5, "took": 0.1, "why": ""})
    text = f'Warning: added a key\n{{"started": 1}}\n{good}\n{{"of": "workload", "at"'
    assert read_requests(text) == [("workload", TimedRequest(0.5, 0.1, ""))]
    assert read_availability(text)["workload"].asked == 1
