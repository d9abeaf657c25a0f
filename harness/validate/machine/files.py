"""Prints of a guest's machine who may use which files, what is older than its files, and who listens.

facts/files.py reads it. No content of a file leaves the machine, only whether there is a private key in it.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from harness.validate.machine.library import PATH, PROCESSES, age, effective, flag, processes, read, said

FILES = [
    "/etc/kubernetes/*.conf",
    "/etc/kubernetes/*.y*ml",
    "/etc/kubernetes/manifests/*",
    "/etc/kubernetes/pki/**",
    "/etc/ssl/etcd/**",
    "/var/lib/kubelet/pki/*",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/root/.kube/config",
    "/home/*/.kube/config",
]
# Whoever may write here runs what he likes as root.
PLACES = ["/etc/cni/net.d", "/opt/cni/bin", "/opt/cni/bin/*", "/etc/systemd/system", "/etc/systemd/system/*.service"]
# Whoever may write to these, or to a folder above one, may put another in its place. With what is in those before **.
FOLDERS = [
    *("/etc/kubernetes/**", "/etc/ssl/etcd/**", "/etc/etcd/**", "/etc/cni/**", "/etc/containerd/**", "/etc/crio/**"),
    *("/etc/containers/**", "/etc/api-endpoint/**", "/etc/systemd/system", "/etc/systemd/system/*.d/**"),
    *("/var/lib/kubelet", "/var/lib/kubelet/*", "/var/lib/kubelet/device-plugins/*", "/var/lib/cni/**"),
    *("/var/lib/containerd", "/var/lib/containerd/*", "/var/lib/containers", "/var/lib/containers/storage"),
    *("/var/lib/crio", "/var/lib/calico", "/var/lib/cilium", "/var/log/pods", "/var/log/containers"),
    *("/run/containerd", "/run/crio", "/run/flannel", "/run/netns", "/opt/cni", "/opt/cni/bin", "/usr/local/bin"),
    *("/usr/local/sbin", "/usr/local/lib", "/etc/sysctl.d", "/etc/modules-load.d", "/usr/libexec/kubernetes/**"),
]
# What programs of the cluster write while they run, and what renewal, upgrades, joins and network plugins write later.
WRITTEN = [
    *("/etc", "/etc/kubernetes", "/etc/kubernetes/manifests", "/etc/kubernetes/tmp", "/etc/kubernetes/pki"),
    *("/etc/kubernetes/pki/etcd", "/etc/cni/net.d", "/etc/containerd", "/etc/crio", "/etc/systemd/system"),
    *("/var/lib/kubelet", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods", "/var/lib/kubelet/plugins"),
    *("/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources"),
    *("/var/lib/containerd", "/var/lib/containers", "/var/lib/containers/storage", "/var/lib/crio"),
    *("/var/lib/cni", "/var/lib/cni/networks", "/var/lib", "/var/log", "/var/log/pods", "/var/log/containers"),
    *("/run", "/run/containerd", "/run/crio", "/run/netns", "/run/flannel", "/run/systemd", "/run/xtables.lock"),
    *("/opt/cni/bin", "/usr/local/bin", "/usr/libexec/kubernetes", "/etc/hosts", "/root", "/tmp", "/var/tmp"),  # noqa: S108
]
# From where programs run.
RUN = ("/opt/cni/bin", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/libexec/kubernetes")
# What a boot must not empty.
LASTING: tuple[str, ...] = (
    "/etc/kubernetes",
    "/etc/cni",
    "/etc/containerd",
    "/etc/crio",
    "/etc/systemd",
    "/var/lib/kubelet",
)
LASTING += ("/var/lib/containerd", "/var/lib/containers", "/var/lib/etcd", "/var/lib/cni")
# Mounts that come and go with pods, and are written by nobody else.
OF_PODS = re.compile(
    r"^/var/lib/kubelet/(pods|plugins)/|^/run/(netns/|credentials/|user/|host/|lock|systemd/)"
    r"|^/(run|var/lib)/(containerd|containers|crio)/.*(/rootfs|/shm|/merged|overlay|userdata|sandboxes)"
)
# Types of the kernel's own file systems, which have no files that a program could write (proc_filesystems(5)).
NO_FILES = {"nsfs", "proc", "sysfs", "cgroup", "cgroup2", "bpf", "mqueue", "devpts", "securityfs", "debugfs", "tracefs"}
SECRET = re.compile(r"PRIVATE KEY-----|client-key-data:|^\s*token:", re.MULTILINE)
LARGE = 1 << 20  # bytes: no file with a key is as large
CROWDED = ("/tmp", "/var/tmp", "/etc", "/run", "/root", "/var/lib", "/var/log", "/run/netns")  # noqa: S108 - not the cluster's alone
PROXIES = {"haproxy", "nginx"}
CRIO = (
    "/etc/crio/crio.conf",
    "/etc/crio/crio.conf.d/*",
    "/etc/crio/policy.json",
    "/etc/containers/registries.conf.d/*",
)
CONTAINERD = ("/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml")
RELEASE = ("ID", "VERSION_ID", "VERSION_CODENAME")
LISTENER = re.compile(r"^\S+\s+\S+\s+\S+\s+(?P<address>\S+):(?P<port>\d+)\s+\S+(?P<users>.*)$")
PID = re.compile(r"pid=(\d+)")


def files(running: Iterable[dict[str, Any]], folder: str) -> dict[str, list[Any]]:
    """Return kind, permissions, owner, group and whether there is a private key, of every file of the cluster.

    Also of the folders that they are in, and of those above.
    """
    patterns = [*FILES, *FOLDERS, *([f"{folder}/**"] if folder else [])]
    data = [text for process in running if process["name"] == "etcd" if (text := effective(process, "data-dir"))]
    patterns += [pattern for text in data for pattern in (text, f"{text}/**")]
    for process in running:
        if process["name"] == "kubelet":
            patterns += filter(None, [flag(process["argv"], "config"), flag(process["argv"], "kubeconfig")])
    rights, own = {}, {path.rstrip("/") for pattern in patterns for path in glob.glob(pattern, recursive=True)}
    above = {str(parent) for path in own for parent in PurePath(path).parents if not path.startswith("/home/")} - own
    for path in {*own, *above}:
        try:
            status = os.lstat(path)
        except OSError:  # it is gone meanwhile
            continue
        if stat.S_ISLNK(status.st_mode):
            continue
        secret = stat.S_ISREG(status.st_mode) and status.st_size < LARGE and bool(SECRET.search(read(path) or ""))
        folder_of = "above" if path in above else "data" if any(map(PurePath(path).is_relative_to, data)) else "folder"
        kind = folder_of if stat.S_ISDIR(status.st_mode) else "socket" if stat.S_ISSOCK(status.st_mode) else "file"
        rights[path] = [kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, secret]
    return rights


def places(running: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return kind and rights, as `files` does, of programs that run as root, of their units and folders."""
    paths = {path for pattern in PLACES for path in glob.glob(pattern)}
    for process in running:
        if process["name"] in ("kubelet", "containerd", "crio", "etcd"):
            paths.add(process["executable"])
        if process["name"] == "kubelet":
            config = read(flag(process["argv"], "config")) or ""
            paths |= set(re.findall(r"^staticPodPath:\s*[\"']?(/[^\s\"']+)", config, re.MULTILINE))
    rights = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:  # it is gone meanwhile
            continue
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # a unit that is masked
            continue
        rights[path] = ["place", stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, False]
    return rights


