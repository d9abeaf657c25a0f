"""What the cluster's programs use on each machine while nobody asks anything of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.spec.models import Timeouts
from harness.validate.remote.hosts import MACHINE, run_on_each

PROGRAM = MACHINE / "usage.py"
SECONDS = 10.0  # long enough for the kubelet's and the controllers' periods


@dataclass(frozen=True)
class Usage:
    """Memory in MiB and CPU time in ms for each second, of all programs together, and by program."""

    mib: float
    cpu: float
    programs: Mapping[str, float]


def idle_usage(hosts: Mapping[str, Any], timeouts: Timeouts, more: tuple[str, ...]) -> dict[str, Usage]:
    """Return what each machine's programs use.

    Args:
        more: names of programs besides those of Kubernetes, such as the network plugin's.

    Raises:
        InfraError: a machine does not answer.
    """
    given = {"seconds": SECONDS, "names": list(more)}
    limit = timeouts.machine_program + SECONDS
    return run_on_each(hosts, PROGRAM, usage_of, timeouts, given=dict.fromkeys(hosts, given), seconds=limit)


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """Return a machine's usage."""
    cpu = sum(float(one["cpu"]) for one in raw.values()) * 1000
    return Usage(
        mib=sum(float(one["kib"]) for one in raw.values()) / 1024,
        cpu=cpu,
        programs={name: float(one["kib"]) / 1024 for name, one in raw.items()},
    )
