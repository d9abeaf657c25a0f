"""What can be due on a cluster: one function an operation, in the order of docs/operator/operations.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from harness.kube.objects import stamp
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.api.rules import Part, variable
from harness.operator.api.sets import CONTROL_PLANE, ETCD, GROUPS, WantedSet
from harness.operator.decide.authority import signs_outside
from harness.operator.decide.clones import clone
from harness.operator.decide.desired import Desired, Host, differing, moved, next_hop
from harness.operator.decide.due import Due, Situation, StepChange, Wait, WaitReason, step, whole
from harness.operator.decide.etcdclients import without_users
from harness.operator.decide.membership import batch, dead, etcd_lost, majority, roles_lost, to_recover
from harness.operator.decide.restores import give_up, not_recoverable, restoring
from harness.operator.decide.variables import with_parts

SETTLE_SECONDS = 30.0  # policy: machines that go together, such as those of one rack, are all known to be gone by then


def unproved(situation: Situation, out: Sequence[Host]) -> Wait | None:
    """Return what the removal of members that are gone waits for: a majority of the others, and no further loss.

    Args:
        out: the machines that are to be removed.
    """
    observed, members = situation.observed, [host for host in situation.who.members if GROUPS[ETCD] in host.groups]
    gone = [host for host in dead(situation.desired, observed, situation.who) if host in members]
    if not any(host in out for host in gone):
        return None
    names, needed = ", ".join(host.machine for host in gone), majority(len(members))
    ill = [host.machine for host in members if host not in gone and host.machine in observed.ill]
    if (well := len(members) - len(gone) - len(ill)) < needed:
        others = "; ".join(f"{name}: {observed.ill[name]}" for name in ill)
        text = f"etcd has {len(members)} members and needs {needed}; {names} cannot be removed while {well} are well"
        return Wait(WaitReason.MAJORITY_AT_RISK, f"{text} ({others})")
    since = [observed.now - observed.lost_at[host.machine] for host in gone if host.machine in observed.lost_at]
    left = SETTLE_SECONDS - min((age.total_seconds() for age in since), default=SETTLE_SECONDS)
    if left <= 0:
        return None
    text = f"{names} can be removed if no more of etcd's members is lost within {SETTLE_SECONDS:.0f} s"
    return Wait(WaitReason.MAJORITY_AT_RISK, text, min(left, SETTLE_SECONDS))


RENEW_DAYS = 30  # before a certificate expires: time for a person to approve, and to repair what keeps it from that
RENEW_BEFORE = "cluster_certificates_renew_before_days"  # what the playbooks renew; 90 by default
SETTLED = ("version", "source", "settings")  # parts that reconfigure puts right


def reset(situation: Situation) -> Due | None:
    """Return the reset of a deleted cluster, or of a deployment that failed and that machines are to leave."""
    desired, observed = situation.desired, situation.observed
    if desired.deleting:
        here = tuple(host for host in desired.hosts if not host.made and host.machine not in observed.lost)
        resets = desired.spec.deletion.machines == "Reset" and observed.touched and here
        kind = desired.wish.kind or CLUSTER_DEPLOYMENT.kind
        return whole(desired, f"the {kind} is being deleted", here, applies=False) if resets else None
    left = [host.machine for host in situation.who.half if host.machine in situation.who.leaving]
    if observed.applied is not None or not left:
        return None
    why = f"{', '.join(left)} of a deployment that failed: to leave; all of its machines begin anew"
    reached = tuple(host for host in situation.who.half if host.machine not in observed.lost)
    return whole(desired, why, reached, applies=False) if reached else None


def deploy(situation: Situation) -> Due | None:
    """Return the deployment of a cluster that is not there yet, and that is not to begin as a clone."""
    if situation.observed.applied is not None or situation.desired.spec.adopt or clone(situation) is not None:
        return None
    return whole(situation.desired, "there is no cluster yet", situation.desired.hosts, applies=True)


def deploy_etcd(situation: Situation) -> Due | None:
    """Return the deployment of an EtcdCluster that is not there yet."""
    if situation.observed.applied is not None:
        return None
    return whole(without_users(situation.desired), "there is no etcd yet", situation.desired.hosts, applies=True)


def adopt(situation: Situation) -> Due | None:
    """Return the takeover of a cluster that is there, but that nothing is known of."""
    if situation.observed.applied is not None or not situation.desired.spec.adopt:
        return None
    return whole(
        situation.desired, "the cluster of its machines is to be adopted", situation.desired.hosts, applies=True
    )


def remove_node(situation: Situation) -> Due | None:
    """Return the removal of the machines that may leave now."""
    out = batch(situation.desired, situation.observed, situation.who)
    return replace(_removal(situation, out), wait=unproved(situation, out)) if out else None


def remove_later(situation: Situation) -> Due | None:
    """Return the removal of machines that have to stay for now, where nothing else is to do before it."""
    out = batch(situation.desired, situation.observed, situation.who)
    if out or not situation.who.leaving:
        return None
    text = f"{', '.join(situation.who.leaving)}: the cluster would lose its last control plane, or etcd its majority; "
    if to_recover(situation.desired, situation.observed, situation.who):
        text += "an EtcdRestore recovers it once all of these machines are known to be lost"
    else:
        text += "let others join first"
    stays = tuple(
        host for host in (*situation.who.members, *situation.who.half) if host.machine in situation.who.leaving
    )
    return replace(_removal(situation, stays), wait=Wait(WaitReason.MAJORITY_AT_RISK, text))


def renew(situation: Situation) -> Due | None:
    """Return the renewal of certificates that expire soon, where nothing is done half."""
    return None if unsettled(situation) is not None else renew_later(situation)


def renew_later(situation: Situation) -> Due | None:
    """Return the renewal of certificates that expire soon, also where it waits for what is done half."""
    expires = situation.observed.expires
    days = situation.applied.variables.get(RENEW_BEFORE, RENEW_DAYS)
    soon = timedelta(days=min(RENEW_DAYS, days if isinstance(days, int) else RENEW_DAYS))
    if expires is None or expires - situation.observed.now > soon:
        return None
    signed = [host for host in situation.who.members if {GROUPS[CONTROL_PLANE], GROUPS[ETCD]} & set(host.groups)]
    if signs_outside(situation.applied.variables):
        signed = list(situation.who.members)  # nothing in the cluster signs what kubelets ask for
    due = step(situation, f"a certificate expires at {stamp(expires)}", signed)
    client = situation.observed.etcd_client  # another certificate than the one that the last try has handed out
    etcd = {"etcd": client.expires} if client is not None and client.expires is not None else {}
    return replace(due, once=True, more={"expires": stamp(expires), **etcd})


def upgrade(situation: Situation) -> Due | None:
    """Return the next hop on the way to other versions."""
    why = differing(situation.desired, situation.applied, "version")
    if not why:
        return None
    hop = next_hop(situation.desired, situation.applied)
    if hop.last:
        why += differing(situation.desired, situation.applied, "source", "settings")
    else:
        why = [
            f"spec.version: {situation.applied.version} -> {situation.desired.spec.version}, by way of {hop.version}"
        ]
    return step(situation, ", ".join(why), situation.who.members, StepChange(hop.variables, hop.version))


def upgrade_etcd(situation: Situation) -> Due | None:
    """Return the upgrade of an EtcdCluster, with the release of kubeadm that signs certificates of that version."""
    before, after = (v.get(variable("etcd")) for v in (situation.applied.variables, situation.desired.variables))
    if before == after:
        return None
    why = [f"spec.version: {before} -> {after}", *differing(situation.desired, situation.applied, "source", "settings")]
    parts: tuple[Part, ...] = ("version", "source", "settings")
    variables = with_parts(situation.applied.variables, situation.desired.variables, None, *parts)
    return step(situation, ", ".join(why), situation.who.members, StepChange(variables, situation.desired.spec.version))


def reconfigure(situation: Situation) -> Due | None:
    """Return the change of settings; also what puts right what another operation left half done."""
    desired, observed, applied = situation.desired, situation.observed, situation.applied
    why = [*differing(desired, applied, "source", "settings"), *moved(situation.who.members, applied)]
    why += [f"{what} on {machine}" for machine, what in observed.changed.items() if machine in applied.machines]
    half = observed.unsettled
    if half is not None and set(half.parts) & set(SETTLED):
        why.append(f"machines may differ since {half.why}")
    variables = with_parts(applied.variables, desired.variables, None, "source", "settings")
    return step(situation, ", ".join(why), situation.who.members, StepChange(variables, moved=True)) if why else None


def scale(situation: Situation) -> Due | None:
    """Return the joining of machines."""
    who, sets = situation.who, situation.desired.spec.machine_sets
    why = []
    for machine_set in sets:
        more = who.lacking[machine_set.name] + sum(host.set_name == machine_set.name for host in who.joining)
        if more:
            place = f"{situation.desired.place_of(machine_set.name)}.replicas"
            why.append(f"{place}: {machine_set.replicas - more} deployed, {machine_set.replicas} wanted")
    together = (*who.members, *who.joining)
    return step(situation, ", ".join(why), who.joining, StepChange(hosts=together, after=together)) if why else None


def addons(situation: Situation) -> Due | None:
    """Return the change of add-ons."""
    why = differing(situation.desired, situation.applied, "addons")
    half = situation.observed.unsettled
    if half is not None and "addons" in half.parts:
        why.append(f"add-ons may differ since {half.why}")
    why += [f"{name}: {what}" for name, what in situation.observed.missing.items()]
    variables = with_parts(situation.applied.variables, situation.desired.variables, None, "addons")
    if not why:
        return None
    more = {"missing": dict(situation.observed.missing)} if situation.observed.missing else {}
    return replace(step(situation, ", ".join(why), situation.who.members, StepChange(variables)), more=more)


def recover(situation: Situation) -> Due | None:
    """Return the recovery of a cluster that lost etcd's majority."""
    who = situation.who
    gone = dead(situation.desired, situation.observed, who)
    if not etcd_lost(who, gone) or CONTROL_PLANE in roles_lost(who, gone):
        return None
    why = _why_leaving(situation, gone)
    extra = {"cluster_lost_nodes": [host.name for host in gone]}
    due = step(
        situation, why, gone, StepChange(extra=extra, hosts=_with(situation, gone), after=_without(situation, gone))
    )
    return restoring(situation, due)


