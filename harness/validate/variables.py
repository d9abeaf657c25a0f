"""Variables that checks depend on: optional add-ons, hardening, a customised kubeadm, an external CA."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.model import Cell
from harness.spec.models.facts import ENFORCES_POLICIES


@dataclass(frozen=True)
class AddOn:
    """An add-on: the variable that names its version, its Deployment if it has one, and the repository of its image.

    daemon_set: the DaemonSet that it has on every node.  ports: what that opens on nodes to others.
    """

    variable: str
    deployment: tuple[str, str] | None
    image: str
    daemon_set: tuple[str, str] | None = None
    ports: tuple[int, ...] = ()


METRICS_SERVER = "metrics-server"
LOCAL_PATH_PROVISIONER = "local-path-provisioner"
METALLB = "metallb"
KUBE_ROUTER = "kube-router"
TRAEFIK = "traefik"
ADD_ONS: Mapping[str, AddOn] = {
    METRICS_SERVER: AddOn("cluster_metrics_server_version", ("kube-system", "metrics-server"), METRICS_SERVER),
    LOCAL_PATH_PROVISIONER: AddOn(
        "cluster_local_path_provisioner_version",
        ("local-path-storage", "local-path-provisioner"),
        LOCAL_PATH_PROVISIONER,
    ),
    METALLB: AddOn(
        "cluster_metallb_version",
        ("metallb-system", "controller"),
        METALLB,
        daemon_set=("metallb-system", "speaker"),
        ports=(7946, 9120),  # speakers among each other; their metrics, to who may have them
    ),
    KUBE_ROUTER: AddOn(
        "cluster_kube_router_version",
        None,
        KUBE_ROUTER,
        daemon_set=("kube-system", "kube-router"),
        ports=(20244,),  # its health, for kubelet
    ),
    TRAEFIK: AddOn("cluster_traefik_version", None, TRAEFIK, daemon_set=("traefik", "traefik")),
}


@dataclass(frozen=True)
class HasAddOn:
    """The condition (for the mark `when` of checks) that a cluster is there after a phase, and a variable is set.

    variables: of which one is enough.
    """

    variables: tuple[str, ...]

    def __call__(self, cell: Cell, index: int) -> bool:
        """Tell whether it holds after a phase of a cell."""
        phase = cell.phases[index]
        return phase.cluster and any(phase.vars.get(name) for name in self.variables)


def asked_for(name: str) -> HasAddOn:
    """Return the condition that a cell has an add-on after a phase."""
    return HasAddOn((ADD_ONS[name].variable,))


# The same: something enforces NetworkPolicies after a phase, our add-on or, by its variable, what another product has.
enforces_policies = HasAddOn((ADD_ONS[KUBE_ROUTER].variable, ENFORCES_POLICIES))
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
    in_order = []
    for name, content in sorted((variables.get(PATCHES) or {}).items()):
        if re.match(rf"{re.escape(target)}[^a-z]", name):
            kind = KIND.search(name)
            in_order.append(Patch(name, kind.group(1) if kind else "strategic", content))
    return in_order


def patched_settings(variables: Variables) -> set[str]:
    """Return the settings of kubelets that a cell's patches change: their names at the outermost level."""
    settings: set[str] = set()
    for patch in patches_of(KUBELET_TARGET, variables):
        if patch.kind == "json":
            settings |= {str(operation.get("path", "")).lstrip("/").partition("/")[0] for operation in patch.content}
        else:
            settings |= set(patch.content)
    return settings


def patches_of_others(variables: Variables) -> bool:
    """Tell whether a cell has patches by another variable, of which nobody knows what they change."""
    return any(value for name, value in variables.items() if name.endswith("patches") and name != PATCHES)


def touched(patches: Sequence[Patch]) -> set[str]:
    """Return the keys that patches name, at any depth."""
    keys: set[str] = set()
    for patch in patches:
        keys |= set(_keys(patch.content))
    return keys


def _keys(content: Any) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield str(key)
            if key == "path":  # of an operation of a JSON patch
                yield from str(value).split("/")
            yield from _keys(value)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for item in content:
            yield from _keys(item)


def without_kube_proxy(variables: Variables) -> bool:
    """Tell whether a cell leaves out kube-proxy."""
    return KUBE_PROXY in (variables.get(SKIPPED) or ())


def hours_of(text: str) -> int:
    """Return the hours of a validity such as 4392h."""
    return int(text.partition("h")[0])


def customised_flags(program: str, variables: Variables) -> dict[str, str]:
    """Return the flags that a program has because kubeadm is customised, or emulates an earlier minor version."""
    flags = {"config": SCHEDULER_FILE} if program == "kube-scheduler" and variables.get(SCHEDULER) else {}
    if variables.get(EMULATES) and program in EMULATING:
        flags["emulated-version"] = emulated_minor(variables)
    return flags


EMULATES = "cluster_emulate_previous_minor"
EMULATING = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def emulated_minor(variables: Variables) -> str:
    """Return the minor version of which control planes serve the API: "1.35"; "" where the cell does not say."""
    if EMULATES not in variables:
        return ""
    major, minor = str(variables["cluster_kubernetes_version"]).removeprefix("v").split(".")[:2]
    return f"{major}.{int(minor) - (1 if variables[EMULATES] else 0)}"


