"""etcd without a cluster, from bare machines to a reset, and a control plane elsewhere that has its objects in it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from harness.artifacts.recipe import Ref, silent
from harness.artifacts.store import Store
from harness.model import Cell
from harness.validate.phases.leftovers import differences
from tests.embedded.playbooks.conftest import ETCDCTL, KUBECTL, PKI, Bench, cell_of, external_members, leaving, nodes
from tests.embedded.playbooks.running import flags, give

OLD = "3.6.6"  # of the same minor release as the cell's
MEMBERS = ("etcd-0", "etcd-1", "etcd-2")
CLUSTER = {"name": "cluster-a", "prefix": "/registry/cluster-a"}
# A separate disk cannot be moved: a mount stands for one.
MOUNT = """
sudo systemctl stop etcd && sudo mv /var/lib/etcd /var/lib/disk && sudo mkdir -m 0700 /var/lib/etcd &&
  sudo mount --bind /var/lib/disk /var/lib/etcd && echo mounted
"""
UNMOUNT = """
sudo systemctl stop etcd && sudo umount /var/lib/etcd && sudo rmdir /var/lib/etcd && sudo rm -r /var/lib/disk/lost &&
  sudo mv /var/lib/disk /var/lib/etcd && sudo systemctl start etcd && echo unmounted
"""


@pytest.fixture(scope="module")
def planned() -> Cell:
    """Return three machines of etcd, and a control plane that is not of their inventory."""
    whole = cell_of("cp2-etcd3-w1")
    members = [machine for machine in whole.machines if machine.name in MEMBERS]
    (first,) = (machine for machine in whole.machines if machine.name == "cp-0")
    return replace(whole, machines=(replace(first, groups=("control_plane", "node")), *members))


@pytest.fixture(scope="module")
def place(planned: Cell) -> dict[str, int]:
    """Return the machines' places in the inventory."""
    return {one.name: number for number, one in enumerate(planned.machines)}


@pytest.fixture(scope="module")
def version(planned: Cell) -> str:
    """Return the version of etcd that an upgrade leads to."""
    return str(planned.vars["cluster_etcd_version"])


@pytest.fixture(scope="module")
def before(bench: Bench, planned: Cell, place: dict[str, int]) -> dict[str, dict[str, dict[str, str]]]:
    """Deploy etcd of an earlier version on one of the machines; return what all were like, by name."""
    Store().ensure((Ref("etcd", OLD), Ref("etcdutl", OLD)), silent)
    bench.boot(planned)
    states = {name: bench.state(number) for name, number in place.items()}
    bench.list_only("etcd-0")
    give(bench, cluster_etcd_version=OLD)
    bench.play(entry="etcd")
    return states


def on_etcd(bench: Bench, place: dict[str, int], words: str, machine: str = "etcd-0") -> str:
    """Return what etcdctl says on a machine of etcd."""
    return bench.on(place[machine], f"sudo {ETCDCTL} {words} 2>&1").stdout.strip()


def versions(bench: Bench, place: dict[str, int]) -> dict[str, str]:
    """Return what each member says that it runs."""
    words = f"sudo {ETCDCTL} endpoint status --write-out=json"
    return {name: json.loads(bench.on(place[name], words).stdout)[0]["Status"]["version"] for name in MEMBERS}


def unchanged(bench: Bench, entry: str, *options: str) -> bool:
    """Run an entry again; tell whether it changed nothing."""
    return {host.changed for host in bench.play(*options, entry=entry)} == {0}


@pytest.mark.usefixtures("before")
def test_etcd_grows_by_the_entry_that_deploys_it(bench: Bench, place: dict[str, int]) -> None:
    assert external_members(bench, place["etcd-0"]) == {"etcd-0"}
    bench.list_only(*MEMBERS)
    bench.play(entry="etcd")
    assert external_members(bench, place["etcd-0"]) == set(MEMBERS)
    assert on_etcd(bench, place, "endpoint health --cluster").count("is healthy") == len(MEMBERS)
    assert unchanged(bench, "etcd")


