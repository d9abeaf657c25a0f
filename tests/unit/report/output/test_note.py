"""The note of a merge request is short, says whose it is, and nothing in it is anybody else's markup."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from harness.history.lines import History, Skipped
from harness.history.record import Record
from harness.report.analysis.analyse import RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.output import badges, document
from harness.report.output.badges import Badge, svg
from harness.report.output.files import MOST, links
from harness.report.output.note import MARKER, ago, code, lines_of, render
from harness.spec.models import Symptom
from tests.unit.history import synthetic
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW

EVIL = "E  </details><script>x</script> | @all [a](https://evil.invalid) ``` `x` <!-- \n## heading"


def note_of(*records: Record, url: str = "", skipped: tuple[Skipped, ...] = ()) -> str:
    """Return the note of some records."""
    return render(analyse(records, Planned(), RecordFilter(), NOW), History(skipped=skipped), url=url)


def failing(cell: str, said: str = "E  no answer", night: int = 1) -> Record:
    """Return a record of a cell whose name resolution failed."""
    return checked(record(night, cell, of=2, outcome="failed"), {"network: test_dns": "f"}, said)


def test_a_night_that_passed_is_two_lines() -> None:
    lines = [line for line in note_of(record(0, "a"), record(0, "b")).splitlines() if line]
    assert lines[0] == MARKER
    assert lines[1] == "## vmatrix: 2 of 2 cells passed"
    assert len(lines) == 3


def test_a_failure_says_what_whose_new_since_when_and_what_to_type() -> None:
    text = note_of(record(0, "a", of=2), failing("a"))
    assert "0 of 1 cell passed, 1 new failure" in text
    assert (
        "| `a` | `network: test_dns` `no answer` | product | new, passed the run before "
        "| 2026-11-20, [`00000000..00000000`]" in text
    )
    assert "/-/compare/" in text
    assert "vmatrix run a --tier nightly" in text


def test_cells_that_fail_alike_are_one_row() -> None:
    before = [record(0, f"c{n}", of=2) for n in range(9)]
    text = note_of(*before, *(failing(f"c{n}", f"E  no answer in {n} s") for n in range(9)))
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == 1
    assert "and 3 more cells" in rows[0]


def test_cells_that_came_to_no_end_are_named() -> None:
    text = note_of(record(0, "a"), record(0, "b", outcome="interrupted"), record(0, "c", outcome="unfinished"))
    assert "1 of 3 cells passed" in text
    assert "- inconclusive: 2: `b interrupted`, `c unfinished`" in text


def test_many_kinds_of_failure_are_cut_off() -> None:
    words = [chr(97 + n) * 5 for n in range(14)]
    text = note_of(*(failing(f"cell-{word}", f"E  {word} is broken") for word in words))
    assert text.count("\n| `") == 10
    assert "and 4 more kinds of failure" in text


def test_a_note_of_a_bad_night_stays_short() -> None:
    assert len(render(synthetic.analysis(90, 60, 2), History())) < 12_000


def test_what_a_check_says_is_no_markup() -> None:
    text = note_of(failing("c|ell`", EVIL))
    (row,) = [line for line in text.splitlines() if line.startswith("| ") and "product" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 6
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", row)
    assert not any(word in outside for word in ("script", "@all", "evil", "<!--", "details"))


@pytest.mark.parametrize("text", ["plain", "`", "``x`", "a ` b `` c", "", "two\nlines", "```"])
def test_nothing_ends_a_code_span(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    assert "\n" not in span


def test_a_link_that_is_none_is_left_out() -> None:
    assert "javascript" not in note_of(record(0), url="javascript:alert(1)")
    assert "[report](https://pages.invalid/x)" in note_of(record(0), url="https://pages.invalid/x")


def test_damage_of_the_history_is_said() -> None:
    text = note_of(record(0), skipped=(Skipped("h.jsonl", 7, "torn"),))
    assert "1 line of the history cannot be read; the first: `h.jsonl:7: torn`" in text


def test_an_empty_history_is_a_note_too() -> None:
    assert "no runs" in note_of()


def test_annotations_link_the_jobs_of_what_failed() -> None:
    found = links(synthetic.analysis(90, 24, 4), url="https://pages.invalid/")
    assert list(found) == ["vmatrix"]
    entries = [entry["external_link"] for entry in found["vmatrix"]]
    assert entries[0] == {"label": "vmatrix report", "url": "https://pages.invalid/"}
    assert all(entry["url"].startswith("https://") and entry["label"] for entry in entries)
    assert 1 < len(entries) <= MOST


def test_without_links_there_are_no_annotations() -> None:
    assert links(analyse([record(0)], Planned(), RecordFilter(), NOW)) == {}


def test_badges_say_the_night_in_words() -> None:
    found = synthetic.analysis(90, 24, 4)
    for name, text in badges.badges(found).items():
        root = Xml.fromstring(text)
        assert root.attrib["aria-label"], name
        assert root.attrib["role"] == "img"
    assert "failed" in badges.last_night(found).value
    assert "overdue" in badges.last_night(synthetic.analysis(90, 24, 4, NOW.replace(day=25))).value


@pytest.mark.parametrize(
    ("made", "value"),
    [
        ([], "never"),
        ([record(0)], "2026-11-20, nothing failed"),
        ([record(0, outcome="failed")], "2026-11-20, 1 failed, 1 new"),
        ([record(0, outcome="quarantined")], "2026-11-20, nothing failed"),
    ],
)
def test_the_last_night_is_said(made: list[Record], value: str) -> None:
    assert badges.last_night(analyse(made, Planned(), RecordFilter(), NOW)).value == value


def test_a_failure_in_quarantine_is_not_counted_as_one() -> None:
    records = [record(0, "a", of=2, outcome="quarantined"), record(0, "b", of=2, outcome="failed", blame="product")]
    found = document.summary(analyse(records, Planned(), RecordFilter(), NOW))
    assert (found["new"], found["known"], found["quarantined"], found["blames"]) == (1, 0, 1, {"product": 1})


def test_a_terminal_says_nothing_of_a_blame_that_there_is_not() -> None:
    records = [record(0, "a", of=2, outcome="quarantined"), record(0, "b", of=2, outcome="failed", blame="product")]
    first, second = lines_of(analyse(records, Planned(), RecordFilter(), NOW).tonight)
    assert first.startswith("a: quarantined, ")
    assert second.startswith("b: failed (product), ")


@pytest.mark.parametrize(
    ("hours", "said"), [(None, "never"), (0.5, "0 hours ago"), (47.9, "47 hours ago"), (8153.4, "339 days ago")]
)
def test_how_long_ago_a_night_was_is_said_in_words(hours: float | None, said: str) -> None:
    assert ago(hours) == said


def test_rates_are_not_rounded_up() -> None:
    records = [record(0, f"c{n}", axes={"a": str(n), "b": "x"}) for n in range(299)]
    planned = Planned({f"c{n}": {"a": str(n), "b": "x"} for n in range(300)})
    assert badges.coverage(analyse(records, planned, RecordFilter(), NOW)).value == "99 %"


def test_a_badge_escapes_what_it_says() -> None:
    assert Xml.fromstring(svg(Badge("<a>", '&"', "#000"))).attrib["aria-label"] == '<a>: &"'


def dual(night: int, *, failing: bool, **more: Any) -> list[Record]:
    """Return a night of twelve cells, in which those of both families fail or not."""
    made = []
    for number in range(12):
        ip = "dual" if number % 3 == 0 else "ipv4"
        bad = failing and ip == "dual"
        base = record(
            night, f"c{number}", of=2, axes={"ip": ip, "os": str(number)}, outcome="failed" if bad else "passed"
        )
        made.append(checked(replace(base, **(more if bad else {})), {"network: test_dns": "f" if bad else "p"}))
    return made


def test_a_suspect_is_named_with_the_commits_since_which_it_fails() -> None:
    text = note_of(*dual(0, failing=False), *dual(1, failing=True))
    (line,) = (line for line in text.splitlines() if line.startswith("- `ip dual"))
    good, bad = f"{0:040x}", f"{1:040x}"
    assert "4 of 4 cells with it failed, 0 of 8 others: network: test_dns`, since [" in line
    assert line.endswith(f"](https://lab.invalid/p/-/compare/{good}...{bad})")


def test_a_suspect_is_named_with_the_commit_that_was_found_and_its_owners() -> None:
    culprit = {"values": "ip dual", "title": "abc Route", "author": "A <a@b>", "owners": "@net", "commit": "abc"}
    text = note_of(*dual(0, failing=False), *dual(1, failing=True, culprit=culprit))
    assert ", since `abc Route` by `A <a@b>`, owners `@net`" in text


def test_the_document_says_what_the_page_shows_of_suspects_symptoms_and_the_week() -> None:
    records = [*dual(0, failing=False), *dual(1, failing=True, symptoms={"disk full": "No space left"})]
    symptom = Symptom(name="disk full", pattern="No space", means="raise disk_gib")
    found = document.document(analyse(records, Planned(symptoms=(symptom,)), RecordFilter(), NOW), History())
    (suspect,) = found["suspects"]
    assert (suspect["named"], suspect["culprit"], suspect["since"]["bad"]) == (True, None, f"{1:040x}")
    (seen,) = found["symptoms"]["seen"]
    assert (seen["name"], seen["means"], seen["line"], len(seen["cells"])) == (
        "disk full",
        "raise disk_gib",
        "No space left",
        4,
    )
    assert found["week"]["nights"] == 2
    assert found["worse"] == []
