"""One Kubernetes API, spoken in plain dictionaries: guests span many minors and KubeVirt is custom resources.

Every call has a timeout; every refusal becomes an ApiFailure with the API's own code, reason, message and causes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes
import urllib3.exceptions

from harness.errors import BadInput, InfraError, InfraRetriable
from harness.kube.resources import EVENT, Resource
from harness.kube.token import follow_token

Json = dict[str, Any]
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
FIELD_MANAGER = "vmatrix"
RETRIABLE_CODES = frozenset({429, 500, 502, 503, 504})


class ApiFailure(InfraError):
    """The API answered with an error.

    Attributes: code (HTTP), reason (machine readable, may be empty), message, causes ({reason, message, field} each).
    """

    def __init__(self, code: int, reason: str, message: str, causes: list[Json], *, request: str) -> None:
        super().__init__(f"{request}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes

    @property
    def retriable(self) -> bool:
        """Tell whether the same request may succeed a moment later."""
        return self.code in RETRIABLE_CODES


class Unreachable(InfraRetriable):
    """Nobody answers at the API's address."""


@dataclass(frozen=True)
class Answer:
    """A raw answer: HTTP status, decoded body (dict, list, text or None) and the Warning headers."""

    code: int
    body: Any
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """A list answer: the objects and the version to watch from."""

    items: list[Json]
    resource_version: str


