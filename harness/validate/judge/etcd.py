"""Whether etcd's members are healthy, are those of the inventory, and agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.facts.etcd import EtcdView
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, of_each, on_every, same_set

PEER_PORT = 2380


@of_each("etcd")
def unhealthy(name: str, view: EtcdView, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return members that report errors, alarms, or that they are not healthy."""
    yield from differs(name, "errors", (), view.errors)
    yield from differs(name, "alarms", (), view.alarms)
    yield from differs(name, "/health healthy", True, view.healthy)


@of_each("etcd")
def wrong_members(name: str, view: EtcdView, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return where a member's list is not exactly the inventory's etcd group: by name and peer URL, started, voting."""
    wanted = [f"{name} at {url_of(expected, name)}" for name in expected.etcd]
    seen = [f"{member.name or 'unnamed'} at {', '.join(member.peer_urls)}" for member in view.members]
    yield from same_set(name, "members", wanted, seen)
    yield from differs(name, "number of members", len(wanted), len(seen))
    for member in view.members:
        who = f"{name}'s list, {member.name or ', '.join(member.peer_urls)}"
        yield from differs(who, "started", True, member.started)
        yield from differs(who, "learner", False, member.learner)


def url_of(expected: ExpectedGuest, name: str, port: int = PEER_PORT) -> str:
    """Return where a member takes its peers' connections (or, on another port, its clients')."""
    return f"https://{expected.addresses[name]}:{port}"


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


@of_each("etcd")
def wrong_versions(name: str, view: EtcdView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the members that run another version than expected."""
    return differs(name, "etcd", expected.etcd_version, view.version)
