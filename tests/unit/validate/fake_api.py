"""An API of a guest that remembers what was created and lists what it is given."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.client import Listing
from harness.kube.resources import DEPLOYMENT, Resource
from tests.unit.validate.guests import Json


class Api:
    """An API in which pods are ready at once, or never."""

    server = "https://10.222.1.2:6443"

    def __init__(self, *, ready: int = 2, lists: dict[Resource, list[Json]] | None = None) -> None:
        self.ready = ready
        self.lists = lists or {}
        self.made: dict[str, Json] = {}

    def ensure(self, resource: Resource, body: Json) -> Json:
        self.made[resource.kind] = body
        return {**body, "spec": {**body.get("spec", {}), "clusterIP": "10.95.1.2"}}

    create = ensure

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return {"status": {"readyReplicas": self.ready}} if resource is DEPLOYMENT else {"metadata": {"name": name}}

    def list(self, resource: Resource, namespace: str | None = None, **_: str) -> Listing:
        return Listing(self.lists.get(resource, []), "1")

    def events_of(self, namespace: str, name: str) -> Sequence[str]:
        return [f"Warning Failed: {name} has no image"]
