"""Server of the aggregated API: who calls, which documents of discovery it gives, and the subresources.

The API server proves itself by a certificate of the request-header authority, which every cluster publishes in a
ConfigMap; only then are its headers believed.
https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/#kubernetes-apiserver-client-authentication

What speaks to the cluster's API blocks, and so runs on worker threads; what carries bytes runs on the loop.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDictProxy

from harness.embedded.crds import KUBEVIRT_VERSION
from harness.embedded.faults import Faults
from harness.embedded.node.guests import Guests
from harness.embedded.subresources import errors, routing
from harness.embedded.subresources.errors import StatusError
from harness.embedded.subresources.portforward import OpenTunnels
from harness.embedded.subresources.routing import ASYNCHRONOUS, VERBS, VMIS, VMS, Call, Parts
from harness.errors import InfraError, VmatrixError
from harness.kube.client import Cluster, Json, allowed
from harness.kube.objects import ensure, is_condition
from harness.kube.resources import API_SERVICE, CONFIG_MAP, ENDPOINT_SLICE, SERVICE
from harness.until import Deadline, NotYet, until

AUTHORITY_NAMESPACE, AUTHORITY_NAME = "kube-system", "extension-apiserver-authentication"


@dataclass(frozen=True)
class Trust:
    """Whose word counts about who asks.

    authority: PEM certificates.  names: the common names that count; any without one.
    user, group, extra: the headers with the asker's name and groups, and the prefixes of those with more.
    """

    authority: str
    names: frozenset[str]
    user: tuple[str, ...]
    group: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True)
class Asker:
    """The user in whose name the API server asks."""

    user: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


def trust_of(cluster: Cluster) -> Trust:
    """Read whose word counts in a cluster.

    Raises:
        InfraError: the cluster's API server has no request-header authority: it cannot aggregate APIs.
    """
    config = cluster.get(CONFIG_MAP, AUTHORITY_NAME, AUTHORITY_NAMESPACE) or {}
    data: Mapping[str, str] = config.get("data") or {}
    authority = data.get("requestheader-client-ca-file")
    if not authority:
        raise InfraError(
            f"ConfigMap {AUTHORITY_NAMESPACE}/{AUTHORITY_NAME} names no request-header authority",
            hint="the API server needs --requestheader-client-ca-file and --proxy-client-cert-file to aggregate APIs",
        )
    return Trust(
        authority,
        frozenset(_listed(data, "requestheader-allowed-names")),
        tuple(_listed(data, "requestheader-username-headers")),
        tuple(_listed(data, "requestheader-group-headers")),
        tuple(_listed(data, "requestheader-extra-headers-prefix")),
    )


def _listed(data: Mapping[str, str], key: str) -> Sequence[str]:
    names: Sequence[str] = json.loads(data.get(key) or "[]")
    return names


def tls(trust: Trust, certificate: Path, key: Path) -> ssl.SSLContext:
    """Return how to speak TLS: a client's certificate is asked for, and refused unless the authority signed it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=trust.authority)
    return context


def asker_of(trust: Trust, peer: Mapping[str, Any] | None, headers: CIMultiDictProxy[str]) -> Asker | None:
    """Return who asks; None when nobody whose word counts says so.

    Args:
        peer: the client's verified certificate, as ssl.SSLSocket.getpeercert() returns it.
    """
    subject = (peer or {}).get("subject", ())
    common_names = {value for part in subject for key, value in part if key == "commonName"}
    if not peer or (trust.names and not trust.names & common_names):
        return None
    user = next((headers[name] for name in trust.user if name in headers), None)
    if user is None:
        return None
    groups = next((tuple(headers.getall(name)) for name in trust.group if name in headers), ())
    extra = {
        unquote(header[len(prefix) :]): tuple(headers.getall(header))
        for header in {name.lower() for name in headers}
        for prefix in trust.extra
        if header.startswith(prefix.lower())
    }
    return Asker(user, groups, extra)


def may(cluster: Cluster, asker: Asker, attributes: Mapping[str, str]) -> tuple[bool, str]:
    """Ask the API whether somebody may do something; return its answer and its reason."""
    extra = {key: list(values) for key, values in asker.extra.items()}
    return allowed(cluster, {"user": asker.user, "groups": list(asker.groups), "extra": extra}, attributes)


