"""Jinja filter `kubeadm_mistakes`: what is wrong with the variables that customise kubeadm, each with its remedy.

For preflight, which says it before any machine changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

VOLUME_KEYS = ("name", "hostPath", "mountPath", "readOnly", "pathType")
PATH_TYPES = ("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Volumes of kubeadm's pods (`kubeadm init phase control-plane all --dry-run`), and those of these playbooks
TAKEN = (
    *("ca-certs", "etc-ca-certificates", "etc-pki", "k8s-certs", "kubeconfig", "flexvolume-dir"),
    *("usr-local-share-ca-certificates", "usr-share-ca-certificates", "hardening", "audit", "scheduler-config"),
)
API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
# https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/#patches
TARGETS = (
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"),
    *("kubeletconfiguration", "corednsdeployment"),
)
PATCH = re.compile(rf"(?:{'|'.join(TARGETS)})[^+./]*(?:\+(?:strategic|merge|json))?\.(?:json|yaml)")
JSON_PATCH = re.compile(r".*\+json\.(?:json|yaml)")

CONFIGURATION = PurePosixPath("/etc/kubernetes")
# What these playbooks or kubeadm keep there
KEPT = ("manifests", "patches", "hardening", "scheduler", "tmp", "recover")
HOURS = re.compile(r"([1-9][0-9]{0,6})h(?:0m)?(?:0s)?")
YEAR, TEN_YEARS = 8760, 87600  # hours: kubeadm's defaults
KUBE_PROXY = "addon/kube-proxy"
PHASES = (KUBE_PROXY, "preflight", "show-join-command")  # that may be left out: the others make what playbooks need


def kubeadm_mistakes(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong.

    Args:
        given: `patches`, `volumes` by the variable that has them, `scheduler` and `scheduler_flags`, the folder of
            `certificates`, `certificates_validity`, `ca_validity` and `renew_before_days`, `skip_phases`, the
            `network_plugin` and whether it `replaces_kube_proxy`, and of an `external_ca` whether it is `wanted`, how
            many `control_planes` there are, and whether `etcd_external` and `kubelets_signed` are.
    """
    found = [*_patches(given["patches"]), *_scheduler(given["scheduler"], given["scheduler_flags"])]
    found += [*_folder(given["certificates"]), *_validity(given), *_phases(given), *_external(given["external_ca"])]
    for variable, volumes in given["volumes"].items():
        found += _volumes(variable, volumes)
    return found


def _patches(patches: Any) -> Iterator[str]:
    if not isinstance(patches, Mapping):
        yield "cluster_kubeadm_patches is no mapping: give the names of files and what they contain"
        return
    for name, patch in patches.items():
        if not PATCH.fullmatch(str(name)):
            yield (
                f"cluster_kubeadm_patches: {name} names no patch of kubeadm's: use a name such as"
                f" kube-apiserver1+strategic.json, with {', '.join(TARGETS[:-1])} or {TARGETS[-1]}"
            )
        elif JSON_PATCH.fullmatch(str(name)):
            if not isinstance(patch, list) or not all(isinstance(one, Mapping) and "op" in one for one in patch):
                yield f"cluster_kubeadm_patches: {name} is no list of operations: give each an op and a path (RFC 6902)"
        elif not isinstance(patch, Mapping) or not patch:
            yield f"cluster_kubeadm_patches: {name} is no mapping: give the part of the object that it changes"
        elif any(_half_said(probe) for probe in _startup_probes(patch)):
            yield (
                f"cluster_kubeadm_patches: {name} has a startupProbe with a failureThreshold and without periodSeconds:"
                " give both, because kubelets ask every 2 s here, and with kubeadm alone every 10 s"
            )


def _startup_probes(patch: Mapping[str, Any]) -> Iterator[Any]:
    spec = patch.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, Mapping):
            yield container.get("startupProbe")


def _half_said(probe: Any) -> bool:
    return isinstance(probe, Mapping) and "failureThreshold" in probe and "periodSeconds" not in probe


