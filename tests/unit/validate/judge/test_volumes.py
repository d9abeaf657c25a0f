"""Volumes that a program lacks, has from elsewhere or may write to are found."""

from __future__ import annotations

import pytest

from harness.validate.facts.customised_seen import CustomisedFacts, SeenVolume
from harness.validate.findings import Unjudged
from harness.validate.judge.volumes import other_volumes
from tests.unit.validate import customised, guests


def test_the_volumes_of_the_cell_pass() -> None:
    facts = {"cp-0": CustomisedFacts(customised.volumes(), None)}
    assert other_volumes(facts, customised.expected()) == []
    assert [one.seen for one in other_volumes({}, customised.expected())] == ["none"]
    assert [type(one) for one in other_volumes(facts, guests.expected())] == [Unjudged]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (SeenVolume(same=False, read_only=True, why=""), "/usr/share of the machine; saw something else"),
        (SeenVolume(same=False, read_only=False, why="no such file"), "saw no such file"),
        (SeenVolume(same=True, read_only=False, why=""), "expected read-only; saw to be written to"),
        (None, "/usr/share of the machine; saw nothing"),
    ],
)
def test_another_volume_is_found(seen: SeenVolume | None, words: str) -> None:
    own = {} if seen is None else {"/srv/machine-share": seen}
    facts = {"cp-0": CustomisedFacts({**customised.volumes(), "kube-apiserver": own}, None)}
    (found,) = other_volumes(facts, customised.expected())
    assert words in str(found)


def test_a_program_that_does_not_run_is_found() -> None:
    there = {name: one for name, one in customised.volumes().items() if name != "kube-scheduler"}
    (found,) = other_volumes({"cp-0": CustomisedFacts(there, None)}, customised.expected())
    assert str(found) == "cp-0 kube-scheduler: expected a running process; saw none"
