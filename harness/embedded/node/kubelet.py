"""Kubelet: run this host's launcher pods, end each after its machine, serve their logs and usage, collect garbage.

A foreign pod is one on this host's Node that is neither a machine's nor CDI's. The scheduler may bind any pod to
the Node that stands for this host, as long as that has no taint. On kind, under load, it was the one of CoreDNS
that its Deployment was about to replace. Nothing of it runs, and only a node's kubelet lets a bound pod go; without
one it would be deleted for ever.

Covers `GET /containerLogs/NAMESPACE/POD/CONTAINER` with `tailLines` and `follow`, which the API server asks for
`pods/log`: a launcher's log is its guest's console. The console goes with the machine: a finished pod has no log
any more, and one that is followed ends. Exec, attach and port-forward are not served.

`GET /stats/summary` has the memory of the node and, for each launcher pod, the memory of its machine and the blocks
of its claims' disks. Processor time, network and images are left out.
https://kubernetes.io/docs/reference/instrumentation/node-metrics/
"""

from __future__ import annotations

import json
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from harness import pressure
from harness.embedded import faults as failures
from harness.embedded.cdi.claims import is_transfer_pod
from harness.embedded.context import Context
from harness.embedded.machines import Machines
from harness.embedded.machines.cgroups import Memory
from harness.embedded.machines.disk import disk_bytes
from harness.embedded.machines.names import ipv6_address
from harness.embedded.node import pods
from harness.embedded.node.guests import Addresses, Guests
from harness.embedded.vm.instance import claim_name
from harness.embedded.vmi import status
from harness.embedded.vmi.launcher import CREATED_BY, LAUNCHER, is_consumer
from harness.embedded.vmi.status import UNPAUSED
from harness.kube import serving
from harness.kube.client import Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import controller_of, deleting, dig, is_condition, now, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import NAMESPACE, POD, PV, PVC, VMI
from harness.kube.serving import AnsweringHandler, HttpsServer

log = logging.getLogger(__name__)
WORKERS = 4
LOOK_SECONDS = 0.2  # how often a machine that shuts down is looked at
HOST_SECONDS = 30.0  # between looks at the host for what no event told
FRESH_SECONDS = 1.0  # pacing: a look reads a few files for each machine
LOG_LOOK_SECONDS = 0.3  # between looks at a console that is followed: what a person takes for at once
TAIL_CHUNK = 1 << 20  # bytes from a console's end that `tailLines` looks at
KILLED = 137  # exit code of a container that ended by SIGKILL
COMPONENT = "kubelet"
HOST: Key = ("", "host")
MIB = 2**20
CONSOLE_CONTAINER = "guest-console-log"
# (namespace, pod) -> the file with its guest's console, None when there is none
Console = Callable[[str, str], Path | None]
SUMMARY = ["stats", "summary"]


def is_launcher(pod: Json) -> bool:
    """Tell whether a pod is an instance's launcher."""
    return LAUNCHER.items() <= labels_of(pod).items()


def instance_uid(pod: Json) -> str:
    """Return the uid of the instance that a launcher was made for."""
    return str(labels_of(pod).get(CREATED_BY, ""))


