"""Kubelets: the configuration that running ones report (/configz), and static pods, as kubeadm makes them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.objects import same_setting
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView, Json, by_name, value_at
from harness.validate.findings import Mismatch, differs, on_every, same_set, unjudged
from harness.validate.layout import static_by_view
from harness.validate.probes import words_of
from harness.validate.variables import AUDIT, LOGS, patched_settings, patches_of, patches_of_others, touched, volumes_of

# In every cell: kubelet's authentication and authorization.
KUBELET_SETTINGS: Mapping[str, Any] = {
    "authentication.anonymous.enabled": False,
    "authentication.webhook.enabled": True,
    "authorization.mode": "Webhook",
    "readOnlyPort": 0,
    "rotateCertificates": True,
}
SERVICE_ADDRESS = "service"  # of `dns.kubelet_address` in product.yml
OK = 200
OMITTED = {"readOnlyPort": 0}  # what /configz leaves out
PRIORITY = "system-node-critical"
# What patches may change that is judged here
JUDGED = frozenset(("hostNetwork", "priorityClassName", "initContainers", "volumes", "env", "securityContext"))
PROBES = ("livenessProbe", "startupProbe")  # that each of the four has, in Kubernetes 1.34 to 1.37
# Folders that kubeadm lets them see: `kubeadm init phase control-plane all --dry-run`.
FOLDERS = (
    *("/etc/kubernetes", "/etc/ssl", "/etc/ca-certificates", "/etc/pki"),
    *("/usr/share/ca-certificates", "/usr/local/share/ca-certificates"),
    *("/usr/libexec/kubernetes/kubelet-plugins/volume/exec", "/var/lib/etcd"),
)


def kubelet_configurations(api: Cluster, expected: ExpectedGuest) -> dict[str, Mapping[str, Any]]:
    """Return the configuration that each running kubelet reports (/configz), by node."""
    return asked_kubelets(api, expected)[0]


def asked_kubelets(api: Cluster, expected: ExpectedGuest) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """Return the configuration that each running kubelet reports, and why others do not, by node."""
    configurations, silent = {}, {}
    for name in expected.nodes:
        try:
            answer = api.send("GET", f"/api/v1/nodes/{name}/proxy/configz")
        except Unreachable as error:
            silent[name] = f"no answer of the API server: {error.summary}"
            continue
        if answer.code == OK and isinstance(answer.body, dict):
            configurations[name] = answer.body["kubeletconfig"]
        else:
            silent[name] = f"{answer.code}: {words_of(answer.body)}"
    return configurations, silent


def wrong_kubelet_settings(
    settings: Mapping[str, Mapping[str, Any]],
    dns_address: str,
    expected: ExpectedGuest,
    silent: Mapping[str, str] | None = None,
) -> list[Mismatch]:
    """Return the settings of running kubelets that are not those of the cell.

    Args:
        dns_address: the ClusterIP of the DNS server's Service. Every kubelet must give it to its pods, or the address
            that the product says; where the product does not say, also one on the node itself (NodeLocal DNSCache).
        silent: why kubelets did not report theirs, by node.
    """
    dns_setting = expected.leaves.dns.kubelet_address
    address = dns_address if dns_setting in (None, SERVICE_ADDRESS) else dns_setting
    expected_settings = {**KUBELET_SETTINGS, "clusterDomain": expected.dns_domain, **expected.kubelet_config}
    patched = patched_settings(expected.variables)

    def judge(name: str, running: Mapping[str, Any]) -> Iterator[Mismatch]:
        for path, value in expected_settings.items():
            if path.partition(".")[0] in patched:  # another check looks at it
                continue
            there = value_at({**OMITTED, **running}, path)
            yield from [] if same_setting(value, there) else differs(f"{name} kubelet", path, value, there)
        dns_servers = running.get("clusterDNS") or []
        on_node = dns_setting is None and len(dns_servers) == 1 and ipaddress.ip_address(dns_servers[0]).is_link_local
        yield from [] if on_node else differs(f"{name} kubelet", "clusterDNS", [address], dns_servers)

    reasons = silent or {}
    unreported = [
        Mismatch(f"{name} kubelet", "its configuration", reasons[name]) for name in expected.nodes if name in reasons
    ]
    asked = tuple(name for name in expected.nodes if name not in reasons)
    return unreported + (on_every(asked, settings, judge) if asked or not unreported else [])


def strange_static_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what static pods of control planes have otherwise than kubeadm makes them."""
    if expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the cluster (kubeadm)"
        return [unjudged("the static pods' containers", why, whole=True)]
    if patches_of_others(expected.variables):
        return [unjudged("the static pods' containers", "the cell has patches, which change them", whole=True)]
    pods = by_name(view.system_pods)
    mismatches: list[Mismatch] = []
    for program, static in static_by_view(view, expected).items():
        changed = sorted(JUDGED & touched(patches_of(program, expected.variables)))
        if changed:
            mismatches.append(unjudged(f"the static pods of {program}", f"a patch changes {', '.join(changed)}"))
            continue
        for node in expected.control_plane if static else ():
            name = f"{program}-{node}"
            there = pods.get(name)
            mismatches += _judge(program, there, expected) if there else [Mismatch(f"pod {name}", "to exist", "none")]
    return mismatches


def _judge(program: str, pod: Json, expected: ExpectedGuest) -> Iterator[Mismatch]:
    spec, where = pod["spec"], f"pod {pod['metadata']['name']}"
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    yield from same_set(where, "containers", [program], [container["name"] for container in containers])
    yield from differs(where, "hostNetwork", True, spec.get("hostNetwork", False))
    yield from differs(where, "priorityClassName", PRIORITY, spec.get("priorityClassName"))
    for container in containers:
        if container["name"] == program:
            yield from _container(f"{where} {program}", container)
    audited = program == "kube-apiserver" and expected.variables.get(AUDIT)
    asked = [str(volume["hostPath"]) for volume in volumes_of(program, expected.variables)]
    known = (*FOLDERS, *asked, *((LOGS,) if audited else ()))
    folders = [volume["hostPath"]["path"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
    strange = [path for path in folders if not any(PurePath(path).is_relative_to(container) for container in known)]
    yield from differs(where, "folders of the machine that kubeadm does not give it", [], strange)


def _container(where: str, container: Json) -> Iterator[Mismatch]:
    for probe in PROBES:
        if probe not in container:
            yield Mismatch(where, f"a {probe}", "none")
    # kubeadm hands on the proxies of its own environment
    names = [
        str(variable["name"])
        for variable in container.get("env", ())
        if not variable["name"].lower().endswith("_proxy")
    ]
    yield from differs(where, "variables of the environment", [], names)
    security: dict[str, Any] = container.get("securityContext") or {}
    yield from differs(where, "privileged", False, security.get("privileged", False))
