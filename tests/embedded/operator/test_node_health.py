"""Machines as nodes of a guest cluster; a real API server stands for the guest's, with Nodes that a test writes."""

from __future__ import annotations

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.informer import labels_of
from harness.kube.objects import condition, dig
from harness.kube.resources import NODE
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE_SET
from harness.operator.controllers.nodehealth import MACHINE_LABEL
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.guests import node
from tests.embedded.operator.relay import Relay
from tests.unit.operator.api.objects import wanted_set

pytestmark = pytest.mark.usefixtures("logins", "prompt")
CONTROLLERS = ("machine", "machineset", "claims", "nodehealth")


def deploy(declared: Declared, manager: StartManager, host: str, **marks: object) -> None:
    """Let Machine m-0 be deployed in cluster one."""
    manager(*CONTROLLERS)
    declared.machine("m-0", hostname=host)
    declared.deployment("one", {**wanted_set("cp", "control-plane"), **marks})
    declared.phase("m-0", "Claimed")
    declared.worked("one", "deploy", "m-0")


def node_ready(found: Json) -> str:
    return str((condition(found, "NodeReady") or {}).get("status"))


def test_a_machine_is_ready_once_its_node_is(guest: Declared, manager: StartManager, api: Cluster, host: str) -> None:
    deploy(guest, manager, host)
    guest.reason("m-0", "NodeReady", "NodeMissing")
    guest.phase("m-0", "NotReady")
    node(api, host, "True")
    found = guest.phase("m-0", "Ready")
    own = api.get(NODE, host)
    assert own is not None
    assert found["status"]["node"] == {
        "name": host,
        "uid": own["metadata"]["uid"],
        "version": "1.36.3",
        "ready": "True",
        "since": (condition(own, "Ready") or {})["lastTransitionTime"],
    }
    guest.wait("m-0", lambda _: labels_of(api.get(NODE, host) or own).get(MACHINE_LABEL) == "m-0", "labelled")
    node(api, host, "False")
    guest.phase("m-0", "NotReady")
    node(api, host, "Unknown")
    guest.wait("m-0", lambda one: dig(one, "status", "node", "ready") == "Unknown", "unknown to its cluster")
    assert dig(guest.get("m-0"), "status", "phase") == "NotReady"


def test_a_guest_that_does_not_answer_is_unknown_and_never_not_ready(
    guest: Declared, manager: StartManager, api: Cluster, host: str, relay: Relay
) -> None:
    node(api, host, "True")
    deploy(guest, manager, host)
    guest.phase("m-0", "Ready")
    relay.cut()
    seen: set[str] = set()

    def unknown(found: Json) -> bool:
        seen.add(node_ready(found))
        return node_ready(found) == "Unknown"

    found = guest.wait("m-0", unknown, "unknown")
    assert "the API of cluster one does not answer" in (condition(found, "NodeReady") or {})["message"]
    assert dig(found, "status", "node", "ready") == "Unknown"
    guest.phase("m-0", "Deployed")
    assert seen == {"True", "Unknown"}
    relay.mend()
    guest.phase("m-0", "Ready")


def test_after_a_short_break_news_come_again(
    guest: Declared, manager: StartManager, api: Cluster, host: str, relay: Relay
) -> None:
    node(api, host, "True")
    deploy(guest, manager, host)
    guest.phase("m-0", "Ready")
    relay.cut()
    relay.mend()
    node(api, host, "False")  # is only seen by who is connected again
    guest.phase("m-0", "NotReady")


def test_a_kubeconfig_that_comes_late_is_found(
    declared: Declared, manager: StartManager, api: Cluster, host: str, request: pytest.FixtureRequest
) -> None:
    node(api, host, "True")
    deploy(declared, manager, host)
    why = "there is no Secret one-kubeconfig"
    found = declared.wait("m-0", lambda one: why in (condition(one, "NodeReady") or {}).get("message", ""), why)
    assert node_ready(found) == "Unknown"
    declared.phase("m-0", "Deployed")
    request.getfixturevalue("guest")
    declared.phase("m-0", "Ready")


def test_a_machine_that_was_reset_is_no_node_any_more(
    guest: Declared, manager: StartManager, api: Cluster, host: str
) -> None:
    node(api, host, "True")
    deploy(guest, manager, host)
    guest.phase("m-0", "Ready")
    guest.worked("one", "reset")
    found = guest.wait("m-0", lambda one: not dig(one, "status", "node"), "no node")
    assert condition(found, "NodeReady") is None
    guest.api.delete(CLUSTER_DEPLOYMENT, "one", guest.namespace)
    guest.phase("m-0", "Idle")


def marked(api: Cluster, host: str) -> tuple[dict[str, str], list[Json]]:
    """Return a Node's labels and taints."""
    found = api.get(NODE, host) or {"metadata": {}}
    return dict(labels_of(found)), dig(found, "spec", "taints") or []


def test_labels_and_taints_of_the_set_are_put_back_and_those_of_others_stay(
    guest: Declared, manager: StartManager, api: Cluster, host: str
) -> None:
    node(api, host, "True")
    api.merge(NODE, host, {"metadata": {"labels": {"others": "own"}}})
    ours = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    deploy(guest, manager, host, labels={"rack": "a"}, taints=[ours])

    def whole(labels: dict[str, str], *taints: Json) -> None:
        wanted = {MACHINE_LABEL: "m-0", "others": "own", **labels}

        def has(_: Json) -> bool:
            found = marked(api, host)
            mine = [one for one in found[1] if one["key"] == "gpu"]
            return {key: found[0].get(key) for key in (*wanted, "rack") if key in found[0]} == wanted and mine == [
                *taints
            ]

        guest.wait("m-0", has, f"marked {wanted} {taints}")

    whole({"rack": "a"}, ours)
    api.merge(NODE, host, {"metadata": {"labels": {MACHINE_LABEL: None, "rack": "b"}}, "spec": {"taints": None}})
    whole({"rack": "a"}, ours)
    others = {"key": "others", "effect": "NoSchedule"}
    api.merge(NODE, host, {"spec": {"taints": [ours, others]}})
    guest.api.merge(MACHINE_SET, "one-cp", {"spec": {"labels": {"rack": None}, "taints": []}}, guest.namespace)
    whole({})
    assert others in marked(api, host)[1]
