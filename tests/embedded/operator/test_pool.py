"""The two days of a pool of standby machines: a cluster that grows, and one that replaces another after a disaster.

Logins, executors and nodes are played; everything between an edit and a ready node is the operator's.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, dig, is_condition
from harness.kube.resources import NODE, SECRET
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE_SET
from harness.operator.execute.inputs import state_name
from harness.operator.registry import NAMES
from harness.providers.embedded import EmbeddedProvider
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.made import infrastructure
from tests.embedded.operator.played import PlayedKubelet
from tests.embedded.operator.test_whole_life import join, ready
from tests.embedded.operator.world import OPTIONS, SUCCEEDED
from tests.unit.operator.api.objects import deployment, wanted_set

WITHOUT_KUBEVIRT = [name for name in NAMES if name != "infrastructure"]
pytestmark = pytest.mark.usefixtures("logins")


@dataclass(frozen=True)
class Standby:
    """A pool of machines that an administrator has handed over, and what happens in it."""

    declared: Declared
    kubelet: PlayedKubelet
    kubeconfig: bytes
    mark: str

    def hand_over(self, *names: str) -> None:
        """Give machines to the operator, as virtual machines that somebody else runs; wait until they are idle."""
        for name in names:
            address = f"192.0.2.{int(name.removeprefix('m-')) + 10}"
            self.declared.machine(name, hostname=self.host(name), address=address, through=through(name))
            seen = {"address": address, "instance": f"vmi-{name}", "disk": f"pvc-{name}", "node": "host"}
            infrastructure(self.declared, name, "True", "Running", **seen)
        for name in names:
            self.declared.phase(name, "Idle")

    def host(self, name: str) -> str:
        """Return a machine's hostname, which no other test has."""
        return f"{self.mark}-{name}"

    def declare(self, cluster: str, workers: int) -> None:
        """Create a ClusterDeployment of one control plane and some workers."""
        sets = wanted_set("cp", "control-plane"), wanted_set("w", "worker", replicas=workers)
        body = deployment(*sets, name=cluster, namespace=self.declared.namespace)
        self.declared.api.create(CLUSTER_DEPLOYMENT, body)

    def workers(self, cluster: str, count: int) -> None:
        """Edit the ClusterDeployment: so many workers."""
        sets = [wanted_set("cp", "control-plane"), wanted_set("w", "worker", replicas=count)]
        self.declared.api.merge(CLUSTER_DEPLOYMENT, cluster, {"spec": {"machineSets": sets}}, self.declared.namespace)

    def runs(self, cluster: str, job: str) -> Sequence[str]:
        """Let the executor of an operation succeed; return the machines of the cluster."""
        self.kubelet.job(job)
        self.kubelet.run(job)
        data = {"kubeconfig": base64.b64encode(self.kubeconfig).decode()}  # this API stands for the guest's
        self.declared.api.merge(SECRET, state_name(cluster), {"data": data}, self.declared.namespace)
        self.kubelet.end(job, message=SUCCEEDED)
        return self.declared.claimed(cluster)

    def nodes_join(self, names: Sequence[str]) -> None:
        """Let machines' kubelets be ready nodes."""
        for name in names:
            join(self.declared.api, self.host(name))
        for name in names:
            self.declared.phase(name, "Ready")

    def deployed(self, cluster: str, workers: int) -> Sequence[str]:
        """Have a cluster; return its machines."""
        self.declare(cluster, workers)
        names = self.runs(cluster, f"{cluster}-1-deploy")
        self.nodes_join(names)
        self.declared.wait(cluster, ready, "ready", CLUSTER_DEPLOYMENT)
        return names


def reason(machine_set: Json) -> str:
    return str((condition(machine_set, "MachinesClaimed") or {}).get("reason"))


def through(name: str) -> Json:
    return {"virtualMachineInstance": name}


@pytest.fixture
def standby(
    infra: EmbeddedProvider, api: Cluster, declared: Declared, manager: StartManager, kubelet: PlayedKubelet
) -> Iterator[Standby]:
    """Return an empty pool, and a manager of all controllers but the one that asks KubeVirt."""
    manager(*WITHOUT_KUBEVIRT, options=replace(OPTIONS, access="Direct"))  # no instance is there to lead through
    pool = Standby(declared, kubelet, infra.kubeconfig().read_bytes(), secrets.token_hex(3))
    yield pool
    for node in api.list(NODE).items:
        if node["metadata"]["name"].startswith(f"{pool.mark}-"):
            api.delete(NODE, node["metadata"]["name"])


def test_a_cluster_grows_by_a_machine_of_the_pool(standby: Standby) -> None:
    declared = standby.declared
    standby.hand_over("m-0", "m-1", "m-2")
    assert list(standby.deployed("guest", workers=1)) == ["m-0", "m-1"]

    standby.workers("guest", 2)
    assert dig(declared.phase("m-2", "Deploying"), "spec", "claim", "set") == "w"
    assert list(standby.runs("guest", "guest-2-scale")) == ["m-0", "m-1", "m-2"]
    declared.reason("m-2", "NodeReady", "NodeMissing")
    standby.nodes_join(["m-2"])

    found = declared.wait("guest", lambda one: dig(one, "status", "machines") == "3/3", "whole", CLUSTER_DEPLOYMENT)
    assert ready(found)
    assert dig(declared.get("guest-w", MACHINE_SET), "status", "ready") == 2


def test_a_second_cluster_comes_from_the_pool_after_the_machines_of_the_first_were_destroyed(
    standby: Standby,
) -> None:
    declared = standby.declared
    standby.hand_over("m-0", "m-1", "m-2", "m-3")
    destroyed = standby.deployed("first", workers=1)
    assert list(destroyed) == ["m-0", "m-1"]
    for name in sorted(destroyed, key=lambda one: dig(declared.get(one), "spec", "claim", "set")):  # cp before w
        infrastructure(declared, name, "False", "Lost")
        declared.phase(name, "Lost")

    assert list(standby.deployed("second", workers=1)) == ["m-2", "m-3"]
    assert list(declared.claimed("first")) == ["m-0", "m-1"]
    wait = declared.wait("first-w", lambda one: reason(one) == "ClusterLost", "lost", MACHINE_SET)
    assert "once an EtcdRestore asks" in (condition(wait, "MachinesClaimed") or {})["message"]
    declared.wait("first", lambda one: is_condition(one, "MachinesReady", "False"), "degraded", CLUSTER_DEPLOYMENT)
