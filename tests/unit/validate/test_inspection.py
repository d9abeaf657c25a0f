"""A guest is looked at once it has settled; an API that does not answer has somebody to blame."""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfraRetriable, ProductError
from harness.kube import Cluster
from harness.machines.reach.portforward import Tunnels, note
from harness.model import GuestCluster
from harness.spec.models.leaves import ClusterLeaves
from harness.until import Deadline, TimedOut
from harness.validate import inspection as inspecting
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, real
from harness.validate.inspection import Inspection, follow, settle
from harness.validate.topics import addons
from harness.validate.topics.kube_proxy import wrong_proxy_mode
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import NOWHERE, Change, Json
from tests.unit.validate.views import condition, named, recorded, without

IMPATIENT = TIMEOUTS.model_copy(update={"settle": 0})


def unanswered(tmp_path: Path) -> GuestCluster:
    """Return a guest at whose API's address nobody listens."""
    kubeconfig = tmp_path / "kubeconfig"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guest", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "admin", "context": {"cluster": "guest", "user": "admin"}}],
        "current-context": "admin",
    }
    kubeconfig.write_text(json.dumps(text), encoding="utf-8")
    return dataclasses.replace(guests.guest(), kubeconfig=kubeconfig)


def test_an_api_that_does_not_answer_is_the_products_fault(tmp_path: Path) -> None:
    guest = unanswered(tmp_path)
    with pytest.raises(ProductError, match=r"does not answer at https://127\.0\.0\.1:1") as failed:
        Inspection(guest, guests.OURS, ssh_options=(), timeouts=IMPATIENT).wait_for_api()
    assert "vmatrix login cell-1 cp-0" in failed.value.hint
    assert "refused" in failed.value.detail


def test_an_api_behind_a_way_that_is_broken_is_the_infras_fault(tmp_path: Path) -> None:
    guest = unanswered(tmp_path)
    path, log = tmp_path / "tunnels.json", tmp_path / "tunnels.log"
    Tunnels(tmp_path / "infra", None, "ns", {}, log).save(path)
    note(log, "10.0.0.1", 6443, "503 Service Unavailable")
    machines = tuple(dataclasses.replace(m, tunnels=path) for m in guest.environment.machines)
    guest = dataclasses.replace(guest, environment=dataclasses.replace(guest.environment, machines=machines))
    with pytest.raises(InfraRetriable, match="the tunnel to the guest's API server is broken: 503 Service Unavailable"):
        Inspection(guest, guests.OURS, ssh_options=(), timeouts=IMPATIENT).wait_for_api()


class Answers(Cluster):
    """An API that lists recorded objects, those of a later look at each further list of nodes."""

    def __init__(self, *looks: Json) -> None:
        super().__init__(NOWHERE)
        self.looks = list(looks)

    def list(self, resource: Any, *_: Any, **__: Any) -> Any:
        kinds = {"Node": "nodes", "Pod": "pods", "DaemonSet": "daemon_sets", "Deployment": "deployments"}
        items = self.looks[0][kinds[resource.kind]]
        if resource.kind == "Deployment" and len(self.looks) > 1:  # the last question of a look
            self.looks.pop(0)
        return type("Listing", (), {"items": items})


def unavailable(seen: ClusterView) -> list[Mismatch]:
    return addons.unavailable_deployments(seen, guests.expected())


def test_a_cluster_is_looked_at_until_it_has_settled() -> None:
    starting = recorded()
    named(starting["deployments"], "coredns")["status"]["availableReplicas"] = 0
    seen = settle(Answers(starting, recorded()), unavailable, Deadline.after(30))
    assert unavailable(seen) == []


def test_a_cluster_that_never_settles_is_judged_as_it_was_last() -> None:
    starting = recorded()
    named(starting["deployments"], "coredns")["status"]["availableReplicas"] = 0
    seen = settle(Answers(starting), unavailable, Deadline.after(0))
    assert [finding.seen for finding in unavailable(seen)] == ["0"]


