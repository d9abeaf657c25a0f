"""A cell that waits for room says what for, whether its run has workers or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from harness.cell.steps import Steps
from harness.events import Recorder
from harness.model import Cell
from harness.schedule.admission import Admission, Refused
from harness.schedule.durations import Durations
from harness.session import admit, plan_run
from harness.session.admit import Waiting
from harness.spec.options import RunRequest

REASONS = ("it needs 1 MiB; available: 0 MiB", "it needs 1 MiB; available: 7 MiB", "it yields to another")


class Full:
    """An admission that has room once it has refused a cell for each of several reasons."""

    def __init__(self, cell: Cell) -> None:
        self.answers: Iterator[Refused | None] = iter([*(Refused(cell, why) for why in REASONS), None])

    def try_admit(self, cell: Cell) -> Refused | None:
        """Return the next answer."""
        return next(self.answers)


def test_a_cell_that_waits_says_once_what_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (cell,) = plan_run(RunRequest(tier="single")).cells
    monkeypatch.setattr(admit, "LOOK_SECONDS", 0.001)
    told: list[tuple[str, str]] = []
    waiting = Waiting(cast("Admission", Full(cell)), Durations(), 60.0, lambda *words: told.append(words))
    waiting.admit(cell, Steps(Recorder(tmp_path), cell.id, 1))
    assert told == [(cell.id, REASONS[0]), (cell.id, REASONS[2])]
