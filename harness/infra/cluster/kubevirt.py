"""KubeVirt and CDI of an infra cluster: whether they work, are set up to start machines, and can make disks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.infra.cluster.access import allowed
from harness.infra.cluster.capacity import SCHEDULABLE, usable
from harness.infra.cluster.rights import SNAPSHOTS
from harness.infra.findings import Finding
from harness.kube import Cluster, Resource
from harness.kube.client import Json
from harness.kube.objects import quantity
from harness.kube.resources import CDI, KUBEVIRT, NODE, STORAGE_CLASS, STORAGE_PROFILE

DEPLOYED = "Deployed"
KVM = "devices.kubevirt.io/kvm"
IMAGE_VOLUME = "ImageVolume"
IMAGE_VOLUME_SINCE = 35  # the minor of Kubernetes from which its kubelet mounts images as volumes
IMAGE_VOLUME_DEFAULT = (1, 9)  # the release of KubeVirt from which the gate is on by default
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
DEFAULT_VIRT_CLASS = "storageclass.kubevirt.io/is-default-virt-class"  # CDI prefers it over the former
LOCAL_PATH = "rancher.io/local-path"  # the provisioner of pods' claims on the infra clusters that vmatrix makes
WAITS, SNAPSHOT = "WaitForFirstConsumer", "snapshot"
HONOURS = "HonorWaitForFirstConsumer"
ACCESS_MODE = "ReadWriteOnce"  # of machines' disks, vm-templates/disk.yml.j2
PROPERTIES = '{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem"}]}}'


def check_deployed(cluster: Cluster, resource: Resource, product: str) -> Iterator[Finding]:
    """Yield what is wrong with an operator's object: none there, not deployed, or not available."""
    objects = cluster.list(resource).items
    see = f"kubectl get {resource.plural}.{resource.group} -A -o yaml"
    phases = [o.get("status", {}).get("phase", "unknown") for o in objects]
    if not objects:
        yield Finding(f"no {resource.kind} object exists", f"{product} is not installed, only its CRDs are", see)
    elif DEPLOYED not in phases:
        yield Finding(f"{product} is {', '.join(phases)}, not {DEPLOYED}", "its controllers may not work", see)
    else:
        deployed = objects[phases.index(DEPLOYED)]
        for condition in deployed["status"].get("conditions") or []:
            why = condition.get("message") or condition.get("reason") or "no reason given"
            if condition["type"] == "Available" and condition["status"] != "True":
                yield Finding(f"{product} is not Available: {why}", "its webhooks refuse requests", see)
            if condition["type"] == "Degraded" and condition["status"] == "True":
                yield Finding(f"{product} is Degraded: {why}", "a part of it does not work", see, fatal=False)


def check_configuration(cluster: Cluster, minor: int) -> Iterator[Finding]:
    """Yield what of KubeVirt's settings and nodes keeps machines from starting; `minor` is Kubernetes' version's."""
    for kubevirt in cluster.list(KUBEVIRT).items:
        configuration: Mapping[str, Any] = (kubevirt.get("spec") or {}).get("configuration") or {}
        developer: Mapping[str, Any] = configuration.get("developerConfiguration") or {}
        meta = kubevirt["metadata"]
        patch = f"kubectl patch kubevirt {meta['name']} -n {meta.get('namespace', 'kubevirt')} --type merge -p"
        yield from _processors(cluster, developer, patch)
        yield from _image_volume(kubevirt, developer, minor, patch)


def _processors(cluster: Cluster, developer: Mapping[str, Any], patch: str) -> Iterator[Finding]:
    nodes = [n for n in cluster.list(NODE).items if usable(n)]
    able = [n for n in nodes if (n["metadata"].get("labels") or {}).get(SCHEDULABLE) == "true"]
    if nodes and not able:
        yield Finding(
            f"no usable node has the label {SCHEDULABLE}=true",
            "KubeVirt's pods run on none of them, so no machine gets a node",
            "kubectl get pods -A -l kubevirt.io=virt-handler -o wide",
        )
        return
    emulated = bool(developer.get("useEmulation"))
    offering = [n for n in able if quantity(str((n["status"].get("allocatable") or {}).get(KVM, "0"))) > 0]
    if offering:
        if emulated:
            yield _ignored_emulation(offering)
        return
    kubevirt_patch = '{"spec":{"configuration":{"developerConfiguration":{"useEmulation":true}}}}'
    if able and emulated:
        yield Finding(
            "no node has /dev/kvm; KubeVirt emulates processors (useEmulation)",
            "machines are about ten times slower",
            "run with --timeout-scale 10, or use nodes with hardware virtualisation",
            fatal=False,
        )
    elif able:
        yield Finding(
            f"no node has {KVM}, and KubeVirt does not emulate processors",
            "every machine stays ErrorUnschedulable",
            f"enable (nested) virtualisation on the nodes, or: {patch} '{kubevirt_patch}'",
        )


def _ignored_emulation(nodes: Sequence[Json]) -> Finding:
    """Return the finding that somebody asked for emulation where KubeVirt does not emulate."""
    return Finding(
        f"KubeVirt has useEmulation, and {', '.join(n['metadata']['name'] for n in nodes)} offers {KVM}",
        "KubeVirt emulates processors only where a node has no /dev/kvm; if KVM does not work there, machines print "
        "nothing and time out",
        "on nodes whose KVM does not work: rm /dev/kvm; else remove useEmulation",
        fatal=False,
    )