def _scheduler(config: Any, flags: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(config, Mapping):
        yield f"cluster_scheduler_config is no mapping: give a {KIND}"
        return
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if config.get(key, wanted) != wanted:
            yield f"cluster_scheduler_config.{key} is {config[key]!r}: use {wanted}, or leave it out"
    if config and "config" in flags:
        yield ("cluster_scheduler_extra_args: config also follows from cluster_scheduler_config: use one of both")


def _folder(folder: Any) -> Iterator[str]:
    path = PurePosixPath(str(folder))
    inside = path.is_relative_to(CONFIGURATION) and ".." not in path.parts and path != CONFIGURATION
    if not inside or path.parts[3] in KEPT:
        yield (
            f"cluster_certificates_folder is {str(folder)!r}: give a folder of its own below {CONFIGURATION},"
            f" such as {CONFIGURATION}/ssl"
        )


def _validity(given: Mapping[str, Any]) -> Iterator[str]:
    hours = {"certificates": YEAR, "ca": TEN_YEARS}
    for name in hours:
        text = given[f"{name}_validity"]
        match = HOURS.fullmatch(str(text))
        if text and not match:
            yield f"cluster_{name}_validity is {str(text)!r}: use whole hours, such as 4392h"
            return
        hours[name] = int(match.group(1)) if match else hours[name]
    if hours["certificates"] > hours["ca"]:
        yield (
            f"cluster_certificates_validity is {hours['certificates']}h, longer than CAs are valid ({hours['ca']}h):"
            " make it shorter, or set cluster_ca_validity"
        )
    days = given["renew_before_days"]
    if given["certificates_validity"] and hours["certificates"] <= int(days) * 24:
        yield (
            f"cluster_certificates_validity is {hours['certificates']}h, and certificates.yml renews what expires"
            f" within {days} days: it would renew at every run; set cluster_certificates_renew_before_days lower"
        )


def _phases(given: Mapping[str, Any]) -> Iterator[str]:
    phases = given["skip_phases"]
    if not isinstance(phases, list):
        yield "cluster_kubeadm_skip_phases is no list: give the names of kubeadm's phases as one"
        return
    for phase in phases:
        if phase not in PHASES:
            yield (
                f"cluster_kubeadm_skip_phases: {phase} is none that these playbooks can do without:"
                f" use {', '.join(PHASES)}"
            )
    if KUBE_PROXY in phases and not given["replaces_kube_proxy"]:
        yield (
            f"cluster_kubeadm_skip_phases: without {KUBE_PROXY} nothing leads to Services, since the network plugin"
            f" {given['network_plugin']} does not replace kube-proxy: use one whose entry in network_plugins.yml says"
            " replaces_kube_proxy: true"
        )


def _external(given: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(given["wanted"], bool):
        yield f"cluster_external_ca is {given['wanted']!r}: use true or false"
    elif given["wanted"]:
        if given["control_planes"] != 1 or given["etcd_external"]:
            yield (
                "cluster_external_ca: certificates are signed for one control plane with its own etcd:"
                " use one, or leave the variable out"
            )
        if given["kubelets_signed"]:
            yield (
                "cluster_external_ca: nothing in the cluster signs what kubelets ask for because of"
                " cluster_kubelet_certificates_signed: use one of both"
            )


def _volumes(variable: str, volumes: Any) -> Iterator[str]:
    if not isinstance(volumes, list):
        yield f"{variable} is no list: give each volume a name, a hostPath and a mountPath"
        return
    seen: dict[str, set[str]] = {"name": set(), "mountPath": set()}
    for place, volume in enumerate(volumes):
        where = f"{variable}[{place}]"
        if not isinstance(volume, Mapping):
            yield f"{where} is no mapping: give it a name, a hostPath and a mountPath"
            continue
        yield from _volume(where, volume)
        for key, before in seen.items():
            if key in volume and volume[key] in before:
                yield f"{where}.{key} is {volume[key]!r}, as that of a volume before it: give it another one"
            before.add(str(volume.get(key)))


def _volume(where: str, volume: Mapping[str, Any]) -> Iterator[str]:
    for key in volume:
        if key not in VOLUME_KEYS:
            yield f"{where}.{key} is unknown: use {', '.join(VOLUME_KEYS)}"
    name = volume.get("name")
    if not isinstance(name, str) or not LABEL.fullmatch(name):
        yield f"{where}.name is {name!r}: use lower-case letters, digits and '-'"
    elif name in TAKEN:
        yield f"{where}.name is {name!r}, which a pod has already: give it another one"
    for key in ("hostPath", "mountPath"):
        path = volume.get(key)
        if not isinstance(path, str) or not PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            yield f"{where}.{key} is {path!r}: give an absolute path"
    if not isinstance(volume.get("readOnly", False), bool):
        yield f"{where}.readOnly is {volume['readOnly']!r}: use true or false"
    if volume.get("pathType", "") not in PATH_TYPES:
        yield f"{where}.pathType is {volume['pathType']!r}: use {', '.join(PATH_TYPES[1:])}, or leave it out"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"kubeadm_mistakes": kubeadm_mistakes}
