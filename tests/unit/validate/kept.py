"""The API of the recorded guest: its objects as they were, changed as a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Answer, Listing
from harness.kube.resources import Resource
from tests.unit.validate import guests
from tests.unit.validate.guests import Json

Objects = dict[str, list[Json]]
RIGHTS = "/apis/authorization.k8s.io/v1/"
Allowed = Callable[[Json], bool]


def recorded(file: str) -> Any:
    """Return what a file of recordings holds."""
    return json.loads((guests.RECORDED / file).read_text(encoding="utf-8"))


def is_self(spec: Json) -> bool:
    """Tell whether a review is about who asks: the admin."""
    return "user" not in spec


class KeptApi(Cluster):
    """Lists and gets the recorded objects.

    change: of the objects, by plural.  allowed: answers reviews of rights.  answers: of other paths.
    """

    def __init__(
        self,
        change: Callable[[Objects], None] = lambda _: None,
        *,
        allowed: Allowed = is_self,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        super().__init__(guests.NOWHERE)
        self.objects: Objects = recorded("objects.json")
        change(self.objects)
        self.allowed = allowed
        self.answers = answers or {}
        self.reviews: list[Json] = []

    def list(self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        return Listing(self.objects.get(resource.plural, []), "1")

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        found = (one for one in self.objects.get(resource.plural, []) if one["metadata"]["name"] == name)
        return next(found, None)

    def request(self, method: str, path: str, **given: Any) -> Any:
        assert path.startswith(RIGHTS), path
        self.reviews.append(given["body"]["spec"])
        return {"status": {"allowed": self.allowed(given["body"]["spec"])}}

    def send(self, method: str, path: str, **_: Any) -> Answer:
        return self.answers[path]


def named(objects: list[Json], name: str) -> Json:
    """Return the object of a name."""
    return next(one for one in objects if one["metadata"]["name"] == name)
