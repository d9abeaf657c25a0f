"""The embedded infrastructure: a real control plane and the KubeVirt and CDI part as processes of this host."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
from harness.embedded.machines import Machines
from harness.errors import InfraError, Leaked
from harness.infra.cluster.nodes import free_for_machines
from harness.infra.embedded import control_plane
from harness.infra.host import guests, instance, kernel, leftovers, locks, network, preflight, processes, status
from harness.infra.host.config import LocalConfig
from harness.infra.host.instance import Instance
from harness.infra.host.layout import (
    MIRROR_PORT,
    PORTS,
    REGISTRY_PORT,
    SUBRESOURCES_PORT,
    WEBHOOK_PORT,
    Layout,
    address_of,
)
from harness.infra.host.programs import Program, Start, accepts, answers, exists
from harness.infra.host.status import InstanceStatus
from harness.kube import Cluster
from harness.model import Access, Capacity, Mirror
from harness.until import Deadline, NotYet, TimedOut, until

KUBEVIRT = "kubevirt"
KUBEVIRT_MODULE = "harness.embedded"
LOCK_SECONDS = 180.0
KUBEVIRT_GRACE = 3.0  # seconds to finish what it is doing to a machine
GRACE = 1.0
SETTLE_SECONDS = 3.0


class LocalProvider:
    """One embedded instance, by name."""

    def __init__(self, config: LocalConfig) -> None:
        self.name = "local"
        self.config = config
        self.layout = config.layout

    def up(self) -> None:
        """Bring the instance up; mend what is missing of one that is partly there.

        An instance from before a reboot, or one whose `down` was interrupted, is taken away first: its machines are
        gone, and etcd's data was never flushed to disk.

        Raises:
            BadInput: this host lacks something (all of it at once); nothing was touched.
            InfraError: a program did not come up.
        """
        if not self.layout.root.exists():
            preflight.raise_if_any(self.findings())
        with self._locked():
            found = instance.load(self.layout)
            if self.layout.root.exists() and (found is None or found.ending or found.boot != instance.boot_id()):
                self._take_away()
                found = None
            if found is not None and self._dead(found):
                preflight.raise_if_any(self.findings())
            self.config.prepare()
            self._make(found if found is not None else instance.claim(self.layout))

    def findings(self) -> list[preflight.Finding]:
        """Return what this host lacks to start those programs of the instance that do not run."""
        found = instance.load(self.layout)
        if found is None:
            return preflight.check_host(needs_build=not self.config.prepared())
        dead = [name for name in self._dead(found) if name in PORTS]
        return preflight.check_host(address=address_of(found.index), programs=dead, needs_build=False)

    def down(self) -> None:
        """Take everything of the instance away, in whatever state it is.

        Raises:
            Leaked: something could not be taken away; the rest was.
        """
        with self._locked():
            self._take_away()
            self.layout.lock.unlink(missing_ok=True)
        instance.forget_folder(self.layout)

    def status(self) -> InstanceStatus:
        """Look at the instance."""
        found = instance.load(self.layout)
        return status.look(self.layout, self.programs(found.index) if found is not None else ())

    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.layout.kubeconfig

    def capacity(self) -> Capacity:
        """Return what the node's allocatable resources leave free, and the free disk space below the instance."""
        disk = shutil.disk_usage(self.layout.root).free // 2**30
        return free_for_machines(Cluster.from_kubeconfig(self.layout.kubeconfig), disk_gib=disk)

    def access(self) -> Access:
        """Return that machines are reached at their addresses: they live on this host."""
        return "direct"

    def guest_vars(self) -> Mapping[str, Any]:
        """Return what the playbooks need to know about machines that share this host's kernel."""
        return guests.guest_vars()

    def mirror(self) -> Mirror:
        """Return the addresses of the instance's mirror.

        Raises:
            InfraError: the instance is not up.
        """
        return mirror_of(self._index())

    def describe(self) -> Mapping[str, Any]:
        """Return addresses, directories and programs with their process ids."""
        index = self._index()
        return {
            "provider": self.name,
            "name": self.layout.name,
            "address": address_of(index),
            "server": control_plane.server_of(index),
            "kubeconfig": str(self.layout.kubeconfig),
            "directory": str(self.layout.root),
            "programs": processes.recorded(self.layout),
        }

    def programs(self, index: int) -> Sequence[Program]:
        """Return all programs of the instance, in the order in which they can start."""
        return (
            *self._mirror(index),
            *control_plane.programs(self.layout, index, self.config.binaries, self.config.api_flags),
            *self._kubevirt(index),
        )

    def _make(self, found: Instance) -> None:
        layout = self.layout
        kernel.raise_inotify_limit()
        network.ensure_bridge(found.index, layout)
        for folder in (layout.pki, layout.run, layout.logs, layout.disks, layout.machines):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        control_plane.ensure_credentials(layout, found.index, node_of(layout))
        programs = self.programs(found.index)
        processes.bring_up(layout, programs, deadline=Deadline.after(self.config.up_seconds))
        self.config.publish(mirror_of(found.index).registry)

    def _mirror(self, index: int) -> tuple[Program, ...]:
        config, address = self.config, address_of(index)
        registry = mirror_of(index).registry
        return (
            Program("mirror", lambda: config.mirror(f"{address}:{MIRROR_PORT}"), accepts(address, MIRROR_PORT)),
            Program("registry", lambda: config.registry(registry), answers(f"http://{registry}/v2/")),
        )

    def _kubevirt(self, index: int) -> tuple[Program, ...]:
        layout, ready = self.layout, self.layout.run / "kubevirt.ready"
        argv = (
            str(self.config.python),
            "-m",
            KUBEVIRT_MODULE,
            f"--kubeconfig={control_plane.kubeconfig_of(layout, KUBEVIRT)}",
            f"--state={layout.root}",
            f"--index={index}",
            f"--node-name={node_of(layout)}",
            f"--webhook-address={address_of(index)}:{WEBHOOK_PORT}",
            f"--subresources-address={address_of(index)}:{SUBRESOURCES_PORT}",
            f"--pki={layout.pki}",
        )
        package = str(Path(harness.__file__).resolve().parents[1])
        return (
            Program(
                KUBEVIRT,
                lambda: Start(argv, {"PYTHONPATH": package}),
                exists(ready),
                after=("kube-apiserver",),
                stale=(ready,),
                restarts=2,  # it gives up when a busy host lets the API answer too slowly
                grace=KUBEVIRT_GRACE,
            ),
        )

    def _take_away(self) -> None:
        """Remove the instance from the host: first who makes machines, then machines, then the rest, files last."""
        layout, index = self.layout, instance.find_index(self.layout)
        found = instance.load(layout)
        if found is not None:
            instance.save(layout, replace(found, ending=True))
        processes.take_down(layout, [KUBEVIRT], grace=KUBEVIRT_GRACE)
        leftovers.kill_marked(layout, containing=KUBEVIRT_MODULE)
        if index is not None:
            Machines(layout.root, index).sweep()
        processes.take_down(layout, processes.recorded(layout), grace=GRACE)
        leftovers.kill_marked(layout)
        if index is not None:
            network.remove_bridge(index, layout)
        if not leftovers.mounts(layout):  # never delete through a mount
            instance.remove_files(layout)
        self._require_clean(index)

    def _require_clean(self, index: int | None) -> None:
        """Look whether anything is left; what the kernel is still taking away gets a moment."""
        left: list[str] = []

        def clean() -> NotYet | None:
            lines = leftovers.leftovers(self.layout, index)
            left[:] = [line for line in lines if line != f"file {self.layout.lock}"]
            return NotYet(f"{len(left)} things are left") if left else None

        try:
            until(clean, deadline=Deadline.after(SETTLE_SECONDS), what=f"instance {self.layout.name} is gone")
        except TimedOut as late:
            raise Leaked(
                f"{len(left)} things of instance {self.layout.name} could not be taken away",
                hint=f"see what holds them, then again: vmatrix infra down --name {self.layout.name}",
                paths=[self.layout.root] if self.layout.root.exists() else [],
                detail="\n".join(left),
            ) from late

    def _dead(self, found: Instance) -> list[str]:
        """Return the programs of the instance that do not run."""
        return [p.name for p in self.programs(found.index) if not processes.runs(self.layout, p.name)]

    def _index(self) -> int:
        found = instance.load(self.layout)
        if found is None:
            raise InfraError(
                f"the {self.name} infrastructure {self.layout.name} is not up",
                hint=f"vmatrix infra up --provider {self.name} --name {self.layout.name}",
            )
        return found.index

    def _locked(self) -> AbstractContextManager[None]:
        return locks.hold(
            self.layout.lock, seconds=LOCK_SECONDS, what=f"another command on instance {self.layout.name} has ended"
        )


def mirror_of(index: int) -> Mirror:
    """Return the addresses of an instance's mirror."""
    address = address_of(index)
    return Mirror(http=f"http://{address}:{MIRROR_PORT}", registry=f"{address}:{REGISTRY_PORT}")


def node_of(layout: Layout) -> str:
    """Return the name of the Node that stands for this host in an instance."""
    return f"vmatrix-{layout.name}"
