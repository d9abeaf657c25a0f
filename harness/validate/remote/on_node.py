"""Runs on a guest's machine with that machine's own Python (3.9 or newer), as root: prints its facts as one JSON text.

It is sent over SSH as text and imports nothing of vmatrix. It reads and never changes anything; private keys stay where
they are (only CERTIFICATE blocks leave the machine). What the facts mean is decided elsewhere, in facts.py.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMANDS = {
    "kubelet": ["kubelet", "--version"],
    "kubeadm": ["kubeadm", "version", "-o", "short"],
    "kubectl": ["kubectl", "version", "--client"],
    "containerd": ["containerd", "--version"],
    "runc": ["runc", "--version"],
}
UNITS = ["kubelet.service", "containerd.service"]  # and those that the caller names
PROCESSES = {
    "kubelet",
    "containerd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "etcd",
    "coredns",
}
SYSCTLS = [
    "net.ipv4.ip_forward",
    "net.bridge.bridge-nf-call-iptables",
    "kernel.panic",
    "vm.overcommit_memory",
]
ENDPOINTS = {
    "kubelet": "http://127.0.0.1:10248/healthz",
    "kube-proxy": "http://127.0.0.1:10256/healthz",
    "kube-proxy mode": "http://127.0.0.1:10249/proxyMode",
}
CERTIFICATE_FILES = [
    "/etc/kubernetes/pki/*.crt",
    "/etc/kubernetes/pki/etcd/*.crt",
    "/etc/kubernetes/*.conf",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/kubelet.crt",
    "/etc/ssl/etcd/*.crt",
]
MOUNTS = ["/", "/sys/fs/cgroup", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/containerd"]
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
EMBEDDED = re.compile(r"client-certificate-data:\s*(\S+)")
LISTENING = "0A"
COMMAND_SECONDS = 20
HTTP_SECONDS = 5


def said(argv: Sequence[str]) -> str | None:
    """Return what a command printed on both streams, None when it is not installed."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH, "LC_ALL": "C"},
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"
    return done.stdout.decode(errors="replace").strip()


def listed(argv: Sequence[str]) -> list[dict[str, Any]]:
    """Return the JSON list that a command printed, an empty one when it printed none."""
    try:
        found = json.loads(said(argv) or "")
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def read(path: str) -> str | None:
    """Return a file's text, None when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


def plugins() -> dict[str, str | None]:
    """Return what each CNI plugin says when it is run without a command (its name and version)."""
    found = sorted(p for p in glob.glob("/opt/cni/bin/*") if os.access(p, os.X_OK) and os.path.isfile(p))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda path: said([path]), found))
    return {os.path.basename(path): answers[place] for place, path in enumerate(found)}


def units(more: list[str]) -> dict[str, dict[str, str]]:
    """Return systemd's properties of each of UNITS and of `more`, by unit."""
    wanted = "Id,LoadState,ActiveState,SubState,UnitFileState,MainPID,NRestarts"
    blocks = (said(["systemctl", "show", "--no-pager", "-p", wanted, *UNITS, *more]) or "").split("\n\n")
    rows = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
    return {row["Id"]: row for row in rows if "Id" in row}


