"""Runs a command in a world of its own: with this host's files, and without its processes, networks and mounts.

`python -m tests.kill.world COMMAND...` (root). The world has its own namespaces (mounts, process ids, network, IPC,
host name, cgroups). Its root is an overlay over this host's: what is written there goes into a folder that is removed
with the world, and WRITTEN shows it from inside. /tmp, /run and vmatrix's state are empty at first. The files in KEPT
alone are this host's own. There is no network outside of the world: what it needs has to be in vmatrix's cache.

Namespaces hide neither loop devices nor the kernel's own settings.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from harness import paths

NAME = "KILL_WORLD"  # the variable that names the world, and the instance in it, so that all of it is found
WRITTEN = Path("/run/written")  # in a world: what was written to files of this host, as overlayfs keeps it
KEPT = (Path(__file__).with_name("results.json"), Path(__file__).parents[2] / "docs" / "kill.md")
CGROUPS = Path("/sys/fs/cgroup")
EMPTY = ("tmp", "var/tmp", str(paths.state_dir().relative_to("/")))
# What these programs leave on a host when they are first used on it: systemd-nspawn(1) its folders, `ip netns` a mount.
NSPAWN = (Path("/run/systemd/nspawn/locks"), Path("/run/systemd/nspawn/propagate"))
NAMESPACES = ("--mount", "--net", "--ipc", "--uts", "--cgroup", "--pid", "--fork", "--kill-child")
END_SECONDS = 60.0  # against hanging: what was killed with the world lets go of cgroups and loop devices


def main(command: Sequence[str]) -> int:
    """Run a command in a new world; return its exit code, or 1 if the world left something on this host."""
    name = f"kill-{secrets.token_hex(4)}"
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/var/tmp"))
    mine = [group / name for group in hierarchies()]
    inside = [sys.executable, "-m", __spec__.name, "--inside", str(folder), *command]
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: None)  # the command gets it as well, and ends
    try:
        for group in mine:
            _make(group)
        code = subprocess.run(
            [shutil.which("unshare") or "unshare", *NAMESPACES, *inside],
            env={**os.environ, NAME: name, "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=lambda: _enter(mine),
            check=False,
        ).returncode
    finally:
        for group in mine:
            _remove(group)
        left = detach(name)
        shutil.rmtree(folder)
    for line in left:
        sys.stderr.write(f"the world left {line}\n")
    return code or int(bool(left))


def hierarchies() -> list[Path]:
    """Return where this host's cgroups are: of each hierarchy of version 1, or the one of version 2."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return sorted({path for path in CGROUPS.iterdir() if not path.is_symlink()})


def detach(name: str) -> list[str]:
    """Detach the loop devices of a world that ended; return a line for each."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            text = backing.read_text(encoding="utf-8")
            if f"/{name}/" in text:
                found.append(f"/dev/{backing.parts[-3]} of {text.strip()}")
                _run("losetup", "--detach", f"/dev/{backing.parts[-3]}")
    return found


def _make(group: Path) -> None:
    group.mkdir()
    for setting in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty in a new cgroup, which nothing can enter then
        if (group / setting).exists():
            (group / setting).write_text((group.parent / setting).read_text(encoding="utf-8"), encoding="utf-8")


def _enter(groups: Sequence[Path]) -> None:
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")


def _remove(group: Path) -> None:
    """Remove a cgroup and those below, once the kernel has let go of the processes that were in them."""
    end = time.monotonic() + END_SECONDS
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        if group.exists():
            if time.monotonic() > end:
                raise TimeoutError(f"{group} is still in use")
            time.sleep(0.1)  # until the kernel has let go


def inside(folder: Path, command: Sequence[str]) -> int:
    """Be the first process of a world: make its root, run the command, and take care of orphans until it ends."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: None)
    where = os.getcwd()
    enter_root(folder)
    os.chdir(where)
    child = subprocess.Popen(command)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


def enter_root(folder: Path) -> None:
    """Make the overlay with what a host has on it, and make it this process's root."""
    upper, work, root = folder / "upper", folder / "work", folder / "root"
    for path in (upper, work, root, *(upper / empty for empty in EMPTY)):
        path.mkdir(parents=True)
    for empty in EMPTY:  # https://docs.kernel.org/filesystems/overlayfs.html: an opaque folder hides what is below
        os.setxattr(upper / empty, "trusted.overlay.opaque", b"y")
        (upper / empty).chmod(0o1777 if "tmp" in empty else 0o700)
    _mount("--make-rprivate", "/")
    _mount("-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "overlay", root)
    for words in _mounts():
        _mount(*words[:-1], root / words[-1])
    for below in ("run/written", "run/lock", "run/old"):
        (root / below).mkdir(parents=True)
    _mount("--bind", upper, root / "run/written")
    for path in KEPT:
        _mount("--bind", path, root / path.relative_to("/"))
    os.chdir(root)
    _run("pivot_root", ".", "run/old")
    os.chdir("/")
    _run("umount", "--lazy", "/run/old")
    os.rmdir("/run/old")
    _run("ip", "link", "set", "lo", "up")
    for path in NSPAWN:
        path.mkdir(parents=True)
    _run("ip", "netns", "add", "first")
    _run("ip", "netns", "delete", "first")


def _mounts() -> Iterator[tuple[str, ...]]:
    """Yield the words of each mount below the root, the last one its place."""
    yield from (("-t", "proc", "proc", "proc"), ("-t", "sysfs", "sysfs", "sys"), ("-t", "devtmpfs", "devtmpfs", "dev"))
    yield ("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", "dev/pts")
    yield from (("-t", "tmpfs", "tmpfs", "dev/shm"), ("-t", "tmpfs", "-o", "mode=755", "tmpfs", "run"))
    groups = hierarchies()
    if groups == [CGROUPS]:
        yield ("-t", "cgroup2", "cgroup2", "sys/fs/cgroup")
        return
    yield ("-t", "tmpfs", "tmpfs", "sys/fs/cgroup")
    for group in groups:
        kind = "cgroup2" if (group / "cgroup.controllers").exists() else "cgroup"
        options = {"systemd": "none,name=systemd"}.get(group.name, group.name)
        how = () if kind == "cgroup2" else ("-o", options)
        yield ("-t", kind, *how, "--mkdir", kind, f"sys/fs/cgroup/{group.name}")


def _mount(*words: str | Path) -> None:
    _run("mount", *words)


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(inside(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
