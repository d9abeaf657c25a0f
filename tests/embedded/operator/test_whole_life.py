"""All controllers together, from a pool of Machines to a ready cluster and back; logins, Jobs and Nodes are played."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, dig, now
from harness.kube.resources import JOB, NODE, SECRET
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.execute.inputs import state_name
from harness.providers.embedded import EmbeddedProvider
from tests.embedded.operator.conftest import REAL_JOBS, StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.played import PlayedKubelet
from tests.embedded.operator.world import OPTIONS, SUCCEEDED
from tests.unit.operator.api.objects import deployment, wanted_set

SETS = (wanted_set("cp", "control-plane"), wanted_set("w", "worker"))


@pytest.fixture
def hosts(api: Cluster) -> Iterator[list[str]]:
    """Return hostnames that no other test has; their Nodes are gone after the test."""
    mark = secrets.token_hex(3)
    names = [f"{mark}-{number}" for number in range(3)]
    yield names
    for name in names:
        api.delete(NODE, name)


def join(api: Cluster, name: str) -> None:
    """Let a machine's kubelet join the guest and be ready."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": now()}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}
    api.ensure(NODE, body)
    api.merge(NODE, name, {"status": {"conditions": [ready]}}, subresource="status")


def ready(found: Json) -> bool:
    return (condition(found, "Ready") or {}).get("status") == "True"


@REAL_JOBS
def test_machines_of_a_pool_become_a_cluster_and_are_idle_again(
    infra: EmbeddedProvider,
    declared: Declared,
    manager: StartManager,
    kubelet: PlayedKubelet,
    logins: PlayedLogins,
    hosts: list[str],
) -> None:
    api, namespace = declared.api, declared.namespace
    manager(options=OPTIONS)
    for number, host in enumerate(hosts):
        declared.machine(f"m-{number}", hostname=host, address=f"192.0.2.{number + 10}")
    api.create(CLUSTER_DEPLOYMENT, deployment(*SETS, name="guest", namespace=namespace))

    kubelet.job("guest-1-deploy")
    claimed = declared.claimed("guest")
    assert len(claimed) == 2
    for name in claimed:
        declared.phase(name, "Deploying")
    kubelet.run("guest-1-deploy")
    content = base64.b64encode(infra.kubeconfig().read_bytes()).decode()  # this API stands for the guest's
    api.merge(SECRET, state_name("guest"), {"data": {"kubeconfig": content}}, namespace)
    kubelet.end("guest-1-deploy", message=SUCCEEDED)
    for name in claimed:
        declared.reason(name, "NodeReady", "NodeMissing")
        join(api, dig(declared.get(name), "spec", "hostname"))
        declared.phase(name, "Ready")
    found = declared.wait("guest", ready, "ready", CLUSTER_DEPLOYMENT)
    assert found["status"]["machines"] == "2/2"
    for name in ("guest-cp", "guest-w"):
        declared.wait(name, lambda one: dig(one, "status", "ready") == 1, "ready", MACHINE_SET)

    api.delete(CLUSTER_DEPLOYMENT, "guest", namespace)
    kubelet.job("guest-2-reset")
    for name in claimed:
        declared.phase(name, "Removing")
    kubelet.end("guest-2-reset", message=SUCCEEDED)
    for kind, name in ((CLUSTER_DEPLOYMENT, "guest"), (CLUSTER, "guest"), (MACHINE_SET, "guest-w")):
        declared.gone(name, kind)
    for number in range(3):
        found = declared.phase(f"m-{number}", "Idle")
        assert "finalizers" not in found["metadata"]
        assert "node" not in found["status"]
    assert {name: logins.asked.count(name) for name in claimed} == dict.fromkeys(claimed, 2)
    declared.gone("guest-2-reset", JOB)
    assert declared.claimed("guest") == []
    assert len(api.list(MACHINE, namespace).items) == 3