def written(running: Iterable[dict[str, Any]], folder: str) -> dict[str, dict[str, Any]]:
    """Return of each folder that programs write, and of each mount below, what is in the way of writing there.

    closed: why nothing can be written (the kernel's error for root), "" where something can.  space, files: free
    shares.  locked: files in it that cannot be changed.  runs: whether programs are run from there; noexec: whether
    that is forbidden.  passing: whether a boot empties it although it has to last.
    """
    etcd = [effective(process, "data-dir") for process in running if process["name"] == "etcd"]
    own = [folder, f"{folder}/etcd"] if folder else []
    data = [
        path for text in filter(None, etcd) for path in (text, *(f"{text}/member/{name}" for name in ("snap", "wal")))
    ]
    places = {folder_path for folder_path in [*WRITTEN, *own, *data, *RUN] if os.path.exists(folder_path)}
    mounts = mounted()
    apart = [place for place in places if place not in CROWDED]
    writable = [where for where, (_, kind) in mounts.items() if kind not in NO_FILES and not OF_PODS.search(where)]
    below = {where for where in writable if any(is_below(where, place) for place in apart)}
    return {path: room(path, mounts, (*LASTING, *filter(None, [*own, *data]))) for path in {*places, *below} - {"/"}}


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is in a folder, or the folder itself."""
    return path == folder or path.startswith(f"{folder}/")


def mounted() -> dict[str, tuple[str, str]]:
    """Return the options and the type of the topmost mount at each place (proc_pid_mountinfo(5))."""
    mounts = {}
    for line in (read("/proc/self/mountinfo") or "").splitlines():
        words, _, rest = line.partition(" - ")
        fields = words.split()
        mounts[fields[4].replace("\\040", " ")] = (fields[5], rest.split()[0])
    return mounts


def room(path: str, mounts: dict[str, tuple[str, str]], lasting: Sequence[str]) -> dict[str, Any]:
    """Return what is in the way of writing to a place; see `written`."""
    filesystem = os.statvfs(path)
    options, kind = mounts[max((where for where in mounts if is_below(path, where.rstrip("/"))), key=len)]
    return {
        "closed": unwritable(path),
        "space": filesystem.f_bavail / filesystem.f_blocks if filesystem.f_blocks else 1.0,
        "files": filesystem.f_favail / filesystem.f_files if filesystem.f_files else 1.0,
        "locked": locked(path),
        "runs": any(is_below(path, place) for place in RUN),
        "noexec": "noexec" in options.split(","),
        "passing": kind in ("tmpfs", "ramfs") and any(is_below(path, place) for place in lasting),
    }


def unwritable(path: str) -> str:
    """Return the kernel's reason why root cannot write to a place, "" where it can; nothing is written."""
    try:
        if os.access(path, os.W_OK):
            return ""
        os.close(os.open(path, os.O_WRONLY | os.O_DIRECTORY if os.path.isdir(path) else os.O_WRONLY))
    except OSError as error:
        if error.errno != errno.EISDIR:
            return error.strerror or str(error)
    return "read-only" if os.statvfs(path).f_flag & os.ST_RDONLY else "it is immutable (chattr)"


