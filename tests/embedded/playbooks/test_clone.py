"""A cluster is cloned: other machines, CAs and networks, the same objects, nothing that the first one is known by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.errors import VmatrixError
from harness.model import Cell
from tests.embedded.playbooks.conftest import (
    AFTER,
    BEFORE,
    KUBECTL,
    MANY,
    MANY_AFTER,
    Bench,
    cell_of,
    nodes,
    snapshot,
    stacked_members,
    write_objects,
    written_objects,
)

CP, WORKER = 0, 1
NETWORKS = ("-e", json.dumps({"cluster_pod_cidr": "10.77.0.0/16", "cluster_service_cidr": "10.78.0.0/16"}))
SERVICE = "create service clusterip shop --tcp=80"
TOKEN = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
    }
)


@pytest.fixture(scope="module")
def ordered(bench: Bench) -> Cell:
    """Deploy a control plane and a worker."""
    ordered = cell_of("cp1-w1")
    bench.boot(ordered)
    bench.play()
    return ordered


def got(bench: Bench, what: str) -> Any:
    """Return objects of the cluster."""
    done = bench.on(CP, f"{KUBECTL} get {what} -o json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_clone_has_the_objects_of_its_source_and_no_more_of_it(bench: Bench, ordered: Cell) -> None:
    path = bench.directory / "etcd" / "snapshot.db"
    write_objects(bench, BEFORE, MANY)
    for command in ("create configmap first", SERVICE):
        assert bench.on(CP, f"{KUBECTL} {command}").returncode == 0
    assert bench.on(CP, f"echo '{TOKEN}' | {KUBECTL} create -f -").returncode == 0
    before = {name: bench.on(CP, f"sudo cat /etc/kubernetes/pki/{name}").stdout for name in ("ca.crt", "sa.pub")}
    node, pods = got(bench, "node w-0")["metadata"]["uid"], got(bench, "pods --all-namespaces")["items"]
    bench.play(*snapshot(path), entry="backup")
    write_objects(bench, AFTER, MANY_AFTER)
    former = bench.kubeconfig.read_text(encoding="utf-8")
    taken = json.loads(path.with_name(f"{path.name}.json").read_text(encoding="utf-8"))["taken"]
    confirmed = (*snapshot(path), *NETWORKS, "-e", f"cluster_etcd_restore_confirmation={taken}")

    refused = bench.attempt(*confirmed, entry="clone")
    assert refused.returncode != 0
    assert "is part of a cluster, and a clone begins on machines without any" in " ".join(refused.stdout.split())
    for machine in (CP, WORKER):
        bench.boot_anew(ordered, machine)
    for kept in bench.kubeconfig.parent.glob(f"{bench.kubeconfig.name}*"):
        kept.unlink()
    refused = bench.attempt(*snapshot(path), *NETWORKS, entry="clone")
    assert f"set cluster_etcd_restore_confirmation to {taken}" in " ".join(refused.stdout.split())
    assert bench.on(CP, "ls /etc/kubernetes").returncode != 0, "nothing was changed"

    bench.play(*confirmed, entry="clone", timeout=1500)
    assert nodes(bench) == {"cp-0", "w-0"}
    assert stacked_members(bench, CP, "cp-0") == {"cp-0"}
    assert got(bench, "configmap first")["metadata"]["name"] == "first"
    assert written_objects(bench) == {BEFORE: MANY}
    assert got(bench, "node w-0")["metadata"]["uid"] != node
    addresses = [got(bench, f"service {name}")["spec"]["clusterIP"] for name in ("shop", "kubernetes")]
    assert [address for address in addresses if not address.startswith("10.78.")] == []
    assert got(bench, "servicecidr kubernetes")["spec"]["cidrs"] == ["10.78.0.0/16"]
    assert got(bench, "secret token")["data"].get("token"), "it was signed anew"
    left = {one["metadata"]["uid"] for one in got(bench, "pods --all-namespaces")["items"]}
    assert left.isdisjoint(one["metadata"]["uid"] for one in pods)
    after = {name: bench.on(CP, f"sudo cat /etc/kubernetes/pki/{name}").stdout for name in before}
    assert [name for name in before if before[name] == after[name]] == []
    own = bench.kubeconfig.read_text(encoding="utf-8")
    bench.kubeconfig.write_text(former, encoding="utf-8")
    with pytest.raises(VmatrixError):  # the CA is another one
        nodes(bench)
    bench.kubeconfig.write_text(own, encoding="utf-8")
    assert [*path.parent.glob("*.clone")] == []
    assert {host.changed for host in bench.play(*confirmed, entry="clone")} == {0}
