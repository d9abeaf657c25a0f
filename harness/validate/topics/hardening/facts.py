"""Facts of a hardened guest: listeners, files, audit log and Secrets in etcd, as machine/hardening.py prints them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import POD, SECRET
from harness.spec.models import Timeouts
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import Json
from harness.validate.hosts import MACHINE, run_on_each
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import NAME, PROBE, Probes


@dataclass(frozen=True)
class KubeletDoor:
    """What a kubelet says to strangers (status by path), why its certificate is not the cluster's, its open port."""

    strangers: Mapping[str, int]
    unsigned: str
    read_only: bool


@dataclass(frozen=True)
class AuditTrail:
    """What an audit log has of one request: level, stage, verb and user of each event.

    status: what the request was answered with.  leaked: lines with the content of a Secret.
    """

    path: str
    status: int
    events: tuple[tuple[str, str, str, str], ...]
    leaked: int


@dataclass(frozen=True)
class StoredSecrets:
    """Secrets in etcd: by key how each is encrypted (provider:version:key, "" for not), and where a marker is read.

    error: why they were not read.
    """

    sealed: Mapping[str, str]
    shown: tuple[str, ...]
    error: str


@dataclass(frozen=True)
class HardeningFacts:
    """One machine.

    listeners: by program and port, what became of each offer.  etcd_strangers: of clients without a certificate.
    profiles, strangers: status by program, by path.  rights: permissions, owner and group by path, by control.
    status: /proc/1/status, of the machine's first process.
    """

    listeners: Mapping[str, Mapping[str, Sequence[str]]]
    etcd_strangers: Mapping[str, Sequence[str]]
    profiles: Mapping[str, int]
    kubelet: KubeletDoor | None
    rights: Mapping[str, Mapping[str, Sequence[int]]]
    strangers: Mapping[str, int]
    stored: StoredSecrets | None
    audited: AuditTrail | None
    status: str


