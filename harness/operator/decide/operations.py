"""The one decision: what happens to a cluster next. Pure: the same wish and the same world give the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from harness.kube.objects import parse_time
from harness.operator.api.cluster import CurrentOperation, PastOperation, PendingApproval, PlannedStep
from harness.operator.api.resources import APPROVE_ANNOTATION, CANCEL_ANNOTATION, RETRY_ANNOTATION
from harness.operator.decide import duties, etcd
from harness.operator.decide.authority import authority_missing, signer_missing
from harness.operator.decide.backups import SeenBackup, backup_due
from harness.operator.decide.clones import clone, failed_clone
from harness.operator.decide.desired import Desired
from harness.operator.decide.drills import claim_in_use, drill
from harness.operator.decide.due import (
    Due,
    DueOf,
    Hold,
    Situation,
    Wait,
    WaitReason,
    given_up,
    not_accepted,
    paused,
    running,
    step,
)
from harness.operator.decide.duties import (
    joining_missing,
    machines_missing,
    replacement_missing,
    unsettled,
    upgrade,
    upgrade_etcd,
)
from harness.operator.decide.endpoint import endpoint_missing, endpoint_taken
from harness.operator.decide.etcdclients import etcd_missing, etcd_unusable, etcd_users, in_use, keys_left
from harness.operator.decide.isolation import isolation_missing
from harness.operator.decide.networks import networks_missing
from harness.operator.decide.observed import (
    ADOPT,
    CANCELLED,
    CERTIFICATES,
    CLONE,
    DEFRAGMENT,
    DEPLOY_ETCD,
    DRILL,
    ETCD_USERS,
    REBUILD,
    RECONFIGURE_ETCD,
    RECOVER,
    RESET,
    RESTORE,
    SUCCEEDED,
    UPGRADE_ETCD,
    Observed,
    begun,
    ended,
)
from harness.operator.decide.product_file import FIELD, phase_of
from harness.operator.decide.restores import restorable, restore

DEPLOY, BACKUP, UPGRADE = "deploy", "backup", "upgrade"  # operations
UPGRADES = (UPGRADE, UPGRADE_ETCD)


def before_upgrade(situation: Situation) -> Due | None:
    """Return the backup that an upgrade has to wait for; None where none is asked for, or it is taken."""
    newer = upgrade_etcd if situation.desired.etcd_alone else upgrade
    if not situation.desired.spec.etcd.backup.before_disruption or newer(situation) is None:
        return None
    own = _before(situation)
    return None if own is not None and own.state == "verified" else _backup_due(situation, "an upgrade follows", own)


def asked_for(situation: Situation) -> Due | None:
    """Return the backup that somebody asks for, if it can be taken."""
    asked = backup_due(situation.observed.backups)
    return _backup_due(situation, f"EtcdBackup {asked.name}", asked) if asked is not None else None


def not_made_yet(situation: Situation) -> Wait | None:
    """Wait for the EtcdBackup: the controller of backups makes the one before an upgrade, and says what it lacks."""
    own = _before(situation)
    if own is not None and own.state == "due":
        return None
    if own is not None and own.state == "failed":
        field = situation.desired.in_words("spec.etcd.backup.beforeDisruption")
        remedy = f"give annotation {RETRY_ANNOTATION} another value, or set {field} to false"
        return Wait(WaitReason.FAILED, f"the backup before the upgrade failed ({own.name}): {own.said}; {remedy}")
    message = f"EtcdBackup {own.name}: {own.said}" if own is not None else "an EtcdBackup of it is made"
    return Wait(WaitReason.BACKUP_FIRST, f"a backup comes before the upgrade; {message}")


def _backup_due(situation: Situation, why: str, backup: SeenBackup | None) -> Due:
    due = replace(step(situation, why, ()), applies=situation.applied)
    if backup is None or backup.state != "due":
        return due
    return replace(due, snapshot=backup.snapshot(), more={"backup": backup.uid})


def _before(situation: Situation) -> SeenBackup | None:
    """Return the EtcdBackup that was made before the upgrade, and not before an earlier one."""
    past = (
        operation
        for operation in situation.observed.history
        if operation.operation in UPGRADES and operation.outcome == SUCCEEDED
    )
    since = next((operation.ended or "" for operation in past), "")
    own = (backup for backup in situation.observed.backups if backup.before == situation.desired.digest)
    return next(
        (backup for backup in own if backup.state != "verified" or not backup.taken or backup.taken >= since), None
    )


def number_of(digest: str, desired: Desired, observed: Observed) -> int:
    """Return the number of an operation that begins: the one that is to be approved, if that is this one."""
    pending = observed.approval
    if pending is not None and pending.digest == digest:
        return pending.sequence
    number = max(observed.sequence, pending.sequence if pending is not None else 0) + 1
    annotations = desired.wish.metadata.annotations
    taken = {annotations.get(APPROVE_ANNOTATION), annotations.get(CANCEL_ANNOTATION)}
    return next(candidate for candidate in count(number) if str(candidate) not in taken)


def unapproved(operation: CurrentOperation, desired: Desired, observed: Observed) -> Wait | None:
    """Return the wait for a person's approval where the object asks for it; None once it was given."""
    if desired.spec.approval != "Manual":
        return None
    number, pending = str(operation.sequence), observed.approval
    approved = desired.wish.metadata.annotations.get(APPROVE_ANNOTATION)
    if approved == number and pending is not None and pending.digest == operation.digest:
        return None
    older = f"; {approved} was approved, which is another operation" if approved not in (None, number) else ""
    text = f"{operation.operation} ({operation.why}) waits for annotation {APPROVE_ANNOTATION}={number}{older}"
    return Wait(WaitReason.WAITING_FOR_APPROVAL, text, approval=pending_of(operation))


