"""Something to do and what it waits for: why, on which machines, with which values, what is applied afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.errors import Blame
from harness.operator.api.cluster import AppliedState, PastOperation, PendingApproval
from harness.operator.api.etcd import OperationSnapshot
from harness.operator.api.rules import HOSTS
from harness.operator.decide.desired import (
    Desired,
    Host,
    applied_host,
    digest_of,
    digests_of,
    in_order,
    inventory_of,
    plain_hosts,
)
from harness.operator.decide.membership import Membership, membership
from harness.operator.decide.observed import CANCELLED, INTERRUPTED, Observed
from harness.operator.decide.variables import with_parts


class WaitReason(StrEnum):
    """Why nothing begins although something may be to do. docs/operator/operations.md explains each."""

    PAUSED = "Paused"
    OPERATION_RUNNING = "OperationRunning"
    NOT_ACCEPTED = "NotAccepted"
    WAITING_FOR_MACHINES = "WaitingForMachines"
    WAITING_FOR_NETWORKS = "WaitingForNetworks"
    WAITING_FOR_AUTHORITY = "WaitingForAuthority"
    WAITING_FOR_ENDPOINT = "WaitingForEndpoint"
    WAITING_FOR_ISOLATION = "WaitingForIsolation"
    WAITING_FOR_ETCD = "WaitingForEtcd"
    ETCD_IN_USE = "EtcdInUse"
    BACKUP_FIRST = "BackupFirst"
    RETRY_LATER = "RetryLater"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    MAJORITY_AT_RISK = "MajorityAtRisk"
    RESTORE_NOT_NAMED = "RestoreNotNamed"
    RESTORE_NOT_CONFIRMED = "RestoreNotConfirmed"
    NOT_RECOVERABLE = "NotRecoverable"
    NO_SUCH_PHASE = "NoSuchPhase"
    WAITING_FOR_CLAIM = "WaitingForClaim"


@dataclass(frozen=True)
class Wait:
    """Nothing begins now.

    message: what is waited for and, where a person must act, how.
    again_seconds: when to decide again, None where only a change of an object can make a difference.
    approval: what a person is to approve.
    """

    reason: WaitReason
    message: str
    again_seconds: float | None = None
    approval: PendingApproval | None = None


Hold = Callable[[Desired, Observed], Wait | None]


def paused(desired: Desired, observed: Observed) -> Wait | None:
    """Wait while the object says so, even with its deletion."""
    if not desired.spec.paused:
        return None
    then = "; its deletion waits as well" if desired.deleting else ""
    return Wait(WaitReason.PAUSED, f"spec.paused is true{then}")


def running(desired: Desired, observed: Observed) -> Wait | None:
    """Wait for the end of the operation that runs: there is one at a time, and edits count after it."""
    now = observed.running
    if now is None:
        return None
    same = now.applies is None or now.applies.digest == desired.digest
    changed = "" if same else "; the object has changed since, which counts afterwards"
    return Wait(WaitReason.OPERATION_RUNNING, f"{now.operation} runs since {now.started or 'just now'}{changed}")


def not_accepted(desired: Desired, observed: Observed) -> Wait | None:
    """Wait for the correction of an object with mistakes. What is deleted needs no correction."""
    if not desired.refused or desired.deleting:
        return None
    return Wait(WaitReason.NOT_ACCEPTED, "; ".join(desired.refused))


def given_up(last: PastOperation, desired: Desired) -> bool:
    """Tell whether an operation that failed does not begin again by itself with the same inputs."""
    passing = last.blame == Blame.INFRA or last.outcome == INTERRUPTED
    return last.outcome == CANCELLED or not passing or last.attempt > desired.spec.jobs.retries


@dataclass(frozen=True)
class Situation:
    """A wish, a world, and who is part of the cluster."""

    desired: Desired
    observed: Observed
    who: Membership

    @staticmethod
    def of(desired: Desired, observed: Observed) -> Situation:
        """Return the situation of a wish in a world."""
        return Situation(desired, observed, membership(desired, observed))

    @property
    def applied(self) -> AppliedState:
        """Return what was deployed, of a cluster that there is."""
        if self.observed.applied is None:
            raise ValueError("there is no cluster")
        return self.observed.applied


@dataclass(frozen=True)
class Due:
    """One thing to do.

    machines: that it is about.  hosts: of the inventory.  variables: of the playbooks.
    applies: what is applied afterwards, if anything.
    once: it is not repeated with the same inputs after it succeeded: what is observed may be older than its end.
    wait: why it cannot be done, whatever else there is to wait for.
    snapshot: that is taken or restored.  more: inputs that are neither variables nor machines.
    """

    why: str
    machines: tuple[str, ...]
    hosts: tuple[Host, ...]
    variables: Mapping[str, Any]
    applies: AppliedState | None = None
    once: bool = False
    wait: Wait | None = None
    snapshot: OperationSnapshot | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def digest(self, operation: str, desired: Desired) -> str:
        """Return the digest of all that decides how it ends, by which a failure is remembered."""
        own = {"operation": operation, "variables": dict(self.variables), "hosts": plain_hosts(self.hosts)}
        return digest_of({**desired.inputs, **own, **self.more})


DueOf = Callable[[Situation], Due | None]


def whole(desired: Desired, why: str, hosts: tuple[Host, ...], *, applies: bool) -> Due:
    """Return what is due on machines with all that is wished: the wish is applied afterwards, or nothing is."""
    variables = with_hosts(desired.variables, hosts)
    after = state_of(desired, hosts, variables, desired.spec.version) if applies else None
    return Due(why, tuple(host.machine for host in hosts), hosts, variables, after)


@dataclass(frozen=True)
class StepChange:
    """What an operation changes; all else stays as it was applied.

    variables, version: afterwards.  extra: variables of this run only.
    hosts: of the inventory.  after: of the cluster afterwards; both are its members, where they stay.
    moved: the cluster gets to know the addresses at which machines are now.
    """

    variables: Mapping[str, Any] | None = None
    version: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    hosts: Iterable[Host] | None = None
    after: Iterable[Host] | None = None
    moved: bool = False


AS_APPLIED = StepChange()


def step(situation: Situation, why: str, machines: Iterable[Host], change: StepChange = AS_APPLIED) -> Due:
    """Return what is due on a cluster that stays.

    Args:
        machines: that it is about.
    """
    desired, members, applied = situation.desired, situation.who.members, situation.applied
    order = desired.spec.machine_sets
    known = {} if change.moved else {host.machine: (host.address, host.ipv6_address) for host in applied.hosts}
    inventory = in_order(members if change.hosts is None else change.hosts, order)
    left = _at(known, in_order(members if change.after is None else change.after, order))
    present = applied.variables if change.variables is None else change.variables
    made = with_parts(present, desired.variables, None)  # what needs no operation of its own goes with any
    state = state_of(desired, left, with_hosts(made, left), change.version or applied.version)
    about = tuple(host.machine for host in in_order(machines, order))
    variables = {**with_hosts(made, _at(known, inventory)), **change.extra}
    return Due(why, about, inventory, variables, state)


def state_of(desired: Desired, hosts: tuple[Host, ...], variables: Mapping[str, Any], version: str) -> AppliedState:
    """Return what is applied once machines are as variables say."""
    return AppliedState(
        digest=desired.digest,
        version=version,
        machines=tuple(host.machine for host in hosts),
        hosts=tuple(applied_host(host) for host in hosts),
        digests=digests_of(variables),
        variables=dict(variables),
    )


def with_hosts(variables: Mapping[str, Any], hosts: Iterable[Host]) -> dict[str, Any]:
    """Return variables with these machines as the cluster's."""
    return {**variables, HOSTS: inventory_of(variables, hosts)}


def _at(known: Mapping[str, tuple[str, str]], hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return hosts with the addresses that the cluster knows, each one and that of IPv6."""
    now = ((host, known.get(host.machine, (host.address, host.ipv6_address))) for host in hosts)
    return tuple(
        replace(host, address=address, ipv6_address=ipv6 or host.ipv6_address) for host, (address, ipv6) in now
    )
