"""API errors: the Status objects that Kubernetes' own API machinery answers a refused request with."""

from __future__ import annotations

from http import HTTPStatus

from harness.kube.client import Cluster, Json
from harness.kube.resources import Resource

GROUP = "kubevirt.io"
VM = "virtualmachine"
VMI = "virtualmachineinstance"


class StatusError(Exception):
    """A request that gets an error for an answer: its HTTP code and the Status that is sent."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({"details": details} if details else {}),
            "code": code,
        }


def conflict(kind: str, name: str, why: str) -> StatusError:
    """Say that an object's state does not allow what was asked."""
    message = f'Operation cannot be fulfilled on {kind}.{GROUP} "{name}": {why}'
    return StatusError(HTTPStatus.CONFLICT, "Conflict", message, _details(kind, name))


def forbidden(kind: str, name: str, why: str) -> StatusError:
    """Say that an object does not allow what was asked, whatever its state."""
    message = f'{kind}.{GROUP} "{name}" is forbidden: {why}'
    return StatusError(HTTPStatus.FORBIDDEN, "Forbidden", message, _details(kind, name))


def not_found(kind: str, name: str) -> StatusError:
    """Say that there is no such object."""
    message = f'{kind}.{GROUP} "{name}" not found'
    return StatusError(HTTPStatus.NOT_FOUND, "NotFound", message, _details(kind, name))


def bad_request(why: str) -> StatusError:
    """Say that what was sent makes no sense."""
    return StatusError(HTTPStatus.BAD_REQUEST, "BadRequest", why)


def internal(why: str) -> StatusError:
    """Say that something behind this API went wrong."""
    message = f"Internal error occurred: {why}"
    return StatusError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", message, {"causes": [{"message": why}]})


def existing(cluster: Cluster, resource: Resource, namespace: str, name: str) -> Json:
    """Return an object.

    Raises:
        StatusError: there is none.
    """
    obj = cluster.get(resource, name, namespace)
    if obj is None:
        raise not_found(resource.kind.lower(), name)
    return obj


def _details(kind: str, name: str) -> Json:
    return {"name": name, "group": GROUP, "kind": kind}
