"""The policy of a cluster is made, follows its machines, is put back, and goes; what is in the way is told."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Unpack

import pytest

from harness.kube.api import RequestOptions
from harness.kube.client import ApiFailure
from harness.kube.objects import owner_reference
from harness.kube.resources import EVENT, NETWORK_POLICY, NODE, POD, Resource
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.isolation import (
    AGAIN_SECONDS,
    LOOK_SECONDS,
    IsolationController,
    manager_peers,
)
from harness.operator.decide.isolation import selects
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.objects import SOURCE
from tests.unit.operator.controllers.looks import UID, declared, given

Json = dict[str, Any]
KEY = ("default", "guest")
ENABLED = {"enabled": True}


class Infra(FakeCluster):
    """An API that serves the groups of a network plugin, and says who asks for them."""

    groups: tuple[str, ...] = ("networking.k8s.io", "cilium.io")

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Any:
        if path == "/apis":
            return {"kind": "APIGroupList", "groups": [{"name": name} for name in self.groups]}
        return super().request(method, path, **options)


class World:
    """An isolated cluster, its machines, and the controller."""

    def __init__(self, *names: str, api: Infra | None = None, **spec: Any) -> None:
        self.api = api or Infra()
        self.context = OperatorContext.of(self.api, Path("none"))
        self.controller = IsolationController(self.context)
        self.wish(**{"isolation": ENABLED, **spec})
        owner = owner_reference(self.deployment, CLUSTER_DEPLOYMENT)
        meta = {"name": KEY[1], "namespace": KEY[0], "ownerReferences": [owner]}
        self.seen(CLUSTER, self.api.put(CLUSTER, {"metadata": meta, "status": {}}))
        for name in names:
            self.machine(name)

    def seen(self, kind: Resource, body: Json, what: str = "ADDED") -> None:
        labels = "cluster.vmatrix.dev/cluster" if kind is NETWORK_POLICY else ""
        self.context.informers.of(kind, labels=labels)._store(what, body)

    def wish(self, **spec: Any) -> None:
        self.deployment = self.api.put(CLUSTER_DEPLOYMENT, declared(**spec))
        self.seen(CLUSTER_DEPLOYMENT, self.deployment, "MODIFIED")

    def machine(self, name: str, **spec: Any) -> None:
        body = given(name)
        body["spec"] |= spec
        self.seen(MACHINE, self.api.put(MACHINE, {**body, "spec": {k: v for k, v in body["spec"].items() if v}}))

    def look(self) -> float | None:
        """Look once; the local copies follow."""
        again = self.controller.reconcile(KEY)
        for body in self.api.all(NETWORK_POLICY):
            self.seen(NETWORK_POLICY, body, "MODIFIED")
        self.seen(CLUSTER, self.api.all(CLUSTER)[0], "MODIFIED")
        return again

    @property
    def policy(self) -> Json:
        (found,) = self.api.all(NETWORK_POLICY)
        return dict(found)

    @property
    def state(self) -> Json:
        return dict(self.api.all(CLUSTER)[0]["status"].get("isolation") or {})

    def events(self) -> list[str]:
        return [f"{one['type']} {one['reason']}" for one in self.api.all(EVENT)]


def test_the_policy_is_made_once_and_selects_every_machine() -> None:
    world = World("m-0", "m-1")
    assert world.look() == LOOK_SECONDS
    assert all(selects(world.policy, f"vmi-{name}") for name in ("m-0", "m-1"))
    assert (world.state["ready"], world.state["reason"], world.state["enforced"]) == (True, "Enforced", True)
    assert world.state["machines"] == ["m-0", "m-1"]
    assert world.events() == ["Normal Enforced"]
    asked = len(world.api.asked)
    world.look()
    world.look()
    assert [one for one in world.api.asked[asked:] if not one.startswith("GET")] == []


def test_a_machine_that_comes_is_selected_and_one_that_goes_is_not() -> None:
    world = World("m-0")
    world.look()
    world.machine("m-1")
    world.look()
    assert selects(world.policy, "vmi-m-1")
    world.machine("m-0", claim=None)
    world.look()
    assert not selects(world.policy, "vmi-m-0")
    assert world.state["machines"] == ["m-1"]


def test_without_machines_there_is_no_policy_and_nothing_is_waited_for() -> None:
    world = World()
    world.look()
    assert world.api.all(NETWORK_POLICY) == []
    assert (world.state["ready"], world.state["machines"]) == (True, [])
    world.machine("m-0")
    world.look()
    world.machine("m-0", claim=None)
    world.look()
    assert world.api.all(NETWORK_POLICY) == []


EDITS: dict[str, Json] = {
    "a rule that lets all in": {"ingress": [{}]},
    "no rule for what goes out": {"egress": []},
    "another selector": {"podSelector": {"matchLabels": {"app": "x"}}},
    "one direction alone": {"policyTypes": ["Ingress"]},
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_somebody_edits_is_put_back(edit: str) -> None:
    world = World("m-0")
    world.look()
    wanted = world.policy["spec"]
    changed = {**world.policy, "spec": {**wanted, **EDITS[edit]}}
    world.seen(NETWORK_POLICY, world.api.put(NETWORK_POLICY, changed), "MODIFIED")
    world.look()
    assert world.policy["spec"] == wanted


def test_what_somebody_deletes_is_made_again() -> None:
    world = World("m-0")
    world.look()
    body = world.policy
    world.api.delete(NETWORK_POLICY, "guest-isolation", "default")
    world.seen(NETWORK_POLICY, body, "DELETED")
    world.look()
    assert selects(world.policy, "vmi-m-0")


def test_a_cluster_that_asks_for_no_isolation_has_none_and_one_that_gives_it_up_loses_it() -> None:
    world = World("m-0", isolation={"enabled": False})
    assert world.look() is None
    assert world.api.all(NETWORK_POLICY) == []
    world.wish(isolation=ENABLED)
    world.look()
    assert world.policy
    world.wish(isolation={"enabled": False})
    world.look()
    assert world.api.all(NETWORK_POLICY) == []
    assert world.state == {}


def test_a_policy_of_somebody_else_is_left_alone_and_told() -> None:
    world = World("m-0")
    theirs = {"metadata": {"name": "guest-isolation", "namespace": "default"}, "spec": {"podSelector": {}}}
    world.api.put(NETWORK_POLICY, theirs)
    assert world.look() == AGAIN_SECONDS
    assert world.policy["spec"] == {"podSelector": {}}
    assert (world.state["ready"], world.state["reason"]) == (False, "NameInUse")
    assert world.events() == ["Warning NameInUse"]


def test_an_api_that_refuses_the_policy_is_told() -> None:
    world = World("m-0")
    refusal = ApiFailure(403, "Forbidden", "cannot create networkpolicies", [], request="POST")
    world.api.refusals["POST networkpolicies"] = refusal
    assert world.look() == AGAIN_SECONDS
    assert (world.state["ready"], world.state["reason"]) == (False, "Refused")
    assert "cannot create networkpolicies" in world.state["message"]


def test_a_name_that_cannot_be_resolved_leaves_the_policy_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("m-0")
    world.look()
    before = world.policy["spec"]

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    world.wish(isolation=ENABLED, source={**SOURCE, "mirror": "http://mirror.example"})
    world.machine("m-1")
    assert world.look() == AGAIN_SECONDS
    assert world.policy["spec"] == before
    assert (world.state["ready"], world.state["reason"], world.state["machines"]) == (False, "NotResolved", ["m-0"])
    assert "spec.source.mirror" in world.state["message"]
    assert "spec.isolation.allowTo" in world.state["message"]


def test_bare_addresses_are_told_and_the_others_selected() -> None:
    world = World("m-0")
    world.machine("rack-1", through=None, address="192.0.2.99")
    world.look()
    assert (world.state["reason"], world.state["bare"]) == ("NoSelectablePods", ["rack-1"])
    assert selects(world.policy, "vmi-m-0")
    assert world.events() == ["Warning NoSelectablePods"]


def test_a_given_machine_is_selected_by_what_its_launcher_says() -> None:
    world = World()
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "uid-vm", "vm.kubevirt.io/name": "its-hostname"}
    world.api.put(POD, {"metadata": {"name": "virt-launcher-x", "namespace": "default", "labels": labels}})
    body = given("m-0")
    body["status"]["infrastructure"] = {"instance": "uid-vm"}
    world.seen(MACHINE, world.api.put(MACHINE, body))
    world.look()
    assert selects(world.policy, "its-hostname")
    assert not selects(world.policy, "vmi-m-0")


def test_nodes_that_may_not_be_listed_leave_it_unknown() -> None:
    api = Infra()
    api.groups = ()
    api.refusals["GET nodes"] = ApiFailure(403, "Forbidden", "cannot list nodes", [], request="GET")
    world = World("m-0", api=api)
    world.look()
    assert (world.state["reason"], world.state.get("enforced")) == ("EnforcementUnknown", None)
    status = {"conditions": [{"type": "Ready", "status": "True"}], "images": [{"names": ["x/flannel:v1"]}]}
    other = Infra()
    other.groups = ()
    other.put(NODE, {"metadata": {"name": "n"}, "status": status})
    known = World("m-0", api=other)
    known.look()
    assert (known.state["reason"], known.state["enforced"]) == ("NotEnforced", False)
    assert known.events() == ["Warning NotEnforced"]


def test_what_is_deleted_is_left_to_its_end() -> None:
    world = World("m-0")
    world.look()
    wanted = world.policy
    gone = {
        **world.deployment,
        "metadata": {**world.deployment["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }
    world.seen(CLUSTER_DEPLOYMENT, gone, "MODIFIED")
    assert world.look() is None
    assert world.policy == wanted
    assert wanted["metadata"]["ownerReferences"][0]["uid"] == UID


HERE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "vmatrix-operator", "POD_NAME": "manager-1"}


def pod(**spec: Any) -> Json:
    labels = {"app.kubernetes.io/name": "vmatrix-operator", "pod-template-hash": "5d"}
    meta = {"name": "manager-1", "namespace": "vmatrix-operator", "labels": labels}
    return {"metadata": meta, "spec": spec, "status": {"podIPs": [{"ip": "10.2.0.9"}, {"ip": "fd00::9"}]}}


def test_a_manager_is_let_in_as_a_pod_of_its_name_or_by_its_node_s_address() -> None:
    api = Infra({POD: [pod()]})
    selector = {"matchLabels": {"app.kubernetes.io/name": "vmatrix-operator"}}
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "vmatrix-operator"}}
    assert manager_peers(api, HERE) == [{"namespaceSelector": namespace, "podSelector": selector}]
    on_node = Infra({POD: [pod(hostNetwork=True)]})
    assert manager_peers(on_node, HERE) == [
        {"ipBlock": {"cidr": "10.2.0.9/32"}},
        {"ipBlock": {"cidr": "fd00::9/128"}},
    ]


def test_a_manager_outside_of_pods_is_let_in_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "harness.operator.controllers.isolation.own_address"
    for address, peers in (("198.51.100.7", [{"ipBlock": {"cidr": "198.51.100.7/32"}}]), ("127.0.0.1", []), ("", [])):
        monkeypatch.setattr(module, lambda _, address=address: address)
        assert manager_peers(Infra(), {}) == peers
