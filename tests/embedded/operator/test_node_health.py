"""Machines as nodes of a guest cluster; a real API server stands for the guest's, with Nodes that a test writes."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import yaml

from harness.infra.embedded.provider import EmbeddedProvider
from harness.kube.client import Cluster, Json
from harness.kube.informer import labels_of
from harness.kube.objects import condition, dig, now
from harness.kube.resources import NODE, SECRET
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.controllers import guest_nodes
from harness.operator.controllers.nodehealth import MACHINE_LABEL
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.relay import Relay
from tests.unit.operator.api.objects import wanted_set

pytestmark = pytest.mark.usefixtures("logins", "prompt")
CONTROLLERS = ("machine", "machineset", "claims", "nodehealth")


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a guest that does not answer asked again soon, and believed to be away after a second."""
    monkeypatch.setattr(guest_nodes, "LAST_RETRY_SECONDS", 0.2)
    monkeypatch.setattr(guest_nodes, "SILENT_SECONDS", 1.0)


@pytest.fixture
def relay(infra: EmbeddedProvider) -> Iterator[Relay]:
    """Return the way to the guest."""
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    made = Relay(str(server.hostname), server.port or 443)
    yield made
    made.close()


@pytest.fixture
def host(api: Cluster) -> Iterator[str]:
    """Return a hostname that no other test has; its Node is gone after the test."""
    name = f"m-{secrets.token_hex(3)}"
    yield name
    api.delete(NODE, name)


@pytest.fixture
def guest(infra: EmbeddedProvider, declared: Declared, relay: Relay) -> Declared:
    """Return the objects of a namespace that has the guest's kubeconfig, over the relay."""
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = relay.url
    content = base64.b64encode(yaml.safe_dump(config).encode()).decode()
    body = SECRET.manifest("one-kubeconfig", declared.namespace, labels={}, data={"value": content})
    declared.api.create(SECRET, {**body, "type": "cluster.x-k8s.io/secret"})
    return declared


def node(api: Cluster, name: str, ready: str) -> None:
    """Let a guest's Node be as its kubelet, or its control plane, says."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    api.ensure(NODE, {**body, "spec": {"unschedulable": True}})
    said = {
        "type": "Ready",
        "status": ready,
        "reason": "KubeletReady",
        "message": "played",
        "lastTransitionTime": now(),
    }
    info = dict.fromkeys(NODE_INFO, "") | {"kubeletVersion": "v1.36.3"}
    api.merge(NODE, name, {"status": {"conditions": [said], "nodeInfo": info}}, subresource="status")


NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)


def deploy(declared: Declared, manager: StartManager, host: str) -> None:
    """Let Machine m-0 be deployed in cluster one."""
    manager(*CONTROLLERS)
    declared.machine("m-0", hostname=host)
    declared.deployment("one", wanted_set("cp", "control-plane"))
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
