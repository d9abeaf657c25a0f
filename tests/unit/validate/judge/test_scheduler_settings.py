"""A scheduler with another file, or that has not read it, is found."""

from __future__ import annotations

from typing import Any

import pytest

from harness.validate.facts.customised_seen import CustomisedFacts, customised_of
from harness.validate.judge.scheduler_settings import other_scheduler
from tests.unit.validate import customised


def test_the_scheduler_of_the_cell_passes() -> None:
    facts = {"cp-0": CustomisedFacts({}, customised.scheduler())}
    assert other_scheduler(facts, customised.expected()) == []
    assert [one.seen for one in other_scheduler({}, customised.expected())] == ["none"]
    (gone,) = other_scheduler({"cp-0": CustomisedFacts({}, None)}, customised.expected())
    assert gone.expected == "a running process"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": ""}, "--config '/etc/kubernetes/scheduler/config.yml'; saw None"),
        ({"content": {"parallelism": 4}}, "/etc/kubernetes/scheduler/config.yml: expected the content"),
        ({"newer": 30.2}, "the file is 30 s newer than the process"),
        ({"status": 403}, "/configz: expected 200; saw 403"),
        ({"running": {**customised.scheduler().running, "PercentageOfNodesToScore": 0}}, "ToScore 60; saw 0"),
        ({"running": {**customised.scheduler().running, "profiles": []}}, "profiles[second-scheduler]"),
    ],
)
def test_another_scheduler_is_found(change: dict[str, Any], words: str) -> None:
    facts = {"cp-0": CustomisedFacts({}, customised.scheduler(**change))}
    assert words in "\n".join(map(str, other_scheduler(facts, customised.expected())))


def test_a_scheduler_of_a_hardened_cell_shows_no_profiles_by_its_file() -> None:
    hardened = customised.expected(cluster_profiling=False)
    profiles = {"enableProfiling": False}
    as_before = CustomisedFacts({}, customised.scheduler())
    found = "\n".join(map(str, other_scheduler({"cp-0": as_before}, hardened)))
    assert "'enableProfiling': False" in found
    seen = customised.scheduler()
    right = customised.scheduler(content={**seen.content, **profiles}, running={**seen.running, **profiles})
    assert other_scheduler({"cp-0": CustomisedFacts({}, right)}, hardened) == []


def test_a_file_that_is_no_yaml_is_a_finding() -> None:
    seen = {"file": "/a", "content": "a: [", "newer": 0, "status": 200, "running": {}}
    facts = customised_of({"volumes": {}, "scheduler": seen}).scheduler
    assert facts is not None
    assert facts.content.startswith("no YAML: ")
