#!/usr/bin/python
"""Ansible module: take away what a Kubernetes node leaves on its machine once nothing starts it any more.

Covers processes (by control group and by the folder of their program), mounts, network namespaces, control groups,
files and folders. Does not cover what a role takes back itself, binaries (versioned_binaries) or the rest of the
network (network_leftovers).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_leftovers
short_description: Take away what a Kubernetes node leaves on its machine
description:
  - Each kind in the order in which the next one becomes free; what is gone already is no change, so it can be repeated.
  - Check mode lists what would go.
options:
  slices: {description: Units of systemd's that hold pods; stopped., type: list, elements: str, default: []}
  control_groups:
    description: Names of control groups, at any depth, whose processes are killed and which are removed.
    type: list
    elements: str
    default: []
  programs: {description: Folders; what runs a program from one is killed., type: list, elements: path, default: []}
  mounts: {description: Folders; what is mounted below one is unmounted., type: list, elements: path, default: []}
  namespaces: {description: Patterns of network namespaces to delete., type: list, elements: str, default: []}
  paths:
    description: Files and folders to delete. Of one that is a mount point, which is the machine's own, the content.
    type: list
    elements: path
    default: []
  seconds: {description: How long killed processes may take to go., type: int, default: 30}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Leave nothing of the pods
  node_leftovers:
    control_groups: [kubepods]
    mounts: [/var/lib/kubelet]
"""

RETURN = r"""
removed: {description: "What went, as KIND NAME.", returned: always, type: list, elements: str}
"""

CGROUPS = Path("/sys/fs/cgroup")
NAMESPACES = Path("/run/netns")
MOUNTS = Path("/proc/self/mountinfo")
KILL_INTERVAL = 0.1  # seconds


class Stuck(Exception):
    """Something does not go away."""


def run(*argv: str) -> bool:
    """Run a command; tell whether it succeeded."""
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def below(path: str, folders: list[str]) -> bool:
    """Tell whether a path is in one of the folders, at any depth."""
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def in_groups(membership: str, groups: list[str]) -> bool:
    """Tell whether /proc/PID/cgroup names one of the groups, at any depth of any hierarchy."""
    paths = (line.split(":", 2)[-1] for line in membership.splitlines())
    return any(part in groups for path in paths for part in path.split("/"))


def processes(groups: list[str], programs: list[str], proc: Path = Path("/proc")) -> Iterator[tuple[int, str]]:
    """Yield (process id, name) of every process in one of the groups or running a program from one of the folders."""
    for folder in proc.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            program = os.readlink(folder / "exe").removesuffix(" (deleted)")
            if below(program, programs) or in_groups((folder / "cgroup").read_text(encoding="utf-8"), groups):
                yield int(folder.name), (folder / "comm").read_text(encoding="utf-8").strip()
        except OSError:  # it has ended, or it is a thread of the kernel's
            continue


def kill(groups: list[str], programs: list[str], seconds: float) -> None:
    """Kill them and whatever they start, until none is left."""
    deadline = time.monotonic() + seconds
    while found := list(processes(groups, programs)):
        if time.monotonic() > deadline:
            raise Stuck(f"still running {seconds} s after they were killed: {found}")
        for pid, _ in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(KILL_INTERVAL)


def mounted(folders: list[str], mountinfo: str) -> list[str]:
    """Return the mount points below the folders, those on top of others first."""
    points = [line.split()[4] for line in mountinfo.splitlines()]
    plain = [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point) for point in points]
    return [point for point in reversed(plain) if below(point, folders)]


def unmount(point: str) -> None:
    """Unmount; what is still in use somewhere goes as soon as it is not."""
    if not run("umount", point) and not run("umount", "--lazy", point):
        raise Stuck(f"{point} cannot be unmounted")


def group_folders(groups: list[str]) -> list[Path]:
    """Return the folders of the control groups in every hierarchy, those inside others first."""
    roots = [root for root in (CGROUPS, *CGROUPS.glob("*/")) if not root.is_symlink()]
    tops = {top for root in roots for name in groups for top in root.glob(name)}
    return [folder for top in sorted(tops) for folder in (*sorted(top.glob("**/*/"), reverse=True), top)]


def remove_group(folder: Path) -> None:
    """Remove a control group; one that systemd removed in the meantime is removed."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return folder.rmdir()
        except FileNotFoundError:
            return None
        except OSError as error:  # the kernel needs a moment after the last process
            if time.monotonic() > deadline:
                raise Stuck(f"{folder}: {error.strerror}") from error
            time.sleep(KILL_INTERVAL)


def expand(path: str) -> list[str]:
    """Return what there is to delete at a path: itself, the content of a mount point, or nothing."""
    if os.path.ismount(path):
        return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name != "lost+found"]
    return [path] if os.path.lexists(path) else []


def unlink(path: str) -> None:
    """Delete a file, or a folder with all that is in it, but nothing through a mount."""
    target = Path(path)
    if target.is_dir() and not target.is_symlink():
        if left := mounted([path], MOUNTS.read_text(encoding="utf-8")):
            raise Stuck(f"{path} is not deleted while {left[0]} is mounted")
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


class Sweep:
    """What went, or in check mode would go, as sentences."""

    def __init__(self, *, dry: bool) -> None:
        self.dry = dry
        self.removed: list[str] = []

    def each(self, kind: str, names: list[str], act: Callable[[str], object]) -> None:
        """Note everything of a kind and, unless in check mode, act on each."""
        for name in names:
            self.removed.append(f"{kind} {name}")
            if not self.dry:
                act(name)


def sweep(given: dict[str, list[str]], seconds: float, *, dry: bool) -> list[str]:
    """Take everything away, each kind in the order in which the next becomes free; return what went."""
    broom = Sweep(dry=dry)
    active = [unit for unit in given["slices"] if run("systemctl", "--quiet", "is-active", unit)]
    ending = sorted({name for _, name in processes(given["control_groups"], given["programs"])})
    broom.each("process", ending, lambda _: kill(given["control_groups"], given["programs"], seconds))
    broom.each("slice", active, lambda unit: run("systemctl", "--quiet", "stop", unit))
    points = mounted(given["mounts"], MOUNTS.read_text(encoding="utf-8"))
    broom.each("mount", points, unmount)
    spaces = [path.name for pattern in given["namespaces"] for path in sorted(NAMESPACES.glob(pattern))]
    broom.each("network namespace", spaces, lambda name: run("ip", "netns", "delete", name))
    groups = [str(folder) for folder in group_folders(given["control_groups"])]
    broom.each("control group", groups, lambda folder: remove_group(Path(folder)))
    broom.each("file", [path for each in given["paths"] for path in expand(each)], unlink)
    if ending and not dry:  # systemd keeps a unit that is gone in mind for as long as it has a process
        run("systemctl", "daemon-reload")
    return broom.removed


LISTS = {
    "slices": "str",
    "control_groups": "str",
    "programs": "path",
    "mounts": "path",
    "namespaces": "str",
    "paths": "path",
}


def main() -> None:
    """Run as an Ansible module."""
    lists = {name: {"type": "list", "elements": kind, "default": []} for name, kind in LISTS.items()}
    module = AnsibleModule(
        argument_spec={
            **lists,
            "seconds": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        removed = sweep({name: given[name] for name in LISTS}, given["seconds"], dry=module.check_mode)
    except (Stuck, OSError, subprocess.CalledProcessError) as error:
        module.fail_json(msg=f"cannot remove a leftover of the node: {error}")
    module.exit_json(changed=bool(removed), removed=removed)


if __name__ == "__main__":
    main()
