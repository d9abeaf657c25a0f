"""Functions for the other programs of this folder, sent along with each of them.

These programs run on a guest's machine as root, with that machine's own Python (3.9 or newer), and import nothing else
of vmatrix. They read and never change anything, and private keys stay where they are.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROCESSES = {
    "kubelet",
    "containerd",
    "crio",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "etcd",
    "coredns",
}
CRIO_SOCKET = "/run/crio/crio.sock"
KUBE_PROXY_PORT = 10249
# matrix/timeouts.yml sets these in what hosts.py sends to a machine: machine_command, machine_request, machine_dns.
COMMAND_SECONDS = 20.0
HTTP_SECONDS = 5.0
DNS_SECONDS = 2.0
VERSION, REFUSED = "/version", 401
ADMIN = "/etc/kubernetes/admin.conf"
CREDENTIAL = re.compile(r"client-(certificate|key)-data: *(\S+)")


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


def output_of(argv: Sequence[str]) -> str | None:
    """Return a command's standard output, without what it warns of; None where it cannot be run or fails."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env={"PATH": PATH}, timeout=COMMAND_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def read(path: str) -> str | None:
    """Return a file's text, None when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


def processes(*names: str) -> list[dict[str, Any]]:
    """Return the running processes of these programs, without names of any of PROCESSES."""
    processes_of_names = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as handle:
                argv = handle.read().decode(errors="replace").rstrip("\0").split("\0")
            name = os.path.basename(argv[0])
            if name in (names or PROCESSES):
                executable = os.readlink(f"/proc/{entry}/exe")
                # one line with cgroup v2; with v1 a line per controller, of which some have none of their own
                lines = (read(f"/proc/{entry}/cgroup") or "").splitlines()
                group = max((line.split(":", 2)[-1] for line in lines), key=len, default="")
                process = {"pid": int(entry), "name": name, "argv": argv, "executable": executable, "cgroup": group}
                processes_of_names.append(
                    {**process, "parent": parent(int(entry)), "settings": settings(int(entry), name, argv)}
                )
        except OSError:  # it ended meanwhile
            continue
    return processes_of_names if names else without_forks(processes_of_names)


def client_of(runtime: dict[str, Any]) -> list[str]:
    """Return how the client of a running container runtime is called: ctr for containerd, crictl for CRI-O."""
    if runtime["name"] == "crio":
        return ["crictl", "--runtime-endpoint", f"unix://{flag(runtime['argv'], 'listen') or CRIO_SOCKET}"]
    address = flag(runtime["argv"], "address")
    return ["ctr", *(["--address", address] if address else []), "-n", "k8s.io"]


def parent(pid: int) -> int:
    """Return the process that a process was started by (proc_pid_stat(5), field 4); 0 when it has ended."""
    fields = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def without_forks(running: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out children of the same name: for a moment before it runs another program, a child looks like its parent.

    None of PROCESSES starts a second one of itself.
    """
    names = {process["pid"]: process["name"] for process in running}
    return [process for process in running if names.get(process["parent"]) != process["name"]]


def settings(pid: int, name: str, argv: Sequence[str]) -> dict[str, str]:
    """Return what a process takes from elsewhere than its flags, by the flags' names: etcd's environment or file."""
    if name == "kube-apiserver" and flag(argv, "authorization-config"):
        text = read_of(pid, flag(argv, "authorization-config")) or ""
        return {"authorization-mode": ",".join(re.findall(r"^\s*-?\s*type:\s*[\"']?(\w+)", text, re.MULTILINE))}
    if name != "etcd":
        return {}
    pairs = (entry.partition("=") for entry in (read(f"/proc/{pid}/environ") or "").split("\0"))
    environment = {
        n.removeprefix("ETCD_").replace("_", "-").lower(): value for n, _, value in pairs if n.startswith("ETCD_")
    }
    path = flag(argv, "config-file") or environment.get("config-file", "")
    return etcd_file(read_of(pid, path) or "") if path else environment


def etcd_file(text: str) -> dict[str, str]:
    """Return the settings of etcd's configuration file (YAML of two levels), by the names of its flags."""
    flags, prefix = {}, ""
    for line in text.splitlines():
        key, _, value = (part.strip().strip("\"'") for part in line.partition("#")[0].partition(": "))
        key = key.rstrip(":")
        if not key:
            continue
        if not line.startswith(" "):
            prefix = "peer-" if key == "peer-transport-security" else ""
        flags[prefix + key if line.startswith(" ") else key] = value
    return flags


