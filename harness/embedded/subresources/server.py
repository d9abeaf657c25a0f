"""HTTPS server of the aggregated API: authenticates, authorizes and routes requests, on a thread with its own loop.

What speaks to the cluster's API blocks, and so runs on worker threads; what carries bytes runs on the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from harness.embedded.faults import Faults
from harness.embedded.node.guests import Guests
from harness.embedded.subresources import authentication, discovery, errors, routing
from harness.embedded.subresources.authentication import Trust
from harness.embedded.subresources.errors import StatusError
from harness.embedded.subresources.portforward import OpenTunnels
from harness.embedded.subresources.routing import ASYNCHRONOUS, VERBS, Call, Parts
from harness.errors import InfraError, VmatrixError
from harness.kube.client import Cluster

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
        accept = request.headers.get("Accept", "")
        if path in discovery.ANYBODYS or path.startswith("/openapi"):
            return routing.lost(routing.described(path), request.method, accept) or discovery.described(path)
        call = await self._call(request)
        refusal = await self._refusal(request, call)
        if refusal is not None:
            return web.Response(status=HTTPStatus.UNAUTHORIZED, text=refusal)
        routes = routing.routes_of(call.plural, call.subresource, len(call.rest))
        if lost := routing.lost(routes, request.method, accept):
            return lost
        if found := ASYNCHRONOUS.get(call.operation):
            return await found(self.parts, call, self._blocking)
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
        if len(words) < 8 or words[:2] != ["apis", discovery.GROUP] or words[3] != "namespaces":
            raise web.HTTPNotFound(text=routing.NO_PAGE)
        _, _, version, _, namespace, plural, name, subresource, *rest = words
        if version not in discovery.VERSIONS:
            raise web.HTTPNotFound(text=routing.NO_PAGE)
        return Call(request, version, namespace, plural, name, subresource, tuple(rest), await _options(request))

    async def _refusal(self, request: web.Request, call: Call) -> str | None:
        """Return why a request is refused, None when it is not."""
        peer = request.transport.get_extra_info("peercert") if request.transport is not None else None
        asker = authentication.asker_of(self.trust, peer, request.headers)
        if asker is None:
            return "request is not authenticated"
        verb = {"GET": "get", "HEAD": "get", "PUT": "update"}.get(request.method, request.method.lower())
        attributes = {
            "group": discovery.GROUP,
            "version": call.version,
            "namespace": call.namespace,
            "resource": call.plural,
            "subresource": call.subresource,
            "name": call.name,
            "verb": verb,
        }
        allowed, reason = await self._blocking(lambda: authentication.may(self.parts.cluster, asker, attributes))
        return None if allowed else reason or "not allowed"

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self.workers, work)


async def _options(request: web.Request) -> Mapping[str, Any]:
    """Return the request's body; a StatusError is raised when it is not a JSON object."""
    body = await request.read() if request.method == "PUT" else b""
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except ValueError as error:
        raise errors.bad_request(f"Can not unmarshal Request body to struct, error: {error}") from error
    if not isinstance(found, dict):
        raise errors.bad_request("Can not unmarshal Request body to struct, error: it is no object")
    return found


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
        certificate: the server's, PEM; it covers discovery.SERVER_NAME.

    Raises:
        InfraError: the address is taken, or the cluster's API server does not aggregate.
    """
    trust = authentication.trust_of(cluster)
    context = authentication.tls(trust, certificate, key)
    server = SubresourceServer(address, context, trust, Parts(cluster, guests, OpenTunnels(), faults))
    server.start()
    return server