def locked(path: str) -> list[str]:
    """Return the files of a folder that root cannot change: immutable ones, or mounted read-only."""
    if not os.path.isdir(path) or path in CROWDED:
        return []
    with os.scandir(path) as entries:
        plain = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    return sorted(file for file in plain if not os.access(file, os.W_OK))


def newer_files(process: dict[str, Any]) -> dict[str, float]:
    """Return by how many seconds files that a process read when it started are newer than it."""
    argv, unit = process["argv"], process["cgroup"].rpartition("/")[2]
    read_by = {
        "kubelet": [
            flag(argv, "config"),
            *glob.glob("/var/lib/kubelet/*.env"),
            "/var/lib/kubelet/instance-config.yaml",
        ],
        "containerd": [flag(argv, "config") or flag(argv, "c") or CONTAINERD[0], *glob.glob(CONTAINERD[1])],
        "crio": [path for pattern in CRIO for path in glob.glob(pattern)],
        "haproxy": argv[argv.index("-f") + 1 :][:1] if "-f" in argv else [],
        "etcd": [],
    }
    names = [name for name in read_by.get(process["name"], []) if name]
    if unit.endswith(".service") and process["name"] in read_by:
        shown = said(["systemctl", "show", "--value", "-p", "FragmentPath", "-p", "DropInPaths", unit]) or ""
        names += [name for name in shown.split() if name.startswith(("/etc/", "/usr/", "/run/systemd/"))]
    started, newer = time.time() - age(process["pid"]), {}
    for name in names:
        if os.path.exists(name):
            newer[name] = os.stat(name).st_mtime - started
    return newer


def of_units(running: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the processes of an etcd that is not a pod."""
    return [process for process in running if process["name"] == "etcd" and process["cgroup"].endswith(".service")]


def by_age(process: dict[str, Any]) -> float:
    """Return the opposite of a process's age, so that the newest is the last."""
    return -age(process["pid"])


def executable(process: dict[str, Any]) -> dict[str, Any]:
    """Return whether a process runs the file that it was started by, and the one that a login finds by its name."""
    runs = os.stat(f"/proc/{process['pid']}/exe")

    def same(path: str | None) -> bool | None:
        if not path or not os.path.isabs(path) or not os.path.exists(path):
            return None
        status = os.stat(path)
        return (status.st_dev, status.st_ino) == (runs.st_dev, runs.st_ino)

    on_path = shutil.which(process["name"], path=PATH)
    return {"runs": process["executable"], "own": same(process["argv"][0]), "found": on_path, "same": same(on_path)}


def executables(running: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what each program runs, by its name; one that has ended meanwhile is left out."""
    executable_by_name = {}
    for process in running:
        with contextlib.suppress(OSError):
            executable_by_name[process["name"]] = executable(process)
    return executable_by_name


def listeners() -> list[list[Any]]:
    """Return [address, port, program] of the cluster's programs that listen on TCP; pods' own networks do not count."""
    sockets = []
    for line in (said(["ss", "-lntpH"]) or "").splitlines():
        match = LISTENER.match(line.strip())
        if match is None:
            continue
        for pid in sorted(set(PID.findall(match["users"]))):
            argv = (read(f"/proc/{pid}/cmdline") or "").split("\0")
            name = os.path.basename(argv[0].split(":")[0])
            if name in PROCESSES | PROXIES or "kubepods" in (read(f"/proc/{pid}/cgroup") or ""):
                sockets.append([match["address"].strip("[]"), int(match["port"]), name])
    return sockets


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: the folder `certificates` ("" where the product does not say).
    """
    running, folder = processes(), json.loads(argv[0])["certificates"]
    agents = [process for process in running if process["name"] in ("kubelet", "containerd", "crio")]
    # of a proxy the newest worker counts: a reload starts one
    readers = {
        process["name"]: process for process in [*agents, *of_units(running), *sorted(processes("haproxy"), key=by_age)]
    }
    release = (line.partition("=") for line in (read("/etc/os-release") or "").splitlines())
    report = {
        "files": {**files(running, folder), **places(running)},
        "written": written(running, folder),
        "newer": {name: newer_files(process) for name, process in readers.items()},
        "executables": executables(agents),
        "os_release": {
            key: value.strip("\"'") for key, _, value in release if key in ("ID", "VERSION_ID", "VERSION_CODENAME")
        },
        "listening": listeners(),
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
