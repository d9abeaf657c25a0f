"""Rows with ids on terminals of every width: an id is never broken in two, a word neither."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.cli.output import SECONDS, Countdown, show_rows

ID, NAMESPACE = "k1363-d13-c2-fl-nf-c1w1-fresh-m-o-e99977", "vmatrix-k1363-d13-c2-fl-nf-c1w1-fresh-m-o-e99977-abcdef-1"
HEADINGS = ("run", "cell", "namespace", "status")
ROWS = [("abcdef", ID, NAMESPACE, "Running since an hour"), ("ghijkl", ID, NAMESPACE, "Stopped")]


def printed(width: int) -> list[str]:
    out = io.StringIO()
    show_rows(Console(file=out, width=width, soft_wrap=True), HEADINGS, ROWS, whole=("cell", "namespace"))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 79, 80, 81, 100, 117, 118, 130, 250])
def test_every_id_is_in_one_line(width: int) -> None:
    text = printed(width)
    for wanted in (ID, NAMESPACE):
        assert sum(wanted in line for line in text) >= len(ROWS)
    for word in ["Running", "since", "an", "hour"]:
        assert any(word in line.split() for line in text)


def test_a_narrow_terminal_gets_lines_by_name() -> None:
    text = printed(80)
    assert text[:3] == [ID, NAMESPACE, "    run abcdef, status Running since an hour"]


def test_a_wide_one_gets_a_table() -> None:
    assert printed(250)[0].split() == list(HEADINGS)


def test_the_last_column_alone_is_folded() -> None:
    folded = printed(120)
    assert len(folded) > 1 + len(ROWS)
    assert all(NAMESPACE in line for line in folded[1:] if "abcdef " in line)


def test_it_says_where_it_stands_now_and_then_and_not_of_the_last() -> None:
    said = list[str]()
    moment = [0.0]
    countdown = Countdown(said.append, clock=lambda: moment[0])
    for at, left in ((1.0, 9), (SECONDS, 8), (SECONDS + 1, 7), (2 * SECONDS, 6), (4 * SECONDS, 0)):
        moment[0] = at
        countdown.told(left)
    assert said == ["2 cells are gone, 8 to go", "4 cells are gone, 6 to go"]
