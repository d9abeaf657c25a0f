"""Whoever looks on is told of each phase, of all machines, and of the guest that is there before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.steps import Steps
from harness.cell.variables import named_machines
from harness.errors import ProductError
from harness.model import Cell, Environment, GuestCluster, Phase
from harness.record import Recorder

PHASES = (Phase("deploy"), Phase("upgrade"), Phase("reset", cluster=False), Phase("deploy"))


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    cell = Cell("c", {}, "s", PHASES, (), {})
    environment = Environment("r", cell, 1, "ns", (), tmp_path, tmp_path / "id")
    site: Any = None
    made = Life(site, Attempt("abcdef", cell, 1, tmp_path), Steps(Recorder(tmp_path), "c", 1))
    monkeypatch.setattr(Life, "provision", lambda _: environment)
    monkeypatch.setattr(Life, "_apply", lambda _, whole, index: GuestCluster(whole, tmp_path, {"phase": index}))
    return made


def test_who_looks_on_is_told_of_each_phase_and_of_the_guest_before_it(life: Life) -> None:
    told: list[tuple[int, Any]] = []

    @contextmanager
    def watch(index: int, _: Environment, before: GuestCluster | None) -> Iterator[None]:
        told.append((index, before.expected["phase"] if before is not None else None))
        yield

    life.watch = watch
    life.apply(3)
    assert told == [(0, None), (1, 0), (2, 1), (3, None)], "after a reset there is no guest before the next phase"


def test_who_looks_on_is_left_when_a_phase_fails(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[BaseException] = []

    @contextmanager
    def watch(*_: object) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            left.append(error)
            raise

    def fail(*_: object) -> GuestCluster:
        raise ProductError("no")

    life.watch = watch
    monkeypatch.setattr(Life, "_apply", fail)
    with pytest.raises(ProductError):
        life.apply(0)
    assert len(left) == 1


def test_the_playbooks_are_told_who_leaves_and_who_is_lost() -> None:
    assert named_machines(Phase("x", removed=("w-0",), lost=("cp-2", "cp-1"))) == {
        "cluster_remove_nodes": ["w-0"],
        "cluster_lost_nodes": ["cp-2", "cp-1"],
    }
    assert named_machines(Phase("x")) == {}
