"""A DataVolume's status follows its claim, in the recorded order."""

from __future__ import annotations

from typing import Any

import pytest

from harness.embedded.cdi import claims
from harness.embedded.cdi.status import Notice, with_claim, without_claim

T0, T1 = "2026-11-21T10:00:00Z", "2026-11-21T10:00:09Z"
HTTP = {"http": {"url": "http://images/debian.qcow2"}}
MESSAGE = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
RUNNING = {claims.POD_PHASE: "Running", claims.RUNNING: "true", claims.RUNNING_REASON: "Pod is running"}


def data_volume(status: dict[str, Any] | None = None, source: dict[str, Any] | None = None) -> dict[str, Any]:
    dv: dict[str, Any] = {"metadata": {"name": "dv", "namespace": "ns", "uid": "u"}, "spec": {"source": source or HTTP}}
    return dv if status is None else {**dv, "status": status}


def claim(phase: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    said = {claims.IMPORT_POD: "importer-dv", **annotations} if annotations else {}
    return {"metadata": {"name": "dv", "namespace": "ns", "annotations": said}, "status": {"phase": phase}}


def walk(*claims: dict[str, Any], source: dict[str, Any] | None = None) -> tuple[list[str], dict[str, Any], list[str]]:
    """Lead a new DataVolume along its claim's states; return its phases, last status and the reasons of its events."""
    status: dict[str, Any] | None = None
    phases: list[str] = []
    told: list[str] = []
    for state in claims:
        for change in with_claim(data_volume(status, source), state, None, T1):
            status = change.status
            phases += [status["phase"]] if [status["phase"]] != phases[-1:] else []
            told += [n.reason for n in change.notices]
    assert status is not None
    return phases, status, told


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in status["conditions"]}


def test_a_good_import_takes_every_phase_and_tells_each() -> None:
    done = {claims.POD_PHASE: "Succeeded", claims.RUNNING: "false", claims.RUNNING_REASON: "Completed"}
    phases, status, told = walk(claim("Pending"), claim("Bound"), claim("Bound", RUNNING), claim("Bound", done))
    assert phases == ["Pending", "PVCBound", "ImportScheduled", "ImportInProgress", "Succeeded"]
    assert told == ["Pending", "Bound", "ImportInProgress", "ImportSucceeded"]
    assert status["progress"] == "100.0%"
    assert conditions(status) == {"Bound": ("True", "Bound"), "Ready": ("True", ""), "Running": ("False", "Completed")}


def test_phases_that_were_too_quick_to_be_seen_are_gone_through() -> None:
    done = {claims.POD_PHASE: "Succeeded", claims.RUNNING: "false", claims.RUNNING_REASON: "Completed"}
    phases, _, told = walk(claim("Bound", done))
    assert phases == ["Pending", "PVCBound", "ImportScheduled", "ImportInProgress", "Succeeded"]
    assert told == ["Pending", "Bound", "ImportInProgress", "ImportSucceeded"]


def test_an_importer_that_needs_scratch_space_is_made_anew_and_its_good_end_is_a_warning() -> None:
    stopped = {claims.RUNNING: "false"}
    creating = {**stopped, claims.POD_PHASE: "Pending", claims.RUNNING_REASON: "ContainerCreating"}
    scratch = {**RUNNING, **stopped, claims.RUNNING_REASON: "Scratch space required"}
    scratch[claims.RUNNING_MESSAGE] = "scratch space required and none found"
    ended = {**RUNNING, **stopped, claims.RUNNING_REASON: "Completed", claims.RUNNING_MESSAGE: "Import Complete"}
    steps = [creating, RUNNING, scratch, creating, RUNNING, ended, {**ended, claims.POD_PHASE: "Succeeded"}]
    phases, status, told = walk(claim("Pending"), *(claim("Bound", step) for step in steps))
    twice = ["ImportScheduled", "ImportInProgress"] * 2
    assert phases == ["Pending", "PVCBound", *twice, "Succeeded"]
    assert told == ["Pending", "Bound", *twice[1:], "Completed", "ImportSucceeded"]
    assert conditions(status)["Running"] == ("False", "Completed")


