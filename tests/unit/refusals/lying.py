"""A server at whose address no Kubernetes API is: each path's first part names what it answers."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

PAGE = "<!DOCTYPE html><html><body><form action='/login'>Sign in</form></body></html>"
STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
JSON, HTML, TEXT = "application/json", "text/html; charset=utf-8", "text/plain"
LINE = b"HTTP/1.1 "


@dataclass(frozen=True)
class Lie:
    """An answer.

    says: what has to be said of it.  code: the exit code of a command that gets it.
    raw: sent in place of an answer.  drips: what is sent again and again, until the other side is gone.
    """

    status: int = 200
    body: str = ""
    kind: str = JSON
    says: str = "this is not a Kubernetes API: it answered"
    code: int = 3
    location: str = ""
    raw: bytes | None = None
    drips: bytes = b""


def status(code: int, reason: str, message: str) -> str:
    return json.dumps({**STATUS, "reason": reason, "message": message, "code": code})


REDIRECTS = {
    f"redirect-{code}": Lie(code, location=f"/redirect-{code}/", says=f"it redirects to /redirect-{code}/ ({code})")
    for code in (301, 302, 303, 307, 308)
}
PORTALS = {f"portal-{code}": Lie(code, PAGE, HTML) for code in (200, 201, 203, 401, 402, 403, 404, 405, 406, 407, 451)}
MUTTERS = {
    "object": "{}",
    "list": "[]",
    "null": "null",
    "true": "true",
    "number": "7",
    "infinite": "Infinity",
    "word": '"welcome"',
    "half": '{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVer',
    "text": "It works!",
    "nothing": "",
    "blank": " \n ",
    "nul": "\x00\x00\x00",
    "yaml": "kind: NamespaceList\nitems: []\n",
    "xml": "<?xml version='1.0'?><error/>",
    "deep": "[" * 20000,
    "other": '{"status": "UP", "version": "2.1"}',
    "items": '{"kind": "NamespaceList", "metadata": {}, "items": {"a": 1}}',
    "strings": '{"kind": "NamespaceList", "metadata": {}, "items": ["a", "b"]}',
    "nameless": '{"kind": "NamespaceList", "metadata": {}, "items": [{}]}',
    "numbered": '{"kind": "NamespaceList", "metadata": {}, "items": [{"metadata": {"name": 7}}]}',
    "mislabelled": '{"kind": "NamespaceList", "metadata": {}, "items": [{"metadata": {"name": "a", "labels": []}}]}',
    "headless": '{"kind": "NamespaceList", "items": []}',
    "beheaded": '{"kind": "NamespaceList", "metadata": [], "items": []}',
    "kindless": '{"apiVersion": 1, "metadata": null}',
}
BUSY = {f"busy-{code}": Lie(code, "no", TEXT, says=str(code), code=75) for code in (429, 500, 502, 503, 504)}
PROXIES = {f"proxy-{code}": Lie(code, PAGE, HTML, says=str(code), code=75) for code in (500, 502, 503, 504)}
UNTRUE = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BROKEN = {
    "closed": b"",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "smtp": b"220 mail.example.org ESMTP\r\n",
    "redis": b"-ERR unknown command\r\n",
    "http-0": b"HTTP/0.0 200\r\n\r\n",
    "no-status": LINE + b"\r\n\r\n",
    "status-word": LINE + b"fine\r\n\r\n",
    "cut": (UNTRUE + "Content-Length: 5000\r\n\r\n{").encode(),
    "chunk": (UNTRUE + "Transfer-Encoding: chunked\r\n\r\nzz\r\n").encode(),
    "chunk-cut": (UNTRUE + "Transfer-Encoding: chunked\r\n\r\n64\r\n{").encode(),
    "gzip": (UNTRUE + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}").encode(),
    "headers": (UNTRUE + "".join(f"X-{n}: y\r\n" for n in range(300)) + "\r\n{}").encode(),
    "long-header": (UNTRUE + f"X: {'y' * 70000}\r\n\r\n{{}}").encode(),
}
LIES: dict[str, Lie] = {
    **REDIRECTS,
    "redirect-home": Lie(
        302, location="https://login.example.org/?next=/", says="it redirects to https://login.example.org"
    ),
    "redirect-nowhere": Lie(302, says="it redirects to nowhere"),
    **PORTALS,
    **{f"says-{name}": Lie(body=body) for name, body in MUTTERS.items()},
    **{
        f"missing-{name}": Lie(404, body)
        for name, body in MUTTERS.items()
        if body[:1] in "{[n" and name not in ("half", "deep")
    },
    "unknown": Lie(401, status(401, "Unauthorized", "Unauthorized"), says="401 Unauthorized"),
    "forbidden": Lie(403, status(403, "Forbidden", 'User "x" cannot'), says='403 Forbidden: User "x" cannot'),
    "absent": Lie(404, status(404, "NotFound", "the server could not find"), says="404 NotFound"),
    "absent-text": Lie(404, "404 page not found\n", TEXT, says="404"),
    "teapot": Lie(418, status(418, "", "short and stout"), says="418"),
    "gone": Lie(410, status(410, "Expired", "too old"), says="410 Expired"),
    **BUSY,
    **PROXIES,
    **{f"broken-{name}": Lie(raw=raw, says="/broken-", code=75) for name, raw in BROKEN.items()},
    "silent": Lie(raw=b"", drips=b"\0", says="did not answer in time", code=75),
    "drip-headers": Lie(raw=UNTRUE.encode(), drips=b"X: y\r\n", says="did not answer in", code=75),
    "drip-line": Lie(raw=LINE, drips=b"0", says="did not answer in", code=75),
    "drip-body": Lie(
        raw=UNTRUE.encode() + b"Content-Length: 90000000\r\n\r\n", drips=b" ", says="did not answer in", code=75
    ),
    "drip-chunks": Lie(
        raw=UNTRUE.encode() + b"Transfer-Encoding: chunked\r\n\r\n",
        drips=b"1\r\n \r\n",
        says="did not answer in",
        code=75,
    ),
    "drip-forever": Lie(raw=UNTRUE.encode() + b"\r\n", drips=b" ", says="did not answer in", code=75),
}
BETWEEN_DRIPS = 0.02  # pacing of a server that is to be given up on


class _Talk(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            first = self.rfile.readline(70000).decode("latin-1").split()
            length = 0
            while (line := self.rfile.readline(70000).strip()) != b"":
                name, _, value = line.decode("latin-1").partition(":")
                length = int(value) if name.lower() == "content-length" else length
            self.rfile.read(length)
            name = first[1].split("/")[1] if len(first) > 1 else ""
            self._lie(LIES[name])

    def _lie(self, lie: Lie) -> None:
        if lie.raw is not None:
            self.wfile.write(lie.raw)
            over: threading.Event = self.server.over  # type: ignore[attr-defined]
            while lie.drips and not over.wait(BETWEEN_DRIPS):
                if lie.drips != b"\0":
                    self.wfile.write(lie.drips)
                elif self._left():
                    return
            return
        body = lie.body.encode()
        head = [f"HTTP/1.1 {lie.status} Said", f"Content-Type: {lie.kind}", f"Content-Length: {len(body)}"]
        head += [f"Location: {lie.location}"] if lie.location else []
        self.wfile.write("\r\n".join([*head, "Connection: close", "", ""]).encode() + body)

    def _left(self) -> bool:
        """Tell whether the other side has given up."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False


class Liar(socketserver.ThreadingTCPServer):
    """Answers on 127.0.0.1 until the tests are over."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.over = threading.Event()

    def __enter__(self) -> Liar:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()

    def kubeconfig(self, lie: str) -> str:
        """Return a kubeconfig that leads to a lie."""
        return kubeconfig({"server": f"http://127.0.0.1:{self.server_address[1]}/{lie}"})


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any] | None = None) -> str:
    """Return a kubeconfig of one context."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
