"""The objects of add-ons, roles and bindings of a cell with add-ons, as its API listed them, with changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from harness.kube.client import Listing
from harness.kube.resources import Resource
from harness.validate.expected import ExpectedGuest
from tests.unit.validate import guests
from tests.unit.validate.guests import Json
from tests.unit.validate.kept import KeptApi, Objects, recorded

ADD_ONS = {"cluster_metrics_server_version": "0.9.0", "cluster_local_path_provisioner_version": "0.0.30"}
VARIABLES: Json = {**guests.VARIABLES, **ADD_ONS, "cluster_image_registry": "10.222.0.1:5000"}


def expected(more: Mapping[str, Any] | None = None) -> ExpectedGuest:
    """Return what the recorded cell must look like."""
    return guests.expected(variables={**VARIABLES, **(more or {})})


@cache
def _recorded() -> Objects:
    found: Objects = recorded("installed.json")
    return found


class InstalledApi(KeptApi):
    """Lists the recorded objects, changed."""

    def __init__(self, change: Callable[[Objects], None] = lambda _: None) -> None:
        super().__init__()
        self.objects = copy.deepcopy(_recorded())
        change(self.objects)

    def list(self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Return the objects of a kind."""
        return Listing(self.objects.get(resource.plural, []), "1")


def of(objects: Objects, plural: str, name: str, namespace: str = "") -> Json:
    """Return an object by its kind and name."""
    return next(
        one
        for one in objects[plural]
        if one["metadata"]["name"] == name and (not namespace or one["metadata"].get("namespace") == namespace)
    )
