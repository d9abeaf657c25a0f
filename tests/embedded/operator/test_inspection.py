"""Looks into machines of clusters, on a real API server; what a login finds is played."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.kube.client import Json
from harness.kube.objects import condition, dig
from harness.machines.programs import Inspected
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.operator.controllers import inspection
from harness.operator.controllers.ssh import ProbeTrouble, TroubleReason
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
from tests.unit.operator.api.objects import wanted_set

CONTROLLERS = ("machine", "machineset", "claims", "inspection")
KUBELET, API = "/var/lib/kubelet/config.yaml", "/etc/kubernetes/manifests/kube-apiserver.yaml"
FILES = {KUBELET: "k1", API: "a1"}


@dataclass
class PlayedLooks:
    """What looks into machines find.

    Attributes: found (the next answers), count (how many looks there were), gate (looks wait for it).
    """

    found: Inspected | ProbeTrouble = field(default_factory=lambda: Inspected(FILES, {}, "active"))
    count: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _: Json) -> Inspected | ProbeTrouble:
        self.count += 1
        self.gate.wait(WAIT_SECONDS)
        return self.found

    def more(self, than: int) -> None:
        """Wait for further looks."""
        until(
            lambda: self.count > than or NotYet(f"{self.count} looks"),
            deadline=Deadline.after(WAIT_SECONDS),
            what="a further look",
            interval=INTERVAL,
        )


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, logins: object) -> PlayedLooks:
    """Return what looks find, a few times in a second."""
    played = PlayedLooks()
    played.gate.set()
    monkeypatch.setattr(inspection, "ssh_inspection", lambda _: played)
    monkeypatch.setattr(inspection, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(inspection, "AGAIN_SECONDS", 0.1)
    return played


@pytest.fixture
def context(manager: StartManager, looks: PlayedLooks) -> OperatorContext:
    """Return a running manager that looks into machines."""
    return manager(*CONTROLLERS)


@pytest.fixture
def deployed(declared: Declared, context: OperatorContext) -> Declared:
    """Return objects with Machine m-0 deployed in cluster one."""
    declared.machine("m-0")
    declared.deployment("one", wanted_set("cp", "control-plane"))
    declared.phase("m-0", "Claimed")
    declared.worked("one", "deploy", "m-0")
    declared.reason("m-0", "SettingsAsApplied", "AsApplied")
    return declared


def settings(found: Json) -> Any:
    return dig(found, "status", "settings")


def test_a_changed_file_is_said_and_put_back_is_said_too(deployed: Declared, looks: PlayedLooks) -> None:
    assert settings(deployed.get("m-0")) == {
        "seen": "1-1",
        "operation": "1-1",
        "files": [f"a1 {API}", f"k1 {KUBELET}"],
        "changed": [],
    }
    looks.found = Inspected({**FILES, API: "a2"}, {}, "active")
    said = deployed.reason("m-0", "SettingsAsApplied", "Changed")
    assert said["status"] == "False"
    assert f"{API} was changed" in said["message"]
    deployed.said("m-0", "Warning Changed")
    looks.found = Inspected(FILES, {}, "active")
    deployed.reason("m-0", "SettingsAsApplied", "AsApplied")


def test_a_machine_is_left_alone_while_an_operation_runs(
    deployed: Declared, looks: PlayedLooks, context: OperatorContext
) -> None:
    looks.gate.clear()
    looks.more(looks.count)  # one is under way
    looks.found = Inspected({**FILES, API: "a2"}, {}, "active")
    deployed.works("one", "reconfigure", "m-0")
    (controller,) = [one for one in context.controllers if one.name == "inspection"]

    def noticed() -> bool | NotYet:
        running = dig(context.informers.of(CLUSTER).get(deployed.namespace, "one"), "status", "operation")
        return bool(running) or NotYet("the operation was not seen")

    until(noticed, deadline=Deadline.after(WAIT_SECONDS), what="the operation to be seen", interval=INTERVAL)
    count, before = looks.count, controller.reconciles
    looks.gate.set()  # what the look found may be half of what the operation does
    until(
        lambda: controller.reconciles > before or NotYet("the look was not over"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="another turn of the controller",
        interval=INTERVAL,
    )
    assert (looks.count, settings(deployed.get("m-0"))["changed"]) == (count, [])
    deployed.worked("one", "reconfigure", "m-0")
    deployed.wait("m-0", lambda one: f"a2 {API}" in str(settings(one)), "looked into again")


def test_two_logins_that_fail_are_news(deployed: Declared, looks: PlayedLooks) -> None:
    deployed.reason("m-0", "Answering", "LoggedIn")
    looks.found = ProbeTrouble(TroubleReason.UNREACHABLE, "no route to host")
    assert deployed.reason("m-0", "Answering", "Unreachable")["status"] == "False"
    assert condition(deployed.get("m-0"), "Reachable") is None  # what was said of it before the cluster had it
    looks.found = Inspected(FILES, {}, "active")
    deployed.reason("m-0", "Answering", "LoggedIn")


def test_a_machine_that_left_has_nothing_of_it(deployed: Declared) -> None:
    deployed.worked("one", "reset")
    deployed.wait("m-0", lambda one: settings(one) is None, "without what was found")
    deployed.api.delete(CLUSTER_DEPLOYMENT, "one", deployed.namespace)
    found = deployed.phase("m-0", "Idle")
    assert condition(found, "SettingsAsApplied") is condition(found, "Answering") is None


def test_looks_that_find_the_same_write_nothing(
    declared: Declared, manager: StartManager, looks: PlayedLooks, client: RecordedCluster
) -> None:
    manager("machine", "machineset", "claims")
    declared.machine("m-0")
    declared.deployment("one", wanted_set("cp", "control-plane"))
    declared.phase("m-0", "Claimed")
    declared.worked("one", "deploy", "m-0")
    manager("inspection", client=client)
    declared.reason("m-0", "SettingsAsApplied", "AsApplied")
    looks.more(looks.count + 1)
    before = len(client.writes())
    looks.more(looks.count + 5)
    assert len(client.writes()) == before