def test_a_first_look_that_is_cut_short_is_taken_again() -> None:
    class Late(Answers):
        late = True

        def list(self, *given: Any, **named: Any) -> Any:
            if self.late:
                self.late = False
                raise TimedOut("no answer in time")
            return super().list(*given, **named)

    assert unavailable(settle(Late(recorded()), unavailable, Deadline.after(0))) == []


def inspected(looks: Json, leaves: ClusterLeaves = guests.OURS, *, seconds: float = 90.0) -> tuple[float, list[str]]:
    """Let a guest settle that always looks the same; return how long that took, and what is wrong then."""
    inspection = Inspection(guests.guest(), leaves, ssh_options=(), timeouts=TIMEOUTS)
    began = time.monotonic()
    seen = settle(Answers(looks), inspection._unsettled, Deadline.after(seconds), inspection.expected.namespaces)
    return time.monotonic() - began, [one.where for one in real(inspection._unsettled(seen))]


def restarted(raw: Json) -> None:
    named(raw["pods"], "coredns")["status"]["containerStatuses"][0]["restartCount"] = 7


def cordoned(raw: Json) -> None:
    raw["nodes"][1]["spec"]["unschedulable"] = True


def failed_pod(raw: Json) -> None:
    named(raw["pods"], "coredns")["status"]["phase"] = "Failed"


def stranger(raw: Json) -> None:
    raw["nodes"].append(copy.deepcopy(raw["nodes"][1]))
    raw["nodes"][-1]["metadata"]["name"] = "w-9"


AT_ONCE = 10.0  # seconds, on the busiest host; a guest that waits takes 90


@pytest.mark.parametrize(
    "change",
    [
        without("daemon_sets", "kube-flannel"),
        without("deployments", "coredns"),
        restarted,
        cordoned,
        failed_pod,
        stranger,
    ],
)
def test_what_waiting_cannot_change_costs_no_time_and_is_still_wrong(change: Change) -> None:
    looks = recorded()
    change(looks)
    seconds, wrong = inspected(looks)
    assert seconds < AT_ONCE
    assert wrong


@pytest.mark.parametrize("leaves", [foreign.SAID, foreign.UNSAID, guests.OURS], ids=["said", "unsaid", "ours"])
def test_a_cluster_of_another_layout_takes_no_longer_to_settle(leaves: ClusterLeaves) -> None:
    looks = foreign.raw_view()
    looks["pods"].append(copy.deepcopy(named(recorded()["pods"], "etcd-cp-0")))  # of etcd by kubeadm
    seconds, wrong = inspected(looks, leaves)
    assert seconds < AT_ONCE
    assert wrong == (["DaemonSet kube-flannel/kube-flannel-ds"] if leaves is guests.OURS else [])


def test_what_may_still_come_is_waited_for() -> None:
    looks = recorded()
    condition(named(looks["pods"], "kube-flannel"), "Ready", "False")
    seconds, wrong = inspected(looks, seconds=1.0)
    assert seconds >= 1.0
    assert wrong


def facts_without_rules(raw: Json) -> None:
    raw["nft_tables"] = ["table ip filter"]


def facts_of_another_mode(raw: Json) -> None:
    raw["endpoints"]["kube-proxy mode"] = {"status": 200, "body": "ipvs"}


def followed(looks: list[dict[str, NodeFacts]], *, seconds: float) -> tuple[int, list[str]]:
    """Gather facts as they are one after the other; return how often, and what is wrong at last."""
    count = 0

    def gather() -> dict[str, NodeFacts]:
        nonlocal count
        count += 1
        return looks[min(count, len(looks)) - 1]

    def wrong(facts: Mapping[str, NodeFacts]) -> list[Mismatch]:
        return wrong_proxy_mode(facts, guests.expected())

    found = follow(gather, wrong, Deadline.after(seconds))
    return count, [one.where for one in wrong(found)]


def test_a_kube_proxy_that_runs_may_write_its_rules_a_moment_later() -> None:
    assert followed([guests.facts(facts_without_rules), guests.facts()], seconds=30) == (2, [])


