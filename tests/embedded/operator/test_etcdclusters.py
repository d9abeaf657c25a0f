"""EtcdClusters on a real API server: what becomes of them, of their members, and of edits that cannot be carried out.

Logins, executors and looks into machines are played; everything between an edit and a member is the operator's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.kube.resources import CONFIG_MAP, SECRET
from harness.machines.programs import Inspected
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    ETCD_RESTORE,
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


TAKEN = "2026-02-01T00:00:00Z"


@dataclass
class Sharing:
    """Clusters that have their keys in the EtcdCluster."""

    etcd: Etcd

    def declare(self, name: str, **spec: Any) -> Json:
        """Make a ClusterDeployment that names the EtcdCluster."""
        ref = {"name": NAME, **spec.pop("ref", {})}
        namespace = self.etcd.declared.namespace
        return self.etcd.declared.api.create(
            CLUSTER_DEPLOYMENT, deployment(name=name, namespace=namespace, etcd={"clusterRef": ref}, **spec)
        )

    def says(self, name: str, kind: str, reason: str) -> str:
        """Return what a condition of a ClusterDeployment says once it has a reason."""
        found = self.etcd.declared.wait(
            name,
            lambda one: (condition(one, kind) or {}).get("reason") == reason,
            f"{kind}: {reason}",
            CLUSTER_DEPLOYMENT,
        )
        return str((condition(found, kind) or {}).get("message"))

    def begins(self, job: str) -> Json:
        """Return the variables of an operation once its Job is there."""
        self.etcd.kubelet.job(job)
        inputs = self.etcd.declared.api.get(CONFIG_MAP, job, self.etcd.declared.namespace) or {}
        found: Json = yaml.safe_load(inputs["data"]["extra-vars.yml"])
        return found

    def over(self, job: str) -> Json:
        """Let an operation succeed; return its variables."""
        found = self.begins(job)
        self.etcd.kubelet.end(job, message=SUCCEEDED)
        return found

    def deployed(self, name: str, machine: str, **spec: Any) -> Json:
        """Have a cluster on a machine; return the variables that it was deployed with."""
        self.etcd.machines(machine)
        self.declare(name, **spec)
        self.etcd.done("etcd-users")
        given = self.over(f"{name}-1-deploy")
        self.says(name, "EtcdAvailable", "Usable")
        return given


@pytest.fixture
def sharing(etcd: Etcd) -> Sharing:
    """Return the clusters of an EtcdCluster: none yet."""
    return Sharing(etcd)


def test_two_clusters_have_their_keys_in_one_etcd_and_hold_its_deletion(sharing: Sharing) -> None:
    etcd = sharing.etcd
    api, namespace = etcd.declared.api, etcd.declared.namespace
    given = sharing.deployed("a", "m-1", ref={"prefix": "/registry/a"})
    assert given["cluster_etcd_endpoints"] == ["https://192.0.2.10:2379"]
    assert given["cluster_etcd_prefix"] == "/registry/a"
    secret = api.get(SECRET, "a-etcd-client", namespace) or {}
    assert sorted(secret["data"]) == ["ca.crt", "tls.crt", "tls.key"]
    assert api.get(SECRET, "a-etcd", namespace) is None, "it has no CA of etcd of its own"
    etcd.machines("m-2")
    sharing.declare("b", ref={"prefix": "/registry/a/b"})
    said = sharing.says("b", "EtcdAvailable", "PrefixTaken")
    assert "the prefix /registry/a/b overlaps /registry/a, which cluster a has in EtcdCluster store" in said
    assert sharing.says("b", "Progressing", "WaitingForEtcd") == said
    api.merge(CLUSTER_DEPLOYMENT, "b", {"spec": {"etcd": {"clusterRef": {"prefix": "/registry/b"}}}}, namespace)
    found = etcd.done("etcd-users")
    assert [(one["name"], one["prefix"]) for one in found["status"]["clusters"]] == [
        ("a", "/registry/a"),
        ("b", "/registry/b"),
    ]
    sharing.over("b-1-deploy")
    api.merge(CLUSTER_DEPLOYMENT, "b", {"spec": {"etcd": {"clusterRef": {"prefix": "/c"}}}}, namespace)
    assert "which cannot change: use /registry/b" in sharing.says("b", "Accepted", "InvalidSpec")
    with pytest.raises(ApiFailure, match="a cluster cannot move to another etcd"):
        api.merge(CLUSTER_DEPLOYMENT, "b", {"spec": {"etcd": {"clusterRef": {"name": "other"}}}}, namespace)
    api.merge(CLUSTER_DEPLOYMENT, "b", {"spec": {"etcd": {"clusterRef": {"prefix": "/registry/b"}}}}, namespace)
    api.delete(ETCD_CLUSTER, NAME, namespace)
    assert etcd.says("Progressing", "EtcdInUse").startswith("EtcdCluster store has the keys of a, b: delete these")
    sharing.says("a", "EtcdAvailable", "EtcdClusterDeleting")
    for name in ("a", "b"):
        api.delete(CLUSTER_DEPLOYMENT, name, namespace)
        sharing.over(f"{name}-2-reset")
        etcd.declared.gone(name, CLUSTER_DEPLOYMENT)
    sharing.over(f"{NAME}-4-reset")
    etcd.declared.gone(NAME, ETCD_CLUSTER)


def test_api_servers_follow_members_and_keys_go_where_they_are_to(sharing: Sharing) -> None:
    etcd = sharing.etcd
    api, namespace = etcd.declared.api, etcd.declared.namespace
    sharing.deployed("a", "m-1", deletion={"etcdKeys": "Delete"})
    prefix = (api.get(CLUSTER, "a", namespace) or {})["status"]["etcdClient"]["prefix"]
    etcd.machines("m-3", "m-4")
    etcd.edit(replicas=3)
    etcd.done("scale")
    assert len(sharing.over("a-2-reconfigure")["cluster_etcd_endpoints"]) == 3
    api.delete(CLUSTER_DEPLOYMENT, "a", namespace)
    sharing.over("a-3-reset")
    assert f"its keys below {prefix}" in sharing.says("a", "Progressing", "WaitingForEtcd")
    given = sharing.over(f"{NAME}-4-etcd-users")
    assert (given["cluster_etcd_deleted_prefixes"], given["cluster_etcd_users"]) == ([prefix], [])
    etcd.declared.gone("a", CLUSTER_DEPLOYMENT)
    assert "clusters" not in etcd.ready(4)["status"]


def test_a_restore_confirms_the_clusters_that_go_back(sharing: Sharing) -> None:
    etcd = sharing.etcd
    api, namespace = etcd.declared.api, etcd.declared.namespace
    sharing.deployed("a", "m-1")
    s3 = {"bucket": "backups", "endpoint": "http://127.0.0.1:9", "secretRef": {"name": "s3"}}
    for name, cluster in (("own", "a"), ("before", NAME)):
        spec = {"cluster": cluster, "destination": {"s3": s3}}
        api.create(ETCD_BACKUP, ETCD_BACKUP.manifest(name, namespace, labels={}, spec=spec))
    etcd.done("backup")
    etcd.declared.wait("before", lambda one: dig(one, "status", "clusters") == ["a"], "with its clusters", ETCD_BACKUP)
    refused = etcd.declared.wait("own", lambda one: condition(one, "Verified") is not None, "told", ETCD_BACKUP)
    assert (condition(refused, "Verified") or {})["reason"] == "EtcdElsewhere"
    api.merge(ETCD_BACKUP, "before", {"status": {"taken": TAKEN}}, namespace, subresource="status")
    asked = {"cluster": NAME, "backup": "before", "confirm": TAKEN}
    api.create(ETCD_RESTORE, ETCD_RESTORE.manifest("undo", namespace, labels={}, spec=asked))

    def reason(one: Json) -> str:
        return str((condition(one, "Restored") or {}).get("reason"))

    said = etcd.declared.wait("undo", lambda one: reason(one) == "ConfirmsOtherClusters", "told", ETCD_RESTORE)
    assert "spec.confirmClusters is empty, and a would go back" in (condition(said, "Restored") or {})["message"]
    api.merge(ETCD_RESTORE, "undo", {"spec": {"confirmClusters": ["a"]}}, namespace)
    sharing.over(f"{NAME}-4-restore")
    etcd.declared.wait("undo", lambda one: reason(one) == "Restored", "restored", ETCD_RESTORE)
    sharing.over(f"{NAME}-5-etcd-users")
    why = etcd.declared.wait("a", lambda one: dig(one, "status", "operation", "why"), "put right", CLUSTER)
    assert why["status"]["operation"]["operation"] == "reconfigure"
    assert "machines may differ since restore 4 of EtcdCluster store" in why["status"]["operation"]["why"]


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
        shares = {"clusterRef": {"name": "other"}}
        api.create(CLUSTER_DEPLOYMENT, deployment(name="sharer", namespace=namespace, etcd=shares))
        with pytest.raises(ApiFailure, match="EtcdCluster other has the keys of sharer: delete these Cluster"):
            api.delete(ETCD_CLUSTER, "other", namespace)
        api.delete(CLUSTER_DEPLOYMENT, "sharer", namespace)
        api.delete(ETCD_CLUSTER, "other", namespace)