def pending_of(operation: CurrentOperation) -> PendingApproval:
    """Return what stands in the Cluster's status while an operation waits for its approval."""
    return PendingApproval(sequence=operation.sequence, operation=operation.operation, digest=operation.digest or "")


FIRST_SECONDS = 30  # policy: what restarts, such as an API server or an SSH server, is back by then
LONGEST_SECONDS = 600  # policy: a person who repairs something does not wait longer for the next try
REMEDY = f"change the object, or give annotation {RETRY_ANNOTATION} another value, to try again"


def last_failure(operation: str, digest: str, observed: Observed) -> PastOperation | None:
    """Return the last end of an operation with these very inputs if it was a failure, None otherwise."""
    last = next((p for p in observed.history if (p.operation, p.digest) == (operation, digest)), None)
    return last if last is not None and last.outcome != SUCCEEDED else None


def done(operation: str, digest: str, observed: Observed) -> bool:
    """Tell whether an operation with these very inputs has succeeded."""
    same = (p for p in observed.history if (p.operation, p.digest) == (operation, digest))
    return any(p.outcome == SUCCEEDED for p in same)


def held_back(operation: CurrentOperation, desired: Desired, observed: Observed) -> Wait | None:
    """Return why an operation that failed with these very inputs does not begin again now; None if it may."""
    last = last_failure(operation.operation, operation.digest or "", observed)
    if last is None:
        return None
    if last.outcome == CANCELLED:
        return Wait(WaitReason.CANCELLED, f"{last.operation} {last.sequence} was cancelled; {REMEDY}")
    if given_up(last, desired):
        return Wait(WaitReason.FAILED, _failed(last))
    wait = delay_seconds(last.attempt)
    since = (observed.now - parse_time(last.ended)).total_seconds() if last.ended is not None else wait
    left = min(wait - since, wait)  # a clock that was set back makes it no longer
    if left <= 0:
        return None
    attempts = f"attempt {last.attempt + 1} of {desired.spec.jobs.retries + 1} follows"
    message = f"{last.operation} failed, {_cause(last)}; {attempts}"
    return Wait(WaitReason.RETRY_LATER, message, left)


def delay_seconds(attempt: int) -> int:
    """Return how long to wait after an attempt: twice as long each time."""
    return int(min(FIRST_SECONDS * 2 ** (min(attempt, 10) - 1), LONGEST_SECONDS))


