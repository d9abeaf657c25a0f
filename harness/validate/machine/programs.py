"""Prints the versions of a machine's running programs and the configuration that they have in effect.

Versions are those of the very file that each process runs. facts/programs.py reads the output.
"""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

from harness.validate.machine.library import (
    CRIO_SOCKET,
    DNS_SECONDS,
    client_of,
    flag,
    kube_proxy,
    output_of,
    own_api,
    parent,
    processes,
    read,
    said,
)

VERSION_FLAGS = {"coredns": "-version"}  # all others take --version
OTHERS = ("flanneld", "metrics-server")  # that tell their version, too
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CRIO_FILES = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*", "/etc/containers/registries.conf.d/*")
SHIM = "containerd-shim-runc-v2"
OF_A_MOMENT = ("start", "delete")  # what containerd runs a shim's program for, besides the shim itself
PINNED = 'labels."io.cri-containerd.pinned"==pinned'
FILE_VERSION = re.compile(r"^version\s*=\s*(\d+)", re.MULTILINE)
SERVERS = {  # how a proxy's file names its servers
    "haproxy": re.compile(r"^\s*server\s+(?P<name>\S+)\s+(?P<address>\S+)", re.MULTILINE),
    "nginx": re.compile(r"^\s*server\s+(?P<name>(?P<address>[^\s;{]+))\s*;", re.MULTILINE),
}
PTR, OPT, INTERNET = 12, 41, 1
RECURSE, CHECKING_DISABLED, DNSSEC_OK = 0x0100, 0x0010, 0x8000


def started(pid: int) -> float:
    """Return when a process started, in seconds since the epoch (proc_pid_stat(5), field 22); 0 when it has ended."""
    fields = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if not fields:
        return 0.0
    ticks = int(fields[19])
    booted = next(int(line.split()[1]) for line in (read("/proc/stat") or "").splitlines() if line.startswith("btime "))
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def programs() -> list[dict[str, Any]]:
    """Return what the file of each running process of PROCESSES and OTHERS prints as its version.

    A process that ended before it could be asked is left out.
    """
    answers = []
    for process in [*processes(), *processes(*OTHERS)]:
        executable = f"/proc/{process['pid']}/exe"
        text = said([executable, VERSION_FLAGS.get(process["name"], "--version")])
        if text or os.path.exists(executable):
            answers.append({"name": process["name"], "said": text})
    return answers


def api_version(said_ca: str) -> dict[str, Any] | None:
    """Return what this machine's own API server answers at /version, None where none runs; see `own_api`."""
    return own_api(said_ca, ("/version",), known_only=True).get("/version")


def hosts(file: str) -> list[list[str]]:
    """Return the lines of a file like /etc/hosts as words, without comments."""
    lines = (line.partition("#")[0].split() for line in (read(file) or "").splitlines())
    return [words for words in lines if words]


def proxy(file: str) -> dict[str, Any] | None:
    """Return the servers in the running proxy's file, when that changed, and when the newest process started.

    Args:
        file: of haproxy or nginx; "": that of a running haproxy.
    """
    for kind, pattern in SERVERS.items():
        running = processes(kind) or by_title(kind)  # the master, and a new worker after each reload
        own = next((p["argv"][p["argv"].index("-f") + 1] for p in running if "-f" in p["argv"]), "")
        path = file or own
        if not running or not path:
            continue
        servers = [[server["name"], server["address"]] for server in pattern.finditer(read(path) or "")]
        newest = max(started(p["pid"]) for p in running)
        return {"kind": kind, "servers": servers, "changed": changed(path), "started": newest}
    return None


def by_title(program: str) -> list[dict[str, Any]]:
    """Return the processes of a program that writes what it does into its command line, as nginx does."""
    entries = (entry for entry in os.listdir("/proc") if entry.isdigit())
    own = (entry for entry in entries if (read(f"/proc/{entry}/cmdline") or "").startswith(f"{program}: "))
    return [{"pid": int(entry), "argv": []} for entry in own]


def containerd() -> dict[str, Any] | None:
    """Return containerd's whole configuration (TOML), when its files changed, and when the process started."""
    for process in processes("containerd"):
        path = flag(process["argv"], "config") or flag(process["argv"], "c") or CONTAINERD_CONFIG
        files = [path, *glob.glob("/etc/containerd/conf.d/*.toml")]
        text = output_of([f"/proc/{process['pid']}/exe", "--config", path, "config", "dump"]) or ""
        report = {"config": text, "changed": max(map(changed, files)), "started": started(process["pid"])}
        written = FILE_VERSION.search(read(path) or "")
        usual = output_of([f"/proc/{process['pid']}/exe", "config", "default"]) or ""
        return {**report, "file_version": written.group(1) if written else "", "default": usual}
    return None


def crio() -> dict[str, Any] | None:
    """Return the configuration that CRI-O runs with (TOML), when its files changed, and when the process started."""
    for process in processes("crio"):
        files = [path for pattern in CRIO_FILES for path in glob.glob(pattern)]
        asked = [
            f"/proc/{process['pid']}/exe",
            "status",
            "--socket",
            flag(process["argv"], "listen") or CRIO_SOCKET,
            "config",
        ]
        text = output_of(asked) or ""  # one that does not answer has none of the settings that are wanted
        usual = output_of([f"/proc/{process['pid']}/exe", "config", "--default"]) or ""
        newest = max(map(changed, files), default=0.0)
        return {"config": text, "changed": newest, "started": started(process["pid"]), "default": usual}
    return None


def pinned() -> list[str] | None:
    """Return the names of the images that the container runtime never removes; None where nothing can tell."""
    for process in processes("containerd"):
        listed = output_of([*client_of(process), "images", "ls", "-q", PINNED])
        return None if listed is None else listed.splitlines()
    for process in processes("crio"):
        listed = output_of([*client_of(process), "images", "--output", "json"])
        every = json.loads(listed)["images"] if listed is not None else []
        return (
            None if listed is None else [name for image in every if image.get("pinned") for name in image["repoTags"]]
        )
    return None


def shims() -> list[dict[str, Any]]:
    """Return of each of containerd's shims, one a pod: its pod, what its file prints, its start, its children's number.

    What its file prints is the version of that very file, also where the file was replaced meanwhile.
    """
    running = [process for process in processes(SHIM) if process["argv"][-1] not in OF_A_MOMENT]
    parents = [parent(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()] if running else []
    told: dict[tuple[int, int], str] = {}
    rows = []
    for process in running:
        executable = f"/proc/{process['pid']}/exe"
        try:
            file = os.stat(executable)
        except OSError:  # it ended meanwhile
            continue
        if (file.st_dev, file.st_ino) not in told:
            told[file.st_dev, file.st_ino] = said([executable, "-v"]) or ""
        began, children = started(process["pid"]), parents.count(process["pid"])
        text = told[file.st_dev, file.st_ino]
        pod = (
            process["argv"][process["argv"].index("-id") + 1] if "-id" in process["argv"] else ""
        )  # Go's own flags: one dash
        rows.append({"pod": pod, "said": text, "started": began, "children": children})
    return rows


def changed(path: str) -> float:
    """Return when a file was last changed, in seconds since the epoch; now when it is gone."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return time.time()


def lifetime(server: str, address: str, port: int = 53) -> dict[str, Any]:
    """Ask a DNS server for an address's name, in each way that it caches separately; return the longest TTL.

    TTLs are in seconds. Those of cached answers shrink, so only the longest shows the configured one.
    """
    longest, error = 0, "no request was sent"
    for bits in (0, CHECKING_DISABLED):
        for secure in (0, DNSSEC_OK):
            number = secrets.randbelow(65536)
            name = b"".join(bytes([len(p)]) + p.encode() for p in [*reversed(address.split(".")), "in-addr", "arpa"])
            question = name + b"\0" + struct.pack(">HH", PTR, INTERNET)
            option = b"\0" + struct.pack(">HHHHH", OPT, 1232, 0, secure, 0)
            head = struct.pack(">HHHHHH", number, RECURSE | bits, 1, 0, 0, 1)
            try:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
                    link.settimeout(DNS_SECONDS)
                    link.sendto(head + question + option, (server, port))
                    answer = link.recv(4096)
            except OSError as failure:
                error = str(failure)
                continue
            identity, flags, _, answers = struct.unpack(">HHHH", answer[:8])
            if identity != number or not answers:
                error = f"no answer in the reply (code {flags & 15})"
                continue
            at = skip_name(answer, 12 + len(question))
            longest = max(longest, struct.unpack(">I", answer[at + 4 : at + 8])[0])
    return {"seconds": longest, "error": "" if longest else error}


def skip_name(message: bytes, at: int) -> int:
    """Return where a name of a DNS message ends."""
    while message[at]:
        if message[at] & 0xC0:
            return at + 2
        at += message[at] + 1
    return at + 1


def main(argv: Sequence[str]) -> None:
    """Gather everything and print it.

    Args:
        argv: one JSON object: `dns` (addresses of DNS servers to ask) and `address` (whose name to ask them for);
            the files `hosts`, `ca` (of the API server) and `proxy` ("" where the product does not say).
    """
    asked = json.loads(argv[0])
    running = {
        "programs": programs(),
        "api_version": api_version(asked["ca"]),
        "hosts": hosts(asked["hosts"] or "/etc/hosts"),
        "proxy": proxy(asked["proxy"]),
        "containerd": containerd(),
        "crio": crio(),
        "shims": shims(),
        "pinned": pinned(),
        "kube_proxy": kube_proxy("/configz"),
        "dns": {server: lifetime(server, asked["address"]) for server in asked["dns"]},
    }
    print(json.dumps(running))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
