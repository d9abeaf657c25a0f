"""What a manager counts and measures, as Prometheus reads it; docs/operator/webhooks.md lists it.

Names: https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from harness.kube.client import Json
from harness.kube.objects import condition, dig, parse_time, phase
from harness.kube.reconcile import Controller
from harness.operator.api.conditions import BACKUP_FRESH, BACKUP_PROVEN
from harness.operator.api.etcd import VERIFIED


class Family(NamedTuple):
    """One metric: its name, what kind it is, what it says, and the names of its labels."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()

    def of(self, samples: Mapping[tuple[str, ...], float]) -> Metric:
        """Return the metric with these samples, by the values of its labels."""
        made = Metric(self.name.removesuffix("_total"), self.text, self.kind)
        for values, value in samples.items():
            made.add_sample(self.name, dict(zip(self.labels, values, strict=True)), value)
        return made


class _Looked(Collector):
    """Metrics that are looked up at the moment that they are asked for."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        yield from self._metrics


def text_of(*metrics: Metric) -> str:
    """Return metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Looked(metrics))
    return generate_latest(registry).decode()


_P = "vmatrix_operator_"
_CONTROLLER = ("controller",)
LEADING = Family(f"{_P}leading", "gauge", "Whether this manager works (1) or waits for its Lease (0).")
RENEWED = Family(f"{_P}lease_renewed_timestamp_seconds", "gauge", "When this manager last renewed its Lease; 0: never.")
RECONCILES = Family(f"{_P}reconciles_total", "counter", "Looks at objects.", _CONTROLLER)
ERRORS = Family(f"{_P}reconcile_errors_total", "counter", "Looks at objects that failed.", _CONTROLLER)
QUEUE = Family(f"{_P}queue_length", "gauge", "Objects that are to be looked at now, or are looked at.", _CONTROLLER)
OPERATIONS = Family(
    f"{_P}operations_total", "counter", "Operations that ended while this manager worked.", ("operation", "outcome")
)
SECONDS = Family(
    f"{_P}operation_duration_seconds", "histogram", "From the start of a Job to its end.", ("operation", "outcome")
)
_CLUSTER = ("cluster_namespace", "cluster")
CLUSTERS = Family(
    f"{_P}cluster_condition",
    "gauge",
    "1: a ClusterDeployment or an EtcdCluster has this condition.",
    (*_CLUSTER, "condition", "status"),
)
VERSIONS = Family(f"{_P}cluster_version", "gauge", "1: this version of Kubernetes is deployed.", (*_CLUSTER, "version"))
CERTIFICATES = Family(
    f"{_P}cluster_certificate_expires_timestamp_seconds", "gauge", "When the first certificate expires.", _CLUSTER
)
AUTHORITIES = Family(
    f"{_P}cluster_authority_expires_timestamp_seconds", "gauge", "When a CA expires.", (*_CLUSTER, "authority")
)
USERS = Family(
    f"{_P}user_certificate_expires_timestamp_seconds",
    "gauge",
    "When the certificate of a ClusterUser expires.",
    (*_CLUSTER, "user"),
)
BACKUPS = Family(
    f"{_P}cluster_backup_taken_timestamp_seconds", "gauge", "When the newest verified EtcdBackup was taken.", _CLUSTER
)
FRESH = Family(
    f"{_P}cluster_backup_fresh", "gauge", "Whether the newest backup is as young as its schedule promises.", _CLUSTER
)
PROVEN = Family(
    f"{_P}cluster_backup_proven", "gauge", "Whether drills have proven a backup as lately as their schedule.", _CLUSTER
)
_MEMBER = (*_CLUSTER, "machine")
QUOTA_USED = Family(f"{_P}etcd_quota_used_ratio", "gauge", "How much of its quota a member's file fills.", _MEMBER)
FREE = Family(f"{_P}etcd_free_bytes", "gauge", "What a defragmentation of the member would give back.", _MEMBER)
ALARMS = Family(f"{_P}etcd_alarm", "gauge", "1: the member has this alarm.", (*_MEMBER, "alarm"))
FSYNC = Family(f"{_P}etcd_fsync_seconds", "gauge", "Within which 99 in 100 writes to its disk ended.", _MEMBER)
TRIPS = Family(f"{_P}etcd_round_trip_seconds", "gauge", "Within which 99 in 100 round trips to peers ended.", _MEMBER)
RUNNING = Family(
    f"{_P}cluster_operation_started_timestamp_seconds",
    "gauge",
    "When the operation began that runs.",
    (*_CLUSTER, "operation"),
)
APPROVALS = Family(
    f"{_P}cluster_approval_pending", "gauge", "1: an operation waits for an approval.", (*_CLUSTER, "operation")
)
MACHINES = Family(f"{_P}machines", "gauge", "Machines by phase.", ("phase",))
BUILDS = Family(f"{_P}builds_total", "counter", "Builds of Deliveries that ended, by how.", ("result",))
BUILD_SECONDS = Family(f"{_P}build_duration_seconds", "histogram", "From the start of a build to its end.", ("result",))
DELIVERED = Family(f"{_P}delivery_duration_seconds", "histogram", "From a commit until it was ready.")
DELIVERIES = Family(
    f"{_P}delivery_condition",
    "gauge",
    "1: a Delivery has this condition.",
    ("delivery_namespace", "delivery", "condition", "status"),
)
WEBHOOKS = Family(f"{_P}webhook_requests_total", "counter", "Requests that webhooks judged.", ("webhook", "outcome"))
WEBHOOK_SECONDS = Family(f"{_P}webhook_duration_seconds", "histogram", "Time to judge a request.", ("webhook",))
EXPIRES = Family(
    f"{_P}webhook_certificate_expires_timestamp_seconds", "gauge", "Until when the webhooks' certificate is valid."
)
FAMILIES = (
    *(LEADING, RENEWED, RECONCILES, ERRORS, QUEUE, OPERATIONS, SECONDS),
    *(CLUSTERS, VERSIONS, CERTIFICATES, AUTHORITIES, USERS, BACKUPS, FRESH, PROVEN, RUNNING, APPROVALS),
    *(QUOTA_USED, FREE, ALARMS, FSYNC, TRIPS),
    *(MACHINES, BUILDS, BUILD_SECONDS, DELIVERED, DELIVERIES, WEBHOOKS, WEBHOOK_SECONDS, EXPIRES),
)
OPERATION_BOUNDS = (30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)  # a deployment takes one to five minutes
BUILD_BOUNDS = (5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0, 1800.0)  # one with a cache takes some ten seconds
DELIVERY_BOUNDS = (10.0, 20.0, 30.0, 40.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0)  # 40 s is what is aimed at
WEBHOOK_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # as of most libraries


