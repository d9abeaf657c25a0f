"""What a NetworkPolicy must do to connections: leave those that it lets through, and no others.

A connection that is refused and one that gets no answer are both blocked: the API does not say which it must be.
Does not cover connections that were there before a policy, nor policies for the machines' own network.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from harness.validate.facts.policy_cases import EVERY, Case, Connection
from harness.validate.findings import Mismatch, differs
from harness.validate.probes import DialResult
from harness.validate.remote.policy_pods import PolicyPods

PARALLEL_DIALS = 8


class Outcome(StrEnum):
    """What became of a connection."""

    ANSWERED = "an answer"
    REFUSED = "refused"
    SILENT = "no answer"
    UNKNOWN = "not known"


REFUSALS = ("refused", "unreachable", "no route to host", "prohibited", "not permitted")


def outcome_of(answer: DialResult) -> Outcome:
    """Return what became of a connection that a pod has tried."""
    if answer.unasked:
        return Outcome.UNKNOWN
    if answer.responses and not answer.errors:
        return Outcome.ANSWERED
    words = " ".join(answer.errors).lower()
    return Outcome.REFUSED if any(word in words for word in REFUSALS) else Outcome.SILENT


def wrong_connections(pods: PolicyPods, case: Case) -> list[Mismatch]:
    """Try every connection that a case judges; return those that became of otherwise."""
    judged = {one: wanted for one in EVERY if (wanted := case.leaves(one)) is not None}
    with ThreadPoolExecutor(PARALLEL_DIALS) as pool:
        answers = dict(zip(judged, pool.map(pods.dial, judged), strict=True))
    return differing(case, judged, answers)


def differing(
    case: Case, judged: Mapping[Connection, bool], answers: Mapping[Connection, DialResult]
) -> list[Mismatch]:
    """Return the connections that became of otherwise than a case says; of a client that nobody reaches, that alone."""
    found = differs("the check", "any connection", True, bool(judged))
    unasked = {one.client: answers[one].unasked for one in judged if answers[one].unasked}
    wanted = "an answer, without which nothing is known of what it reaches"
    found += [Mismatch(f"API server -> {client}", wanted, why) for client, why in sorted(unasked.items())]
    for one, works in sorted(judged.items()):
        seen = outcome_of(answers[one])
        if seen is Outcome.UNKNOWN or works is (seen is Outcome.ANSWERED):
            continue
        said = "; ".join(answers[one].errors)[:200]
        expected = "an answer" if works else "none: it is refused, or nothing comes back"
        found.append(Mismatch(f"{one}, while {case.name}", expected, f"{seen}{f': {said}' if said else ''}"))
    return found
