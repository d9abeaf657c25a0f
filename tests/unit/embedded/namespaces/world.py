"""An API that has namespaces and what is in them, and that records what it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from harness.embedded.context import Context
from harness.embedded.namespaces.controller import ALL, Ending, Namespaces
from harness.kube.client import ApiFailure, Cluster, Unreachable
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.resources import NAMESPACE
from harness.model import LABEL_CELL

Json = dict[str, Any]
MOMENT = "2026-01-01T00:00:00Z"
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def served_as(resource: str, *, verbs: list[str] | None = None, scope: str = "Namespaced") -> Json:
    """Return a kind as aggregated discovery shows it."""
    kind = {"group": "", "version": "", "kind": resource.title()}
    return {"resource": resource, "responseKind": kind, "scope": scope, "verbs": VERBS if verbs is None else verbs}


def group(name: str, *resources: Json, version: str = "v1", freshness: str = "Current") -> Json:
    """Return a group of one version as aggregated discovery shows it."""
    metadata = {"name": name} if name else {"creationTimestamp": None}
    return {"metadata": metadata, "versions": [{"version": version, "freshness": freshness, "resources": [*resources]}]}


def namespace(name: str, *, uid: str = "", finalizers: tuple[str, ...] = ("kubernetes",), cell: bool = True) -> Json:
    """Return a namespace that is being deleted; `cell`: of a cell."""
    meta: Json = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": "1", "deletionTimestamp": MOMENT}
    meta["labels"] = {LABEL_CELL: name} if cell else {}
    return {"metadata": meta, "spec": {"finalizers": [*finalizers]}, "status": {"phase": "Terminating"}}


class ApiOfNamespaces:
    """The API. `content`: names by (plural, namespace); `held`: finalizers of objects, by name."""

    def __init__(self, *namespaces: Json) -> None:
        self.groups = [group("", served_as("pods"), served_as("configmaps"), served_as("secrets"))]
        self.content: dict[tuple[str, str], list[str]] = {}
        self.held: dict[str, list[str]] = {}
        self.going: set[str] = set()  # what is being deleted and held
        self.refused: dict[tuple[str, str], ApiFailure | Unreachable] = {}  # by method and path
        self.asked: list[str] = []
        self.written: list[Json] = []
        self.informers = Informers(cast(Cluster, self))
        context = Context(cast(Cluster, self), self.informers, cast(Events, None), Path(), 0, "node")
        self.namespaces = Namespaces(context, cast(Cluster, self))
        for one in namespaces:
            self.informers.of(NAMESPACE).observe(one)

    def object(self, method: str, path: str, *, body: Json | None = None, accept: str = "") -> Json:
        """Answer one request."""
        return cast(Json, self.request(method, path, body=body, accept=accept))

    def request(self, method: str, path: str, *, body: Json | None = None, accept: str = "") -> Any:
        """Answer one request."""
        self.asked.append(f"{method} {path}")
        if (method, path) in self.refused:
            raise self.refused[method, path]
        if path in ("/api", "/apis"):
            assert "APIGroupDiscoveryList" in accept
            return {"items": [one for one in self.groups if bool(one["metadata"].get("name")) == (path == "/apis")]}
        if method == "PUT":
            assert body is not None
            self.written.append(body)
            return body
        parts = path.split("/")
        inside = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        rest = parts[parts.index("namespaces") + 2 :] if inside else parts[-1:]
        if method == "GET":
            assert "PartialObjectMetadataList" in accept
            return {"items": [{"metadata": one} for one in self._metas(rest[0], inside)]}
        self._delete(rest[0], inside, rest[1:])
        return {}

    def _metas(self, plural: str, inside: str) -> list[Json]:
        return [
            {
                "name": name,
                "namespace": space,
                "finalizers": self.held.get(name, []),
                **({"deletionTimestamp": MOMENT} if name in self.going else {}),
            }
            for (kind, space), names in self.content.items()
            for name in names
            if kind == plural and inside in ("", space)
        ]

    def _delete(self, plural: str, inside: str, only: list[str]) -> None:
        names = self.content.get((plural, inside), [])
        self.going |= {name for name in names if name in self.held and name in (only or names)}
        self.content[plural, inside] = [name for name in names if name in self.held or (only and name not in only)]

    def look(self) -> bool:
        """Let the controller look once; tell whether something is still to end."""
        return self.namespaces.reconcile(ALL) is not None

    def ended(self) -> list[str]:
        """Return the namespaces that were ended, in their order."""
        return [asked.split("/")[-2] for asked in self.asked if asked.startswith("PUT") and asked.endswith("/finalize")]


def without_pause(ending: Ending) -> None:
    """Stand for Ending.wait: look again at once."""
    ending.due = 0.0
