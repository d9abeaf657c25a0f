"""The embedded infrastructure: a real control plane and the embedded KubeVirt as processes of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from harness.embedded.machines.names import Names
from harness.errors import VmatrixError
from harness.infra.embedded import control_plane
from harness.infra.findings import Finding
from harness.infra.host import firewall, guests, preflight, services
from harness.infra.host.instance import Occupant
from harness.infra.host.layout import Layout
from harness.infra.host.network import PORTS, address_of, mirror_of
from harness.infra.host.program import HostProgram
from harness.infra.host.services import HostConfig
from harness.infra.host.status import InstanceStatus, with_problems
from harness.infra.pods import join
from harness.infra.pods.machine import MEMORY_MIB, BootDisk, PodsMachine
from harness.kube.client import Cluster
from harness.model import Access

NAME = "embedded"


class EmbeddedProvider(Occupant):
    """One embedded instance, by name.

    pods_disk: obtains the boot disk of the machine that runs pods; None where no such machine is asked for.
    pods_versions: of what that machine runs.  pods_mib: its memory.
    """

    name = NAME

    def __init__(
        self,
        config: HostConfig,
        *,
        pods_disk: Callable[[], BootDisk] | None = None,
        pods_versions: Mapping[str, str] | None = None,
        pods_mib: int = MEMORY_MIB,
    ) -> None:
        super().__init__(config)
        self._pods_mib = pods_mib
        self._pods_disk = pods_disk
        self._pods_versions = pods_versions or {}

    @property
    def runs_pods(self) -> bool:
        """Tell whether the instance has, or is to have, a machine that runs pods."""
        return self._pods_disk is not None

    def altered(self, *, api_flags: Mapping[str, object], pods_mib: int = MEMORY_MIB) -> EmbeddedProvider:
        """Return the instance with other flags of its API server, and another memory for the machine of its pods."""
        config = replace(self.host.config, api_flags=api_flags)
        disk, versions = self._pods_disk, self._pods_versions
        return EmbeddedProvider(config, pods_disk=disk, pods_versions=versions, pods_mib=pods_mib)

    def up(self) -> None:
        """Bring the instance up; start what is missing of one that is partly up.

        Raises:
            BadInput: this host lacks something (all of it at once); nothing was touched.
            InfraError: a program did not come up, or a firewall of this host keeps machines from the mirror.
        """
        with self.host.coming_up(self) as index:
            control_plane.ensure_credentials(self.layout, index)
            self.host.start(self.programs(index))
            firewall.require_mirror_reachable(index, ipv6=True)
            self.host.config.publish(mirror_of(index).registry)
            if self._pods_disk is not None:
                self._run_pods(index, self._pods_disk())

    def _run_pods(self, index: int, disk: BootDisk) -> None:
        """Have the infra cluster run pods of its own."""
        self.host.has_pods()
        layout, server, seconds = self.layout, control_plane.server_of(index), self.host.config.up_seconds
        machine = PodsMachine(
            layout.pods_node,
            server,
            mirror_of(index),
            disk,
            self._pods_versions,
            layout.pki,
            host=layout.node,
            memory_mib=self._pods_mib,
        )
        join.ensure(Cluster.from_kubeconfig(layout.kubeconfig), machine, seconds=seconds)

    def findings(self) -> list[Finding]:
        """Return what this host lacks to start those programs of the instance that do not run."""
        found = self.host.record
        if found is None:
            pods_mib = self._pods_mib if self.runs_pods else 0
            return preflight.check_host(needs_build=not self.host.config.prepared(), pods_mib=pods_mib)
        dead = [name for name in self.host.dead(self.programs(found.index)) if name in PORTS]
        return preflight.check_host(address=address_of(found.index), programs=dead, needs_build=False)

    def remove(self) -> None:
        """Remove the instance from this host."""
        self.host.remove()

    def status(self) -> InstanceStatus:
        """Look at the instance, the Node that runs pods included where it has one."""
        seen, found = self.host.status(self), self.host.record
        if found is None or not found.pods:
            return seen
        return _with_pods(seen, self.layout)

    def access(self) -> Access:
        """Return that machines are reached at their addresses: they live on this host."""
        return "direct"

    def guest_vars(self) -> Mapping[str, Any]:
        """Return what the playbooks need to know about machines that share this host's kernel."""
        return guests.guest_vars()

    def spare_addresses(self, address: str) -> tuple[str, ...]:
        """Return what embedded KubeVirt gives no machine of a VM namespace."""
        first, last = Names(self.host.index()).spare_addresses(IPv4Address(address).packed[2])
        return (f"{first}-{last}",)

    def describe(self) -> Mapping[str, Any]:
        """Return addresses, directories and programs."""
        return self.host.describe(control_plane.server_of(self.host.index()))

    def programs(self, index: int) -> Sequence[HostProgram]:
        """Return all programs of the instance, in the order in which they can start."""
        config = self.host.config
        return (
            *services.mirror(config, index),
            *services.mirror_over_ipv6(config, index),
            *control_plane.programs(self.layout, index, config.binaries, config.api_flags),
            services.kubevirt(
                config,
                index,
                after=("etcd",),
                namespaces=self.layout.kubeconfig_of(control_plane.NAMESPACES),
            ),
        )


def _with_pods(seen: InstanceStatus, layout: Layout) -> InstanceStatus:
    try:
        problem = join.placement_problem(Cluster.from_kubeconfig(layout.kubeconfig), layout.pods_node)
    except VmatrixError:
        return seen  # that the API cannot be asked is said already
    return with_problems(replace(seen, pods=layout.pods_node), [problem] if problem else [])
