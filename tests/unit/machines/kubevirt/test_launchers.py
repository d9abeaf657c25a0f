"""Launchers: which address counts, and what a container waits for or died of."""

from __future__ import annotations

from typing import Any

import pytest

from harness.machines.kubevirt.launchers import KnownMachine, Standing, died_of, presence, strategy, useless, waits_for

Json = dict[str, Any]


def ended(reason: str, code: int, message: str = "") -> Json:
    state = {"terminated": {"reason": reason, "exitCode": code, "message": message}}
    return {"containerStatuses": [{"name": "compute", "state": state}]}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.233.4.5", ""),
        ("fd00::5", ""),
        ("169.254.3.4", "link-local"),
        ("10.0.2.2", "masquerade"),
        ("127.0.0.1", "not an address"),
    ],
)
def test_addresses_that_nobody_reaches(address: str, why: str) -> None:
    assert (why in useless(address)) if why else useless(address) == ""


def test_what_containers_wait_for_and_died_of() -> None:
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]}
    assert waits_for({"status": waiting}) == "ErrImagePull: no such host"
    assert died_of({"status": ended("Error", 1, "panic: x\n")}) == "Error (exit code 1): panic: x"
    assert died_of({"status": ended("Completed", 0)}) == ""
    assert (waits_for(None), died_of(None)) == ("", "")


KNOWN = KnownMachine("vmi-1", "claim-1")


def vm(run: str = "Always", **more: Any) -> Json:
    return {
        "metadata": {"name": "w-0"},
        "spec": {"runStrategy": run},
        "status": {"printableStatus": "Starting"},
        **more,
    }


def vmi(uid: str = "vmi-1", phase: str = "Running", **status: Any) -> Json:
    return {"metadata": {"name": "w-0", "uid": uid}, "status": {"phase": phase, "nodeName": "node-a", **status}}


LOST: dict[str, tuple[Json | None, Json | None, str, str]] = {
    "nothing left": (None, None, "", "are gone"),
    "an instance without a VM that ended": (None, vmi(phase="Failed"), "claim-1", "no VirtualMachine starts another"),
    "ended, and is not started again": (vm("Once"), vmi(phase="Failed", reason="oom"), "claim-1", "is Failed (oom)"),
    "shut down, and is not started again": (vm("Once"), vmi(phase="Succeeded"), "claim-1", "Once does not start it"),
    "no instance, and is not started again": (vm("Once"), None, "", "starts no other"),
    "another disk": (vm(), vmi("vmi-2"), "claim-2", "claim claim-2 instead of claim-1"),
    "another instance without a disk": (vm(), vmi("vmi-2"), "", "without a disk"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_machine_that_does_not_come_back_is_lost(case: str) -> None:
    machine, instance, disk, said = LOST[case]
    seen = presence(machine, instance, KNOWN, disk)
    assert seen.standing is Standing.LOST
    assert said in seen.evidence


OTHERS: dict[str, tuple[Json | None, Json | None, str, Standing]] = {
    "runs": (vm(), vmi(), "claim-1", Standing.RUNNING),
    "runs without a VM": (None, vmi(), "claim-1", Standing.RUNNING),
    "was restarted with its disk": (vm(), vmi("vmi-2"), "claim-1", Standing.RUNNING),
    "has no instance for a moment": (vm(), None, "", Standing.STARTING),
    "failed, and is started again": (vm("RerunOnFailure"), vmi(phase="Failed"), "claim-1", Standing.STARTING),
    "shut down, and is started again": (vm(), vmi(phase="Succeeded"), "claim-1", Standing.STARTING),
    "starts": (vm(), vmi("vmi-2", phase="Scheduling"), "claim-2", Standing.STARTING),
    "was shut down": (vm("RerunOnFailure"), vmi(phase="Succeeded"), "claim-1", Standing.STOPPED),
    "was halted by a person": (vm("Halted"), None, "", Standing.STOPPED),
    "ended, and a person starts it": (vm("Manual"), vmi(phase="Failed"), "claim-1", Standing.STOPPED),
    "its VM is going": (vm(metadata={"name": "w-0", "deletionTimestamp": "2026"}), None, "", Standing.STOPPED),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_machine_that_runs_or_may_run_again_is_not_lost(case: str) -> None:
    machine, instance, disk, standing = OTHERS[case]
    assert presence(machine, instance, KNOWN, disk).standing is standing


def test_what_was_never_there_is_not_lost() -> None:
    assert presence(None, None, KnownMachine(), "").standing is Standing.STOPPED
    assert presence(vm("Once"), None, KnownMachine(), "").standing is Standing.STARTING


def test_the_older_field_is_a_strategy_too() -> None:
    assert [strategy({"spec": {"running": running}}) for running in (True, False)] == ["Always", "Halted"]