class Metrics:
    """What one manager counts; thread-safe."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # when each was made first says nothing
        self._registry = CollectorRegistry()
        self._ended = Counter(OPERATIONS.name, OPERATIONS.text, OPERATIONS.labels, registry=self._registry)
        self._seconds = self._histogram(SECONDS, OPERATION_BOUNDS)
        self._built = Counter(BUILDS.name, BUILDS.text, BUILDS.labels, registry=self._registry)
        self._building = self._histogram(BUILD_SECONDS, BUILD_BOUNDS)
        self._delivered = self._histogram(DELIVERED, DELIVERY_BOUNDS)
        self._judged = Counter(WEBHOOKS.name, WEBHOOKS.text, WEBHOOKS.labels, registry=self._registry)
        self._judging = self._histogram(WEBHOOK_SECONDS, WEBHOOK_BOUNDS)

    def _histogram(self, family: Family, bounds: tuple[float, ...]) -> Histogram:
        return Histogram(family.name, family.text, family.labels, buckets=bounds, registry=self._registry)

    def operation_ended(self, operation: str, outcome: str, seconds: float | None = None) -> None:
        """Tally an operation that ended with an outcome, after so many seconds if that is known."""
        self._ended.labels(operation, outcome).inc()
        if seconds is not None:
            self._seconds.labels(operation, outcome).observe(seconds)

    def build_ended(self, result: str, seconds: float | None) -> None:
        """Tally a build that ended: succeeded, or one word for why not."""
        self._built.labels(result).inc()
        if seconds is not None:
            self._building.labels(result).observe(seconds)

    def delivered(self, seconds: float | None) -> None:
        """Tally a revision that is ready, so many seconds after its commit."""
        if seconds is not None:
            self._delivered.observe(seconds)

    def webhook_answered(self, path: str, outcome: str, seconds: float) -> None:
        """Tally what a webhook was asked, by its path."""
        self._judged.labels(path.removeprefix("/"), outcome).inc()
        self._judging.labels(path.removeprefix("/")).observe(seconds)

    def text(self, controllers: Iterable[Controller], *, leading: bool) -> str:
        """Return what is counted; `leading`: whether this manager is the one that works."""
        known = list(controllers)
        return generate_latest(self._registry).decode() + text_of(
            LEADING.of({(): leading}),
            RECONCILES.of({(controller.name,): controller.reconciles for controller in known}),
            ERRORS.of({(controller.name,): controller.errors for controller in known}),
            QUEUE.of({(controller.name,): controller.queue.pending() for controller in known}),
        )


@dataclass(frozen=True)
class DeclaredObjects:
    """All objects that the manager which works knows."""

    deployments: Sequence[Json] = ()
    clusters: Sequence[Json] = ()
    machines: Sequence[Json] = ()
    backups: Sequence[Json] = ()
    deliveries: Sequence[Json] = ()
    users: Sequence[Json] = ()
    etcds: Sequence[Json] = ()

    def text(self) -> str:
        """Return how they are."""
        phases = Tally((phase(machine) or "Pending",) for machine in self.machines)
        return text_of(
            CLUSTERS.of(_conditions((*self.deployments, *self.etcds))),
            DELIVERIES.of(_conditions(self.deliveries)),
            VERSIONS.of({(*_named(cd), version): 1 for cd in self.deployments if (version := _of(cd, "version"))}),
            CERTIFICATES.of(self._certificates()),
            AUTHORITIES.of(
                {
                    (*_named(cluster), part["name"]): _seconds(part["expires"])
                    for cluster in self.clusters
                    for part in dig(cluster, "status", "authority", "parts") or ()
                    if part.get("expires")
                }
            ),
            USERS.of(
                {
                    (user["metadata"]["namespace"], user["spec"]["cluster"], user["metadata"]["name"]): _seconds(
                        expires
                    )
                    for user in self.users
                    if (expires := _of(user, "expires"))
                }
            ),
            BACKUPS.of(self._newest_backups()),
            FRESH.of(self._told(BACKUP_FRESH)),
            PROVEN.of(self._told(BACKUP_PROVEN)),
            RUNNING.of(
                {
                    (*_named(cluster), now["operation"]): _seconds(now["started"])
                    for cluster in self.clusters
                    if (now := _of(cluster, "operation")) and now.get("started")
                }
            ),
            APPROVALS.of(
                {
                    (*_named(cluster), wait["operation"]): 1
                    for cluster in self.clusters
                    if (wait := _of(cluster, "approval"))
                }
            ),
            *self._members(),
            MACHINES.of(dict(sorted(phases.items()))),
        )

    def _members(self) -> list[Metric]:
        """Return what members of etcd say of themselves."""
        known: dict[tuple[str, ...], Json] = {
            (*_named(machine)[:1], dig(machine, "spec", "claim", "cluster"), _named(machine)[1]): state
            for machine in self.machines
            if (state := _of(machine, "etcd")) and dig(machine, "spec", "claim", "cluster")
        }
        return [
            QUOTA_USED.of(
                {key: state["sizeMiB"] / state["quotaMiB"] for key, state in known.items() if state.get("quotaMiB")}
            ),
            FREE.of({key: state["freeMiB"] * (1 << 20) for key, state in known.items()}),
            ALARMS.of({(*key, state["alarm"]): 1 for key, state in known.items() if state.get("alarm")}),
            FSYNC.of(_in_seconds(known, "fsyncMilliseconds")),
            TRIPS.of(_in_seconds(known, "roundTripMilliseconds")),
        ]

    def _told(self, kind: str) -> dict[tuple[str, ...], float]:
        """Return whether a condition holds, of the clusters that can tell."""
        told = {_named(obj): condition(obj, kind) or {} for obj in (*self.deployments, *self.etcds)}
        return {
            key: condition_of["status"] == "True"
            for key, condition_of in told.items()
            if condition_of.get("status") in ("True", "False")
        }

    def _certificates(self) -> dict[tuple[str, ...], float]:
        """Return when the first certificate of each cluster's machines expires."""
        first: dict[tuple[str, ...], float] = {}
        for machine in self.machines:
            cluster, dates = dig(machine, "spec", "claim", "cluster"), _of(machine, "certificates") or {}
            for date in filter(None, (dates.get("firstExpiry"), dates.get("otherExpiry"))) if cluster else ():
                key = (machine["metadata"]["namespace"], cluster)
                first[key] = min(first.get(key, math.inf), _seconds(date))
        return first

    def _newest_backups(self) -> dict[tuple[str, ...], float]:
        newest: dict[tuple[str, ...], float] = {}
        for backup in self.backups:
            if phase(backup) == VERIFIED and (taken := _of(backup, "taken")):
                key = (backup["metadata"]["namespace"], backup["spec"]["cluster"])
                newest[key] = max(newest.get(key, 0.0), _seconds(taken))
        return newest


def _in_seconds(states: Mapping[tuple[str, ...], Json], name: str) -> dict[tuple[str, ...], float]:
    return {key: state[name] / 1000 for key, state in states.items() if state.get(name)}


def _conditions(objects: Sequence[Json]) -> dict[tuple[str, ...], float]:
    return {
        (*_named(obj), condition_of["type"], condition_of["status"]): 1
        for obj in objects
        for condition_of in _of(obj, "conditions") or ()
    }


def _named(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _of(obj: Json, name: str) -> Any:
    return dig(obj, "status", name)


def _seconds(moment: str) -> float:
    return parse_time(moment).timestamp()


def of_moments(renewed: float | None, expires: float | None) -> str:
    """Return when the Lease was last renewed, and until when the webhooks' certificate is valid, where there is one."""
    moments = ((RENEWED, renewed), (EXPIRES, expires))
    return text_of(*(family.of({(): moment}) for family, moment in moments if moment is not None))