def test_a_kube_proxy_that_writes_no_rules_is_judged_as_it_was_last() -> None:
    assert followed([guests.facts(facts_without_rules)], seconds=0)[1] == ["cp-0"]


def test_the_mode_of_a_running_kube_proxy_is_not_waited_for() -> None:
    assert followed([guests.facts(facts_of_another_mode)], seconds=30) == (1, ["cp-0 kube-proxy"])


GATHERED = {  # property of an inspection -> the program that machines run for it
    "facts": "node.py",
    "files": "files.py",
    "running": "programs.py",
    "packets": "packets.py",
    "keys": "keys.py",
    "setups": "setup.py",
    "customised": "customised.py",
    "authorities": "external_ca.py",
    "boots": "boot.py",
    "states": "node_state.py",
}
BEGUN_TOGETHER = ("files", "packets", "keys", "boots", "states")


@pytest.mark.parametrize("name", GATHERED)
def test_machines_are_asked_once_the_guest_has_settled_and_never_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    answers = guests.facts()

    def run(hosts: Mapping[str, Any], program: Path, *_: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        events.append(program.name)
        assert set(given) == set(hosts)
        return {machine: answers[machine] for machine in hosts}

    def settled(*_: Any) -> ClusterView:
        events.append("settled")
        return ClusterView((), (), (), ())

    monkeypatch.setattr(inspecting, "run_on_each", run)
    monkeypatch.setattr(inspecting, "settle", settled)
    monkeypatch.setattr(inspecting, "open_hosts", lambda *_: {"cp-0": None, "w-0": None})
    monkeypatch.setattr(Inspection, "api", None)
    inspection = Inspection(guests.guest(), guests.OURS, ssh_options=(), timeouts=TIMEOUTS)
    seen = getattr(inspection, name)
    assert getattr(inspection, name) is seen
    for other in BEGUN_TOGETHER if name in BEGUN_TOGETHER else ():
        getattr(inspection, other)  # ends before the test does
    assert events[0] == "settled"
    assert events.count(GATHERED[name]) == 1
    assert name in BEGUN_TOGETHER or len(events) == 2
    assert list(seen) == (["cp-0"] if name == "customised" else ["cp-0", "w-0"])


def test_hardening_is_looked_at_once_the_guest_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(inspecting, "settle", lambda *_: events.append("settled"))
    monkeypatch.setattr(inspecting, "open_hosts", lambda *_: {})
    monkeypatch.setattr(inspecting, "look_at_hardening", lambda *_: events.append("looked"))
    monkeypatch.setattr(Inspection, "api", None)
    assert Inspection(guests.guest(), guests.OURS, ssh_options=(), timeouts=TIMEOUTS).hardening is None
    assert events == ["settled", "looked"]


def test_only_the_machines_that_are_asked_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(inspecting, "run_on_each", lambda hosts, *_, given: asked.update(given) or dict(hosts))
    monkeypatch.setattr(inspecting, "open_hosts", lambda *_: {"cp-0": [], "w-0": []})
    inspection = Inspection(guests.guest(), guests.OURS, ssh_options=(), timeouts=TIMEOUTS)
    assert inspection.dial({"w-0": {"tcp": []}}) == {"w-0": []}
    assert asked == {"w-0": {"tcp": []}}


def test_machines_that_are_looked_at_once_more_are_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(hosts: Mapping[str, Any], program: Path, *_: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(program.name)
        return dict(given)

    monkeypatch.setattr(inspecting, "run_on_each", run)
    monkeypatch.setattr(inspecting, "settle", lambda *_: ClusterView((), (), (), ()))
    monkeypatch.setattr(inspecting, "open_hosts", lambda *_: {"cp-0": None})
    monkeypatch.setattr(Inspection, "api", None)
    inspection = Inspection(guests.guest(), guests.OURS, ssh_options=(), timeouts=TIMEOUTS)
    for _ in range(2):
        assert inspection.states is not None
        inspection.__dict__.pop("states")
    assert asked.count("node_state.py") == 2
