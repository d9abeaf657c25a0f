"""etcd: members are healthy, are those of the inventory, agree, and have the expected version."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

from harness.urls import joined
from harness.validate.expected import ExpectedGuest, minor_of
from harness.validate.facts.node import EtcdView
from harness.validate.findings import Mismatch, differs, of_each, on_every, same_set, unjudged

PEER_PORT = 2380
DEFAULT_QUOTA = 2 * 1024**3  # storage.DefaultQuotaBytes
SAY_NO_DEFAULT = ("3.6",)  # minor versions whose early releases (3.6.5) say no quota where they were given none
FULL_PERCENT = 80  # policy: time to act is left. At its quota, a member raises NOSPACE, and etcd takes no writes
DEFRAGMENT = "defragment"  # the phase
REMEDIES = {  # https://etcd.io/docs/v3.6/op-guide/maintenance/
    "NOSPACE": "compact, defragment every member, then clear the alarm (vmatrix's playbooks: defragment-etcd.yml)",
    "CORRUPT": "remove the member and join its machine empty; restore a backup where it is the only one",
}
Judge = Callable[[Mapping[str, EtcdView], ExpectedGuest], list[Mismatch]]


def where_it_runs(judge: Judge) -> Judge:
    """Let a judgement say that it judges nothing where no machine runs etcd, unless the product says how it runs."""

    @functools.wraps(judge)
    def judged(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
        if not views and expected.leaves.etcd.runs_as is None:
            return [
                unjudged("etcd", "no process of that name runs, and product.yml does not say how it runs", whole=True)
            ]
        return judge(views, expected)

    return judged


@where_it_runs
@of_each("etcd")
def unhealthy(name: str, view: EtcdView, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return members that report errors, alarms, or that they are not healthy."""
    yield from differs(name, "errors", (), view.errors)
    for alarm in view.alarms:
        remedy = REMEDIES.get(alarm.partition(" ")[0], "see etcd's documentation of alarms")
        yield Mismatch(name, "no alarms", f"alarm {alarm}; {remedy}")
    yield from differs(name, "/health healthy", True, view.healthy)


@where_it_runs
@of_each("etcd")
def filling(name: str, view: EtcdView, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return members whose file soon fills its quota. A member that says a negative one has none."""
    quota = view.quota
    if not quota and minor_of(view.version) in SAY_NO_DEFAULT:
        quota = DEFAULT_QUOTA
    if not quota:
        yield unjudged(f"{name}'s quota", "its etcd does not say it, as before etcd 3.6", whole=True)
    elif 0 < quota * FULL_PERCENT < view.size * 100:
        usage = f"{view.size} bytes of {quota}; {REMEDIES['NOSPACE']}, or raise quota-backend-bytes"
        yield Mismatch(name, f"etcd's file fills at most {FULL_PERCENT}% of its quota", usage)


@where_it_runs
@of_each("etcd")
def wrong_members(name: str, view: EtcdView, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return where a member's list is not exactly the inventory's etcd group: by name and peer URL, started, voting."""
    named = expected.leaves.etcd.member_names is not None  # else told by their addresses; `started` has a name too
    inventory = [f"{name} at {url_of(expected, name)}" if named else url_of(expected, name) for name in expected.etcd]
    members = [
        f"{member.name or 'unnamed'} at {', '.join(member.peer_urls)}" if named else ", ".join(member.peer_urls)
        for member in view.members
    ]
    yield from same_set(name, "members", inventory, members)
    yield from differs(name, "number of members", len(inventory), len(members))
    for member in view.members:
        who = f"{name}'s list, {member.name or ', '.join(member.peer_urls)}"
        yield from differs(who, "started", True, member.started)
        yield from differs(who, "learner", False, member.learner)


def url_of(expected: ExpectedGuest, name: str, port: int = PEER_PORT) -> str:
    """Return where a member takes its peers' connections (or, on another port, its clients')."""
    return f"https://{joined(expected.addresses[name], port)}"


@where_it_runs
def disagreeing(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
    """Return where members do not follow one leader of theirs, in one term of one cluster."""
    first = next(iter(views.values()), None)

    def judge(name: str, view: EtcdView) -> Iterator[Mismatch]:
        if first is None or view.leader in ("", "0"):
            yield Mismatch(name, "a leader", f"leader {view.leader!r}")
            return
        for what in ("leader", "term", "cluster"):
            yield from differs(name, what, getattr(first, what), getattr(view, what))
        known = view.leader in {member.id for member in view.members}
        yield from differs(name, "leader in its member list", True, known)

    return on_every(expected.etcd, views, judge)


@where_it_runs
def wrong_versions(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the members that run another version than expected."""
    if not expected.etcd_version:
        return [unjudged("etcd's version", expected.why_unknown("etcd"), whole=True)]
    return on_every(expected.etcd, views, lambda name, view: differs(name, "etcd", expected.etcd_version, view.version))


def not_defragmented(
    before: Mapping[str, EtcdView], after: Mapping[str, EtcdView], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return members that no phase between two looks has defragmented."""

    def judge(name: str, view: EtcdView) -> Iterator[Mismatch]:
        earlier = before[name].defragmentations if name in before else None
        if view.defragmentations is None or earlier is None or view.defragmentations <= earlier:
            yield Mismatch(name, f"defragmented since {earlier} times", f"{view.defragmentations} times")

    return on_every(expected.etcd, after, judge)
