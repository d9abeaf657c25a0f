"""One Kubernetes API, spoken in plain dictionaries: guests span many minors and KubeVirt is custom resources.

Beside the Cluster: how kinds are served (discovery), and what users may do (reviews).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from harness.kube.api import HASTY, Api, NotAnApi, Patience, RequestOptions, a_list, an_object, the_version
from harness.kube.connection import open_kubeconfig
from harness.kube.failures import Answer, ApiFailure, Json, Unreachable
from harness.kube.kubeconfig import Files
from harness.kube.resources import EVENT, Resource

FIELD_MANAGER = "vmatrix"
VERSION = "/version"
WATCH_SECONDS = 240  # policy: a watch is opened again then; the API server itself would end it after 30 to 60 min
AUTHENTICATION = "authentication.k8s.io/v1"
AUTHORIZATION = "authorization.k8s.io/v1"
__all__ = ["Answer", "ApiFailure", "Cluster", "Json", "Listing", "NotAnApi", "Unreachable"]


@dataclass(frozen=True)
class Listing:
    """A list answer: the objects and the version to watch from."""

    items: list[Json]
    resource_version: str


@dataclass(frozen=True)
class Infra:
    """Where an infra cluster is: kubeconfig and context belong together, and are handed on together.

    context: in the kubeconfig; None: its current one.
    """

    kubeconfig: Path
    context: str | None = None

    def absolute(self) -> Infra:
        """Return it with an absolute path. Paths in a kubeconfig start at its folder: a link is not followed."""
        return Infra(self.kubeconfig.absolute(), self.context)

    def open(self, patience: Patience = HASTY) -> Cluster:
        """Open the cluster. Raises BadInput when the kubeconfig is missing, malformed, or has no such context."""
        return Cluster.from_kubeconfig(self.kubeconfig, context=self.context, patience=patience)


class Cluster(Api):
    """A client of one Kubernetes API; thread-safe."""

    @staticmethod
    def from_kubeconfig(files: Files, *, context: str | None = None, patience: Patience = HASTY) -> Cluster:
        """Open a kubeconfig.

        Args:
            files: its file, or several that are read as one.
            patience: what to do while the API has trouble; without it each request is made once.

        Raises:
            BadInput: it is missing, malformed, or has no such context.
        """
        return Cluster(open_kubeconfig(files, context), patience)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """Return an object, None when it does not exist."""
        try:
            return self.object("GET", resource.path(namespace, name))
        except ApiFailure as failure:
            if failure.not_found:
                return None
            raise

    def object(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Json:
        """Send a request that is answered with an object; NotAnApi when it is not, else as `request`."""
        return an_object(self.request(method, path, **options), self.where(method, path))

    def version(self) -> str:
        """Return the release of Kubernetes that answers, such as v1.36.3."""
        return the_version(self.request("GET", VERSION), self.where("GET", VERSION))

    def list(self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Return all objects of a kind (of one namespace, or of all) that match the selectors."""
        query = {k: v for k, v in (("labelSelector", labels), ("fieldSelector", fields)) if v}
        path = resource.path(namespace)
        answer = a_list(self.request("GET", path, query=query), self.where("GET", path))
        items = answer.get("items") or []
        for item in items:  # list answers leave these out
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return Listing(items, answer["metadata"].get("resourceVersion", ""))

    def create(self, resource: Resource, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object; its namespace is taken from its metadata."""
        namespace = body.get("metadata", {}).get("namespace")
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self.object("POST", resource.path(namespace), body=body, query=query)

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
        existing = self.get(resource, meta["name"], meta.get("namespace"))
        return existing if existing is not None else self.create(resource, body)

    def apply(self, resource: Resource, body: Json, *, manager: str = FIELD_MANAGER, force: bool = True) -> Json:
        """Apply an object server-side; `force`: take over fields that others hold, which else is a 409 ApiFailure."""
        meta = body["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"])
        query = {"fieldManager": manager, "force": str(force).lower()}
        return self.object("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")

    def replace(self, resource: Resource, body: Json, *, subresource: str | None = None) -> Json:
        """Replace an object (or its subresource); a stale resourceVersion is a 409 ApiFailure."""
        meta = body["metadata"]
        return self.object("PUT", resource.path(meta.get("namespace"), meta["name"], subresource), body=body)

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
        path = resource.path(namespace, name, subresource)
        return self.object("PATCH", path, body=patch, content_type="application/merge-patch+json")

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
            self.object("DELETE", resource.path(namespace, name), body=body)
        except ApiFailure as failure:
            if failure.not_found:
                return False
            raise
        return True

    def watch(
        self, resource: Resource, namespace: str | None = None, *, resource_version: str, labels: str = ""
    ) -> Iterator[tuple[str, Json]]:
        """Yield (type, object) from a version on, until the server ends the watch after about WATCH_SECONDS.

        Types are ADDED, MODIFIED, DELETED, BOOKMARK and ERROR (its object is a Status; 410 means: list again).
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            **({"labelSelector": labels} if labels else {}),
        }
        path = resource.path(namespace)
        for line in filter(None, self.stream(path, query)):
            yield _event(line, f"{self.server}{path}")

    def pod_log(self, namespace: str, name: str, *, container: str, tail: int | None = None) -> str:
        """Return a container's log; the whole, or its last `tail` lines."""
        query = {"container": container, **({"tailLines": str(tail)} if tail is not None else {})}
        answer = self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log", query=query)
        return answer if isinstance(answer, str) else json.dumps(answer or "")

    def follow_pod_log(self, namespace: str, name: str, *, container: str, tail: int | None = None) -> Iterator[str]:
        """Yield the whole lines of a container's log, as they come, until it has ended or is silent for too long.

        Args:
            tail: how many lines that are there already come first; None: all.
        """
        query = {"container": container, "follow": "true", **({"tailLines": str(tail)} if tail is not None else {})}
        for line in self.stream(f"/api/v1/namespaces/{namespace}/pods/{name}/log", query):
            yield line.decode("utf-8", "replace")

    def events_about(self, namespace: str, name: str) -> Sequence[Json]:
        """Return the events about an object, oldest first."""
        return sorted(self.list(EVENT, namespace, fields=f"involvedObject.name={name}").items, key=event_time)

    def events_of(self, namespace: str, name: str) -> Sequence[str]:
        """Return the events about an object as lines for a person, oldest first."""
        events = self.events_about(namespace, name)
        return [f"{e.get('type', '')} {e.get('reason', '')}: {e.get('message', '')}" for e in events]


