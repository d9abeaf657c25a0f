"""A real API server that stands for a guest's: the way to it, and a namespace of a test's own in it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, Resource
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.unit.operator.api.objects import wanted_set


def web(name: str, image: str = "web:1", replicas: int = 0) -> Json:
    """Return a Deployment; without replicas it is complete where no node runs pods."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def service(name: str) -> Json:
    """Return a Service."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def config(name: str, **data: str) -> Json:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@dataclass
class PlayedGuest:
    """A cluster named one whose guest is `api`, in which `space` is a namespace of the test's own."""

    declared: Declared
    api: Cluster
    space: str
    addon: str = field(default_factory=lambda: f"a-{secrets.token_hex(3)}")

    @property
    def parent(self) -> str:
        """Return the name of the set's object."""
        return f"vmatrix-addon-{self.addon}"

    def within(self, obj: Json) -> Json:
        """Return an object in the guest's namespace."""
        return {**obj, "metadata": {"namespace": self.space, **obj["metadata"]}}

    def give(self, *objects: Json, **texts: str) -> None:
        """Have the ConfigMap of manifests hold objects, and texts under further keys."""
        data = {"all.yml": yaml.safe_dump_all([self.within(obj) for obj in objects])} if objects else {}
        body = CONFIG_MAP.manifest("shop", self.declared.namespace, labels={})
        found = self.api.get(CONFIG_MAP, "shop", self.declared.namespace)
        made = {**body, "data": {**data, **{name.replace("_", "."): text for name, text in texts.items()}}}
        self.api.replace(CONFIG_MAP, {**made, "metadata": found["metadata"]}) if found else self.api.create(
            CONFIG_MAP, made
        )

    def entry(self, **source: str) -> Json:
        """Return the add-on as the spec has it."""
        return {"name": self.addon, "manifests": source or {"configMap": "shop"}}

    def declare(self, *addons: Json, **spec: Any) -> None:
        """Declare the cluster, and have it deployed."""
        self.declared.deployment("one", wanted_set("cp", "control-plane"), addons=list(addons), **spec)
        self.declared.worked("one", "deploy", "m-0")

    def edit(self, *addons: Json) -> None:
        """Give the spec other add-ons."""
        self.api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"addons": list(addons)}}, self.declared.namespace)

    def state(self, name: str = "") -> Json:
        """Return what is told of an add-on."""
        told = dig(self.declared.get("one", CLUSTER), "status", "addons") or []
        return next((one for one in told if one["name"] == (name or self.addon)), {})

    def told(self, reason: str, words: str = "", name: str = "") -> Json:
        """Return what is told of an add-on once it has a reason and words."""

        def look() -> Json | NotYet:
            found = self.state(name)
            good = found.get("reason") == reason and words in found.get("message", "")
            return found if good else NotYet(f"it says {found}")

        return until(look, deadline=Deadline.after(WAIT_SECONDS), what=f"{reason}: {words}", interval=INTERVAL)

    def get(self, kind: Resource, name: str) -> Json | None:
        """Return an object of the guest's namespace."""
        return self.api.get(kind, name, self.space if kind.namespaced else None)

    def seen(self, kind: Resource, name: str, wanted: Callable[[Json], bool] = lambda _: True) -> Json:
        """Return an object of the guest once it is as wanted."""

        def look() -> Json | NotYet:
            found = self.get(kind, name)
            return found if found is not None and wanted(found) else NotYet(f"it is {found}")

        what = f"{kind.kind} {name} as wanted"
        return until(look, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)

    def gone(self, kind: Resource, name: str) -> None:
        """Wait until an object of the guest is gone."""

        def look() -> bool | NotYet:
            return self.get(kind, name) is None or NotYet("it is there")

        what = f"{kind.kind} {name} to be gone"
        until(look, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)
