"""What counts as detected and as explained, and what the score, the badge and the files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults import score
from tests.faults.__main__ import arguments
from tests.faults.fault import Fault
from tests.faults.suites import Said
from tests.faults.trial import Verdict, judged, line

CHECK = "nodes: test_no_unit_has_failed"


def fault(missed: str = "") -> Fault:
    steps = {"w": "true"}
    given = {"id": "A01", "what": "x", "inject": steps, "undo": steps, "check": CHECK, "words": ["A unit", "w-0"]}
    return Fault.model_validate({**given, "missed": missed})


def verdict(*, detected: bool, explained: bool, missed: str = "") -> Verdict:
    return Verdict(fault(missed), "single", detected, explained, ())


@pytest.mark.parametrize(
    ("said", "detected", "explained"),
    [
        ((), False, False),
        ((Said(CHECK, "w-0: a unit failed", failed=True),), True, True),
        ((Said(CHECK, "w-0: something failed", failed=True),), True, False),
        ((Said("nodes: test_other", "w-0: a unit failed", failed=True),), True, False),
        ((Said(CHECK, "w-0: a unit failed", failed=False),), False, False),
    ],
)
def test_the_right_check_must_say_the_right_words(said: tuple[Said, ...], *, detected: bool, explained: bool) -> None:
    found = judged(fault(), "single", said)
    assert (found.detected, found.explained) == (detected, explained)


def test_a_fault_that_others_are_blamed_for_is_not_as_expected() -> None:
    right = Said(CHECK, "w-0: a unit failed", failed=True)
    assert judged(fault(), "single", (right,)).as_expected
    found = judged(fault(), "single", (right, Said("nodes: test_other", "KeyError: items", failed=False)))
    assert not found.as_expected
    assert "nodes: test_other blames others than the product" in line(found)


def test_a_fault_that_is_known_to_be_missed_must_be_missed() -> None:
    assert verdict(detected=True, explained=True).as_expected
    assert not verdict(detected=True, explained=False).as_expected
    assert verdict(detected=False, explained=False, missed="nobody looks").as_expected
    assert not verdict(detected=True, explained=True, missed="nobody looks").as_expected


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ([], "runs/faults"),
        (["--shard", "3/10"], "runs/faults/3-of-10"),
        (["--shard", "3/10", "--results", "mine"], "mine"),
    ],
)
def test_each_part_keeps_its_score_in_a_folder_of_its_own(words: list[str], folder: str) -> None:
    assert arguments(words).results == Path(folder)


def test_enough_must_be_found() -> None:
    good = [verdict(detected=True, explained=True)] * 97
    known = [verdict(detected=False, explained=False, missed="nobody looks")] * 3
    assert score.good([*good, *known])
    assert not score.good([*good, *known, *known])
    assert not score.good([])
    assert not score.good([*good, verdict(detected=True, explained=False)])


def test_the_report_counts_by_suite_and_names_what_is_not_as_expected(tmp_path: Path) -> None:
    found = [verdict(detected=True, explained=True), verdict(detected=True, explained=False)]
    text = score.report(found, ["single: stuck"])
    assert "2 (100.0%)" in text
    assert "1 (50.0%)" in text
    assert "A01: detected" in text
    assert text.endswith("single: stuck")
    assert "wanted: nodes: test_no_unit_has_failed with A unit, w-0" in line(found[1])
    score.write(found, tmp_path, 3)
    assert json.loads((tmp_path / "faults.json").read_text())["suites"]["nodes"] == {
        "faults": 2,
        "detected": 2,
        "explained": 1,
    }
    assert "faults found: 2 of 2" in (tmp_path / "badge-faults.svg").read_text()
