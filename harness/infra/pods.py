"""The machine that runs the infra cluster's own pods: objects, boot disk and certificates.

Pods' claims are folders on the disk of that machine, made by local-path-provisioner. Machines' disks have the default
class, which is another; CDI never sees the claims of this one.

The serving certificate is for the machine's address, which is not known before it boots. Ordinary pods and machines
have nodes of their own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from harness.embedded.machines.names import PODS_NETWORK
from harness.embedded.node.guests import NETWORK_INDEX
from harness.embedded.node.registration import MACHINES_ONLY, RUNS_PODS
from harness.errors import InfraError
from harness.infra.guest_facts import guest_vars
from harness.infra.host import pki
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, is_condition
from harness.kube.objects import ensure as ensure_object
from harness.kube.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CSR,
    DATA_VOLUME,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    VM,
    VMI,
)
from harness.model import LABEL_MANAGED, MANAGED_BY, Mirror
from harness.until import Deadline, NotYet, until

NAMESPACE_NAME = "vmatrix-pods"
NAME = "pods"
CPUS, MEMORY_MIB, DISK_GIB = 2, 1536, 16
OWN_MIB = 256  # of its memory is for the kubelet, containerd, kube-proxy and systemd: 190 MiB resident when measured
POD_NETWORK = "10.88.0.0/16"  # the machine's own; its pods go out with the machine's address
PROGRAMS = ("containerd", "runc", "cni-plugins", "kubelet", "kube-proxy")  # fetched from the mirror at the first boot
PAUSE = "pause"  # the image of a pod's sandbox
PROVISIONER, BUSYBOX = "local-path-provisioner", "e2e-test-images/busybox"  # the images that make claims' folders
IMAGES = (PAUSE, PROVISIONER, BUSYBOX)
MACHINE_CERTIFICATES = ("ca", "pods-kubelet", "pods-proxy")  # of the instance


@dataclass(frozen=True)
class BootDisk:
    """The disk image of the machine: its file at the mirror, and that file's SHA-256 in hex."""

    file: str
    sha256: str


@dataclass(frozen=True)
class PodsMachine:
    """Everything that the machine is told at its first boot.

    Attributes:
        node: the name of its Node.
        server: the URL of the infra cluster's API.
        versions: of PROGRAMS and IMAGES.
        hosts: the Nodes of this host, which run machines only.
        pki: the folder of the instance's certificates.
        deliveries: the registry that pods push to, HOST:PORT without TLS.
        memory_mib: its memory.
    """

    node: str
    server: str
    mirror: Mirror
    disk: BootDisk
    versions: Mapping[str, str]
    pki: Path
    deliveries: str
    hosts: tuple[str, ...] = ()
    memory_mib: int = MEMORY_MIB

    def issued(self, stem: str) -> tuple[str, str]:
        """Return a certificate of the instance and its key, as PEM."""
        files = pki.issued(self.pki, stem)
        return files.certificate.read_text(encoding="ascii"), files.key.read_text(encoding="ascii")

    def image(self, name: str) -> str:
        """Return the reference of one of IMAGES, in the instance's registry."""
        return f"{self.mirror.registry}/{name}:{self.versions[name]}"

    def certificates(self) -> str:
        """Return a digest of what it is told of the instance's certificates: another one once they are renewed."""
        texts = [text for stem in MACHINE_CERTIFICATES for text in self.issued(stem)]
        return hashlib.sha256("".join(texts).encode("ascii")).hexdigest()


LABELS = {LABEL_MANAGED: MANAGED_BY}
SEED_NAME = f"{NAME}-seed"
CERTIFICATES = "vmatrix.dev/certificates"  # annotation of the seed: the digest of the certificates in it


def namespace() -> Json:
    """Return the machine's namespace, whose network reaches the API."""
    made = NAMESPACE.manifest(NAMESPACE_NAME, "", labels={**LABELS, "pod-security.kubernetes.io/enforce": "privileged"})
    made["metadata"]["annotations"] = {NETWORK_INDEX: str(PODS_NETWORK)}
    return made


def seed(user_data: str, certificates: str) -> Json:
    """Return the Secret with what the machine is told at its first boot; `certificates`: the digest of those in it."""
    made = SECRET.manifest(SEED_NAME, NAMESPACE_NAME, labels=LABELS, stringData={"userdata": user_data})
    made["metadata"]["annotations"] = {CERTIFICATES: certificates}
    return made


def disk(machine: PodsMachine) -> Json:
    """Return the machine's disk, imported from the mirror."""
    source = {"url": f"{machine.mirror.http}/images/{machine.disk.file}", "checksum": f"sha256:{machine.disk.sha256}"}
    spec = {
        "source": {"http": source},
        "storage": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{DISK_GIB}Gi"}}},
    }
    return DATA_VOLUME.manifest(NAME, NAMESPACE_NAME, labels=LABELS, spec=spec)


