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


def unproved(found: Situation, out: Sequence[Host]) -> Wait | None:
    """Return what the removal of members that are gone waits for: a majority of the others, and no further loss.

    Args:
        out: the machines that are to be removed.
    """
    observed, members = found.observed, [host for host in found.who.members if GROUPS[ETCD] in host.groups]
    gone = [host for host in dead(found.desired, observed, found.who) if host in members]
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


def reset(found: Situation) -> Due | None:
    """Return the reset of a deleted cluster, or of a deployment that failed and that machines are to leave."""
    desired, observed = found.desired, found.observed
    if desired.deleting:
        here = tuple(host for host in desired.hosts if not host.made and host.machine not in observed.lost)
        wanted = desired.spec.deletion.machines == "Reset" and observed.touched and here
        kind = desired.wish.kind or CLUSTER_DEPLOYMENT.kind
        return whole(desired, f"the {kind} is being deleted", here, applies=False) if wanted else None
    left = [host.machine for host in found.who.half if host.machine in found.who.leaving]
    if observed.applied is not None or not left:
        return None
    why = f"{', '.join(left)} of a deployment that failed: to leave; all of its machines begin anew"
    reached = tuple(host for host in found.who.half if host.machine not in observed.lost)
    return whole(desired, why, reached, applies=False) if reached else None


def deploy(found: Situation) -> Due | None:
    """Return the deployment of a cluster that is not there yet, and that is not to begin as a clone."""
    if found.observed.applied is not None or found.desired.spec.adopt or clone(found) is not None:
        return None
    return whole(found.desired, "there is no cluster yet", found.desired.hosts, applies=True)


def deploy_etcd(found: Situation) -> Due | None:
    """Return the deployment of an EtcdCluster that is not there yet."""
    if found.observed.applied is not None:
        return None
    return whole(without_users(found.desired), "there is no etcd yet", found.desired.hosts, applies=True)


def adopt(found: Situation) -> Due | None:
    """Return the takeover of a cluster that is there, but that nothing is known of."""
    if found.observed.applied is not None or not found.desired.spec.adopt:
        return None
    return whole(found.desired, "the cluster of its machines is to be adopted", found.desired.hosts, applies=True)


def remove_node(found: Situation) -> Due | None:
    """Return the removal of the machines that may leave now."""
    out = batch(found.desired, found.observed, found.who)
    return replace(_removal(found, out), wait=unproved(found, out)) if out else None


def remove_later(found: Situation) -> Due | None:
    """Return the removal of machines that have to stay for now, where nothing else is to do before it."""
    out = batch(found.desired, found.observed, found.who)
    if out or not found.who.leaving:
        return None
    text = f"{', '.join(found.who.leaving)}: the cluster would lose its last control plane, or etcd its majority; "
    if to_recover(found.desired, found.observed, found.who):
        text += "an EtcdRestore recovers it once all of these machines are known to be lost"
    else:
        text += "let others join first"
    stays = tuple(host for host in (*found.who.members, *found.who.half) if host.machine in found.who.leaving)
    return replace(_removal(found, stays), wait=Wait(WaitReason.MAJORITY_AT_RISK, text))


def renew(found: Situation) -> Due | None:
    """Return the renewal of certificates that expire soon, where nothing is done half."""
    return None if unsettled(found) is not None else renew_later(found)


def renew_later(found: Situation) -> Due | None:
    """Return the renewal of certificates that expire soon, also where it waits for what is done half."""
    expires = found.observed.expires
    days = found.applied.variables.get(RENEW_BEFORE, RENEW_DAYS)
    soon = timedelta(days=min(RENEW_DAYS, days if isinstance(days, int) else RENEW_DAYS))
    if expires is None or expires - found.observed.now > soon:
        return None
    signed = [host for host in found.who.members if {GROUPS[CONTROL_PLANE], GROUPS[ETCD]} & set(host.groups)]
    if signs_outside(found.applied.variables):
        signed = list(found.who.members)  # nothing in the cluster signs what kubelets ask for
    due = step(found, f"a certificate expires at {stamp(expires)}", signed)
    client = found.observed.etcd_client  # another certificate than the one that the last try has handed out
    given = {"etcd": client.expires} if client is not None and client.expires is not None else {}
    return replace(due, once=True, more={"expires": stamp(expires), **given})


