"""This host as Nodes: their registration and heartbeats, and which launcher pods are placed on them.

One Node is the whole host. Several have an equal share of it each, and its address; so that what is spread over nodes
can be tried, machines of one host are placed as those of several.

While the API was away the node controller may have marked the Node's conditions Unknown and tainted it; only a new
status brings it back, a renewed lease does not.

Without a node that runs pods nothing is said of placement: pods are as a real KubeVirt's. With it, this host's Nodes
have a taint, which this part's own pods tolerate; they name this host, so that no kubelet runs them.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

from harness.embedded.context import Context
from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, labels_of
from harness.kube.objects import dig, is_condition, now
from harness.kube.reconcile import Controller
from harness.kube.resources import LEASE, NODE

RESERVED_KIB = 1536 * 1024  # control plane, these controllers, the harness itself
MAX_PODS = 250
RUNTIME = "vmatrix://"  # in place of a container runtime: no container ever runs here
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 10.0  # a quarter of the lease, as kubelet's
RETRY_SECONDS = 1.0  # between tries while the API server has trouble; the lease is not over by then
LEASE_SECONDS = 40  # kubelet's default
LEASES = "kube-node-lease"
KUBELET_PORT = 10250  # a kubelet's, of the first Node; those of further ones follow


def memory_kib(meminfo: str) -> int:
    """Return MemTotal (KiB) of a /proc/meminfo.

    Raises:
        ValueError: it has no such line.
    """
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    raise ValueError("no MemTotal in /proc/meminfo")


def architecture() -> str:
    """Return this host's architecture in Kubernetes' word."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def capacity(state: Path, nodes: int = 1) -> Json:
    """Return what one of so many Nodes of this host has."""
    cores = len(os.sched_getaffinity(0))
    return {
        "cpu": str(cores) if nodes == 1 else f"{1000 * cores // nodes}m",
        "memory": f"{memory_kib(Path('/proc/meminfo').read_text(encoding='ascii')) // nodes}Ki",
        "ephemeral-storage": str(shutil.disk_usage(state).total // nodes),
        "pods": str(MAX_PODS),
        "devices.kubevirt.io/kvm": "1k",  # machines run on this host's processors: nothing is emulated
        "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
    }


def allocatable(of: Json, nodes: int = 1) -> Json:
    """Return what of the capacity of one of so many Nodes launcher pods may ask for."""
    return {**of, "memory": f"{int(of['memory'].removesuffix('Ki')) - RESERVED_KIB // nodes}Ki"}


def kubelet_port(context: Context, node: str) -> int:
    """Return the port at which a Node's logs and Summary are: all Nodes have this host's address."""
    return KUBELET_PORT + context.nodes.index(node)


def node_object(name: str) -> Json:
    """Return the Node to create."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture(),
                "kubevirt.io/schedulable": "true",
                "machine-type.node.kubevirt.io/q35": "true",
            },
        },
    }


def node_status(context: Context, name: str, old: Json) -> Json:
    """Return a Node's status: capacity, addresses, conditions."""
    nodes = len(context.nodes)
    moment, total = now(), capacity(context.state, nodes)
    before = {c["type"]: c for c in dig(old, "status", "conditions") or []}

    def healthy(kind: str, status: str, reason: str, message: str) -> Json:
        known = before.get(kind) or {}
        since = str(known["lastTransitionTime"]) if known.get("status") == status else moment
        times = {"lastHeartbeatTime": moment, "lastTransitionTime": since}
        return {"type": kind, "status": status, "reason": reason, "message": message, **times}

    return {
        "capacity": total,
        "allocatable": allocatable(total, nodes),
        "addresses": [
            {"type": "InternalIP", "address": context.host_address},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port(context, name)}},
        "nodeInfo": _node_info(),
        "conditions": [healthy(*row) for row in HEALTHY],
    }


