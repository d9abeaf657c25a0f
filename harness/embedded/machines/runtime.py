"""Machines of one instance: start, inspect, pause, reset, kill, list, sweep.

What exists is read from the host (control groups, network namespaces, mounts, processes), never from memory or
from a file alone, so any process may take over from one that was killed.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness import proc
from harness.embedded.machines import cgroups, disk, netns
from harness.embedded.machines.names import Names
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until

CAP_SYS_RESOURCE = 24  # linux/capability.h
RUN = Path("/run/systemd/nspawn")
# Below a machine's group, on v1 and on v2.
WHERE_BOTH_ARE = ("", "init.scope", "supervisor", "payload", "payload/init.scope")
SYSTEM_CALLS = "@keyring @mount bpf perf_event_open @privileged"
ENVIRONMENT = {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes", "SYSTEMD_NSPAWN_USE_CGNS": "1"}
LAZY_UMOUNT_SECONDS = 20.0  # against hanging: --lazy does not wait for users of a mount
# systemd 256 and later boots on cgroup v1 only when told twice that it is meant.
LEGACY_CGROUP_ARGUMENTS = (
    "systemd.unified_cgroup_hierarchy=0",
    "systemd.legacy_systemd_cgroup_controller=1",
    "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
)
# The shell enters the machine's control groups and becomes nspawn; a hook between fork and exec of this process,
# which may have threads, could deadlock.
ENTER_AND_EXEC = 'groups=$1; shift; for g in $groups; do echo $$ > "$g/cgroup.procs" || exit 1; done; exec "$@"'


def host_has_capability(number: int, status: str | None = None) -> bool:
    """Tell whether this process holds a capability, from the text of /proc/self/status."""
    text = Path("/proc/self/status").read_text(encoding="utf-8") if status is None else status
    mask = next(line.split()[1] for line in text.splitlines() if line.startswith("CapEff:"))
    return bool(int(mask, 16) >> number & 1)


def environment(*, unified: bool) -> dict[str, str]:
    """Return nspawn's environment for a cgroup v2 (`unified`) or a v1/hybrid host."""
    return ENVIRONMENT if unified else {**ENVIRONMENT, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "0"}


def argv(*, name: str, hostname: str, root: Path, netns: str, unified: bool, sys_resource: bool) -> list[str]:
    """Return the command that boots a root; `unified`: cgroup v2 alone; `sys_resource`: CAP_SYS_RESOURCE to give."""
    words = [
        # Not by nspawn's own option: it mounts /sys before it enters, and the guest would see the host's interfaces.
        "nsenter",
        f"--net={netns}",
        "systemd-nspawn",
        "--quiet",
        "--keep-unit",
        "--register=no",
        "--boot",
        "--console=read-only",
        "--link-journal=no",
        f"--machine={name}",
        f"--hostname={hostname}",
        f"--directory={root}",
        "--resolv-conf=off",
        "--timezone=off",
        "--capability=all",
        f"--system-call-filter={SYSTEM_CALLS}",
        "--bind=/dev/kmsg",
    ]
    if not sys_resource:
        words.append("--drop-capability=CAP_SYS_RESOURCE")
    return words if unified else [*words, *LEGACY_CGROUP_ARGUMENTS]


def spawn(command: list[str], groups: list[Path], *, unified: bool, console: Path, pidfile: Path) -> proc.Service:
    """Start nspawn inside the machine's control groups, its console appended to a file."""
    entering = ["sh", "-c", ENTER_AND_EXEC, "sh", " ".join(str(g) for g in groups), *command]
    return proc.spawn(entering, log=console, pidfile=pidfile, env=environment(unified=unified))


def _of_process(pid: int, file: str) -> str:
    """Return a file below /proc of a process, "" when it has ended."""
    try:
        return Path(f"/proc/{pid}", file).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _candidates(groups: list[Path]) -> Iterator[int]:
    """Yield a machine's processes, those first that its nspawn and its pid 1 are among.

    A machine that runs pods has hundreds of groups, and this is asked for often.
    """
    likely = cgroups.members([group / below for group in groups[:1] for below in WHERE_BOTH_ARE])
    yield from sorted(likely)
    yield from sorted(cgroups.pids(groups) - likely)


def supervisor(name: str, groups: list[Path]) -> int | None:
    """Return the pid of a machine's nspawn, found among the processes of its control groups."""

    def is_it(words: list[str]) -> bool:
        return Path(words[0]).name == "systemd-nspawn" and f"--machine={name}" in words

    return next((pid for pid in _candidates(groups) if is_it(_of_process(pid, "cmdline").split("\0"))), None)


