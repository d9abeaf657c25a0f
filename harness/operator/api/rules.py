"""What is wrong with a ClusterDeployment, as far as the object alone tells it: the rules that every reconcile applies.

`read` judges an object as it comes from the API or from a file, `mistakes` one that has the right form. Both use the
words of the API server's own answer, so that a mistake reads the same wherever it is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from harness.kube.failures import Json
from harness.kube.kinds.page import SpecMistake, mistakes_of_form, path_of
from harness.kube.objects import dig
from harness.operator.api.addons import BUILT_IN
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import (
    FLAG_PATTERN,
    FLAGS,
    GATES_FLAG,
    GATES_SETTING,
    GATES_TWICE,
    NamedImages,
    number_mistakes,
)
from harness.operator.api.networks import is_range, network_of
from harness.operator.api.schedules import schedule_mistakes
from harness.operator.api.sets import ETCD
from harness.spec.networks import EXAMPLES, network_mistakes
from harness.spec.playbook_variables import FORMS, UNJUDGED, mistake, unreadable_template
from harness.spec.shape import nearest
from harness.spec.variables import known_variables

Part = Literal["version", "source", "settings", "machines", "addons", "clients"]
HOSTS = "cluster_hosts"
API_NAMES = "cluster_api_extra_sans"
VIRTUAL_ADDRESS = "cluster_api_virtual_address"
EXTERNAL_CA = "cluster_external_ca"
# Of a cluster whose etcd is an EtcdCluster; and of that one, who its clients are.
ETCD_ENDPOINTS, ETCD_PREFIX = "cluster_etcd_endpoints", "cluster_etcd_prefix"
ETCD_USERS, ETCD_DELETED = "cluster_etcd_users", "cluster_etcd_deleted_prefixes"
TEMPLATE = re.compile(r"\{[{%#]")  # begins what Ansible fills in or leaves out
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that the operator sets itself, whatever spec.variables says, and what people use instead.
OPERATORS_OWN: Mapping[str, str] = {
    "cluster_hosts": "the machines of spec.machineSets are given",
    "cluster_remove_nodes": "lower the replicas of a set",
    "cluster_lost_nodes": "lost machines are found by themselves",
    "cluster_former_control_planes": "lost machines are found by themselves",
    "cluster_kubeconfig_path": "Secret CLUSTER-kubeconfig has the kubeconfig",
    "cluster_etcd_snapshot_path": "an EtcdBackup says where a snapshot is put",
    "cluster_authority_path": "spec.authority names the Secrets of CAs",
    "cluster_external_ca_folder": "spec.authority names the Secrets of CAs",
    "cluster_files_url": "spec.source.mirror says where files are",
    "cluster_etcd_restore_confirmation": "an EtcdRestore has the confirmation",
    "cluster_ca_rotation": "run rotate-ca.yml by hand while spec.paused is true",
    "cluster_ca_rotation_restart_pods": "run rotate-ca.yml by hand while spec.paused is true",
    "cluster_upgrade_workers": "all machines are upgraded",
    "cluster_emulate_previous_minor": "no upgrade is taken back",
    "cluster_api_host": "each machine asks its own haproxy",
    **dict.fromkeys(
        (ETCD_ENDPOINTS, ETCD_PREFIX, "cluster_etcd_client_path"), "spec.etcd.clusterRef names an EtcdCluster"
    ),
    ETCD_USERS: "spec.etcd.clusterRef of ClusterDeployments makes them",
    **dict.fromkeys((ETCD_DELETED, "cluster_etcd_delete_prefix"), "spec.deletion.etcdKeys says what goes"),
}
# Variables that no field stands for, because of what they are; spec.variables may have them.
WITHOUT_FIELD: Mapping[str, str] = {
    "cluster_api_port": "a port of each machine's loopback address, which nobody else sees",
    "cluster_timeout_scale": "a factor for slow machines under test, which no cluster to keep has",
    "cluster_kubeconfig_server": "the kubeconfig of the executor, which people get with another server",
    "cluster_encryption_key": "a secret: a field would show it to whoever may read the object",
    "cluster_enforces_network_policies": "a hint for checks; no playbook reads it",
    "cluster_pod_security_exempt": "made of spec.hardening.podSecurity.exempt and of the cluster's own namespaces",
    **dict.fromkeys(
        (f"cluster_{name}_folder" for name in ("hardening", "audit", "scheduler")),
        "a folder that the playbooks own as a whole",
    ),
}


def variable(component: str) -> str:
    """Return the variable that is a component's version: cluster_cni_plugins_version for cni-plugins."""
    return f"cluster_{component.replace('-', '_')}_version"


