"""What a person reads first in the morning: what failed, new or known, how often, since when, whose, what else."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.web.documents import Document, document
from tests.web.page import Page


def test_the_headline_counts_the_failures_new_and_known(shown: Page) -> None:
    assert shown.text("#headline") == "4 of 8 cells fail: 3 new, 1 seen before"


def test_the_counts_and_whose_they_are_can_be_seen_at_once(shown: Page) -> None:
    counts = shown.texts("#counts button")
    assert "4 failing" in counts
    assert "1 slower" in counts
    assert "1 not run" in counts
    assert shown.texts("#whose button") == ["I1 infra", "P3 product"]


def test_new_failures_of_the_product_come_first_and_quarantined_ones_last(shown: Page) -> None:
    names = [text.split("-d13-")[1] for text in shown.ids("#attention-rows .cell-name")]
    order = ["newly-broken-000001", "sometimes-000003", "always-fails-000002", "infra-fails-000004", "excused-000005"]
    assert names == order


def row(page: Page, name: str) -> str:
    found = [text for text in page.texts("#attention-rows tr") if name in text]
    assert len(found) == 1
    return " ".join(found[0].split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "newly-broken",
            [
                "network: test_dns_answers: no route to 10.244.1.7 after 60 s",
                "also failed in 1 of them: cluster: test_every_node_is_ready",
                "product",
                "2 \N{MULTIPLICATION SIGN} new 1 \N{MULTIPLICATION SIGN} seen before",
                "1 \N{MULTIPLICATION SIGN} passed the run before",
            ],
        ),
        ("always-fails", ["seen before \N{MIDDLE DOT} failed 6 runs in a row", "10101010..11111111"]),
        ("sometimes", ["new \N{MIDDLE DOT} fails now and then \N{MIDDLE DOT} flaky in 9 of 39 runs"]),
        ("infra-fails", ["infra", "step provision / machines: VM w-1 did not get an address in 300 s"]),
        ("excused", ["quarantined", "in quarantine until 2030-01-31"]),
    ],
)
def test_a_failing_cell_says_whose_since_when_and_how_often(shown: Page, name: str, said: list[str]) -> None:
    text = row(shown, name)
    assert [part for part in said if part not in text] == []


def test_the_range_of_commits_links_to_their_comparison(shown: Page) -> None:
    links = shown.js("return [...document.querySelectorAll('#attention-rows td a.mono')].map((a) => a.href)")
    assert links == [f"https://gitlab.example/group/project/-/compare/{'10' * 20}...{'11' * 20}"]


def test_failures_of_nights_before_are_folded_away(page: Page, sample: Document) -> None:
    sample["clusters"].append({**sample["clusters"][0], "now": [], "last": 20})
    page.show(sample)
    assert page.text("#gone summary") == "1 failure of earlier nights"
    assert page.all("#gone-rows") == []
    page.one("#gone summary").click()
    page.appears("#gone-rows > li")
    assert "not in the last night" in page.text("#gone-rows > li")


def test_what_a_cell_came_to_before_is_no_news_of_a_night_in_which_it_did_not_run(page: Page, sample: Document) -> None:
    absent = next(cell for cell in sample["cells"] if "-absent-" in cell["id"])
    absent |= {"news": "new", "habit": "new", "outcomes": "p" * 30 + "f" + "." * 9}
    sample["not_run"][0]["last"] = 30
    page.show(sample)
    assert "3 newly failing" in page.texts("#counts button")
    page.one("#notrun summary").click()
    page.appears("#notrun-rows tr")
    assert "failed" in page.text("#notrun-rows")


def test_what_was_fixed_is_flaky_slower_not_run_or_in_quarantine_has_its_list(shown: Page) -> None:
    assert "mended" in shown.ids("#fixed-rows .cell-name")[0]
    assert "9 of 39 runs" in shown.text("#flaky-rows")
    assert "23 %" in shown.text("#flaky-rows")
    assert "1.60\N{MULTIPLICATION SIGN}" in shown.text("#slower-rows")
    assert "usually 2 min 30 s (20 runs)" in shown.text("#slower-rows")
    assert "no record for 9 nights" in shown.text("#notrun")
    quarantine = shown.text("#quarantine-rows")
    assert "DNS is late after a reboot" in quarantine
    assert "until 2030-01-31, 3 days left" in quarantine
    assert str(shown.one("#quarantine-rows a").get_attribute("href")).endswith("/issues/12")


def test_too_few_runs_give_no_rate(page: Page, sample: Document) -> None:
    for cell in sample["cells"]:
        cell["flaky"] = {**cell["flaky"], "enough": False, "n": 4, "failed": 1}
    page.show(sample)
    assert "too few runs for a rate" in page.text("#flaky-rows")
    assert "%" not in page.text("#flaky-rows")


def test_coverage_and_unreadable_lines_are_told(shown: Page) -> None:
    assert "8 of 9 ran" in shown.text("#coverage-sum")
    assert "18 of 20 ran" in shown.text("#coverage-sum")
    assert "history.jsonl:7 not JSON" in shown.text("#history-skipped")


def test_a_fresh_report_says_when_it_ran_last(page: Page) -> None:
    page.show(document(hours_ago=6))
    assert "Last run 6 hours ago" in page.text("#freshness")
    assert "late" not in str(page.one("#freshness").get_attribute("class"))


def test_a_late_report_says_in_words_that_a_night_is_missing_and_turns_red(page: Page) -> None:
    page.show(document(hours_ago=55))
    assert "A night is missing: last run 2 days 7 hours ago; one is due every 24 hours" in page.text("#freshness")
    red, green, blue = page.js(
        "return getComputedStyle(document.getElementById('freshness')).color.match(/\\d+/g).map(Number)"
    )[:3]
    assert red > 2 * max(green, blue)


def test_all_nights_since_the_last_run_are_counted_and_none_of_them_is_an_earlier_one(page: Page) -> None:
    sample = document(hours_ago=24.0 * 339 + 5)
    last = datetime.fromisoformat(sample["freshness"]["last"])
    sample["freshness"]["missing"] = [f"{last + timedelta(days=day):%Y-%m-%d}" for day in range(1, 340)]
    page.show(sample)
    said = page.text("#freshness")
    assert "339 nights are missing: last run 339 days ago; one is due every 24 hours" in said
    assert "earlier" not in said


def test_the_clock_of_the_reader_decides_how_old_the_report_is(page: Page) -> None:
    """The page is a file: what it said when it was written must not be what it says two days later."""
    sample = document(hours_ago=55)
    sample["freshness"] |= {"hours_ago": 1.0, "stale": False}
    page.show(sample)
    assert "A night is missing" in page.text("#freshness")


def test_nights_that_were_missing_lately_are_named(page: Page) -> None:
    sample = document(hours_ago=6)
    lately, long_ago = (sample["nights"][number]["date"] for number in (-6, -30))
    sample["freshness"]["missing"] = [long_ago, lately]
    page.show(sample)
    assert f"1 night missing earlier: {lately}" in page.text("#freshness")


def test_a_history_without_a_rhythm_is_never_late(page: Page) -> None:
    sample = document(hours_ago=500)
    sample["freshness"] |= {"every_hours": None, "stale_after_hours": None}
    page.show(sample)
    assert "Last run 20 days ago" in page.text("#freshness")


def test_an_outage_of_the_infrastructure_is_said_first(page: Page, sample: Document) -> None:
    sample["nights"][-1]["infra_outage"] = True
    page.show(sample)
    assert "because of the infrastructure" in page.text("#outage")


def test_a_good_night_says_so(page: Page, sample: Document) -> None:
    for cell in sample["cells"]:
        cell |= {"outcomes": "p" * 40, "blames": " " * 40, "news": "", "habit": "never", "since": None, "failures": []}
    empty: Document = {"clusters": [], "not_run": [], "slower": [], "quarantine": []}
    sample |= empty
    sample["summary"] |= {"ran": 9, "blames": {}, "new": 0, "known": 0}
    page.show(sample)
    assert page.text("#headline") == "All 9 cells ran, none failed"
    assert "No cell failed" in page.text("#attention-empty")


def test_an_empty_history_is_a_page_too(page: Page, sample: Document) -> None:
    empty: Document = {"nights": [], "cells": [], "clusters": [], "not_run": [], "slower": [], "quarantine": []}
    sample |= empty
    sample["freshness"] |= {"last": None}
    sample["summary"] |= {"cells": 0, "ran": 0, "outcomes": {}, "blames": {}}
    page.show(sample)
    assert page.text("#headline") == "Nothing ran in the last night"
    assert "No run has been recorded" in page.text("#freshness")
    assert page.complaints() == []
