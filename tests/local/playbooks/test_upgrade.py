"""A cluster goes to the next version machine by machine, keeps its settings, and refuses what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness import paths
from harness.artifacts import refs
from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.artifacts.supply import Supply
from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.model import Cell
from harness.plan import make_cell
from harness.spec import load_spec
from tests.local.playbooks.conftest import Bench, cell_of

OLD, NEW = "1.36.1", "1.36.3"


def cell_with(version: str) -> Cell:
    """Return the smoke cell with one control plane, one worker, and a Kubernetes version."""
    spec = load_spec(paths.project_dir() / "matrix")
    return make_cell(spec, {**cell_of("cp1-w1").values, "kubernetes": version})


def give(bench: Bench, **variables: Any) -> None:
    """Change what the playbooks are given from now on."""
    path = bench.directory / "extra-vars.yml"
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**given, **variables}), encoding="utf-8")


def versions(bench: Bench) -> set[tuple[str, str]]:
    """Return (kind, version) of what runs: kubelets as the API sees them, images of the static pods, the API itself."""
    cluster = Cluster.from_kubeconfig(bench.kubeconfig)
    kubelets = {("kubelet", str(node["status"]["nodeInfo"]["kubeletVersion"])) for node in cluster.list(NODE).items}
    running = bench.on(
        0, "cat /proc/$(pidof kube-apiserver)/cmdline >/dev/null && sudo ctr -n k8s.io tasks list"
    ).stdout
    assert "RUNNING" in running
    images = bench.on(0, "sudo grep -h image: /etc/kubernetes/manifests/kube-*.yaml").stdout.split()
    return kubelets | {("image", word.rpartition(":")[2]) for word in images if word != "image:"}


def flags(bench: Bench, process: str) -> list[str]:
    """Return the command line of a running process of the control plane."""
    done = bench.on(0, f"sudo cat /proc/$(pidof {process})/cmdline")
    return done.stdout.split("\0")


def refused(bench: Bench, version: str, entry: str = "upgrade") -> str:
    """Ask for a version that cannot be; return what was said. Nothing may have been changed."""
    give(bench, cluster_kubernetes_version=version)
    done = bench.attempt(entry=entry)
    assert done.returncode != 0
    assert "changed=0" in done.stdout
    assert "changed=1" not in done.stdout
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def cluster(bench: Bench) -> Bench:
    """Return a bench with a cluster of the old version."""
    cell, store = cell_with(OLD), Store()
    store.ensure(refs.for_cell(store.catalogue, cell.vars), silent)
    Supply(OLD, refs.images(store.catalogue, OLD, cell.vars), store).publish(bench.mirror.registry)
    bench.boot(cell)
    bench.play()
    assert versions(bench) == {("kubelet", f"v{OLD}"), ("image", f"v{OLD}")}
    return bench


def test_refuses_what_cannot_be_before_it_changes_anything(cluster: Bench) -> None:
    assert "1.35.4 is older than what runs (cp-0 1.36.1)" in refused(cluster, "1.35.4")
    assert "skips a minor version" in refused(cluster, "1.38.0")
    assert "this does not change versions" in refused(cluster, NEW, entry="reconfigure")
    done = cluster.attempt("--limit", "w-0", "-e", f"cluster_kubernetes_version={NEW}", entry="upgrade")
    assert done.returncode != 0
    assert "upgrade the control planes first" in " ".join(done.stdout.split())
    assert versions(cluster) == {("kubelet", f"v{OLD}"), ("image", f"v{OLD}")}


def test_settings_reach_what_runs_and_outlive_an_upgrade(cluster: Bench) -> None:
    given = yaml.safe_load((cluster.directory / "extra-vars.yml").read_text(encoding="utf-8"))
    settings = {
        "cluster_kubernetes_version": OLD,
        "cluster_apiserver_extra_args": {"event-ttl": "2h0m0s"},
        "cluster_etcd_extra_args": {"quota-backend-bytes": "4294967296"},
        "cluster_kubelet_config": {**given["cluster_kubelet_config"], "maxPods": 123},
        "cluster_containerd_config": {"max_concurrent_downloads": 5},
        "cluster_coredns_cache_seconds": 45,
    }
    give(cluster, **settings)
    cluster.play(entry="reconfigure")
    again = cluster.play(entry="reconfigure")
    assert {host.changed for host in again} == {0}
    expect_settings(cluster)

    give(cluster, **{**cell_with(NEW).vars, **settings, "cluster_kubernetes_version": NEW})
    cluster.play(entry="upgrade")
    again = cluster.play(entry="upgrade")
    assert {host.changed for host in again} == {0}
    assert versions(cluster) == {("kubelet", f"v{NEW}"), ("image", f"v{NEW}")}
    expect_settings(cluster)
    nodes = Cluster.from_kubeconfig(cluster.kubeconfig).list(NODE).items
    assert [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")] == []


def expect_settings(bench: Bench) -> None:
    """Look at running processes, not at files, wherever one can be asked."""
    assert "--event-ttl=2h0m0s" in flags(bench, "kube-apiserver")
    assert "--quota-backend-bytes=4294967296" in flags(bench, "etcd")
    kubectl = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf"
    for node in ("cp-0", "w-0"):
        configz = bench.on(0, f"{kubectl} get --raw /api/v1/nodes/{node}/proxy/configz").stdout
        assert '"maxPods":123' in configz
    for machine in (0, 1):
        assert "max_concurrent_downloads = 5" in bench.on(machine, "sudo containerd config dump").stdout
    corefile = bench.on(0, f"{kubectl} -n kube-system get configmap coredns -o yaml").stdout
    assert "cache 45" in corefile


def test_certificates_are_shown_and_renewed_and_the_kubeconfig_stays_good(cluster: Bench) -> None:
    before = cluster.on(0, "sudo sha256sum /etc/kubernetes/pki/apiserver.crt").stdout
    shown = cluster.attempt(entry="certificates", check=True).stdout
    assert "apiserver-kubelet-client" in shown
    assert cluster.on(0, "sudo sha256sum /etc/kubernetes/pki/apiserver.crt").stdout == before

    cluster.play("-e", "cluster_certificates_renew_before_days=400", entry="certificates")

    assert cluster.on(0, "sudo sha256sum /etc/kubernetes/pki/apiserver.crt").stdout != before
    assert len(Cluster.from_kubeconfig(cluster.kubeconfig).list(NODE).items) == len(("cp-0", "w-0"))
    assert {host.changed for host in cluster.play(entry="certificates")} == {0}


def test_a_lost_quorum_comes_back_from_a_snapshot(cluster: Bench) -> None:
    snapshot = cluster.directory / "snapshot.db"
    give(cluster, cluster_etcd_snapshot_path=str(snapshot))
    kubectl = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf"
    cluster.on(0, f"{kubectl} create configmap kept")
    cluster.play(entry="backup")
    assert snapshot.stat().st_mode & 0o777 == 0o600
    cluster.on(0, f"{kubectl} create configmap later")
    assert {host.changed for host in cluster.play(entry="recover")} == {0}, "a quorum is there: nothing is restored"

    cluster.on(0, "sudo rm -rf /var/lib/etcd/member; sudo pkill -KILL -x etcd")
    cluster.play(entry="recover")

    found = cluster.on(0, f"{kubectl} get configmaps -o name").stdout
    assert "configmap/kept" in found
    assert "configmap/later" not in found
    assert {host.changed for host in cluster.play(entry="recover")} == {0}