def rebuild(situation: Situation) -> Due | None:
    """Return the making of a control plane on another machine, after all of them were lost; others join it later."""
    who = situation.who
    gone = dead(situation.desired, situation.observed, who)
    if CONTROL_PLANE not in roles_lost(who, gone):
        return None
    restores = etcd_lost(who, gone)
    # An etcd that has its majority counts on a lost member until remove-node removes it.
    out = gone if restores else tuple(host for host in gone if GROUPS[ETCD] not in host.groups)
    others = _in_their_place(situation, gone)
    former = [host.address for host in gone if GROUPS[CONTROL_PLANE] in host.groups]
    change = StepChange(
        extra={"cluster_former_control_planes": former},  # which have to be down
        hosts=(*_without(situation, gone), *others),
        after=(*_without(situation, out), *others),
    )
    due = step(situation, _why_leaving(situation, out), out, change)
    if why := not_recoverable(situation):
        return replace(due, wait=Wait(WaitReason.NOT_RECOVERABLE, why))
    return restoring(situation, due) if restores else due


def _in_their_place(situation: Situation, gone: tuple[Host, ...]) -> tuple[Host, ...]:
    """Return a machine for each role of which no machine is left: who has joined half, or the first usable one.

    Who has joined half may serve already, whatever its trouble: another one would be a second control plane.
    """
    half = {host.machine for host in situation.who.half}
    fit = [
        host for host in situation.who.joining if host.machine in half or host.machine not in situation.observed.trouble
    ]
    fit.sort(key=lambda host: host.machine not in half)
    firsts = [next((h for h in fit if GROUPS[role] in h.groups), None) for role in roles_lost(situation.who, gone)]
    return tuple(host for host in fit if host in firsts)


