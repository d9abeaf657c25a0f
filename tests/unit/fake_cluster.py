"""A Kubernetes API in memory, behind the client's own methods: objects, selectors, conflicts, finalizers, refusals.

It answers requests of `harness.kube.client.Cluster` as an API server does, as far as objects go: no defaults, no
validation, no watches. What a test wants to go wrong is in `refusals`.
"""

from __future__ import annotations

import base64
import copy
import itertools
import re
from collections.abc import Mapping
from typing import Any, Unpack

from harness.kube import resources
from harness.kube.api import RequestOptions
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import Resource

PATH = re.compile(
    r"(?P<group>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
SERVERS_OWN = ("uid", "creationTimestamp", "generation", "deletionTimestamp")
KINDS = {(one.group, one.plural): one.kind for one in vars(resources).values() if isinstance(one, Resource)}
CREATED = "2126-01-01T00:00:00Z"


class FakeCluster(Cluster):
    """Keeps objects.

    Attributes: refusals (by "VERB plural", such as "POST secrets", the failure that such requests get), asked (every
    request so far, as "VERB plural NAME").
    """

    def __init__(self, objects: Mapping[Resource, list[Json]] | None = None) -> None:
        self.refusals: dict[str, ApiFailure] = {}
        self.asked: list[str] = []
        self._versions = itertools.count(1)
        self._objects: dict[tuple[str, str], dict[tuple[str, str], Json]] = {}
        for resource, bodies in (objects or {}).items():
            for body in bodies:
                self.put(resource, body)

    @property
    def server(self) -> str:
        """Return the URL of the API."""
        return "https://fake"

    def put(self, resource: Resource, body: Json) -> Json:
        """Put an object there as it is, in the place of one of its name."""
        meta = body["metadata"]
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **copy.deepcopy(body)}
        full["metadata"] = {"resourceVersion": str(next(self._versions)), **full["metadata"]}
        self._kind(resource.path())[meta.get("namespace", ""), meta["name"]] = full
        return full

    def all(self, resource: Resource) -> list[Json]:
        """Return all objects of a kind, by namespace and name."""
        found = self._kind(resource.path())
        return [found[key] for key in sorted(found)]

    def where(self, method: str, path: str) -> str:
        """Return a request as messages name it."""
        return f"{method} {self.server}{path}"

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Any:
        """Answer one request."""
        match = PATH.fullmatch(path)
        assert match is not None, f"{path} is not the path of an object or of a kind"
        plural, name = match["plural"], match["name"] or dig(options.get("body"), "metadata", "name") or ""
        self.asked.append(f"{method} {plural} {name}".rstrip())
        if (refusal := self.refusals.get(f"{method} {plural}")) is not None:
            raise refusal
        kind, key = self._kind(f"{match['group']}/{plural}"), (match["namespace"] or "", name)
        if match["name"] is None and method == "GET":
            return {
                "metadata": {"resourceVersion": "1"},
                "items": self._chosen(kind, key[0], options.get("query") or {}),
            }
        if isinstance(body := options.get("body"), dict) and method != "DELETE":
            group = match["group"].removeprefix("/apis/").split("/")[0] if match["group"].startswith("/apis/") else ""
            options["body"] = {**({"kind": KINDS[group, plural]} if (group, plural) in KINDS else {}), **body}
        return copy.deepcopy(self._answer(method, kind, key, match["sub"] or "", options))

    def _answer(
        self, method: str, kind: dict[tuple[str, str], Json], key: tuple[str, str], sub: str, options: RequestOptions
    ) -> Json:
        there = kind.get(key)
        body: Json = copy.deepcopy(options.get("body") or {})
        applies = "apply" in options.get("content_type", "")
        if method == "POST" and there is not None:
            raise ApiFailure(409, "AlreadyExists", f"{key[1]} already exists", [], request=method)
        if there is None and method != "POST" and not applies:
            raise ApiFailure(404, "NotFound", f"{key[1]} not found", [], request=method)
        if method == "GET":
            return there or {}
        if method == "DELETE":
            return self._delete(kind, key)
        wanted = body if method in {"POST", "PUT"} else merged(there or {}, body)
        version = dig(wanted, "metadata", "resourceVersion")
        if there is not None and version not in (None, there["metadata"]["resourceVersion"]):
            raise ApiFailure(409, "Conflict", f"{key[1]} has been modified", [], request=method)
        return self._store(kind, key, there, {**there, sub: wanted.get(sub)} if there is not None and sub else wanted)

    def _store(self, kind: dict[tuple[str, str], Json], key: tuple[str, str], there: Json | None, wanted: Json) -> Json:
        former = there["metadata"] if there is not None else {}
        kept = {name: former[name] for name in SERVERS_OWN if name in former}
        meta = {"uid": f"uid-{key[1]}", "creationTimestamp": CREATED, "generation": 1, **wanted["metadata"], **kept}
        if there is not None and there.get("spec") != wanted.get("spec"):
            meta["generation"] = meta["generation"] + 1
        meta["resourceVersion"] = str(next(self._versions))
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            del kind[key]
            return {**wanted, "metadata": meta}
        texts = {name: base64.b64encode(text.encode()).decode() for name, text in wanted.get("stringData", {}).items()}
        kind[key] = {**wanted, **({"data": {**wanted.get("data", {}), **texts}} if texts else {}), "metadata": meta}
        return kind[key]

    def _delete(self, kind: dict[tuple[str, str], Json], key: tuple[str, str]) -> Json:
        found = kind[key]
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = CREATED
        else:
            del kind[key]
        return found

    def _kind(self, path: str) -> dict[tuple[str, str], Json]:
        group, _, plural = path.rpartition("/")
        return self._objects.setdefault((group, plural), {})

    def _chosen(self, kind: dict[tuple[str, str], Json], namespace: str, query: Mapping[str, str]) -> list[Json]:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        found = [one for (where, _), one in sorted(kind.items()) if namespace in ("", where)]
        found = [one for one in found if all(_labelled(one, word) for word in labels.split(",") if word)]
        return copy.deepcopy([one for one in found if all(_has(one, word) for word in fields.split(",") if word)])


def merged(below: Json, patch: Json) -> Json:
    """Return an object after a JSON merge patch (RFC 7386)."""
    made = dict(below)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            made[name] = merged(made[name] if isinstance(made.get(name), dict) else {}, value)
        else:
            made[name] = value
    return made


def _labelled(obj: Json, word: str) -> bool:
    name, equals, value = word.partition("=")
    labels = obj["metadata"].get("labels") or {}
    if word.startswith("!"):
        return word[1:] not in labels
    return labels.get(name) == value.lstrip("=") if equals else name in labels


def _has(obj: Json, word: str) -> bool:
    path, _, value = word.partition("=")
    return str(dig(obj, *path.split(".")) or "") == value.lstrip("=")