GROUP = "subresources.kubevirt.io"
VERSIONS = ("v1", "v1alpha3")  # the first is preferred
NAMESPACE, NAME, PORT_NAME = "kubevirt", "virt-api", "https"
AVAILABLE_SECONDS = 30.0  # the API server looks as soon as it is registered; times the factor
SERVER_NAME = f"{NAME}.{NAMESPACE}.svc"  # what the API server expects of the certificate
# KubeVirt's own list (v1.9.0), in its order, of what is served here. It leaves virtualmachines/portforward out.
LISTED = (
    *(f"{VMIS}/{one}" for one in ("console", "portforward", "pause", "unpause", "reset", "softreboot")),
    *(f"{VMS}/{one}" for one in ("start", "stop", "restart")),
    f"{VMIS}/guestosinfo",
)
# What anybody may ask.
ANYBODYS = frozenset({"/", "/apis", "/healthz", f"/apis/{GROUP}"}) | {
    f"/apis/{GROUP}/{version}{path}" for version in VERSIONS for path in ("", "/version", "/guestfs", "/healthz")
}


def group() -> Json:
    """Return the APIGroup."""
    versions = [{"groupVersion": f"{GROUP}/{v}", "version": v} for v in VERSIONS]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def groups() -> Json:
    """Return the APIGroupList."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]}


def resources(version: str) -> Json:
    """Return the APIResourceList of a version: without verbs, as KubeVirt's own."""
    listed = [{"name": name, "singularName": "", "namespaced": True, "kind": "", "verbs": None} for name in LISTED]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": listed,
    }


def release() -> Json:
    """Return what `/version` says."""
    major, minor = KUBEVIRT_VERSION.removeprefix("v").split(".")[:2]
    return {"gitVersion": KUBEVIRT_VERSION, "major": major, "minor": minor, "platform": "linux/amd64"}


def described(path: str) -> web.Response:
    """Answer what anybody may ask."""
    root = f"/apis/{GROUP}"
    if path == "/":
        return web.json_response({"paths": ["/apis", root, "/healthz"]})
    if path == "/apis":
        return web.json_response(groups())
    if path == root:
        return web.json_response(group())
    version, _, last = path.removeprefix(f"{root}/").partition("/")
    if version in VERSIONS and not last:
        return web.json_response(resources(version))
    if last == "version":
        return web.json_response(release())
    if last == "healthz" or path == "/healthz":
        return web.json_response({"apiserver": {"connectivity": "ok"}})
    return web.Response(status=HTTPStatus.NOT_FOUND, text=routing.NO_PAGE)


def service(port: int) -> Json:
    """Return the Service without a selector that the API server asks at."""
    ports = [{"name": PORT_NAME, "port": 443, "protocol": "TCP", "targetPort": port}]
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def endpoints(host: str, port: int) -> Json:
    """Return the EndpointSlice that leads from the Service to this process."""
    labels = {"kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": "vmatrix.dev"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }


def api_services(authority: bytes) -> list[Json]:
    """Return the APIServices, one a version; `authority`: PEM certificates that sign this server's."""
    return [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": version,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15 - index,
                "caBundle": base64.b64encode(authority).decode(),
                "service": {"namespace": NAMESPACE, "name": NAME, "port": 443},
            },
        }
        for index, version in enumerate(VERSIONS)
    ]


def register(cluster: Cluster, address: tuple[str, int], authority: bytes) -> None:
    """Have the cluster's API server hand on what is asked of the group; the server listens already.

    Args:
        address: where it listens, as the API server reaches it.
        authority: PEM certificates that sign its own.

    Raises:
        ApiFailure: the API refused something.
    """
    host, port = address
    ensure(cluster, SERVICE, service(port))
    ensure(cluster, ENDPOINT_SLICE, endpoints(host, port))
    for body in api_services(authority):
        ensure(cluster, API_SERVICE, body)


def wait_until_available(cluster: Cluster, stretch: float = 1.0) -> None:
    """Wait until the API server has found the group's server. `stretch`: factor for the wait.

    Raises:
        TimedOut: it does not; with its own words.
    """

    def available() -> bool | NotYet:
        for version in VERSIONS:
            service = cluster.get(API_SERVICE, f"{version}.{GROUP}")
            if not is_condition(service, "Available", "True"):
                return NotYet(_why(service))
        return True

    what = f"the API server to reach {GROUP}"
    until(available, deadline=Deadline.after(AVAILABLE_SECONDS * stretch), what=what, interval=0.05)


def _why(service: Json | None) -> str:
    conditions = ((service or {}).get("status") or {}).get("conditions") or []
    return "; ".join(str(c.get("message")) for c in conditions) or "it has not looked yet"


log = logging.getLogger(__name__)
T = TypeVar("T")
WebHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
WORKERS = 16
LISTEN_SECONDS = 15.0  # against hanging: a thread of this process that binds a socket
STOP_SECONDS = 1.0  # for open streams, which end with the process anyway