def init(groups: list[Path]) -> int | None:
    """Return the pid on the host of the process that is pid 1 in the machine, None before there is one."""

    def is_it(status: str) -> bool:  # NSpid: its pid here, then in each namespace below
        return any(row.split()[2:] == ["1"] for row in status.splitlines() if row.startswith("NSpid:"))

    return next((pid for pid in _candidates(groups) if is_it(_of_process(pid, "status"))), None)


def lock_of(root: Path) -> Path:
    """Return the file by which nspawn keeps others from the same root, named after its device and inode."""
    status = root.stat()
    return RUN / "locks" / f"inode-{status.st_dev}:{status.st_ino}"


def forget(name: str) -> None:
    """Remove what a killed nspawn leaves below /run."""
    export = RUN / "unix-export" / name
    if export.is_dir():
        proc.run(["umount", "--lazy", export], timeout=LAZY_UMOUNT_SECONDS, check=False)
    for folder in (export, RUN / "propagate" / name):
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()


Phase = Literal["absent", "booting", "running", "exited"]
START_SECONDS = 30.0  # pid 1 of a machine, a process of this host; times the factor
PAUSE_SECONDS = 10.0  # this host's kernel freezes a control group in milliseconds
# The freezer of control groups v1 may miss a process that forks meanwhile, and waits for it for ever. runc thaws and
# freezes again, too (opencontainers/cgroups, fs/freezer.go).
FREEZE_AGAIN_SECONDS = 0.5
KILL_SECONDS = 60.0  # against hanging: processes, mounts and groups of this host; the next try goes on from there
UMOUNT_SECONDS = 60.0  # a disk's last writes, on a busy host; tried again until KILL_SECONDS are over
DETACH_SECONDS = 20.0  # against hanging: one command of this host's kernel
CONSOLE_TAIL = 10
POWER_CUT = "power cut on request"  # the last line of the console of a machine that is to boot again
CONSOLE_TAIL_BYTES = 8192


@dataclass(frozen=True)
class MachineSpec:
    """A machine to start.

    Attributes:
        id: 1 to 9 hex digits, unique in the instance.
        namespace_index: its VM namespace's network, 1..250.
        address: its IPv4 address in that network.
        disk: a raw GPT disk that is the machine's own; it is grown to the file's size and written to.
        user_data: cloud-init's user-data.
        network_data: kept beside the seed for people; the address is set from outside instead.
        instance_id: cloud-init's instance-id.
    """

    id: str
    namespace_index: int
    hostname: str
    address: str
    disk: Path
    cpus: int
    memory_mib: int
    user_data: str
    network_data: str
    instance_id: str


@dataclass(frozen=True)
class MachineStatus:
    """What a machine is doing.

    Phases: `absent` nothing of it is on the host; `booting` nspawn runs, pid 1 does not yet; `running` pid 1 runs;
    `exited` nspawn has ended and its remains wait for a kill (`detail`: the console's last lines).
    """

    phase: Phase
    detail: str


