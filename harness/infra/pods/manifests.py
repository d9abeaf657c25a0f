"""Manifests of the machine that runs pods: namespace, disk, cloud-init, VirtualMachine, and the pods' storage class.

Pods' claims are folders on the disk of that machine, made by local-path-provisioner. Machines' disks have the default
class, which is another; CDI never sees the claims of this one.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

import yaml

from harness.embedded.machines.names import PODS_NETWORK
from harness.embedded.node.addresses import NETWORK_INDEX
from harness.embedded.node.placement import RUNS_PODS
from harness.infra.host.guests import guest_vars
from harness.infra.pods.machine import (
    BUSYBOX,
    CPUS,
    DISK_GIB,
    NAME,
    NAMESPACE_NAME,
    OWN_MIB,
    PAUSE,
    POD_NETWORK,
    PROGRAMS,
    PROVISIONER,
    PodsMachine,
)
from harness.kube.client import Cluster
from harness.kube.ensure import ensure as ensure_object
from harness.kube.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    DATA_VOLUME,
    DEPLOYMENT,
    NAMESPACE,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    VM,
)
from harness.model import LABEL_MANAGED, MANAGED_BY

Json = dict[str, Any]
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
    text = (files("harness.infra.pods") / "files" / "claims.yml").read_text(encoding="utf-8")
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
        # any registry's name means the mirror: the machine reaches no other
        "/etc/containerd/certs.d/_default/hosts.toml": f'server = "http://{registry}"\n\n[host."http://{registry}"]\n'
        '  capabilities = ["pull", "resolve"]\n',
        **{f"/etc/systemd/system/{unit}.service": _unit(unit, machine.node) for unit in UNITS},
    }


def _own(name: str) -> str:
    return (files("harness.infra.pods") / "files" / name).read_text(encoding="utf-8")


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
