"""A cluster that says of its networks what a test gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.kube.client import ApiFailure, Listing
from harness.kube.resources import Resource

Json = dict[str, Any]


@dataclass
class Cluster:
    """Answers what it has, and 403 for all the rest (or 404, where `absent`)."""

    lists: dict[str, list[Json]] = field(default_factory=dict)
    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    absent: bool = False

    def _refuse(self) -> ApiFailure:
        return ApiFailure(404 if self.absent else 403, "", "no", [], request="GET")

    def get(self, resource: Resource, name: str, namespace: str = "") -> Json | None:
        found = self.objects.get((resource.kind, namespace, name))
        if found is None and not self.absent:
            raise self._refuse()
        return found

    def list(self, resource: Resource) -> Listing:
        if resource.kind not in self.lists:
            raise self._refuse()
        return Listing(self.lists[resource.kind], "1")


def any_of(cluster: Cluster) -> Any:
    return cluster


def named(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def config_map(**data: str) -> Json:
    return {"data": data}