def _failed(last: PastOperation) -> str:
    tried = f" {last.attempt} times" if last.attempt > 1 else ""
    leave = " (or set spec.deletion.machines to Leave)" if last.operation == RESET else ""
    hint = f"; {last.hint}" if last.hint else ""
    return f"{last.operation} failed{tried}, {_cause(last)}{hint}; {REMEDY}{leave}"


def _cause(last: PastOperation) -> str:
    where = f" on {last.host}" if last.host else ""
    task = f" at task {last.task!r}{where}" if last.task else where
    return f"{last.blame or 'nobody known'} to blame{task}: {last.summary or last.outcome}"


def no_phase(operation: str, desired: Desired) -> Wait | None:
    """Return why an operation cannot be carried out by the product of a wish; None where it can.

    While nobody can read the product file nothing begins, a reset for a deletion included: vmatrix's own playbooks
    know nothing of what others have made.
    """
    if desired.spec.playbooks.product is None:
        return None
    if desired.product is None:
        why = "; ".join(desired.refused) or f"{FIELD}: it is not known"
        return Wait(WaitReason.NOT_ACCEPTED, why)
    if desired.product.playbook(operation) is not None:
        return None
    product, phase = desired.product.product, phase_of(operation)
    have = ", ".join(product.phases)
    message = f"{FIELD}: {product.name} has no phase {phase}, which {operation} needs; it has {have}"
    leave = " (or set spec.deletion.machines to Leave)" if desired.deleting else ", or put the changed fields back"
    return Wait(WaitReason.NO_SUCH_PHASE, f"{message}: add it to the product file{leave}")


HOLDS: tuple[Hold, ...] = (paused, running, not_accepted, in_use)
LongHold = Callable[[Situation], Wait | None]
LONGEST_PLAN = 20  # rows of status.plan; a plan is longer only with that many machines to remove one by one


@dataclass(frozen=True)
class Duty:
    """One kind of operation.

    operation: its name.  entry: the playbook.  disruptive: running machines restart or leave.
    due: what there is to do, if anything.  holds: what it waits for, besides what all operations wait for.
    alongside: it may begin while those before it wait.  signs: it may give machines certificates.
    """

    operation: str
    entry: str
    disruptive: bool
    due: DueOf
    holds: tuple[LongHold, ...] = ()
    alongside: bool = False
    signs: bool = False


@dataclass(frozen=True)
class Nothing:
    """There is nothing to do."""