def virtual_machine(machine: PodsMachine) -> Json:
    """Return the machine. Once: one that dies is seen by its Node, and made anew by whoever asks for it next."""
    volumes: dict[str, Json] = {
        "root": {"dataVolume": {"name": NAME}},
        "seed": {"cloudInitNoCloud": {"secretRef": {"name": SEED_NAME}}},
    }
    domain = {
        "cpu": {"cores": CPUS},
        "memory": {"guest": f"{machine.memory_mib}Mi"},
        "devices": {
            "disks": [{"name": volume, "disk": {"bus": "virtio"}} for volume in volumes],
            "interfaces": [{"name": "default", "bridge": {}}],
        },
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "evictionStrategy": "None",
        "hostname": machine.node,
        "domain": domain,
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": volume, **source} for volume, source in volumes.items()],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return VM.manifest(NAME, NAMESPACE_NAME, labels=LABELS, spec={"runStrategy": "Once", "template": template})


CLASS = "pods"
KINDS = (
    SERVICE_ACCOUNT,
    ROLE,
    CLUSTER_ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE_BINDING,
    STORAGE_CLASS,
    CONFIG_MAP,
    DEPLOYMENT,
)


def storage_objects(machine: PodsMachine) -> list[Json]:
    """Return the class, and what provides for its claims."""
    text = (files("harness.infra") / "pods_files" / "claims.yml").read_text(encoding="utf-8")
    values = {"node": machine.node, "busybox": machine.image(BUSYBOX), "provisioner": machine.image(PROVISIONER)}
    return list(yaml.safe_load_all(Template(text).substitute(values)))


def ensure_storage_class(cluster: Cluster, machine: PodsMachine) -> None:
    """Have the class and its provisioner, in the machine's namespace; a pod that mounts a claim waits for it."""
    kinds = {kind.kind: kind for kind in KINDS}
    for body in storage_objects(machine):
        ensure_object(cluster, kinds[body["kind"]], body)


KUBERNETES = "/etc/kubernetes"
UNITS = ("containerd", "kubelet", "kube-proxy")
CNI_PLUGINS = "cni-plugins"


def user_data(machine: PodsMachine) -> str:
    """Return cloud-init's user-data."""
    written = [
        {"path": path, "content": text, "permissions": "0600" if "kubeconfig" in path else "0644"}
        for path, text in _files(machine).items()
    ]
    fetched = [f"{name}:{machine.versions[name]}:{_folder(name)}" for name in PROGRAMS]
    script = ["sh", f"{KUBERNETES}/start-pods.sh", machine.mirror.http, *fetched]
    return "#cloud-config\n" + yaml.safe_dump({"ssh_pwauth": False, "write_files": written, "runcmd": [script]})


def _folder(program: str) -> str:
    return "/opt/cni/bin" if program == CNI_PLUGINS else "/usr/local/bin"


def _files(machine: PodsMachine) -> dict[str, str]:
    """Return every file that the machine gets, by its path."""
    registry, guest = machine.mirror.registry, guest_vars()
    return {
        f"{KUBERNETES}/ca.crt": machine.issued("ca")[0],
        f"{KUBERNETES}/kubelet.kubeconfig": _kubeconfig(machine, "pods-kubelet"),
        f"{KUBERNETES}/kube-proxy.kubeconfig": _kubeconfig(machine, "pods-proxy"),
        f"{KUBERNETES}/kubelet.yaml": yaml.safe_dump(_kubelet(guest["cluster_kubelet_config"], machine.memory_mib)),
        f"{KUBERNETES}/kube-proxy.yaml": yaml.safe_dump(_proxy(guest["cluster_kube_proxy_config"])),
        f"{KUBERNETES}/start-pods.sh": _own("start-pods.sh"),
        "/etc/cni/net.d/10-pods.conflist": json.dumps(_network()),
        "/etc/containerd/config.toml": _own("containerd.toml").format(
            pause=machine.image(PAUSE),
            restrict=str(guest["cluster_containerd_restrict_oom_score_adj"]).lower(),
            systemd=str(guest["cluster_containerd_systemd_cgroup"]).lower(),
        ),
        # every other registry's name means the mirror: the machine reaches no other
        "/etc/containerd/certs.d/_default/hosts.toml": f'server = "http://{registry}"\n\n[host."http://{registry}"]\n'
        '  capabilities = ["pull", "resolve"]\n',
        f"/etc/containerd/certs.d/{machine.deliveries}/hosts.toml": f'server = "http://{machine.deliveries}"\n',
        **{f"/etc/systemd/system/{unit}.service": _unit(unit, machine.node) for unit in UNITS},
    }


def _own(name: str) -> str:
    return (files("harness.infra") / "pods_files" / name).read_text(encoding="utf-8")


def _unit(name: str, node: str) -> str:
    options = {
        "containerd": [],
        "kubelet": [
            f"--config={KUBERNETES}/kubelet.yaml",
            f"--kubeconfig={KUBERNETES}/kubelet.kubeconfig",
            f"--hostname-override={node}",
            "--node-ip=${ADDRESS}",  # from the script
            f"--node-labels={RUNS_PODS}=true",
        ],
        "kube-proxy": [f"--config={KUBERNETES}/kube-proxy.yaml", f"--hostname-override={node}"],
    }
    return _own("program.service").format(name=name, command=shlex.join([f"/usr/local/bin/{name}", *options[name]]))


def _kubeconfig(machine: PodsMachine, stem: str) -> str:
    certificate, key = machine.issued(stem)
    cluster = {"server": machine.server, "certificate-authority-data": _encoded(machine.issued("ca")[0])}
    user = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "infra", "cluster": cluster}],
        "users": [{"name": stem, "user": user}],
        "contexts": [{"name": "infra", "context": {"cluster": "infra", "user": stem}}],
        "current-context": "infra",
    }
    return json.dumps(content, indent=1)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _kubelet(of_guests: Mapping[str, Any], memory_mib: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{KUBERNETES}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "serverTLSBootstrap": True,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": "/etc/resolv.conf",
        "serializeImagePulls": False,
        "systemReserved": _not_for_pods(memory_mib),
        **of_guests,
    }


