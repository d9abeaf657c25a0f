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
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.validate.machine.library import (
    effective,
    fetch,
    flag,
    kube_proxy,
    of_loopback,
    processes,
    read,
    read_of,
    said,
    trusting,
)

COMMANDS = {
    "kubelet": ["kubelet", "--version"],
    "kubeadm": ["kubeadm", "version", "-o", "short"],
    "kubectl": ["kubectl", "version", "--client"],
    "containerd": ["containerd", "--version"],
    "crio": ["crio", "--version"],
    "runc": ["runc", "--version"],
}
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState"
ENDPOINTS = {
    "kube-proxy": "http://127.0.0.1:10256/healthz",
}
CERTIFICATE_FILES = [
    "/etc/kubernetes/pki/*.crt",
    "/etc/kubernetes/pki/etcd/*.crt",
    "/etc/kubernetes/*.conf",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/kubelet.crt",
    "/var/lib/kubelet/pki/kubelet-server-current.pem",
    "/etc/ssl/etcd/*.crt",
]
# Flags that name certificates, and those that name kubeconfigs with one in them or beside them.
CERTIFICATE_FLAGS = (
    *("tls-cert-file", "client-ca-file", "root-ca-file", "etcd-cafile", "etcd-certfile"),
    *("kubelet-client-certificate", "proxy-client-cert-file"),
    *("cert-file", "trusted-ca-file", "peer-cert-file", "peer-trusted-ca-file"),
)
KUBECONFIG_FLAGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
KUBELET, API_SERVER = "kubelet's client", "API server"  # whose certificate it is
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
EMBEDDED = re.compile(r"client-certificate-data:\s*(\S+)")
BESIDE = re.compile(r"client-certificate:\s*(\S+)")


def listed(argv: Sequence[str]) -> list[dict[str, Any]]:
    """Return the JSON list that a command printed, an empty one when it printed none."""
    try:
        listing = json.loads(said(argv) or "")
    except ValueError:
        return []
    return listing if isinstance(listing, list) else []


def plugins(folder: str) -> dict[str, str | None]:
    """Return what each CNI plugin says when it is run without a command (its name and version)."""
    paths = sorted(p for p in glob.glob(folder + "/*") if os.access(p, os.X_OK) and os.path.isfile(p))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda path: said([path]), paths))
    return {os.path.basename(path): answers[place] for place, path in enumerate(paths)}


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
    process = next((process for process in running if process["name"] == "etcd"), None)
    if process is None:
        return None
    urls = effective(process, "listen-client-urls").split(",")
    base = of_loopback(urls)
    context = None
    if base.startswith("https"):
        try:
            context = trusting(cadata=read_of(process["pid"], effective(process, "trusted-ca-file")) or "")
            context.load_cert_chain(effective(process, "cert-file"), effective(process, "key-file"))
        except (OSError, ValueError) as error:
            return {"error": str(error)}
    return {
        "health": fetch(base + "/health", None, context),
        "members": fetch(base + "/v3/cluster/member/list", {}, context),
        "status": fetch(base + "/v3/maintenance/status", {}, context),
        "alarms": fetch(base + "/v3/maintenance/alarm", {"action": "GET"}, context),
        "defragmentations": defragmentations(effective(process, "listen-metrics-urls") or base, context),
    }


def defragmentations(urls: str, context: Any) -> int | None:
    """Return how often a member was defragmented since it began, by the first of its metrics' URLs."""
    body = fetch(of_loopback(urls.split(",")) + "/metrics", None, context)["body"]
    line = re.search(r"^etcd_disk_backend_defrag_duration_seconds_count (\d+)$", body, re.M)
    return int(line[1]) if line else None


def certificates(running: Iterable[dict[str, Any]], folder: str) -> dict[str, str]:
    """Return the first certificate (the leaf) of each file that holds one; never a key.

    Files are those of known places, of the product's folder, and those that flags of running processes name.
    """
    patterns = [*CERTIFICATE_FILES, *([f"{folder}/*.crt", f"{folder}/etcd/*.crt"] if folder else [])]
    texts = {path: read(path) or "" for pattern in patterns for path in sorted(glob.glob(pattern))}
    for process in running:
        named = [effective(process, name) for name in CERTIFICATE_FLAGS]
        named += [beside(process, effective(process, name)) for name in KUBECONFIG_FLAGS]
        for path in filter(None, named):
            texts.setdefault(path, read_of(process["pid"], path) or "")
    pem_by_path = {}
    for path, text in texts.items():
        embedded = EMBEDDED.search(text)
        block = PEM.search(base64.b64decode(embedded.group(1)).decode(errors="replace") if embedded else text)
        if block:
            pem_by_path[path] = block.group(0)
    return pem_by_path


def beside(process: dict[str, Any], kubeconfig: str) -> str:
    """Return the file of the client certificate that a kubeconfig names: itself, when it holds one."""
    text = read_of(process["pid"], kubeconfig) or ""
    named = BESIDE.search(text)
    return named.group(1).strip("\"'") if named else kubeconfig if EMBEDDED.search(text) else ""


