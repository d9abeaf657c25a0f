"""A Machine's status, from probes and its cluster's API, and when it is looked at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.kube.objects import condition as found_condition
from harness.operator.controllers.guest import GuestView
from harness.operator.controllers.machine import (
    FINE,
    TROUBLE,
    ProbeTimes,
    as_node,
    distinct,
    facts_json,
    first_of_twins,
    found,
    no_node,
    outdated_dropped,
    steady,
)
from harness.operator.controllers.machine_phase import MachineUse
from harness.operator.controllers.ssh import ProbeTrouble, TroubleReason
from tests.unit.operator.controllers.objects import CLAIM, condition, facts, idle, machine

KEY = ("ns", "m-0")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pauses(times: ProbeTimes, clock: Clock, *, fine: bool, count: int) -> list[float]:
    """Return the pauses between looks at one machine that always end the same."""
    found = []
    for _ in range(count):
        times.note(KEY, 1, fine=fine)
        found.append(times.left(KEY, 1, fine=fine))
        clock.now += found[-1]
        assert times.left(KEY, 1, fine=fine) == 0
    return found


def test_looks_become_rare_at_a_machine_that_stays_as_it_is() -> None:
    clock = Clock()
    assert pauses(ProbeTimes(clock), clock, fine=False, count=8) == [5, 10, 20, 40, 80, 160, 300, 300]
    assert pauses(ProbeTimes(clock), clock, fine=True, count=6) == [60, 60, 120, 240, 480, 900]


def test_a_change_is_looked_at_soon_again() -> None:
    clock = Clock()
    times = ProbeTimes(clock)
    pauses(times, clock, fine=True, count=6)
    times.note(KEY, 1, fine=False)
    assert times.left(KEY, 1, fine=False) == TROUBLE.first
    pauses(times, clock, fine=False, count=6)
    times.note(KEY, 2, fine=False)
    assert times.left(KEY, 2, fine=False) == TROUBLE.first


def test_a_pool_of_any_size_costs_an_idle_manager_two_requests_a_minute() -> None:
    clock = Clock()
    times = ProbeTimes(clock)
    for number in range(200):
        times.note(("ns", f"m-{number}"), 1, fine=True)
    looks_a_minute = 200 * 60 / times.left(("ns", "m-0"), 1, fine=True)
    assert looks_a_minute <= 1


def test_after_a_restart_what_the_object_says_counts_as_a_look() -> None:
    clock = Clock()
    times = ProbeTimes(clock)
    assert times.left(KEY, 1, fine=True) == max(FINE.first, FINE.each)
    times.forget(KEY)
    assert times.left(KEY, 1, fine=False) == TROUBLE.first


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_login_to_a_bare_machine() -> None:
    reachable, empty = found(machine(user="debian"), facts(), NOON)
    assert (reachable["status"], empty["status"]) == ("True", "True")
    assert reachable["message"] == "debian can log in and become root"
    assert reachable["observedGeneration"] == empty["observedGeneration"] == 1


def test_traces_of_a_cluster_are_named() -> None:
    _, empty = found(machine(), facts("id", "/etc/kubernetes/kubelet.conf", "process kubelet"), NOON)
    assert (empty["status"], empty["reason"]) == ("False", "NotEmpty")
    assert "/etc/kubernetes/kubelet.conf, process kubelet is there; reset it" in empty["message"]


def test_of_a_machine_without_a_login_nothing_is_known() -> None:
    reachable, empty = found(machine(), ProbeTrouble(TroubleReason.KEY_MISSING, "no Secret"), NOON)
    assert (reachable["status"], reachable["reason"], reachable["message"]) == ("False", "KeyMissing", "no Secret")
    assert empty["status"] == "Unknown"


def test_the_machine_that_is_claimed_and_then_the_older_one_comes_first() -> None:
    older, younger = idle("b", made="2026-01-01T00:00:00Z"), idle("a", made="2026-01-02T00:00:00Z")
    claimed = idle("c", made="2026-01-03T00:00:00Z", claim=CLAIM)
    assert first_of_twins(younger, [older]) is older
    assert first_of_twins(older, [younger]) is None
    assert first_of_twins(older, [younger, claimed]) is claimed
    assert first_of_twins(older, []) is None


def test_a_twin_is_named_and_its_end_noticed() -> None:
    one, other = idle("m-1"), idle("m-0", address="192.0.2.7")
    (empty,) = distinct(one, other, NOON)
    assert (empty["status"], empty["reason"]) == ("False", "DuplicateMachineID")
    assert "Machine ns/m-0 (192.0.2.7) has the same machine-id" in empty["message"]
    one["status"]["conditions"] = [empty]
    assert distinct(one, other, NOON) == [empty]
    assert distinct(one, None, NOON)[0]["status"] == "True"


@pytest.mark.parametrize("reason", ["NotEmpty", "NotReachable"])
def test_a_twin_hides_nothing_else(reason: str) -> None:
    assert distinct(machine("m-0", condition("Empty", "False", reason)), idle("m-1"), NOON) == []
    assert distinct(idle("m-0"), None, NOON) == []


def test_other_numbers_in_a_message_are_no_news() -> None:
    before = condition("Reachable", "False", "Unreachable", "reset by 10.0.0.1:40512")
    same = condition("Reachable", "False", "Unreachable", "reset by 10.0.0.1:51004")
    assert steady([before], [same]) == [before]
    edited = {**same, "observedGeneration": 2}
    assert steady([before], [edited]) == [edited]
    other = condition("Reachable", "False", "Unreachable", "connection refused")
    assert steady([before], [other]) == [other]


def test_facts_have_the_names_of_the_api() -> None:
    assert set(facts_json(facts())) == {"os", "cpus", "memoryMiB", "machineID"}


Json = dict[str, Any]
SINCE = "2026-01-01T00:00:00Z"


def node(status: str, name: str = "m-0") -> Json:
    ready = {
        **condition("Ready", status, "KubeletReady", "kubelet is posting ready status"),
        "lastTransitionTime": SINCE,
    }
    info = {"kubeletVersion": "v1.36.3"}
    return {"metadata": {"name": name, "uid": "u"}, "status": {"conditions": [ready], "nodeInfo": info}}


def ready(status: Json) -> str:
    found = found_condition({"status": status}, "NodeReady")
    assert found is not None
    return str(found["status"])


@pytest.mark.parametrize(("said", "wanted"), [("True", "True"), ("False", "False"), ("Unknown", "False")])
def test_a_node_is_as_ready_as_its_cluster_says(said: str, wanted: str) -> None:
    status = as_node(machine(claim=CLAIM), GuestView({"m-0": node(said)}, None, ""), NOON)
    assert status["node"] == {"name": "m-0", "uid": "u", "version": "1.36.3", "ready": said, "since": SINCE}
    assert ready(status) == wanted


def test_a_node_has_the_hostname_of_its_machine() -> None:
    status = as_node(machine(claim=CLAIM, hostname="h"), GuestView({"h": node("True", "h")}, None, ""), NOON)
    assert status["node"]["name"] == "h"


def test_a_cluster_that_does_not_answer_says_nothing_of_its_nodes() -> None:
    known = machine("m-0", condition("NodeReady", "True", generation=None), claim=CLAIM)
    known["status"]["node"] = {"name": "m-0", "uid": "u", "version": "1.36.3", "ready": "True", "since": SINCE}
    status = as_node(known, GuestView(trouble="no route to host"), NOON)
    assert (ready(status), status["node"]["ready"], status["node"]["version"]) == ("Unknown", "Unknown", "1.36.3")
    assert "cluster one does not answer: no route to host" in status["conditions"][0]["message"]
    assert as_node(machine(claim=CLAIM), GuestView(trouble="x"), NOON)["node"] is None


def test_a_node_that_a_cluster_does_not_have_is_missing() -> None:
    status = as_node(machine(claim=CLAIM), GuestView({"m-1": node("True")}, None, ""), NOON)
    assert (ready(status), status["node"]) == ("False", None)


def test_a_machine_that_is_no_node_any_more_keeps_its_other_conditions() -> None:
    found = machine("m-0", condition("Reachable", "True"), condition("NodeReady", "True"))
    assert no_node(found) == {"node": None, "conditions": [condition("Reachable", "True")]}


@pytest.mark.parametrize("use", MachineUse)
def test_what_was_found_out_of_an_idle_machine_does_not_outlive_its_use(use: MachineUse) -> None:
    idle_says = [condition("Reachable", "True"), condition("Empty", "True", "Bare")]
    looked_at = [*idle_says, condition("Answering", "False")]
    kinds = [one["type"] for one in outdated_dropped(use, looked_at)]
    assert kinds == (["Answering"] if use.holds else ["Reachable", "Empty", "Answering"])
    assert [one["type"] for one in outdated_dropped(use, idle_says)] == (
        ["Reachable"] if use.holds else ["Reachable", "Empty"]
    )