Verdict = CurrentOperation | Wait | Nothing
BEGINNING = (
    *(machines_missing, networks_missing, authority_missing, etcd_missing, endpoint_missing, isolation_missing),
)
DUTIES = (  # in the order in which they are done; the first four are all there is without a cluster
    Duty(RESET, "reset.yml", True, duties.reset),
    Duty(CLONE, "clone.yml", False, clone, holds=BEGINNING, signs=True),
    Duty(DEPLOY, "cluster.yml", False, duties.deploy, holds=BEGINNING, signs=True),
    Duty(ADOPT, "adopt.yml", False, duties.adopt, holds=(machines_missing,)),
    Duty(RECOVER, "recover.yml", True, duties.recover, holds=(restorable,)),
    Duty(
        REBUILD,
        "rebuild.yml",
        True,
        duties.rebuild,
        holds=(restorable, replacement_missing, isolation_missing),
        signs=True,
    ),
    Duty(RESTORE, "restore.yml", True, restore),
    Duty("remove-node", "remove-node.yml", True, duties.remove_node),
    Duty(CERTIFICATES, "certificates.yml", True, duties.renew, holds=(etcd_unusable,), alongside=True, signs=True),
    Duty(DEFRAGMENT, "defragment-etcd.yml", False, etcd.relieve, holds=(etcd.every_member_well,), alongside=True),
    Duty(BACKUP, "backup.yml", False, before_upgrade, holds=(not_made_yet,)),
    Duty("upgrade", "upgrade.yml", True, duties.upgrade, holds=(endpoint_taken, etcd_unusable), signs=True),
    Duty("reconfigure", "reconfigure.yml", True, duties.reconfigure, holds=(endpoint_taken, etcd_unusable), signs=True),
    Duty(
        "scale",
        "scale.yml",
        False,
        duties.scale,
        holds=(joining_missing, etcd_unusable, isolation_missing),
        signs=True,
    ),
    Duty("remove-node", "remove-node.yml", True, duties.remove_later),
    Duty(
        CERTIFICATES,
        "certificates.yml",
        True,
        duties.renew_later,
        holds=(unsettled, etcd_unusable),
        alongside=True,
        signs=True,
    ),
    Duty(DEFRAGMENT, "defragment-etcd.yml", False, etcd.defragment, alongside=True),
    Duty("addons", "addons.yml", False, duties.addons, holds=(unsettled,), alongside=True),
    Duty(BACKUP, "backup.yml", False, asked_for, alongside=True),
    Duty(DRILL, "drill.yml", False, drill, holds=(claim_in_use,), alongside=True),
)
WITHOUT_A_CLUSTER = DUTIES[:4]
ETCD_DUTIES = (  # of an EtcdCluster, likewise; the first two are all there is without members
    Duty(RESET, "reset.yml", True, duties.reset),
    Duty(DEPLOY_ETCD, "etcd.yml", False, duties.deploy_etcd, holds=(machines_missing, authority_missing)),
    Duty(RECOVER, "recover.yml", True, duties.recover, holds=(restorable,)),
    Duty(RESTORE, "restore.yml", True, restore),
    Duty("remove-node", "remove-node.yml", True, duties.remove_node),
    Duty(CERTIFICATES, "certificates.yml", True, duties.renew, alongside=True),
    Duty(DEFRAGMENT, "defragment-etcd.yml", False, etcd.relieve, holds=(etcd.every_member_well,), alongside=True),
    Duty(ETCD_USERS, "etcd-users.yml", False, etcd_users, alongside=True),
    Duty(BACKUP, "backup.yml", False, before_upgrade, holds=(not_made_yet,)),
    Duty(UPGRADE_ETCD, "upgrade-etcd.yml", True, duties.upgrade_etcd),
    Duty(RECONFIGURE_ETCD, "etcd.yml", True, duties.reconfigure),
    Duty("scale", "etcd.yml", False, duties.scale, holds=(joining_missing,)),
    Duty("remove-node", "remove-node.yml", True, duties.remove_later),
    Duty(CERTIFICATES, "certificates.yml", True, duties.renew_later, holds=(unsettled,), alongside=True),
    Duty(DEFRAGMENT, "defragment-etcd.yml", False, etcd.defragment, alongside=True),
    Duty(BACKUP, "backup.yml", False, asked_for, alongside=True),
    Duty(DRILL, "drill.yml", False, drill, holds=(claim_in_use,), alongside=True),
)
WITHOUT_MEMBERS = ETCD_DUTIES[:2]


def duties_of(desired: Desired, *, bare: bool = False) -> tuple[Duty, ...]:
    """Return what may be to do for a wish, in order; `bare`: while nothing is deployed, or nothing is to be."""
    if desired.etcd_alone:
        return WITHOUT_MEMBERS if bare else ETCD_DUTIES
    return WITHOUT_A_CLUSTER if bare else DUTIES


def next_operation(desired: Desired, observed: Observed) -> Verdict:
    """Return what happens next, the first hold or duty that applies decides: an operation that begins now, or why not.

    The operation has no Job, image and start yet.
    """
    waits = next((wait for hold in HOLDS if (wait := hold(desired, observed)) is not None), None)
    if waits is not None:
        return waits
    situation = Situation.of(desired, observed)
    for duty, due in _due(situation):
        if waits is not None and not duty.alongside:
            continue
        verdict = _verdict(duty, due, situation)
        if isinstance(verdict, CurrentOperation):
            return verdict
        waits = waits or verdict
    return waits or keys_left(desired, observed) or Nothing()


