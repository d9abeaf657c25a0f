"""What an entry of the quarantine excuses: the cells and the checks that it names, until its last day."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.plan.quarantine import match, unmatched
from harness.spec.models import QuarantineEntry

LAST = date(2026, 12, 31)
ISSUE = "https://example.org/issues/1"


def entry(cell: str, check: str | None = None) -> QuarantineEntry:
    return QuarantineEntry(cell=cell, check=check, issue=ISSUE, reason="known", until=LAST)


@pytest.mark.parametrize(
    ("one", "name", "check", "excused"),
    [
        (entry("k1-*"), "k1-a", None, True),
        (entry("k1-*"), "k1-a", "network: test_dns", True),
        (entry("k1-*"), "k2-a", None, False),
        (entry("k1-*", "network: test_dns*"), "k1-a", "network: test_dns[a]", True),
        (entry("k1-*", "network: test_dns*"), "k1-a", "network: test_pods", False),
        (entry("k1-*", "network: test_dns*"), "k1-a", "nodes: test_dns", False),
        (entry("k1-*", "network: test_dns*"), "k1-a", None, False),
        (entry("K1-*"), "k1-a", None, False),
    ],
)
def test_an_entry_excuses_what_it_names(one: QuarantineEntry, name: str, check: str | None, excused: bool) -> None:
    assert match([one], name, check, LAST) == (one if excused else None)


def test_an_entry_counts_on_its_last_day_and_not_after() -> None:
    assert match([entry("*")], "k1", None, LAST) is not None
    assert match([entry("*")], "k1", None, date(2027, 1, 1)) is None


def test_the_first_entry_that_fits_is_the_one() -> None:
    entries = [entry("k2"), entry("k1", "a: b"), entry("k1"), entry("*")]
    assert match(entries, "k1", "a: c", LAST) is entries[2]


def test_an_entry_that_no_planned_cell_fits_is_said_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "quarantine.yml").write_text("quarantine:\n  - cell: k1-*\n  - check: x\n    cell: k9-*\n")
    (said,) = unmatched([entry("k1-*"), entry("k9-*")], ["k1-a", "k2-a"], tmp_path)
    assert (said.line, said.path) == (4, "quarantine[1].cell")
    assert said.message.startswith("'k9-*' matches no planned cell; ")
