"""A proxy in front of a real API server that, on command, answers as one in trouble does, or does not answer at all."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.chaos.certificate import self_signed

ADDRESS = "127.0.0.1"
UPSTREAM_SECONDS = 300.0
CHUNK = 64 * 1024
RESET = "reset"  # the connection is reset before the request is passed on
LOST = "lost"  # the request is passed on and carried out, and the connection is reset in place of the answer
HALF = "half"  # the connection ends in the middle of the answer
FREEZE = "freeze"  # nothing is answered and nothing closed
CUT = "cut"  # a watch is reset after its first event
EXPIRE = "expire"  # a watch is ended by an event that says 410 Gone
EXPIRED = {
    "type": "ERROR",
    "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"},
}
ABSENT = frozenset({"connection", "host", "content-length", "transfer-encoding", "authorization", "accept-encoding"})


def status(code: int, reason: str, message: str, *, retry_after: int | None = None) -> Trouble:
    """Return the trouble of an API server that answers with an error."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if retry_after is not None:
        body["details"] = {"retryAfterSeconds": retry_after}
    return Trouble("", code, body, {} if retry_after is None else {"Retry-After": str(retry_after)})


@dataclass
class Trouble:
    """What befalls requests: those of a method and a path (regular expressions), so many times (-1: always)."""

    kind: str
    code: int = 0
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ".*"
    path: str = ".*"
    times: int = -1
    met: int = 0

    def on(self, method: str = ".*", path: str = ".*", *, times: int = -1) -> Trouble:
        """Return the same trouble for some requests only."""
        return Trouble(self.kind, self.code, self.body, self.headers, method, path, times)

    def befalls(self, method: str, path: str) -> bool:
        """Tell whether a request is befallen; counted."""
        if self.times == self.met or not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        self.met += 1
        return True


class Front(ThreadingHTTPServer):
    """The proxy; `troubles` may be changed at any time, the first that fits a request befalls it."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream: str, client: ssl.SSLContext, chain: Path) -> None:
        super().__init__((ADDRESS, 0), _Handler)
        self.host, _, port = upstream.removeprefix("https://").partition(":")
        self.port = int(port)
        self.client = client
        self.troubles: list[Trouble] = []
        self.seen: list[tuple[str, str]] = []
        self.thawed = threading.Event()
        self.lock = threading.Lock()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(chain)

    @property
    def url(self) -> str:
        """Return the proxy's URL."""
        return f"https://{ADDRESS}:{self.server_address[1]}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Begin TLS on the connection's own thread, so that one that stands still stops no other."""
        try:
            request = self._tls.wrap_socket(request, server_side=True)
        except (OSError, ssl.SSLError):
            return
        try:
            super().finish_request(request, client_address)
        finally:
            request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that give up are what this is for."""

    def trouble(self, method: str, path: str) -> Trouble | None:
        """Return what befalls a request, None when nothing does."""
        with self.lock:
            self.seen.append((method, path))
            return next((t for t in self.troubles if t.befalls(method, path)), None)

    def requests(self, method: str = ".*", path: str = ".*") -> int:
        """Count the requests that came, of a method and a path."""
        with self.lock:
            return sum(bool(re.fullmatch(method, m) and re.search(path, p)) for m, p in self.seen)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        trouble = self.server.trouble(self.command, self.path)
        if trouble is None:
            self._pass_on(body, "")
        elif trouble.code:
            self._answer(trouble.code, json.dumps(trouble.body).encode(), trouble.headers)
        elif trouble.kind == FREEZE:
            self.server.thawed.wait()
            self._reset()
        elif trouble.kind == RESET:
            self._reset()
        else:
            self._pass_on(body, trouble.kind)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base class looks for these names

    def _pass_on(self, body: bytes | None, kind: str) -> None:
        server = self.server
        upstream = http.client.HTTPSConnection(
            server.host, server.port, timeout=UPSTREAM_SECONDS, context=server.client
        )
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ABSENT}
            upstream.request(self.command, self.path, body=body, headers=headers)
            answer = upstream.getresponse()
            if kind == LOST:
                answer.read()
                self._reset()
            elif "watch=true" in self.path:
                self._stream(answer, kind)
            elif kind == HALF:
                content = answer.read()
                self._head(answer.status, answer.headers.get_content_type(), {"Content-Length": str(len(content))})
                self.wfile.write(content[: len(content) // 2])
                self._reset()
            else:
                more = {k: v for k, v in answer.headers.items() if k in {"Warning", "Retry-After"}}
                self._answer(answer.status, answer.read(), {"Content-Type": answer.headers["Content-Type"], **more})
        finally:
            upstream.close()

    def _stream(self, answer: http.client.HTTPResponse, kind: str) -> None:
        self._head(answer.status, "application/json", {"Transfer-Encoding": "chunked"})
        if kind == EXPIRE:
            self._chunk(json.dumps(EXPIRED).encode() + b"\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        while line := answer.readline():
            self._chunk(line)
            if kind == CUT:
                self._reset()
                return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def _head(self, code: int, content_type: str, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": content_type, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, code: int, content: bytes, headers: Mapping[str, str]) -> None:
        self._head(code, "application/json", {**headers, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _reset(self) -> None:
        """End the connection as a router does that lost its tables: with a TCP reset, in the middle of TLS."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.wfile.close = lambda: None  # type: ignore[method-assign]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@contextmanager
def in_front(kubeconfig: Path, folder: Path) -> Iterator[tuple[Front, Path]]:
    """Run a proxy before the API server of a kubeconfig; yield it and a kubeconfig that leads to it."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    pem = folder / "upstream.pem"
    pem.write_bytes(_content(kubeconfig, user, "client-certificate") + _content(kubeconfig, user, "client-key"))
    client = ssl.create_default_context(cadata=_content(kubeconfig, cluster, "certificate-authority").decode())
    client.load_cert_chain(pem)
    chain, authority = self_signed(folder, ADDRESS)
    front = Front(cluster["server"], client, chain)
    config["clusters"][0]["cluster"] = {
        "server": front.url,
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    config["users"][0]["user"] = {"token": "of nobody: the proxy has a certificate of its own"}
    path = folder / "front.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield front, path
    finally:
        front.thawed.set()
        front.shutdown()
        front.server_close()


def _content(kubeconfig: Path, entry: Mapping[str, str], key: str) -> bytes:
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"])
    return (kubeconfig.parent / entry[key]).read_bytes()