def upgrade(found: Situation) -> Due | None:
    """Return the next hop on the way to other versions."""
    why = differing(found.desired, found.applied, "version")
    if not why:
        return None
    hop = next_hop(found.desired, found.applied)
    if hop.last:
        why += differing(found.desired, found.applied, "source", "settings")
    else:
        why = [f"spec.version: {found.applied.version} -> {found.desired.spec.version}, by way of {hop.version}"]
    return step(found, ", ".join(why), found.who.members, StepChange(hop.variables, hop.version))


def upgrade_etcd(found: Situation) -> Due | None:
    """Return the upgrade of an EtcdCluster, with the release of kubeadm that signs certificates of that version."""
    before, after = (v.get(variable("etcd")) for v in (found.applied.variables, found.desired.variables))
    if before == after:
        return None
    why = [f"spec.version: {before} -> {after}", *differing(found.desired, found.applied, "source", "settings")]
    parts: tuple[Part, ...] = ("version", "source", "settings")
    variables = with_parts(found.applied.variables, found.desired.variables, None, *parts)
    return step(found, ", ".join(why), found.who.members, StepChange(variables, found.desired.spec.version))


def reconfigure(found: Situation) -> Due | None:
    """Return the change of settings; also what puts right what another operation left half done."""
    desired, observed, applied = found.desired, found.observed, found.applied
    why = [*differing(desired, applied, "source", "settings"), *moved(found.who.members, applied)]
    why += [f"{what} on {machine}" for machine, what in observed.changed.items() if machine in applied.machines]
    half = observed.unsettled
    if half is not None and set(half.parts) & set(SETTLED):
        why.append(f"machines may differ since {half.why}")
    variables = with_parts(applied.variables, desired.variables, None, "source", "settings")
    return step(found, ", ".join(why), found.who.members, StepChange(variables, moved=True)) if why else None


def scale(found: Situation) -> Due | None:
    """Return the joining of machines."""
    who, sets = found.who, found.desired.spec.machine_sets
    why = []
    for one in sets:
        more = who.lacking[one.name] + sum(host.set_name == one.name for host in who.joining)
        if more:
            place = f"{found.desired.place_of(one.name)}.replicas"
            why.append(f"{place}: {one.replicas - more} deployed, {one.replicas} wanted")
    together = (*who.members, *who.joining)
    return step(found, ", ".join(why), who.joining, StepChange(hosts=together, after=together)) if why else None


def addons(found: Situation) -> Due | None:
    """Return the change of add-ons."""
    why = differing(found.desired, found.applied, "addons")
    half = found.observed.unsettled
    if half is not None and "addons" in half.parts:
        why.append(f"add-ons may differ since {half.why}")
    why += [f"{name}: {what}" for name, what in found.observed.missing.items()]
    variables = with_parts(found.applied.variables, found.desired.variables, None, "addons")
    if not why:
        return None
    more = {"missing": dict(found.observed.missing)} if found.observed.missing else {}
    return replace(step(found, ", ".join(why), found.who.members, StepChange(variables)), more=more)


def recover(found: Situation) -> Due | None:
    """Return the recovery of a cluster that lost etcd's majority."""
    who = found.who
    gone = dead(found.desired, found.observed, who)
    if not etcd_lost(who, gone) or CONTROL_PLANE in roles_lost(who, gone):
        return None
    why = _why_leaving(found, gone)
    extra = {"cluster_lost_nodes": [host.name for host in gone]}
    due = step(found, why, gone, StepChange(extra=extra, hosts=_with(found, gone), after=_without(found, gone)))
    return restoring(found, due)


def rebuild(found: Situation) -> Due | None:
    """Return the making of a control plane on another machine, after all of them were lost; others join it later."""
    who = found.who
    gone = dead(found.desired, found.observed, who)
    if CONTROL_PLANE not in roles_lost(who, gone):
        return None
    restores = etcd_lost(who, gone)
    # An etcd that has its majority counts on a lost member until remove-node removes it.
    out = gone if restores else tuple(host for host in gone if GROUPS[ETCD] not in host.groups)
    others = _in_their_place(found, gone)
    former = [host.address for host in gone if GROUPS[CONTROL_PLANE] in host.groups]
    change = StepChange(
        extra={"cluster_former_control_planes": former},  # which have to be down
        hosts=(*_without(found, gone), *others),
        after=(*_without(found, out), *others),
    )
    due = step(found, _why_leaving(found, out), out, change)
    if why := not_recoverable(found):
        return replace(due, wait=Wait(WaitReason.NOT_RECOVERABLE, why))
    return restoring(found, due) if restores else due


