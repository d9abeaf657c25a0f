"""systemd-nspawn: the command line that boots a root file system, its processes, and what it leaves behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness import proc
from harness.embedded.machines import cgroups

CAP_SYS_RESOURCE = 24
RUN = Path("/run/systemd/nspawn")
# Below a machine's group, on v1 and on v2.
WHERE_BOTH_ARE = ("", "init.scope", "supervisor", "payload", "payload/init.scope")
SYSTEM_CALLS = "@keyring @mount bpf perf_event_open @privileged"
ENVIRONMENT = {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes", "SYSTEMD_NSPAWN_USE_CGNS": "1"}
UMOUNT_SECONDS = 20.0  # against hanging: --lazy does not wait for users of a mount
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
        proc.run(["umount", "--lazy", export], timeout=UMOUNT_SECONDS, check=False)
    for folder in (export, RUN / "propagate" / name):
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