def read_of(pid: int, path: str) -> str | None:
    """Return a file as a process sees it: on the machine, or in its own container."""
    text = read(path)
    return text if text is not None else read(f"/proc/{pid}/root{path}")


def age(pid: int) -> float:
    """Return for how many seconds a process has run (proc_pid_stat(5), field 22; proc_uptime(5))."""
    fields = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    uptime = float((read("/proc/uptime") or "0").split()[0])
    return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def effective(process: dict[str, Any], name: str) -> str:
    """Return the value of a setting: that of the flag, or what the process takes from elsewhere."""
    return flag(process["argv"], name) or process["settings"].get(name, "")


def flag(argv: Sequence[str], name: str) -> str:
    """Return the value of --name=value or --name value."""
    for place, word in enumerate(argv):
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
        if word == f"--{name}" and place + 1 < len(argv):
            return argv[place + 1]
    return ""


def trusting(*, cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """Return what trusts a CA (a file of PEM, or its text) as Kubernetes' own programs do.

    Python 3.13 and newer refuse by default what Go takes: a CA that openssl made without key usage. Older ones refuse a
    CA that another one has signed, without that. Raises OSError when there is no CA: the system's own would be trusted
    then.
    """
    if not cafile and not cadata:
        raise OSError("the file of the CA cannot be read")
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


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


def kube_proxy(path: str) -> dict[str, Any]:
    """Return what this machine's kube-proxy answers where it tells of itself: at the loopback address of its family."""
    first = fetch(f"http://127.0.0.1:{KUBE_PROXY_PORT}{path}")
    second = fetch(f"http://[::1]:{KUBE_PROXY_PORT}{path}") if not first["status"] else first
    return second if second["status"] else first


def in_url(host: str) -> str:
    """Return a host's name or address as URLs have it, an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def of_loopback(urls: Sequence[str]) -> str:
    """Return the first of the URLs that leads to this machine itself, else the first."""
    return next((url for url in urls if "127.0.0.1" in url or "[::1]" in url), urls[0]).strip()


def own_api(said_ca: str, paths: Sequence[str], *, known_only: bool = False) -> dict[str, dict[str, Any]]:
    """Return what this machine's own API server answers without credentials, by path; nothing where none runs.

    Args:
        said_ca: the file of its CA; "": the one that it takes clients' certificates of.
        known_only: ask for its version as somebody whom it knows where it tells strangers nothing.
    """
    for process in processes("kube-apiserver"):
        address = flag(process["argv"], "advertise-address") or "127.0.0.1"
        port, ca = flag(process["argv"], "secure-port") or "6443", said_ca or flag(process["argv"], "client-ca-file")
        try:
            context = trusting(cadata=read_of(process["pid"], ca) or "")
        except (OSError, ValueError) as error:
            return {path: {"status": 0, "body": f"{ca}: {error}"} for path in paths}
        base = f"https://{in_url(address)}:{port}"
        answers = {path: fetch(base + path, None, context) for path in paths}
        if known_only and answers.get(VERSION, {}).get("status") == REFUSED:
            answers[VERSION] = fetch(base + VERSION, None, known(process, context))
        return answers
    return {}


def known(process: dict[str, Any], context: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context with the certificate by which an API server's kubelets know it; as it is without one."""
    pair = [flag(process["argv"], f"kubelet-client-{part}") for part in ("certificate", "key")]
    with contextlib.suppress(OSError):
        context.load_cert_chain(*pair)
    return context


def admins(kubeconfig: str = ADMIN) -> ssl.SSLContext:
    """Return what asks as the admin, whose key is only copied in memory; it verifies nothing. Raises OSError."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    credentials = dict(CREDENTIAL.findall(read(kubeconfig) or ""))
    places = []
    for part in ("certificate", "key"):
        place = os.memfd_create(part)
        os.write(place, base64.b64decode(credentials.get(part, "")))
        places.append(place)
    try:
        context.load_cert_chain(*(f"/proc/self/fd/{place}" for place in places))
    finally:
        for place in places:
            os.close(place)
    return context
