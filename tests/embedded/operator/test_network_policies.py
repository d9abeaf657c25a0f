"""Isolation of clusters on a real API server: policies appear, follow machines, are put back, and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import NETWORK_POLICY
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.decide.isolation import policy_name, selects
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.made import made_set
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.world import MINE, NAME, OPTIONS, World
from tests.unit.operator.api.objects import machine, wanted_set

ENABLED = {"enabled": True}
EVERYTHING: Json = {
    "enabled": True,
    "allowFrom": [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {"matchLabels": {}}},
        {"podSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}},
    ],
    "allowTo": [
        {
            "ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]},
            "ports": [{"protocol": "UDP", "port": 123}, {"port": 8000, "endPort": 8999}],
        },
        {"ipBlock": {"cidr": "2001:db8::/32"}},
    ],
}


def once(probe: Callable[[], Any], what: str) -> Any:
    return until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)


def given(declared: Declared, name: str, to: Json) -> None:
    """Make a Machine that leads through an instance and that a cluster has claimed."""
    claim = {"cluster": to["metadata"]["name"], "set": "cp", "uid": to["metadata"]["uid"]}
    through = {"virtualMachineInstance": f"vmi-{name}"}
    declared.api.create(MACHINE, machine(name, declared.namespace, claim=claim, through=through))


def policy(declared: Declared, cluster: str = "one", *, selecting: tuple[str, ...] = ()) -> Json:
    """Return the policy of a cluster once it selects these machines and no others."""
    names = sorted(f"vmi-{name}" for name in selecting)

    def probe() -> Json | NotYet:
        found = declared.api.get(NETWORK_POLICY, policy_name(cluster), declared.namespace)
        terms = dig(found, "spec", "podSelector", "matchExpressions") or [{}]
        return found if found is not None and terms[0].get("values") == names else NotYet(f"it is {found}")

    found: Json = once(probe, f"the policy of {cluster} to select {names}")
    return found


def no_policy(declared: Declared, cluster: str = "one") -> None:
    def probe() -> bool | NotYet:
        found = declared.api.get(NETWORK_POLICY, policy_name(cluster), declared.namespace)
        return found is None or NotYet(f"it is {found}")

    once(probe, f"no policy of {cluster}")


def test_a_policy_follows_the_machines_of_its_cluster_and_no_others(declared: Declared, manager: StartManager) -> None:
    manager("isolation")
    one, two = (declared.deployment(name, isolation=ENABLED) for name in ("one", "two"))
    for name, cluster in (("m-0", one), ("m-1", one), ("n-0", two)):
        given(declared, name, cluster)
    policy(declared, selecting=("m-0", "m-1"))
    policy(declared, "two", selecting=("n-0",))
    declared.api.merge(MACHINE, "m-1", {"spec": {"claim": None}}, declared.namespace)
    policy(declared, selecting=("m-0",))
    told = declared.wait("one", lambda one: dig(one, "status", "isolation", "machines") == ["m-0"], "told", CLUSTER)
    state = dig(told, "status", "isolation")
    assert (state["ready"], state["enforced"], state["reason"]) == (True, False, "NotEnforced")
    assert "embedded KubeVirt" in state["message"]
    declared.said("one", "Warning NotEnforced")


@pytest.mark.parametrize("edit", ["opened", "deleted"])
def test_what_somebody_does_to_it_is_put_back(declared: Declared, manager: StartManager, edit: str) -> None:
    manager("isolation")
    given(declared, "m-0", declared.deployment("one", isolation=ENABLED))
    before = policy(declared, selecting=("m-0",))
    name = before["metadata"]["name"]
    if edit == "deleted":
        declared.api.delete(NETWORK_POLICY, name, declared.namespace)
    else:
        rules = [*before["spec"]["ingress"], {"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]
        declared.api.merge(NETWORK_POLICY, name, {"spec": {"ingress": rules}}, declared.namespace)

    def back() -> bool | NotYet:
        found = declared.api.get(NETWORK_POLICY, name, declared.namespace)
        return dig(found, "spec") == before["spec"] or NotYet(f"it is {found}")

    once(back, "the policy to be as it was")


def test_every_shape_of_a_peer_is_stored_as_it_is_written_and_left_alone(
    declared: Declared, manager: StartManager, client: RecordedCluster
) -> None:
    manager("isolation", client=client)
    given(declared, "m-0", declared.deployment("one", isolation=EVERYTHING))
    stored = policy(declared, selecting=("m-0",))
    assert stored["spec"]["ingress"][-3:] == [
        {"from": [{"podSelector": {}}]},
        {"from": [{"podSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}]},
        {"from": [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}}]},
    ]
    assert stored["spec"]["egress"][-2:] == [
        {
            "to": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}],
            "ports": [{"protocol": "UDP", "port": 123}, {"protocol": "TCP", "port": 8000, "endPort": 8999}],
        },
        {"to": [{"ipBlock": {"cidr": "2001:db8::/32"}}]},
    ]
    declared.wait("one", lambda one: bool(dig(one, "status", "isolation", "ready")), "told", CLUSTER)
    for number in range(3):  # each brings a look
        declared.api.merge(
            CLUSTER_DEPLOYMENT, "one", {"metadata": {"annotations": {"a": str(number)}}}, declared.namespace
        )
    given(declared, "m-1", declared.get("one", CLUSTER_DEPLOYMENT))
    after = policy(declared, selecting=("m-0", "m-1"))
    assert after["metadata"]["generation"] == stored["metadata"]["generation"] + 1, "one change, and no other"


def test_a_cluster_that_gives_isolation_up_or_goes_has_none(declared: Declared, manager: StartManager) -> None:
    manager("isolation")
    for name in ("one", "two"):
        given(declared, f"m-{name}", declared.deployment(name, isolation=ENABLED))
        policy(declared, name, selecting=(f"m-{name}",))
    declared.api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"isolation": {"enabled": False}}}, declared.namespace)
    no_policy(declared)
    declared.wait("one", lambda one: dig(one, "status", "isolation") is None, "told", CLUSTER)
    declared.api.delete(CLUSTER_DEPLOYMENT, "two", declared.namespace)
    no_policy(declared, "two")


def test_a_machine_that_is_made_is_selected_before_it_starts(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    manager("machineset", "claims", "machine", "isolation")
    planes = wanted_set("cp", "control-plane", names=["nobody"])
    declared.deployment("one", planes, made_set(2), isolation=ENABLED)

    def both() -> bool | NotYet:
        found = declared.api.get(NETWORK_POLICY, policy_name("one"), declared.namespace)
        return all(selects(found, name) for name in ("one-w-1", "one-w-2")) or NotYet(f"it is {found}")

    once(both, "machines without an instance to be selected")


def test_a_deployment_waits_for_the_policy_and_addresses_are_told(world: World, manager: StartManager) -> None:
    manager(*MINE, options=OPTIONS)
    world.declare(isolation=ENABLED)
    waits = world.condition("Progressing", "True", "WaitingForIsolation")
    assert "is not there yet" in waits["message"]
    assert world.condition("NetworkIsolated", "Unknown", "NotYet")
    manager("isolation")
    world.kubelet.job(f"{NAME}-1-deploy")
    said = world.condition("NetworkIsolated", "False", "NoSelectablePods")
    assert "m-0" in said["message"]
    assert world.get(NETWORK_POLICY, policy_name(NAME)) is None


def test_the_api_takes_a_selector_of_two_hundred_machines(api: Cluster, namespace: str) -> None:
    names = {"key": "vm.kubevirt.io/name", "operator": "In", "values": [f"guest-w-{number}" for number in range(200)]}
    spec = {"podSelector": {"matchExpressions": [names]}, "policyTypes": ["Ingress"]}
    made = api.create(NETWORK_POLICY, NETWORK_POLICY.manifest("large", namespace, labels={}, spec=spec))
    assert len(made["spec"]["podSelector"]["matchExpressions"][0]["values"]) == 200
