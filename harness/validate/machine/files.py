"""Prints of a guest's machine who may use which files, what is older than its files, who listens, and what boots.

facts/files.py reads it. No content of a file leaves the machine, only whether there is a private key in it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Sequence
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
# What programs of the cluster write while they run.
WRITTEN = ["/var/lib/kubelet", "/var/lib/containerd", "/var/lib/containers", "/var/lib/cni", "/var/log", "/run"]
SECRET = re.compile(r"PRIVATE KEY-----|client-key-data:|^\s*token:", re.MULTILINE)
PROXIES = {"haproxy", "nginx"}
CRIO = (
    "/etc/crio/crio.conf",
    "/etc/crio/crio.conf.d/*",
    "/etc/crio/policy.json",
    "/etc/containers/registries.conf.d/*",
)
CONTAINERD = ("/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml")
SETTINGS = (
    "net.ipv4.ip_forward",
    "net.bridge.bridge-nf-call-iptables",
    "net.ipv6.conf.all.forwarding",
    "net.bridge.bridge-nf-call-ip6tables",
)
RELEASE = ("ID", "VERSION_ID", "VERSION_CODENAME")
LISTENER = re.compile(r"^\S+\s+\S+\s+\S+\s+(?P<address>\S+):(?P<port>\d+)\s+\S+(?P<users>.*)$")
PID = re.compile(r"pid=(\d+)")


def files(running: Iterable[dict[str, Any]], folder: str) -> dict[str, list[Any]]:
    """Return kind, permissions, owner, group and whether there is a private key, of every file of the cluster."""
    patterns = [*FILES, *([f"{folder}/**"] if folder else [])]
    for process in running:
        if process["name"] == "etcd":
            data = effective(process, "data-dir")
            patterns += [data, f"{data}/member"] if data else []
        if process["name"] == "kubelet":
            patterns += filter(None, [flag(process["argv"], "config"), flag(process["argv"], "kubeconfig")])
    found = {}
    for path in {one for pattern in patterns for one in glob.glob(pattern, recursive=True)}:
        try:
            seen = os.lstat(path)
        except OSError:  # it is gone meanwhile
            continue
        if stat.S_ISLNK(seen.st_mode) or (stat.S_ISDIR(seen.st_mode) and "etcd" not in path):
            continue
        secret = stat.S_ISREG(seen.st_mode) and bool(SECRET.search(read(path) or ""))
        kind = "folder" if stat.S_ISDIR(seen.st_mode) else "socket" if stat.S_ISSOCK(seen.st_mode) else "file"
        found[path.rstrip("/")] = [kind, stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, secret]
    return found


def places(running: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return kind and rights, as `files` does, of programs that run as root, of their units and folders."""
    paths = {one for pattern in PLACES for one in glob.glob(pattern)}
    for process in running:
        if process["name"] in ("kubelet", "containerd", "crio", "etcd"):
            paths.add(process["executable"])
        if process["name"] == "kubelet":
            config = read(flag(process["argv"], "config")) or ""
            paths |= set(re.findall(r"^staticPodPath:\s*[\"']?(/[^\s\"']+)", config, re.MULTILINE))
    found = {}
    for path in paths:
        try:
            seen = os.stat(path)
        except OSError:  # it is gone meanwhile
            continue
        if not stat.S_ISREG(seen.st_mode) and not stat.S_ISDIR(seen.st_mode):  # a unit that is masked
            continue
        found[path] = ["place", stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, False]
    return found


