"""A cell's machine that is starting: whether it still can, by how long it has been what it is.

The values of `printableStatus` are words of the moment; most of them come right by themselves, so each has its time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.errors import InfraRetriable, VmatrixError
from harness.machines.kubevirt import launchers
from harness.machines.kubevirt.starting import Start, disk_failure, ended, held_up
from harness.spec.models import Timeouts

UNDER_WAY = frozenset({"", "Pending", "Scheduling", "Scheduled"})


@dataclass
class Watchpoint:
    """Since when a machine has been in a state that only sometimes comes right."""

    since: dict[str, float] = field(default_factory=dict)

    def lasted(self, state: str) -> float:
        """Return for how many seconds this state has been seen; every other state is forgotten."""
        self.since = {state: self.since.get(state, time.monotonic())}
        return time.monotonic() - self.since[state]


def refuse_hopeless(start: Start, timeouts: Timeouts, words: Watchpoint, phases: Watchpoint) -> None:
    """Raise when a machine will not come up any more.

    Args:
        words, phases: since when the VM's word and the VMI's phase have been what they are.

    Raises:
        InfraError: a second attempt would end the same.  InfraRetriable: one may come up.
    """
    patient = words.lasted(start.word) <= timeouts.unschedulable
    trouble: VmatrixError | None = ended(start)
    if trouble is None and start.word == "DataVolumeError":
        trouble = disk_failure(start)
    elif trouble is None and not patient:
        trouble = held_up(start, f" for {timeouts.unschedulable:.0f} s")
    if trouble is not None:
        raise trouble
    _refuse_stuck(start, phases.lasted(start.phase), timeouts.machine_phase)


def _refuse_stuck(start: Start, lasted: float, limit: float) -> None:
    """Raise for an instance that stays in one phase although nothing is said against it."""
    if start.word != "Starting" or start.vmi is None or start.phase not in UNDER_WAY or lasted <= limit:
        return
    node = str((start.vmi.get("status") or {}).get("nodeName") or (start.pod() or {}).get("spec", {}).get("nodeName"))
    waits = launchers.waits_for(start.pod())
    agent = launchers.node_agent(start.cluster, "" if node == "None" else node)
    raise InfraRetriable(
        f"machine {start.name} stays {start.phase or 'without a phase'} for {lasted:.0f} s: {waits or agent}",
        hint="KubeVirt's agent on the node starts a scheduled machine: check the virt-handler pod there",
        detail=f"{agent}\n{start.describe()}",
    )
