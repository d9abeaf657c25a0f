"""What failed, failure by failure: equal ones in one row with their cells, in words that a stranger understands."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from tests.web.documents import ABSENT, ALWAYS, BROKEN, EXCUSED, INFRA, NIGHTS, PAST, SOMETIMES, Document
from tests.web.page import Page

NIGHT = -1
WIDTHS = (390, 1024, 1280, 1440)


def named(sample: Document, name: str) -> Document:
    """Return a cell of the document by what it is there for."""
    cell: Document = sample["cells"][list(PAST).index(name)]
    return cell


def twelve(sample: Document) -> Document:
    """Make twelve cells fail that say one of two things, one of them eight times."""
    broken, infra = named(sample, BROKEN), named(sample, INFRA)
    copies = []
    for number in range(12):
        cell = broken if number < 8 else infra
        values = [number % 2, number // 2 % 2, number // 4, 0]
        items = [{**cell["failures"][0]["items"][0], "cluster": number // 8}]
        failures = [{"night": 39, "items": items}]
        copies.append({**cell, "id": f"k1363-d13-copy-{number:06x}", "values": values, "failures": failures})
    numbers = list(range(12))
    one, other = ({**sample["clusters"][0], "message": message} for message in (1, 2))
    empty: Document = {"not_run": [], "slower": [], "quarantine": []}
    return {
        **sample,
        **empty,
        "cells": copies,
        "clusters": [
            {**one, "cells": numbers[:8], "now": numbers[:8], "runs": 8},
            {**other, "cells": numbers[8:], "now": numbers[8:], "runs": 4},
        ],
    }


def lines(texts: Iterable[str]) -> list[str]:
    return [" ".join(text.split()) for text in texts]


def test_twelve_cells_that_repeat_two_messages_are_two_rows(page: Page, sample: Document) -> None:
    page.show(twelve(sample))
    rows = lines(page.texts("#attention-rows > tr"))
    assert len(rows) == 2
    assert "8 cells" in rows[0]
    assert "4 cells" in rows[1]
    assert page.text("#attention-sum") == "2 different failures in 12 cells"


def test_the_cells_of_a_row_are_made_when_they_are_asked_for(page: Page, sample: Document) -> None:
    page.show(twelve(sample))
    assert page.all("#attention-rows .cell-name") == []
    page.one("#attention-rows summary").click()
    page.appears("#attention-rows .cell-name")
    assert page.ids("#attention-rows .cell-name") == [f"k1363-d13-copy-{number:06x}" for number in range(8)]


def test_a_row_says_what_may_explain_its_cells(page: Page, sample: Document) -> None:
    (found,) = sample["suspects"]
    perhaps = {**found["suspects"][0], "share": 0.6}
    page.show({**twelve(sample), "suspects": [{**found, "cells": [8, 9], "named": False, "suspects": [perhaps]}]})
    rows = lines(page.texts("#attention-rows > tr"))
    assert "perhaps (60 %): os debian-12 with topology cp1-w2; 1 of 1 cells with both failed" in rows[1]
    assert "perhaps" not in rows[0]
    chance = {"cells": [8, 9], "named": False, "by_chance": True, "chance": 0.97, "suspects": []}
    page.show({**twelve(sample), "suspects": [{**found, **chance}]})
    assert "most likely by chance (97 %)" in lines(page.texts("#attention-rows > tr"))[1]
    assert not page.one("#suspects-rows").is_displayed()


CULPRIT = {"title": "abc Route pods", "author": "Ada <a@example.org>", "date": "2026-11-20", "owners": "@net"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "since 20 Nov, commits aaaaaaaa..bbbbbbbb"),
        ({"since": None}, "not known to have passed before"),
        ({"culprit": CULPRIT}, "since abc Route pods · Ada <a@example.org>, 2026-11-20 · owners: @net"),
    ],
)
def test_a_named_suspect_comes_first_with_its_origin(page: Page, sample: Document, more: Document, said: str) -> None:
    sample["suspects"][0]["since"]["date"] = f"{datetime.now(UTC):%Y}-11-20"
    sample["suspects"][0] |= more
    page.show(sample)
    (suspect,) = lines(page.texts("#suspects-rows > li"))
    assert suspect.startswith("Suspect: os debian-12 with topology cp1-w2 · 1 of 1 cells with both failed")
    assert said in suspect
    assert page.js("return document.querySelector('#suspects-rows').compareDocumentPosition("
                   "document.querySelector('#attention-rows'))") == 4, "the failures follow"  # fmt: skip


def test_the_same_message_in_quarantine_is_a_row_of_its_own(shown: Page) -> None:
    rows = lines(shown.texts("#attention-rows > tr"))
    assert len(rows) == 3
    assert "in quarantine until 2030-01-31" in rows[2]
    assert shown.ids("#attention-rows > tr:last-child .cell-name") == [f"k1363-d13-{EXCUSED}-000005"]


@pytest.mark.parametrize("name", [BROKEN, ALWAYS, SOMETIMES, INFRA])
def test_a_cell_is_called_by_its_values_with_its_id_behind(shown: Page, sample: Document, name: str) -> None:
    cell = named(sample, name)
    values = [axis["values"][at] for axis, at in zip(sample["axes"], cell["values"], strict=True)][:3]
    found = shown.each("#attention-rows .cells li", "[e.querySelector('button').innerText, e.innerText]")
    own = [label for label, text in found if cell["id"] in text]
    assert lines(own) == [" \N{MIDDLE DOT} ".join(values)]
    for place in ("#grid tbody th button", "#slower-rows button"):
        assert not any(label.startswith("k1363") for label in shown.texts(place))


def test_cells_with_equal_values_are_told_apart(page: Page, sample: Document) -> None:
    for name in (BROKEN, INFRA):
        named(sample, name)["values"] = [0, 0, 0, 0]
    page.show(sample)
    labels = lines(page.texts("#grid tbody th button"))
    assert len(set(labels)) == len(labels)
    assert any(label.endswith("000001") for label in labels)


def test_the_values_come_first_in_an_open_cell(page: Page, sample: Document) -> None:
    page.show(sample, f"#cell={named(sample, BROKEN)['id']}")
    said = " ".join(page.text("#cell").split())
    assert said.startswith("kubernetes 1.36.3 os debian-12 topology cp1-w2 network flannel")


def test_a_date_of_another_year_has_its_year(page: Page, sample: Document) -> None:
    this = datetime.now(UTC).replace(month=6, day=15, hour=12)
    for name, moment in ((BROKEN, this.replace(year=this.year - 1)), (INFRA, this)):
        sample["nights"][NIGHT] |= {"date": f"{moment:%Y-%m-%d}", "started": f"{moment:%Y-%m-%dT%H:%M:%SZ}"}
        page.show(sample, f"#q={name}")
        since = lines(page.texts("#attention-rows td.since"))[0]
        said = "15 Jun" if moment.year == this.year else f"15 Jun {moment.year}"
        assert since.startswith((f"since {said} same commit", f"{said} same commit"))


def test_the_grid_names_the_year_of_another_years_months(page: Page, sample: Document) -> None:
    last = datetime(datetime.now(UTC).year, 1, 10, 12, tzinfo=UTC)
    for before, night in enumerate(reversed(sample["nights"])):
        moment = last - timedelta(days=before)
        night |= {"date": f"{moment:%Y-%m-%d}", "started": f"{moment:%Y-%m-%dT%H:%M:%SZ}"}
    page.show(sample, "#show=30")
    assert [text for text in page.texts("#grid .months td") if text.strip()] == [f"Dec {last.year - 1}", "Jan"]


def test_the_same_commit_that_passed_before_is_said_in_words(page: Page, sample: Document) -> None:
    since = named(sample, BROKEN)["since"]
    since["bad_commit"] = since["good_commit"] = "bbb5cf85" * 5
    page.show(sample, f"#q={BROKEN}")
    assert "same commit bbb5cf85 passed on" in lines(page.texts("#attention-rows td.since"))[0]


def test_a_failure_that_was_seen_before_and_is_back_says_both(page: Page, sample: Document) -> None:
    named(sample, BROKEN)["news"] = "known"
    page.show(sample, f"#q={BROKEN}")
    assert "seen before passed the run before" in lines(page.texts("#attention-rows > tr"))[0]
    assert "known" not in page.text("main.app")
    assert "just began" not in page.text("main.app")


def test_what_failed_in_quarantine_is_neither_new_nor_seen_before(page: Page, sample: Document) -> None:
    named(sample, EXCUSED)["news"] = "known"
    page.show(sample)
    counts = dict(page.each("#counts button", "[e.dataset.state, e.querySelector('b').textContent]"))
    assert int(counts["new"]) + int(counts["known"]) == int(counts["failing"])


def test_the_blame_of_a_failure_in_quarantine_is_that_of_its_check(page: Page, sample: Document) -> None:
    cell = named(sample, EXCUSED)
    cell["blames"] = " " * NIGHTS
    page.show(sample, f"#q={EXCUSED}")
    assert page.texts("#attention-rows td.blamed") == ["product"]


def test_values_that_all_who_ran_have_are_not_what_failures_have_in_common(page: Page, sample: Document) -> None:
    absent = named(sample, ABSENT)
    for cell in sample["cells"]:
        cell["values"][3] = 0
    sample["axes"][3]["values"] = ["flannel", "other"]
    absent["values"][3] = 1
    page.show(sample)
    assert "network flannel" not in " ".join(page.texts("#attention-rows .what .quiet"))


def test_what_did_not_run_is_folded_away(shown: Page) -> None:
    assert shown.text("#notrun summary") == "1 cell: no record for 9 nights"
    assert shown.all("#notrun-rows") == []
    shown.one("#notrun summary").click()
    shown.appears("#notrun-rows tr")
    assert shown.ids("#notrun-rows .cell-name")[0].endswith("absent-000007")


@pytest.mark.parametrize("width", WIDTHS)
def test_every_list_fits(page: Page, sample: Document, width: int) -> None:
    sample["slower"][0]["step"] = "task control_plane: Initialise the first control plane"
    page.size(width, 900)
    page.show(sample)
    wide = page.each("#trends .scroll, #coverage, #attention", "[e.scrollWidth, e.clientWidth, e.textContent]")
    assert len(wide) == 5
    assert [text for inner, outer, text in wide if inner > outer] == []


def test_one_cell_is_not_all_cells(page: Page, sample: Document) -> None:
    cell = {**sample["cells"][0], "outcomes": "p" * 40}
    empty: Document = {"clusters": [], "not_run": [], "slower": [], "quarantine": []}
    sample |= {**empty, "cells": [cell]}
    sample["summary"] |= {"cells": 1, "ran": 1, "blames": {}, "new": 0, "known": 0}
    page.show(sample)
    assert page.text("#headline") == "The only cell ran and did not fail"
    assert page.text("#shown") == "1 cell shown"


def test_the_only_cell_that_fails_is_said_so(page: Page, sample: Document) -> None:
    sample["cells"] = [{**named(sample, INFRA)}]
    empty: Document = {"clusters": [], "not_run": [], "slower": [], "quarantine": []}
    sample |= empty
    sample["summary"] |= {"cells": 1, "ran": 1, "new": 1, "known": 0}
    page.show(sample)
    assert page.text("#headline") == "The only cell that ran fails: new"


def test_a_thousand_cells_draw_a_hundred_rows_until_more_are_asked_for(page: Page, sample: Document) -> None:
    sample["cells"] = [{**sample["cells"][0], "id": f"k1363-d13-many-{number:06x}"} for number in range(1000)]
    empty: Document = {"clusters": [], "not_run": [], "slower": [], "quarantine": []}
    sample |= empty
    page.show(sample)
    assert len(page.all("#grid tbody tr")) == 100
    assert page.text("#grid-more") == "Show all 1000 cells"
    page.one("#grid-more").click()
    assert len(page.all("#grid tbody tr")) == 1000
    assert not page.one("#grid-more").is_displayed()
