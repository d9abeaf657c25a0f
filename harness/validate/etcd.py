"""What each etcd member says of the cluster, and whether they agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.expected import Expected
from harness.validate.findings import Finding, differs, on_every, same_set


@dataclass(frozen=True)
class EtcdView:
    """One member's answers. `members` maps a member's name to whether it votes (a learner does not)."""

    endpoint: str
    name: str
    healthy: bool
    version: str
    leader: str
    term: str
    members: Mapping[str, bool]
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
        members={m.get("name", ""): not m.get("isLearner", False) for m in answers["members"].get("members", [])},
        alarms=tuple(f"{a.get('alarm')} of {a.get('memberID')}" for a in answers["alarms"].get("alarms", [])),
        errors=(*errors, *(str(e) for e in status.get("errors", []))),
    )


def unhealthy(views: Mapping[str, EtcdView], expected: Expected) -> list[Finding]:
    """Return what is wrong with the health of etcd's members."""

    def judge(name: str, view: EtcdView) -> list[Finding]:
        found = differs(name, "errors", (), view.errors) + differs(name, "alarms", (), view.alarms)
        return found + differs(name, "/health healthy", True, view.healthy)

    return on_every(expected.etcd, views, judge)


def wrong_members(views: Mapping[str, EtcdView], expected: Expected) -> list[Finding]:
    """Return where a member's list of members is not the inventory's etcd group, all of them voting."""

    def judge(name: str, view: EtcdView) -> list[Finding]:
        learners = sorted(member for member, votes in view.members.items() if not votes)
        return same_set(name, "members", expected.etcd, view.members) + differs(name, "learners", [], learners)

    return on_every(expected.etcd, views, judge)


def disagreeing(views: Mapping[str, EtcdView], expected: Expected) -> list[Finding]:
    """Return where members do not follow one leader in one term."""
    first = next(iter(views.values()), None)

    def judge(name: str, view: EtcdView) -> list[Finding]:
        if first is None or view.leader in ("", "0"):
            return [Finding(name, "a leader", f"leader {view.leader!r}")]
        return differs(name, "leader", first.leader, view.leader) + differs(name, "term", first.term, view.term)

    return on_every(expected.etcd, views, judge)


def wrong_versions(views: Mapping[str, EtcdView], expected: Expected) -> list[Finding]:
    """Return the members that run another version than expected."""
    return on_every(expected.etcd, views, lambda name, view: differs(name, "etcd", expected.etcd_version, view.version))


def _decoded(body: str) -> dict[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
