"""Machines on a real API server, with logins that are played: what they say of themselves, and when."""

from __future__ import annotations

import pytest

from harness.kube.objects import condition, dig, now
from harness.operator.api.resources import MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers import machine
from harness.operator.controllers.machine import Pace, StatusOfMachines
from harness.operator.controllers.ssh import ProbeTrouble, TroubleReason
from harness.operator.registry import stop
from harness.providers.embedded import EmbeddedProvider
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins, bare
from tests.embedded.operator.recorded import Asked, RecordedCluster
from tests.unit.operator.api.objects import wanted_set

pytestmark = pytest.mark.usefixtures("logins")


def test_a_bare_machine_is_idle_and_says_what_it_is(declared: Declared, manager: StartManager) -> None:
    manager("machine")
    declared.machine("m-0")
    status = declared.phase("m-0", "Idle")["status"]
    assert status["facts"] == {
        "os": "Debian GNU/Linux 13 (trixie)",
        "cpus": 2,
        "memoryMiB": 2048,
        "machineID": "m-0",
    }
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"Reachable": "True", "Empty": "True"}


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        (TroubleReason.UNREACHABLE, "Unreachable"),
        (TroubleReason.KEY_MISSING, "Failed"),
        (TroubleReason.INVALID_KEY, "Failed"),
        (TroubleReason.KEY_REFUSED, "Failed"),
        (TroubleReason.NOT_PERMITTED, "Failed"),
    ],
)
def test_a_machine_that_cannot_be_used_says_why(
    declared: Declared, manager: StartManager, logins: PlayedLogins, reason: TroubleReason, phase: str
) -> None:
    logins.answers["m-0"] = ProbeTrouble(reason, "what went wrong; what to do")
    manager("machine")
    declared.machine("m-0")
    found = declared.phase("m-0", phase)
    assert condition(found, "Reachable") == {
        "type": "Reachable",
        "status": "False",
        "reason": reason,
        "message": "what went wrong; what to do",
        "observedGeneration": 1,
        "lastTransitionTime": dig(condition(found, "Reachable"), "lastTransitionTime"),
    }
    declared.said("m-0", f"Warning {reason}: what went wrong; what to do")


