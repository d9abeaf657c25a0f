"""What each run strategy asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.embedded.vm.run_strategy import InstanceAction, backoff_seconds, decide, run_strategy, start_failure

Json = dict[str, Any]
NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
UID = "u1"
START = {"stateChangeRequests": [{"action": "Start"}]}
STOP = {"stateChangeRequests": [{"action": "Stop", "uid": UID}]}


def vm(strategy: str, **status: Any) -> Json:
    return {"metadata": {}, "spec": {"runStrategy": strategy}, "status": status}


def vmi(phase: str, *, deleting: bool = False, ran: bool = True) -> Json:
    meta: Json = {"uid": UID}
    if deleting:
        meta["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    transitions = [{"phase": "Running"}] if ran else []
    return {"metadata": meta, "status": {"phase": phase, "phaseTransitionTimestamps": transitions}}


RAN = {"runStrategy": "RerunOnFailure", "observedGeneration": 1}
WAITING = {"startFailure": {"consecutiveFailCount": 1, "retryAfterTimestamp": "2026-11-21T10:00:07Z"}}

TABLE: list[tuple[str, Json, Json | None, InstanceAction]] = [
    ("Always starts", vm("Always"), None, InstanceAction(start=True)),
    ("Always leaves a running one", vm("Always"), vmi("Running"), InstanceAction()),
    ("Always clears a failed one", vm("Always"), vmi("Failed"), InstanceAction(stop=True)),
    ("Always clears one that was shut down", vm("Always"), vmi("Succeeded"), InstanceAction(stop=True)),
    ("Always restarts on request", vm("Always", **STOP), vmi("Running"), InstanceAction(stop=True, answered=True)),
    ("Always waits out its back-off", vm("Always", **WAITING), None, InstanceAction(again=7.0)),
    ("nothing while one is going", vm("Always"), vmi("Running", deleting=True), InstanceAction()),
    ("Once starts", vm("Once"), None, InstanceAction(start=True)),
    ("Once leaves a failed one", vm("Once"), vmi("Failed"), InstanceAction()),
    ("Once leaves one that was shut down", vm("Once"), vmi("Succeeded"), InstanceAction()),
    ("Rerun starts the first time", vm("RerunOnFailure"), None, InstanceAction(start=True)),
    ("Rerun reruns a failed one", vm("RerunOnFailure"), vmi("Failed"), InstanceAction(stop=True, rerun=True)),
    ("Rerun clears one that was shut down", vm("RerunOnFailure"), vmi("Succeeded"), InstanceAction(stop=True)),
    ("Rerun stays down after a shut down", vm("RerunOnFailure", **RAN), None, InstanceAction()),
    ("Rerun starts on request", vm("RerunOnFailure", **RAN, **START), None, InstanceAction(start=True, answered=True)),
    ("Manual waits", vm("Manual"), None, InstanceAction()),
    ("Manual starts on request", vm("Manual", **START), None, InstanceAction(start=True, answered=True)),
    ("Manual stops on request", vm("Manual", **STOP), vmi("Running"), InstanceAction(stop=True, answered=True)),
    ("Manual leaves a failed one", vm("Manual"), vmi("Failed"), InstanceAction()),
    ("Halted stays down", vm("Halted"), None, InstanceAction()),
    ("Halted stops", vm("Halted"), vmi("Running"), InstanceAction(stop=True)),
]


@pytest.mark.parametrize(("machine", "instance", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_strategy_asks_for(machine: Json, instance: Json | None, expected: InstanceAction) -> None:
    assert decide(machine, instance, NOW) == expected


@pytest.mark.parametrize(("running", "strategy"), [(True, "Always"), (False, "Halted")])
def test_deprecated_running_stands_for_a_strategy(running: bool, strategy: str) -> None:
    assert run_strategy({"spec": {"running": running}}) == strategy


@pytest.mark.parametrize(("failures", "least", "most"), [(1, 10, 15), (2, 40, 60), (3, 90, 135), (6, 300, 300)])
def test_back_off_grows_with_the_square_of_failures(failures: int, least: float, most: float) -> None:
    assert backoff_seconds(failures, 0.0) == least
    assert backoff_seconds(failures, 1.0) == most


def test_instance_that_never_ran_counts_as_a_start_failure_once() -> None:
    first = start_failure(vm("Always"), vmi("Failed", ran=False), NOW)
    assert first is not None
    assert (first["consecutiveFailCount"], first["lastFailedVMIUID"]) == (1, UID)
    assert first["retryAfterTimestamp"] >= "2026-11-21T10:00:10Z"
    again = start_failure(vm("Always", startFailure=first), vmi("Failed", ran=False), NOW + timedelta(seconds=5))
    assert again == first


def test_start_failures_add_up_over_instances() -> None:
    before = {"consecutiveFailCount": 2, "lastFailedVMIUID": "u0", "retryAfterTimestamp": "2026-11-21T09:00:00Z"}
    after = start_failure(vm("Once", startFailure=before), vmi("Failed", ran=False), NOW)
    assert after is not None
    assert after["consecutiveFailCount"] == 3


def test_instance_that_ran_forgives_start_failures() -> None:
    assert start_failure(vm("Always", **WAITING), vmi("Failed", ran=True), NOW) is None


def test_start_failures_outlive_the_instance() -> None:
    assert start_failure(vm("Always", **WAITING), None, NOW) == WAITING["startFailure"]


@pytest.mark.parametrize("strategy", ["Manual", "Halted"])
def test_strategies_that_do_not_restart_count_no_failures(strategy: str) -> None:
    assert start_failure(vm(strategy, **WAITING), vmi("Failed", ran=False), NOW) is None
