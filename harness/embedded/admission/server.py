"""The HTTPS server that answers the API server's admission reviews."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.embedded import https
from harness.embedded.access import allowed, own_name
from harness.embedded.admission import configuration as known
from harness.embedded.admission.datavolume import Neighbours, authorize_datavolume, validate_datavolume
from harness.embedded.admission.response import AdmissionResponse, Json, review
from harness.embedded.admission.vm import default_vm, validate_vm
from harness.embedded.admission.vmi import default_vmi, validate_vmi_create, validate_vmi_update
from harness.embedded.https import AnsweringHandler, HttpsServer
from harness.kube.client import Cluster
from harness.kube.resources import DATA_SOURCE, PVC

log = logging.getLogger(__name__)
Judge = Callable[[Json], AdmissionResponse]


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
        name = f"{request.get('namespace')}/{request.get('name')}"
        outcome = "allowed" if verdict.allowed else verdict.message
        milliseconds = (time.monotonic() - began) * 1000
        log.debug("%s %s %s: %s (%.0f ms)", self.path, request["operation"], name, outcome, milliseconds)
        self.answer(200, json.dumps(review(request, verdict)).encode(), "application/json")


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


def serve(address: tuple[str, int], cert: Path, key: Path, cluster: Cluster) -> HttpsServer:
    """Listen for admission reviews; run the result's `serve_forever` on a thread, end it with `shutdown`.

    Args:
        cert: the server's PEM certificate (with its chain); key: its private key.
        cluster: the API that the DataVolume rules ask; its user is taken for KubeVirt's own.

    Raises:
        InfraError: the address is taken.
    """
    return listen(address, cert, key, judges(cluster))


def listen(address: tuple[str, int], cert: Path, key: Path, by_path: Mapping[str, Judge]) -> HttpsServer:
    """Listen for admission reviews that are answered by the given judges; see serve."""
    handler = partial(_ReviewHandler, by_path)
    return https.listen(address, handler, certificate=cert, key=key, what="the server of the admission webhooks")