def volumes_of(program: str, variables: Variables) -> list[Mapping[str, Any]]:
    """Return the volumes that a program has beside kubeadm's own and those of a hardened cluster."""
    own = {"name": "scheduler-config", "hostPath": SCHEDULER_FOLDER, "mountPath": SCHEDULER_FOLDER, "readOnly": True}
    volumes = [own] if program == "kube-scheduler" and variables.get(SCHEDULER) else []
    return [*volumes, *(variables.get(VOLUMES.get(program, ""), None) or ())]


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
        program: [[volume["hostPath"], volume["mountPath"]] for volume in volumes_of(program, variables)]
        for program in VOLUMES
    }


FOLDER, LOGS = "/etc/kubernetes/hardening", "/var/log/kubernetes"
KEY, AUDIT, TLS, SUITES = (
    "cluster_encryption_key",
    "cluster_audit_policy",
    "cluster_tls_minimum",
    "cluster_tls_cipher_suites",
)
HEALTH_ONLY, SIGNED = "cluster_anonymous_health_only", "cluster_kubelet_certificates_signed"
AUTHENTICATORS = "cluster_jwt_authenticators"
POD_SECURITY, EVENTS, PLUGINS = "cluster_pod_security", "cluster_event_rate_limits", "cluster_admission_plugins"
SECCOMP, PROFILING, PRIVATE = "cluster_seccomp_default", "cluster_profiling", "cluster_private_files"
ETCD_VERSIONS = {"VersionTLS12": "TLS1.2", "VersionTLS13": "TLS1.3"}


def asks(*names: str) -> Callable[[Cell, int], bool]:
    """Return the condition (for the mark `when` of checks) that a cell sets all of some variables after a phase."""

    def holds(cell: Cell, index: int) -> bool:
        phase = cell.phases[index]
        return phase.cluster and all(_set(phase.vars, name) for name in names)

    return holds


def hardened_flags(program: str, variables: Variables) -> dict[str, str]:
    """Return the flags that a program has because its cluster is hardened."""
    version, suites = variables.get(TLS) or "", ",".join(variables.get(SUITES) or ())
    if program == "etcd":
        return _given({"tls-min-version": ETCD_VERSIONS.get(version, ""), "cipher-suites": suites})
    if program not in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        return {}
    flags = {"tls-min-version": version, "tls-cipher-suites": suites}
    flags["profiling"] = "false" if _set(variables, PROFILING) else ""
    return _given(flags | (_of_api_server(variables) if program == "kube-apiserver" else {}))


def hardened_kubelet(variables: Variables) -> dict[str, Any]:
    """Return the settings that every kubelet has because its cluster is hardened."""
    settings: dict[str, Any] = {"serverTLSBootstrap": True} if _set(variables, SIGNED) else {}
    settings |= {"tlsMinVersion": variables[TLS]} if _set(variables, TLS) else {}
    settings |= {"tlsCipherSuites": list(variables[SUITES])} if _set(variables, SUITES) else {}
    settings |= {"seccompDefault": True} if _set(variables, SECCOMP) else {}
    return settings | ({"enableProfilingHandler": False} if _set(variables, PROFILING) else {})


def _of_api_server(variables: Variables) -> dict[str, str]:
    plugins = [*(["EventRateLimit"] if _set(variables, EVENTS) else []), *(variables.get(PLUGINS) or ())]
    flags = {"enable-admission-plugins": ",".join(["NodeRestriction", *plugins]) if plugins else ""}
    if _set(variables, KEY):
        flags |= {"encryption-provider-config": f"{FOLDER}/encryption.yml"}
        flags |= {"encryption-provider-config-automatic-reload": "true"}
    if _set(variables, AUDIT):
        flags |= {"audit-policy-file": f"{FOLDER}/audit.yml", "audit-log-path": f"{LOGS}/audit.log"}
        flags |= {"audit-log-maxage": "30", "audit-log-maxbackup": "10", "audit-log-maxsize": "100"}
    if _set(variables, HEALTH_ONLY) or _set(variables, AUTHENTICATORS):
        flags["authentication-config"] = f"{FOLDER}/authentication.yml"
    if _set(variables, SIGNED):
        flags["kubelet-certificate-authority"] = "{certificates}/ca.crt"
    if _set(variables, POD_SECURITY) or _set(variables, EVENTS):
        flags["admission-control-config-file"] = f"{FOLDER}/admission.yml"
    return flags


def hardened_scheduler(variables: Variables) -> dict[str, Any]:
    """Return the settings of a scheduler with a file, which takes nothing from its flag `--profiling`."""
    return {"enableProfiling": False} if _set(variables, PROFILING) else {}


def _set(variables: Variables, name: str) -> bool:
    """Tell whether a variable hardens; profiling does where it is off."""
    return variables.get(name, True) is False if name == PROFILING else bool(variables.get(name))


def _given(flags: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in flags.items() if value}


EXTERNAL_CA = "cluster_external_ca"
# kubeadm gives these empty ones to a controller manager that finds a CA without its key
UNSIGNING = {"kube-controller-manager": {"cluster-signing-cert-file": "", "cluster-signing-key-file": ""}}


def external_flags(program: str, variables: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the flags that a program has because the cluster's CA is external."""
    return UNSIGNING.get(program, {}) if variables.get(EXTERNAL_CA) else {}
