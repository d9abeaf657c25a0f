"""Where an instance's files lie, and what identifies it on the host.

Covers names and paths only; nothing here touches the disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness import paths
from harness.errors import BadInput

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


@dataclass(frozen=True)
class Layout:
    """The files of one instance, all below `root`."""

    name: str
    root: Path

    @property
    def record(self) -> Path:
        """Return the file that says which index the instance has."""
        return self.root / "instance.json"

    @property
    def lock(self) -> Path:
        """Return the file that a command locks while it changes the instance; it outlives the root."""
        return self.root.with_name(f"{self.name}.lock")

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Return the folder of certificates and keys."""
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        """Return etcd's data folder."""
        return self.root / "etcd"

    @property
    def logs(self) -> Path:
        """Return the folder of the processes' logs."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Return the folder of pid files, component kubeconfigs and ready files."""
        return self.root / "run"

    @property
    def disks(self) -> Path:
        """Return the folder of the persistent volumes' raw disks."""
        return self.root / "disks"

    @property
    def machines(self) -> Path:
        """Return the folder of the machines."""
        return self.root / "machines"

    @property
    def node(self) -> str:
        """Return the name of the Node that stands for this host."""
        return f"vmatrix-{self.name}"

    def kubeconfig_of(self, component: str) -> Path:
        """Return a component's own kubeconfig."""
        return self.run / f"{component}.kubeconfig"

    def pidfile(self, program: str) -> Path:
        """Return a program's pid file."""
        return self.run / f"{program}.pid"

    def logfile(self, program: str) -> Path:
        """Return a program's log."""
        return self.logs / f"{program}.log"


def instances_dir(provider: str) -> Path:
    """Return the folder that holds one folder per instance of a provider."""
    return paths.state_dir() / provider


def layout_of(name: str, provider: str) -> Layout:
    """Return the layout of an instance by name.

    Raises:
        BadInput: the name is not a DNS label of at most 32 characters.
    """
    if not NAME.fullmatch(name):
        raise BadInput(
            f"instance name {name!r} is not valid",
            hint="use at most 32 lower-case letters, digits and hyphens, for example --name default",
        )
    return Layout(name, instances_dir(provider) / name)
