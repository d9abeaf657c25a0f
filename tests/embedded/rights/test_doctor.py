"""What `vmatrix doctor` can find in a cluster: made on a real API server, found there, and mended by its remedy."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harness import proc
from harness.infra.cluster.access import check_pod_security
from harness.infra.cluster.capacity import Need
from harness.infra.cluster.checks import Use, check_cluster
from harness.infra.findings import Finding
from harness.kube.client import Infra, Json
from harness.kube.resources import (
    CDI,
    KUBEVIRT,
    NAMESPACE,
    NODE,
    RESOURCE_QUOTA,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    STORAGE_PROFILE,
    Resource,
)
from harness.until import Deadline, NotYet, until
from tests.embedded.rights.conftest import DEPLOY, PROJECT, Ground

Seen = Callable[..., dict[str, Finding]]
DOCTOR_SECONDS = 120.0
GATE = "HonorWaitForFirstConsumer"


@pytest.fixture
def seen(ground: Ground) -> Seen:
    """Return what the checks find, by what was seen."""
    path = ground.provider.kubeconfig()
    return lambda **use: {f.what: f for f in check_cluster(Infra(path), use=Use(**use))}


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@contextmanager
def changed(
    ground: Ground, resource: Resource, patch: Json, back: Json, *, subresource: str | None = None
) -> Iterator[None]:
    """Change the only object of a kind for a while."""
    meta = ground.admin.list(resource).items[0]["metadata"]
    name, namespace = meta["name"], meta.get("namespace")
    ground.admin.merge(resource, name, patch, namespace, subresource=subresource)
    try:
        yield
    finally:
        ground.admin.merge(resource, name, back, namespace, subresource=subresource)


def one(found: dict[str, Finding], part: str) -> Finding:
    (match,) = [f for what, f in found.items() if part in what]
    assert match.why
    assert match.remedy
    return match


def test_a_complete_cluster_has_everything(seen: Seen) -> None:
    assert seen(networks={"pod network": "10.243.0.0/16"}) == {}


@pytest.mark.parametrize(("resource", "product", "subresource"), [(KUBEVIRT, "KubeVirt", "status"), (CDI, "CDI", None)])
def test_an_operator_that_is_deployed_and_not_available(
    ground: Ground, seen: Seen, resource: Resource, product: str, subresource: str | None
) -> None:
    (before,) = ground.admin.list(resource).items
    conditions = before["status"]["conditions"]
    down = {"status": "False", "message": "virt-api is down"}
    broken = [{**c, **down} if c["type"] == "Available" else c for c in conditions]
    patch, back = ({"status": {"conditions": each}} for each in (broken, conditions))
    with changed(ground, resource, patch, back, subresource=subresource):
        found = one(seen(), f"{product} is not Available: virt-api is down")
    assert found.fatal


def configured(**settings: object) -> Json:
    return {"spec": {"configuration": settings}}


def test_bridge_binding_that_is_not_permitted(ground: Ground, seen: Seen) -> None:
    off = configured(network={"permitBridgeInterfaceOnPodNetwork": False})
    on = configured(network={"permitBridgeInterfaceOnPodNetwork": True})
    with changed(ground, KUBEVIRT, off, on):
        found = one(seen(), "does not permit bridge binding")
        assert found.fatal
        ground.kubectl(*_words(found.remedy))
        assert seen() == {}


def _words(remedy: str) -> list[str]:
    import shlex

    program, *words = shlex.split(remedy.split(" or: ")[-1])
    assert program == "kubectl"
    return words


def test_processors_neither_there_nor_emulated_and_then_emulated(ground: Ground, seen: Seen) -> None:
    kvm = "devices.kubevirt.io/kvm"
    none, some = ({"status": {"allocatable": {kvm: n}, "capacity": {kvm: n}}} for n in ("0", "1k"))
    off = configured(developerConfiguration={"useEmulation": False})
    on = configured(developerConfiguration={"useEmulation": True})
    unset = configured(developerConfiguration={"useEmulation": None})
    with changed(ground, NODE, none, some, subresource="status"), changed(ground, KUBEVIRT, off, unset):
        found = one(seen(), "KubeVirt does not emulate processors")
        assert found.fatal
        ground.kubectl(*_words(found.remedy))
        slow = one(seen(), "KubeVirt emulates processors")
        assert not slow.fatal
        assert "--timeout-scale" in slow.remedy
    with changed(ground, KUBEVIRT, on, unset):
        ignored = one(seen(), "KubeVirt has useEmulation, and ")
        assert not ignored.fatal
    assert seen() == {}


def test_nodes_on_which_kubevirt_is_not_up(ground: Ground, seen: Seen) -> None:
    label = "kubevirt.io/schedulable"
    with changed(ground, NODE, {"metadata": {"labels": {label: "false"}}}, {"metadata": {"labels": {label: "true"}}}):
        assert one(seen(), f"no usable node has the label {label}=true").fatal


def test_a_gate_that_breaks_disks_in_images_on_an_older_kubernetes(ground: Ground, seen: Seen) -> None:
    from harness.infra.cluster.kubevirt import check_configuration

    (advice,) = check_configuration(ground.admin, 34)
    assert "ImageVolume" in advice.what
    assert not advice.fatal
    back = configured(developerConfiguration={"disabledFeatureGates": None})
    with changed(ground, KUBEVIRT, {}, back):
        ground.kubectl(*_words(advice.remedy))
        assert list(check_configuration(ground.admin, 34)) == []


def _class(ground: Ground, undo: ExitStack, name: str, mode: str, sets: list[Json] | None) -> None:
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    ground.admin.create(STORAGE_CLASS, {**body, "provisioner": "example.com/disk", "volumeBindingMode": mode})
    undo.callback(ground.admin.delete, STORAGE_CLASS, name)
    profile: Json = {
        "apiVersion": STORAGE_PROFILE.api_version,
        "kind": STORAGE_PROFILE.kind,
        "metadata": {"name": name},
    }
    ground.admin.ensure(STORAGE_PROFILE, {**profile, "spec": {}})
    undo.callback(ground.admin.delete, STORAGE_PROFILE, name)
    ground.admin.merge(STORAGE_PROFILE, name, {"status": {"claimPropertySets": sets}}, subresource="status")


def test_storage_that_cannot_be_claimed(ground: Ground, seen: Seen, undo: ExitStack) -> None:
    shared = [{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]
    _class(ground, undo, "bare", "Immediate", None)
    _class(ground, undo, "shared", "Immediate", shared)
    _class(ground, undo, "late", "WaitForFirstConsumer", [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}])

    assert one(seen(storage_class="nowhere"), "storage class nowhere does not exist").fatal
    assert one(seen(storage_class="bare"), "bare has no claimPropertySets").fatal
    assert one(seen(storage_class="shared"), "shared has ReadWriteMany and not ReadWriteOnce").fatal
    late = seen(storage_class="late")
    assert [f.fatal for f in late.values()] == [False]
    assert one(late, "binds volumes when a pod uses them")


def test_how_a_class_clones_and_whether_cdi_waits_for_consumers(ground: Ground, seen: Seen, undo: ExitStack) -> None:
    sets = [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]
    _class(ground, undo, "shots", "WaitForFirstConsumer", sets)
    status = {"cloneStrategy": "snapshot", "provisioner": "example.com/disk"}
    ground.admin.merge(STORAGE_PROFILE, "shots", {"status": status}, subresource="status")

    found = seen(storage_class="shots")
    assert not one(found, "shots clones by snapshots, but names no snapshot class").fatal
    with changed(
        ground, CDI, {"spec": {"config": {"featureGates": None}}}, {"spec": {"config": {"featureGates": [GATE]}}}
    ):
        gate = one(seen(storage_class="shots"), f"feature gate {GATE} is off")
        assert not gate.fatal
        ground.kubectl(*_words(gate.remedy))
        assert GATE not in " ".join(seen(storage_class="shots"))
    ground.admin.merge(STORAGE_PROFILE, "shots", {"status": {"snapshotClass": "s"}}, subresource="status")
    assert [f.what for f in seen(storage_class="shots").values()] == [
        one(found, "binds volumes when a pod uses them").what
    ]


def test_a_pod_like_a_launcher_s_is_tried_against_pod_security(ground: Ground, undo: ExitStack) -> None:
    name = f"secured-{secrets.token_hex(3)}"
    enforce = "pod-security.kubernetes.io/enforce"
    meta = {"name": name, "labels": {enforce: "restricted"}}
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    undo.callback(ground.admin.delete, NAMESPACE, name)
    until(
        lambda: bool(ground.admin.get(SERVICE_ACCOUNT, "default", name)) or NotYet("no default account"),
        deadline=Deadline.after(30),
        what="the namespace has its service account",
    )
    (finding,) = check_pod_security(ground.admin, name)
    assert finding.fatal
    assert "seccompProfile" in finding.what
    ground.kubectl(*_words(finding.remedy))
    assert list(check_pod_security(ground.admin, name)) == []


def test_a_shared_namespace_its_quota_and_its_pod_security(ground: Ground, seen: Seen, undo: ExitStack) -> None:
    name = f"shared-{secrets.token_hex(3)}"
    need = Need("the largest cell", memory_mib=8192, cpus=2.0, machines=4, storage_gib=48)
    assert one(seen(namespace=name), f"namespace {name} does not exist").fatal
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    ground.admin.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": level}}
    )
    undo.callback(ground.admin.delete, NAMESPACE, name)
    hard = {"requests.memory": "4Gi", "pods": "100", "requests.storage": "20Gi"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": name}}
    ground.admin.create(RESOURCE_QUOTA, {**quota, "spec": {"hard": hard}})

    found = seen(namespace=name, need=need)
    security, memory, storage = (
        one(found, part)
        for part in ("enforces Pod Security restricted", "4Gi of requests.memory", "20Gi of requests.storage")
    )
    assert all(f.fatal for f in (security, memory, storage))
    assert len(found) == 3
    for finding in (security, memory, storage):
        ground.kubectl(*_words(finding.remedy))
    assert seen(namespace=name, need=need) == {}


def test_a_machine_larger_than_any_node(seen: Seen) -> None:
    found = seen(need=Need("the cell", largest_mib=2**30, required=False))
    assert not one(found, "the largest node can allocate").fatal


def test_networks_that_overlap_and_nodes_of_amazon(ground: Ground, seen: Seen, undo: ExitStack) -> None:
    spec = {"podCIDR": "10.243.64.0/24", "podCIDRs": ["10.243.64.0/24"], "providerID": "aws:///eu-central-1a/i-0"}
    ground.admin.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "outer"}, "spec": spec})
    undo.callback(ground.admin.delete, NODE, "outer")
    found = seen(networks={"pod network": "10.243.0.0/16", "service network": "10.95.0.0/16"})
    overlap = one(found, "pod network 10.243.0.0/16 overlaps with the cluster's 10.243.64.0/24 (pods, by node outer)")
    assert overlap.fatal
    assert "cluster_pod_cidr: 10." in overlap.remedy
    assert not one(found, "nodes are Amazon's").fatal
    assert len(found) == 2


@pytest.mark.parametrize(
    ("off", "way", "fatal"), [(60, "ahead of", False), (3600, "ahead of", True), (-400, "behind", True)]
)
def test_clocks_that_differ(seen: Seen, off: int, way: str, fatal: bool) -> None:
    found = seen(now=lambda: time.time() + off)
    assert one(found, way).fatal is fatal


def test_rights_in_a_shared_namespace_are_asked_for_there(ground: Ground, undo: ExitStack) -> None:
    name = f"shared-{secrets.token_hex(3)}"
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    undo.callback(ground.admin.delete, NAMESPACE, name)
    meta = {"name": "job", "namespace": name}
    ground.admin.create(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    job = ground.account(name, "job")

    def missing() -> list[Finding]:
        found = check_cluster(Infra(job.kubeconfig), use=Use(namespace=name))
        return [f for f in found if f.what.startswith("not allowed") and f.fatal]

    before = missing()
    assert before
    assert all(f.what.endswith(f"in namespace {name}") for f in before)
    for finding in before:
        for command in finding.remedy.split(" && "):
            ground.kubectl(*_words(command))
    until(lambda: not missing() or NotYet("rights are missing"), deadline=Deadline.after(20), what="rights are there")


def test_the_command_says_all_of_it_at_once_with_a_jobs_own_rights(ground: Ground, tmp_path: Path) -> None:
    job = ground.job(PROJECT, "platform/app")
    vmatrix = Path(sys.executable).with_name("vmatrix")
    command: list[str | Path] = [vmatrix, "doctor", "--kubeconfig", job.kubeconfig, "--json"]
    whole = proc.run(command, timeout=DOCTOR_SECONDS, check=False)
    broken = configured(network={"permitBridgeInterfaceOnPodNetwork": False})
    with changed(ground, KUBEVIRT, broken, configured(network={"permitBridgeInterfaceOnPodNetwork": True})):
        partly = proc.run([*command, "--storage-class", "nowhere"], timeout=DOCTOR_SECONDS, check=False)

    advice = json.loads(whole.stdout)
    assert whole.returncode == 0, whole.stdout
    assert all("the plan's largest cell" in f["why"] for f in advice), advice  # this host may be too small for it
    assert partly.returncode == 2
    missing = [f["what"] for f in json.loads(partly.stdout) if f["fatal"]]
    assert missing == [
        "KubeVirt does not permit bridge binding on the pod network",
        "storage class nowhere does not exist",
    ]
    assert (DEPLOY / "README.md").is_file()
