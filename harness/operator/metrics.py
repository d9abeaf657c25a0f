"""What a manager counts and measures, as Prometheus reads it; docs/operator/webhooks.md lists it.

Names: https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.kube.client import Json
from harness.kube.exposition import Family, Histogram, Tally
from harness.kube.objects import dig, phase
from harness.kube.reconcile import Controller

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
CLUSTERS = Family(f"{_P}clusters", "gauge", "ClusterDeployments by condition.", ("condition", "status"))
MACHINES = Family(f"{_P}machines", "gauge", "Machines by phase.", ("phase",))
WEBHOOKS = Family(f"{_P}webhook_requests_total", "counter", "Requests that webhooks judged.", ("webhook", "outcome"))
WEBHOOK_SECONDS = Family(f"{_P}webhook_duration_seconds", "histogram", "Time to judge a request.", ("webhook",))
EXPIRES = Family(
    f"{_P}webhook_certificate_expires_timestamp_seconds", "gauge", "Until when the webhooks' certificate is valid."
)
FAMILIES = (
    *(LEADING, RENEWED, RECONCILES, ERRORS, QUEUE, OPERATIONS, SECONDS),
    *(CLUSTERS, MACHINES, WEBHOOKS, WEBHOOK_SECONDS, EXPIRES),
)
OPERATION_BOUNDS = (30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)  # a deployment takes one to five minutes
WEBHOOK_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # as of most libraries


class Metrics:
    """What one manager counts; thread-safe."""

    def __init__(self) -> None:
        self._ended = Tally(OPERATIONS)
        self._seconds = Histogram(SECONDS, OPERATION_BOUNDS)
        self._judged = Tally(WEBHOOKS)
        self._judging = Histogram(WEBHOOK_SECONDS, WEBHOOK_BOUNDS)

    def operation_ended(self, operation: str, outcome: str, seconds: float | None = None) -> None:
        """Tally an operation that ended with an outcome, after so many seconds if that is known."""
        self._ended.add(operation, outcome)
        if seconds is not None:
            self._seconds.observe(seconds, operation, outcome)

    def webhook_answered(self, path: str, outcome: str, seconds: float) -> None:
        """Tally what a webhook was asked, by its path."""
        self._judged.add(path.removeprefix("/"), outcome)
        self._judging.observe(seconds, path.removeprefix("/"))

    def text(self, controllers: Iterable[Controller], *, leading: bool) -> str:
        """Return what is counted; `leading`: whether this manager is the one that works."""
        known = list(controllers)
        return "".join(
            (
                LEADING.lines({(): leading}),
                RECONCILES.lines({(one.name,): one.reconciles for one in known}),
                ERRORS.lines({(one.name,): one.errors for one in known}),
                QUEUE.lines({(one.name,): one.queue.pending() for one in known}),
                *(counted.lines() for counted in (self._ended, self._seconds, self._judged, self._judging)),
            )
        )


def of_objects(deployments: Iterable[Json], machines: Iterable[Json]) -> str:
    """Return how many objects are how; of the manager that works, which alone has them."""
    clusters = Counter(
        (str(one["type"]), str(one["status"])) for cd in deployments for one in dig(cd, "status", "conditions") or ()
    )
    phases = Counter((phase(machine) or "Pending",) for machine in machines)
    return CLUSTERS.lines(dict(sorted(clusters.items()))) + MACHINES.lines(dict(sorted(phases.items())))


def of_moments(renewed: float | None, expires: float | None) -> str:
    """Return when the Lease was last renewed, and until when the webhooks' certificate is valid, where there is one."""
    made = RENEWED.lines({(): renewed}) if renewed is not None else ""
    return made + (EXPIRES.lines({(): expires}) if expires is not None else "")
