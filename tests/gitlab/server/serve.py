"""The running server: on a thread with a loop of its own, which alone touches its state."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from tests.gitlab.server import artifact_answers, git_answers, project_answers, runner_answers, tokens
from tests.gitlab.server.answers import Answering, Site, refusal
from tests.gitlab.server.children import begin_child
from tests.gitlab.server.forge import Forge
from tests.gitlab.server.model import PipelineJob
from tests.gitlab.server.payload import Payload
from tests.gitlab.server.recording import Recorder

T = TypeVar("T")
SECONDS = 30.0  # against hanging: the server's thread answers at once, or is dead
LOOPBACK = "127.0.0.1"
MOST_BYTES = 2**30  # of one upload


@dataclass
class RunningServer:
    """A server that answers.  site: its state, to be touched by `call` alone.  recorder: what was asked of it."""

    url: str
    site: Site
    recorder: Recorder
    loop: asyncio.AbstractEventLoop
    away: asyncio.Event

    def call(self, ask: Callable[[Forge], T]) -> T:
        """Do something with the state on the server's own thread, and return what comes of it."""

        async def done() -> T:
            return ask(self.site.forge)

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(SECONDS)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Answer nobody for a while: each connection is closed without a word."""
        self.loop.call_soon_threadsafe(self.away.set)
        try:
            yield
        finally:
            self.loop.call_soon_threadsafe(self.away.clear)


@contextmanager
def serving(
    *, listening: socket.socket | None = None, context: ssl.SSLContext | None = None, poll_seconds: float = 5.0
) -> Iterator[RunningServer]:
    """Run a server on a socket that listens, or on a free port of this host alone; with `context`, over TLS."""
    started: Future[RunningServer] = Future()
    ended = threading.Event()
    main = _main(listening or socket.create_server((LOOPBACK, 0)), context, poll_seconds, started, ended)
    thread = threading.Thread(target=lambda: asyncio.run(main), name="gitlab", daemon=True)
    thread.start()
    server = started.result(SECONDS)
    try:
        yield server
    finally:
        ended.set()
        thread.join(SECONDS)


async def _main(
    listening: socket.socket,
    context: ssl.SSLContext | None,
    poll_seconds: float,
    started: Future[RunningServer],
    ended: threading.Event,
) -> None:
    loop, recorder, away, signing = asyncio.get_running_loop(), Recorder(), asyncio.Event(), tokens.Signing()

    def on_trigger(job: PipelineJob) -> None:
        tasks.add(loop.create_task(begin_child(site.forge, job)))

    tasks: set[asyncio.Task[None]] = set()
    site = Site(Forge("", on_trigger), Payload("", signing), f"glpat-{secrets.token_hex(10)}", poll_seconds)
    site.environment = {"PATH": os.environ["PATH"]}
    app = web.Application(middlewares=[_recorded(site, recorder, away)], client_max_size=MOST_BYTES)
    for part in (runner_answers, artifact_answers, project_answers, git_answers):
        app.add_routes(part.routes(site))
    app.add_routes(_keys(site, signing))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1)
    await runner.setup()
    await web.SockSite(runner, listening, ssl_context=context).start()
    address, port = listening.getsockname()
    url = f"{'https' if context else 'http'}://{address}:{port}"
    site.forge.url, site.payload = url, Payload(url, signing)
    started.set_result(RunningServer(url, site, recorder, loop, away))
    await asyncio.to_thread(ended.wait)
    for task in tasks:
        task.cancel()
    await runner.cleanup()


def _keys(site: Site, signing: tokens.Signing) -> list[web.RouteDef]:
    async def discovery(_: web.Request) -> web.Response:
        return web.json_response(tokens.discovery(site.forge.url))

    async def keys(_: web.Request) -> web.Response:
        return web.json_response(signing.keys())

    return [web.get("/.well-known/openid-configuration", discovery), web.get("/oauth/discovery/keys", keys)]


def _recorded(site: Site, recorder: Recorder, away: asyncio.Event) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Answering) -> web.StreamResponse:
        if away.is_set():
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=503)
        body = await request.read()
        try:
            found = await handler(request)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
            said = f"{request.method} {request.path}"
            site.refused.append(said)
            found = refusal(501, f"this server does not speak {said}")
        recorder.keep(request, body, found)
        return found

    return middleware
