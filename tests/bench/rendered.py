"""The files that the playbooks write on machines: read from one cell's machines, put on another's of the same kind."""

from __future__ import annotations

import base64
import io
import re
import tarfile
from collections.abc import Callable, Mapping

from harness.errors import HarnessBug
from harness.machines.reach.ssh import control_directory, ssh_command
from harness.model import Environment, Machine
from harness.proc import Completed, run

REMOTE_SECONDS = 300.0
EVERYWHERE = (
    "/etc/api-endpoint",
    "/etc/containerd",
    "/etc/hosts",
    "/etc/sysctl.d/90-kubernetes.conf",
    "/etc/systemd/system/api-endpoint.service",
    "/etc/systemd/system/containerd.service",
    "/etc/systemd/system/flannel-cni.path",
    "/etc/systemd/system/flannel-cni.service",
    "/etc/systemd/system/kubelet.service",
    "/usr/local/lib/flannel-cni",
)
BY_GROUP = {
    "control_plane": ("/etc/kubernetes/kubeadm.yml", "/etc/kubernetes/patches", "/etc/kubernetes/flannel.yml"),
    "node": ("/etc/kubernetes/kubeadm-join.yml",),
}
ADDRESS = re.compile(r"(?<![\d.])\d+\.\d+\.\d+\.\d+(?![\d.])")
Archive = bytes  # a tar file
Rewrite = Callable[[str], str]


def remote(
    environment: Environment,
    machine: Machine,
    script: str,
    *,
    stdin: str | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Completed:
    """Run a script as root on a machine, over the cell's own connection.

    Raises:
        CommandFailed: it did not end well.
    """
    control = control_directory(environment.run, environment.cell.id)
    argv = [*ssh_command(machine, environment.private_key, control), f"sudo bash -euo pipefail -c {_quoted(script)}"]
    return run(argv, timeout=REMOTE_SECONDS, stdin=stdin, on_line=on_line)


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def read(environment: Environment) -> dict[str, Archive]:
    """Return each machine's files, by its name."""
    return {m.name: _read(environment, m) for m in environment.machines}


def _read(environment: Environment, machine: Machine) -> Archive:
    paths = [*EVERYWHERE, *(p for group in machine.groups for p in BY_GROUP.get(group, ()))]
    listed = " ".join(p.removeprefix("/") for p in paths)
    return base64.b64decode(remote(environment, machine, f"tar --create --directory=/ {listed} | base64").stdout)


def moved(archives: Mapping[str, Archive], source: Environment, target: Environment) -> dict[str, Archive]:
    """Return the files with the machines' addresses replaced by those of another cell's machines of the same names."""
    old = {m.name: m.address for m in source.machines}
    new = {m.name: m.address for m in target.machines}
    if old.keys() != new.keys():
        raise HarnessBug(f"the machines {', '.join(old)} are not of the same kind as {', '.join(new)}")
    addresses = {old[name]: new[name] for name in old}

    def rewrite(text: str) -> str:
        return ADDRESS.sub(lambda match: addresses.get(match[0], match[0]), text)

    return {name: _rewritten(archive, rewrite) for name, archive in archives.items()}


def _rewritten(archive: Archive, rewrite: Rewrite) -> Archive:
    written = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source, tarfile.open(fileobj=written, mode="w") as target:
        for member in source:
            opened = source.extractfile(member)
            if opened is None:
                target.addfile(member)
                continue
            content = rewrite(opened.read().decode()).encode()
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return written.getvalue()


def put(environment: Environment, machine: Machine, archive: Archive) -> None:
    """Unpack files on a machine."""
    packed = base64.b64encode(archive).decode()
    remote(environment, machine, "base64 --decode | tar --extract --directory=/", stdin=packed)
