"""A clone begins only of a snapshot that it can be made of, on bare machines, and has nothing of its source."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.playbook_files import PLAYBOOKS, SHOW_GROUPS, check_refusal, groups_of, load, module, run_here
from tests.unit.playbooks.test_templates import render

Json = dict[str, Any]
SNAPSHOT, TAKEN = b"a snapshot", "2026-11-22T03:00:00Z"
DIGEST = hashlib.sha1(SNAPSHOT).hexdigest()  # noqa: S324 - as Ansible's module stat has it
# By a machine's name: what it has, what its run is given, and how it is refused.
ROWS: dict[str, tuple[dict[str, str], Json, str]] = {
    "bare": ({}, {}, ""),
    "begun": ({"cloned": DIGEST, "kubelet.conf": ""}, {"same": ["cp"], "taken_already": ["cp"]}, ""),
    "begun-with-another": ({"cloned": "0"}, {"other": ["cp"]}, "cp has begun as a clone of another snapshot"),
    "part-of-a-cluster": ({}, {"taken_already": ["cp"]}, "cp is part of a cluster, and a clone begins on mach"),
    "begun-elsewhere": (
        {},
        {"same": ["cp-1"], "taken_already": ["cp-1"]},
        "cp-1 has the data of the clone, and now cp is the first control plane: list cp-1 before it in the group contr",
    ),
    "with-a-kubelet": ({"kubelet.conf": ""}, {}, ""),
    "with-an-etcd": ({"began": ""}, {}, ""),
    "no-snapshot": ({}, {"snapshot_path": ""}, "no snapshot at cluster_etcd_snapshot_path (not set) that has"),
    "no-description": ({}, {"snapshot_path": "{{ place }}/plain.db"}, "that has its description (.json) beside"),
    "later-etcd": ({}, {"etcd_version": "3.5.21"}, "was taken of etcd 3.6.8, and cluster_etcd_version is 3.5."),
    "newer-etcd": ({}, {"etcd_version": "3.7.0"}, ""),
    "earlier-kubernetes": ({}, {"kubernetes_version": "1.35.4"}, "was taken of Kubernetes 1.36.3, and clust"),
    "next-kubernetes": ({}, {"kubernetes_version": "1.37.2"}, ""),
    "later-kubernetes": ({}, {"kubernetes_version": "1.38.0"}, "use the same minor version or the next one"),
    "key-missing": (
        {},
        {"snapshot_path": "{{ place }}/encrypted.db"},
        "are encrypted with key-0123456789, and cluster_encryption_key is not set: set it to the key of the cluster",
    ),
    "another-key": (
        {},
        {"snapshot_path": "{{ place }}/encrypted.db", "encryption": "key-1"},
        "are encrypted with key-0123456789, and cluster_encryption_key is key-1",
    ),
    "same-key": (
        {},
        {"snapshot_path": "{{ place }}/encrypted.db", "encryption": "key-0123456789"},
        "",
    ),
    "encrypted-from-now-on": ({}, {"encryption": "key-1"}, ""),
    "not-confirmed": ({}, {"confirmation": ""}, f"set cluster_etcd_restore_confirmation to {TAKEN}, the time"),
    "another-confirmed": ({}, {"confirmation": "2026"}, "all that its source had at 2026-11-22T03:00:00Z"),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what Ansible said of all rows in one run."""
    place, hosts = tmp_path_factory.mktemp("clone"), dict[str, Json]()
    described = {"etcdVersion": "3.6.8", "kubernetesVersion": "1.36.3", "taken": TAKEN, "encryption": ""}
    for name, more in (("plain", None), ("snapshot", {}), ("encrypted", {"encryption": "key-0123456789"})):
        (place / f"{name}.db").write_bytes(SNAPSHOT)
        if more is not None:
            (place / f"{name}.db.json").write_text(json.dumps({**described, **more}), encoding="utf-8")
    for name, (files, given, _) in ROWS.items():
        (place / name).mkdir()
        for file, text in files.items():
            (place / name / file).write_text(text, encoding="utf-8")
        hosts[name] = {
            "clone_check_first": "cp",
            "clone_check_same": [],
            "clone_check_other": [],
            "clone_check_taken_already": [],
            "clone_check_snapshot_path": "{{ place }}/snapshot.db",
            "clone_check_confirmation": TAKEN,
            "clone_check_etcd_version": "3.6.8",
            "clone_check_kubernetes_version": "1.36.1",
            "clone_check_mark": "{{ place }}/{{ inventory_hostname }}/cloned",
            "clone_check_cluster": "{{ place }}/{{ inventory_hostname }}/kubelet.conf",
            "clone_check_began": "{{ place }}/{{ inventory_hostname }}/began",
            **{f"clone_check_{key}": value for key, value in given.items()},
        }
    return run_here(place, [{"roles": ["clone_check"]}, {"tasks": [SHOW_GROUPS]}], {}, **hosts)


