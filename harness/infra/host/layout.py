"""Layout of an instance: where its files lie, what identifies it on the host, and the record of how it was made."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import paths
from harness.errors import BadInput
from harness.files import write_atomically

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
        """Return the name of the Node that stands for this host, the first of several."""
        return f"vmatrix-{self.name}"

    def nodes(self, workers: int) -> tuple[str, ...]:
        """Return the names of the Nodes that stand for this host: the first, and so many workers, named as kind's."""
        return (self.node, *(f"{self.node}-worker{number if number > 1 else ''}" for number in range(1, workers + 1)))

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


@dataclass(frozen=True)
class InstanceRecord:
    """What an instance's record holds.

    boot: the kernel's boot id; under another one, no process or machine of the instance can be alive.
    ending: `down` began, so the instance must not be repaired.
    pods: it has a machine that runs pods.
    workers: Nodes that stand for this host beside the first.
    """

    name: str
    index: int
    created: str
    boot: str
    ending: bool = False
    pods: bool = False
    workers: int = 0

    @property
    def usable(self) -> bool:
        """Tell whether the instance can be repaired; else it can only be removed."""
        return not self.ending and self.boot == boot_id()


def load_record(layout: Layout) -> InstanceRecord | None:
    """Read an instance's record; None when there is none or it is unreadable."""
    try:
        raw = json.loads(layout.record.read_text(encoding="utf-8"))
        name, created, boot = (str(raw[key]) for key in ("name", "created", "boot"))
        ending, pods, workers = bool(raw["ending"]), bool(raw.get("pods")), int(raw.get("workers") or 0)
        return InstanceRecord(name, int(raw["index"]), created, boot, ending, pods, workers)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_record(layout: Layout, record: InstanceRecord) -> None:
    """Write an instance's record."""
    layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(layout.record, json.dumps(asdict(record), indent=2) + "\n")


def boot_id() -> str:
    """Return the id that the kernel drew at its last boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