def whose(running: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the files of the certificates that kubelet and the API server use, by whose they are."""
    paths = {}
    for process in running:
        if process["name"] == "kubelet":
            paths[KUBELET] = beside(process, effective(process, "kubeconfig"))
        if process["name"] == "kube-apiserver":
            paths[API_SERVER] = effective(process, "tls-cert-file")
    return {name: path for name, path in paths.items() if path}


def kubelet_files(running: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return of the running kubelet's files: the folder of static pods, its health port, its API server and CA file."""
    process = next((process for process in running if process["name"] == "kubelet"), None)
    if process is None:
        return {}
    config = read(flag(process["argv"], "config")) or ""
    kubeconfig = flag(process["argv"], "kubeconfig")
    said_by = {
        "manifests": (config, "staticPodPath"),
        "healthz_port": (config, "healthzPort"),
        "server": (read(kubeconfig) or "", "server"),
        "ca": (read(kubeconfig) or "", "certificate-authority"),
    }
    matches = {
        name: re.search(rf"^\s*-?\s*{key}:\s*[\"']?([^\s\"']+)", text, re.M) for name, (text, key) in said_by.items()
    }
    return {"kubeconfig": kubeconfig, **{name: match.group(1) for name, match in matches.items() if match}}


def commands(running: Iterable[dict[str, Any]], tools: dict[str, str]) -> dict[str, list[str]]:
    """Return what tells each program's version: that of the file that runs, and of the tools at the product's paths."""
    files = {process["name"]: process["argv"][0] for process in running if process["argv"][0].startswith("/")}
    files = {**{name: path for name, path in files.items() if os.access(path, os.X_OK)}, **tools}
    return {name: [files.get(name, argv[0]), *argv[1:]] for name, argv in COMMANDS.items()}


def own_units(running: Iterable[dict[str, Any]]) -> list[str]:
    """Return the systemd units that running processes belong to."""
    units_of_processes = (
        re.findall(r"/([^/]+\.service)", process["cgroup"]) for process in running if process["name"] != "coredns"
    )
    return sorted(
        {*(names[-1] for names in units_of_processes if names), *(p["main_of"] for p in running if p["main_of"])}
    )


def with_units(running: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return processes, each with the unit of its name if it is that one's main process, "" else."""
    names = sorted({f"{process['name']}.service" for process in running})
    show = ["systemctl", "show", "--no-pager", "-p", "Id,MainPID", *names]
    blocks = (said(show) or "").split("\n\n") if names else []
    rows = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
    units = {row.get("MainPID", ""): row["Id"] for row in rows if "Id" in row}
    return [{**process, "main_of": units.get(str(process["pid"]), "")} for process in running]


def kernel_settings(names: Sequence[str]) -> dict[str, str]:
    """Return the values of kernel settings that exist, with single spaces, by their names; `*` stands for any part."""
    root = "/proc/sys/"
    paths = sorted({path for name in names for path in glob.glob(root + name.replace(".", "/"))})
    return {path[len(root) :].replace("/", "."): " ".join((read(path) or "").split()) for path in paths}


def disk() -> dict[str, int]:
    """Return the free and the total bytes of the root file system."""
    usage = shutil.disk_usage("/")
    return {"disk_free": usage.free, "disk_total": usage.total}


def main(argv: Sequence[str]) -> None:
    """Print the facts.

    Args:
        argv: one JSON object: `units`, the names of the systemd units to report; the folders `certificates`,
            `manifests` and `cni_plugins` ("" where the product does not say); `tools`, files by program;
            `environment_file` of etcd; `settings` of the kernel, by name.
    """
    options, began = json.loads(argv[0]), time.time()
    running = with_units(processes())
    kubelet = kubelet_files(running)
    folder = options["manifests"] or kubelet.get("manifests") or "/etc/kubernetes/manifests"
    endpoints = {"kubelet": f"http://127.0.0.1:{kubelet.get('healthz_port', '10248')}/healthz", **ENDPOINTS}
    with ThreadPoolExecutor(4) as pool:
        asked = {name: pool.submit(said, argv) for name, argv in commands(running, options["tools"]).items()}
        fetched = {name: pool.submit(fetch, url) for name, url in endpoints.items()}
        fetched["kube-proxy mode"] = pool.submit(kube_proxy, "/proxyMode")
    facts = {
        "began": began,
        "hostname": socket.gethostname(),
        "machine_id": (read("/etc/machine-id") or "").strip(),
        "versions": {name: answer.result() for name, answer in asked.items()},
        "cni_plugins": plugins(options["cni_plugins"] or "/opt/cni/bin"),
        "units": units(sorted({*options["units"], *own_units(running)})),
        "system_state": said(["systemctl", "is-system-running"]),
        "failed_units": failed_units(),
        "processes": running,
        "sysctls": kernel_settings(options["settings"]),
        "swaps": (read("/proc/swaps") or "").splitlines()[1:],
        "certificates": certificates(running, options["certificates"]),
        "whose_certificates": whose(running),
        # kubelet reads every file but hidden ones, whatever it is called
        "manifests": [os.path.basename(path) for path in glob.glob(folder + "/*") if os.path.isfile(path)],
        "kubelet": kubelet,
        "environment_file": read(options["environment_file"]) if options["environment_file"] else None,
        **disk(),
        # not by `list tables`: Debian 12's nft 1.0.6 crashes on what a newer one, kube-proxy's, has written
        "nft_tables": [
            line.removesuffix(" {")
            for line in (said(["nft", "list", "chains"]) or "").splitlines()
            if line.startswith("table ")
        ],
        "routes": listed(["ip", "-json", "-4", "route", "show"]),
        "ipv6_routes": listed(["ip", "-json", "-6", "route", "show"]),
        "links": listed(["ip", "-json", "-details", "link", "show"]),
        "endpoints": {name: answer.result() for name, answer in fetched.items()},
        "etcd": etcd(running),
    }
    print(json.dumps({**facts, "ended": time.time()}))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
