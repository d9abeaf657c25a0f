"""What one login finds out of a machine of a cluster: its certificates, and digests of the files that playbooks own.

It changes nothing. Certificates come as they are, without the private keys that some of their files hold as well.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.machines.probe_program import MARK, as_root, said_lines

DIGITS = 16  # of a file's SHA-256: enough to tell two versions apart, and small in a status
# Files that the playbooks write, or kubeadm for them, and nothing else does. A test compares this with the roles.
# Not here: what rotates or is private (kubeconfigs, keys), and what machines share with others (/etc/hosts).
OWNED = (
    "/etc/kubernetes/manifests/*.yaml",
    "/etc/kubernetes/kubeadm.yml",
    "/etc/kubernetes/patches/*",
    "/etc/kubernetes/flannel.yml",
    "/etc/kubernetes/pod-routes.yml",
    "/etc/etcd/kubeadm.yml",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/instance-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/etc/containerd/config.toml",
    "/etc/containerd/certs.d/*/hosts.toml",
    "/etc/containers/registries.conf.d/*",
    "/etc/crictl.yaml",
    "/etc/crio/crio.conf.d/*",
    "/etc/crio/policy.json",
    "/etc/api-endpoint/haproxy.cfg",
    "/etc/modules-load.d/kubernetes.conf",
    "/etc/sysctl.d/90-kubernetes.conf",
    *(
        f"/etc/systemd/system/{unit}"
        for name in ("kubelet.service", "containerd.service", "crio.service", "etcd.service", "api-endpoint.service")
        for unit in (name, f"{name}.d/*.conf")
    ),
    "/etc/systemd/system/pod-routes.service",
    "/etc/systemd/system/flannel-cni.service",
    "/etc/systemd/system/flannel-cni.path",
    "/usr/local/lib/pod-routes",
    "/usr/local/lib/flannel-cni",
    "/usr/local/lib/prefetch-images",
    "/usr/local/lib/runc-within-limits",
)
CERTIFICATES = (
    "/etc/kubernetes/pki/*.crt",
    "/etc/kubernetes/pki/etcd/*.crt",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/kubelet-server-current.pem",
)
KUBECONFIGS = "/etc/kubernetes/*.conf"
PROGRAM = f"""\
LC_ALL=C; export LC_ALL
say() {{ printf '{MARK} %s=%s\\n' "$1" "$2"; }}
for file in {" ".join(OWNED)}; do
  [ ! -f "$file" ] || say file "$(sha256sum <"$file" | cut -c 1-{DIGITS}) $file"
done
for file in {" ".join(CERTIFICATES)}; do
  [ ! -f "$file" ] ||
    say certificate "$(sed -n '/BEGIN CERT/,/END CERT/p' "$file" | base64 | tr -d '\\n') $file"
done
for file in {KUBECONFIGS}; do
  [ ! -f "$file" ] ||
    say certificate "$(sed -n 's/^ *client-certificate-data: *//p' "$file" | head -n 1) $file"
done
say kubelet "$(systemctl is-active kubelet.service 2>/dev/null)"
say end ok
"""


@dataclass(frozen=True)
class Inspected:
    """What was found: digests of files by path, certificates (PEM) by path, and the state of the kubelet's unit."""

    files: Mapping[str, str] = field(default_factory=dict)
    certificates: Mapping[str, bytes] = field(default_factory=dict)
    kubelet: str = ""


def inspection_command() -> str:
    """Return the command to run on a machine, whatever shell the user has."""
    return as_root(PROGRAM)


def inspected(printed: str) -> Inspected | None:
    """Read what the program printed; None when it did not come to its end."""
    said = list(said_lines(printed))
    if ("end", "ok") not in said:
        return None
    files, certificates = {}, {}
    for name, value in said:
        content, _, path = value.partition(" ")
        if name == "file":
            files[path] = content
        elif name == "certificate" and content and path:
            certificates[path] = _decoded(content)
    return Inspected(files, certificates, dict(said).get("kubelet", ""))


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:  # half of a file that is just being written
        return b""