def _not_for_pods(memory_mib: int) -> dict[str, str]:
    """Return what the machine's pods may not request of what its kubelet sees: the processors and memory of this host.

    Without it, the scheduler would give the machine pods for all of them.
    """
    pages, cpus = os.sysconf("SC_PHYS_PAGES"), os.cpu_count() or CPUS
    memory_kib = pages * os.sysconf("SC_PAGE_SIZE") // 1024 - (memory_mib - OWN_MIB) * 1024
    return {"memory": f"{max(memory_kib, OWN_MIB * 1024)}Ki", "cpu": str(max(cpus - CPUS, 0))}


def _proxy(of_guests: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_NETWORK,
        "clientConnection": {"kubeconfig": f"{KUBERNETES}/kube-proxy.kubeconfig"},
        **of_guests,
    }


def _network() -> dict[str, Any]:
    ranges = {"type": "host-local", "ranges": [[{"subnet": POD_NETWORK}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{**bridge, "ipam": ranges}, ports]}


SERVING = "kubernetes.io/kubelet-serving"


def approve_requests(cluster: Cluster, node: str) -> None:
    """Approve what a node asks for."""
    for request in cluster.list(CSR).items:
        if asks_for_serving(request, node):
            approve(cluster, request)


def serves(cluster: Cluster, node: str) -> bool:
    """Tell whether the API reaches a node's kubelet: before that, nobody sees a pod's log or enters a pod."""
    return cluster.send("GET", f"/api/v1/nodes/{node}/proxy/healthz").code == HTTPStatus.OK


def asks_for_serving(request: Json, node: str) -> bool:
    """Tell whether a request that nobody has answered is for the serving certificate of a node, and made by it."""
    spec, name = request["spec"], f"system:node:{node}"
    if spec.get("signerName") != SERVING or spec.get("username") != name or dig(request, "status", "conditions"):
        return False
    subject = x509.load_pem_x509_csr(base64.b64decode(spec["request"])).subject
    return [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [name]


def approve(cluster: Cluster, request: Json) -> None:
    """Approve a request for a certificate."""
    why = {"type": "Approved", "status": "True", "reason": "PodsMachine", "message": "the instance's own machine"}
    body = {**request, "status": {**(request.get("status") or {}), "conditions": [why]}}
    cluster.replace(CSR, body, subresource="approval")


APART_SECONDS = 20.0  # the embedded KubeVirt sets the taint as soon as it sees the other node
LOOK_SECONDS = 0.2  # between looks at the Node


def nodes_are_ready(node: Json | None) -> bool:
    """Tell whether a Node takes pods."""
    return node is not None and is_condition(node, "Ready", "True")


def is_apart(cluster: Cluster, host: str) -> bool:
    """Tell whether a Node of this host keeps ordinary pods away."""
    taints = dig(cluster.get(NODE, host), "spec", "taints") or []
    return any(taint["key"] == MACHINES_ONLY["key"] for taint in taints)


def wait_apart(cluster: Cluster, host: str) -> None:
    """Wait until it does: before, a pod might be bound to it, where nothing runs it.

    Raises:
        TimedOut: it does not.
    """

    def probe() -> bool | NotYet:
        return is_apart(cluster, host) or NotYet(f"it has no taint {MACHINES_ONLY['key']}")

    what = f"node {host} to keep ordinary pods away"
    until(probe, deadline=Deadline.after(APART_SECONDS), what=what, interval=LOOK_SECONDS)


def placement_problem(cluster: Cluster, node: str) -> str:
    """Say why a Node does not take pods, "" when it does."""
    node_object = cluster.get(NODE, node)
    if nodes_are_ready(node_object):
        return ""
    if node_object is None:
        return f"pods: node {node} is not there"
    messages = [c["message"] for c in dig(node_object, "status", "conditions") or [] if c["type"] == "Ready"]
    return f"pods: node {node} is not ready: {messages[0] if messages else 'its kubelet has not reported yet'}"


ENDED = frozenset({"Succeeded", "Failed"})


def ensure(cluster: Cluster, machine: PodsMachine, *, seconds: float) -> None:
    """Make the machine unless its Node is ready, and wait until that takes pods.

    A machine that died, or that has certificates from before they were renewed, is made anew: nothing of it is kept
    but what its pods have in the API.

    Raises:
        InfraError: the machine ended while it was waited for.  TimedOut: its Node is not ready in time.
    """
    deadline = Deadline.after(seconds)
    if _phase(cluster) in ENDED or _has_old_certificates(cluster, machine):
        _take_down(cluster, machine.node, deadline)
    cluster.ensure(NAMESPACE, namespace())
    for resource, body in (
        (SECRET, seed(user_data(machine), machine.certificates())),
        (DATA_VOLUME, disk(machine)),
        (VM, virtual_machine(machine)),
    ):
        cluster.create_if_absent(resource, body)
    ensure_storage_class(cluster, machine)

    def joined() -> bool | NotYet:
        approve_requests(cluster, machine.node)
        node = cluster.get(NODE, machine.node)
        if not nodes_are_ready(node):
            return NotYet(_state(cluster, node))
        if not serves(cluster, machine.node):
            return NotYet("the API does not reach its kubelet: that has no certificate yet")
        for host in machine.hosts:
            if not is_apart(cluster, host):
                return NotYet(f"node {host} still takes pods as well")
        return True

    until(joined, deadline=deadline, what=f"node {machine.node} to be ready", interval=LOOK_SECONDS)


def _take_down(cluster: Cluster, node: str, deadline: Deadline) -> None:
    """Take the machine down. Its Node stays, so that nobody's pods go to this host's meanwhile, but is not ready.

    Raises:
        TimedOut: its namespace is not gone in time.
    """
    cluster.delete(NAMESPACE, NAMESPACE_NAME)

    def gone() -> bool | NotYet:
        for pod in cluster.list(POD, NAMESPACE_NAME, fields=f"spec.nodeName={node}").items:
            cluster.delete(POD, pod["metadata"]["name"], NAMESPACE_NAME, grace=0)  # no kubelet ends them any more
        namespace = cluster.get(NAMESPACE, NAMESPACE_NAME)
        return True if namespace is None else NotYet(f"it is {dig(namespace, 'status', 'phase')}")

    until(gone, deadline=deadline, what=f"namespace {NAMESPACE_NAME} to be gone", interval=LOOK_SECONDS)
    if cluster.get(NODE, node) is not None:
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "PodsMachine",
            "message": "its machine is made anew",
        }
        cluster.merge(NODE, node, {"status": {"conditions": [condition]}}, subresource="status")


def _has_old_certificates(cluster: Cluster, machine: PodsMachine) -> bool:
    seed = cluster.get(SECRET, SEED_NAME, NAMESPACE_NAME)
    known = dig(seed, "metadata", "annotations") or {}
    return seed is not None and known.get(CERTIFICATES) != machine.certificates()


def _state(cluster: Cluster, node: Json | None) -> str:
    """Say how far the machine is. Raises InfraError when it has ended."""
    phase = _phase(cluster)
    if phase in ENDED:
        raise InfraError(f"the machine that runs pods ended: {phase}", hint="repair it: vmatrix infra up --pods")
    if node is not None:
        messages = [c["message"] for c in dig(node, "status", "conditions") or [] if c["type"] == "Ready"]
        return messages[0] if messages else "its kubelet has not reported yet"
    return f"its machine is {phase or 'not started'}; its kubelet has not registered it"


def _phase(cluster: Cluster) -> str:
    return str(dig(cluster.get(VMI, NAME, NAMESPACE_NAME), "status", "phase") or "")