def event_time(event: Json) -> str:
    """Return when an event was last seen, "" where it does not say."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _event(line: bytes, where: str) -> tuple[str, Json]:
    try:
        event = json.loads(line)
        return event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"WATCH {where}: not an event: {line[:200]!r}") from error


def named(obj: Json) -> str:
    """Return what an object is called in messages: Kind name."""
    return f"{obj.get('kind', 'object')} {(obj.get('metadata') or {}).get('name', 'without a name')}"


def resource_of(cluster: Cluster, api_version: str, kind: str) -> Resource | None:
    """Return how a kind is served, None when it is not.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#discovery-api
    """
    group, _, version = api_version.rpartition("/")
    try:
        listed = cluster.object("GET", f"/apis/{api_version}" if group else f"/api/{version}")
    except ApiFailure as failure:
        if failure.not_found:
            return None
        raise
    for served in listed.get("resources") or []:
        if served["kind"] == kind and "/" not in served["name"]:
            return Resource(group, version, served["name"], kind, namespaced=served["namespaced"])
    return None


class ServedKinds:
    """What an API serves, asked once each while this lives; what it does not serve yet is asked again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], Resource] = {}

    def of(self, api_version: str, kind: str) -> Resource | None:
        """Return how a kind is served, None when it is not."""
        resource = self._known.get((api_version, kind)) or resource_of(self._cluster, api_version, kind)
        if resource is not None:
            self._known[api_version, kind] = resource
        return resource

    def preferred(self, group: str, kind: str) -> Resource | None:
        """Return how a kind of a group is served in whatever version, None when it is not."""
        if not group:
            return self.of("v1", kind)
        try:
            group_entry = self._cluster.object("GET", f"/apis/{group}")
        except ApiFailure as failure:
            if failure.not_found:
                return None
            raise
        versions = (
            version_entry["groupVersion"]
            for version_entry in (group_entry["preferredVersion"], *group_entry["versions"])
        )
        return next((resource for version in versions if (resource := self.of(version, kind)) is not None), None)


def own_name(cluster: Cluster) -> str:
    """Return the user name that a client acts as."""
    body = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    answer = cluster.request("POST", f"/apis/{AUTHENTICATION}/selfsubjectreviews", body=body)
    name: str = answer["status"]["userInfo"]["username"]
    return name


def allowed(cluster: Cluster, user: Json, attributes: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether a user may do something, and why.

    Args:
        user: `user`, `groups` and `extra`, as a SubjectAccessReview has them.
        attributes: the review's resourceAttributes.
    """
    spec = {**user, "resourceAttributes": dict(attributes)}
    body = {"apiVersion": AUTHORIZATION, "kind": "SubjectAccessReview", "spec": spec}
    status = cluster.request("POST", f"/apis/{AUTHORIZATION}/subjectaccessreviews", body=body)["status"]
    return bool(status["allowed"]), str(status.get("reason", ""))


def as_reviewed(user: Json) -> Json:
    """Return the user of an admission review as a SubjectAccessReview has it."""
    return {"user": user.get("username", ""), **{k: user[k] for k in ("groups", "uid", "extra") if k in user}}
