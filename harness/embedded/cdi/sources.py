"""From a claim's annotations to the work of its transfer: which URL with which credentials, or which disk to copy."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from harness.embedded.cdi import names
from harness.embedded.cdi.download import Request, basic_auth
from harness.embedded.cdi.provisioner import disk_path
from harness.embedded.cdi.sizes import requested_bytes
from harness.embedded.cdi.work import Blank, Clone, ImportHttp, LookHttp, Work
from harness.embedded.context import Context
from harness.errors import InfraError
from harness.kube.client import Json
from harness.kube.objects import phase
from harness.kube.resources import CONFIG_MAP, PVC, SECRET, Resource


class SourceMissing(InfraError):
    """Something that a transfer needs is not there (yet)."""


def work_for(context: Context, claim: Json, room: int, *, scratch: bool) -> Work:
    """Return what fills a claim's disk of `room` bytes.

    Args:
        scratch: whether the pod has scratch space; an importer without it only looks at the image.

    Raises:
        SourceMissing: something it names is not there (yet).
    """
    annotations = names.annotations_of(claim)
    cloned = annotations.get(names.CLONE_REQUEST)
    if cloned:
        return _clone(context, cloned, room)
    if annotations.get(names.SOURCE) == "none":
        return Blank(room)
    request = _request(context, claim["metadata"]["namespace"], annotations)
    return ImportHttp(request, room, requested_bytes(claim)) if scratch else LookHttp(request)


def _clone(context: Context, cloned: str, room: int) -> Work:
    namespace, _, name = cloned.partition("/")
    source = context.informers.of(PVC).get(namespace, name)
    if source is None or phase(source) != "Bound":
        raise SourceMissing(f"source claim {cloned} does not exist or is not bound")
    return Clone(disk_path(context.disks, source["spec"]["volumeName"]), room)


def _request(context: Context, namespace: str, annotations: Mapping[str, str]) -> Request:
    secret, certificates = annotations.get(names.SECRET), annotations.get(names.CERT_CONFIG_MAP)
    encoded = _data(context, SECRET, namespace, secret) if secret else {}
    user, password = (base64.b64decode(encoded.get(key, "")).decode() for key in ("accessKeyId", "secretKey"))
    return Request(
        url=annotations[names.ENDPOINT],
        checksum=annotations.get(names.CHECKSUM, ""),
        headers=basic_auth(user, password) if secret else {},
        ca="\n".join(_data(context, CONFIG_MAP, namespace, certificates).values()) if certificates else "",
    )


def _data(context: Context, resource: Resource, namespace: str, name: str) -> dict[str, str]:
    found = context.cluster.get(resource, name, namespace)
    if found is None:
        word = resource.kind.lower()
        raise SourceMissing(f'{word} "{name}" not found', hint=f"create it in namespace {namespace}")
    return found.get("data") or {}