def written(running: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return of each folder that programs write: whether it is read-only, and the free shares of space and files."""
    data = [effective(process, "data-dir") for process in running if process["name"] == "etcd"]
    found = {}
    for path in filter(os.path.isdir, [*WRITTEN, *data]):
        seen = os.statvfs(path)
        shares = [
            seen.f_bavail / seen.f_blocks if seen.f_blocks else 1.0,
            seen.f_favail / seen.f_files if seen.f_files else 1.0,
        ]
        found[path] = [bool(seen.f_flag & os.ST_RDONLY), *shares]
    return found


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
    started, found = time.time() - age(process["pid"]), {}
    for name in names:
        if os.path.exists(name):
            found[name] = os.stat(name).st_mtime - started
    return found


def of_units(running: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the processes of an etcd that is no pod."""
    return [one for one in running if one["name"] == "etcd" and one["cgroup"].endswith(".service")]


def by_age(process: dict[str, Any]) -> float:
    """Return the opposite of a process's age, so that the newest is the last."""
    return -age(process["pid"])


def executable(process: dict[str, Any]) -> dict[str, Any]:
    """Return whether a process runs the file that it was started by, and the one that a login finds by its name."""
    runs = os.stat(f"/proc/{process['pid']}/exe")

    def same(path: str | None) -> bool | None:
        if not path or not os.path.isabs(path) or not os.path.exists(path):
            return None
        seen = os.stat(path)
        return (seen.st_dev, seen.st_ino) == (runs.st_dev, runs.st_ino)

    found = shutil.which(process["name"], path=PATH)
    return {"runs": process["executable"], "own": same(process["argv"][0]), "found": found, "same": same(found)}


def executables(running: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what each program runs, by its name; one that has ended meanwhile is left out."""
    found = {}
    for process in running:
        with contextlib.suppress(OSError):
            found[process["name"]] = executable(process)
    return found


def listeners() -> list[list[Any]]:
    """Return [address, port, program] of the cluster's programs that listen on TCP; pods' own networks do not count."""
    found = []
    for line in (said(["ss", "-lntpH"]) or "").splitlines():
        match = LISTENER.match(line.strip())
        if match is None:
            continue
        for pid in sorted(set(PID.findall(match["users"]))):
            argv = (read(f"/proc/{pid}/cmdline") or "").split("\0")
            name = os.path.basename(argv[0].split(":")[0])
            if name in PROCESSES | PROXIES or "kubepods" in (read(f"/proc/{pid}/cgroup") or ""):
                found.append([match["address"].strip("[]"), int(match["port"]), name])
    return found


def at_boot() -> dict[str, Any]:
    """Return what the next start of the machine sets: kernel settings, modules, swap."""
    text = said(["systemd-analyze", "cat-config", "sysctl.d"]) or ""
    pairs = (line.lstrip("-").partition("=") for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    given = {key.strip().replace("/", "."): value.strip() for key, _, value in pairs}
    folders = ("/etc/modules-load.d/*.conf", "/run/modules-load.d/*.conf", "/usr/lib/modules-load.d/*.conf")
    texts = [read(path) or "" for folder in folders for path in glob.glob(folder)]
    lines = [line.strip() for one in texts for line in one.splitlines()]
    fstab = [line.split() for line in (read("/etc/fstab") or "").splitlines() if not line.lstrip().startswith("#")]
    units = [os.path.basename(path) for path in glob.glob("/etc/systemd/system/*.wants/*.swap")]
    swaps = units + [words[0] for words in fstab if len(words) > 3 and words[2] == "swap" and "noauto" not in words[3]]
    masked = said(["systemctl", "is-enabled", "swap.target"]) == "masked"
    return {
        "settings": {name: given.get(name, "") for name in SETTINGS},
        "modules": sorted({line for line in lines if line and line[0] not in "#;"}),
        "swaps": [] if masked else swaps,
        "target": said(["systemctl", "get-default"]) or "",
        "hostname": (read("/etc/hostname") or "").strip(),
    }


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: the folder `certificates` ("" where the product does not say).
    """
    running = processes()
    agents = [process for process in running if process["name"] in ("kubelet", "containerd", "crio")]
    # of a proxy the newest worker counts: a reload starts one
    readers = {one["name"]: one for one in [*agents, *of_units(running), *sorted(processes("haproxy"), key=by_age)]}
    release = (line.partition("=") for line in (read("/etc/os-release") or "").splitlines())
    seen = {
        "files": {**places(running), **files(running, json.loads(argv[0])["certificates"])},
        "written": written(running),
        "newer": {name: newer_files(process) for name, process in readers.items()},
        "executables": executables(agents),
        "os_release": {
            key: value.strip("\"'") for key, _, value in release if key in ("ID", "VERSION_ID", "VERSION_CODENAME")
        },
        "listening": listeners(),
        "at_boot": at_boot(),
    }
    print(json.dumps(seen))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
