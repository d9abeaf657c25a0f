"""Secrets and audit log: encryption at rest, and requests that the audit log must have."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch, on_every
from harness.validate.topics.hardening.benchmark import against
from harness.validate.topics.hardening.facts import HardeningFacts
from harness.validate.variables import KEY

Seen = Mapping[str, HardeningFacts]
COMPLETE, READ = "ResponseComplete", "get"
NOT_FOUND = 404


def key_name(secret: str) -> str:
    """Return the name that the playbooks give to a key."""
    return f"key-{hashlib.sha256(secret.encode()).hexdigest()[:10]}"


def readable_secrets(seen: Seen, made: str, expected: ExpectedGuest) -> list[Mismatch]:
    """Return Secrets that etcd holds as they are, or encrypted with another key than the cell's.

    Args:
        made: the key in etcd of the Secret that the check made, which has to be among them.
    """
    wanted = f"secretbox:v1:{key_name(str(expected.variables[KEY]))}"

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        if facts.stored is None or facts.stored.error:
            said = facts.stored.error if facts.stored is not None else "no etcd runs"
            yield Mismatch(f"{name} etcd", "Secrets", said)
            return
        if made not in facts.stored.sealed:
            yield Mismatch(f"{name} etcd", f"{made}, which was just made", "no such key")
        for key, sealed in sorted(facts.stored.sealed.items()):
            if sealed != wanted:
                yield Mismatch(f"{name} etcd {key}", f"encrypted by {wanted}", sealed or "not encrypted")
        for key in facts.stored.shown:
            yield Mismatch(f"{name} etcd {key}", "no readable content", "what was written into it")

    return list(against("1.2.27 1.2.28", on_every(expected.etcd, seen, judge)))


def unaudited(seen: Seen, expected: ExpectedGuest) -> list[Mismatch]:
    """Return API servers whose audit log does not have the request that was just made, or has what a Secret holds."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        trail = facts.audited
        if trail is None:
            yield from against("1.2.16", [Mismatch(f"{name} API server", "a running API server", "none")])
            return
        where = f"{name} {trail.path or 'audit log'}"
        if trail.status != NOT_FOUND:
            yield from against("3.2.1", [Mismatch(f"{name} GET of no Secret", "404", str(trail.status))])
        there = [event for event in trail.events if event[1] == COMPLETE and event[2] == READ and event[3]]
        if not there:
            said = f"{len(trail.events)} events of it" if trail.path else "no --audit-log-path"
            yield from against("1.2.16 3.2.1 3.2.2", [Mismatch(where, "the request for a Secret and its user", said)])
        if trail.leaked:
            found = Mismatch(where, "nothing of what is in a Secret", f"{trail.leaked} lines with it")
            yield from against("3.2.2", [found])

    return on_every(expected.control_plane, seen, judge)


def encoded(marker: str) -> str:
    """Return a text as a Secret's `data` has it."""
    return base64.b64encode(marker.encode()).decode()