class Kubelet:
    """Reconciles launcher pods on this node."""

    def __init__(self, context: Context, guests: Guests, addresses: Addresses) -> None:
        self._context = context
        self._guests = guests
        self._addresses = addresses
        self._pods = context.informers.of(POD)
        self._vmis = context.informers.of(VMI)
        self._uids: dict[Key, str] = {}  # launchers seen: what to kill when one vanishes without a word
        self.controller = Controller("kubelet", self.reconcile, workers=WORKERS)
        self._pods.subscribe(self._pod_changed)
        self._vmis.subscribe(self._instance_changed)

    def _mine(self, pod: Json) -> bool:
        return is_launcher(pod) and self._context.here(pod)

    def _pod_changed(self, _: str, pod: Json) -> None:
        if self._mine(pod):
            if not is_consumer(pod):
                self._uids[key_of(pod)] = instance_uid(pod)
            self.controller.queue.add(key_of(pod))

    def _instance_changed(self, _: str, vmi: Json) -> None:
        if phase(vmi) not in {"Succeeded", "Failed"}:
            return
        for pod in self._pods.list(vmi["metadata"]["namespace"]):
            if self._mine(pod) and not is_consumer(pod) and instance_uid(pod) == vmi["metadata"]["uid"]:
                self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> float | None:
        """Look at one launcher pod."""
        pod = self._pods.get(*key)
        if pod is None or not self._mine(pod):
            uid = self._uids.pop(key, None)
            if uid is not None:
                self._guests.kill(uid)
            return None
        if is_consumer(pod):
            self._consume(pod)
            return None
        if deleting(pod):
            return self._end(pod)
        if phase(pod) == "Pending" and is_condition(pod, UNPAUSED, "True"):
            return self._start(pod)
        if phase(pod) == "Running":
            self._follow_gate(pod)
            self._end_with_instance(pod)
            return self._befall(pod)
        return None

    def _consume(self, pod: Json) -> None:
        """End a pod that was only there for its claims to be bound, and let it go."""
        if deleting(pod):
            pods.remove(self._context.cluster, pod)
        elif phase(pod) == "Pending":
            self._write(pod, pods.ended(pod, exit_code=0, reason="Completed"))

    def _start(self, pod: Json) -> float | None:
        """Run a pod, unless something keeps it from it that is looked at again soon."""
        held = failures.not_started(self._context.faults, pod)
        if not held:
            self._run(pod)
            return None
        if isinstance(held, dict) and dig(pod, "status", "containerStatuses") is None:
            self._write(pod, held)
            waiting = held["containerStatuses"][0]["state"]["waiting"]
            for message in (f"Error: {waiting['reason']}", waiting["message"]):
                self._context.events.warning(pod, "Failed", message, component=COMPONENT)
        return LOOK_SECONDS

    def _write(self, pod: Json, status: Json) -> None:
        self._pods.observe(pods.write_status(self._context.cluster, pod, status))

    def _befall(self, pod: Json) -> float | None:
        """End a running pod, or take it away, when a fault says so."""
        faults = self._context.faults
        ended = failures.crashes(faults, pod)
        if ended is not None:
            self._guests.kill(instance_uid(pod))
            code, reason, message = int(ended["exit_code"]), ended["reason"], ended["message"]
            self._write(pod, pods.ended(pod, exit_code=code, reason=reason, message=message))
            return None
        if failures.vanishes(faults, pod):
            pods.remove(self._context.cluster, pod)
            return None
        return failures.next_look(faults, pod)

    def _follow_gate(self, pod: Json) -> None:
        """Keep a running pod's Ready in line with its readiness gate, which closes while the machine is paused."""
        conditions = pods.ready_by_gate(pod, UNPAUSED)
        if conditions is not None:
            self._pods.observe(pods.patch_conditions(self._context.cluster, pod, conditions))

    def _end(self, pod: Json) -> float | None:
        """End a launcher that is told to go after its machine, which the node agent ends; then take the pod away."""
        faults, vmi = self._context.faults, self._instance(pod)
        if faults.has(pod, "launcher-stays"):
            return LOOK_SECONDS
        if phase(vmi) == "Running" and not faults.has(vmi or {}, "handler-down"):
            return LOOK_SECONDS
        self._guests.kill(instance_uid(pod))
        if phase(pod) == "Running":
            code, reason = (0, "Completed") if phase(vmi) in {"Succeeded", "Failed"} else (KILLED, "Error")
            self._write(pod, pods.ended(pod, exit_code=code, reason=reason))
        else:
            pods.remove(self._context.cluster, pod)
        return None

    def _instance(self, pod: Json) -> Json | None:
        """Return the instance that a launcher was made for, while it is there."""
        owner = controller_of(pod)
        vmi = self._vmis.get(pod["metadata"]["namespace"], owner["name"]) if owner else None
        return vmi if vmi is not None and vmi["metadata"]["uid"] == instance_uid(pod) else None

    def _run(self, pod: Json) -> None:
        namespace = pod["metadata"]["namespace"]
        network = self._addresses.network(namespace, on_host=self._guests.networks())
        address = self._addresses.address(pod, network)
        addresses = failures.addresses(self._context.faults, pod, (address, str(ipv6_address(IPv4Address(address)))))
        self._write(pod, pods.running(pod, addresses=addresses, host_address=self._context.host_address))

    def _end_with_instance(self, pod: Json) -> None:
        """End a pod whose instance has ended; what is left of the machine goes, its console with it."""
        vmi = self._instance(pod)
        if vmi is None or phase(vmi) not in {"Succeeded", "Failed"}:
            return
        self._guests.kill(instance_uid(pod))
        if phase(vmi) == "Succeeded":
            self._write(pod, pods.ended(pod, exit_code=0, reason="Completed"))
        else:
            message = str(dig(vmi, "status", "reason") or "")
            self._write(pod, pods.ended(pod, exit_code=1, reason="Error", message=message))


