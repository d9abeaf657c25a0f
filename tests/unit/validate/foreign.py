"""The recorded guest as kubespray lays a cluster out, by its roles kubernetes/node, etcd, kubernetes-apps and flannel.

Certificates are in /etc/kubernetes/ssl, kubelet's configuration beside them. etcd is a systemd unit with its settings
in /etc/etcd.env and members called etcd1. A static pod nginx-proxy leads workers to the API. DNS has the Service
coredns, flannel is a DaemonSet of kube-system, kubectl is on control planes only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.node import NodeFacts, facts_of
from harness.validate.phases.observation import Observation
from tests.unit.validate import guests, moments, views
from tests.unit.validate.guests import Change, Json

UNSAID = ClusterLeaves()
SAID = ClusterLeaves.model_validate(
    {
        "certificates": "/etc/kubernetes/ssl",
        "kubelet": {"unit": "kubelet.service", "config": "/etc/kubernetes/kubelet-config.yaml"},
        "runtime_unit": "containerd.service",
        "kubectl": {"path": "/usr/local/bin/kubectl", "group": "control_plane"},
        "control_plane": {
            "runs_as": "static-pod",
            "other_static_pods": ["nginx-proxy"],
            "taint": "node-role.kubernetes.io/control-plane:NoSchedule",
        },
        "etcd": {"runs_as": "unit", "environment_file": "/etc/etcd.env", "used": "every"},
        "dns": {"service": "kube-system/coredns", "deployment": "kube-system/coredns"},
        "kube_proxy": "kube-system/kube-proxy",
        "local_api": {"address": "localhost:6443", "backends": "/etc/nginx/nginx.conf"},
        "host_names": "/etc/hosts",
        "network_plugins": {"flannel": {"unit": None, "daemon_set": "kube-system/kube-flannel"}},
    }
)
ENVIRONMENT = {
    "listen-client-urls": "https://10.222.1.2:2379,https://127.0.0.1:2379",
    "name": "etcd1",
    "trusted-ca-file": "/etc/ssl/etcd/ssl/ca.pem",
    "cert-file": "/etc/ssl/etcd/ssl/member-cp-0.pem",
    "client-cert-auth": "true",
    "peer-client-cert-auth": "True",
}
MOVED = {
    "/var/lib/kubelet/config.yaml": "/etc/kubernetes/kubelet-config.yaml",
    "/etc/kubernetes/pki": "/etc/kubernetes/ssl",
    "--etcd-servers=https://127.0.0.1:2379": "--etcd-servers=https://10.222.1.2:2379",
    '\\"name\\":\\"cp-0\\"': '\\"name\\":\\"etcd1\\"',
}


def moved(raw: Json) -> Json:
    """Return what was recorded, with other paths and names."""
    text = json.dumps(raw)
    for old, new in MOVED.items():
        text = text.replace(old, new)
    found: Json = json.loads(text)
    return found


def raw_facts(name: str) -> Json:
    """Return what a machine of kubespray's prints."""
    raw = moved(guests.raw_facts(name))
    raw["units"]["flannel-cni.path"] = {**raw["units"]["pod-routes.service"], "Id": "flannel-cni.path"}
    for process in raw["processes"]:
        if process["name"] == "etcd":
            process.update(argv=["/usr/local/bin/etcd"], cgroup="/system.slice/etcd.service", settings=ENVIRONMENT)
        if process["name"] == "containerd":  # with kubelet's `systemCgroups`
            process["cgroup"] = "/system.slice"
    if name == "cp-0":
        raw["manifests"].remove("etcd.yaml")
        lines = [f"ETCD_{key.replace('-', '_').upper()}={value}" for key, value in ENVIRONMENT.items()]
        raw["environment_file"] = "\n".join(["# Environment file for etcd", *lines, "ETCDCTL_CACERT=/etc/ssl/ca.pem"])
    else:
        raw["manifests"].append("nginx-proxy.yml")
        raw["versions"]["kubectl"] = None
        raw["kubelet"]["server"] = "https://localhost:6443"
    return raw


def facts(change: Change | None = None, *, of: str = "cp-0") -> dict[str, NodeFacts]:
    """Return all machines' facts, those of one machine changed."""
    raw = {name: raw_facts(name) for name in ("cp-0", "w-0")}
    if change is not None:
        change(raw[of])
    return {name: facts_of(text) for name, text in raw.items()}


def raw_view() -> Json:
    """Return the objects of kubespray's cluster by kind."""
    raw = views.recorded()
    for kind in ("daemon_sets", "pods"):
        for one in raw[kind]:
            if one["metadata"]["namespace"] == "kube-flannel":
                name = one["metadata"]["name"].replace("kube-flannel-ds", "kube-flannel")
                one["metadata"].update(namespace="kube-system", name=name)
    raw["pods"] = [pod for pod in raw["pods"] if pod["metadata"]["name"] != "etcd-cp-0"]
    return raw


def view(change: Change = lambda _: None) -> ClusterView:
    """Return the objects of kubespray's cluster, changed."""
    raw = raw_view()
    change(raw)
    return ClusterView(*(tuple(raw[kind]) for kind in ("nodes", "pods", "daemon_sets", "deployments")))


def raw_running(name: str) -> Json:
    """Return what a machine of kubespray's prints of its running programs."""
    raw = moments.raw_running(name)
    servers = [["10.222.1.2:6443", "10.222.1.2:6443"]]
    raw["proxy"] = {"kind": "nginx", "servers": servers, "changed": 900.0, "started": 1000.0} if name == "w-0" else None
    return raw


def moment(
    leaves: ClusterLeaves, version: str = moments.RECORDED_VERSION, runs: Change = lambda _: None
) -> Observation:
    """Return kubespray's cluster as if all of it had a version of Kubernetes; `runs` changes what w-0 said."""

    def as_version(raw: Json) -> Json:
        found: Json = json.loads(json.dumps(raw).replace(moments.RECORDED_VERSION, version))
        return found

    running = {name: as_version(raw_running(name)) for name in ("cp-0", "w-0")}
    runs(running["w-0"])
    objects = as_version(raw_view())
    return Observation(
        expected=replace(expected(leaves), kubernetes=version),
        view=ClusterView(*(tuple(objects[kind]) for kind in ("nodes", "pods", "daemon_sets", "deployments"))),
        facts={name: facts_of(as_version(raw_facts(name))) for name in ("cp-0", "w-0")},
        running=moments.running_and(running),
        kubelets={name: {"maxPods": 110} for name in ("cp-0", "w-0")},
        coredns={"Corefile": moments.COREFILE},
    )


def expected(leaves: ClusterLeaves, **other: object) -> ExpectedGuest:
    """Return what kubespray's cluster must look like; `other` replaces variables, None leaves one out."""
    given: Mapping[str, object] = {**guests.VARIABLES, **other}
    return guests.expected(variables={name: value for name, value in given.items() if value is not None}, leaves=leaves)
