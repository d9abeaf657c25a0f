"""An API server with one cell, which refuses one request in the words of Kubernetes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from harness.cell.place import place_of
from harness.kube.failures import right_of
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_EXPIRES, LABEL_MACHINE, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from tests.unit.refusals.lying import kubeconfig

CELL, RUN, MACHINE = "cell", "abcdef", "cp-0"
NAMESPACE = place_of(RUN, CELL, 1).namespace
LABELS = {
    LABEL_MANAGED: MANAGED_BY,
    LABEL_RUN: RUN,
    LABEL_CELL: CELL,
    LABEL_ATTEMPT: "1",
    LABEL_EXPIRES: "1",
}
REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}


def _object(name: str, **more: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": name,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {**LABELS, LABEL_MACHINE: MACHINE},
    }
    return {"kind": "Any", "metadata": meta, "spec": {}, "status": {"phase": "Running"}, **more}


HELD = {
    "namespaces": [_object(NAMESPACE)],
    "virtualmachines": [_object(MACHINE)],
    "virtualmachineinstances": [_object(MACHINE)],
    "pods": [_object("virt-launcher-cp-0", status={"phase": "Running", "podIP": "192.0.2.7"})],
    "datavolumes": [_object("disk")],
}


@dataclass(frozen=True)
class No:
    """A refusal. right: of the request that is refused, as `kubectl auth can-i` takes it."""

    right: str
    code: int = 403

    def body(self) -> dict[str, Any]:
        verb, kind, *_ = self.right.split()
        words = {
            401: "Unauthorized",
            403: f'{kind} is forbidden: User "ci" cannot {verb} resource "{kind}"',
            404: "the server could not find the requested resource",
        }
        said = {"message": words[self.code], "reason": REASONS[self.code], "code": self.code}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **said}


@dataclass
class Asked:
    """Which rights were needed, in order."""

    rights: list[str] = field(default_factory=list)


class _Talk(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        server: Any = self.server
        path = urlsplit(self.path).path
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        right = right_of(f"{self.command} {path}")
        server.asked.rights.append(right)
        code, body = (server.no.code, server.no.body()) if right == server.no.right else (200, _found(right, path))
        if body is None:
            code, body = 404, No(right, 404).body()
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = _answer  # noqa: N815 - the library's names
    do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _found(right: str, path: str) -> dict[str, Any] | None:
    verb, _, kind = right.partition(" ")
    held = HELD.get(kind.partition(" ")[0].partition(".")[0], [])
    if verb == "list":
        return {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": held}
    if verb == "get":
        return next((one for one in held if one["metadata"]["name"] == path.rsplit("/", 1)[1]), None)
    return {"kind": "Status", "status": "Success"}


@contextmanager
def allowing(no: No) -> Iterator[tuple[str, Asked]]:
    """Serve all but one request; yield a kubeconfig, and which rights were needed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Talk)
    server.daemon_threads = True
    server.no, server.asked = no, Asked()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield kubeconfig({"server": f"http://127.0.0.1:{server.server_address[1]}"}), server.asked  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
