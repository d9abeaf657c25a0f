"""Data have to be there after each phase but where a new cluster begins; a restored backup has what was before it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.resources import CONFIG_MAP
from harness.model import Cell, Phase
from harness.validate.phases import data
from tests.unit.validate.fake_api import Api


def cell(*phases: Phase) -> Cell:
    return Cell("c", {}, "s", phases, (), {})


LIVED = cell(Phase("deploy"), Phase("backup"), Phase("recover", data_of=1, lost=("cp-2",)), Phase("upgrade"))
RESET = cell(Phase("deploy"), Phase("reset", cluster=False), Phase("deploy"), Phase("upgrade"))
WRITTEN = {1: "a1", 2: "a2", 3: "a3"}


@pytest.mark.parametrize(
    ("lived", "index", "expected"),
    [
        (LIVED, 0, []),
        (LIVED, 1, [1]),
        (LIVED, 2, [1]),
        (LIVED, 3, [1, 3]),
        (RESET, 1, []),
        (RESET, 2, []),
        (RESET, 3, [3]),
    ],
)
def test_what_has_to_be_there(lived: Cell, index: int, expected: list[int]) -> None:
    there = list(data.lasting(lived, index)) if data.data_expected(lived, index) else []
    assert there == expected


def test_what_is_there_passes() -> None:
    assert data.lost_marks(LIVED, 1, WRITTEN, {"backup": "a1"}) == []
    assert data.lost_marks(LIVED, 2, WRITTEN, {"backup": "a1"}) == [], "what came after the backup may be lost"


@pytest.mark.parametrize("seen", [{}, {"backup": "other"}, {"recover": "a2"}])
def test_what_is_lost_or_another_is_found(seen: dict[str, str]) -> None:
    assert [f.where for f in data.lost_marks(LIVED, 2, WRITTEN, seen)] == ["ConfigMap vmatrix-life/backup"]


def test_what_was_never_written_is_found() -> None:
    assert [f.seen for f in data.lost_marks(LIVED, 2, {}, {"backup": "a1"})] == ["none"]


def test_a_new_cluster_has_nothing_of_the_one_before() -> None:
    assert data.data_of_another_cluster(RESET, 2)
    assert not any(data.data_of_another_cluster(RESET, index) for index in (0, 1, 3))
    assert data.old_marks(RESET, 2, {1: "a1"}, {}) == []


@pytest.mark.parametrize(("written", "seen"), [({1: "a1"}, {"reset": "a1"}), ({1: "a1"}, {"x": "a1"}), ({}, {})])
def test_old_data_or_no_proof_of_any_are_found(written: Any, seen: Any) -> None:
    assert data.old_marks(RESET, 2, written, seen)


def test_marks_are_read_as_they_were_written() -> None:
    api: Any = Api()
    data.leave_mark(api, "backup", "a1")
    api.lists = {CONFIG_MAP: [api.made["ConfigMap"], {"metadata": {"name": "kube-root-ca.crt"}}]}
    assert data.found_marks(api) == {"backup": "a1"}
