"""Pages about operations know every reason to wait and every operation, and no others."""

from __future__ import annotations

import re

import pytest

from harness.operator.decide.due import WaitReason
from harness.operator.decide.operations import DUTIES, ETCD_DUTIES, FIRST_SECONDS, LONGEST_SECONDS, Duty
from tests.unit.pages import ROOT

FOLDER = ROOT / "docs" / "operator"
PAGE, ETCD_PAGE = ((FOLDER / name).read_text(encoding="utf-8") for name in ("operations.md", "etcd-clusters.md"))


def rows(title: str, page: str = PAGE) -> list[list[str]]:
    """Return the rows of the table in a section, without its heading; backticks are left out."""
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    table = re.findall(r"^\|(.+)\|$", section, re.MULTILINE)[2:]
    return [[cell.strip().replace("`", "") for cell in row.split("|")] for row in table]


def test_every_reason_to_wait_is_explained() -> None:
    assert [row[0] for row in rows("Waiting")] == [str(reason) for reason in WaitReason]


@pytest.mark.parametrize(("page", "duties"), [(PAGE, DUTIES), (ETCD_PAGE, ETCD_DUTIES)])
def test_every_operation_is_explained_in_the_order_in_which_it_is_done(page: str, duties: tuple[Duty, ...]) -> None:
    said = [(row[0], row[1], row[3] == "yes") for row in rows("Operations", page)]
    known = [(duty.operation, duty.entry, duty.disruptive) for duty in duties]
    assert said == list(dict.fromkeys(known))


def test_the_delays_are_those_of_the_code() -> None:
    assert (FIRST_SECONDS, LONGEST_SECONDS) == (30, 600)
    assert "30 s, 60 s, 120 s and\nso on up to 10 minutes" in PAGE


def test_every_playbook_is_there() -> None:
    for duty in (*DUTIES, *ETCD_DUTIES):
        assert (ROOT / "playbooks" / duty.entry).is_file()
