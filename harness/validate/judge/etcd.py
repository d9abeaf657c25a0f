"""What each etcd member says of the cluster, and whether they agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set

PEER_PORT = 2380


@dataclass(frozen=True)
class Member:
    """One line of a member list. A member that was added and never started has no name and no client URLs."""

    id: str
    name: str
    peer_urls: tuple[str, ...]
    started: bool
    learner: bool


@dataclass(frozen=True)
class EtcdView:
    """One member's answers: about itself, and whom it holds to be the cluster's members. Ids are decimal numbers."""

    endpoint: str
    name: str
    healthy: bool
    version: str
    leader: str
    term: str
    cluster: str
    members: tuple[Member, ...]
    alarms: tuple[str, ...]
    errors: tuple[str, ...]


def view_of(raw: Mapping[str, Any]) -> EtcdView:
    """Read a machine's answers of its own etcd (see on_node.py).

    Field names are those of etcd's gRPC gateway (rpc.proto as JSON): false and empty values are left out there.
    """
    errors = [str(raw["error"])] if "error" in raw else []
    answers: dict[str, Any] = {}
    for part in ("health", "members", "status", "alarms"):
        answer = raw.get(part, {"status": 0, "body": "was not asked"})
        answers[part] = _decoded(answer["body"]) if answer["status"] == 200 else {}
        if answer["status"] != 200:
            errors.append(f"{part}: {answer['status']} {answer['body'][:200]}")
    status = answers["status"]
    return EtcdView(
        endpoint=str(raw.get("endpoint", "")),
        name=str(raw.get("name", "")),
        healthy=answers["health"].get("health") == "true",
        version=str(status.get("version", "")),
        leader=str(status.get("leader", "")),
        term=str(status.get("raftTerm", "")),
        cluster=str(status.get("header", {}).get("cluster_id", "")),
        members=tuple(_member(m) for m in answers["members"].get("members", [])),
        alarms=tuple(f"{a.get('alarm')} of {a.get('memberID')}" for a in answers["alarms"].get("alarms", [])),
        errors=(*errors, *(str(e) for e in status.get("errors", []))),
    )


def _member(raw: Mapping[str, Any]) -> Member:
    name, client_urls = str(raw.get("name", "")), raw.get("clientURLs", [])
    return Member(
        id=str(raw.get("ID", "")),
        name=name,
        peer_urls=tuple(raw.get("peerURLs", [])),
        started=bool(name and client_urls),
        learner=bool(raw.get("isLearner", False)),
    )


def unhealthy(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
    """Return what is wrong with the health of etcd's members."""

    def judge(name: str, view: EtcdView) -> list[Mismatch]:
        found = differs(name, "errors", (), view.errors) + differs(name, "alarms", (), view.alarms)
        return found + differs(name, "/health healthy", True, view.healthy)

    return on_every(expected.etcd, views, judge)


def wrong_members(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
    """Return where a member's list is not exactly the inventory's etcd group: by name and peer URL, started, voting."""
    wanted = [f"{name} at {url_of(expected, name)}" for name in expected.etcd]

    def judge(name: str, view: EtcdView) -> list[Mismatch]:
        seen = [f"{member.name or 'one without a name'} at {', '.join(member.peer_urls)}" for member in view.members]
        found = same_set(name, "members", wanted, seen) + differs(name, "number of members", len(wanted), len(seen))
        for member in view.members:
            who = f"{name}'s list, {member.name or ', '.join(member.peer_urls)}"
            found += differs(who, "started", True, member.started) + differs(who, "learner", False, member.learner)
        return found

    return on_every(expected.etcd, views, judge)


def url_of(expected: ExpectedGuest, name: str, port: int = PEER_PORT) -> str:
    """Return where a member takes its peers' connections (or, on another port, its clients')."""
    return f"https://{expected.addresses[name]}:{port}"


def disagreeing(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
    """Return where members do not follow one leader, who is one of them, in one term of one cluster."""
    first = next(iter(views.values()), None)

    def judge(name: str, view: EtcdView) -> list[Mismatch]:
        if first is None or view.leader in ("", "0"):
            return [Mismatch(name, "a leader", f"leader {view.leader!r}")]
        found = differs(name, "leader", first.leader, view.leader) + differs(name, "term", first.term, view.term)
        found += differs(name, "cluster id", first.cluster, view.cluster)
        known = view.leader in {member.id for member in view.members}
        return found + differs(name, "leader in its member list", True, known)

    return on_every(expected.etcd, views, judge)


def wrong_versions(views: Mapping[str, EtcdView], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the members that run another version than expected."""
    return on_every(expected.etcd, views, lambda name, view: differs(name, "etcd", expected.etcd_version, view.version))


def _decoded(body: str) -> dict[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