def _node_info() -> Json:
    def read(path: str) -> str:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except OSError:
            return ""

    names = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
    return {
        "machineID": read("/etc/machine-id"),
        "systemUUID": "",
        "bootID": read("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": names.get("PRETTY_NAME", "").strip('"'),
        "containerRuntimeVersion": f"{RUNTIME}0",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": architecture(),
    }


def register(context: Context, name: str) -> None:
    """Create a Node or bring it up to date."""
    node = node_object(name)
    labels = node["metadata"]["labels"]
    if not labels.items() <= labels_of(context.cluster.ensure(NODE, node)).items():
        context.cluster.merge(NODE, name, {"metadata": {"labels": labels}})
    report(context, name)


def report(context: Context, name: str) -> None:
    """Write a Node's status."""
    status = node_status(context, name, context.cluster.get(NODE, name) or {})
    context.cluster.merge(NODE, name, {"status": status}, subresource="status")


class NodeStatus:
    """Writes a Node's status again whenever somebody else made it other than Ready, or took the Node away."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes = context.informers.of(NODE)
        self.controller = Controller("node", self.reconcile, workers=1)
        self._nodes.subscribe(self._changed)

    def _changed(self, _: str, node: Json) -> None:
        if node["metadata"]["name"] in self._context.nodes:
            self.controller.queue.add(("", node["metadata"]["name"]))

    def reconcile(self, key: Key) -> float | None:
        """Look at a Node."""
        node = self._nodes.get(*key)
        if node is None:
            register(self._context, key[1])
        elif not is_condition(node, "Ready", "True"):
            log.warning("the control plane marked node %s as not ready; reporting its status again", key[1])
            report(self._context, key[1])
        return None


def beat(context: Context, name: str) -> None:
    """Renew a Node's lease, making it when it is not there."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        context.cluster.merge(LEASE, name, {"spec": {"renewTime": moment}}, LEASES)
        return
    except ApiFailure as failure:
        if not failure.not_found:
            raise
    owner = context.cluster.get(NODE, name)
    if owner is None:
        return
    reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner["metadata"]["uid"]}
    context.cluster.ensure(
        LEASE,
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": name, "namespace": LEASES, "ownerReferences": [reference]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment},
        },
    )


def start_heartbeat(context: Context) -> None:
    """Renew the leases now and from now on, on a daemon thread, until the context stops."""

    def beat_all() -> None:
        for name in context.nodes:
            beat(context, name)

    def run() -> None:
        wait = HEARTBEAT_SECONDS
        while not context.stopping.wait(wait):
            try:
                beat_all()
                wait = HEARTBEAT_SECONDS
            except VmatrixError as error:
                wait = RETRY_SECONDS
                log.warning("heartbeat of node %s failed: %s", ", ".join(context.nodes), error)

    beat_all()
    threading.Thread(target=run, name="heartbeat", daemon=True).start()


RUNS_PODS = "vmatrix.dev/runs-pods"  # label of a node
MACHINES_ONLY = {"key": "vmatrix.dev/machines-only", "effect": "NoSchedule"}
TOLERATION = {**MACHINES_ONLY, "operator": "Exists"}
HERE = {"kubevirt.io/schedulable": "true"}


def elsewhere(context: Context) -> bool:
    """Tell whether another node runs pods."""
    nodes = context.informers.of(NODE).list()
    return any(RUNS_PODS in labels_of(node) and node["metadata"]["name"] not in context.nodes for node in nodes)


def placed(context: Context, pod: Json) -> Json:
    """Return a pod of this part as it has to be created for it to come to this host."""
    if not elsewhere(context):
        return pod
    spec = pod["spec"]
    more = {
        "tolerations": [*(spec.get("tolerations") or []), TOLERATION],
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **HERE},
    }
    return {**pod, "spec": {**spec, **more}}


class Placement:
    """Keeps the taint of this host's Nodes in line with whether another node runs pods."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes = context.informers.of(NODE)
        self.controller = Controller("placement", self.reconcile, workers=1)
        self._nodes.subscribe(self._changed)

    def _changed(self, *_: object) -> None:
        for name in self._context.nodes:
            self.controller.queue.add(("", name))

    def reconcile(self, key: Key) -> None:
        """Look at a Node of this host."""
        node = self._nodes.get(*key)
        if node is None:
            return
        had = dig(node, "spec", "taints") or []
        others = [taint for taint in had if taint["key"] != MACHINES_ONLY["key"]]
        taints = [*others, MACHINES_ONLY] if elsewhere(self._context) else others
        if len(taints) != len(had):
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}  # nobody's taint of meanwhile is lost
            patch = {"metadata": version, "spec": {"taints": taints}}
            self._nodes.observe(self._context.cluster.merge(NODE, key[1], patch))
