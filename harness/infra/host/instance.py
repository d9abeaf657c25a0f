"""One instance on this host: its files, addresses, programs and machines, brought up and removed under its lock.

What runs in it is its provider's: an Occupant says which programs those are, and what else has to be removed.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.embedded.machines import Machines
from harness.errors import InfraError, Leaked, VmatrixError
from harness.infra.findings import Finding, raise_if_any
from harness.infra.host import firewall, folder, layout, network, processes, program, status
from harness.infra.host.layout import InstanceRecord
from harness.infra.host.network import address_of, mirror_of
from harness.infra.host.processes import kill_marked
from harness.infra.host.program import HostConfig, HostProgram
from harness.infra.host.status import InstanceStatus, ProgramStatus, State
from harness.model import Mirror
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, TimedOut, until

log = logging.getLogger(__name__)
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
# Every guest's root is the host's root, and the limit is per user. A control plane machine takes about 45 (measured:
# kube-apiserver 12, kube-controller-manager 11, kubelet 9, systemd 6, containerd 4), the embedded control plane 27.
INOTIFY_INSTANCES = 8192
LOCK_SECONDS = 180.0  # policy: another command on the same instance may have a start to finish, then this one gives up
GRACE = 1.0  # for programs that are removed with all their data to end before they are killed
SETTLE_SECONDS = 30.0  # the kernel takes a moment to drop the last mounts and links, and longer on a busy host
DEFAULT_PROVIDER = str(Settings.model_fields["provider"].default)


class Occupant(ABC):
    """What lives in an instance: a provider, by the instance's name."""

    name: str

    def __init__(self, config: HostConfig) -> None:
        self.host = HostInstance(config, self.name)
        self.layout = config.layout

    @abstractmethod
    def findings(self) -> Sequence[Finding]:
        """Return what this host lacks to start what does not run."""

    @abstractmethod
    def programs(self, index: int) -> Sequence[HostProgram]:
        """Return all programs on this host, in the order in which they can start."""

    @abstractmethod
    def remove(self) -> None:
        """Remove everything of the instance from this host."""

    def lacking(self) -> list[Finding]:
        """Return what this host lacks to start what does not run; nothing is asked where nothing is to be started."""
        record = self.host.record
        whole = record is not None and record.usable and not self.host.dead(self.programs(record.index))
        return [] if whole else list(self.findings())

    def machines_here(self) -> bool:
        """Tell whether machines run on this host, and are to be kept from it."""
        return True

    def down(self) -> None:
        """Remove everything, in whatever state it is. Raises Leaked when something could not be; the rest was."""
        self.host.down(self)

    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.layout.kubeconfig

    def mirror(self) -> Mirror:
        """Return the addresses of the instance's mirror. Raises InfraError when the instance is not up."""
        return mirror_of(self.host.index())