@dataclass(frozen=True)
class SpecField:
    """A field of the spec, the variable that it becomes, and the part of the cluster that it changes.

    part: None where a change needs no operation, and the next one uses the new value.
    runtime: the container runtime that the variable is about, "" where it is about any.
    """

    path: str
    variable: str
    part: Part | None = "settings"
    runtime: str = ""


# Fields whose value is the variable's.
SETTINGS = (
    SpecField("version", "cluster_kubernetes_version", "version"),
    SpecField("runtime.name", "cluster_container_runtime"),
    SpecField("runtime.config", "cluster_containerd_config", runtime="containerd"),
    SpecField("runtime.config", "cluster_crio_config", runtime="crio"),
    SpecField("runtime.systemdCgroup", "cluster_containerd_systemd_cgroup", runtime="containerd"),
    SpecField("runtime.systemdCgroup", "cluster_crio_systemd_cgroup", runtime="crio"),
    SpecField("runtime.withinLimits", "cluster_containerd_restrict_oom_score_adj", runtime="containerd"),
    SpecField("runtime.withinLimits", "cluster_crio_within_limits", runtime="crio"),
    SpecField("runtime.registries", "cluster_registries"),
    SpecField("network.plugin", "cluster_network_plugin"),
    SpecField("network.pods", "cluster_pod_cidr"),
    SpecField("network.services", "cluster_service_cidr"),
    SpecField("network.ipv6Pods", "cluster_ipv6_pod_cidr"),
    SpecField("network.ipv6Services", "cluster_ipv6_service_cidr"),
    SpecField("network.dnsDomain", "cluster_dns_domain"),
    SpecField("network.vxlan.vni", "cluster_vxlan_vni"),
    SpecField("network.vxlan.port", "cluster_vxlan_port"),
    SpecField("network.vxlan.mtu", "cluster_vxlan_mtu"),
    SpecField("etcd.extraArgs", "cluster_etcd_extra_args"),
    SpecField("kubernetes.apiServer.extraArgs", "cluster_apiserver_extra_args"),
    SpecField("kubernetes.controllerManager.extraArgs", "cluster_controller_manager_extra_args"),
    SpecField("kubernetes.scheduler.extraArgs", "cluster_scheduler_extra_args"),
    SpecField("kubernetes.apiServer.extraVolumes", "cluster_apiserver_extra_volumes"),
    SpecField("kubernetes.controllerManager.extraVolumes", "cluster_controller_manager_extra_volumes"),
    SpecField("kubernetes.scheduler.extraVolumes", "cluster_scheduler_extra_volumes"),
    SpecField("kubernetes.scheduler.config", "cluster_scheduler_config"),
    SpecField("kubernetes.patches", "cluster_kubeadm_patches"),
    SpecField("kubernetes.kubeadm.timeouts", "cluster_kubeadm_timeouts"),
    SpecField("kubernetes.kubeadm.ignorePreflightErrors", "cluster_kubeadm_ignore_preflight_errors"),
    SpecField("kubernetes.kubeadm.skipPhases", "cluster_kubeadm_skip_phases"),
    SpecField("kubernetes.coredns.cacheSeconds", "cluster_coredns_cache_seconds"),
    SpecField("kubernetes.kubelet.swapOff", "cluster_swap_off"),
    SpecField("kubernetes.kubelet.config", "cluster_kubelet_config"),
    SpecField("kubernetes.kubeProxy.mode", "cluster_kube_proxy_mode"),
    SpecField("kubernetes.kubeProxy.config", "cluster_kube_proxy_config"),
    SpecField("authentication.jwt", "cluster_jwt_authenticators"),
    SpecField("hardening.auditPolicy", "cluster_audit_policy"),
    SpecField("hardening.tls.minimum", "cluster_tls_minimum"),
    SpecField("hardening.tls.cipherSuites", "cluster_tls_cipher_suites"),
    SpecField("hardening.podSecurity", "cluster_pod_security"),
    SpecField("hardening.eventRateLimits", "cluster_event_rate_limits"),
    SpecField("hardening.admissionPlugins", "cluster_admission_plugins"),
    SpecField("hardening.anonymousHealthOnly", "cluster_anonymous_health_only"),
    SpecField("hardening.kubeletCertificatesSigned", "cluster_kubelet_certificates_signed"),
    SpecField("hardening.seccompDefault", "cluster_seccomp_default"),
    SpecField("hardening.profiling", "cluster_profiling"),
    SpecField("hardening.privateFiles", "cluster_private_files"),
    SpecField("certificates.validity", "cluster_certificates_validity"),
    SpecField("certificates.caValidity", "cluster_ca_validity"),
    SpecField("certificates.renewBeforeDays", "cluster_certificates_renew_before_days"),
    SpecField("certificates.folder", "cluster_certificates_folder"),
    SpecField("certificates.extraSans", API_NAMES),
    SpecField("maintenance.drainTimeoutSeconds", "cluster_drain_timeout", None),
    SpecField("maintenance.drainForce", "cluster_drain_force", None),
    SpecField("maintenance.defragmentPercent", "cluster_etcd_defragment_percent", None),
    SpecField("maintenance.defragmentMebibytes", "cluster_etcd_defragment_mebibytes", None),
    SpecField("network.ingress.defaultClass", "cluster_ingress_default_class", "addons"),
    SpecField("network.ingress.address", "cluster_ingress_address", "addons"),
    SpecField("network.loadBalancerAddresses", "cluster_load_balancer_addresses", "addons"),
    SpecField("source.type", "cluster_artifact_source", "source"),
    SpecField("source.mirror", "cluster_mirror_url", "source"),
    SpecField("source.registry", "cluster_image_registry", "source"),
    SpecField("source.checksums", "cluster_checksums", None),
    SpecField("source.imagePrefix", "cluster_image_prefix", "source"),
    SpecField("source.architecture", "cluster_architecture", "source"),
    *(
        SpecField(f"source.sites.{name}", f"cluster_{name.replace('-', '_')}_site", "source")
        for name in ("kubernetes", "containerd", "runc", "cni-plugins", "etcd")
    ),
    *(
        SpecField(f"source.images.{to_camel(name)}", f"cluster_{name}_image", "source")
        for name in NamedImages.model_fields
    ),
)
# Versions, which the release table has where the spec does not.
COMPONENTS = ("etcd", "coredns", "pause", "runc", "cni-plugins", "flannel", "crictl")
VERSIONS = (
    *(SpecField("runtime.version", variable(name), "version", name) for name in ("containerd", "crio")),
    *(SpecField(f"components.{name}", variable(name), "version") for name in COMPONENTS),
    *(SpecField(f"addons[{name}].version", variable(name), "addons") for name in BUILT_IN),
)
OF_ITS_OWN = (
    SpecField("machineSets", HOSTS, "machines"),
    SpecField("endpoint.address", VIRTUAL_ADDRESS),
    SpecField("authority.keysOnMachines", EXTERNAL_CA),
    SpecField("etcd.clusterRef", ETCD_ENDPOINTS),
    SpecField("etcd.clusterRef.prefix", ETCD_PREFIX),
    SpecField("clusters", ETCD_USERS, "clients"),
)
KNOWN = {field.variable: field for field in (*SETTINGS, *VERSIONS, *OF_ITS_OWN)}


