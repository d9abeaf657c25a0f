"""Status of an instance: which of its programs run, whether its API and KubeVirt are ready, and its leftovers.

Covers processes, mounts, loop devices, cgroups, network namespaces, links, the table of the packet filter and files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness import proc
from harness.errors import VmatrixError
from harness.infra.cluster.kubevirt import check_deployed
from harness.infra.host import firewall
from harness.infra.host.folder import find_index
from harness.infra.host.layout import Layout, load_record
from harness.infra.host.network import NETNS_DIR, SYS_NET, bridge_of
from harness.infra.host.processes import marked
from harness.infra.host.program import HostProgram
from harness.kube import ApiFailure, Cluster, Resource
from harness.kube.resources import CDI, KUBEVIRT, VMI

SYS_BLOCK = Path("/sys/block")


def leftovers(layout: Layout, index: int | None) -> list[str]:
    """Return one line per thing of the instance that is on the host: its kind and its name."""
    return [
        *(f"process {p.pid}: {p.command}" for p in marked(layout)),
        *(f"mount {point}" for point in mounts(layout)),
        *(f"loop device {device}" for device in loop_devices(layout)),
        *(f"cgroup {path}" for path in cgroups(layout, index)),
        *(f"network namespace {name}" for name in namespaces(index)),
        *(f"link {name}" for name in links(index)),
        *(f"packet filter's {table}" for table in (firewall.found(index) if index is not None else ())),
        *(f"file {path}" for path in (layout.root, layout.lock) if path.exists()),
    ]


def mounts(layout: Layout) -> list[str]:
    """Return the mount points below the instance's folder, deepest first."""
    below = f"{layout.root}/"
    points = [_unescape(line.split()[4]) for line in _lines(Path("/proc/self/mountinfo"))]
    return sorted((p for p in points if p.startswith(below)), key=len, reverse=True)


def loop_devices(layout: Layout) -> list[str]:
    """Return the loop devices whose backing file lies (or lay, when deleted) below the instance's folder."""
    return [
        f"/dev/{backing.parts[-3]}"
        for backing in sorted(SYS_BLOCK.glob("loop*/loop/backing_file"))
        if any(line.startswith(f"{layout.root}/") for line in _lines(backing))
    ]


def cgroups(layout: Layout, index: int | None) -> list[str]:
    """Return the cgroups of the instance's machines in every hierarchy, deepest first."""
    if index is None:
        return []
    prefix = f"{bridge_of(index)}-"
    roots = {_unescape(w[4]) for w in (line.split() for line in _lines(Path("/proc/self/mountinfo"))) if _is_cgroup(w)}
    folders = {str(path) for root in roots for path in _folders(Path(root), prefix)}
    return sorted(folders, key=len, reverse=True)


def namespaces(index: int | None) -> list[str]:
    """Return the named network namespaces of the instance."""
    if index is None or not NETNS_DIR.is_dir():
        return []
    return sorted(path.name for path in NETNS_DIR.glob(f"{bridge_of(index)}-*"))


def links(index: int | None) -> list[str]:
    """Return the instance's network links in the host's namespace: its bridge and the veths of VM namespaces."""
    if index is None:
        return []
    bridge = bridge_of(index)
    return sorted(path.name for path in SYS_NET.iterdir() if path.name == bridge or path.name.startswith(f"{bridge}h"))


def _is_cgroup(words: list[str]) -> bool:
    """Tell whether a line of mountinfo is a cgroup hierarchy (the file system type follows the lone hyphen)."""
    return words[words.index("-") + 1] in {"cgroup", "cgroup2"}


def _folders(root: Path, prefix: str) -> Iterator[Path]:
    for folder, names, _ in os.walk(root):
        yield from (Path(folder) / name for name in names if name.startswith(prefix))


