"""Control planes are lost: one of three, then the majority, then all; the cluster comes back, and never of nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

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

PLACE = {"cp-0": 0, "cp-1": 1, "cp-2": 2, "w-0": 3}


def lost(*names: str) -> tuple[str, str]:
    """Return the option that says which machines are gone for good."""
    return "-e", json.dumps({"cluster_lost_nodes": names})


@pytest.fixture(scope="module")
def ordered(bench: Bench) -> Cell:
    """Deploy three control planes with etcd on them and a worker."""
    whole = cell_of("cp3-w2")
    ordered = replace(whole, machines=tuple(planned for planned in whole.machines if planned.name in PLACE))
    bench.boot(ordered)
    bench.play()
    return ordered


def known(bench: Bench, kind: str) -> str:
    """Return the names of all objects of a kind in the default namespace."""
    done = bench.on(0, f"{KUBECTL} get {kind} -o name")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_lost_control_plane_is_forgotten_while_there_is_a_quorum(bench: Bench, ordered: Cell) -> None:
    bench.on(0, f"{KUBECTL} create configmap before")
    bench.end(PLACE["cp-2"])

    bench.play(*lost("cp-2"), entry="recover")

    assert nodes(bench) == {"cp-0", "cp-1", "w-0"}
    assert stacked_members(bench, 0, "cp-0") == {"cp-0", "cp-1"}
    assert "configmap/before" in known(bench, "configmaps")
    assert bench.on(0, "sudo ls /var/lib/etcd.lost").returncode != 0, "nothing was restored"
    assert "cp-2" not in bench.on(PLACE["w-0"], "cat /etc/api-endpoint/haproxy.cfg /etc/hosts").stdout

    bench.boot_anew(ordered, PLACE["cp-2"])
    bench.play(entry="scale")
    assert nodes(bench) == set(PLACE)
    assert stacked_members(bench, 0, "cp-0") == {"cp-0", "cp-1", "cp-2"}


def test_a_lost_quorum_comes_back_from_a_snapshot_alone(bench: Bench, ordered: Cell) -> None:
    path = bench.directory / "etcd" / "snapshot.db"
    refused = bench.attempt(entry="backup")
    assert refused.returncode != 0
    assert "cluster_etcd_snapshot_path is not set" in refused.stdout
    write_objects(bench, BEFORE, MANY)
    bench.play(*snapshot(path), entry="backup")
    assert path.stat().st_mode & 0o777 == 0o600
    write_objects(bench, AFTER, MANY_AFTER)
    for name in ("cp-1", "cp-2"):
        bench.end(PLACE[name])
    gone = lost("cp-1", "cp-2")

    refused = bench.attempt(*gone, "-e", "etcd_restore_patience=10", entry="recover")
    assert refused.returncode != 0
    assert "there is no snapshot at cluster_etcd_snapshot_path (not set)" in " ".join(refused.stdout.split())
    assert bench.on(0, "sudo ls /etc/kubernetes/manifests/etcd.yaml").returncode == 0, "nothing was changed"

    bench.play(*gone, *snapshot(path), entry="recover")
    assert nodes(bench) == {"cp-0", "w-0"}
    assert stacked_members(bench, 0, "cp-0") == {"cp-0"}
    assert "configmap/before" in known(bench, "configmaps")
    assert written_objects(bench) == {BEFORE: MANY}

    bench.list_only("cp-0", "w-0")
    assert {host.changed for host in bench.play(*snapshot(path), entry="recover")} == {0}
    # the controllers, the scheduler and every kubelet that is left act on what is asked for now
    roll = f"{KUBECTL} -n kube-system rollout"
    done = bench.on(0, f"{roll} restart daemonset/kube-proxy && {roll} status --timeout 90s daemonset/kube-proxy")
    assert done.returncode == 0, done.stdout + done.stderr

    bench.list_only(*PLACE)
    for name in ("cp-1", "cp-2"):
        bench.boot_anew(ordered, PLACE[name])
    bench.play(entry="scale")
    assert nodes(bench) == set(PLACE)
    assert stacked_members(bench, 0, "cp-0") == {"cp-0", "cp-1", "cp-2"}
    assert {host.changed for host in bench.play(entry="scale")} == {0}


CAS = ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub", "etcd/ca.crt", "etcd/ca.key")


def test_a_control_plane_is_made_again_of_its_cas_and_a_snapshot(bench: Bench, ordered: Cell) -> None:
    path, authority = bench.directory / "etcd" / "all.db", bench.directory / "authority"
    (authority / "etcd").mkdir(parents=True)
    for name in CAS:
        (authority / name).write_text(bench.on(0, f"sudo cat /etc/kubernetes/pki/{name}").stdout, encoding="utf-8")
    former = bench.kubeconfig.read_text(encoding="utf-8")
    bench.on(0, f"{KUBECTL} create configmap first")
    bench.play(*snapshot(path), entry="backup")
    write_objects(bench, AFTER, MANY_AFTER)
    workload = "pgrep --exact kube-proxy; pgrep --exact flanneld; systemctl show --property=MainPID kubelet.service"
    ran = bench.on(PLACE["w-0"], workload).stdout
    for name in ("cp-0", "cp-1", "cp-2"):
        bench.boot_anew(ordered, PLACE[name])

    refused = bench.attempt(*snapshot(path), entry="rebuild")
    assert refused.returncode != 0
    assert "missing in cluster_authority_path (not set)" in " ".join(refused.stdout.split())
    own = ("-e", f"cluster_authority_path={authority}")
    refused = bench.attempt(*own, entry="rebuild")
    assert refused.returncode != 0
    assert "there is no snapshot at cluster_etcd_snapshot_path (not set)" in " ".join(refused.stdout.split())
    assert bench.on(0, "ls /etc/kubernetes").returncode != 0, "nothing was changed"

    bench.play(*own, *snapshot(path), entry="rebuild", timeout=1500)
    assert nodes(bench) == set(PLACE)
    assert stacked_members(bench, 0, "cp-0") == {"cp-0", "cp-1", "cp-2"}
    assert "configmap/first" in known(bench, "configmaps")
    assert written_objects(bench) == {BEFORE: MANY}
    assert bench.on(PLACE["w-0"], workload).stdout == ran, "what runs on a worker goes on"
    made_anew = bench.kubeconfig.read_text(encoding="utf-8")
    bench.kubeconfig.write_text(former, encoding="utf-8")
    assert nodes(bench) == set(PLACE), "who had access has it still"
    bench.kubeconfig.write_text(made_anew, encoding="utf-8")
    revision = bench.on(0, f"{KUBECTL} get configmap first -o jsonpath={{.metadata.resourceVersion}}").stdout
    made = bench.on(0, f"{KUBECTL} create configmap last -o jsonpath={{.metadata.resourceVersion}}").stdout
    assert int(made) > int(revision) + 1_000_000_000, "no client takes an old revision for a new one"
    assert {host.changed for host in bench.play(*own, *snapshot(path), entry="rebuild")} == {0}