# The four networks by the names of their fields, and the variables by which the matrix and the playbooks know them.
NETWORKS = {field.path.removeprefix("network."): field.variable for field in SETTINGS if field.variable in EXAMPLES}
QUOTED = 'write it as text: "1.30"'
MAPPINGS = {field.variable: field for field in SETTINGS if field.path.endswith((".config", ".extraArgs", ".checksums"))}

# Variables of the components that have feature gates, and under which key: a flag of some, a setting of others.
GATED = {
    **{f"cluster_{name}_extra_args": GATES_FLAG for name in ("apiserver", "controller_manager", "scheduler")},
    **dict.fromkeys(("cluster_kubelet_config", "cluster_kube_proxy_config"), GATES_SETTING),
}


def of_other_runtimes(runtime: str) -> frozenset[str]:
    """Return the variables of runtimes that a cluster does not have: no field sets them, and nobody reads them."""
    return frozenset(field.variable for field in (*SETTINGS, *VERSIONS) if field.runtime not in ("", runtime))


def of_unset_fields(cd: ClusterDeployment) -> frozenset[str]:
    """Return the variables whose fields say nothing: objects from a time without these fields have the variables.

    Not those of networks, by which machines get their addresses.
    """
    spec = cd.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return frozenset(
        field.variable
        for field in SETTINGS
        if field.variable not in {*EXAMPLES, *MAPPINGS} and dig(spec, *field.path.split(".")) is None
    )


