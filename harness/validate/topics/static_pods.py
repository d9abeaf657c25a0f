"""Static pods: those of control planes are as kubeadm makes them, beside their programs' flags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.findings import Mismatch, differs, same_set, unjudged
from harness.validate.layout import static_by_view
from harness.validate.variables import AUDIT, LOGS, patches_of, patches_of_others, touched, volumes_of

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


def strange_static_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what static pods of control planes have otherwise than kubeadm makes them."""
    if expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the cluster (kubeadm)"
        return [unjudged("the static pods' containers", why, whole=True)]
    if patches_of_others(expected.variables):
        return [unjudged("the static pods' containers", "the cell has patches, which change them", whole=True)]
    pods = by_name(view.system_pods)
    found: list[Mismatch] = []
    for program, wanted in static_by_view(view, expected).items():
        changed = sorted(JUDGED & touched(patches_of(program, expected.variables)))
        if changed:
            found.append(unjudged(f"the static pods of {program}", f"a patch changes {', '.join(changed)}"))
            continue
        for node in expected.control_plane if wanted else ():
            name = f"{program}-{node}"
            there = pods.get(name)
            found += _judge(program, there, expected) if there else [Mismatch(f"pod {name}", "to exist", "none")]
    return found


def _judge(program: str, pod: Json, expected: ExpectedGuest) -> Iterator[Mismatch]:
    spec, where = pod["spec"], f"pod {pod['metadata']['name']}"
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    yield from same_set(where, "containers", [program], [one["name"] for one in containers])
    yield from differs(where, "hostNetwork", True, spec.get("hostNetwork", False))
    yield from differs(where, "priorityClassName", PRIORITY, spec.get("priorityClassName"))
    for one in containers:
        if one["name"] == program:
            yield from _container(f"{where} {program}", one)
    audited = program == "kube-apiserver" and expected.variables.get(AUDIT)
    asked = [str(volume["hostPath"]) for volume in volumes_of(program, expected.variables)]
    known = (*FOLDERS, *asked, *((LOGS,) if audited else ()))
    folders = [volume["hostPath"]["path"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
    strange = [path for path in folders if not any(PurePath(path).is_relative_to(one) for one in known)]
    yield from differs(where, "folders of the machine that kubeadm does not give it", [], strange)


def _container(where: str, one: Json) -> Iterator[Mismatch]:
    for probe in PROBES:
        if probe not in one:
            yield Mismatch(where, f"a {probe}", "none")
    # kubeadm hands on the proxies of its own environment
    names = [
        str(variable["name"]) for variable in one.get("env", ()) if not variable["name"].lower().endswith("_proxy")
    ]
    yield from differs(where, "variables of the environment", [], names)
    security: dict[str, Any] = one.get("securityContext") or {}
    yield from differs(where, "privileged", False, security.get("privileged", False))
