"""Where an instance's files lie, and what identifies it on the host.

Covers names and paths only; nothing here touches the disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from harness import paths
from harness.embedded.machines.names import MAX_INSTANCES, Names
from harness.errors import BadInput
from harness.model import Mirror

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
INDICES = range(MAX_INSTANCES)
API_PORT = 6443
ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
KCM_PORT = 10257
SCHEDULER_PORT = 10259
MIRROR_PORT = 8080
REGISTRY_PORT = 5000
WEBHOOK_PORT = 8443
SUBRESOURCES_PORT = 8444  # KubeVirt's aggregated API
KUBELET_PORT = 10250  # what the API server asks for launchers' logs
PORTS = {  # by program
    "etcd": (ETCD_PORT, ETCD_PEER_PORT),
    "kube-apiserver": (API_PORT,),
    "kube-controller-manager": (KCM_PORT,),
    "kube-scheduler": (SCHEDULER_PORT,),
    "mirror": (MIRROR_PORT,),
    "registry": (REGISTRY_PORT,),
    "kubevirt": (WEBHOOK_PORT, SUBRESOURCES_PORT, KUBELET_PORT),
}


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


def block_of(index: int) -> str:
    """Return the address block of an instance."""
    return str(Names(index).instance_network)


def address_of(index: int) -> str:
    """Return the address that all host services of an instance listen on."""
    return str(Names(index).instance_address)


def bridge_of(index: int) -> str:
    """Return the host bridge that carries the instance's address."""
    return f"vmx{index}"


def service_range_of(index: int) -> str:
    """Return the range of the infra cluster's Services, the last /24 of the block."""
    return str(_service_range(index))


def service_address_of(index: int) -> str:
    """Return the address of the Service `kubernetes`, the first of the range."""
    return str(_service_range(index)[1])


def _service_range(index: int) -> IPv4Network:
    return list(Names(index).instance_network.subnets(new_prefix=24))[-1]


def mirror_of(index: int) -> Mirror:
    """Return the addresses of an instance's mirror."""
    address = address_of(index)
    return Mirror(http=f"http://{address}:{MIRROR_PORT}", registry=f"{address}:{REGISTRY_PORT}")
