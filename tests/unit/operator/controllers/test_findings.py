"""What a look into a machine becomes in its status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.kube.objects import condition as found_condition
from harness.machines.inspection_program import Inspected
from harness.operator.controllers.findings import findings, without_findings
from harness.operator.controllers.probe import ProbeTrouble, TroubleReason
from tests.unit.operator.controllers.objects import condition, machine

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
KUBELET = "/var/lib/kubelet/config.yaml"
HISTORY = [{"sequence": 1, "operation": "deploy", "outcome": "succeeded"}]
CLUSTER = {"status": {"history": HISTORY}}


def merged(body: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """Return a Machine after the patch of its status."""
    kept = {k: v for k, v in {**body["status"], **status}.items() if v is not None}
    return {**body, "status": kept}


def answering(body: dict[str, Any]) -> tuple[str, str]:
    said = found_condition(body, "Answering") or {}
    return str(said.get("status")), str(said.get("reason"))


def test_a_second_look_that_finds_the_same_changes_nothing() -> None:
    found = Inspected({KUBELET: "a1"}, {}, "active")
    body = merged(machine(), findings(machine(), found, 0, CLUSTER, NOW))
    assert answering(body) == ("True", "LoggedIn")
    assert (found_condition(body, "SettingsAsApplied") or {})["status"] == "True"
    assert merged(body, findings(body, found, 0, CLUSTER, NOW + timedelta(hours=1))) == body


def test_a_look_says_after_which_operation_it_was() -> None:
    assert findings(machine(), Inspected(), 0, CLUSTER, NOW)["settings"]["seen"] == "1-1"
    history = [{"sequence": 2, "operation": "backup", "outcome": "failed"}, *HISTORY]
    later = findings(machine(), Inspected(), 0, {"status": {"history": history}}, NOW)["settings"]
    assert (later["seen"], later["operation"]) == ("2-1", "1-1")


def test_a_kubelet_that_does_not_run_is_told() -> None:
    status = findings(machine(), Inspected({KUBELET: "a1"}, {}, "inactive"), 0, CLUSTER, NOW)
    said = found_condition({"status": status}, "Answering") or {}
    assert said["message"].endswith("can log in; its kubelet.service is inactive")
    of_etcd = findings(machine(), Inspected({}, {}, "inactive"), 0, CLUSTER, NOW)
    assert "kubelet" not in (found_condition({"status": of_etcd}, "Answering") or {})["message"]


def test_one_login_that_fails_is_no_news_and_two_are() -> None:
    lost = ProbeTrouble(TroubleReason.UNREACHABLE, "no route to host 1")
    body = machine("m-0", condition("Answering", "True", generation=None))
    assert findings(body, lost, 1, CLUSTER, NOW) == {}
    assert answering(merged(body, findings(body, lost, 2, CLUSTER, NOW))) == ("False", "Unreachable")


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (TroubleReason.KEY_REFUSED, "True"),  # whoever refuses a key runs
        (TroubleReason.NOT_PERMITTED, "True"),
        (TroubleReason.KEY_MISSING, "Unknown"),  # nobody was asked
        (TroubleReason.INVALID_KEY, "Unknown"),
    ],
)
def test_a_trouble_of_ours_says_nothing_against_the_machine(reason: TroubleReason, status: str) -> None:
    body = merged(machine(), findings(machine(), ProbeTrouble(reason, "so"), 5, CLUSTER, NOW))
    assert answering(body) == (status, reason)


def test_what_was_found_stays_while_a_machine_does_not_answer() -> None:
    body = merged(machine(), findings(machine(), Inspected({KUBELET: "a1"}), 0, CLUSTER, NOW))
    lost = ProbeTrouble(TroubleReason.UNREACHABLE, "no route to host")
    assert set(findings(body, lost, 2, CLUSTER, NOW)) == {"conditions"}


def test_keys_of_certificates_that_are_gone_go() -> None:
    body = machine()
    body["status"]["certificates"] = {"otherExpiry": "x", "otherFile": "y"}
    assert findings(body, Inspected(), 0, CLUSTER, NOW)["certificates"] is None


def test_a_machine_that_left_has_nothing_of_it() -> None:
    body = merged(machine("m-0", condition("Empty", "True")), findings(machine(), Inspected(), 0, CLUSTER, NOW))
    body["status"]["conditions"].append(condition("Reachable", "True"))
    status = without_findings(body)
    assert status["settings"] is status["certificates"] is None
    assert [one["type"] for one in status["conditions"]] == ["Reachable"]
    assert "conditions" not in without_findings(machine("m-0", condition("Empty", "True")))