def _unescape(text: str) -> str:
    """Decode mountinfo's octal escapes of blanks and backslashes."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


MIB = 2**20
DU_SECONDS = 60.0  # the size of a folder; without it the status has none


class State(StrEnum):
    """Whether an instance works, exists at all, or neither."""

    UP = "up"
    BROKEN = "broken"
    DOWN = "down"


@dataclass(frozen=True)
class ProgramStatus:
    """One program: its process (None when it is not alive), how long it has been up, its memory, and what is wrong."""

    name: str
    pid: int | None
    up_seconds: int
    rss_mib: int
    problem: str


@dataclass(frozen=True)
class SeenMachine:
    """One virtual machine instance, as the API tells."""

    namespace: str
    name: str
    phase: str
    address: str


@dataclass(frozen=True)
class InstanceStatus:
    """An instance at a glance.

    pods: the Node that runs ordinary pods, "" where none does.
    problems: what is wrong besides programs: with KubeVirt and CDI, as the API tells.
    leftovers: filled when it is not up: what of it is on the host all the same.
    """

    state: State
    programs: tuple[ProgramStatus, ...] = ()
    kubevirt: str = ""
    cdi: str = ""
    pods: str = ""
    machines: tuple[SeenMachine, ...] = ()
    disk_mib: int = 0
    leftovers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def wrong(self) -> list[str]:
        """Return all that is wrong, one line each."""
        return [*(f"{p.name}: {p.problem}" for p in self.programs if p.problem), *self.problems, *self.leftovers]


def look(layout: Layout, programs: Sequence[HostProgram]) -> InstanceStatus:
    """Look at an instance; `programs` are those it should have, none when it has no record."""
    if load_record(layout) is None:
        left = leftovers(layout, find_index(layout))
        return InstanceStatus(State.BROKEN if left else State.DOWN, leftovers=tuple(left))
    program_states = tuple(_program(layout, program) for program in programs)
    state = State.BROKEN if any(program.problem for program in program_states) else State.UP
    answered = _api(layout)
    instance = InstanceStatus(
        state,
        program_states,
        answered.kubevirt,
        answered.cdi,
        machines=answered.machines,
        disk_mib=_disk_mib(layout.root),
    )
    return with_problems(instance, answered.problems)


def with_problems(instance: InstanceStatus, problems: Sequence[str]) -> InstanceStatus:
    """Return the status with more problems: with one, an instance is broken."""
    if not problems:
        return instance
    return replace(instance, state=State.BROKEN, problems=(*instance.problems, *problems))


def _disk_mib(folder: Path) -> int:
    """Return what the files below a folder take on its file system (MiB), mounted ones left out."""
    words = ("du", "--one-file-system", "--summarize", "--block-size=1M", str(folder))
    done = proc.run(words, timeout=DU_SECONDS, check=False)  # a file that vanishes meanwhile makes it fail
    return int(done.stdout.split()[0]) if done.stdout else 0


def _program(layout: Layout, program: HostProgram) -> ProgramStatus:
    service = proc.Service.load(layout.pidfile(program.name))
    if service is None:
        return ProgramStatus(program.name, None, 0, 0, "not started")
    if not service.alive():
        return ProgramStatus(program.name, None, 0, 0, f"ended; {layout.logfile(program.name)}")
    answer = program.ready()
    return ProgramStatus(program.name, service.pid, *seen_process(service.pid), answer.reason if answer else "")


def seen_process(pid: int) -> tuple[int, int]:
    """Return for how long a process has run (seconds) and its resident memory (MiB); zeros when it is gone."""
    try:
        started = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError):
        return 0, 0
    return int(uptime - started / os.sysconf("SC_CLK_TCK")), pages * os.sysconf("SC_PAGE_SIZE") // MIB


@dataclass(frozen=True)
class Answered:
    """What the API tells: the phases of KubeVirt and CDI, what is wrong with them, the machines."""

    kubevirt: str = ""
    cdi: str = ""
    machines: tuple[SeenMachine, ...] = ()
    problems: tuple[str, ...] = ()


def _api(layout: Layout) -> Answered:
    """Ask the API; one that does not answer is a problem too."""
    try:
        cluster = Cluster.from_kubeconfig(layout.kubeconfig)
        (kubevirt, *first), (cdi, *second) = _product(cluster, KUBEVIRT, "KubeVirt"), _product(cluster, CDI, "CDI")
        machines = tuple(_machine(vmi) for vmi in cluster.list(VMI).items) if kubevirt else ()
        return Answered(kubevirt, cdi, machines, (*first, *second))
    except VmatrixError as error:
        return Answered(problems=(f"the API does not answer: {error.summary}",))


def _product(cluster: Cluster, resource: Resource, name: str) -> list[str]:
    """Return the phase of KubeVirt or CDI, and then what is wrong with it."""
    try:
        phase = ", ".join(o.get("status", {}).get("phase", "unknown") for o in cluster.list(resource).items)
        return [phase, *(finding.what for finding in check_deployed(cluster, resource, name))]
    except ApiFailure as failure:
        if not failure.not_found:
            raise
        return ["", f"{name} is not installed: the API does not serve {resource.api_version}"]


def _machine(vmi: dict[str, Any]) -> SeenMachine:
    meta, status = vmi["metadata"], vmi.get("status", {})
    interfaces = status.get("interfaces") or [{}]
    return SeenMachine(meta["namespace"], meta["name"], status.get("phase", ""), interfaces[0].get("ipAddress", ""))
