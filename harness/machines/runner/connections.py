"""Whether a phase failed because the way to a machine through the infra cluster's API was lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from harness.errors import InfraRetriable, VmatrixError
from harness.kube.tunnels import lost_since


def blamed(
    failure: VmatrixError,
    failed: Collection[str],
    names: Mapping[tuple[str, int], str],
    tunnels: Path | None,
    began: float,
) -> VmatrixError:
    """Return a failed phase's error, or the infrastructure's if the connection to the machine that failed was lost.

    What was cut in the middle may be done again, and can then fail for no fault of the product.

    Args:
        failed: the machines that did; none where that is not known.
        names: all machines' names, by address and port.
        tunnels: the file that says how they are reached through the API; None: they are reached directly.
        began: when the phase did, in seconds since the epoch.
    """
    lost = lost_since(tunnels, began)
    machines = {where: name for where, name in names.items() if name in failed or not failed}
    cuts = [cut for cut in lost if (cut.address, cut.port) in machines]
    if not cuts:
        return failure
    first = cuts[0]
    return InfraRetriable(
        f"the connection to {machines[first.address, first.port]} was lost {len(cuts)} times during the phase: "
        f"{first.why}",
        paths=failure.paths,
        hint="this says nothing about the product; run the cell again, with --access direct if that is possible",
        detail=f"what failed then: {failure.summary}\n{failure.detail}".rstrip(),
    )
