"""The files and addresses of which the CIS Kubernetes Benchmark says who may have them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.validate.expected import ExpectedGuest

CONF, PKI = "/etc/kubernetes", "{certificates}"
MANIFESTS, KUBELET = f"{CONF}/manifests", "/var/lib/kubelet"
CP, NODE, ETCD = "control_plane", "nodes", "etcd"
OWNER = "owner"  # stands for: root's, whatever the permissions
# Numbers of controls, patterns of their files, the permissions that these may have, and on which machines they are.
FILES: Sequence[tuple[str, tuple[str, ...], int | str, str]] = (
    ("1.1.1", (f"{MANIFESTS}/kube-apiserver.yaml",), 0o600, CP),
    ("1.1.2", (f"{MANIFESTS}/kube-apiserver.yaml",), OWNER, CP),
    ("1.1.3", (f"{MANIFESTS}/kube-controller-manager.yaml",), 0o600, CP),
    ("1.1.4", (f"{MANIFESTS}/kube-controller-manager.yaml",), OWNER, CP),
    ("1.1.5", (f"{MANIFESTS}/kube-scheduler.yaml",), 0o600, CP),
    ("1.1.6", (f"{MANIFESTS}/kube-scheduler.yaml",), OWNER, CP),
    ("1.1.7", (f"{MANIFESTS}/etcd.yaml", "/etc/etcd/kubeadm.yml"), 0o600, ETCD),
    ("1.1.8", (f"{MANIFESTS}/etcd.yaml", "/etc/etcd/kubeadm.yml"), OWNER, ETCD),
    ("1.1.9", ("/etc/cni/net.d/*",), 0o600, NODE),
    ("1.1.10", ("/etc/cni/net.d/*",), OWNER, NODE),
    ("1.1.11", ("/var/lib/etcd",), 0o700, ETCD),
    ("1.1.13", (f"{CONF}/admin.conf", f"{CONF}/super-admin.conf"), 0o600, CP),
    ("1.1.14", (f"{CONF}/admin.conf", f"{CONF}/super-admin.conf"), OWNER, CP),
    ("1.1.15", (f"{CONF}/scheduler.conf",), 0o600, CP),
    ("1.1.16", (f"{CONF}/scheduler.conf",), OWNER, CP),
    ("1.1.17", (f"{CONF}/controller-manager.conf",), 0o600, CP),
    ("1.1.18", (f"{CONF}/controller-manager.conf",), OWNER, CP),
    ("1.1.19", (PKI, f"{PKI}/**"), OWNER, NODE),
    ("1.1.20", (f"{PKI}/**/*.crt",), 0o644, NODE),
    ("1.1.21", (f"{PKI}/**/*.key",), 0o600, CP),
    ("4.1.1", ("/etc/systemd/system/kubelet.service",), 0o600, NODE),
    ("4.1.2", ("/etc/systemd/system/kubelet.service",), OWNER, NODE),
    ("4.1.5", (f"{CONF}/kubelet.conf",), 0o600, NODE),
    ("4.1.6", (f"{CONF}/kubelet.conf",), OWNER, NODE),
    ("4.1.7", (f"{PKI}/ca.crt",), 0o644, NODE),
    ("4.1.8", (f"{PKI}/ca.crt",), OWNER, NODE),
    ("4.1.9", (f"{KUBELET}/config.yaml",), 0o600, NODE),
    ("4.1.10", (f"{KUBELET}/config.yaml",), OWNER, NODE),
)
HEALTH = ("/livez", "/readyz", "/healthz")
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
HIDDEN = (
    "/version",
    "/api",
    "/apis",
    "/openapi/v2",
    "/metrics",
    INFO,
)


def patterns(expected: ExpectedGuest) -> dict[str, list[str]]:
    """Return what machine/hardening.py takes as `files`."""
    folder = expected.leaves.certificates or f"{CONF}/pki"
    return {number: [glob.replace(PKI, folder) for glob in globs] for number, globs, _, _ in FILES}