def _in_their_place(found: Situation, gone: tuple[Host, ...]) -> tuple[Host, ...]:
    """Return a machine for each role of which no machine is left: who has joined half, or the first usable one.

    Who has joined half may serve already, whatever its trouble: another one would be a second control plane.
    """
    half = {host.machine for host in found.who.half}
    fit = [host for host in found.who.joining if host.machine in half or host.machine not in found.observed.trouble]
    fit.sort(key=lambda host: host.machine not in half)
    firsts = [next((h for h in fit if GROUPS[role] in h.groups), None) for role in roles_lost(found.who, gone)]
    return tuple(host for host in fit if host in firsts)


def replacement_missing(found: Situation) -> Wait | None:
    """Wait for a usable machine in the place of those of which none is left."""
    gone, trouble = dead(found.desired, found.observed, found.who), found.observed.trouble
    chosen = _in_their_place(found, gone)
    usable = [host for host in chosen if host.machine not in trouble]
    lacking = [role for role in roles_lost(found.who, gone) if not any(GROUPS[role] in host.groups for host in usable)]
    if not lacking:
        return None
    joining = (host.machine for host in found.who.joining if host.machine in trouble)
    said = [
        f"no other machine can be used as {' and '.join(lacking)} yet",
        *(f"{name}: {trouble[name]}" for name in joining),
    ]
    remedy = "give their sets other machines, where the operator makes none"
    if half := " ".join(host.machine for host in chosen if host not in usable):
        remedy = f"repair {half}, where an attempt has begun; or, once it is shut down, give it up: "
        remedy += give_up(found, half)
    return Wait(WaitReason.WAITING_FOR_MACHINES, f"{'; '.join(said)}: {remedy}")


def _removal(found: Situation, out: tuple[Host, ...]) -> Due:
    extra = {"cluster_remove_nodes": [host.name for host in out]}
    change = StepChange(extra=extra, hosts=_with(found, out), after=_without(found, out))
    return step(found, _why_leaving(found, out), out, change)


def _why_leaving(found: Situation, hosts: tuple[Host, ...]) -> str:
    return ", ".join(dict.fromkeys(found.who.leaving[host.machine] for host in hosts))


def _with(found: Situation, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """Return the members, and those of some machines that are none."""
    return (*found.who.members, *(host for host in found.who.half if host in hosts))


def _without(found: Situation, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    return tuple(host for host in found.who.members if host not in hosts)


def machines_missing(found: Situation) -> Wait | None:
    """Wait until each set has claimed as many machines as it wants, and all of them can be used."""
    desired, trouble = found.desired, found.observed.trouble
    said = [text for one in desired.spec.machine_sets for text in _of_set(desired, one)]
    lost = [host for host in desired.hosts if not host.groups]
    said += [f"machine {host.machine} still to leave: there is no set {host.set_name}" for host in lost]
    said += [f"machine {name}: {trouble[name]}" for name in desired.machines if name in trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(said)) if said else None


def joining_missing(found: Situation) -> Wait | None:
    """Wait until each set has claimed what it lacks, and the machines that are to join can be used."""
    who, trouble, said = found.who, found.observed.trouble, list[str]()
    for one in found.desired.spec.machine_sets:
        if who.lacking[one.name]:
            said.append(f"set {one.name} has {one.replicas - who.lacking[one.name]} of {one.replicas} machines")
    said += [f"machine {host.machine}: {trouble[host.machine]}" for host in who.joining if host.machine in trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(said)) if said else None


def unsettled(found: Situation) -> Wait | None:
    """Wait until what operations on machines left half done is put right."""
    half = found.observed.unsettled
    if half is None or not (set(half.parts) & set(SETTLED) or half.hosts or half.leaving):
        return None
    return Wait(WaitReason.FAILED, f"{half.why}, which is to be put right first")


def _of_set(desired: Desired, one: WantedSet) -> Iterator[str]:
    """Yield what a set lacks, or has too much of."""
    have = [host.machine for host in desired.hosts if host.set_name == one.name]
    lacking = one.replicas - len(have)
    if one.machines.names is not None:
        absent = [name for name in one.machines.names if name not in have]
        if absent:
            yield f"set {one.name} waits for {', '.join(absent)}: not there, or not free"
    elif lacking > 0:
        yield f"set {one.name} has {len(have)} of {one.replicas} machines: {lacking} missing"
    if lacking < 0:
        yield f"set {one.name} has {len(have)} of {one.replicas} machines: {-lacking} still to leave"