class ForeignPods:
    """Lets deleted pods go that nobody else on this node looks after."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers.of(POD)
        self.controller = Controller("foreign-pods", self.reconcile, workers=1)
        self._pods.subscribe(self._changed)

    def _mine(self, pod: Json) -> bool:
        return self._context.here(pod) and deleting(pod) and not is_launcher(pod) and not is_transfer_pod(pod)

    def _changed(self, _: str, pod: Json) -> None:
        if self._mine(pod):
            self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> None:
        """Look at one pod."""
        pod = self._pods.get(*key)
        if pod is not None and self._mine(pod):
            pods.remove(self._context.cluster, pod)


class GarbageCollection:
    """Ends machines and removes networks of this host that no launcher pod has any more.

    It looks at the start, whenever a namespace is gone, and every HOST_SECONDS.
    """

    def __init__(self, context: Context, guests: Guests, machines: Machines, addresses: Addresses) -> None:
        self._guests = guests
        self._machines = machines
        self._addresses = addresses
        self._pods = context.informers.of(POD)
        self.controller = Controller("garbage-collection", self.reconcile, workers=1)
        self.controller.queue.add(HOST)
        context.informers.of(NAMESPACE).subscribe(
            lambda kind, _: self.controller.queue.add(HOST) if kind == "DELETED" else None
        )

    def _running_instances(self) -> Iterator[str]:
        return (
            instance_uid(p) for p in self._pods.list() if is_launcher(p) and phase(p) not in {"Succeeded", "Failed"}
        )

    def reconcile(self, _: Key) -> float:
        """Look at the whole host."""
        self._guests.kill_others(self._running_instances)
        with self._addresses.lock:
            for index in sorted(self._guests.networks() - self._addresses.claimed()):
                self._machines.remove_network(index)
        return HOST_SECONDS


def serve(address: tuple[str, int], pki: Path, console: Console, summary: Callable[[], Json]) -> HttpsServer:
    """Serve on a daemon thread; callers need a client certificate of the instance's CA.

    Args:
        summary: says what a Node and its pods take.

    Raises:
        InfraError: the port is taken.
    """
    server = serving.listen(
        address,
        partial(KubeletHandler, console, summary),
        certificate=pki / "webhook.crt",
        key=pki / "webhook.key",
        clients=pki / "ca.crt",
        what="the server of machines' logs",
    )
    threading.Thread(target=server.serve_forever, name="kubelet-logs", daemon=True).start()
    return server


class KubeletHandler(AnsweringHandler):
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
        console = self._console(words[1], words[2])
        if console is None or not console.is_file():
            self.answer(404, f"pod {words[1]}/{words[2]} has no log here\n".encode(), "text/plain")
            return
        query = parse_qs(parts.query)
        tail_lines = query.get("tailLines")
        lines = int(tail_lines[0]) if tail_lines else None
        if query.get("follow") == ["true"]:
            self._follow(console, lines)
            return
        try:
            self.answer(200, tail(console, lines), "text/plain")
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
            elif gone or not listening(LOG_LOOK_SECONDS):
                return


def _to_last(handle: BinaryIO, lines: int | None) -> None:
    """Go to where the last `lines` lines of a file begin."""
    if lines is None:
        return
    end = handle.seek(0, os.SEEK_END)
    handle.seek(max(0, end - TAIL_CHUNK))
    last_lines = handle.read(end - handle.tell()).splitlines(keepends=True)[-lines:] if lines else []
    handle.seek(end - sum(map(len, last_lines)))


class Stats:
    """The Summary of a Node: its share of memory, and what each launcher pod takes of memory and disk."""

    def __init__(self, context: Context, guests: Guests, node: str) -> None:
        self._context = context
        self._node = node
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
        here = (pod for pod in launchers if pod["spec"].get("nodeName") == self._node)
        available = pressure.memory_available_mib() * MIB // len(self._context.nodes)
        return summary_document(self._node, available, map(self._pod, here))

    def _pod(self, pod: Json) -> Json:
        meta = pod["metadata"]
        memory = self._guests.memory(instance_uid(pod))
        vmis = self._vmis.list(meta["namespace"])
        spec: Json = next((vmi["spec"] for vmi in vmis if vmi["metadata"]["uid"] == instance_uid(pod)), {})
        disks = {
            str(volume["name"]): (name, size)
            for volume in spec.get("volumes") or []
            if (name := claim_name(volume)) and (size := self._disk(volume, meta["namespace"])) is not None
        }
        return pod_stats(meta, memory, disks)

    def _disk(self, volume: Json, namespace: str) -> int | None:
        claim, volume_of = partial(self._claims.get, namespace), partial(self._volumes.get, "")
        try:
            file: Path = status.disk_file(volume, claim, volume_of, self._context.disks)
        except status.Unbootable:
            return None
        return disk_bytes(file)


def summary_document(node: str, available: int, pods: Iterable[Json]) -> Json:
    """Return the Summary of a node with so many bytes of memory available."""
    memory_stats = {"time": now(), "availableBytes": available}
    return {"node": {"nodeName": node, "memory": memory_stats}, "pods": list(pods)}


def pod_stats(meta: Json, memory: Memory | None, disks: dict[str, tuple[str, int]]) -> Json:
    """Return what a pod takes, as the Summary has it.

    Args:
        memory: bytes; None where the machine is not there.
        disks: by the volume's name, its claim and the bytes that its disk takes.
    """
    reference = {key: str(meta[key]) for key in ("name", "namespace", "uid")}
    stats: Json = {"podRef": reference, "startTime": str(meta["creationTimestamp"])}
    if memory is not None:
        stats["memory"] = {
            "time": now(),
            "usageBytes": memory.usage,
            "workingSetBytes": memory.working_set,
            "rssBytes": memory.kept,  # with the kernel's own for it, which a kubelet leaves out
        }
    stats["volume"] = [
        {"name": name, "usedBytes": size, "pvcRef": {"name": claim, "namespace": reference["namespace"]}}
        for name, (claim, size) in disks.items()
    ]
    return stats