@pytest.mark.usefixtures("before")
def test_etcd_is_upgraded_by_an_entry_of_its_own(bench: Bench, place: dict[str, int], version: str) -> None:
    other = bench.attempt("-e", f"cluster_etcd_version={version}", entry="etcd")
    assert "run upgrade-etcd.yml" in " ".join(other.stdout.split())
    bench.play("-e", f"cluster_etcd_version={version}", entry="upgrade-etcd")
    assert set(versions(bench, place).values()) == {version}
    assert unchanged(bench, "upgrade-etcd", "-e", f"cluster_etcd_version={version}")
    refused = bench.attempt(entry="upgrade-etcd")
    assert "etcd is not downgraded" in " ".join(refused.stdout.split())
    assert "changed=0" in refused.stdout
    give(bench, cluster_etcd_version=version)


@pytest.mark.usefixtures("before")
def test_settings_are_applied_and_certificates_are_renewed(bench: Bench, place: dict[str, int]) -> None:
    give(bench, cluster_etcd_extra_args={"quota-backend-bytes": "4294967296"})
    bench.play(entry="etcd")
    assert {"--quota-backend-bytes=4294967296"} <= set(flags(bench, place["etcd-2"], "etcd"))
    give(bench, cluster_etcd_extra_args={"quota-backend-bytes": "3221225472"})
    bench.play(entry="reconfigure")
    assert {"--quota-backend-bytes=3221225472"} <= set(flags(bench, place["etcd-2"], "etcd"))
    was = bench.on(place["etcd-1"], f"sudo sha256sum {PKI}/server.crt").stdout
    bench.play("-e", "cluster_certificates_renew_before_days=400", entry="certificates")
    assert bench.on(place["etcd-1"], f"sudo sha256sum {PKI}/server.crt").stdout != was
    assert on_etcd(bench, place, "endpoint health --cluster").count("is healthy") == len(MEMBERS)


@pytest.mark.usefixtures("before")
def test_etcd_is_saved_and_defragmented_and_a_member_is_replaced(bench: Bench, place: dict[str, int]) -> None:
    assert on_etcd(bench, place, "put /kept yes") == "OK"
    bench.play("-e", f"cluster_etcd_snapshot_path={bench.directory}/snapshot.db", entry="backup")
    bench.play(
        *("-e", "cluster_etcd_defragment_percent=0", "-e", "cluster_etcd_defragment_mebibytes=0"),
        entry="defragment-etcd",
    )
    bench.play(*leaving("etcd-2"), entry="remove-node")
    assert external_members(bench, place["etcd-0"]) == {"etcd-0", "etcd-1"}
    bench.play(entry="etcd")
    assert external_members(bench, place["etcd-0"]) == set(MEMBERS)
    assert on_etcd(bench, place, "get /kept --print-value-only", "etcd-2") == "yes"


@pytest.mark.usefixtures("before")
def test_etcd_without_its_quorum_is_recovered(bench: Bench, place: dict[str, int]) -> None:
    path = ("-e", f"cluster_etcd_snapshot_path={bench.directory}/snapshot.db")
    assert on_etcd(bench, place, "put /later yes") == "OK"
    bench.play(*path, entry="recover")
    assert on_etcd(bench, place, "get /later --print-value-only") == "yes", "with a quorum, nothing is restored"
    for name in ("etcd-1", "etcd-2"):
        bench.on(place[name], "sudo systemctl stop etcd && sudo rm -rf /var/lib/etcd/member")
    assert bench.on(place["etcd-0"], MOUNT).stdout == "mounted\n"
    lost = ("-e", json.dumps({"cluster_lost_nodes": ["etcd-1", "etcd-2"]}))
    bench.play(*path, *lost, entry="recover")
    assert external_members(bench, place["etcd-0"]) == {"etcd-0"}
    assert bench.on(place["etcd-0"], "sudo ls /var/lib/disk").stdout.split() == ["lost", "member"]
    assert bench.on(place["etcd-0"], UNMOUNT).stdout == "unmounted\n"
    assert on_etcd(bench, place, "get /kept --print-value-only") == "yes"
    assert on_etcd(bench, place, "get /later --print-value-only") == ""
    bench.play("--limit", "etcd-1,etcd-2", entry="reset")
    bench.play(entry="etcd")
    assert external_members(bench, place["etcd-0"]) == set(MEMBERS)


