#!/usr/bin/python
"""Ansible module: count an etcd's keys by resource at a revision, or prove that a snapshot restores to such counts.

A member counts from its index, which no file is read for. A snapshot is restored into a new data directory by etcdutl,
and a real etcd begins with it, whose sockets lie in a private folder. It is asked for each count, and for every key
with its value; both have to be what was counted in the cluster at that revision. Nothing of it is left afterwards.
"""

from __future__ import annotations

import base64
import ctypes
import http.client
import json
import mmap
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: etcd_keys
short_description: Count keys of etcd by resource at a revision, or prove a snapshot by such counts
description:
  - With I(etcdctl), returns `counts`, how many keys each resource has at I(revision), and `objects`, their sum.
  - With I(snapshot), restores it into an etcd that is thrown away, and fails where it differs from I(described).
options:
  etcdctl: {description: Command and options with which etcdctl asks a member., type: list, elements: str}
  revision: {description: Revision at which the member's keys are counted., type: int}
  snapshot: {description: File of a snapshot., type: path}
  described: {description: What was found out when it was taken; has revision hash and counts., type: dict}
  etcd: {description: Program that is started with the restored data., type: path}
  etcdutl: {description: Program that restores the snapshot., type: path}
  folder: {description: Folder for a new folder with the restored data., type: path}
  timeout: {description: Seconds until etcd has begun and for each of its answers., type: int, default: 60}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Count the keys of a member
  etcd_keys: {etcdctl: [etcdctl, --endpoints=127.0.0.1:2379], revision: 7}
"""

FILE = {"type": "path"}
PROVING = ("snapshot", "described", "etcd", "etcdutl", "folder")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "etcdctl": {"type": "list", "elements": "str"},
    "revision": {"type": "int"},
    "snapshot": FILE,
    "described": {"type": "dict"},
    "etcd": FILE,
    "etcdutl": FILE,
    "folder": FILE,
    "timeout": {"type": "int", "default": 60},
}
PAGE = 500  # keys of one answer; with values, of at most 1.5 MiB each
WITH_KIND = ("services",)  # resources of Kubernetes' own whose keys go on with a kind: services/specs, /endpoints
MOST_TOLD = 5  # differences in a message; the log has no more either
STOP_SECONDS = 10  # from SIGTERM to SIGKILL
ASKS, ASKS_NOBODY = b"authEnabled\x01", b"authEnabled\x00"  # a key of etcd's with its value, which follows it in a page
PARENT_DIES = 1  # PR_SET_PDEATHSIG of linux/prctl.h


class NotAsked(Exception):
    """etcd did not answer, or could not begin."""


class Differs(Exception):
    """A snapshot is not what was counted when it was taken, or no etcd begins with it."""


class SocketConnection(http.client.HTTPConnection):
    """HTTP at a socket of this machine."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to it."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Etcd:
    """An etcd at the other end of one connection, by the JSON that it speaks besides gRPC."""

    connection: http.client.HTTPConnection

    def ask(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return an answer."""
        try:
            self.connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
            response = self.connection.getresponse()
            content = response.read()
            answer = json.loads(content)
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.connection.close()
            raise NotAsked(f"etcd did not answer: {error}") from error
        if response.status != http.client.OK:
            said = answer.get("message") or answer.get("error") if isinstance(answer, dict) else None
            raise NotAsked(f"etcd refused to answer: {said or content[:200].decode(errors='replace')}")
        found: dict[str, Any] = answer
        return found

    def keys(self, revision: int) -> Iterator[bytes]:
        """Yield every key that there was at a revision; their values are sent as well."""
        first = b"\0"
        while True:
            request = {"key": text_of(first), "range_end": text_of(b"\0"), "limit": PAGE, "revision": revision}
            answer = self.ask("/v3/kv/range", request)
            page = [base64.b64decode(pair["key"]) for pair in answer.get("kvs") or ()]
            yield from page
            if not answer.get("more") or not page:
                return
            first = page[-1] + b"\0"

    def count(self, resource: str, revision: int) -> int:
        """Return how many keys a resource had at a revision, without reading them."""
        start = resource.encode("utf-8", "surrogateescape")
        end = start[:-1] + bytes([start[-1] + 1]) if resource.endswith("/") else start + b"\0"
        request = {"key": text_of(start), "range_end": text_of(end), "revision": revision, "count_only": True}
        return int(self.ask("/v3/kv/range", request).get("count", 0))


def text_of(key: bytes) -> str:
    """Return a key as JSON has it."""
    return base64.b64encode(key).decode()


def resource_of(key: bytes) -> str:
    """Return the beginning of the keys of a key's resource, which ends with a /; a key that has none is its own.

    Kubernetes has PREFIX/RESOURCE/..., and PREFIX/GROUP/RESOURCE/... for what a CustomResourceDefinition defines.
    """
    words = key.decode("utf-8", "surrogateescape").split("/")
    length = 4 if len(words) > 2 and ("." in words[2] or words[2] in WITH_KIND) else 3
    return "/".join(words[:length]) + "/" if len(words) > length else "/".join(words)


def counted(keys: Iterable[bytes]) -> dict[str, int]:
    """Return the number of keys of each resource."""
    counts: dict[str, int] = {}
    for key in keys:
        resource = resource_of(key)
        counts[resource] = counts.get(resource, 0) + 1
    return counts


def printable(counts: dict[str, int]) -> dict[str, int]:
    """Return counts by names that can be written."""
    names = {name: name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for name in counts}
    return {names[name]: counts[name] for name in sorted(counts)}


def differences(wanted: dict[str, int], found: dict[str, int], how: str) -> list[str]:
    """Return in which resources two counts differ; `how`: the second was found."""
    return [
        f"{name}: {found.get(name, 0)} {how}, {wanted.get(name, 0)} counted in the cluster"
        for name in sorted({*wanted, *found})
        if found.get(name, 0) != wanted.get(name, 0)
    ]


def of_member(given: dict[str, Any]) -> dict[str, Any]:
    """Return what a member has at a revision."""
    seconds, revision = given["timeout"], given["revision"]
    words = [f"--command-timeout={seconds}s", "--write-out=json", "get", "", "--prefix", "--keys-only"]
    try:
        answer = json.loads(called([*given["etcdctl"], *words, f"--rev={revision}"], seconds * 2))
    except Differs as error:
        raise NotAsked(f"at revision {revision}: {error}") from error
    counts = counted(base64.b64decode(pair["key"]) for pair in answer.get("kvs") or ())
    return {"counts": printable(counts), "objects": sum(counts.values())}


def called(argv: list[str], timeout: float) -> str:
    """Return what one of etcd's tools writes."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAsked(f"{argv[0]}: {error}") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Differs(f"{Path(argv[0]).name}: {lines[-1][:300] if lines else f'status {done.returncode}'}")
    return done.stdout


def prove(given: dict[str, Any]) -> dict[str, Any]:
    """Return what a snapshot has; leave nothing of the etcd that was made of it."""
    described, snapshot = given["described"], given["snapshot"]
    lacking = [name for name in ("revision", "hash", "counts") if described.get(name) is None]
    if lacking:
        raise Differs(f"nothing says the snapshot's {', '.join(lacking)}: it was taken by an earlier version")
    seconds = given["timeout"]
    patience = seconds * 10  # for files of GiB
    status = json.loads(called([given["etcdutl"], "--write-out=json", "snapshot", "status", snapshot], patience))
    for name in ("revision", "hash"):
        if str(status[name]) != str(described[name]):
            raise Differs(f"the snapshot has {name} {status[name]}, and had {described[name]} when it was taken")
    data = Path(given["folder"]) / "data"
    shutil.rmtree(data, ignore_errors=True)  # of a drill that was killed
    data.mkdir(mode=0o700, parents=True)
    sockets = Path(tempfile.mkdtemp(prefix="etcd-"))  # the path of a socket has at most 107 bytes
    try:
        target = data / "restored"
        called([given["etcdutl"], "snapshot", "restore", snapshot, f"--data-dir={target}"], patience)
        _let_in(target / "member/snap/db")
        return _compared(given, str(target), sockets, seconds)
    finally:
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)


def _let_in(database: Path) -> None:
    """Have the etcd of restored data ask nobody who he is, where it has users: only their cluster has certificates."""
    with database.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        while (place := content.find(ASKS)) >= 0:
            content[place : place + len(ASKS)] = ASKS_NOBODY


def _end_with_parent() -> None:
    """Have this process end with the module, also where that is killed."""
    ctypes.CDLL(None).prctl(PARENT_DIES, signal.SIGKILL)


def _compared(given: dict[str, Any], data: str, sockets: Path, seconds: float) -> dict[str, Any]:
    """Have an etcd begin with restored data; return what it has where that is what was counted."""
    client, log = sockets / "client", sockets / "log"
    words = [given["etcd"], f"--data-dir={data}", f"--listen-client-urls=unix://{client}"]
    words += ["--advertise-client-urls=http://localhost:1", f"--listen-peer-urls=unix://{sockets / 'peer'}"]
    with log.open("wb") as output:
        try:
            server = subprocess.Popen(words, stdout=output, stderr=output, preexec_fn=_end_with_parent)
        except OSError as error:
            raise NotAsked(f"{given['etcd']}: {error}") from error
    try:
        _begun(server, str(client), log, seconds)
        return _read(Etcd(SocketConnection(str(client), seconds)), given["described"])
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _begun(server: subprocess.Popen[bytes], client: str, log: Path, seconds: float) -> None:
    """Return once an etcd serves."""
    deadline = time.monotonic() + seconds
    while True:
        if server.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise Differs(f"no etcd begins with the restored data: {lines[-1][:400] if lines else 'it says nothing'}")
        connection = SocketConnection(client, seconds)
        try:
            connection.request("GET", "/health")
            if json.loads(connection.getresponse().read()).get("health") == "true":
                return
        except (OSError, ValueError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        if time.monotonic() > deadline:
            raise NotAsked(f"the etcd with the restored data does not serve after {seconds} s")
        time.sleep(0.2)


def _read(etcd: Etcd, described: dict[str, Any]) -> dict[str, Any]:
    """Return all that a restored etcd has; it is read whole, and each resource is counted by etcd itself."""
    revision = int(described["revision"])
    wanted = {str(name): int(number) for name, number in described["counts"].items()}
    try:
        read = counted(etcd.keys(revision))
        asked = {name: etcd.count(name, revision) for name in read}
    except NotAsked as error:
        raise Differs(f"the restored data cannot be read: {error}") from error
    wrong = differences(wanted, printable(read), "read") or differences(wanted, printable(asked), "in etcd's index")
    if wrong:
        more = f" and {len(wrong) - MOST_TOLD} more" if len(wrong) > MOST_TOLD else ""
        raise Differs(f"keys differ at revision {revision}: {'; '.join(wrong[:MOST_TOLD])}{more}")
    if described.get("objects", sum(read.values())) != sum(read.values()):
        raise Differs(f"{sum(read.values())} keys were read, and {described['objects']} counted in the cluster")
    return {"counts": printable(read), "objects": sum(read.values())}


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_one_of=[("etcdctl", "snapshot")],
        mutually_exclusive=[("etcdctl", "snapshot")],
        required_by={"etcdctl": ("revision",), "snapshot": PROVING[1:]},
    )
    given = module.params
    if module.check_mode:
        module.exit_json(changed=False, counts={}, objects=0)
    try:
        found = of_member(given) if given["etcdctl"] else prove(given)
    except Differs as error:
        module.fail_json(msg=f"the snapshot is not proven: {error}", blame="user")
    except (NotAsked, OSError, ValueError) as error:
        module.fail_json(msg=f"keys could not be counted: {error}")
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
