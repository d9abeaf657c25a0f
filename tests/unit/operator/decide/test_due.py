"""docs/operator/operations.md knows every reason to wait and every operation, and no others."""

from __future__ import annotations

import re

from harness.operator.decide.due import WaitReason
from harness.operator.decide.operations import DUTIES, FIRST_SECONDS, LONGEST_SECONDS
from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "operator" / "operations.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """Return the rows of the table in a section, without its heading; backticks are left out."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    table = re.findall(r"^\|(.+)\|$", section, re.MULTILINE)[2:]
    return [[cell.strip().replace("`", "") for cell in row.split("|")] for row in table]


def test_every_reason_to_wait_is_explained() -> None:
    assert [row[0] for row in rows("Waiting")] == [str(reason) for reason in WaitReason]


def test_every_operation_is_explained_in_the_order_in_which_it_is_done() -> None:
    said = [(row[0], row[1], row[3] == "yes") for row in rows("Operations")]
    known = [(duty.operation, duty.entry, duty.disruptive) for duty in DUTIES]
    assert said == list(dict.fromkeys(known))


def test_the_delays_are_those_of_the_code() -> None:
    assert (FIRST_SECONDS, LONGEST_SECONDS) == (30, 600)
    assert "30 s, 60 s, 120 s and\nso on up to 10 minutes" in PAGE


def test_every_playbook_is_there() -> None:
    for duty in DUTIES:
        assert (ROOT / "playbooks" / duty.entry).is_file()
