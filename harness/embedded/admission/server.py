"""The HTTPS server that answers the API server's admission reviews."""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness.embedded.access import allowed, own_name
from harness.embedded.admission import configuration as known
from harness.embedded.admission.datavolume import Neighbours, authorize_datavolume, validate_datavolume
from harness.embedded.admission.response import AdmissionResponse, Json, review
from harness.embedded.admission.vm import default_vm, validate_vm
from harness.embedded.admission.vmi import default_vmi, validate_vmi_create, validate_vmi_update
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.resources import DATA_SOURCE, PVC

log = logging.getLogger(__name__)
Judge = Callable[[Json], AdmissionResponse]
IDLE_SECONDS = 120.0


def neighbours(cluster: Cluster) -> Neighbours:
    """Return the look-ups that the DataVolume rules need, answered by a live API."""

    def may_clone(user: Json, namespace: str) -> bool:
        wanted = (
            {"group": "cdi.kubevirt.io", "resource": "datavolumes", "subresource": "source", "verb": "create"},
            {"group": "", "resource": "pods", "verb": "create"},
        )
        who: Json = {"user": user.get("username", ""), **{k: user[k] for k in ("groups", "uid", "extra") if k in user}}
        return any(allowed(cluster, who, {**attributes, "namespace": namespace})[0] for attributes in wanted)

    return Neighbours(
        data_source=lambda namespace, name: cluster.get(DATA_SOURCE, name, namespace),
        claim=lambda namespace, name: cluster.get(PVC, name, namespace),
        may_clone=may_clone,
    )


def judges(cluster: Cluster) -> Mapping[str, Judge]:
    """Return who answers at which path."""
    trusted, around = frozenset({own_name(cluster)}), neighbours(cluster)
    return {
        known.VM_MUTATOR.path: default_vm,
        known.VM_VALIDATOR.path: validate_vm,
        known.VMI_MUTATOR.path: lambda request: default_vmi(request, trusted),
        known.VMI_CREATE_VALIDATOR.path: lambda request: validate_vmi_create(request, trusted),
        known.VMI_UPDATE_VALIDATOR.path: lambda request: validate_vmi_update(request, trusted),
        known.DV_MUTATOR.path: lambda request: authorize_datavolume(request, around),
        known.DV_VALIDATOR.path: lambda request: validate_datavolume(request, around),
    }


class _WebhookServer(ThreadingHTTPServer):
    """Serves each connection on a thread of its own, the TLS handshake included."""

    daemon_threads = True
    request_queue_size = 128
    judges: Mapping[str, Judge]

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a connection that broke (a probe of the port, an API server that was killed)."""
        log.debug("the connection of %s broke", client_address, exc_info=True)


class _ReviewHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # the API server keeps its connections
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Answer a health probe."""
        self._answer(200 if self.path == "/healthz" else 404, b"")

    def do_POST(self) -> None:
        """Answer an admission review."""
        assert isinstance(self.server, _WebhookServer)  # noqa: S101 - made by serve()
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        judge = self.server.judges.get(self.path.partition("?")[0])
        if judge is None:
            self._answer(404, b"")
            return
        began = time.monotonic()
        try:
            request = json.loads(body)["request"]
            verdict = judge(request)
        except Exception as error:  # one object that breaks a rule's code must not end the connection
            log.exception("the review of %s failed: %s", self.path, body.decode(errors="replace")[:2000])
            self._answer(500, f"{type(error).__name__}: {error}".encode())
            return
        log.debug(
            "%s %s %s/%s: %s (%.0f ms)",
            self.path,
            request["operation"],
            request.get("namespace"),
            request.get("name"),
            "allowed" if verdict.allowed else verdict.message,
            (time.monotonic() - began) * 1000,
        )
        self._answer(200, json.dumps(review(request, verdict)).encode())

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Keep the access log out of stderr."""
        log.debug(format, *args)


def serve(address: tuple[str, int], cert: Path, key: Path, cluster: Cluster) -> ThreadingHTTPServer:
    """Listen for admission reviews; run the result's `serve_forever` on a thread, end it with `shutdown`.

    Args:
        address: host and port to listen on.
        cert: the server's PEM certificate (with its chain); key: its private key.
        cluster: the API that the DataVolume rules ask; its user is taken for KubeVirt's own.

    Raises:
        InfraError: the address is taken.
    """
    return listen(address, cert, key, judges(cluster))


def listen(address: tuple[str, int], cert: Path, key: Path, by_path: Mapping[str, Judge]) -> ThreadingHTTPServer:
    """Listen for admission reviews that are answered by the given judges.

    Raises:
        InfraError: the address is taken.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    try:
        server = _WebhookServer(address, _ReviewHandler)
    except OSError as error:
        raise InfraError(
            f"the admission webhooks cannot listen on {address[0]}:{address[1]}: {error.strerror}",
            hint=f"find who listens there: ss -ltnp sport = :{address[1]}",
        ) from error
    server.judges = by_path
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server
