"""What one login finds out of a machine: a small shell program, and the facts that are read from what it prints.

It changes nothing. It becomes root, as playbooks do, because a cluster's folders are closed to others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

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
PROGRAM = f"""\
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


def command() -> str:
    """Return the command to run on a machine, whatever shell the user has."""
    return as_root(PROGRAM)


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
