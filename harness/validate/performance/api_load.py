"""How long API requests take by verb and scope, from the API server's own histograms under a stated load.

The load: ConfigMaps of 1 KiB, each created, read twice, replaced, patched and deleted, with a list of the namespace and
a list of the whole cluster: eight requests, five such rounds a second, from one client.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.validate.facts.cluster import Json
from harness.validate.performance.exposition import samples
from harness.validate.performance.histogram import Buckets, between, histograms, names
from harness.validate.performance.pods import NAME

ROUNDS, ROUNDS_PER_SECOND = 75, 5.0
BYTES = 1024
REQUESTS = "apiserver_request_duration_seconds"
STORAGE = "etcd_request_duration_seconds"  # of the API server: how long etcd took for it
RESOURCE = "configmaps"
VERBS = {"POST": 1, "GET": 2, "PUT": 1, "PATCH": 1, "DELETE": 1, "LIST": 2}  # -> times in a round


@dataclass(frozen=True)
class ApiTimes:
    """What an API server counted during the load: by verb and scope ("GET resource"), and its requests to etcd."""

    requests: Mapping[str, Buckets]
    storage: Buckets

    def missing(self) -> list[str]:
        """Return the verbs of which it counted fewer requests than were made: others answered them."""
        seen = {verb: sum(b.count for key, b in self.requests.items() if key.split()[0] == verb) for verb in VERBS}
        made = {verb: times * ROUNDS for verb, times in VERBS.items()}
        return [f"{verb}: {seen[verb]:.0f} of {made[verb]}" for verb in VERBS if seen[verb] < made[verb]]


def api_times(api: Cluster) -> ApiTimes:
    """Put the load on the API; return what its histograms say of it."""
    before, stored = _look(api)
    rounds(api, ROUNDS)
    after, storing = _look(api)
    found = between(stored, storing)
    return ApiTimes(between(before, after), found.get(RESOURCE, Buckets({})))


def rounds(api: Cluster, number: int) -> None:
    """Make so many rounds of requests, at their rate or as fast as the API answers."""
    began = time.monotonic()
    for count in range(number):
        time.sleep(max(0.0, began + count / ROUNDS_PER_SECOND - time.monotonic()))
        _round(api, f"load-{count}")


def _round(api: Cluster, name: str) -> None:
    body: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAME},
        "data": {"load": "x" * BYTES},
    }
    api.create(CONFIG_MAP, body)
    api.get(CONFIG_MAP, name, NAME)
    api.replace(CONFIG_MAP, {**body, "data": {"load": "y" * BYTES}})
    api.get(CONFIG_MAP, name, NAME)
    api.merge(CONFIG_MAP, name, {"data": {"more": "z"}}, NAME)
    api.list(CONFIG_MAP, NAME)
    api.list(CONFIG_MAP)
    api.delete(CONFIG_MAP, name, NAME)


def _look(api: Cluster) -> tuple[dict[str, Buckets], dict[str, Buckets]]:
    """Return the API server's histograms: of requests by verb and scope, and of what it asked etcd."""
    text = str(api.request("GET", "/metrics"))
    found = samples(text, {*names(REQUESTS), *names(STORAGE)})
    return histograms(found, REQUESTS, _request), histograms(found, STORAGE, _stored)


def _request(labels: Mapping[str, str]) -> str | None:
    counts = labels.get("resource") == RESOURCE and not labels.get("subresource") and not labels.get("dry_run")
    return f"{labels['verb']} {labels['scope']}" if counts and labels.get("verb") in VERBS else None


def _stored(labels: Mapping[str, str]) -> str | None:
    """Return the resource; before 1.34 it is part of the label `type`."""
    return RESOURCE if RESOURCE in (labels.get("resource"), labels.get("type", "").rpartition("/")[2]) else None