@pytest.mark.parametrize("row", ROWS)
def test_what_cannot_be_cloned_is_refused_with_the_remedy(row: str, said: str) -> None:
    check_refusal(said, row, ROWS[row][2], "Nothing was changed")


def test_machines_of_a_cluster_are_found(said: str) -> None:
    groups = groups_of(said)
    assert groups["clone_same"] == ["begun"]
    assert groups["clone_other"] == ["begun-with-another"]
    assert set(groups["clone_taken"]) == {"begun", "with-a-kubelet", "with-an-etcd"}


def test_no_machine_changes_before_all_is_there() -> None:
    plays = load(PLAYBOOKS / "clone.yml")
    check = next(number for number, play in enumerate(plays) if "clone_check" in str(play.get("roles")))
    before = [play.get("ansible.builtin.import_playbook") or play["roles"][0]["role"] for play in plays[:check]]
    assert before == ["preflight.yml", "etcd_inventory"]


# Has one claim of the source, and refuses to make it as the file of the machine's name says.
KUBECTL = """case "$*" in
*" get services,"*) cat "$place/claim.json" ;;
*" get persistentvolumeclaims "*) cat "$place/$machine.there" ;;
*" replace --force "*) cat >"$place/$machine.forced" ;;
*" replace "*) cat >/dev/null ;;
*" create "*) cat "$place/$machine.refusal" >&2; exit 1 ;;
esac
"""
THERE = 'Error from server (AlreadyExists): error when creating "x.json": persistentvolumeclaims "data" already exists'
# By a machine's name: what the API server says, whether that is well, and the size that a controller gave the claim.
MADE: dict[str, tuple[str, bool, str]] = {
    "made-by-a-controller": (THERE, True, "5Gi"),
    "made-as-its-template-says": (THERE, True, "1Gi"),
    "with-a-warning": (f"Warning: deprecated\n{THERE}", True, "5Gi"),
    "refused": (f"{THERE}\nError from server (Forbidden): exceeded quota", False, "5Gi"),
    "silent": ("", False, "5Gi"),
}


def sized(size: str) -> Json:
    """Return what a claim asks for."""
    return {"resources": {"requests": {"storage": size}}}


def test_a_claim_that_a_controller_has_made_again_is_there(tmp_path: Path) -> None:
    (tmp_path / "claim.json").write_text(json.dumps({"items": [claim(**sized("5Gi"))]}), encoding="utf-8")
    hosts = {}
    for name, (text, _, size) in MADE.items():
        (tmp_path / f"{name}.there").write_text(json.dumps({"items": [claim(**sized(size))]}), encoding="utf-8")
        (tmp_path / f"{name}.refusal").write_text(text, encoding="utf-8")
        hosts[name] = {"clone_objects_folder": str(tmp_path / name)}
    given = {"clone_objects_first": True, "clone_objects_networks": NETWORKS, "clone_objects_leftover": "{{ place }}/x"}
    said = run_here(tmp_path, [{"roles": ["clone_objects"], "vars": given}], {"kubectl": KUBECTL}, **hosts)
    for name, (text, well, _) in MADE.items():
        check_refusal(said, name, "" if well else "non-zero return code", text[-20:])
        assert (tmp_path / name / "done").exists() is well, said
        assert (tmp_path / name / "objects.json").exists() is not well, "it is kept for another run"
    (forced,) = tmp_path.glob("*.forced")
    assert forced.stem == "made-as-its-template-says"
    (replaced,) = json.loads(forced.read_text(encoding="utf-8"))["items"]
    assert (replaced["metadata"]["name"], replaced["spec"]) == ("data", sized("5Gi"))


