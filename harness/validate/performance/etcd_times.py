"""How long each etcd member takes to write its log and its data, from its own histograms, while the API writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from harness.spec.models import Timeouts
from harness.validate.performance.exposition import samples
from harness.validate.performance.histogram import Buckets, between, histograms, names
from harness.validate.remote.hosts import MACHINE, run_on_each

PROGRAM = MACHINE / "etcd_metrics.py"
METRICS = {"fsync": "etcd_disk_wal_fsync_duration_seconds", "commit": "etcd_disk_backend_commit_duration_seconds"}

Seen = dict[str, Buckets]  # by name of METRICS


def etcd_times(hosts: Mapping[str, Any], timeouts: Timeouts, load: Callable[[], None]) -> dict[str, Seen]:
    """Return what each member's histograms counted during a load, by machine and by name.

    Args:
        hosts: the machines with a member.

    Raises:
        InfraError: a machine does not answer.
    """
    before = _look(hosts, timeouts)
    load()
    after = _look(hosts, timeouts)
    return {name: between(before.get(name, {}), seen) for name, seen in after.items()}


def _look(hosts: Mapping[str, Any], timeouts: Timeouts) -> dict[str, Seen]:
    given = {"names": list(METRICS.values())}
    return run_on_each(hosts, PROGRAM, histograms_of, timeouts, given=dict.fromkeys(hosts, given))


def histograms_of(raw: Mapping[str, Any] | None) -> Seen:
    """Return a member's histograms; none where no member runs, or where it does not tell."""
    lines = "\n".join(raw["lines"]) if raw is not None else ""
    found: Seen = {}
    for name, metric in METRICS.items():
        found |= histograms(samples(lines, names(metric)), metric, partial(_all, name))
    return found


def _all(name: str, _: Mapping[str, str]) -> str:
    """Return the same key whatever the labels: a member has one histogram of each."""
    return name