@dataclass
class SubresourceServer:
    """The running server."""

    address: tuple[str, int]
    context: ssl.SSLContext
    trust: Trust
    parts: Parts
    workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(WORKERS, "subresources"))
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _listening: Future[None] = field(default_factory=Future)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Listen on a daemon thread.

        Raises:
            InfraError: the address is taken.
        """
        threading.Thread(target=self._run, name="subresources", daemon=True).start()
        try:
            self._listening.result(LISTEN_SECONDS)
        except OSError as error:  # a TimeoutError is one
            host, port = self.address
            raise InfraError(
                f"the subresources API cannot listen on {host}:{port}: {error.strerror or 'it takes too long'}",
                hint=f"find the process that listens there: ss -ltnp sport = :{port}",
            ) from error

    def stop(self) -> None:
        """End the server and all that goes through it."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._ended.set)
        self.workers.shutdown(wait=False, cancel_futures=True)

    def cut(self) -> None:
        """Break every open tunnel off; callable from any thread."""
        self._loop.call_soon_threadsafe(self.parts.tunnels.cut)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        app = web.Application(middlewares=[_errors])
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, *self.address, ssl_context=self.context).start()
        except OSError as error:
            self._listening.set_exception(error)
        else:
            self._listening.set_result(None)
            await self._ended.wait()
            self.parts.tunnels.cut()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/") or "/"
        if path in ANYBODYS or path.startswith("/openapi"):
            return routing.refusal_without_route(["GET"], request.method) or described(path)
        call = await self._call(request)
        refusal = await self._refusal(request, call)
        if refusal is not None:
            return web.Response(status=HTTPStatus.UNAUTHORIZED, text=refusal)
        methods = routing.methods_of(call.plural, call.subresource, len(call.rest))
        if unrouted := routing.refusal_without_route(methods, request.method):
            return unrouted
        if handler := ASYNCHRONOUS.get(call.operation):
            return await handler(self.parts, call, self._blocking)
        verb = VERBS[call.operation]
        try:
            code, body = await self._blocking(lambda: verb(self.parts, call))
        except StatusError as refused:
            if call.operation not in routing.READ:
                raise
            # KubeVirt answers so whatever the reason (httpGetRequestHandler).
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=str(refused))
        return web.Response(status=code) if body is None else web.json_response(body, status=code)

    async def _call(self, request: web.Request) -> Call:
        words = request.path.strip("/").split("/")
        if len(words) < 8 or words[:2] != ["apis", GROUP] or words[3] != "namespaces":
            raise web.HTTPNotFound(text=routing.NO_PAGE)
        _, _, version, _, namespace, plural, name, subresource, *rest = words
        if version not in VERSIONS:
            raise web.HTTPNotFound(text=routing.NO_PAGE)
        return Call(request, version, namespace, plural, name, subresource, tuple(rest), await _options(request))

    async def _refusal(self, request: web.Request, call: Call) -> str | None:
        """Return why a request is refused, None when it is not."""
        peer = request.transport.get_extra_info("peercert") if request.transport is not None else None
        asker = asker_of(self.trust, peer, request.headers)
        if asker is None:
            return "request is not authenticated"
        verb = {"GET": "get", "HEAD": "get", "PUT": "update"}.get(request.method, request.method.lower())
        attributes = {
            "group": GROUP,
            "version": call.version,
            "namespace": call.namespace,
            "resource": call.plural,
            "subresource": call.subresource,
            "name": call.name,
            "verb": verb,
        }
        allowed, reason = await self._blocking(lambda: may(self.parts.cluster, asker, attributes))
        return None if allowed else reason or "not allowed"

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self.workers, work)


async def _options(request: web.Request) -> Mapping[str, Any]:
    """Return the request's body; a StatusError is raised when it is not a JSON object."""
    body = await request.read() if request.method == "PUT" else b""
    if not body.strip():
        return {}
    try:
        options = json.loads(body)
    except ValueError as error:
        raise errors.bad_request(f"Can not unmarshal Request body to struct, error: {error}") from error
    if not isinstance(options, dict):
        raise errors.bad_request("Can not unmarshal Request body to struct, error: it is not an object")
    return options


@web.middleware
async def _errors(request: web.Request, handler: WebHandler) -> web.StreamResponse:
    """Turn what went wrong into an answer."""
    try:
        return await handler(request)
    except StatusError as refused:
        return web.json_response(refused.status, status=refused.code)
    except VmatrixError as error:
        log.warning("%s %s: %s", request.method, request.path, error)
        failed = errors.internal(str(error))
        return web.json_response(failed.status, status=failed.code)


def serve(
    address: tuple[str, int], cluster: Cluster, guests: Guests, faults: Faults, *, certificate: Path, key: Path
) -> SubresourceServer:
    """Listen for what the cluster's API server hands on.

    Args:
        faults: says which tunnels are to be cut.
        certificate: the server's, PEM; it covers SERVER_NAME.

    Raises:
        InfraError: the address is taken, or the cluster's API server does not aggregate.
    """
    trust = trust_of(cluster)
    context = tls(trust, certificate, key)
    server = SubresourceServer(address, context, trust, Parts(cluster, guests, OpenTunnels(), faults))
    server.start()
    return server
