"""What a cell's life knows of the product: that it is prepared before any machine exists, and that its phases are run.

A phase is a playbook that runs, a program, or an edit of objects that something else acts on. So nothing here speaks of
processes: a kind is given the machines, the variables and a log, and says what it did or whose fault it is that it did
not. That there is a kubeconfig afterwards, and what the cluster is like, others look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.kube.client import Cluster
from harness.model import Environment, Mirror, Phase
from harness.spec.models import Timeouts
from harness.spec.settings import Blow

Tell = Callable[[str], None]


@dataclass(frozen=True)
class OuterCluster:
    """The infra cluster, for products whose phases are edits of objects in it.

    images: container images that the product asked for, by name, as pods in it pull them.
    blows: which of the product's programs are ended while it works, and when.
    deliveries: the registry that pods push to and pull from, HOST:PORT without TLS; "" where there is none.
    """

    cluster: Cluster
    mirror: Mirror
    timeouts: Timeouts
    images: Mapping[str, str]
    blows: Sequence[Blow] = ()
    deliveries: str = ""


@dataclass(frozen=True)
class PhaseRun:
    """A phase that is to be run, once.

    stage: the phase's name in steps and logs ("upgrade-2").
    environment: the machines of the phase; its inventory and variables are written already.
    variables: what is in the file of variables.
    timeout: seconds for the whole phase.
    log: where everything goes that explains the outcome: what was called, and all that it said.
    on_task: told what is under way, in the product's own words.
    outer: the infra cluster; None where there is none, so that nothing can be applied.
    guest: a kubeconfig that reaches the guest cluster, where the phase puts something into it.
    again: whether it has just been run, and its outcome is to say what it changes all the same.
    """

    phase: Phase
    stage: str
    environment: Environment
    variables: dict[str, Any]
    timeout: float
    log: Path
    on_task: Tell
    outer: OuterCluster | None = None
    guest: Path | None = None
    again: bool = False


@dataclass(frozen=True)
class PhaseOutcome:
    """What is known of a phase that succeeded.

    what: what was run, in messages ("cluster.yml").
    touched: the machines on which something was done; None where this kind of product cannot tell.
    changed: of a phase that was run again, what it changed by its own account, a line each.
    """

    what: str
    touched: frozenset[str] | None = None
    changed: tuple[str, ...] = ()


class ProductKind(Protocol):
    """One kind of product."""

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Have everything that phases run with, before any machine exists; again and in other processes at no cost.

        Args:
            tell: told what takes a while.
            timeouts: how long it may take.

        Raises:
            BadInput: something of the product's cannot be had or used.
        """

    def entries(self) -> tuple[Path, ...]:
        """Return the entries of the cache that phases run with. Raises BadInput when that cannot be told."""

    def command(self, phase: str, machines: Environment) -> str:
        """Return what a person types to run a phase of a cell by hand, or does where there is nothing to type."""

    def run(self, phase_run: PhaseRun) -> PhaseOutcome:
        """Run a phase to its end.

        Raises:
            ProductError, InfraError: it failed, and this is who must look at it.
        """


@runtime_checkable
class MakesMachines(Protocol):
    """A kind of product that makes the machines of its cells itself."""

    def make(self, phase_run: PhaseRun, planned: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """Have machines made; return their addresses by name.

        Args:
            phase_run: what comes first; it has no machines yet.  planned: what each machine is to be.
        """