def hardening_of(raw: Mapping[str, Any]) -> HardeningFacts:
    """Read what machine/hardening.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    door, stored, trail = raw["kubelet"], raw["stored"], raw["audited"]
    return HardeningFacts(
        listeners=raw["listeners"],
        etcd_strangers=raw["etcd_strangers"],
        profiles=raw["profiles"],
        kubelet=KubeletDoor(door["strangers"], door["unsigned"], door["read_only"]) if door else None,
        rights=raw["rights"],
        strangers=raw["strangers"],
        stored=None
        if stored is None
        else StoredSecrets(stored.get("sealed", {}), tuple(stored.get("shown", ())), stored.get("error", "")),
        audited=None
        if trail is None
        else AuditTrail(trail["path"], trail["status"], tuple(map(tuple, trail["events"])), trail["leaked"]),
        status=raw["status"],
    )


CONF, PKI = "/etc/kubernetes", "{certificates}"
MANIFESTS, KUBELET = f"{CONF}/manifests", "/var/lib/kubelet"
CP, NODE, ETCD = "control_plane", "nodes", "etcd"
OWNER = "owner"  # stands for: root's, whatever the permissions
# Numbers of controls, patterns of their files, the permissions that these may have, and on which machines they are.
FILES: Sequence[tuple[str, tuple[str, ...], int | str, str]] = (
    ("1.1.1", (f"{MANIFESTS}/kube-apiserver.yaml",), 0o600, CP),
    ("1.1.2", (f"{MANIFESTS}/kube-apiserver.yaml",), OWNER, CP),
    ("1.1.3", (f"{MANIFESTS}/kube-controller-manager.yaml",), 0o600, CP),
    ("1.1.4", (f"{MANIFESTS}/kube-controller-manager.yaml",), OWNER, CP),
    ("1.1.5", (f"{MANIFESTS}/kube-scheduler.yaml",), 0o600, CP),
    ("1.1.6", (f"{MANIFESTS}/kube-scheduler.yaml",), OWNER, CP),
    ("1.1.7", (f"{MANIFESTS}/etcd.yaml", "/etc/etcd/kubeadm.yml"), 0o600, ETCD),
    ("1.1.8", (f"{MANIFESTS}/etcd.yaml", "/etc/etcd/kubeadm.yml"), OWNER, ETCD),
    ("1.1.9", ("/etc/cni/net.d/*",), 0o600, NODE),
    ("1.1.10", ("/etc/cni/net.d/*",), OWNER, NODE),
    ("1.1.11", ("/var/lib/etcd",), 0o700, ETCD),
    ("1.1.13", (f"{CONF}/admin.conf", f"{CONF}/super-admin.conf"), 0o600, CP),
    ("1.1.14", (f"{CONF}/admin.conf", f"{CONF}/super-admin.conf"), OWNER, CP),
    ("1.1.15", (f"{CONF}/scheduler.conf",), 0o600, CP),
    ("1.1.16", (f"{CONF}/scheduler.conf",), OWNER, CP),
    ("1.1.17", (f"{CONF}/controller-manager.conf",), 0o600, CP),
    ("1.1.18", (f"{CONF}/controller-manager.conf",), OWNER, CP),
    ("1.1.19", (PKI, f"{PKI}/**"), OWNER, NODE),
    ("1.1.20", (f"{PKI}/**/*.crt",), 0o644, NODE),
    ("1.1.21", (f"{PKI}/**/*.key",), 0o600, CP),
    ("4.1.1", ("/etc/systemd/system/kubelet.service",), 0o600, NODE),
    ("4.1.2", ("/etc/systemd/system/kubelet.service",), OWNER, NODE),
    ("4.1.5", (f"{CONF}/kubelet.conf",), 0o600, NODE),
    ("4.1.6", (f"{CONF}/kubelet.conf",), OWNER, NODE),
    ("4.1.7", (f"{PKI}/ca.crt",), 0o644, NODE),
    ("4.1.8", (f"{PKI}/ca.crt",), OWNER, NODE),
    ("4.1.9", (f"{KUBELET}/config.yaml",), 0o600, NODE),
    ("4.1.10", (f"{KUBELET}/config.yaml",), OWNER, NODE),
)
HEALTH = ("/livez", "/readyz", "/healthz")
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
HIDDEN = (
    "/version",
    "/api",
    "/apis",
    "/openapi/v2",
    "/metrics",
    INFO,
)


def patterns(expected: ExpectedGuest) -> dict[str, list[str]]:
    """Return what machine/hardening.py takes as `files`."""
    folder = expected.leaves.certificates or f"{CONF}/pki"
    return {number: [glob.replace(PKI, folder) for glob in globs] for number, globs, _, _ in FILES}


PROGRAM = MACHINE / "hardening.py"
PLACE = "default"


@dataclass(frozen=True)
class HardeningLook:
    """What every machine showed, and the key in etcd of the Secret that was there meanwhile."""

    seen: Mapping[str, HardeningFacts]
    made: str


def look_at_hardening(
    api: Cluster, hosts: Mapping[str, Any], expected: ExpectedGuest, timeouts: Timeouts
) -> HardeningLook:
    """Make a Secret, look at every machine, and delete the Secret.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    name, marker = f"vmatrix-{secrets.token_hex(8)}", f"marker-{secrets.token_hex(16)}"
    meta = {"name": name, "namespace": PLACE}
    api.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"text": marker}})
    folder = expected.leaves.certificates
    common = {
        "ca": f"{folder}/ca.crt" if folder is not None else "",
        "files": patterns(expected),
        "strangers": [*HEALTH, *HIDDEN],
        "marker": marker,
        "name": f"{name}-absent",
    }
    inputs = {machine: {**common, "address": expected.addresses[machine]} for machine in hosts}
    try:
        machines = run_on_each(hosts, PROGRAM, hardening_of, timeouts, given=inputs)
    finally:
        api.delete(SECRET, name, PLACE)
    return HardeningLook(machines, f"/registry/secrets/{PLACE}/{name}")


def profiles_of_kubelets(api: Cluster, expected: ExpectedGuest) -> dict[str, int]:
    """Return the status with which each kubelet answers an admin who asks for a profile, by node."""
    path = "/api/v1/nodes/{}/proxy/debug/pprof/cmdline"
    return {node: api.send("GET", path.format(node)).code for node in expected.nodes}


def statuses_of_pods(probes: Probes) -> dict[str, str]:
    """Return /proc/self/status of a process in a probe pod, by node."""
    statuses = {}
    pods = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in _running(probes.api)}
    for node in probes.dialling:
        path = f"{POD.path(NAME, f'{pods.get(node)}:{HTTP_PORT}', 'proxy')}/shell"
        answer = probes.api.send("GET", path, query={"cmd": "cat /proc/self/status"}, read_seconds=probes.proxy_seconds)
        body = answer.body if isinstance(answer.body, dict) else _json(answer.body)
        statuses[node] = str(body.get("output", answer.body))
    return statuses


def _running(api: Cluster) -> list[Json]:
    """Return the probe pods that there are now: a fault may have had them made anew."""
    there = api.list(POD, NAME, labels=f"app={PROBE}").items
    return [pod for pod in there if "deletionTimestamp" not in pod["metadata"] and "nodeName" in pod["spec"]]


def _json(text: Any) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