def plan(desired: Desired, observed: Observed) -> tuple[PlannedStep, ...]:
    """Return all that is to do, in order, whatever it waits for; after the end of what runs now."""
    if not_accepted(desired, observed) is not None:
        return ()
    steps: dict[str, PlannedStep] = {}
    world = ended(observed)
    # Failures count for nothing here, but for a clone's, which nothing else is begun after. What a first deployment may
    # have left is reset.
    counts = [failed_clone(world)]
    if world.applied is None:
        counts.append(next((past for past in world.history if not past.untouched), None))
    world = replace(world, history=tuple(past for past in world.history if any(past is counted for counted in counts)))
    while len(steps) < LONGEST_PLAN:
        candidates = (
            (duty, due, due.digest(duty.operation, desired)) for duty, due in _due(Situation.of(desired, world))
        )
        duty, due, digest = next((candidate for candidate in candidates if candidate[2] not in steps), (None, None, ""))
        if duty is None or due is None:
            break
        steps[digest] = PlannedStep(
            operation=duty.operation, why=due.why, disruptive=duty.disruptive, machines=due.machines
        )
        if due.wait is None:
            world = ended(begun(world, _operation(duty, due, desired, world)))
    return tuple(steps.values())


def withdrawn(desired: Desired, observed: Observed) -> bool:
    """Tell whether what waits for an approval is not to be done any more: a later wish has another number."""
    pending = observed.approval
    if pending is None or any(hold(desired, observed) is not None for hold in HOLDS):
        return False
    due = _due(Situation.of(desired, observed))
    return all(due_step.digest(duty.operation, desired) != pending.digest for duty, due_step in due)


def due_of(operation: CurrentOperation, desired: Desired, observed: Observed) -> Due | None:
    """Return what an operation that runs is about; None where that is not due any more."""
    situation = Situation.of(desired, replace(observed, running=None))
    candidates = (due for duty, due in _due(situation) if duty.operation == operation.operation)
    return next((due for due in candidates if due.digest(operation.operation, desired) == operation.digest), None)


def _due(situation: Situation) -> Iterator[tuple[Duty, Due]]:
    """Yield what is to do, in order."""
    desired, observed = situation.desired, situation.observed
    bare = desired.deleting or observed.applied is None
    for duty in duties_of(desired, bare=bare):
        due = duty.due(situation) if duty.operation == RESET or not desired.deleting else None
        if due is not None and not (due.once and done(duty.operation, due.digest(duty.operation, desired), observed)):
            yield duty, due


def _verdict(duty: Duty, due: Due, situation: Situation) -> CurrentOperation | Wait:
    """Return the operation that something due begins with, or what it waits for."""
    desired, observed = situation.desired, situation.observed
    if due.wait is not None:
        return due.wait
    held = next((wait for hold in duty.holds if (wait := hold(situation)) is not None), None)
    held = no_phase(duty.operation, desired) or held or (signer_missing(situation) if duty.signs else None)
    operation = _operation(duty, due, desired, observed)
    held = held or held_back(operation, desired, observed)
    confirmed = duty.operation == RESET or due.snapshot is not None  # by a deletion, or by an EtcdRestore
    if held is None and duty.disruptive and not confirmed:
        held = unapproved(operation, desired, observed)
    return held or operation


def _operation(duty: Duty, due: Due, desired: Desired, observed: Observed) -> CurrentOperation:
    """Return the operation, as the next attempt where it only repeats what just failed."""
    digest = due.digest(duty.operation, desired)
    failed = last_failure(duty.operation, digest, observed)
    number = number_of(digest, desired, observed)
    repeats = failed is not None and failed is observed.history[0] and failed.sequence in (number, observed.sequence)
    return CurrentOperation(
        operation=duty.operation,
        why=due.why,
        machines=due.machines,
        sequence=failed.sequence if failed is not None and repeats else number,
        attempt=failed.attempt + 1 if failed is not None else 1,
        digest=digest,
        snapshot=due.snapshot,
        applies=due.applies,
    )
