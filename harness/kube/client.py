"""One Kubernetes API, spoken in plain dictionaries: guests span many minors and KubeVirt is custom resources.

Every call has a timeout; every refusal becomes an ApiFailure with the API's own code, reason, message and causes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.kube.kubeconfig import Opened, open_kubeconfig
from harness.kube.resources import EVENT, Resource
from harness.kube.transport import (
    HASTY,
    Answer,
    ApiFailure,
    Json,
    Patience,
    Unreachable,
    decode,
    failure_of,
    repeatable,
    seconds_of,
    timeouts,
    told,
    with_patience,
)

__all__ = ["Answer", "ApiFailure", "Cluster", "Json", "Listing", "Unreachable"]
FIELD_MANAGER = "vmatrix"


@dataclass(frozen=True)
class Listing:
    """A list answer: the objects and the version to watch from."""

    items: list[Json]
    resource_version: str


class Cluster:
    """A client of one Kubernetes API; thread-safe."""

    def __init__(self, opened: Opened, patience: Patience = HASTY) -> None:
        self.opened = opened
        self.patience = patience

    @staticmethod
    def from_kubeconfig(path: Path, *, context: str | None = None, patience: Patience = HASTY) -> Cluster:
        """Open a kubeconfig file.

        Args:
            patience: what to do while the API has trouble; without it each request is made once.

        Raises:
            BadInput: the file is missing, malformed, or has no such context.
        """
        return Cluster(open_kubeconfig(path, context), patience)

    @property
    def server(self) -> str:
        """Return the API's URL."""
        return str(self.opened.api.configuration.host)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        read_seconds: float | None = None,
    ) -> Answer:
        """Send one request, once, and return status, decoded body and warnings, whatever the status.

        Args:
            read_seconds: the longest silence; None for the client's own.

        Raises:
            Unreachable: nobody answered.
        """
        with told(f"{method} {path}", self.server):
            limits = timeouts(self.patience, read_seconds)
            answer = self._exchange(method, path, body, query, content_type, limits).response
            retry_after = seconds_of(answer.headers.get("Retry-After"))
            return Answer(
                answer.status, decode(answer.data), tuple(answer.headers.getlist("Warning")), retry_after=retry_after
            )

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        read_seconds: float | None = None,
    ) -> Any:
        """Send one request and return the decoded JSON; while the API has trouble, as often as the patience allows.

        Raises:
            ApiFailure: the API refused.  Unreachable: nobody answered.
        """

        def attempt() -> Any:
            answer = self.send(
                method, path, body=body, query=query, content_type=content_type, read_seconds=read_seconds
            )
            if answer.code >= 400:
                raise failure_of(answer, f"{method} {path}")
            return answer.body

        return with_patience(attempt, self.patience, repeatable=repeatable(method, body))

    def _exchange(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str] | None,
        content_type: str,
        limits: tuple[float, float],
    ) -> Any:
        serialized = self.opened.api.param_serialize(
            method=method,
            resource_path=path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        return self.opened.api.call_api(*serialized, _request_timeout=limits)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """Return an object, None when it does not exist."""
        try:
            found: Json = self.request("GET", resource.path(namespace, name))
        except ApiFailure as failure:
            if failure.not_found:
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
            if failure.exists:
                return False
            raise
        return True

    def ensure(self, resource: Resource, body: Json) -> Json:
        """Create an object, or return the one of that name that is already there."""
        meta = body["metadata"]
        try:
            return self.create(resource, body)
        except ApiFailure as failure:
            if not failure.exists:
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
            if failure.not_found:
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
        request = f"WATCH {resource.path(namespace)}"
        with told(request, self.server):
            limits = (self.patience.connect_seconds, self.patience.watch_silence_seconds)
            answer = self._exchange("GET", resource.path(namespace), None, query, "application/json", limits)
            if answer.status >= 400:
                raise failure_of(Answer(answer.status, decode(answer.response.data), ()), request)
            try:
                for line in _lines(answer.response):
                    yield _event(line, f"{self.server}{resource.path(namespace)}")
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


def _event(line: bytes, where: str) -> tuple[str, Json]:
    try:
        event = json.loads(line)
        return event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"WATCH {where}: this is no event: {line[:200]!r}") from error


def _lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
