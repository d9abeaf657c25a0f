"""What the providers of this host have in common: an instance by name, supplied with artifacts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import cast

from harness import paths, pressure
from harness.artifacts.recipe import Ref
from harness.artifacts.serving import Supply
from harness.errors import NotUp
from harness.infra.findings import Finding
from harness.infra.host import preflight
from harness.infra.host.instance import Occupant, infra_command, not_up
from harness.infra.host.keeper import Keeper
from harness.infra.host.layout import Layout, instances_dir, layout_of
from harness.infra.host.processes import InstanceParts
from harness.infra.host.program import UP_SECONDS, HostConfig
from harness.kube.client import Infra
from harness.machines.reach import ssh
from harness.model import Cell
from harness.providers.definition import MOST_WORKERS, Definition, InstanceProvider, Opening
from harness.spec.models import Timeouts
from harness.spec.settings import Settings
from harness.until import Ground

KUBERNETES = "1.36.3"  # of an infra cluster's own control plane, unless another version is asked for


class OnHost(Definition):
    """A provider whose infra clusters are instances on this host."""

    has_mirror = True
    on_host = True

    def open(self, opening: Opening) -> InstanceProvider:
        """Return the instance that the settings name."""
        return self.instance(opening)

    def infra(self, settings: Settings) -> Infra:
        """Return the administrator's kubeconfig of the instance; the setting `context` is another cluster's."""
        path = layout_of(settings.infra_name, self.name).kubeconfig
        if not path.is_file():
            raise not_up(self.name, settings.infra_name, NotUp)
        return Infra(path)

    def most_cells(self, sizes: Sequence[int], pods_mib: int) -> int:
        """Return how many of the smallest cells fit into this host's free memory."""
        return max(1, min(MOST_WORKERS, (pressure.memory_available_mib() - pods_mib) // min(sizes)))

    def lacking(self, cells: Sequence[Cell], pods_mib: int) -> list[Finding]:
        """Look whether this host has the memory and the disk space for the largest of the cells."""
        largest = max(sum(m.memory_mib for m in cell.machines) for cell in cells)
        most = max(len(cell.machines) for cell in cells)
        return [*preflight.check_memory(largest, pods_mib=pods_mib), *preflight.check_disks(paths.state_dir(), most)]

    def coming(self, settings: Settings) -> list[str]:
        """Return that an instance is brought up, unless it is up, and how it is removed."""
        name = settings.infra_name
        if layout_of(name, self.name).kubeconfig.is_file():
            return []
        down = infra_command("down", name, self.name)
        return [f"instance {name!r} of provider {self.name} is not up: bringing it up; it stays until: {down}"]

    def missing_rights(self, settings: Settings) -> list[Finding]:
        """Look whether this user may bring up an instance, unless it is up."""
        return [] if layout_of(settings.infra_name, self.name).kubeconfig.is_file() else preflight.check_root()

    def first_look(self, opening: Opening) -> list[Finding]:
        """Look at this host for what an instance needs that is not up, or not whole."""
        return self.instance(opening).lacking()

    def ground(self, settings: Settings) -> Ground:
        """Return the programs of the instance."""
        return InstanceParts(layout_of(settings.infra_name, self.name))

    def keeper(self, opening: Opening, tell: Callable[[str], None]) -> AbstractContextManager[object]:
        """Return what starts programs of the instance again that end."""
        return Keeper(cast(Occupant, self.instance(opening)), tell)

    def refuse_unusable(self, settings: Settings) -> None:
        """Refuse a name that no instance can have."""
        layout_of(settings.infra_name, self.name)

    def has_instance(self, name: str) -> bool:
        """Tell whether this host has an instance of that name."""
        return layout_of(name, self.name).root.exists()

    def stale_instances(self, prefix: str, seconds: float) -> list[str]:
        """Return the names with a prefix of the instances that were not changed for so long."""
        folders = instances_dir(self.name).glob(f"{prefix}*/")
        return sorted(folder.name for folder in folders if time.time() - folder.stat().st_mtime > seconds)


def take_down(instance: InstanceProvider) -> None:
    """Remove an instance, and what its cells have on this host of runs that were killed.

    Raises:
        Leaked: something could not be removed; the rest was.
    """
    kubeconfig = instance.kubeconfig().resolve()
    instance.down()
    ssh.sweep(kubeconfig)


def supplied(layout: Layout, supply: Supply, needed: Sequence[Ref], timeouts: Timeouts | None) -> HostConfig:
    """Return an instance that is supplied with artifacts. `needed`: what has to be made before it can come up."""
    store = supply.store
    return HostConfig(
        layout,
        binaries=supply.program,
        mirror=supply.mirror,
        registry=supply.registry,
        publish=supply.publish,
        deliveries=supply.deliveries,
        pulls=supply.pulls,
        prepare=lambda: store.ensure(needed, supply.progress),
        prepared=lambda: all(store.cached(ref) is not None for ref in needed),
        up_seconds=UP_SECONDS if timeouts is None else timeouts.instance_up,
    )