def replacement_missing(situation: Situation) -> Wait | None:
    """Wait for a usable machine in the place of those of which none is left."""
    gone, trouble = dead(situation.desired, situation.observed, situation.who), situation.observed.trouble
    chosen = _in_their_place(situation, gone)
    usable = [host for host in chosen if host.machine not in trouble]
    lacking = [
        role for role in roles_lost(situation.who, gone) if not any(GROUPS[role] in host.groups for host in usable)
    ]
    if not lacking:
        return None
    joining = (host.machine for host in situation.who.joining if host.machine in trouble)
    reasons = [
        f"no other machine can be used as {' and '.join(lacking)} yet",
        *(f"{name}: {trouble[name]}" for name in joining),
    ]
    remedy = "give their sets other machines, where the operator makes none"
    if half := " ".join(host.machine for host in chosen if host not in usable):
        remedy = f"repair {half}, where an attempt has begun; or, once it is shut down, give it up: "
        remedy += give_up(situation, half)
    return Wait(WaitReason.WAITING_FOR_MACHINES, f"{'; '.join(reasons)}: {remedy}")


def _removal(situation: Situation, out: tuple[Host, ...]) -> Due:
    extra = {"cluster_remove_nodes": [host.name for host in out]}
    change = StepChange(extra=extra, hosts=_with(situation, out), after=_without(situation, out))
    return step(situation, _why_leaving(situation, out), out, change)