def own_playbooks(cd: ClusterDeployment) -> bool:
    """Tell whether somebody else's playbooks are run, whose variables may mean something else."""
    return bool(cd.spec.playbooks.image) or cd.spec.playbooks.product is not None


def variable_mistakes(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield what is wrong with `spec.variables`, and with the numbers of the settings that they are merged with."""
    packaged, free = not own_playbooks(cd), of_other_runtimes(cd.spec.runtime.name) | of_unset_fields(cd)
    for name, value in cd.spec.variables.items():
        if name in free:
            wrong = _value_mistake(name, value, packaged=packaged)
            yield from [wrong] if wrong else []
        elif name in MAPPINGS:
            yield from _merged(f"spec.variables.{name}", MAPPINGS[name].path, value)
            if cd.spec.kubernetes.feature_gates and isinstance(value, Mapping) and GATED.get(name) in value:
                yield SpecMistake(f"spec.variables.{name}", GATES_TWICE.message, GATES_TWICE.remedy)
        elif wrong := _name_mistake(name, packaged=packaged) or _value_mistake(name, value, packaged=packaged):
            yield wrong
    settings = cd.spec.kubernetes
    yield from number_mistakes("spec.kubernetes.kubelet.config", settings.kubelet.config)
    yield from number_mistakes("spec.kubernetes.kubeProxy.config", settings.kube_proxy.config)


def _name_mistake(name: str, *, packaged: bool) -> SpecMistake | None:
    """Return why a variable is not one to set, whatever its value. packaged: vmatrix's own playbooks are run."""
    field = f"spec.variables.{name}"
    if NAME.fullmatch(name) is None:
        message, remedy = f"{json.dumps(name)} is not a name of a variable", "use letters, digits and '_'"
        return SpecMistake("spec.variables", message, remedy)
    if name in OPERATORS_OWN:
        return SpecMistake(field, "the operator sets this variable itself", f"remove it; {OPERATORS_OWN[name]}")
    if name in KNOWN:
        path = KNOWN[name].path
        instead = "name the add-on in spec.addons" if path.startswith("addons") else f"set spec.{path}"
        return SpecMistake(field, "a field stands for this variable", f"remove it, and {instead}")
    if not packaged or not name.startswith("cluster_"):
        return None
    if name not in _names():
        return SpecMistake(field, "the playbooks have no such variable", nearest(name, _names()))
    if not _settable(name):
        return SpecMistake(field, "the playbooks compute this variable", "set those that docs/playbooks.md lists")
    return None


def _value_mistake(name: str, value: JsonValue, *, packaged: bool) -> SpecMistake | None:
    """Return what is wrong with the value of a variable that may be set."""
    field = f"spec.variables.{name}"
    if name.endswith("version") and _lost_zeros(name, value):
        return SpecMistake(field, f"{value} is a number, which has lost the zeros at its end", QUOTED)
    message = mistake(name, value) if packaged else unreadable_template(value)
    return _told(field, message) if message else None


def component_mistakes(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield the versions of components that the playbooks do not know."""
    if own_playbooks(cd):
        return
    components, runtime = cd.spec.components, cd.spec.runtime
    versions = {f"components.{name}": getattr(components, name.replace("-", "_")) for name in COMPONENTS}
    versions |= {"runtime.version": runtime.version}
    versions |= {f"addons[{addon.name}].version": addon.version for addon in cd.spec.addons if addon.name in BUILT_IN}
    for field in VERSIONS:
        value = versions.get(field.path) if field.runtime in ("", runtime.name) else None
        if value is not None and (message := mistake(field.variable, value)):
            yield _told(f"spec.{field.path}", message)


def network_sizes(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield the networks that Kubernetes does not take, or without room for each node; not what a definition sees."""
    known = {field: network_of(text) for field, text in cd.spec.network.by_field.items()}
    pods, services = known["pods"], known["services"]
    if own_playbooks(cd) or pods is None or services is None or any(cd.spec.network.broken(creating=True)):
        return
    values = {NETWORKS[field]: text for field, text in cd.spec.network.by_field.items() if text is not None}
    nodes = sum(machine_set.replicas for machine_set in cd.spec.machine_sets if set(machine_set.roles) != {ETCD})
    fields = {variable: f"spec.network.{field}" for field, variable in NETWORKS.items()}
    for names, message in network_mistakes(values, nodes):
        words = message.replace("cluster_ipv6_*", "ipv6Pods and ipv6Services")
        for variable, field in fields.items():
            words = words.replace(variable, field.removeprefix("spec.network."))
        yield _told(fields[names[0]], words)


def _told(field: str, sentence: str) -> SpecMistake:
    message, _, remedy = sentence.partition("; ")
    return SpecMistake(field, message, remedy)


def _merged(field: str, path: str, value: JsonValue) -> Iterator[SpecMistake]:
    """Yield what is wrong with a variable that is merged with the field of a path."""
    if not isinstance(value, Mapping):
        yield SpecMistake(field, f"it is merged with spec.{path}, and is not a mapping", "write KEY: VALUE")
    elif not path.endswith(".extraArgs"):
        yield from number_mistakes(field, value)
    elif not all(re.fullmatch(FLAG_PATTERN, flag) for flag in value):
        yield SpecMistake(field, FLAGS.message, FLAGS.remedy)


def _lost_zeros(name: str, value: JsonValue) -> bool:
    """Tell whether a version was written as a number: 1.30 is 1.3 then. Whole ones may be meant, such as of cgroups."""
    return isinstance(value, float) or (type(value) is int and name.startswith("cluster_"))


def _settable(name: str) -> bool:
    """Tell whether a variable of the playbooks is one that is set, and not one that they make of others."""
    return name in FORMS or name in UNJUDGED or name.endswith("_image")


@cache
def _names() -> tuple[str, ...]:
    """Return the variables that the playbooks know."""
    return tuple(sorted(known_variables()))


MAKERS = "registry.k8s.io"
ADDONS = {
    "metrics-server": ("metrics_server",),
    "local-path-provisioner": ("local_path_provisioner", "busybox"),
    "metallb": ("metallb_controller", "metallb_speaker"),
    "kube-router": ("kube_router",),
    "traefik": ("traefik",),
}


def unnamed_images(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield the images that have to be named because the registry does not have them under the playbooks' names."""
    if cd.spec.source.registry != MAKERS:
        return
    images = ["coredns"]
    images += ["network_plugin"] if cd.spec.network.plugin == "flannel" else []
    images += [name for addon in cd.spec.addons for name in ADDONS.get(addon.name, ())]
    for name in images:
        if getattr(cd.spec.source.images, name) is None and not cd.spec.variables.get(f"cluster_{name}_image"):
            message = f"{MAKERS} has no image of the name that {to_camel(name)} has by default"
            remedy = "set it to the image's name with its tag, or use a registry that has all images under one path"
            yield SpecMistake(f"spec.source.images.{to_camel(name)}", message, remedy)


def read(
    obj: Json, releases: Collection[str], outer: Collection[str] = (), *, creating: bool = True
) -> tuple[ClusterDeployment | None, list[SpecMistake]]:
    """Return the object with all defaults, None when it has another form, and what is wrong with it."""
    try:
        cd = ClusterDeployment.model_validate(obj)
    except ValidationError as error:
        return None, mistakes_of_form(error)
    return cd, mistakes(cd, releases, outer, creating=creating)


def mistakes(
    cd: ClusterDeployment, releases: Collection[str], outer: Collection[str] = (), *, creating: bool = True
) -> list[SpecMistake]:
    """Return what is wrong with an object.

    Args:
        cd: the object.  releases: the Kubernetes versions of the release table.
        outer: networks in CIDR notation that the cluster's own must not overlap.
        creating: nothing was deployed yet; some rules hold only then.
    """
    problems = [
        SpecMistake(path_of(*path, rule.field), rule.message, rule.remedy)
        for path, rule in cd.broken(creating=creating)
    ]
    problems += [*_version(cd, releases), *component_mistakes(cd), *network_sizes(cd), *_outer(cd, outer)]
    problems += [*_ranges(cd), *template_mistakes(cd.spec)]
    policy = cd.spec.etcd.backup
    problems += schedule_mistakes(
        "spec.etcd.backup", {"schedule": policy.schedule, "drill": policy.drill}, policy.time_zone
    )
    return [*problems, *_twice(cd), *_addons_twice(cd), *variable_mistakes(cd), *unnamed_images(cd)]


def _version(cd: ClusterDeployment, releases: Collection[str]) -> Iterator[SpecMistake]:
    if cd.spec.version not in releases:
        known = ", ".join(sorted(releases, key=lambda v: [int(n) for n in re.findall(r"\d+", v)]))
        yield SpecMistake(
            "spec.version", f"Kubernetes {cd.spec.version} is not a release that is known", f"use {known}"
        )


def _outer(cd: ClusterDeployment, outer: Collection[str]) -> Iterator[SpecMistake]:
    for field, text in cd.spec.network.by_field.items():
        own = network_of(text)
        for other in (*outer, *_outside(cd)):
            around = network_of(other)
            if own is not None and around is not None and own.overlaps(around):
                message = f"the network {text} overlaps {other}, which is in use around the cluster"
                yield SpecMistake(f"spec.network.{field}", message, "choose a network that has no address in common")


def _outside(cd: ClusterDeployment) -> Iterator[str]:
    """Yield the hosts of the mirror and of the registry: machines have to reach them past the cluster's networks."""
    source = cd.spec.source
    for address in (source.mirror, f"//{source.registry}" if source.registry else None):
        with suppress(ValueError):  # brackets that hold no address
            host = urlsplit(address or "").hostname
            if host:
                yield host


def _ranges(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    for number, text in enumerate(cd.spec.network.load_balancer_addresses or ()):
        if not is_range(text):
            message = f"{text} is not a network, nor a range of addresses of one IP family"
            remedy = "write 192.0.2.0/28, or 192.0.2.200-192.0.2.210 with the lower address first"
            yield SpecMistake(f"spec.network.loadBalancerAddresses[{number}]", message, remedy)


def template_mistakes(spec: BaseModel) -> Iterator[SpecMistake]:
    """Yield the fields with a text that Ansible would take for a template; spec.variables may have such."""
    texts = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"variables"})
    for path in _templates(texts, ("spec",)):
        yield SpecMistake(path_of(*path), "{{, {% and {# begin templates, which no field has", "write the value itself")


def _templates(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of texts, and of mappings with a key, that have the beginning of a template."""
    if isinstance(value, Mapping):
        if any(TEMPLATE.search(key) for key in value):
            yield path
        for key, inner in value.items():
            yield from _templates(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _templates(inner, (*path, number))
    elif isinstance(value, str) and TEMPLATE.search(value):
        yield path


def _twice(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    owner: dict[str, str] = {}
    names: set[str] = set()
    for number, machine_set in enumerate(cd.spec.machine_sets):
        if machine_set.name in names:
            message = f'Duplicate value: {{"name":"{machine_set.name}"}}'
            yield SpecMistake(f"spec.machineSets[{number}]", message, "give every set a name of its own")
        names.add(machine_set.name)
        for name in machine_set.machines.names or ():
            if owner.setdefault(name, machine_set.name) != machine_set.name:
                message = f"Machine {name} is in the sets {owner[name]} and {machine_set.name}"
                yield SpecMistake(f"spec.machineSets[{number}].machines.names", message, "name it in one set only")


def _addons_twice(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    names = [addon.name for addon in cd.spec.addons]
    for number, name in enumerate(names):
        if name in names[:number]:
            message = f'Duplicate value: {{"name":"{name}"}}'
            yield SpecMistake(f"spec.addons[{number}]", message, "give every add-on a name of its own")