def test_a_machine_that_is_a_node_already_is_refused(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    logins.answers["m-0"] = bare("one", "/etc/kubernetes/kubelet.conf")
    manager("machine")
    declared.machine("m-0")
    declared.phase("m-0", "Failed")
    assert "/etc/kubernetes/kubelet.conf" in declared.reason("m-0", "Empty", "NotEmpty")["message"]


def test_a_machine_that_was_repaired_is_found_without_an_edit(
    declared: Declared, manager: StartManager, logins: PlayedLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "TROUBLE", Pace(0.1, 0.1, 0.0))
    logins.answers["m-0"] = ProbeTrouble(TroubleReason.UNREACHABLE, "down")
    manager("machine")
    declared.machine("m-0")
    declared.phase("m-0", "Unreachable")
    del logins.answers["m-0"]
    declared.phase("m-0", "Idle")


def test_an_idle_machine_that_does_not_answer_any_more_is_found_out(
    declared: Declared, manager: StartManager, logins: PlayedLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "FINE", Pace(0.1, 0.1, 0.0))
    manager("machine")
    declared.machine("m-0")
    declared.phase("m-0", "Idle")
    logins.answers["m-0"] = ProbeTrouble(TroubleReason.UNREACHABLE, "down")
    declared.phase("m-0", "Unreachable")


def test_an_edited_machine_is_looked_at_anew(declared: Declared, manager: StartManager, logins: PlayedLogins) -> None:
    manager("machine")
    declared.machine("m-0")
    declared.phase("m-0", "Idle")
    logins.answers["m-0"] = ProbeTrouble(TroubleReason.KEY_REFUSED, "no")
    declared.api.merge(MACHINE, "m-0", {"spec": {"user": "somebody"}}, declared.namespace)
    found = declared.phase("m-0", "Failed")
    assert dig(condition(found, "Reachable"), "observedGeneration") == found["metadata"]["generation"]


def test_of_two_machines_with_one_machine_id_the_younger_is_refused_and_names_the_older(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    logins.answers |= {"m-0": bare("same"), "m-1": bare("same")}
    manager("machine")
    declared.machine("m-0")
    declared.phase("m-0", "Idle")
    declared.machine("m-1", address="192.0.2.11")
    assert f"{declared.namespace}/m-0 (192.0.2.10)" in declared.reason("m-1", "Empty", "DuplicateMachineID")["message"]
    declared.phase("m-1", "Failed")
    assert dig(declared.get("m-0"), "status", "phase") == "Idle"
    declared.api.delete(MACHINE, "m-0", declared.namespace)
    declared.phase("m-1", "Idle")


def test_of_two_machines_with_one_machine_id_found_at_once_one_is_idle(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    names = [f"m-{number}" for number in range(6)]
    logins.answers |= dict.fromkeys(names, bare("same"))
    for name in names:
        declared.machine(name)
    manager("machine")
    for name in names[1:]:
        declared.reason(name, "Empty", "DuplicateMachineID")
    declared.phase("m-0", "Idle")


def test_of_two_machines_with_one_machine_id_the_second_is_refused_before_any_watch_tells(
    infra: EmbeddedProvider, declared: Declared, namespace: str
) -> None:
    context = OperatorContext.of(declared.api, infra.kubeconfig(), namespace=namespace)
    status = StatusOfMachines(context)
    for name in ("m-0", "m-1"):
        made = declared.machine(name)
        status.machines.observe(made)
        status.settle((namespace, name), bare("same"), made)
    assert [dig(declared.get(name), "status", "phase") for name in ("m-0", "m-1")] == ["Idle", "Failed"]


def test_what_was_found_by_an_earlier_spec_does_not_count(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    logins.hold("m-0")
    manager("machine")
    declared.machine("m-0")
    logins.waiting("m-0")
    declared.api.merge(MACHINE, "m-0", {"spec": {"port": 2222}}, declared.namespace)
    logins.answers["m-0"] = bare("after the edit")
    logins.release("m-0", bare("before the edit"))
    assert declared.phase("m-0", "Idle")["status"]["facts"]["machineID"] == "after the edit"
    assert logins.asked == ["m-0", "m-0"]


def test_another_writers_change_costs_no_second_login(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    others = {"type": "NodeReady", "status": "Unknown", "reason": "Other", "message": "", "lastTransitionTime": now()}

    def meanwhile(asked: Asked) -> None:
        if asked.path.endswith("/m-0/status") and asked.writes and not written:
            written.append(asked)
            patch = {"status": {"conditions": [others]}}
            declared.api.merge(MACHINE, "m-0", patch, declared.namespace, subresource="status")

    written: list[Asked] = []
    manager("machine", client=RecordedCluster.open(infra.kubeconfig(), before=meanwhile))
    declared.machine("m-0")
    kinds = {c["type"] for c in declared.phase("m-0", "Idle")["status"]["conditions"]}
    assert kinds == {"NodeReady", "Reachable", "Empty"}
    assert (len(written), logins.asked) == (1, ["m-0"])


def test_a_manager_that_starts_anew_neither_logs_in_nor_writes(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    first = manager("machine", "machineset", "claims")
    for name in ("m-0", "m-1"):
        declared.machine(name)
        declared.phase(name, "Idle")
    declared.deployment("one", wanted_set("cp", "control-plane"))
    declared.phase("m-0", "Claimed")
    declared.wait("one-cp", lambda found: dig(found, "status", "claimed") == 1, "whole", MACHINE_SET)
    stop(first)
    logins.asked.clear()
    client = RecordedCluster.open(infra.kubeconfig())
    manager("machine", "machineset", "claims", client=client)
    declared.machine("m-9")  # is looked at after all that was there before
    declared.phase("m-9", "Idle")
    assert ({asked.path.split("/")[-2] for asked in client.writes()}, logins.asked) == ({"m-9"}, ["m-9"])
