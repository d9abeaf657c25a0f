"""Routing: which operation serves a request to a subresource, and how one without a route is refused.

The routes are those of KubeVirt v1.9.0 (pkg/virt-api/api.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from aiohttp import web

from harness.embedded.faults import Faults
from harness.embedded.node.guests import Guests
from harness.embedded.subresources import errors, portforward
from harness.embedded.subresources.errors import existing
from harness.embedded.subresources.lifecycle import (
    guest_os_info,
    pause,
    reset,
    restart,
    soft_reboot,
    start,
    stop,
    unpause,
)
from harness.embedded.subresources.portforward import Dropping, OpenTunnels, Stream
from harness.embedded.vmi.status import PAUSED
from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, controller_of, dig, phase
from harness.kube.resources import VM, VMI

T = TypeVar("T")
VMS, VMIS = "virtualmachines", "virtualmachineinstances"
Operation = tuple[str, str, str]  # method, plural, subresource
Reply = tuple[int, Json | None]
NO_PAGE = "404: Page Not Found"
READ: frozenset[Operation] = frozenset({("GET", VMIS, "guestosinfo")})
ARGUMENTS = {"portforward": (1, 2)}  # how many words follow a subresource in the path: a port, and its protocol


@dataclass(frozen=True)
class Parts:
    """What operations work with."""

    cluster: Cluster
    guests: Guests
    tunnels: OpenTunnels
    faults: Faults
    drops: Counter[str] = field(default_factory=Counter)  # tunnels that were cut on request, by instance


@dataclass(frozen=True)
class Call:
    """One request. rest: what follows the subresource in the path; options: the body."""

    request: web.Request
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str
    rest: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def operation(self) -> Operation:
        """Return what is asked for."""
        return self.request.method, self.plural, self.subresource


class Blocking(Protocol):
    """Runs what blocks on another thread."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Return what it returns."""


def methods_of(plural: str, subresource: str, arguments: int = 0) -> list[str]:
    """Return the methods of a subresource's path with so many words behind it; none where there is no such path."""
    if arguments not in ARGUMENTS.get(subresource, (0,)):
        return []
    return [method for method, *path in (*VERBS, *ASYNCHRONOUS) if path == [plural, subresource]]


def refusal_without_route(methods: Sequence[str], method: str) -> web.Response | None:
    """Return the answer to a request that finds no route among the methods of its path, None when it finds one."""
    if not methods:
        return web.Response(status=HTTPStatus.NOT_FOUND, text=NO_PAGE)
    if method in methods:
        return None
    allowed = {"Allow": ", ".join(dict.fromkeys(methods))}
    return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, text="405: Method Not Allowed", headers=allowed)


def _switch(verb: Callable[[Cluster, str, str, Mapping[str, Any]], None], parts: Parts, call: Call) -> Reply:
    verb(parts.cluster, call.namespace, call.name, call.options)
    return HTTPStatus.ACCEPTED, None


def _hold(verb: Callable[[Cluster, Guests, str, str, Mapping[str, Any]], None], parts: Parts, call: Call) -> Reply:
    verb(parts.cluster, parts.guests, call.namespace, call.name, call.options)
    return HTTPStatus.OK, None


def _guest_os_info(parts: Parts, call: Call) -> Reply:
    return HTTPStatus.OK, guest_os_info(parts.cluster, call.namespace, call.name)


async def _port_forward(parts: Parts, call: Call, blocking: Blocking) -> web.StreamResponse:
    """Carry bytes between a WebSocket and a guest's port."""
    vmi = await blocking(lambda: _instance(parts.cluster, call))
    if condition(vmi, PAUSED) is not None:
        raise errors.conflict(errors.VMI, vmi["metadata"]["name"], "VMI is paused")
    interfaces = dig(vmi, "status", "interfaces") or []
    if not interfaces:
        raise errors.bad_request("no network interfaces are present")
    protocol = call.rest[1] if len(call.rest) > 1 else "tcp"
    port = await portforward.dial(str(interfaces[0].get("ipAddress", "")), call.rest[0], protocol)
    return await parts.tunnels.carry(call.request, _faulty(parts, vmi, port))


def _faulty(parts: Parts, vmi: Json, stream: Stream) -> Stream:
    """Return the stream as it is, or one that is cut where that was asked for."""
    asked = parts.faults.of({**vmi, "kind": VMI.kind}, "portforward-drops")
    uid = vmi["metadata"]["uid"]
    if asked is None or parts.drops[uid] >= int(asked["times"]):
        return stream
    parts.drops[uid] += 1
    return Dropping(stream, int(asked["after_bytes"]))


def _instance(cluster: Cluster, call: Call) -> Json:
    """Return the instance that a call is about; of a machine, its own."""
    vm = existing(cluster, VM, call.namespace, call.name) if call.plural == VMS else None
    vmi = existing(cluster, VMI, call.namespace, call.name)
    if vm is not None and (controller_of(vmi) or {}).get("uid") != vm["metadata"]["uid"]:
        raise errors.internal(f"unable to retrieve vmi [{call.name}] for vm: it belongs to another")
    return vmi


async def _console(parts: Parts, call: Call, blocking: Blocking) -> web.StreamResponse:
    """Carry what a guest writes to its console to a WebSocket."""
    vmi = await blocking(lambda: existing(parts.cluster, VMI, call.namespace, call.name))
    if phase(vmi) in {"Succeeded", "Failed"}:
        raise errors.conflict(errors.VMI, call.name, "VMI is in failed status")
    if phase(vmi) != "Running":
        why = f"Unable to connect to VirtualMachineInstance because phase is {phase(vmi)} instead of Running"
        raise errors.bad_request(why)
    return await parts.tunnels.carry(call.request, portforward.console(parts.guests.console(vmi["metadata"]["uid"])))


VERBS: Mapping[Operation, Callable[[Parts, Call], Reply]] = {
    ("PUT", VMS, "start"): partial(_switch, start),
    ("PUT", VMS, "stop"): partial(_switch, stop),
    ("PUT", VMS, "restart"): partial(_switch, restart),
    ("PUT", VMIS, "pause"): partial(_hold, pause),
    ("PUT", VMIS, "unpause"): partial(_hold, unpause),
    ("PUT", VMIS, "softreboot"): partial(_hold, soft_reboot),
    ("PUT", VMIS, "reset"): partial(_hold, reset),
    ("GET", VMIS, "guestosinfo"): _guest_os_info,
}
ASYNCHRONOUS: Mapping[Operation, Callable[[Parts, Call, Blocking], Awaitable[web.StreamResponse]]] = {
    ("GET", VMS, "portforward"): _port_forward,
    ("GET", VMIS, "portforward"): _port_forward,
    ("GET", VMIS, "console"): _console,
}
