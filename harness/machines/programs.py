"""Programs that one login runs on a machine: the probe of its facts, and the inspection of its files.

It changes nothing. It becomes root, as playbooks do, because a cluster's folders are closed to others.

It changes nothing. Certificates come as they are, without the private keys that some of their files hold as well.
"""

from __future__ import annotations

import base64
import binascii
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MARK = "vmatrix-probe"  # before every line, because login messages and shells may print, too
KIB_PER_MIB = 1024
# Where clusters keep what makes a machine a node or a member; a file in one of them is enough. The first is the ledger
# of our playbooks, then kubeadm, kubelet and etcd, then distributions that keep all of these in a folder of their own.
FOLDERS = (
    "/var/lib/host-configuration",
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/var/lib/rancher/k3s",
    "/var/lib/rancher/rke2",
    "/var/lib/k0s",
    "/var/snap/microk8s",
)
PROGRAMS = ("kubelet", "etcd", "kube-apiserver", "k3s-server", "k3s-agent", "k0s")
PROBE_PROGRAM = f"""\
LC_ALL=C; export LC_ALL
say() {{ printf '{MARK} %s=%s\\n' "$1" "$2"; }}
say os "$(. /etc/os-release 2>/dev/null; printf '%s' "${{PRETTY_NAME:-}}")"
say cpus "$(getconf _NPROCESSORS_ONLN)"
say memory "$(sed -n 's/^MemTotal: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo)"
say machine-id "$(cat /etc/machine-id 2>/dev/null)"
for folder in {" ".join(FOLDERS)}; do
  found=$(find "$folder/" -xdev ! -type d 2>/dev/null | head -n 1)
  [ -z "$found" ] || say trace "$found"
done
for name in $(cat /proc/[0-9]*/comm 2>/dev/null | sort -u); do
  case $name in {"|".join(PROGRAMS)}) say trace "process $name" ;; esac
done
# https://docs.cloud-init.io/en/latest/explanation/return_codes.html: written when its last stage has ended
[ ! -e /run/cloud-init/enabled ] || [ -e /run/cloud-init/result.json ] || say boots cloud-init
say end ok
"""


@dataclass(frozen=True)
class ProbedFacts:
    """What was found: name of the operating system, CPUs, memory in MiB, /etc/machine-id, traces of a cluster.

    boots: cloud-init has not ended yet.
    """

    os: str
    cpus: int
    memory_mib: int
    machine_id: str
    traces: tuple[str, ...] = ()
    boots: bool = False


def probe_command() -> str:
    """Return the command to run on a machine, whatever shell the user has."""
    return as_root(PROBE_PROGRAM)


def as_root(program: str) -> str:
    """Return the command that runs a shell program as root, whatever shell the user has."""
    quoted = shlex.quote(program)
    become = f'if [ "$(id -u)" = 0 ]; then exec sh -c {quoted}; else exec sudo -n sh -c {quoted}; fi'
    return f"sh -c {shlex.quote(become)}"


def facts_of(printed: str) -> ProbedFacts | None:
    """Read what the program printed; None when it did not come to its end."""
    said = list(said_lines(printed))
    values = dict(said)
    if values.get("end") != "ok":
        return None
    return ProbedFacts(
        os=values.get("os", ""),
        cpus=_number(values.get("cpus", "")),
        memory_mib=_number(values.get("memory", "")) // KIB_PER_MIB,
        machine_id=values.get("machine-id", ""),
        traces=tuple(value for name, value in said if name == "trace"),
        boots="boots" in values,
    )


def said_lines(printed: str) -> Iterator[tuple[str, str]]:
    """Yield names and values of the lines that a program printed behind the mark."""
    for line in printed.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == MARK and "=" in rest:
            name, _, value = rest.partition("=")
            yield name, value.strip()


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


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
    "/etc/containerd/certs.d/*/ca.crt",
    "/etc/containers/registries.conf.d/*",
    "/etc/crictl.yaml",
    "/etc/crio/crio.conf.d/*",
    "/etc/crio/policy.json",
    "/etc/api-endpoint/haproxy.cfg",
    "/etc/virtual-address/keepalived.conf",
    "/etc/systemd/system/virtual-address.service",
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
    "/usr/local/lib/pod-routes.conflist",
    "/usr/local/lib/flannel-cni",
    "/usr/local/lib/runc-within-limits",
)
CERTIFICATES = (
    "/etc/kubernetes/*/*.crt",  # whatever kubeadm's certificatesDir is called
    "/etc/kubernetes/*/etcd/*.crt",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/kubelet-server-current.pem",
)
ETCD_SECONDS = 5  # it answers about itself within milliseconds, unless its disk hangs
ETCD_METRICS = (  # https://etcd.io/docs/v3.6/metrics/
    "etcd_mvcc_db_total_size_in_bytes ",
    "etcd_mvcc_db_total_size_in_use_in_bytes ",
    "etcd_server_quota_backend_bytes ",
    "etcd_server_has_leader ",
    "etcd_server_is_leader ",
    "etcd_server_is_learner ",
    "etcd_server_id{",
    "etcd_server_proposals_applied_total ",
    "etcd_disk_wal_fsync_duration_seconds_bucket{",
    "etcd_network_peer_round_trip_time_seconds_bucket{",
)
KUBECONFIGS = "/etc/kubernetes/*.conf"
INSPECTION_PROGRAM = f"""\
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
[ -z "$(pidof etcd)" ] || python3 - <<'PROGRAM'
import urllib.error, urllib.request
def get(path):
    for host in ("127.0.0.1", "[::1]"):
        try:
            return urllib.request.urlopen("http://" + host + ":2381" + path, timeout={ETCD_SECONDS}).read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            pass
    return ""
print("{MARK} health=" + get("/health").replace("\\n", ""))
for line in get("/metrics").splitlines():
    if line.startswith({ETCD_METRICS!r}):
        print("{MARK} etcd=" + line)
PROGRAM
say end ok
"""


@dataclass(frozen=True)
class Inspected:
    """What was found: digests of files by path, certificates (PEM) by path, and the state of the kubelet's unit.

    health, etcd: the answer of the machine's etcd to /health, and lines of its metrics; "" where none runs.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    certificates: Mapping[str, bytes] = field(default_factory=dict)
    kubelet: str = ""
    health: str = ""
    etcd: str = ""


def inspection_command() -> str:
    """Return the command to run on a machine, whatever shell the user has."""
    return as_root(INSPECTION_PROGRAM)


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
    lines = [value for name, value in said if name == "etcd"]
    single = dict(said)
    return Inspected(files, certificates, single.get("kubelet", ""), single.get("health", ""), "\n".join(lines))


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:  # half of a file that is just being written
        return b""
