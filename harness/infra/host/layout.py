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


class Below:
    """A path below an instance's root."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, layout: Layout, owner: type[Layout]) -> Path:
        """Return the path in a layout."""
        return layout.root / self.name


@dataclass(frozen=True)
class Layout:
    """The files of one instance, all below `root` but for its lock."""

    name: str
    root: Path

    record = Below("instance.json")  # which index the instance has
    given_up = Below("given-up.json")  # programs that ended too often to be started again, until the next `infra up`
    kubeconfig = Below("kubeconfig")  # the administrator's
    pki = Below("pki")  # certificates and keys
    etcd = Below("etcd")  # etcd's data
    logs = Below("logs")  # of the programs
    run = Below("run")  # pid files, components' kubeconfigs and ready files
    disks = Below("disks")  # raw disks of persistent volumes
    machines = Below("machines")

    @property
    def lock(self) -> Path:
        """Return the file that a command locks while it changes the instance; it outlives the root."""
        return self.root.with_name(f"{self.name}.lock")

    @property
    def node(self) -> str:
        """Return the name of the Node that stands for this host."""
        return f"vmatrix-{self.name}"

    @property
    def pods_node(self) -> str:
        """Return the name of the Node that runs the instance's own pods, if it has one."""
        return f"{self.node}-pods"

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
            hint="use at most 32 lower-case letters, digits and hyphens, for example --infra-name default",
        )
    return Layout(name, instances_dir(provider) / name)