class Cluster:
    """A client of one Kubernetes API; thread-safe."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @staticmethod
    def from_kubeconfig(path: Path, *, context: str | None = None) -> Cluster:
        """Open a kubeconfig file.

        Raises:
            BadInput: the file is missing, malformed, or has no such context.
        """
        if not path.is_file():
            raise BadInput(
                f"kubeconfig {path} does not exist", hint="pass --kubeconfig PATH or bring the infra up first"
            )
        settings = kubernetes.client.Configuration()
        settings.connection_pool_maxsize = 32
        try:
            kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
                str(path), context=context, client_configuration=settings
            )
        except Exception as error:
            raise BadInput(
                f"kubeconfig {path} cannot be used: {error}", hint="check the file and the context's name"
            ) from error
        follow_token(settings, path, context)
        settings.retries = False
        return Cluster(kubernetes.client.ApiClient(settings))

    @property
    def server(self) -> str:
        """Return the API's URL."""
        return str(self._api.configuration.host)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        read_seconds: float = READ_SECONDS,
    ) -> Answer:
        """Send one request and return status, decoded body and warnings, whatever the status.

        Raises:
            Unreachable: nobody answered.
        """
        answer = self._exchange(method, path, body, query, content_type, read_seconds)
        data = answer.response.data
        return Answer(answer.status, _decode(data), tuple(answer.response.headers.getlist("Warning")))

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        read_seconds: float = READ_SECONDS,
    ) -> Any:
        """Send one request and return the decoded JSON.

        Raises:
            ApiFailure: the API refused.  Unreachable: nobody answered.
        """
        answer = self.send(method, path, body=body, query=query, content_type=content_type, read_seconds=read_seconds)
        if answer.code >= 400:
            raise _failure(answer, f"{method} {path}")
        return answer.body

    def _exchange(
        self, method: str, path: str, body: Any, query: Mapping[str, str] | None, content_type: str, read_seconds: float
    ) -> Any:
        try:
            serialized = self._api.param_serialize(
                method=method,
                resource_path=path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            return self._api.call_api(*serialized, _request_timeout=(CONNECT_SECONDS, read_seconds))
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(
                f"{method} {self.server}{path}: {error}", hint="is the cluster up? `vmatrix infra status` tells"
            ) from error

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """Return an object, None when it does not exist."""
        try:
            found: Json = self.request("GET", resource.path(namespace, name))
        except ApiFailure as failure:
            if failure.code == 404:
                return None
            raise
        return found

    def list(self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Return all objects of a kind (of one namespace, or of all) that match the selectors."""
        query = {k: v for k, v in (("labelSelector", labels), ("fieldSelector", fields)) if v}
        answer = self.request("GET", resource.path(namespace), query=query)
        items = answer.get("items") or []
        for item in items:  # list answers leave these out
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return Listing(items, answer["metadata"].get("resourceVersion", ""))

    def create(self, resource: Resource, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object; its namespace is taken from its metadata."""
        namespace = body.get("metadata", {}).get("namespace")
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        made: Json = self.request("POST", resource.path(namespace), body=body, query=query)
        return made

    def create_if_absent(self, resource: Resource, body: Json) -> bool:
        """Create an object; False when one of its name is there. Needs no right to read it."""
        try:
            self.create(resource, body)
        except ApiFailure as failure:
            if failure.code == 409 and failure.reason == "AlreadyExists":
                return False
            raise
        return True

    def ensure(self, resource: Resource, body: Json) -> Json:
        """Create an object, or return the one of that name that is already there."""
        meta = body["metadata"]
        try:
            return self.create(resource, body)
        except ApiFailure as failure:
            if failure.code != 409 or failure.reason != "AlreadyExists":
                raise
        found = self.get(resource, meta["name"], meta.get("namespace"))
        return found if found is not None else self.create(resource, body)

    def apply(self, resource: Resource, body: Json, *, manager: str = FIELD_MANAGER) -> Json:
        """Apply an object server-side, taking over fields that others hold."""
        meta = body["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"])
        query = {"fieldManager": manager, "force": "true"}
        made: Json = self.request("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")
        return made

    def replace(self, resource: Resource, body: Json, *, subresource: str | None = None) -> Json:
        """Replace an object (or its subresource); a stale resourceVersion is a 409 ApiFailure."""
        meta = body["metadata"]
        made: Json = self.request("PUT", resource.path(meta.get("namespace"), meta["name"], subresource), body=body)
        return made

    def merge(
        self,
        resource: Resource,
        name: str,
        patch: Json,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        """Send a JSON merge patch."""
        made: Json = self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=patch,
            content_type="application/merge-patch+json",
        )
        return made

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Ask for an object's deletion; False when it is not there (any more)."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", resource.path(namespace, name), body=body)
        except ApiFailure as failure:
            if failure.code == 404:
                return False
            raise
        return True

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        seconds: int = 240,
    ) -> Iterator[tuple[str, Json]]:
        """Yield (type, object) from a version on, until the server ends the watch after about `seconds`.

        Types are ADDED, MODIFIED, DELETED, BOOKMARK and ERROR (its object is a Status; 410 means: list again).
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        if labels:
            query["labelSelector"] = labels
        answer = self._exchange("GET", resource.path(namespace), None, query, "application/json", seconds + 30.0)
        if answer.status >= 400:
            body = _decode(answer.response.data)
            raise _failure(Answer(answer.status, body, ()), f"WATCH {resource.path(namespace)}")
        try:
            for line in _lines(answer.response):
                event = json.loads(line)
                yield event["type"], event["object"]
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"WATCH {self.server}{resource.path(namespace)}: {error}") from error
        finally:
            answer.response.close()
            answer.response.release_conn()

    def pod_log(self, namespace: str, name: str, *, container: str, tail: int | None = None) -> str:
        """Return a container's log; the whole, or its last `tail` lines."""
        query = {"container": container, **({"tailLines": str(tail)} if tail is not None else {})}
        answer = self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log", query=query)
        return answer if isinstance(answer, str) else json.dumps(answer or "")

    def events_of(self, namespace: str, name: str) -> Sequence[str]:
        """Return the events about an object as lines, oldest first."""
        found = self.list(EVENT, namespace, fields=f"involvedObject.name={name}").items
        found.sort(key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or "")
        return [f"{e.get('type', '')} {e.get('reason', '')}: {e.get('message', '')}" for e in found]


def _lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)


def _decode(data: bytes) -> Any:
    """Decode a body: JSON where it is JSON, text otherwise, None when empty."""
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def _failure(answer: Answer, request: str) -> ApiFailure:
    """Turn an error answer into an exception; the body is a Status object, or text of a proxy on the way."""
    status: Json = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body or "")[:500]}
    causes = (status.get("details") or {}).get("causes") or []
    return ApiFailure(answer.code, status.get("reason") or "", status.get("message") or "", causes, request=request)