def failed_units() -> list[str]:
    """Return the names of the units that systemd holds to have failed."""
    rows = (said(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"]) or "").splitlines()
    return [row.split()[0] for row in rows if row.strip()]


def processes() -> list[dict[str, Any]]:
    """Return the running processes whose program is one of PROCESSES: what runs, not what is configured."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as handle:
                argv = handle.read().decode(errors="replace").rstrip("\0").split("\0")
            name = os.path.basename(argv[0])
            if name in PROCESSES:
                executable = os.readlink(f"/proc/{entry}/exe")
                found.append({"pid": int(entry), "name": name, "argv": argv, "executable": executable})
        except OSError:  # it ended meanwhile
            continue
    return found


def flag(argv: Sequence[str], name: str) -> str:
    """Return the value of --name=value or --name value."""
    for place, word in enumerate(argv):
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
        if word == f"--{name}" and place + 1 < len(argv):
            return argv[place + 1]
    return ""


def fetch(url: str, body: Any = None, context: ssl.SSLContext | None = None) -> dict[str, Any]:
    """Return {"status", "body"} of an HTTP request, status 0 with the reason when nobody answered."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data=data, timeout=HTTP_SECONDS, context=context) as answer:  # noqa: S310
            return {"status": answer.status, "body": answer.read().decode(errors="replace")}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode(errors="replace")}
    except (OSError, ValueError) as error:
        return {"status": 0, "body": str(error)}


def etcd(running: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Ask this machine's own etcd, by the certificates that it runs with, over its gRPC gateway."""
    for process in running:
        if process["name"] != "etcd":
            continue
        argv = process["argv"]
        urls = flag(argv, "listen-client-urls").split(",")
        base = next((u for u in urls if "127.0.0.1" in u), urls[0])
        context = None
        if base.startswith("https"):
            try:
                context = ssl.create_default_context(cafile=flag(argv, "trusted-ca-file"))
                context.load_cert_chain(flag(argv, "cert-file"), flag(argv, "key-file"))
            except (OSError, ValueError) as error:
                return {"endpoint": base, "error": str(error)}
        return {
            "endpoint": base,
            "name": flag(argv, "name"),
            "health": fetch(base + "/health", None, context),
            "members": fetch(base + "/v3/cluster/member/list", {}, context),
            "status": fetch(base + "/v3/maintenance/status", {}, context),
            "alarms": fetch(base + "/v3/maintenance/alarm", {"action": "GET"}, context),
        }
    return None


def certificates() -> dict[str, str]:
    """Return the first certificate (the leaf) of each file that holds one; never a key."""
    found = {}
    for pattern in CERTIFICATE_FILES:
        for path in sorted(glob.glob(pattern)):
            text = read(path) or ""
            embedded = EMBEDDED.search(text)
            if embedded:
                text = base64.b64decode(embedded.group(1)).decode(errors="replace")
            block = PEM.search(text)
            if block:
                found[path] = block.group(0)
    return found


def listening() -> list[str]:
    """Return the TCP addresses that are listened on, as address:port (IPv6's "any" address as *)."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (read(table) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) < 4 or fields[3] != LISTENING:
                continue
            address, port = fields[1].split(":")
            if len(address) == 8:
                address = socket.inet_ntoa(struct.pack("<I", int(address, 16)))
            elif set(address) == {"0"}:
                address = "*"
            found.add(f"{address}:{int(port, 16)}")
    return sorted(found)


def mounts() -> dict[str, str]:
    """Return the file system type of the mount points of interest."""
    rows = [line.split() for line in (read("/proc/self/mounts") or "").splitlines()]
    return {row[1]: row[2] for row in rows if len(row) > 2 and row[1] in MOUNTS}


def digests(pattern: str) -> dict[str, str]:
    """Return the SHA-256 of each file that matches."""
    found = {}
    for path in sorted(glob.glob(pattern)):
        with open(path, "rb") as handle:
            found[os.path.basename(path)] = hashlib.sha256(handle.read()).hexdigest()
    return found


def assignments(text: str | None) -> dict[str, str]:
    """Return the KEY=value lines of an os-release file."""
    pairs = (line.split("=", 1) for line in (text or "").splitlines() if "=" in line)
    return {key: value.strip('"') for key, value in pairs}


def main() -> None:
    """Gather everything and print it."""
    running = processes()
    with ThreadPoolExecutor(4) as pool:
        asked = {name: pool.submit(said, argv) for name, argv in COMMANDS.items()}
        fetched = {name: pool.submit(fetch, url) for name, url in ENDPOINTS.items()}
    disk = shutil.disk_usage("/")
    facts = {
        "time": time.time(),
        "hostname": socket.gethostname(),
        "machine_id": (read("/etc/machine-id") or "").strip(),
        "boot_id": (read("/proc/sys/kernel/random/boot_id") or "").strip(),
        "kernel": os.uname().release,
        "os_release": assignments(read("/etc/os-release")),
        "versions": {name: answer.result() for name, answer in asked.items()},
        "cni_plugins": plugins(),
        "units": units(sys.argv[1:]),
        "system_state": said(["systemctl", "is-system-running"]),
        "failed_units": failed_units(),
        "processes": running,
        "sysctls": {name: (read("/proc/sys/" + name.replace(".", "/")) or "").strip() for name in SYSCTLS},
        "swaps": (read("/proc/swaps") or "").splitlines()[1:],
        "certificates": certificates(),
        "manifests": digests("/etc/kubernetes/manifests/*.yaml"),
        "mounts": mounts(),
        "disk_free": disk.free,
        "disk_total": disk.total,
        "listening": listening(),
        # not by `list tables`: Debian 12's nft 1.0.6 crashes on what a newer one, kube-proxy's, has written
        "nft_tables": [
            line.removesuffix(" {")
            for line in (said(["nft", "list", "chains"]) or "").splitlines()
            if line.startswith("table ")
        ],
        "routes": listed(["ip", "-json", "-4", "route", "show"]),
        "links": listed(["ip", "-json", "-details", "link", "show"]),
        "endpoints": {name: answer.result() for name, answer in fetched.items()},
        "etcd": etcd(running),
    }
    print(json.dumps(facts))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main()
