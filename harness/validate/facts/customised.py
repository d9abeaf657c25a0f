"""How a cell asks for a customised kubeadm, and what its machines show of it, as on_node_customised.py prints it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.model import Cell

PATCHES, SCHEDULER = "cluster_kubeadm_patches", "cluster_scheduler_config"
VOLUMES = {  # variable with a program's further volumes
    "kube-apiserver": "cluster_apiserver_extra_volumes",
    "kube-controller-manager": "cluster_controller_manager_extra_volumes",
    "kube-scheduler": "cluster_scheduler_extra_volumes",
}
CERTIFICATES = "cluster_certificates_folder"
VALIDITY, CA_VALIDITY = "cluster_certificates_validity", "cluster_ca_validity"
SKIPPED, KUBE_PROXY = "cluster_kubeadm_skip_phases", "addon/kube-proxy"
SCHEDULER_FOLDER = "/etc/kubernetes/scheduler"
SCHEDULER_FILE = f"{SCHEDULER_FOLDER}/config.yml"
OWN_SCHEDULER = {  # what the playbooks add to every KubeSchedulerConfiguration
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
}
STATIC_TARGETS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
KUBELET_TARGET, DNS_TARGET = "kubeletconfiguration", "corednsdeployment"
KIND = re.compile(r"\+(strategic|merge|json)\.(?:json|yaml)$")
Variables = Mapping[str, Any]


@dataclass(frozen=True)
class Patch:
    """One of kubeadm's patches.

    kind: strategic, merge or json (RFC 6902), which is strategic where the name does not say.
    """

    name: str
    kind: str
    content: Any


def patches_of(target: str, variables: Variables) -> list[Patch]:
    """Return a cell's patches of a component, in the order in which kubeadm applies them."""
    found = []
    for name, content in sorted((variables.get(PATCHES) or {}).items()):
        if re.match(rf"{re.escape(target)}[^a-z]", name):
            kind = KIND.search(name)
            found.append(Patch(name, kind.group(1) if kind else "strategic", content))
    return found


def patched_settings(variables: Variables) -> set[str]:
    """Return the settings of kubelets that a cell's patches change: their names at the outermost level."""
    found: set[str] = set()
    for patch in patches_of(KUBELET_TARGET, variables):
        if patch.kind == "json":
            found |= {str(one.get("path", "")).lstrip("/").partition("/")[0] for one in patch.content}
        else:
            found |= set(patch.content)
    return found


def patches_of_others(variables: Variables) -> bool:
    """Tell whether a cell has patches by another variable, of which nobody knows what they change."""
    return any(value for name, value in variables.items() if name.endswith("patches") and name != PATCHES)


def touched(patches: Sequence[Patch]) -> set[str]:
    """Return the keys that patches name, at any depth."""
    found: set[str] = set()
    for patch in patches:
        found |= set(_keys(patch.content))
    return found


def _keys(content: Any) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield str(key)
            if key == "path":  # of an operation of a JSON patch
                yield from str(value).split("/")
            yield from _keys(value)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for one in content:
            yield from _keys(one)


def without_kube_proxy(variables: Variables) -> bool:
    """Tell whether a cell leaves out kube-proxy."""
    return KUBE_PROXY in (variables.get(SKIPPED) or ())


def hours_of(text: str) -> int:
    """Return the hours of a validity such as 4392h."""
    return int(text.partition("h")[0])


def customised_flags(program: str, variables: Variables) -> dict[str, str]:
    """Return the flags that a program has because kubeadm is customised."""
    return {"config": SCHEDULER_FILE} if program == "kube-scheduler" and variables.get(SCHEDULER) else {}


def volumes_of(program: str, variables: Variables) -> list[Mapping[str, Any]]:
    """Return the volumes that a program has beside kubeadm's own and those of a hardened cluster."""
    own = {"name": "scheduler-config", "hostPath": SCHEDULER_FOLDER, "mountPath": SCHEDULER_FOLDER, "readOnly": True}
    found = [own] if program == "kube-scheduler" and variables.get(SCHEDULER) else []
    return [*found, *(variables.get(VOLUMES.get(program, ""), None) or ())]


def patches(*targets: str) -> Callable[[Cell, int], bool]:
    """Return the condition (for the mark `when` of checks) that a cell has a patch of a component after a phase."""

    def holds(cell: Cell, index: int) -> bool:
        phase = cell.phases[index]
        return phase.cluster and any(patches_of(target, phase.vars) for target in targets)

    return holds


def gives_volumes(cell: Cell, index: int) -> bool:
    """Tell whether a cell gives a program a volume after a phase."""
    phase = cell.phases[index]
    return phase.cluster and any(volumes_of(program, phase.vars) for program in VOLUMES)


def limits_validity(cell: Cell, index: int) -> bool:
    """Tell whether a cell says after a phase for how long certificates or CAs are valid."""
    phase = cell.phases[index]
    return phase.cluster and any(phase.vars.get(name) for name in (VALIDITY, CA_VALIDITY))


def asked_volumes(variables: Variables) -> dict[str, Sequence[Sequence[str]]]:
    """Return [path on the machine, path in the container] of the volumes that a cell asks for, by program."""
    return {
        program: [[one["hostPath"], one["mountPath"]] for one in volumes_of(program, variables)] for program in VOLUMES
    }
