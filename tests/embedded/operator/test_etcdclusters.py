"""EtcdClusters on a real API server: what becomes of them, of their members, and of edits that cannot be carried out.

Logins, executors and looks into machines are played; everything between an edit and a member is the operator's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.machines.programs import Inspected
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    MACHINE,
    MACHINE_SET,
    REPLACE_ANNOTATION,
)
from harness.operator.controllers import inspection
from harness.operator.controllers.ssh import ProbeTrouble
from harness.operator.registry import NAMES
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.hooks import serving
from tests.embedded.operator.played import PlayedKubelet
from tests.embedded.operator.world import OPTIONS, SUCCEEDED
from tests.unit.operator.api.objects import deployment, etcd_cluster

NAME = "store"
WITHOUT_KUBEVIRT = [name for name in NAMES if name != "infrastructure"]
MIB = 1 << 20
METRICS = """\
etcd_mvcc_db_total_size_in_bytes {size}
etcd_mvcc_db_total_size_in_use_in_bytes {size}
etcd_server_quota_backend_bytes 2147483648
etcd_server_has_leader 1
etcd_server_is_leader {leads}
etcd_server_is_learner 0
etcd_server_id{{server_id="{member}"}} 1
etcd_server_proposals_applied_total 4711"""


def member(name: str, *, leads: bool = False) -> Inspected:
    """Return what is found on the machine of a member."""
    said = METRICS.format(size=8 * MIB, leads=int(leads), member=f"ab{name.removeprefix('m-')}")
    return Inspected({"/etc/systemd/system/etcd.service": "e1"}, {}, "", '{"health":"true"}', said)


@dataclass
class Etcd:
    """The EtcdCluster of a namespace, and its machines."""

    declared: Declared
    kubelet: PlayedKubelet
    found: dict[str, Inspected | ProbeTrouble] = field(default_factory=dict)

    def look(self, machine: Json) -> Inspected | ProbeTrouble:
        """Return what a look into a machine finds."""
        name = machine["metadata"]["name"]
        return self.found.get(name) or member(name, leads=name == "m-0")

    def machines(self, *names: str) -> None:
        """Give machines to the operator."""
        for name in names:
            self.declared.machine(name, address=f"192.0.2.{int(name.removeprefix('m-')) + 10}")
        for name in names:
            self.declared.phase(name, "Idle")

    def edit(self, **spec: Any) -> Json:
        """Change fields of its spec."""
        return self.declared.api.merge(ETCD_CLUSTER, NAME, {"spec": spec}, self.declared.namespace)

    def done(self, *operations: str) -> Json:
        """Let the next operations succeed in this order; return the EtcdCluster once it is ready after them."""
        cluster = self.declared.api.get(CLUSTER, NAME, self.declared.namespace)
        number = len(dig(cluster, "status", "history") or ())  # the next one may have begun already
        for operation in operations:
            number += 1
            job = f"{NAME}-{number}-{operation}"
            self.kubelet.job(job)
            self.kubelet.end(job, message=SUCCEEDED)
        return self.ready(number)

    def ready(self, number: int) -> Json:
        """Return the EtcdCluster once it is ready after so many operations."""
        self.declared.wait(NAME, lambda one: len(dig(one, "status", "history") or ()) == number, "over", CLUSTER)
        self.declared.wait(NAME, lambda one: not dig(one, "status", "plan"), "as planned", CLUSTER)
        return self.declared.wait(NAME, lambda one: dig(one, "status", "phase") == "Ready", "ready", ETCD_CLUSTER)

    def peers(self, *names: str) -> dict[str, Json]:
        """Return the EtcdPeers by name, once these are there and no others, and all of them serve."""
        found: dict[str, Json] = {}

        def there(_: Json) -> bool:
            listed = self.declared.api.list(ETCD_PEER, self.declared.namespace).items
            found.clear()
            found.update({one["metadata"]["name"]: one for one in listed})
            serve = ((condition(one, "Ready") or {}).get("status") == "True" for one in listed)
            return set(found) == set(names) and all(serve)

        self.declared.wait(NAME, there, f"of the members {names}", ETCD_CLUSTER)
        return found

    def says(self, kind: str, reason: str) -> str:
        """Return what a condition of it says, for its present generation, once it has a reason."""

        def said(one: Json) -> bool:
            new = dig(one, "status", "observedGeneration") == dig(one, "metadata", "generation")
            return new and (condition(one, kind) or {}).get("reason") == reason

        found = self.declared.wait(NAME, said, f"{kind}: {reason}", ETCD_CLUSTER)
        return str((condition(found, kind) or {}).get("message"))


@pytest.fixture
def etcd(
    declared: Declared,
    manager: StartManager,
    kubelet: PlayedKubelet,
    logins: object,
    monkeypatch: pytest.MonkeyPatch,
) -> Etcd:
    """Return an EtcdCluster of one member that is deployed."""
    made = Etcd(declared, kubelet)
    monkeypatch.setattr(inspection, "ssh_inspection", lambda _: made.look)
    monkeypatch.setattr(inspection, "LOOK_SECONDS", 0.5)
    manager(*WITHOUT_KUBEVIRT, options=OPTIONS)
    made.machines("m-0")
    declared.api.create(ETCD_CLUSTER, etcd_cluster(NAME, declared.namespace))
    made.done("deploy-etcd")
    return made


def test_a_member_is_deployed_and_told_of(etcd: Etcd) -> None:
    found = etcd.declared.wait(NAME, lambda one: dig(one, "status", "members") == "1/1", "whole", ETCD_CLUSTER)
    assert found["status"]["version"] == "3.6.6"
    assert found["status"]["endpoints"] == ["https://192.0.2.10:2379"]
    peer = etcd.peers("m-0")["m-0"]
    assert peer["spec"] == {"cluster": NAME, "machine": "m-0"}
    told = {name: peer["status"][name] for name in ("memberID", "role", "leader", "sizeMiB", "raftIndex")}
    assert told == {"memberID": "ab0", "role": "Voter", "leader": True, "sizeMiB": 8, "raftIndex": 4711}
    inputs = etcd.declared.api.get(CLUSTER, NAME, etcd.declared.namespace) or {}
    variables = dig(inputs, "status", "applied", "variables")
    assert (variables["cluster_etcd_version"], variables["cluster_kubernetes_version"]) == ("3.6.6", "1.35.4")
    assert "cluster_pod_cidr" not in variables


def test_it_grows_and_shrinks_and_each_member_has_its_peer(etcd: Etcd) -> None:
    etcd.machines("m-1", "m-2", "m-3", "m-4")
    etcd.edit(replicas=3)
    assert etcd.done("scale")["status"]["replicas"] == 3
    etcd.peers("m-0", "m-1", "m-2")
    etcd.edit(replicas=5)
    etcd.done("scale")
    etcd.peers("m-0", "m-1", "m-2", "m-3", "m-4")
    with pytest.raises(ApiFailure, match="lower replicas by 2 at a time"):
        etcd.edit(replicas=1)
    etcd.edit(replicas=3)
    etcd.done("remove-node")
    etcd.edit(replicas=1)
    etcd.done("remove-node", "remove-node")  # by way of two
    etcd.peers("m-0")
    for name in ("m-1", "m-2", "m-3", "m-4"):
        etcd.declared.phase(name, "Idle")


def test_kubectl_scale_changes_the_number_of_members(etcd: Etcd) -> None:
    etcd.machines("m-1", "m-2")
    api, namespace = etcd.declared.api, etcd.declared.namespace
    api.merge(ETCD_CLUSTER, NAME, {"spec": {"replicas": 3}}, namespace, subresource="scale")
    etcd.done("scale")
    scaled = {"spec": {"replicas": 2}}
    api.merge(MACHINE_SET, f"{NAME}-member", scaled, namespace, subresource="scale")
    etcd.declared.wait(f"{NAME}-member", lambda one: dig(one, "spec", "replicas") == 3, "put back", MACHINE_SET)


def test_it_is_upgraded_one_minor_at_a_time(etcd: Etcd) -> None:
    etcd.edit(version="3.8.0")
    said = etcd.says("Accepted", "InvalidSpec")
    assert "from etcd 3.6.6 to 3.8.0 a minor version is skipped: use 3.7.0 first" in said
    etcd.edit(version="3.6.5")
    assert "cannot be gone back to" in etcd.says("Accepted", "InvalidSpec")
    etcd.edit(version="3.7.0")
    assert etcd.done("upgrade-etcd")["status"]["version"] == "3.7.0"
    etcd.edit(extraArgs={"quota-backend-bytes": "4294967296"})
    etcd.done("reconfigure-etcd")


def test_a_broken_member_is_replaced(etcd: Etcd) -> None:
    etcd.machines("m-1", "m-2", "m-3")
    etcd.edit(replicas=3)
    etcd.done("scale")
    annotations = {"metadata": {"annotations": {REPLACE_ANNOTATION: "its disk is broken"}}}
    etcd.declared.api.merge(MACHINE, "m-1", annotations, etcd.declared.namespace)
    etcd.done("remove-node", "scale")
    etcd.peers("m-0", "m-2", "m-3")
    sick = member("m-0")
    etcd.found["m-0"] = Inspected(sick.files, {}, "", '{"health":"false","reason":"ALARM NOSPACE"}', sick.etcd)
    assert "alarm NOSPACE" in etcd.says("EtcdHealthy", "NoSpace")
    del etcd.found["m-0"]
    etcd.kubelet.job(f"{NAME}-5-defragment")
    etcd.kubelet.end(f"{NAME}-5-defragment", message=SUCCEEDED)
    etcd.ready(5)


def test_a_backup_is_taken_of_it_by_name(etcd: Etcd) -> None:
    api, namespace = etcd.declared.api, etcd.declared.namespace
    s3 = {"bucket": "backups", "endpoint": "http://127.0.0.1:9", "secretRef": {"name": "s3"}}
    spec = {"cluster": NAME, "destination": {"s3": s3}}
    api.create(ETCD_BACKUP, ETCD_BACKUP.manifest("before", namespace, labels={}, spec=spec))
    etcd.done("backup")
    etcd.declared.wait("before", lambda one: dig(one, "status", "phase") == "Verified", "verified", ETCD_BACKUP)


def test_a_name_is_one_objects(etcd: Etcd) -> None:
    api, namespace = etcd.declared.api, etcd.declared.namespace
    api.create(CLUSTER_DEPLOYMENT, deployment(name=NAME, namespace=namespace))
    found = etcd.declared.wait(NAME, lambda one: condition(one, "Accepted") is not None, "told", CLUSTER_DEPLOYMENT)
    said = condition(found, "Accepted") or {}
    assert (said["status"], said["reason"]) == ("False", "NameTaken")
    assert "EtcdCluster store has this name" in said["message"]
    api.delete(CLUSTER_DEPLOYMENT, NAME, namespace)
    etcd.declared.gone(NAME, CLUSTER_DEPLOYMENT)
    etcd.ready(1)
    assert etcd.declared.claimed(NAME) == ["m-0"]


def test_its_machines_are_idle_once_it_is_deleted(etcd: Etcd) -> None:
    etcd.declared.api.delete(ETCD_CLUSTER, NAME, etcd.declared.namespace)
    etcd.declared.phase("m-0", "Removing")
    etcd.kubelet.job(f"{NAME}-2-reset")
    etcd.kubelet.end(f"{NAME}-2-reset", message=SUCCEEDED)
    for kind, name in ((ETCD_CLUSTER, NAME), (CLUSTER, NAME), (MACHINE_SET, f"{NAME}-member"), (ETCD_PEER, "m-0")):
        etcd.declared.gone(name, kind)
    etcd.declared.phase("m-0", "Idle")


REFUSED: tuple[tuple[Json, str], ...] = (
    ({"replicas": 2}, "an even number of etcd members stands no more failures than one less: use 1, 3, 5 or 7"),
    ({"replicas": 9}, "less than or equal to 7"),
    ({"version": "3.6"}, "spec.version"),
    ({"source": {"type": "Mirror"}}, "type Mirror needs mirror"),
    ({"backup": {"schedule": "0 3 * * *"}}, "backups that the operator makes need a place"),
    ({"machines": {"names": ["m-0", "m-1"]}}, "replicas is not the number of names"),
    ({"machines": {}}, "set exactly one of pool, names and kubevirt"),
)


@pytest.mark.parametrize(("spec", "said"), REFUSED, ids=[str(spec) for spec, _ in REFUSED])
def test_the_api_refuses_what_cannot_be(api: Cluster, namespace: str, spec: Json, said: str) -> None:
    with pytest.raises(ApiFailure) as refused:
        api.create(ETCD_CLUSTER, etcd_cluster("store", namespace, **spec))
    assert said in refused.value.message


def test_webhooks_refuse_a_name_that_is_taken_and_a_backup_that_never_fires(api: Cluster, namespace: str) -> None:
    with serving(api, namespace) as served:
        served.configure()
        api.create(CLUSTER_DEPLOYMENT, deployment(name="taken", namespace=namespace))
        with pytest.raises(ApiFailure, match="ClusterDeployment taken has this name"):
            api.create(ETCD_CLUSTER, etcd_cluster("taken", namespace))
        never = {"schedule": "0 3 31 2 *", "destination": {"claim": "backups"}}
        with pytest.raises(ApiFailure, match="is not a schedule that fires"):
            api.create(ETCD_CLUSTER, etcd_cluster("other", namespace, backup=never))
        api.create(ETCD_CLUSTER, etcd_cluster("other", namespace))
        with pytest.raises(ApiFailure, match="EtcdCluster other has this name"):
            api.create(CLUSTER_DEPLOYMENT, deployment(name="other", namespace=namespace))
