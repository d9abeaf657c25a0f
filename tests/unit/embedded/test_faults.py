"""Faults are shown only when asked for, by an annotation or by the scenario file, and only as they can be."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded import faults as failures
from harness.embedded.faults import PREFIX, Faults
from harness.kube.objects import condition

LONG_AGO = "2020-01-01T00:00:00Z"


def vmi(**faults: str) -> dict[str, Any]:
    annotations = {PREFIX + name.replace("_", "-"): text for name, text in faults.items()}
    meta = {
        "name": "m-0",
        "namespace": "cell",
        "uid": "1-2-3",
        "annotations": annotations,
        "creationTimestamp": LONG_AGO,
    }
    running = {"phase": "Running", "phaseTransitionTimestamp": LONG_AGO}
    status = {
        "phase": "Running",
        "nodeName": "n0",
        "activePods": {"p1": "n0"},
        "interfaces": [{"name": "default", "ipAddress": "10.1.1.1"}],
        "phaseTransitionTimestamps": [running],
    }
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta, "status": status}


def pod(**faults: str) -> dict[str, Any]:
    annotations = {PREFIX + name.replace("_", "-"): text for name, text in faults.items()}
    labels = {"vm.kubevirt.io/name": "m-0", "kubevirt.io": "virt-launcher"}
    container = {"name": "compute", "image": "launcher:1", "resources": {"limits": {}, "requests": {"cpu": "1"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": "virt-launcher-m-0", "namespace": "cell", "labels": labels, "annotations": annotations},
        "spec": {"nodeSelector": {}, "containers": [container]},
        "status": {"phase": "Pending"},
    }


def scenario(folder: Path, *rules: dict[str, Any]) -> Faults:
    (folder / "faults.yml").write_text(yaml.safe_dump(list(rules)), encoding="utf-8")
    return Faults(folder)


def test_nothing_is_shown_unless_asked_for(tmp_path: Path) -> None:
    for faults in (Faults(), Faults(tmp_path)):
        assert faults.of(vmi(), "no-guest") is None
        assert failures.reported_status(faults, vmi()) is None
        assert failures.with_requests(faults, pod()) == pod()
        assert failures.not_started(faults, pod()) == ""


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
        ("{a: [", "malformed YAML"),
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


def test_an_agent_that_connects_brings_an_address_of_its_own() -> None:
    status = failures.reported_status(Faults(), vmi(agent=""))
    assert status is not None
    assert condition({"status": status}, "AgentConnected") is not None
    assert status["interfaces"][0]["ipAddress"] == "10.0.2.2"
    assert failures.reported_status(Faults(), {**vmi(agent=""), "status": status}) is None  # once


def test_a_move_changes_launcher_node_and_address_once() -> None:
    status = failures.reported_status(Faults(), vmi(moves=""))
    assert status is not None
    assert list(status["activePods"].values()) == ["elsewhere"]
    assert status["migrationState"]["completed"] is True
    assert failures.reported_status(Faults(), {**vmi(moves=""), "status": status}) is None


def test_the_scheduler_is_asked_for_what_no_node_has() -> None:
    asked = failures.with_requests(Faults(), pod(unschedulable=""))
    assert asked["spec"]["containers"][0]["resources"]["requests"]["devices.kubevirt.io/kvm"] == "2k"
    asked = failures.with_requests(Faults(), pod(unschedulable="{cpu_model: Cooperlake}"))
    assert asked["spec"]["nodeSelector"] == {"cpu-model.node.kubevirt.io/Cooperlake": "true"}


def test_an_image_that_cannot_be_pulled_looks_as_a_kubelet_writes_it() -> None:
    status = failures.not_started(Faults(), pod(image_pull=""))
    assert isinstance(status, dict)
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "launcher:1"'}
    assert status["phase"] == "Pending"