def test_a_wrong_checksum_is_fatal_at_once() -> None:
    wrong = {
        claims.POD_PHASE: "Failed",
        claims.FATAL: "true",
        claims.RUNNING: "false",
        claims.RUNNING_REASON: "ChecksumError",
        claims.RUNNING_MESSAGE: "Unable to process data: checksum mismatch: expected a, calculated b",
    }
    phases, status, told = walk(claim("Bound"), claim("Bound", wrong))
    assert phases == ["Pending", "PVCBound", "ImportScheduled", "Failed"]
    assert conditions(status)["Running"] == ("False", "ChecksumError")
    assert told[-2:] == ["ImportFailed", "ChecksumError"]


def test_an_import_that_fails_stays_in_progress_and_counts_its_restarts() -> None:
    failed = {
        **RUNNING,
        claims.RUNNING: "false",
        claims.RUNNING_REASON: "Error",
        claims.RUNNING_MESSAGE: MESSAGE,
        claims.POD_RESTARTS: "3",
    }
    phases, status, told = walk(claim("Bound"), claim("Bound", RUNNING), claim("Bound", failed))
    assert phases[-1] == "ImportInProgress"
    assert status["restartCount"] == 3
    assert conditions(status)["Running"] == ("False", "Error")
    assert told[-1] == "Error"


def test_a_lost_claim_fails_the_data_volume() -> None:
    phases, _, told = walk(claim("Bound"), claim("Lost"))
    assert phases[-1] == "Failed"
    assert "ErrClaimLost" in told


def test_a_clone_has_words_of_its_own() -> None:
    source = {"pvc": {"namespace": "golden", "name": "debian"}}
    done = {claims.POD_PHASE: "Succeeded", claims.RUNNING: "false", claims.RUNNING_REASON: "Completed"}
    phases, _, told = walk(claim("Bound"), claim("Bound", RUNNING), claim("Bound", done), source=source)
    assert phases == ["Pending", "CloneScheduled", "CloneInProgress", "Succeeded"]
    assert [reason for reason in told if reason.startswith("Clone")] == [
        "CloneScheduled",
        "CloneInProgress",
        "CloneSucceeded",
    ]


@pytest.mark.parametrize(("progress", "text"), [(12.3449, "12.34%"), (0.0, "0.00%"), (100.4, "100.00%")])
def test_progress_is_told_in_percent(progress: float, text: str) -> None:
    _, status, _ = walk(claim("Pending"))
    changes = with_claim(data_volume(status), claim("Bound", RUNNING), progress, T0)
    assert changes[-1].status["progress"] == text


def test_progress_that_nobody_knows_stays_what_it_was() -> None:
    _, before, _ = walk(claim("Bound"))
    status = {**before, "progress": "40.00%", "phase": "ImportInProgress"}
    assert with_claim(data_volume(status), claim("Bound", RUNNING), None, T0)[-1].status["progress"] == "40.00%"


def test_nothing_new_changes_nothing() -> None:
    _, status, _ = walk(claim("Bound"), claim("Bound", RUNNING))
    assert with_claim(data_volume(status), claim("Bound", RUNNING), None, "2026-11-21T11:11:11Z") == []


def test_a_condition_that_keeps_its_status_keeps_its_transition_time() -> None:
    first = without_claim(data_volume(), T0, notice=Notice("Warning", "ErrExceededQuota", "exceeded quota: q")).status
    status = with_claim(data_volume(first), claim("Pending"), None, T1)[-1].status
    bound = next(c for c in status["conditions"] if c["type"] == "Bound")
    assert (bound["lastTransitionTime"], bound["lastHeartbeatTime"]) == (T0, T1)


def test_a_reason_why_there_is_no_claim_is_told_once() -> None:
    notice = Notice("Warning", "ErrExceededQuota", "exceeded quota: q")
    first = without_claim(data_volume(), T0, notice=notice)
    again = without_claim(data_volume(first.status), T1, notice=notice)
    assert [n.reason for n in first.notices] == ["ErrExceededQuota"]
    assert conditions(first.status)["Bound"] == ("False", "ErrExceededQuota")
    assert (again.status, again.notices) == (first.status, ())
