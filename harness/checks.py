"""What a project's own checks are written with: the types of their fixtures, kinds of objects, conditions and waiting.

These names, the fixtures of docs/own-checks.md and the mark `when` are public: they change with a line in CHANGELOG.md
and not without one. Everything else of the harness may change with any release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testinfra.host import Host

from harness.kube import ApiFailure, Cluster, Resource
from harness.kube.resources import (
    CONFIG_MAP,
    CRD,
    DAEMON_SET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    PVC,
    SECRET,
    SERVICE,
    STORAGE_CLASS,
)
from harness.model import Cell, Environment, GuestCluster, Machine, Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.findings import Mismatch, require
from harness.validate.probes import DialResult, Probes

__all__ = [
    "CONFIG_MAP",
    "CRD",
    "DAEMON_SET",
    "DEPLOYMENT",
    "NAMESPACE",
    "NODE",
    "POD",
    "PVC",
    "SECRET",
    "SERVICE",
    "STORAGE_CLASS",
    "AfterPhase",
    "ApiFailure",
    "Cell",
    "Cluster",
    "DialResult",
    "GuestCluster",
    "Host",
    "Hosts",
    "Inventory",
    "Machine",
    "Mirror",
    "Mismatch",
    "Probes",
    "Resource",
    "Timeouts",
    "after",
    "eventually",
    "require",
]
Hosts = Mapping[str, Host]  # the machines of a cell by name, each as a testinfra host on which commands run as root


@dataclass(frozen=True)
class Inventory:
    """The machines of the guest cluster after a phase, and what the product was given.

    machines: by name.
    groups: names of machines by group: `control_plane`, `etcd`, `node`, and the product's own names of them.
    variables: those of the phase.
    file: the inventory as the product got it, with the machines that left in the phase.
    """

    machines: Mapping[str, Machine]
    groups: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, Any]
    file: Path

    @staticmethod
    def of(environment: Environment, plain: Mapping[str, Any], variables: Mapping[str, Any]) -> Inventory:
        """Return an inventory; `plain` is the one of Ansible for the same machines."""
        groups = {name: tuple(group["hosts"]) for name, group in plain["all"]["children"].items()}
        return Inventory({m.name: m for m in environment.machines}, groups, variables, environment.files.hosts)


@dataclass(frozen=True)
class AfterPhase:
    """A condition of the mark `when`: the phase that has just ended is one of these."""

    phases: tuple[str, ...]

    def __call__(self, cell: Cell, phase: int) -> bool:
        """Tell whether the check runs after a phase of a cell."""
        return cell.phases[phase].name in self.phases


def after(*phases: str) -> AfterPhase:
    """Return a condition for `when`: `@pytest.mark.when(phase=after("scale-out", "scale-in"))`."""
    return AfterPhase(phases)


def eventually(check: Callable[[], object], *, seconds: float) -> None:
    """Call a function again as long as one of its assertions fails.

    Raises:
        AssertionError: the last one, when the time is over.
    """
    __tracebackhide__ = True
    failures: list[AssertionError] = []

    def probe() -> bool | NotYet:
        try:
            check()
        except AssertionError as failure:
            failures.append(failure)
            return NotYet(str(failure))
        return True

    try:
        until(probe, deadline=Deadline.after(seconds), what="a check to hold")
    except TimedOut as late:
        raise (failures[-1] if failures else late) from None
