"""The variables of the playbooks that fields of a ClusterDeployment stand for, and what `spec.variables` must not say.

A variable that wins over a field would come past the field's own rules: a version that cannot be gone back to, or a
network that cannot change. So one whose field is a plain value is refused. Where the field is a mapping, the variable
is merged with it, and goes through the rules of the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import JsonValue

from harness.kube.kinds.page import SpecMistake
from harness.operator.api.addons import BUILT_IN
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import FLAG_PATTERN, FLAGS, number_mistakes
from harness.spec.shape import nearest
from harness.spec.variables import known_variables

Part = Literal["version", "source", "settings", "machines", "addons"]
HOSTS = "cluster_hosts"
API_NAMES = "cluster_api_extra_sans"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that the operator sets, whatever spec.variables says.
OPERATORS_OWN = frozenset(
    f"cluster_{name}" for name in ("hosts", "kubeconfig_path", "etcd_snapshot_path", "remove_nodes", "lost_nodes")
)


def variable(component: str) -> str:
    """Return the variable that is a component's version: cluster_cni_plugins_version for cni-plugins."""
    return f"cluster_{component.replace('-', '_')}_version"


@dataclass(frozen=True)
class SpecField:
    """A field of the spec, the variable that it becomes, and the part of the cluster that it changes.

    part: None where a change needs no operation, and the next one uses the new value.
    """

    path: str
    variable: str
    part: Part | None = "settings"


# Fields whose value is the variable's.
SETTINGS = (
    SpecField("version", "cluster_kubernetes_version", "version"),
    SpecField("runtime.name", "cluster_container_runtime"),
    SpecField("runtime.config", "cluster_containerd_config"),
    SpecField("network.plugin", "cluster_network_plugin"),
    SpecField("network.pods", "cluster_pod_cidr"),
    SpecField("network.services", "cluster_service_cidr"),
    SpecField("network.dnsDomain", "cluster_dns_domain"),
    SpecField("network.vxlan.port", "cluster_vxlan_port"),
    SpecField("network.vxlan.mtu", "cluster_vxlan_mtu"),
    SpecField("etcd.extraArgs", "cluster_etcd_extra_args"),
    SpecField("kubernetes.apiServer.extraArgs", "cluster_apiserver_extra_args"),
    SpecField("kubernetes.controllerManager.extraArgs", "cluster_controller_manager_extra_args"),
    SpecField("kubernetes.scheduler.extraArgs", "cluster_scheduler_extra_args"),
    SpecField("kubernetes.kubelet.config", "cluster_kubelet_config"),
    SpecField("kubernetes.kubeProxy.mode", "cluster_kube_proxy_mode"),
    SpecField("kubernetes.kubeProxy.config", "cluster_kube_proxy_config"),
    SpecField("source.type", "cluster_artifact_source", "source"),
    SpecField("source.mirror", "cluster_mirror_url", "source"),
    SpecField("source.registry", "cluster_image_registry", "source"),
    SpecField("source.checksums", "cluster_checksums", None),
)
# Versions, which the release table has where the spec does not.
COMPONENTS = ("etcd", "coredns", "pause", "runc", "cni-plugins", "flannel")
VERSIONS = (
    SpecField("runtime.version", variable("containerd"), "version"),
    *(SpecField(f"components.{name}", variable(name), "version") for name in COMPONENTS),
    *(SpecField(f"addons[{name}].version", variable(name), "addons") for name in BUILT_IN),
)
KNOWN = {field.variable: field for field in (*SETTINGS, *VERSIONS, SpecField("machineSets", HOSTS, "machines"))}


MAPPINGS = {field.variable: field for field in SETTINGS if field.path.endswith((".config", ".extraArgs", ".checksums"))}


def variable_mistakes(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield what is wrong with `spec.variables`, and with the numbers of the settings that they are merged with."""
    others = cd.spec.playbooks.image or cd.spec.playbooks.product is not None  # which may know other variables
    for name, value in cd.spec.variables.items():
        field = f"spec.variables.{name}"
        if NAME.fullmatch(name) is None:
            message, remedy = f"{json.dumps(name)} is no name of a variable", "use letters, digits and '_'"
            yield SpecMistake("spec.variables", message, remedy)
        elif name in OPERATORS_OWN:
            yield SpecMistake(field, "the operator sets this variable itself", "remove it")
        elif name in MAPPINGS:
            yield from _merged(field, MAPPINGS[name].path, value)
        elif name in KNOWN:
            path = KNOWN[name].path
            instead = "name the add-on in spec.addons" if path.startswith("addons") else f"set spec.{path}"
            yield SpecMistake(field, "a field stands for this variable", f"remove it, and {instead}")
        elif name.startswith("cluster_") and not others and name not in _names():
            yield SpecMistake(field, "the playbooks have no such variable", nearest(name, _names()))
    settings = cd.spec.kubernetes
    yield from number_mistakes("spec.kubernetes.kubelet.config", settings.kubelet.config)
    yield from number_mistakes("spec.kubernetes.kubeProxy.config", settings.kube_proxy.config)


def _merged(field: str, path: str, value: JsonValue) -> Iterator[SpecMistake]:
    """Yield what is wrong with a variable that is merged with the field of a path."""
    if not isinstance(value, Mapping):
        yield SpecMistake(field, f"it is merged with spec.{path}, and is not a mapping", "write KEY: VALUE")
    elif not path.endswith(".extraArgs"):
        yield from number_mistakes(field, value)
    elif not all(re.fullmatch(FLAG_PATTERN, flag) for flag in value):
        yield SpecMistake(field, FLAGS.message, FLAGS.remedy)


@cache
def _names() -> tuple[str, ...]:
    """Return the variables that the playbooks know."""
    return tuple(sorted(known_variables()))
