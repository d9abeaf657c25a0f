"""Control plane latencies: API requests and etcd, from their own Prometheus histograms under a stated load.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. An API server exposes tens
of thousands of lines, of which a general reader would parse all: lines of other metrics are passed over unread here.

The load: ConfigMaps of 1 KiB, each created, read twice, replaced, patched and deleted, with a list of the namespace and
a list of the whole cluster: eight requests, five such rounds a second, from one client.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.spec.models import Timeouts
from harness.validate.facts.cluster import Json
from harness.validate.hosts import MACHINE, run_on_each
from harness.validate.performance.pods import NAME

LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?$")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)\s*')
ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Sample:
    """One sample: its metric's name, its labels, its value."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str, names: Collection[str]) -> list[Sample]:
    """Return the samples with these names.

    Raises:
        ValueError: a line with such a name is malformed.
    """
    prefixes = tuple(names)
    return [_sample(line) for line in text.splitlines() if line.startswith(prefixes) and _name(line) in prefixes]


def _name(line: str) -> str:
    return re.split(r"[{\s]", line, maxsplit=1)[0]


def _sample(line: str) -> Sample:
    match = LINE.match(line.rstrip())
    if match is None:
        raise ValueError(f"not a sample: {line[:200]!r}")
    text, labels, at = match["labels"] or "", {}, 0
    while at < len(text):
        pair = LABEL.match(text, at)
        if pair is None:
            raise ValueError(f"not labels: {line[:200]!r}")
        labels[pair[1]] = ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], pair[2])
        at = pair.end()
    return Sample(match["name"], labels, float(match["value"]))


K = TypeVar("K")
PARTS = ("_bucket", "_sum", "_count")


@dataclass(frozen=True)
class Buckets:
    """How many observations were at most so large, by that bound (the last one is infinite), and their sum."""

    counts: Mapping[float, float]
    total: float = 0.0

    @property
    def count(self) -> float:
        """Return how many observations there were."""
        return self.counts.get(math.inf, 0.0)

    @property
    def mean(self) -> float:
        """Return their mean; 0 without any."""
        return self.total / self.count if self.count else 0.0

    def plus(self, other: Buckets) -> Buckets:
        """Return both together."""
        both = {b: self.counts.get(b, 0.0) + other.counts.get(b, 0.0) for b in (*self.counts, *other.counts)}
        return Buckets(both, self.total + other.total)

    def since(self, before: Buckets) -> Buckets:
        """Return what was observed after an earlier look; all of it where the program has started anew since then."""
        if self.count < before.count:
            return self
        left = {bound: count - before.counts.get(bound, 0.0) for bound, count in self.counts.items()}
        return Buckets(left, self.total - before.total)

    def quantile(self, share: float) -> float:
        """Return a quantile as Prometheus' histogram_quantile does: interpolated within the bucket that it lies in.

        What lies above the last finite bound counts as that bound. 0 without observations.
        """
        rank, below, counted = share * self.count, 0.0, 0.0
        if not self.count:
            return 0.0
        for bound, count in sorted(self.counts.items()):
            if count >= rank:
                if math.isinf(bound):
                    return below
                inside = count - counted
                return below + (bound - below) * ((rank - counted) / inside if inside else 1.0)
            below, counted = bound, count
        return below


def names(metric: str) -> tuple[str, ...]:
    """Return the names of a histogram's samples."""
    return tuple(metric + part for part in PARTS)


def histograms(
    metric_samples: Iterable[Sample], metric: str, by: Callable[[Mapping[str, str]], K | None]
) -> dict[K, Buckets]:
    """Return a metric's histograms, those of the same key together.

    Args:
        by: returns the key of a sample's labels; None for one that does not count.
    """
    made: dict[K, Buckets] = {}
    for sample in metric_samples:
        key = by(sample.labels)
        if key is None:
            continue
        if sample.name == f"{metric}_bucket":
            bucket = Buckets({float(sample.labels["le"]): sample.value})
        elif sample.name == f"{metric}_sum":
            bucket = Buckets({}, sample.value)
        else:
            continue
        made[key] = made[key].plus(bucket) if key in made else bucket
    return made


def between(before: Mapping[K, Buckets], after: Mapping[K, Buckets]) -> dict[K, Buckets]:
    """Return what was observed between two looks, by key; without what nothing was observed of."""
    nothing = Buckets({})
    differences = {key: buckets.since(before.get(key, nothing)) for key, buckets in after.items()}
    return {key: buckets for key, buckets in differences.items() if buckets.count}


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
        counts = {verb: sum(b.count for key, b in self.requests.items() if key.split()[0] == verb) for verb in VERBS}
        made = {verb: times * ROUNDS for verb, times in VERBS.items()}
        return [f"{verb}: {counts[verb]:.0f} of {made[verb]}" for verb in VERBS if counts[verb] < made[verb]]


def api_times(api: Cluster) -> ApiTimes:
    """Put the load on the API; return what its histograms say of it."""
    before, stored = _look(api)
    rounds(api, ROUNDS)
    after, storing = _look(api)
    etcd_requests = between(stored, storing)
    return ApiTimes(between(before, after), etcd_requests.get(RESOURCE, Buckets({})))


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
    metric_samples = samples(text, {*names(REQUESTS), *names(STORAGE)})
    return histograms(metric_samples, REQUESTS, _request), histograms(metric_samples, STORAGE, _stored)


def _request(labels: Mapping[str, str]) -> str | None:
    counts = labels.get("resource") == RESOURCE and not labels.get("subresource") and not labels.get("dry_run")
    return f"{labels['verb']} {labels['scope']}" if counts and labels.get("verb") in VERBS else None


def _stored(labels: Mapping[str, str]) -> str | None:
    """Return the resource; before 1.34 it is part of the label `type`."""
    return RESOURCE if RESOURCE in (labels.get("resource"), labels.get("type", "").rpartition("/")[2]) else None


ETCD_METRICS = MACHINE / "etcd_metrics.py"
METRICS = {"fsync": "etcd_disk_wal_fsync_duration_seconds", "commit": "etcd_disk_backend_commit_duration_seconds"}

Seen = dict[str, Buckets]  # by name of METRICS


def etcd_times(hosts: Mapping[str, Any], timeouts: Timeouts, load: Callable[[], None]) -> dict[str, Seen]:
    """Return what each member's histograms counted during a load, by machine and by name.

    Args:
        hosts: the machines with a member.

    Raises:
        InfraError: a machine does not answer.
    """
    before = _etcd_histograms(hosts, timeouts)
    load()
    after = _etcd_histograms(hosts, timeouts)
    return {name: between(before.get(name, {}), buckets) for name, buckets in after.items()}


def _etcd_histograms(hosts: Mapping[str, Any], timeouts: Timeouts) -> dict[str, Seen]:
    options = {"names": list(METRICS.values())}
    return run_on_each(hosts, ETCD_METRICS, histograms_of, timeouts, given=dict.fromkeys(hosts, options))


def histograms_of(raw: Mapping[str, Any] | None) -> Seen:
    """Return a member's histograms; none where no member runs, or where it does not tell."""
    lines = "\n".join(raw["lines"]) if raw is not None else ""
    histograms_by_name: Seen = {}
    for name, metric in METRICS.items():
        histograms_by_name |= histograms(samples(lines, names(metric)), metric, partial(_all, name))
    return histograms_by_name


def _all(name: str, _: Mapping[str, str]) -> str:
    """Return the same key whatever the labels: a member has one histogram of each."""
    return name