def _image_volume(kubevirt: Json, developer: Mapping[str, Any], minor: int, patch: str) -> Iterator[Finding]:
    """Look at the gate that breaks disks in container images where the kubelet cannot mount images.

    Seen with KubeVirt 1.9 on Kubernetes below 1.35; machines of cells have no such disk, those of others may.
    """
    version = (kubevirt.get("status") or {}).get("observedKubeVirtVersion", "")
    match = re.match(r"v?(\d+)\.(\d+)", version)
    on = match is not None and (int(match[1]), int(match[2])) >= IMAGE_VOLUME_DEFAULT
    on = (on or IMAGE_VOLUME in (developer.get("featureGates") or [])) and IMAGE_VOLUME not in (
        developer.get("disabledFeatureGates") or []
    )
    if on and 0 < minor < IMAGE_VOLUME_SINCE:
        kubevirt_patch = (
            '{"spec":{"configuration":{"developerConfiguration":{"disabledFeatureGates":["ImageVolume"]}}}}'
        )
        yield Finding(
            f"KubeVirt {version} has the gate {IMAGE_VOLUME} on, and Kubernetes is 1.{minor}",
            f"before 1.{IMAGE_VOLUME_SINCE} disks in container images stay empty; cells do not use any",
            f"{patch} '{kubevirt_patch}'",
            fatal=False,
        )


def check_storage(cluster: Cluster, asked: str | None) -> Iterator[Finding]:
    """Yield what keeps disks from being made in the storage class of the settings (None: the cluster's default)."""
    classes = cluster.list(STORAGE_CLASS).items
    name = asked or _default_class(classes)
    if name is None:
        yield Finding(
            "no default storage class exists",
            "disks are requested without naming a class",
            f"kubectl annotate storageclass NAME {DEFAULT_CLASS}=true",
        )
        return
    storage_class = next((c for c in classes if c["metadata"]["name"] == name), None)
    if storage_class is None:
        there = ", ".join(sorted(c["metadata"]["name"] for c in classes)) or "none"
        yield Finding(
            f"storage class {name} does not exist",
            "it is the setting storage_class",
            f"set storage_class in vmatrix.yml to one of: {there}",
        )
        return
    profile = (cluster.get(STORAGE_PROFILE, name) or {}).get("status") or {}
    yield from _profile(profile, name)
    yield from _cloning(cluster, profile, name)
    yield from _binding(cluster, storage_class)


def _default_class(classes: Sequence[Json]) -> str | None:
    metas = [storage_class["metadata"] for storage_class in classes]
    order = ((annotation, meta) for annotation in (DEFAULT_VIRT_CLASS, DEFAULT_CLASS) for meta in metas)
    return next((str(meta["name"]) for a, meta in order if (meta.get("annotations") or {}).get(a) == "true"), None)


def _profile(status: Mapping[str, Any], name: str) -> Iterator[Finding]:
    sets = status.get("claimPropertySets") or []
    patch = f"kubectl patch storageprofile {name} --type merge -p '{PROPERTIES}'"
    if not sets:
        yield Finding(
            f"the StorageProfile of storage class {name} has no claimPropertySets",
            "CDI does not know which access mode a disk gets",
            patch,
        )
    elif not any(ACCESS_MODE in (claim_set.get("accessModes") or []) for claim_set in sets):
        modes = sorted({mode for claim_set in sets for mode in claim_set.get("accessModes") or []})
        yield Finding(
            f"the StorageProfile of storage class {name} has {', '.join(modes)} and not {ACCESS_MODE}",
            f"machines' disks request {ACCESS_MODE}",
            patch,
        )


def _cloning(cluster: Cluster, status: Mapping[str, Any], name: str) -> Iterator[Finding]:
    """Yield what makes each machine's disk a copy, where the class promises a faster way."""
    if status.get("cloneStrategy") != SNAPSHOT:
        return
    if not status.get("snapshotClass"):
        yield Finding(
            f"the StorageProfile of storage class {name} clones by snapshots, but names no snapshot class",
            "CDI copies each machine's disk over the network instead, with two pods",
            f"create a VolumeSnapshotClass for the driver {status.get('provisioner', '')}, or: kubectl patch "
            f'storageprofile {name} --type merge -p \'{{"spec":{{"cloneStrategy":"csi-clone"}}}}\'',
            fatal=False,
        )
        return
    refused = [right.plural for right in SNAPSHOTS if not all(allowed(cluster, right, verb) for verb in right.verbs)]
    if refused:
        yield Finding(
            f"not allowed: {', '.join(refused)}, which storage class {name} needs to clone faster",
            "each machine is cloned from a separate snapshot instead of a shared one",
            "apply snapshots.yml of deploy/rbac in the namespace of the golden images",
            fatal=False,
        )


def _binding(cluster: Cluster, storage_class: Json) -> Iterator[Finding]:
    name = storage_class["metadata"]["name"]
    if storage_class.get("volumeBindingMode") != WAITS:
        return
    yield Finding(
        f"storage class {name} binds volumes when a pod uses them (WaitForFirstConsumer)",
        "golden images are bound at once, machines' disks on their machine's node. If a volume belongs to one node, "
        "disks are copied across nodes, and machines wait for nodes without free disk space",
        "set storage_class to a class that all nodes can use, or keep disk space free on every node",
        fatal=False,
    )
    if not any(HONOURS in _gates(cdi) for cdi in cluster.list(CDI).items):
        yield Finding(
            f"CDI's feature gate {HONOURS} is off, but storage class {name} waits for consumers",
            "importers may bind machines' disks to nodes that have no room for the machines",
            f'kubectl patch cdi cdi --type merge -p \'{{"spec":{{"config":{{"featureGates":["{HONOURS}"]}}}}}}\'',
            fatal=False,
        )


def _gates(cdi: Json) -> Sequence[str]:
    gates: Sequence[str] = ((cdi.get("spec") or {}).get("config") or {}).get("featureGates") or []
    return gates
