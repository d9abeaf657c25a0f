"""Whether this host's clock and the infra cluster's agree: tokens, certificates and expiries are judged by both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from harness.infra.cluster.access import WHO_AM_I
from harness.infra.findings import Finding
from harness.kube import Cluster

ADVISED_SECONDS = 30.0  # not a wait: a difference that is reported
MOST_SECONDS = 300.0  # not a wait: a difference that is refused; tokens and certificates would be


def check_clock(cluster: Cluster, now: Callable[[], float]) -> Iterator[Finding]:
    """Yield a finding when the clocks differ by more than half a minute.

    The API stamps its answer to a review with its own time, in whole seconds. `now`: this host's, since the epoch.
    """
    before = now()
    answer = cluster.request("POST", WHO_AM_I.path(), body={"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind})
    after = now()
    stamp = (answer.get("metadata") or {}).get("creationTimestamp")
    if not stamp:
        return
    there = datetime.fromisoformat(stamp).timestamp()
    ahead = before - (there + 1) if before > there + 1 else min(0.0, after - there)
    if abs(ahead) < ADVISED_SECONDS:
        return
    way = "ahead of" if ahead > 0 else "behind"
    yield Finding(
        f"this host's clock is {abs(ahead):.0f} s {way} the API's",
        "one clock sets when cells expire, the other when they are deleted; tokens and certificates may be refused",
        "timedatectl set-ntp true, here and on the cluster's nodes",
        fatal=abs(ahead) >= MOST_SECONDS,
    )