class HostInstance:
    """One instance by name, and the provider that it is of."""

    def __init__(self, config: HostConfig, provider: str) -> None:
        self.config = config
        self.layout = config.layout
        self.provider = provider

    @property
    def record(self) -> InstanceRecord | None:
        """Return what is written down of the instance, None when it is not up."""
        return layout.load_record(self.layout)

    def index(self) -> int:
        """Return the instance's index. Raises InfraError when it is not up."""
        if (record := self.record) is None:
            raise not_up(self.provider, self.layout.name, InfraError)
        return record.index

    @contextmanager
    def coming_up(self, occupant: Occupant, *, workers: int = 0) -> Iterator[int]:
        """Give the index of an instance that has its address and folders; the body starts what is missing.

        An instance from before a reboot, or one whose `down` was interrupted, is removed first: its machines are
        gone, and etcd's data was never flushed to disk.

        Args:
            workers: Nodes that are to stand for this host beside the first, if the instance is a new one.

        Raises:
            BadInput: this host lacks something (all of it at once); nothing was touched.
            InfraError: all indices are taken.
        """
        layout = self.layout
        if not layout.root.exists():
            raise_if_any(occupant.findings())
        with self._locked():
            record = self.record
            if layout.root.exists() and (record is None or not record.usable):
                occupant.remove()
                record = None
            if record is not None and self.dead(occupant.programs(record.index)):
                raise_if_any(occupant.findings())
            self.config.prepare()
            index = (record or folder.claim(layout, workers)).index
            raise_inotify_limit()
            network.ensure_bridge(index, layout)
            if occupant.machines_here():
                firewall.ensure(index)
                Machines(layout.root, index).close_networks()
            for path in (layout.pki, layout.run, layout.logs, layout.disks, layout.machines):
                path.mkdir(parents=True, exist_ok=True, mode=0o700)
            yield index

    def start(self, programs: Sequence[HostProgram]) -> None:
        """Start those programs that do not run, and wait until all are ready.

        Raises:
            InfraError: one ended, or was not ready in time.
        """
        self.layout.given_up.unlink(missing_ok=True)
        processes.bring_up(self.layout, programs, deadline=Deadline.after(self.config.up_seconds))

    def dead(self, programs: Sequence[HostProgram]) -> list[str]:
        """Return the names of those programs that do not run."""
        return [program.name for program in programs if not processes.runs(self.layout, program.name)]

    def down(self, occupant: Occupant) -> None:
        """Remove everything of the instance, in whatever state it is.

        Raises:
            Leaked: something could not be removed; the rest was.
        """
        with self._locked():
            occupant.remove()
            self.layout.lock.unlink(missing_ok=True)
        folder.forget(self.layout)

    def has_pods(self) -> None:
        """Note that the instance has a machine that runs pods, so that each repair looks after it."""
        if (record := self.record) is not None:
            layout.save_record(self.layout, replace(record, pods=True))

    def stop_making_machines(self) -> None:
        """Note that the instance is ending, and end the program that makes machines."""
        if (record := self.record) is not None:
            layout.save_record(self.layout, replace(record, ending=True))
        processes.take_down(self.layout, [program.KUBEVIRT], grace=program.KUBEVIRT_GRACE)
        kill_marked(self.layout, containing=program.KUBEVIRT_MODULE)

    def remove(self) -> None:
        """Remove the instance from this host: first who makes machines, then machines, then the rest, files last.

        Raises:
            Leaked: something could not be removed; the rest was.
        """
        layout, index = self.layout, folder.find_index(self.layout)
        self.stop_making_machines()
        if index is not None:
            Machines(layout.root, index).sweep()
        processes.take_down(layout, processes.recorded(layout), grace=GRACE)
        kill_marked(layout)
        if index is not None:
            firewall.remove(index)
            network.remove_bridge(index, layout)
        if not status.mounts(layout):  # never delete through a mount
            folder.remove_files(layout)
        self._require_clean(index)

    def _require_clean(self, index: int | None) -> None:
        name, left = self.layout.name, list[str]()

        def clean() -> NotYet | None:
            lines = status.leftovers(self.layout, index)
            left[:] = [line for line in lines if line != f"file {self.layout.lock}"]
            return NotYet(f"{len(left)} things are left") if left else None

        try:
            until(clean, deadline=Deadline.after(SETTLE_SECONDS), what=f"instance {name} to be gone")
        except TimedOut as late:
            raise Leaked(
                f"{len(left)} things of instance {name} could not be removed",
                hint=f"see what holds them, then run again: {infra_command('down', name, self.provider)}",
                paths=[self.layout.root] if self.layout.root.exists() else [],
                detail="\n".join(left),
            ) from late

    def status(self, occupant: Occupant) -> InstanceStatus:
        """Look at the instance."""
        record = self.record
        looked = status.look(self.layout, occupant.programs(record.index) if record is not None else ())
        if record is None or not occupant.machines_here() or firewall.holds(record.index):
            return looked
        table = f"table {firewall.FAMILY} {firewall.table_of(record.index)}"
        row = ProgramStatus("packet filter", None, 0, 0, f"{table} is not whole: guests may reach more of this host")
        return replace(looked, state=State.BROKEN, programs=(*looked.programs, row))

    def describe(self, server: str) -> Mapping[str, Any]:
        """Return addresses, directories and programs with their process ids. `server`: the URL of the API."""
        return {
            "provider": self.provider,
            "name": self.layout.name,
            "address": address_of(self.index()),
            "server": server,
            "kubeconfig": str(self.layout.kubeconfig),
            "directory": str(self.layout.root),
            "programs": processes.recorded(self.layout),
        }

    def _locked(self) -> AbstractContextManager[None]:
        what = f"another command on instance {self.layout.name} to end"
        return folder.hold(self.layout.lock, seconds=LOCK_SECONDS, what=what)


def raise_inotify_limit(setting: Path = INOTIFY) -> None:
    """Raise the number of inotify instances per user, until the next reboot; a higher one stays as it is."""
    if int(setting.read_text(encoding="utf-8")) < INOTIFY_INSTANCES:
        setting.write_text(f"{INOTIFY_INSTANCES}\n", encoding="utf-8")
        log.info("raised %s to %d", setting, INOTIFY_INSTANCES)


def infra_command(verb: str, name: str, provider: str) -> str:
    """Return the command that brings an instance up or takes it down, to be pasted."""
    which = f" --provider {provider}" if provider != DEFAULT_PROVIDER else ""
    return f"vmatrix infra {verb}{which} --infra-name {name}"


def not_up(provider: str, name: str, kind: type[VmatrixError]) -> VmatrixError:
    """Return the error that an instance is not up."""
    return kind(f"instance {name!r} of provider {provider} is not up", hint=infra_command("up", name, provider))