def _why_leaving(situation: Situation, hosts: tuple[Host, ...]) -> str:
    return ", ".join(dict.fromkeys(situation.who.leaving[host.machine] for host in hosts))


def _with(situation: Situation, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """Return the members, and those of some machines that are none."""
    return (*situation.who.members, *(host for host in situation.who.half if host in hosts))


def _without(situation: Situation, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    return tuple(host for host in situation.who.members if host not in hosts)


def machines_missing(situation: Situation) -> Wait | None:
    """Wait until each set has claimed as many machines as it wants, and all of them can be used."""
    desired, trouble = situation.desired, situation.observed.trouble
    reasons = [text for machine_set in desired.spec.machine_sets for text in _of_set(desired, machine_set)]
    lost = [host for host in desired.hosts if not host.groups]
    reasons += [f"machine {host.machine} still to leave: there is no set {host.set_name}" for host in lost]
    reasons += [f"machine {name}: {trouble[name]}" for name in desired.machines if name in trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(reasons)) if reasons else None


def joining_missing(situation: Situation) -> Wait | None:
    """Wait until each set has claimed what it lacks, and the machines that are to join can be used."""
    who, trouble, reasons = situation.who, situation.observed.trouble, list[str]()
    for machine_set in situation.desired.spec.machine_sets:
        if lacking := who.lacking[machine_set.name]:
            have = machine_set.replicas - lacking
            reasons.append(f"set {machine_set.name} has {have} of {machine_set.replicas} machines")
    reasons += [f"machine {host.machine}: {trouble[host.machine]}" for host in who.joining if host.machine in trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(reasons)) if reasons else None


def unsettled(situation: Situation) -> Wait | None:
    """Wait until what operations on machines left half done is put right."""
    half = situation.observed.unsettled
    if half is None or not (set(half.parts) & set(SETTLED) or half.hosts or half.leaving):
        return None
    return Wait(WaitReason.FAILED, f"{half.why}, which is to be put right first")


def _of_set(desired: Desired, machine_set: WantedSet) -> Iterator[str]:
    """Yield what a set lacks, or has too much of."""
    have = [host.machine for host in desired.hosts if host.set_name == machine_set.name]
    lacking = machine_set.replicas - len(have)
    if machine_set.machines.names is not None:
        absent = [name for name in machine_set.machines.names if name not in have]
        if absent:
            yield f"set {machine_set.name} waits for {', '.join(absent)}: not there, or not free"
    elif lacking > 0:
        yield f"set {machine_set.name} has {len(have)} of {machine_set.replicas} machines: {lacking} missing"
    if lacking < 0:
        yield f"set {machine_set.name} has {len(have)} of {machine_set.replicas} machines: {-lacking} still to leave"