class Machines:
    """The machines of the instance with index `index`, whose state directory is `state`.

    stretch: factor for how long a machine may take to start and to go.
    """

    def __init__(self, state: Path, index: int, stretch: float = 1.0) -> None:
        self._stretch = stretch
        self.names = Names(index)
        self._state = state.resolve()

    def _folder(self, machine_id: str) -> Path:
        return self._state / "machines" / machine_id

    def _groups(self, machine_id: str) -> list[Path]:
        return cgroups.groups_of(self.names.machine(machine_id), cgroups.hierarchies())

    def console(self, machine_id: str) -> Path:
        """Return the file with what the machine wrote to its console; it goes when the machine is killed."""
        return self._folder(machine_id) / "console.log"

    def ensure_network(self, namespace_index: int) -> None:
        """Make a VM namespace's network. Nothing to do when it is complete."""
        with self._network_lock():
            if not netns.network_exists(self.names, namespace_index):
                netns.create_network(self.names, namespace_index)

    def close_networks(self) -> None:
        """Give every network that is there its filter anew: an older vmatrix made it, or somebody changed it."""
        with self._network_lock():
            for namespace_index in sorted(index for index, machine in netns.owned(self.names) if not machine):
                netns.apply_filter(self.names, namespace_index)

    def remove_network(self, namespace_index: int) -> None:
        """Take a VM namespace's network away. Idempotent; its machines are to be killed before."""
        with self._network_lock():
            netns.remove_network(self.names, namespace_index)

    def _network_lock(self) -> AbstractContextManager[None]:
        return netns.locked(self._state / "run" / "network.lock")

    def start(self, spec: MachineSpec) -> None:
        """Boot a machine; return when its pid 1 runs.

        Raises:
            InfraError: it runs already, its disk cannot be used, or nspawn ended at once.
        """
        if self._alive(spec.id):
            raise InfraError(f"machine {spec.id} is already running", paths=[self.console(spec.id)])
        self.kill(spec.id)
        self.ensure_network(spec.namespace_index)
        try:
            self._boot(spec)
        except BaseException:
            self._release(spec.id)
            raise

    def restart(self, spec: MachineSpec) -> None:
        """Boot a machine again from its disk as it is; its address stays, all that was not on the disk is gone.

        Raises:
            InfraError: what is left of it would not go, or nspawn ended at once.
        """
        self._release(spec.id)
        try:
            self._boot(spec, seeded=True)
        except BaseException:
            self._release(spec.id)
            raise

    def cut(self, machine_id: str) -> None:
        """End all of a machine's processes at once and without warning, as if its power had failed.

        Its console says so last. What is left of it waits for `restart` or `kill`.
        """
        with self.console(machine_id).open("a", encoding="utf-8") as console:
            console.write(f"\n{POWER_CUT}\n")
        groups = self._groups(machine_id)
        cgroups.freeze(groups, frozen=False)
        self._end_processes(machine_id, groups, Deadline.after(KILL_SECONDS * self._stretch))

    def _seed(self, spec: MachineSpec, root: Path, *, unified: bool) -> None:
        disk.write(
            root,
            instance_id=spec.instance_id,
            hostname=spec.hostname,
            user_data=spec.user_data,
            resolver=str(self.names.gateway(spec.namespace_index)),
            open_cgroups=not unified,
        )
        if spec.network_data:
            disk.place(root, disk.SEED / "network-config.unused", spec.network_data)

    def _boot(self, spec: MachineSpec, *, seeded: bool = False) -> None:
        folder = self._folder(spec.id)
        root = folder / "root"
        root.mkdir(parents=True, exist_ok=seeded)
        mounted = cgroups.hierarchies()
        unified = cgroups.is_unified(mounted)
        disk.mount(spec.disk, disk.grow(spec.disk), root)
        if not seeded:
            self._seed(spec, root, unified=unified)
        path = netns.plug(self.names, spec.namespace_index, spec.id, spec.address)
        name = self.names.machine(spec.id)
        groups = cgroups.create(name, mounted, cpus=spec.cpus, memory_mib=spec.memory_mib)
        command = argv(
            name=name,
            hostname=spec.hostname,
            root=root,
            netns=path,
            unified=unified,
            sys_resource=host_has_capability(CAP_SYS_RESOURCE),
        )
        service = spawn(command, groups, unified=unified, console=self.console(spec.id), pidfile=folder / "nspawn.pid")
        self._wait_for_init(spec.id, service)

    def _wait_for_init(self, machine_id: str, service: proc.Service) -> None:
        groups = self._groups(machine_id)

        def probe() -> bool | NotYet:
            if not service.alive():
                raise InfraError(
                    f"machine {machine_id} ended while it started",
                    detail=self._last_lines(machine_id),
                    hint="read the lines above; they are systemd-nspawn's own",
                )
            return init(groups) is not None or NotYet("systemd-nspawn has not started its pid 1")

        what = f"machine {machine_id} to run its pid 1"
        until(probe, deadline=Deadline.after(START_SECONDS * self._stretch), what=what, interval=0.02)

    def _alive(self, machine_id: str) -> bool:
        return supervisor(self.names.machine(machine_id), self._groups(machine_id)) is not None

    def status(self, machine_id: str) -> MachineStatus:
        """Say what a machine is doing, from what is on the host."""
        groups = self._groups(machine_id)
        if supervisor(self.names.machine(machine_id), groups) is not None:
            running = init(groups) is not None
            return MachineStatus("running", "") if running else MachineStatus("booting", "pid 1 has not started")
        if machine_id in self.list():
            return MachineStatus("exited", self._last_lines(machine_id))
        return MachineStatus("absent", "")

    def init(self, machine_id: str) -> int | None:
        """Return the pid on this host of a machine's pid 1, None while it has none."""
        return init(self._groups(machine_id))

    def memory(self, machine_id: str) -> cgroups.Memory | None:
        """Return what a machine takes of this host's memory, None when it has no control group."""
        return cgroups.memory_of(self._groups(machine_id))

    def _last_lines(self, machine_id: str) -> str:
        try:
            with self.console(machine_id).open("rb") as handle:
                handle.seek(max(0, self.console(machine_id).stat().st_size - CONSOLE_TAIL_BYTES))
                text = handle.read().decode(errors="replace")
        except FileNotFoundError:
            return "its console log is gone"
        return "\n".join(text.splitlines()[-CONSOLE_TAIL:])

    def pause(self, machine_id: str) -> None:
        """Have a machine stand still: memory and connections stay as they are. Nothing to do when it does already.

        Raises:
            TimedOut: the kernel does not stop it.
        """
        groups = self._groups(machine_id)
        cgroups.freeze(groups, frozen=True)
        asked = time.monotonic()

        def stands() -> bool | NotYet:
            nonlocal asked
            if cgroups.is_frozen(groups):
                return True
            if time.monotonic() - asked > FREEZE_AGAIN_SECONDS:
                cgroups.freeze(groups, frozen=False)
                cgroups.freeze(groups, frozen=True)
                asked = time.monotonic()
            return NotYet("some of its processes still run")

        what = f"machine {machine_id} to stop"
        until(stands, deadline=Deadline.after(PAUSE_SECONDS * self._stretch), what=what, interval=0.02)

    def resume(self, machine_id: str) -> None:
        """Let a machine go on. Nothing to do when it does."""
        cgroups.freeze(self._groups(machine_id), frozen=False)

    def list(self) -> list[str]:
        """Return the ids of all machines that have anything on the host (files alone do not count), sorted."""
        machine_ids = {self.names.machine_id(name) for name in cgroups.names(cgroups.hierarchies())}
        machine_ids |= {machine_id or None for _, machine_id in netns.owned(self.names)}
        below = self._state / "machines"
        machine_ids |= {mount.relative_to(below).parts[0] for mount in disk.mounts_below(below) if mount != below}
        return sorted(machine_id for machine_id in machine_ids if machine_id is not None)

    def kill(self, machine_id: str) -> None:
        """Take a machine away at once: processes, mounts, loop device, network, control groups, files. Idempotent.

        Raises:
            InfraError: something would not go within the time allowed; calling again goes on from there.
        """
        self._release(machine_id)
        shutil.rmtree(self._folder(machine_id), ignore_errors=True)

    def _release(self, machine_id: str) -> None:
        """Do what `kill` does, but leave the console log to be read."""
        groups = self._groups(machine_id)
        deadline = Deadline.after(KILL_SECONDS * self._stretch)
        cgroups.freeze(groups, frozen=False)  # what is frozen by cgroup v1 does not die
        self._end_processes(machine_id, groups, deadline)
        # Only now: a root unmounted under its processes leaves a loop device that is deleted and still attached.
        self._unmount(machine_id, deadline)
        netns.unplug(self.names, machine_id)

        def removed() -> bool | NotYet:
            stuck = cgroups.remove(groups)
            return NotYet(f"{stuck[0]} is busy") if stuck else True

        until(removed, deadline=deadline, what=f"machine {machine_id}'s control groups to be gone", interval=0.02)
        forget(self.names.machine(machine_id))

    def _end_processes(self, machine_id: str, groups: Sequence[Path], deadline: Deadline) -> None:
        def ended() -> bool | NotYet:
            victims = cgroups.kill_all(groups)
            for pid in victims:
                proc.reap(pid)
            return NotYet(f"{len(victims)} are left, the first is {min(victims)}") if victims else True

        until(ended, deadline=deadline, what=f"machine {machine_id}'s processes to end", interval=0.02)

    def _unmount(self, machine_id: str, deadline: Deadline) -> None:
        folder = self._folder(machine_id)

        def unmounted() -> bool | NotYet:
            for mount in disk.mounts_below(folder):
                lock_of(mount).unlink(missing_ok=True)  # while the name is this machine's alone
                done = proc.run(["umount", mount], timeout=UMOUNT_SECONDS, check=False)
                if done.returncode != 0:
                    return NotYet(done.stderr.strip())
            return True

        until(unmounted, deadline=deadline, what=f"machine {machine_id}'s disk to be unmounted", interval=0.05)

    def sweep(self) -> None:
        """Kill every machine of the instance and take every network of it away, whatever made them."""
        for machine_id in self.list():
            self.kill(machine_id)
        with self._network_lock():
            for namespace_index in {index for index, _ in netns.owned(self.names)}:
                netns.remove_network(self.names, namespace_index)
        for device in disk.loop_devices_below(self._state):
            proc.run(["losetup", "--detach", device], timeout=DETACH_SECONDS)
        shutil.rmtree(self._state / "machines", ignore_errors=True)
