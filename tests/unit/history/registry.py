"""GitLab's package registry as far as the history uses it, over real HTTP: what the documentation says it answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PROJECT = "42"
TOKEN = "job-token-of-the-test"
MOST_PER_PAGE = 100


@dataclass
class Registry:
    """The packages of one project.

    busy: how many of the next requests are answered with 503.  requests: method and path of all.
    """

    port: int = 0
    busy: int = 0
    requests: list[str] = field(default_factory=list)
    packages: dict[tuple[str, str], int] = field(default_factory=dict)
    files: dict[int, tuple[int, str, bytes]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    numbers: int = 0

    @property
    def api(self) -> str:
        """Return what CI_API_V4_URL would be."""
        return f"http://127.0.0.1:{self.port}/api/v4"

    def number(self) -> int:
        """Return an id that nothing has."""
        self.numbers += 1
        return self.numbers

    def put(self, name: str, version: str, file: str, content: bytes) -> None:
        """Publish a file; one of the same name stays beside it, as in GitLab."""
        package = self.packages.setdefault((name, version), self.number())
        self.files[self.number()] = (package, file, content)

    def get(self, name: str, version: str, file: str) -> bytes | None:
        """Return the newest file of that name."""
        package = self.packages.get((name, version))
        found = [content for _, (p, n, content) in sorted(self.files.items()) if (p, n) == (package, file)]
        return found[-1] if found else None

    def names(self) -> list[str]:
        """Return version and name of every file."""
        versions = {number: version for (_, version), number in self.packages.items()}
        return sorted(f"{versions[package]}/{name}" for package, name, _ in self.files.values())


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve a registry on a port of its own."""

    class Handler(_Handler):
        of = registry

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    of: Registry

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Do what is asked, one request after the other."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.of.lock:
            status, content = self.handled(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def handled(self, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(self.path)
        self.of.requests.append(f"{self.command} {url.path}")
        if self.of.busy:
            self.of.busy -= 1
            return 503, b"busy"
        if self.headers.get("JOB-TOKEN") != TOKEN:
            return 401, b'{"message":"401 Unauthorized"}'
        parts = [unquote(part) for part in url.path.split("/")[3:]]
        if parts[:2] != ["projects", PROJECT] or parts[2:3] != ["packages"]:
            return 404, b"{}"
        return self.packages(parts[3:], {k: v[0] for k, v in parse_qs(url.query).items()}, body)

    def packages(self, rest: list[str], query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if not rest:
            asked = query["package_name"]  # GitLab finds parts of a name too
            found = [{"id": n, "name": p, "version": v} for (p, v), n in self.of.packages.items() if asked in p]
            return 200, self.page(found, query)
        if rest[0] == "generic":
            return self.generic(rest[1], rest[2], rest[3], body)
        if len(rest) == 2:
            files = [{"id": f, "file_name": n} for f, (p, n, _) in self.of.files.items() if p == int(rest[0])]
            return 200, self.page(files, query)
        known = self.of.files.pop(int(rest[2]), None)
        return (204, b"") if known else (404, b"{}")

    def generic(self, name: str, version: str, file: str, body: bytes) -> tuple[int, bytes]:
        if self.command == "PUT":
            self.of.put(name, version, file, body)
            return 201, b"{}"
        content = self.of.get(name, version, file)
        return (200, content) if content is not None else (404, b"{}")

    def page(self, found: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        size, page = min(MOST_PER_PAGE, int(query.get("per_page", 20))), int(query.get("page", 1))
        return json.dumps(found[(page - 1) * size : page * size]).encode()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        pass
