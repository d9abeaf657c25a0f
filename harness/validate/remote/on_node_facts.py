"""Prints the facts of a guest's machine as one JSON object. facts/node.py reads them.

Of certificates only the CERTIFICATE blocks leave the machine.
"""

from __future__ import annotations

import base64
import glob
import json
import os
import re
import shutil
import socket
import ssl
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.validate.remote.on_node import fetch, flag, processes, read, said

COMMANDS = {
    "kubelet": ["kubelet", "--version"],
    "kubeadm": ["kubeadm", "version", "-o", "short"],
    "kubectl": ["kubectl", "version", "--client"],
    "containerd": ["containerd", "--version"],
    "runc": ["runc", "--version"],
}
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState"
SYSCTLS = ["net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables"]
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
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
EMBEDDED = re.compile(r"client-certificate-data:\s*(\S+)")


def listed(argv: Sequence[str]) -> list[dict[str, Any]]:
    """Return the JSON list that a command printed, an empty one when it printed none."""
    try:
        found = json.loads(said(argv) or "")
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def plugins() -> dict[str, str | None]:
    """Return what each CNI plugin says when it is run without a command (its name and version)."""
    found = sorted(p for p in glob.glob("/opt/cni/bin/*") if os.access(p, os.X_OK) and os.path.isfile(p))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda path: said([path]), found))
    return {os.path.basename(path): answers[place] for place, path in enumerate(found)}


def units(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return systemd's properties of each unit, by unit."""
    blocks = (said(["systemctl", "show", "--no-pager", "-p", UNIT_PROPERTIES, *names]) or "").split("\n\n")
    rows = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
    return {row["Id"]: row for row in rows if "Id" in row}


def failed_units() -> list[str]:
    """Return the names of the failed units."""
    rows = (said(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"]) or "").splitlines()
    return [row.split()[0] for row in rows if row.strip()]


def etcd(running: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Ask this machine's etcd over its gRPC gateway, with the certificates that it runs with; None where none runs."""
    argv = next((process["argv"] for process in running if process["name"] == "etcd"), None)
    if argv is None:
        return None
    urls = flag(argv, "listen-client-urls").split(",")
    base = next((u for u in urls if "127.0.0.1" in u), urls[0])
    context = None
    if base.startswith("https"):
        try:
            context = ssl.create_default_context(cafile=flag(argv, "trusted-ca-file"))
            context.load_cert_chain(flag(argv, "cert-file"), flag(argv, "key-file"))
        except (OSError, ValueError) as error:
            return {"error": str(error)}
    return {
        "health": fetch(base + "/health", None, context),
        "members": fetch(base + "/v3/cluster/member/list", {}, context),
        "status": fetch(base + "/v3/maintenance/status", {}, context),
        "alarms": fetch(base + "/v3/maintenance/alarm", {"action": "GET"}, context),
    }


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


def main(argv: Sequence[str]) -> None:
    """Print the facts.

    Args:
        argv: one JSON object: `units`, the names of the systemd units to report.
    """
    running = processes()
    disk = shutil.disk_usage("/")
    with ThreadPoolExecutor(4) as pool:
        asked = {name: pool.submit(said, argv) for name, argv in COMMANDS.items()}
        fetched = {name: pool.submit(fetch, url) for name, url in ENDPOINTS.items()}
    facts = {
        "time": time.time(),
        "hostname": socket.gethostname(),
        "machine_id": (read("/etc/machine-id") or "").strip(),
        "versions": {name: answer.result() for name, answer in asked.items()},
        "cni_plugins": plugins(),
        "units": units(json.loads(argv[0])["units"]),
        "system_state": said(["systemctl", "is-system-running"]),
        "failed_units": failed_units(),
        "processes": running,
        "sysctls": {name: (read("/proc/sys/" + name.replace(".", "/")) or "").strip() for name in SYSCTLS},
        "swaps": (read("/proc/swaps") or "").splitlines()[1:],
        "certificates": certificates(),
        "manifests": [os.path.basename(path) for path in glob.glob("/etc/kubernetes/manifests/*.yaml")],
        "disk_free": disk.free,
        "disk_total": disk.total,
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
    main(sys.argv[1:])