NETWORKS = ["10.95.0.0/16", "fd10:95::/112"]


def service(name: str = "shop", namespace: str = "default", **spec: Any) -> Json:
    """Return a Service as the API server has it."""
    addresses = spec.pop("clusterIPs", ["10.99.1.2"])
    given = {"clusterIP": addresses[0], "clusterIPs": addresses, "ports": [{"port": 80}], **spec}
    meta = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
    return {"kind": "Service", "metadata": meta, "spec": given, "status": {"loadBalancer": {}}}


def claim(**more: Any) -> Json:
    """Return a PersistentVolumeClaim as the API server has it."""
    notes = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "w-0", "own": "kept"}
    meta = {
        "name": "data",
        "namespace": "default",
        "finalizers": ["kubernetes.io/pvc-protection"],
        "annotations": notes,
    }
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": {"volumeName": "pv-1", **more}}


# By what it is: an object, and whether it is made anew.
OBJECTS: dict[str, tuple[Json, bool]] = {
    "of another network": (service(), True),
    "of the clone's network": (service(clusterIPs=["10.95.3.4"]), False),
    "of both families": (service(clusterIPs=["10.95.3.4", "fd10:95::7"]), False),
    "of another second family": (service(clusterIPs=["10.95.3.4", "fd77::7"]), True),
    "headless": (service(clusterIPs=["None"]), False),
    "a name elsewhere": ({**service(), "spec": {"type": "ExternalName", "externalName": "db.example"}}, False),
    "with a load balancer": (service(clusterIPs=["10.95.3.4"], type="LoadBalancer"), True),
    "the API server's own": (service("kubernetes"), False),
    "kubernetes elsewhere": (service("kubernetes", "team"), True),
    "a bound claim": (claim(), True),
    "a claim that waits": ({**claim(), "spec": {}}, False),
}


def test_no_configuration_with_networks_of_the_source_is_read_by_pods_of_the_clone(tmp_path: Path) -> None:
    """Its pods begin before the roles of plugins and add-ons write theirs, and end where it is of other networks."""
    pods = "10.99.0.0/16"
    documents = [
        document
        for manifest in render("cp1-w1", tmp_path, cluster_pod_cidr=pods, network_plugin_pod_cidr=pods).glob("*.yml")
        if "kind: ConfigMap" in (text := manifest.read_text(encoding="utf-8"))
        for document in yaml.safe_load_all(text)
        if document["kind"] == "ConfigMap" and pods in json.dumps(document["data"])
    ]
    names = [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in documents]
    assert names == ["kube-flannel/kube-flannel-cfg"]
    keys = load(PLAYBOOKS / "roles/etcd_clone/vars/main.yml")["etcd_clone_keys"]
    assert {f"/registry/configmaps/{name}" for name in names} <= set(keys)


@pytest.mark.parametrize("name", OBJECTS)
def test_what_belongs_to_the_source_is_made_anew(name: str) -> None:
    one, anew = OBJECTS[name]
    assert len(module("filter_plugins/made_anew.py").made_anew([one], NETWORKS)) == anew


def test_what_is_made_anew_has_nothing_of_the_source() -> None:
    made = module("filter_plugins/made_anew.py").made_anew
    one = service(
        type="LoadBalancer", loadBalancerIP="1.2.3.4", ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv4"],
        ports=[{"port": 80, "nodePort": 30080}],
    )  # fmt: skip
    one["metadata"]["finalizers"] = ["service.kubernetes.io/load-balancer-cleanup"]
    (pair,) = made([one], NETWORKS[:1])
    assert "finalizers" not in pair["before"]["metadata"]
    assert pair["before"]["spec"] == one["spec"]
    assert pair["after"]["metadata"] == {"name": "shop", "namespace": "default", "labels": {"a": "b"}}
    ports = [{"port": 80, "nodePort": 30080}]
    assert pair["after"]["spec"] == {"type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "ports": ports}
    assert made([one], NETWORKS)[0]["after"]["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    (pair,) = made([claim(dataSource={"kind": "VolumeSnapshot"}, storageClassName="fast")], NETWORKS)
    assert "finalizers" not in pair["before"]["metadata"]
    assert pair["after"]["metadata"]["annotations"] == {"own": "kept"}
    assert pair["after"]["spec"] == {"storageClassName": "fast"}
