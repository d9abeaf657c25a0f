"""Data and acknowledged writes have to be there after each phase but where a new cluster begins."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from harness.errors import InfraError
from harness.kube.resources import CONFIG_MAP
from harness.model import Cell, Phase
from harness.validate.phases import data
from harness.validate.phases.data import Writer, written
from tests.unit.validate.fake_api import Api


def cell(*phases: Phase) -> Cell:
    return Cell("c", {}, "s", phases, (), {})


LIVED = cell(Phase("deploy"), Phase("backup"), Phase("recover", data_of=1, lost=("cp-2",)), Phase("upgrade"))
RESET = cell(Phase("deploy"), Phase("reset", cluster=False), Phase("deploy"), Phase("upgrade"))
CLONED = cell(
    Phase("deploy"), Phase("backup"), Phase("reset", cluster=False), Phase("clone", data_of=1), Phase("upgrade")
)
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
        (CLONED, 2, []),
        (CLONED, 3, [1]),
        (CLONED, 4, [1, 4]),
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


def test_a_clone_has_what_came_before_the_backup_and_no_more() -> None:
    assert [index for index in range(5) if data.clones(CLONED, index)] == [3]
    assert not any(data.clones(lived, index) for lived in (LIVED, RESET) for index in range(4))
    assert not any(data.data_of_another_cluster(CLONED, index) for index in range(5))
    assert data.lost_marks(CLONED, 3, WRITTEN, {"backup": "a1"}) == []
    assert data.later_marks(CLONED, 3, {1: "a1", 2: "a2"}, {"backup": "a1"}) == []
    (found,) = data.later_marks(CLONED, 3, {1: "a1", 2: "a2"}, {"backup": "a1", "reset": "a2"})
    assert found.seen == "its mark a2"
    assert data.later_marks(CLONED, 3, {1: "a1"}, {"backup": "a1"}), "nothing shows that newer data would be found"


@pytest.mark.parametrize(("written", "seen"), [({1: "a1"}, {"reset": "a1"}), ({1: "a1"}, {"x": "a1"}), ({}, {})])
def test_old_data_or_no_proof_of_any_are_found(written: Any, seen: Any) -> None:
    assert data.old_marks(RESET, 2, written, seen)


def test_marks_are_read_as_they_were_written() -> None:
    api: Any = Api()
    data.leave_mark(api, "backup", "a1")
    api.lists = {CONFIG_MAP: [api.made["ConfigMap"], {"metadata": {"name": "kube-root-ca.crt"}}]}
    assert data.found_marks(api) == {"backup": "a1"}


class AcknowledgingApi:
    """An API that takes every second write; `enough` is set after the sixth try."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.tries = 0
        self.enough = threading.Event()

    def ensure(self, _: object, body: Any) -> Any:
        return body

    create_if_absent = ensure

    def merge(self, _: object, __: str, patch: Any, ___: str) -> None:
        self.tries += 1
        if self.tries >= 6:
            self.enough.set()
        if self.tries % 2:
            raise InfraError("the API does not answer")
        self.data.update(patch["data"])

    def get(self, *_: object) -> Any:
        return {"data": self.data}


def test_only_what_was_answered_is_acknowledged() -> None:
    api: Any = AcknowledgingApi()
    writer = Writer(api)
    writer.start()
    assert api.enough.wait(60)
    writer.stop()
    tries = api.tries
    assert writer.acknowledged == written(api)
    assert len(writer.acknowledged) == tries // 2
    writer.stop()


def test_nothing_is_written_after_the_end() -> None:
    api: Any = AcknowledgingApi()
    writer = Writer(api)
    writer.start()
    assert api.enough.wait(60)
    writer.stop()
    assert writer._thread is not None
    assert not writer._thread.is_alive()
