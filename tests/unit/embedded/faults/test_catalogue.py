"""Faults are shown only when asked for, by an annotation or by the scenario file, and only as they can be."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded.faults import Faults, instances
from tests.unit.embedded.faults.samples import pod, vmi


def scenario(folder: Path, *rules: dict[str, Any]) -> Faults:
    (folder / "faults.yml").write_text(yaml.safe_dump(list(rules)), encoding="utf-8")
    return Faults(folder)


def test_nothing_is_shown_unless_asked_for(tmp_path: Path) -> None:
    for faults in (Faults(), Faults(tmp_path)):
        assert faults.of(vmi(), "no-guest") is None
        assert instances.reported_status(faults, vmi()) is None
        assert instances.with_requests(faults, pod()) == pod()
        assert instances.not_started(faults, pod()) == ""


def test_an_annotation_asks_with_parameters_and_defaults() -> None:
    asked = Faults().of(pod(launcher_crashes="{exit_code: 137, reason: OOMKilled}"), "launcher-crashes")
    assert asked is not None
    assert (asked["exit_code"], asked["reason"], asked["after"]) == (137, "OOMKilled", 0)
    assert Faults().of(pod(launcher_crashes=""), "launcher-crashes") is not None


def test_a_fault_ends_after_its_seconds() -> None:
    assert Faults().of(vmi(no_guest="{seconds: 60}"), "no-guest") is None
    assert Faults().of(vmi(no_guest="{seconds: 0}"), "no-guest") is not None


def test_the_scenario_file_asks_for_whom_it_names_and_may_change(tmp_path: Path) -> None:
    rule = {"kind": "VirtualMachine", "namespace": "cel*", "name": "m-*", "faults": {"no-guest": {}}}
    faults = scenario(tmp_path, rule)
    assert faults.of(vmi(), "no-guest") is not None
    assert faults.of(pod(), "no-guest") is not None  # the launcher of the same machine
    other = vmi()
    other["metadata"]["namespace"] = "another"
    assert faults.of(other, "no-guest") is None
    (tmp_path / "faults.yml").unlink()
    assert faults.of(vmi(), "no-guest") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{speed: 3}", "has no parameter speed"),
        ("[1]", "not a mapping of parameters"),
        ("{a: [", "not a YAML mapping"),
    ],
)
def test_a_request_that_makes_no_sense_is_said_once_and_not_shown(
    caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    faults = Faults()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert faults.of(vmi(no_guest=text), "no-guest") is None
    assert [said in record.getMessage() for record in caplog.records] == [True]


def test_a_scenario_with_an_unknown_fault_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    faults = scenario(tmp_path, {"kind": "VirtualMachine", "faults": {"no-such-thing": {}}})
    with caplog.at_level(logging.WARNING):
        faults.of(vmi(), "no-guest")
    assert "unknown fault no-such-thing" in caplog.text


def test_a_disks_fault_befalls_no_machine() -> None:
    assert Faults().of(vmi(import_fails=""), "import-fails") is None
