"""Prints what a machine's listeners, files, audit log and etcd show of how hard it is to break into.

topics/hardening/facts.py reads it. It asks with the certificates that programs run with, which stay where they are;
of what etcd and the audit log hold, only what is asked for by name is told, and never a value.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import json
import os
import socket
import ssl
import stat
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from harness.validate.machine.library import (
    HTTP_SECONDS,
    admins,
    effective,
    fetch,
    flag,
    in_url,
    of_loopback,
    own_api,
    processes,
    read,
    read_of,
    trusting,
)

STRONG = "ECDHE+AESGCM"
OLD_SUITES = "ALL:@SECLEVEL=0"
# Without authenticated encryption, or without a fresh key for each connection
WEAK_SUITES = "ECDHE+AES+SHA1:ECDHE+AES+SHA256:kRSA+AES:@SECLEVEL=0"
V10, V11, V12, V13 = (getattr(ssl.TLSVersion, name) for name in ("TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3"))
OFFERS: dict[str, tuple[Any, Any, str]] = {
    "old": (V10, V11, OLD_SUITES),
    "weak": (V12, V12, WEAK_SUITES),
    "strong": (V12, V12, STRONG),
    "new": (V13, V13, STRONG),
}
TAIL = 16 << 20  # bytes of an audit log that are looked at
SEALED = b"k8s:enc:"  # how the API server begins what it has encrypted (k8s.io/apiserver, encryptionconfig)
TRIES, PAUSE = 20, 0.1
PROFILE = "/debug/pprof/"  # the index: not every program has each of them
SILENCE = 2.0  # seconds after which a listener that says nothing has accepted


def handshake(
    address: str, port: int, offer: tuple[Any, Any, str], pair: Sequence[str] = (), *, wait: bool = False
) -> list[str]:
    """Offer versions and cipher suites to a listener; return [accepted, refused or failed, what was said].

    Args:
        pair: files of a client's certificate and key.
        wait: whether to wait for an alert: with TLS 1.3, a client without a certificate gets it after the handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.set_ciphers(offer[2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that nobody should offer old versions is known
            context.minimum_version, context.maximum_version = offer[0], offer[1]
        if pair:
            context.load_cert_chain(*pair)
        with (
            socket.create_connection((address, port), timeout=HTTP_SECONDS) as link,
            context.wrap_socket(link) as wrapped,
        ):
            if wait:
                wrapped.settimeout(SILENCE)
                with contextlib.suppress(TimeoutError):  # it waits for what the client has to say
                    wrapped.recv(1)
            return ["accepted", f"{wrapped.version()} {(wrapped.cipher() or ('',))[0]}"]
    except ssl.SSLError as error:  # an alert is what the listener says; everything else is of this machine
        reason = error.reason or str(error)
        return ["refused" if "ALERT" in reason else "failed", reason]
    except (OSError, ValueError) as error:
        return ["failed", str(error)]


def listeners(running: Mapping[str, dict[str, Any]], address: str) -> dict[str, Any]:
    """Return what each program of this machine that serves TLS accepts, by program and port."""
    known: dict[str, tuple[str, int, list[str]]] = {}
    if "kube-apiserver" in running:
        known["kube-apiserver 6443"] = (address, 6443, [])
    if "kube-controller-manager" in running:
        known["kube-controller-manager 10257"] = ("127.0.0.1", 10257, [])
    if "kube-scheduler" in running:
        known["kube-scheduler 10259"] = ("127.0.0.1", 10259, [])
    if "kubelet" in running:
        known["kubelet 10250"] = (address, 10250, [])
    if "etcd" in running:
        for port, prefix in ((2379, ""), (2380, "peer-")):
            pair = [effective(running["etcd"], f"{prefix}{part}-file") for part in ("cert", "key")]
            known[f"etcd {port}"] = (address, port, pair)
    return {
        name: {kind: handshake(*place[:2], offer, place[2]) for kind, offer in OFFERS.items()}
        for name, place in known.items()
    }


def etcd_strangers(running: Mapping[str, dict[str, Any]], address: str) -> dict[str, list[str]]:
    """Return what etcd's ports say to a client without a certificate."""
    if "etcd" not in running:
        return {}
    offer = (V12, V13, STRONG)
    return {f"etcd {port}": handshake(address, port, offer, wait=True) for port in (2379, 2380)}


def profiles(running: Mapping[str, dict[str, Any]], address: str) -> dict[str, int]:
    """Return the status with which programs of the control plane answer an admin who asks for a profile."""
    if "kube-apiserver" not in running:
        return {}
    places = {
        "kube-apiserver": f"https://{in_url(address)}:6443",
        "kube-controller-manager": "https://127.0.0.1:10257",
        "kube-scheduler": "https://127.0.0.1:10259",
    }
    context = admins()
    return {name: fetch(url + PROFILE, None, context)["status"] for name, url in places.items() if name in running}


def kubelet(running: Mapping[str, dict[str, Any]], address: str, ca: str) -> dict[str, Any]:
    """Return what the kubelet says to strangers, and whether the CA signed what it serves with; {} where none runs."""
    if "kubelet" not in running:
        return {}
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    try:
        trust = trusting(cafile=ca)
        with (
            socket.create_connection((address, 10250), timeout=HTTP_SECONDS) as link,
            trust.wrap_socket(link, server_hostname=address),
        ):
            signed = ""
    except (OSError, ValueError) as error:
        signed = str(error)
    try:
        socket.create_connection((address, 10255), timeout=HTTP_SECONDS).close()
        read_only = True
    except OSError:
        read_only = False
    paths = ("/pods", "/metrics", "/configz")
    asked = {path: fetch(f"https://{in_url(address)}:10250{path}", None, anyone)["status"] for path in paths}
    return {"strangers": asked, "unsigned": signed, "read_only": read_only}


def rights(patterns: Mapping[str, Sequence[str]]) -> dict[str, dict[str, list[int]]]:
    """Return permissions, owner and group of the files that patterns match, by the name of the patterns."""
    rights_by_name: dict[str, dict[str, list[int]]] = {}
    for name, globs in patterns.items():
        rights_by_name[name] = {}
        for path in sorted({path for pattern in globs for path in glob.glob(pattern, recursive=True)}):
            status = os.stat(path)
            rights_by_name[name][path.rstrip("/")] = [stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid]
    return rights_by_name


def stored(running: Mapping[str, dict[str, Any]], marker: str) -> dict[str, Any] | None:
    """Return how etcd begins each Secret, and where the marker is to be read; None where no etcd runs."""
    if "etcd" not in running:
        return None
    process = running["etcd"]
    urls = effective(process, "listen-client-urls").split(",")
    base = of_loopback(urls)
    context = trusting(cadata=read_of(process["pid"], effective(process, "trusted-ca-file")) or "")
    context.load_cert_chain(effective(process, "cert-file"), effective(process, "key-file"))
    ends = [base64.b64encode(word).decode() for word in (b"/registry/secrets/", b"/registry/secrets0")]
    answer = fetch(f"{base}/v3/kv/range", {"key": ends[0], "range_end": ends[1]}, context)
    if answer["status"] != 200:
        return {"error": f"{answer['status']}: {answer['body'][:200]}"}
    sealed, shown = {}, []
    for pair in json.loads(answer["body"]).get("kvs", []):
        key, value = (base64.b64decode(pair.get(part, "")) for part in ("key", "value"))
        parts = value.split(b":", 5)
        sealed[key.decode()] = b":".join(parts[2:5]).decode("ascii", "replace") if value.startswith(SEALED) else ""
        if marker.encode() in value:
            shown.append(key.decode())
    return {"sealed": sealed, "shown": shown}


def tail_of(path: str) -> list[bytes]:
    """Return the last whole lines of a log, none where there is no such file."""
    if not path or not os.path.exists(path):
        return []
    with open(path, "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - TAIL))
        return log.read().rpartition(b"\n")[0].splitlines()[1 if log.tell() > TAIL else 0 :]


def audited(running: Mapping[str, dict[str, Any]], address: str, name: str, marker: str) -> dict[str, Any] | None:
    """Ask this machine's API server for a Secret of that name, and return what its audit log has of it.

    None where no API server runs. `leaked`: how many lines have the marker, or the marker as a Secret has it.
    """
    if "kube-apiserver" not in running:
        return None
    path = flag(running["kube-apiserver"]["argv"], "audit-log-path")
    url = f"https://{in_url(address)}:6443/api/v1/namespaces/default/secrets/{name}"
    status = fetch(url, None, admins())["status"]
    for _ in range(TRIES):  # an event is written just after its answer
        lines = tail_of(path)
        events = [json.loads(line) for line in lines if f'"{name}"'.encode() in line]
        if any(event.get("stage") == "ResponseComplete" for event in events):
            break
        time.sleep(PAUSE)
    words = (marker.encode(), base64.b64encode(marker.encode()))
    return {
        "path": path,
        "status": status,
        "events": [[e.get("level"), e.get("stage"), e.get("verb"), e.get("user", {}).get("username")] for e in events],
        "leaked": sum(any(word in line for word in words) for line in lines),
    }


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: the machine's `address`, the file `ca` of the cluster, `files` (patterns by name),
            `strangers` (paths of the API), a `marker` that is in a Secret, and a `name` that no Secret has.
    """
    options = json.loads(argv[0])
    running = {process["name"]: process for process in processes()}
    address, marker = options["address"], options["marker"]
    report = {
        "listeners": listeners(running, address),
        "etcd_strangers": etcd_strangers(running, address),
        "profiles": profiles(running, address),
        "kubelet": kubelet(running, address, options["ca"]),
        "rights": rights(options["files"]),
        "strangers": {path: answer["status"] for path, answer in own_api(options["ca"], options["strangers"]).items()},
        "stored": stored(running, marker),
        "audited": audited(running, address, options["name"], marker),
        "status": read("/proc/1/status") or "",
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
