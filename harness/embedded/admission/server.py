"""The HTTPS server that answers the API server's admission reviews."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.embedded import https
from harness.embedded.admission.judges import Judge, judges
from harness.embedded.admission.response import review
from harness.embedded.https import AnsweringHandler, HttpsServer
from harness.kube.client import Cluster

log = logging.getLogger(__name__)


class _ReviewHandler(AnsweringHandler):
    def __init__(self, by_path: Mapping[str, Judge], *connection: Any) -> None:
        self._judges = by_path
        super().__init__(*connection)

    def do_GET(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer a health probe."""
        self.answer(200 if self.path == "/healthz" else 404, b"", "application/json")

    def do_POST(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer an admission review."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        judge = self._judges.get(self.path.partition("?")[0])
        if judge is None:
            self.answer(404, b"", "application/json")
            return
        began = time.monotonic()
        try:
            request = json.loads(body)["request"]
            verdict = judge(request)
        except Exception as error:  # one object that breaks a rule's code must not end the connection
            log.exception("the review of %s failed: %s", self.path, body.decode(errors="replace")[:2000])
            self.answer(500, f"{type(error).__name__}: {error}".encode(), "application/json")
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
        self.answer(200, json.dumps(review(request, verdict)).encode(), "application/json")


def serve(address: tuple[str, int], cert: Path, key: Path, cluster: Cluster) -> HttpsServer:
    """Listen for admission reviews; run the result's `serve_forever` on a thread, end it with `shutdown`.

    Args:
        address: host and port to listen on.
        cert: the server's PEM certificate (with its chain); key: its private key.
        cluster: the API that the DataVolume rules ask; its user is taken for KubeVirt's own.

    Raises:
        InfraError: the address is taken.
    """
    return listen(address, cert, key, judges(cluster))


def listen(address: tuple[str, int], cert: Path, key: Path, by_path: Mapping[str, Judge]) -> HttpsServer:
    """Listen for admission reviews that are answered by the given judges.

    Raises:
        InfraError: the address is taken.
    """
    handler = partial(_ReviewHandler, by_path)
    return https.listen(address, handler, certificate=cert, key=key, what="the server of the admission webhooks")
