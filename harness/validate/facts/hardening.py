"""How a cell asks for a hardened cluster, and what its machines show of it, as on_node_hardening.py prints it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.model import Cell

FOLDER, LOGS = "/etc/kubernetes/hardening", "/var/log/kubernetes"
KEY, AUDIT, TLS, SUITES = (
    "cluster_encryption_key",
    "cluster_audit_policy",
    "cluster_tls_minimum",
    "cluster_tls_cipher_suites",
)
HEALTH_ONLY, SIGNED = "cluster_anonymous_health_only", "cluster_kubelet_certificates_signed"
POD_SECURITY, EVENTS, PLUGINS = "cluster_pod_security", "cluster_event_rate_limits", "cluster_admission_plugins"
SECCOMP, PROFILING, PRIVATE = "cluster_seccomp_default", "cluster_profiling", "cluster_private_files"
ETCD_VERSIONS = {"VersionTLS12": "TLS1.2", "VersionTLS13": "TLS1.3"}
Variables = Mapping[str, Any]


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
    found: dict[str, Any] = {"serverTLSBootstrap": True} if _set(variables, SIGNED) else {}
    found |= {"tlsMinVersion": variables[TLS]} if _set(variables, TLS) else {}
    found |= {"tlsCipherSuites": list(variables[SUITES])} if _set(variables, SUITES) else {}
    found |= {"seccompDefault": True} if _set(variables, SECCOMP) else {}
    return found | ({"enableProfilingHandler": False} if _set(variables, PROFILING) else {})


def _of_api_server(variables: Variables) -> dict[str, str]:
    plugins = [*(["EventRateLimit"] if _set(variables, EVENTS) else []), *(variables.get(PLUGINS) or ())]
    flags = {"enable-admission-plugins": ",".join(["NodeRestriction", *plugins]) if plugins else ""}
    if _set(variables, KEY):
        flags |= {"encryption-provider-config": f"{FOLDER}/encryption.yml"}
        flags |= {"encryption-provider-config-automatic-reload": "true"}
    if _set(variables, AUDIT):
        flags |= {"audit-policy-file": f"{FOLDER}/audit.yml", "audit-log-path": f"{LOGS}/audit.log"}
        flags |= {"audit-log-maxage": "30", "audit-log-maxbackup": "10", "audit-log-maxsize": "100"}
    if _set(variables, HEALTH_ONLY):
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