def list_cluster(bench: Bench, place: dict[str, int]) -> dict[str, Any]:
    """Have an inventory of the control plane alone; return the variables by which it takes etcd."""
    booted = yaml.safe_load((bench.directory / "booted.yml").read_text(encoding="utf-8"))
    addresses = {name: booted["all"]["hosts"][name]["ansible_host"] for name in place}
    bench.list_only("cp-0")
    return {
        "cluster_etcd_endpoints": [f"https://{addresses[name]}:2379" for name in MEMBERS],
        "cluster_etcd_client_path": str(bench.directory / "clients" / CLUSTER["name"]),
        "cluster_etcd_prefix": CLUSTER["prefix"],
        "cluster_kubeconfig_path": str(bench.kubeconfig),
    }


@pytest.fixture(scope="module")
def cluster(bench: Bench, before: dict[str, Any], place: dict[str, int]) -> dict[str, Any]:
    """Give a cluster of one control plane a user of etcd, and deploy it; return the variables of it."""
    assert before
    bench.list_only(*MEMBERS)
    users = {"cluster_etcd_users": [CLUSTER], "cluster_etcd_client_path": str(bench.directory / "clients")}
    bench.play("-e", json.dumps(users), entry="etcd-users")
    assert unchanged(bench, "etcd-users", "-e", json.dumps(users))
    given = list_cluster(bench, place)
    bench.play("-e", json.dumps(given), entry="cluster", timeout=1800)
    return given


def test_a_control_plane_has_its_objects_in_an_etcd_elsewhere(
    bench: Bench, cluster: dict[str, Any], place: dict[str, int]
) -> None:
    assert nodes(bench) == {"cp-0"}
    assert f"--etcd-prefix={CLUSTER['prefix']}" in flags(bench, place["cp-0"], "kube-apiserver")
    assert "ok" in bench.on(place["cp-0"], f"{KUBECTL} get --raw /readyz").stdout
    assert bench.on(place["cp-0"], "pgrep -x etcd").stdout == ""
    kinds = {"/".join(key.split("/")[:3]) for key in on_etcd(bench, place, 'get "" --prefix --keys-only').split()}
    assert kinds - {"/kept", "compact_rev_key"} == {CLUSTER["prefix"]}, "that one is there after a while"
    assert unchanged(bench, "cluster", "-e", json.dumps(cluster))
    other = bench.attempt("-e", json.dumps({**cluster, "cluster_etcd_prefix": "/registry/b"}), entry="reconfigure")
    assert "it cannot change" in " ".join(other.stdout.split())


def test_entries_of_etcd_work_while_it_asks_who_its_clients_are(
    bench: Bench, cluster: dict[str, Any], place: dict[str, int]
) -> None:
    assert cluster
    bench.list_only(*MEMBERS)
    path = ("-e", f"cluster_etcd_snapshot_path={bench.directory}/later.db")
    bench.play(*path, entry="backup")
    assert on_etcd(bench, place, "put /later yes") == "OK"
    bench.play(*path, entry="recover")
    assert on_etcd(bench, place, "get /later --print-value-only") == "yes", "with a quorum, nothing is restored"
    every = ("-e", "cluster_etcd_defragment_percent=0", "-e", "cluster_etcd_defragment_mebibytes=0")
    bench.play(*every, entry="defragment-etcd")
    bench.play(*leaving("etcd-1"), entry="remove-node")
    bench.play(entry="etcd")
    assert external_members(bench, place["etcd-0"]) == set(MEMBERS)
    assert "ok" in bench.on(place["cp-0"], f"{KUBECTL} get --raw /readyz").stdout


def test_a_reset_leaves_objects_unless_it_is_asked_to_delete_them(
    bench: Bench, cluster: dict[str, Any], place: dict[str, int], before: dict[str, dict[str, dict[str, str]]]
) -> None:
    list_cluster(bench, place)
    bench.play("-e", json.dumps(cluster), entry="reset")
    count = f"get {CLUSTER['prefix']}/ --prefix --keys-only"
    assert len(on_etcd(bench, place, count).split()) > 100
    bench.play("-e", json.dumps({**cluster, "cluster_etcd_delete_prefix": True}), entry="reset")
    assert on_etcd(bench, place, count) == ""
    assert on_etcd(bench, place, "get /kept --print-value-only") == "yes"
    assert differences(before["cp-0"], bench.state(place["cp-0"])) == []
    bench.list_only(*MEMBERS)
    bench.play(entry="reset")
    assert {name: differences(before[name], bench.state(place[name])) for name in MEMBERS} == {
        name: [] for name in MEMBERS
    }
