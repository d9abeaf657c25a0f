"""What each etcd member reports of itself and of the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
    """One member's answers about itself and about the cluster's members. Ids are decimal numbers."""

    healthy: bool
    version: str
    leader: str
    term: str
    cluster: str
    members: tuple[Member, ...]
    alarms: tuple[str, ...]
    errors: tuple[str, ...]


def etcd_view_of(raw: Mapping[str, Any]) -> EtcdView:
    """Read the answers of a machine's etcd (see on_node_facts.py).

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


def _decoded(body: str) -> dict[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
