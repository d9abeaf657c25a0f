"""Kubelet API: logs of launcher pods and the Summary of what this host and its machines take.

Covers `GET /containerLogs/NAMESPACE/POD/CONTAINER` with `tailLines` and `follow`, which the API server asks for
`pods/log`: a launcher's log is its guest's console. The console goes with the machine: a finished pod has no log
any more, and one that is followed ends. Exec, attach and port-forward are not served.

`GET /stats/summary` has the memory of the node and, for each launcher pod, the memory of its machine and the blocks
of its claims' disks. Processor time, network and images are left out.
https://kubernetes.io/docs/reference/instrumentation/node-metrics/
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from harness import memory
from harness.embedded.context import Context
from harness.embedded.machines.cgroups import Memory
from harness.embedded.machines.disk import disk_bytes
from harness.embedded.node.guests import Guests
from harness.embedded.node.kubelet import instance_uid, is_launcher
from harness.embedded.vm.instance import claim_name
from harness.embedded.vmi import status
from harness.embedded.vmi.launcher import is_consumer
from harness.kube import serving
from harness.kube.client import Json
from harness.kube.objects import now
from harness.kube.resources import POD, PV, PVC, VMI
from harness.kube.serving import AnsweringHandler, HttpsServer

MIB = 2**20
FRESH_SECONDS = 1.0  # pacing: a look reads a few files for each machine
PORT = 10250  # a kubelet's, and what the API server dials when the Node names no other
CONSOLE_CONTAINER = "guest-console-log"
TAIL_CHUNK = 1 << 20  # bytes from a console's end that `tailLines` looks at
LOOK_SECONDS = 0.3  # between looks at a console that is followed: what a person takes for at once
# (namespace, pod) -> the file with its guest's console, None when there is none
Console = Callable[[str, str], Path | None]
SUMMARY = ["stats", "summary"]


def serve(host: str, pki: Path, console: Console, summary: Callable[[], Json]) -> HttpsServer:
    """Serve on a daemon thread; callers need a client certificate of the instance's CA.

    Args:
        summary: says what the node and its pods take.

    Raises:
        InfraError: the port is taken.
    """
    server = serving.listen(
        (host, PORT),
        partial(LogHandler, console, summary),
        certificate=pki / "webhook.crt",
        key=pki / "webhook.key",
        clients=pki / "ca.crt",
        what="the server of machines' logs",
    )
    threading.Thread(target=server.serve_forever, name="kubelet-logs", daemon=True).start()
    return server


class LogHandler(AnsweringHandler):
    """Answers with consoles as a kubelet does with containers' logs, and with its Summary."""

    def __init__(self, console: Console, summary: Callable[[], Json], *connection: Any) -> None:
        self._console = console
        self._summary = summary
        super().__init__(*connection)

    def do_GET(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer with a launcher's log, or with what pods take."""
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        if words == SUMMARY:
            self.answer(200, json.dumps(self._summary()).encode(), "application/json")
            return
        if len(words) != 4 or words[0] != "containerLogs":
            self.answer(404, b"only containerLogs and stats/summary are served here\n", "text/plain")
            return
        if words[3] != CONSOLE_CONTAINER:  # nothing runs in a launcher's other containers here
            self.answer(200, b"", "text/plain")
            return
        found = self._console(words[1], words[2])
        if found is None or not found.is_file():
            self.answer(404, f"pod {words[1]}/{words[2]} has no log here\n".encode(), "text/plain")
            return
        query = parse_qs(parts.query)
        wanted = query.get("tailLines")
        lines = int(wanted[0]) if wanted else None
        if query.get("follow") == ["true"]:
            self._follow(found, lines)
            return
        try:
            self.answer(200, tail(found, lines), "text/plain")
        except OSError as error:
            self.answer(500, f"{error}\n".encode(), "text/plain")

    def _follow(self, console: Path, lines: int | None) -> None:
        """Send a console in chunks as it grows."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        with suppress(FileNotFoundError):  # it has just gone
            for part in growth(console, lines, self._listening):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _listening(self, seconds: float) -> bool:
        """Wait; tell whether the client is still there. It says nothing while it is answered, but for its end."""
        return not select.select([self.connection], [], [], seconds)[0]


def tail(console: Path, lines: int | None) -> bytes:
    """Return the last `lines` lines of a file (of its last MiB), or all of it."""
    with console.open("rb") as handle:
        _to_last(handle, lines)
        return handle.read()


def growth(console: Path, lines: int | None, listening: Callable[[float], bool]) -> Iterator[bytes]:
    """Yield the last lines of a file, and what comes to it, until it is gone or nobody listens.

    Args:
        listening: waits as many seconds as it is told; False as soon as nobody listens any more.
    """
    with console.open("rb") as handle:
        _to_last(handle, lines)
        while True:
            gone = not console.exists()  # asked before the last look, which sees all of it then
            if os.fstat(handle.fileno()).st_size < handle.tell():
                handle.seek(0)  # another boot began the file anew
            if part := handle.read(TAIL_CHUNK):
                yield part
            elif gone or not listening(LOOK_SECONDS):
                return


def _to_last(handle: BinaryIO, lines: int | None) -> None:
    """Go to where the last `lines` lines of a file begin."""
    if lines is None:
        return
    end = handle.seek(0, os.SEEK_END)
    handle.seek(max(0, end - TAIL_CHUNK))
    wanted = handle.read(end - handle.tell()).splitlines(keepends=True)[-lines:] if lines else []
    handle.seek(end - sum(map(len, wanted)))


class Stats:
    """Looks at this host's machines when it is asked to."""

    def __init__(self, context: Context, guests: Guests) -> None:
        self._context = context
        self._guests = guests
        self._pods = context.informers.of(POD)
        self._vmis = context.informers.of(VMI)
        self._claims = context.informers.of(PVC)
        self._volumes = context.informers.of(PV)
        self._lock = threading.Lock()
        self._known: tuple[float, Json] | None = None

    def summary(self) -> Json:
        """Return the Summary as it is now, or was a moment ago: each cell of a run asks for all of them."""
        with self._lock:
            moment = time.monotonic()
            if self._known is None or moment - self._known[0] >= FRESH_SECONDS:
                self._known = moment, self._looked()
            return self._known[1]

    def _looked(self) -> Json:
        launchers = (pod for pod in self._pods.list() if is_launcher(pod) and not is_consumer(pod))
        here = (pod for pod in launchers if pod["spec"].get("nodeName") == self._context.node)
        return document(self._context.node, memory.memory_available_mib() * MIB, map(self._pod, here))

    def _pod(self, pod: Json) -> Json:
        meta = pod["metadata"]
        found = self._guests.memory(instance_uid(pod))
        vmis = self._vmis.list(meta["namespace"])
        spec: Json = next((vmi["spec"] for vmi in vmis if vmi["metadata"]["uid"] == instance_uid(pod)), {})
        disks = {
            str(volume["name"]): (name, size)
            for volume in spec.get("volumes") or []
            if (name := claim_name(volume)) and (size := self._disk(volume, meta["namespace"])) is not None
        }
        return of_pod(meta, found, disks)

    def _disk(self, volume: Json, namespace: str) -> int | None:
        claim, found = partial(self._claims.get, namespace), partial(self._volumes.get, "")
        try:
            file: Path = status.disk_file(volume, claim, found, self._context.disks)
        except status.Unbootable:
            return None
        return disk_bytes(file)


def document(node: str, available: int, pods: Iterable[Json]) -> Json:
    """Return the Summary of a node with so many bytes of memory available."""
    memory_stats = {"time": now(), "availableBytes": available}
    return {"node": {"nodeName": node, "memory": memory_stats}, "pods": list(pods)}


def of_pod(meta: Json, memory_found: Memory | None, disks: dict[str, tuple[str, int]]) -> Json:
    """Return a pod's part. `disks`: of its volumes by name, the claim and the bytes that its disk takes."""
    reference = {key: str(meta[key]) for key in ("name", "namespace", "uid")}
    told: Json = {"podRef": reference, "startTime": str(meta["creationTimestamp"])}
    if memory_found is not None:
        told["memory"] = {
            "time": now(),
            "usageBytes": memory_found.usage,
            "workingSetBytes": memory_found.working_set,
            "rssBytes": memory_found.kept,  # with the kernel's own for it, which a kubelet leaves out
        }
    told["volume"] = [
        {"name": name, "usedBytes": size, "pvcRef": {"name": claim, "namespace": reference["namespace"]}}
        for name, (claim, size) in disks.items()
    ]
    return told
