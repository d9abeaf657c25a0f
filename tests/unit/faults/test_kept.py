"""What became of a fault is kept from call to call, until the fault changes."""

from __future__ import annotations

from pathlib import Path

from tests.faults import kept, score
from tests.faults.fault import Fault, Where
from tests.faults.trial import Verdict
from tests.unit.faults.test_score import fault

OTHER = Fault.model_validate({**fault().model_dump(), "id": "A02"})


def verdict(of: Fault, *, explained: bool = True, trouble: str = "") -> Verdict:
    return Verdict(of, "single", detected=True, explained=explained, trouble=trouble, on="2026-11-23")


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    said = [verdict(fault()), verdict(OTHER, explained=False, trouble="not undone")]
    score.write(said, tmp_path, 2)
    assert kept.read(tmp_path, [fault(), OTHER]) == said
    assert kept.read(tmp_path / "nothing", [fault()]) == []


def test_a_fault_that_has_changed_is_tried_again(tmp_path: Path) -> None:
    score.write([verdict(fault())], tmp_path, 1)
    changed = fault().model_copy(update={"inject": {Where.WORKER: "false"}})
    assert kept.read(tmp_path, [changed]) == []


def test_the_last_verdict_counts() -> None:
    bad, good = verdict(fault(), explained=False), verdict(fault())
    assert kept.together([bad, verdict(OTHER)], [good]) == [good, verdict(OTHER)]
