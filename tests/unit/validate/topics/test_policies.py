"""What each case of policies leaves is what the API defines; a connection that becomes of otherwise is a finding."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network

import pytest

from harness.validate.probes import DialResult
from harness.validate.topics import policies as facts
from harness.validate.topics.policies import (
    CASES,
    EVERY,
    NAMESPACE_OF,
    OPEN,
    ROLE_OF,
    Case,
    Connection,
    Outcome,
    differing,
    outcome_of,
)
from tests.unit.validate.guests import Json

AT = {"near": "10.243.0.2", "far": "10.243.1.2", "web": "10.243.0.3", "job": "10.243.1.3", "guest": "10.243.1.4"}
NETWORK = "10.243.0.0/16"
LABELS: Mapping[str, Mapping[str, str]] = {
    **{name: {"role": role} for name, role in ROLE_OF.items()},
    **{name: {"app": "server", "place": name} for name in facts.SERVERS},
}
ANSWER = DialResult(("near",), ())
REFUSED = DialResult((), ("Get http://10.243.0.2:8080: dial tcp 10.243.0.2:8080: connect: connection refused",))
SILENT = DialResult((), ("Get http://10.243.0.2:8080: context deadline exceeded",))
UNASKED = DialResult((), (), "503: no endpoints")


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Evaluate a label selector."""
    exact = selector.get("matchLabels", {})
    sets = selector.get("matchExpressions", ())
    assert all(one["operator"] == "In" for one in sets)
    return all(labels.get(key) == value for key, value in exact.items()) and all(
        labels.get(one["key"]) in one["values"] for one in sets
    )


def is_peer(peer: Json, pod: str) -> bool:
    """Evaluate a peer of a policy in the namespace INSIDE."""
    if "ipBlock" in peer:
        address, block = ip_address(AT[pod]), peer["ipBlock"]
        return address in ip_network(block["cidr"]) and not any(address in ip_network(e) for e in block["except"])
    team = {"team": facts.TEAM[NAMESPACE_OF[pod]]}
    if "namespaceSelector" in peer:
        inside = selects(peer["namespaceSelector"], team)
    else:
        inside = NAMESPACE_OF[pod] == facts.INSIDE
    return inside and selects(peer.get("podSelector", {}), LABELS[pod])


def is_port(port: Json, one: Connection) -> bool:
    """Evaluate a port of a rule."""
    if port.get("protocol", "TCP") != ("UDP" if one.port == facts.UDP else "TCP"):
        return False
    first = facts.ADMIN if port["port"] == "admin" else int(port["port"])
    return first <= one.port <= int(port.get("endPort", first))


def passes(policies: Mapping[str, Json], one: Connection) -> bool:
    """Evaluate policies for both ends of a connection to a pod, as the API's documentation says it."""
    for direction, own, other, of_peers in (
        ("Ingress", one.server, one.client, "from"),
        ("Egress", one.client, one.server, "to"),
    ):
        mine = [
            spec
            for spec in policies.values()
            if direction in spec["policyTypes"]
            and NAMESPACE_OF[own] == facts.INSIDE
            and selects(spec["podSelector"], LABELS[own])
        ]
        rules = [rule for spec in mine for rule in spec[direction.lower()]]
        allowed = any(
            (of_peers not in rule or any(is_peer(peer, other) for peer in rule[of_peers]))
            and ("ports" not in rule or any(is_port(port, one) for port in rule["ports"]))
            for rule in rules
        )
        if mine and not allowed:
            return False
    return True


@pytest.mark.parametrize("case", [*CASES, OPEN], ids=lambda case: case.name)
def test_a_case_leaves_what_its_policies_mean(case: Case) -> None:
    policies = _with_exceptions(case.policies({**AT, "pods": NETWORK}))
    for one in EVERY:
        if one.server != facts.SERVICE:
            assert case.leaves(one) is passes(policies, one), one
            continue
        backends = {passes(policies, Connection(one.client, server, one.port)) for server in facts.SERVERS}
        expected = case.leaves(one)
        assert expected is None or backends == {expected}, one


def _with_exceptions(policies: Mapping[str, Json]) -> Mapping[str, Json]:
    for spec in policies.values():
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for peer in (*rule.get("from", ()), *rule.get("to", ())):
                if "ipBlock" in peer:
                    peer["ipBlock"].setdefault("except", [])
    return policies


def test_cases_tell_every_kind_of_policy_apart_in_some_connection() -> None:
    judged = [(case.name, one) for case in CASES for one in EVERY if case.leaves(one) is not None]
    assert len(judged) > 300
    results = [tuple(case.leaves(one) for one in EVERY) for case in CASES]
    assert all(False in result for result in results)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (ANSWER, Outcome.ANSWERED),
        (REFUSED, Outcome.REFUSED),
        (DialResult((), ("no route to host",)), Outcome.REFUSED),
        (SILENT, Outcome.SILENT),
        (DialResult((), ()), Outcome.SILENT),
        (UNASKED, Outcome.UNKNOWN),
    ],
)
def test_an_answer_a_refusal_and_silence_are_told_apart(answer: DialResult, outcome: Outcome) -> None:
    assert outcome_of(answer) is outcome


def test_connections_that_become_of_as_wanted_pass() -> None:
    works, blocked = EVERY[0], EVERY[1]
    for answer in (REFUSED, SILENT):
        assert differing(CASES[0], {works: True, blocked: False}, {works: ANSWER, blocked: answer}) == []


def test_a_connection_that_is_let_through_or_blocked_wrongly_is_a_finding() -> None:
    works, blocked = EVERY[0], EVERY[1]
    found = differing(CASES[0], {works: True, blocked: False}, {works: REFUSED, blocked: ANSWER})
    assert [one.where for one in found] == [f"{one}, while nobody may come in" for one in sorted((works, blocked))]
    assert {one.seen.partition(":")[0] for one in found} == {"refused", "an answer"}


def test_a_client_that_the_api_server_does_not_reach_is_one_finding() -> None:
    mine = {one: True for one in EVERY if one.client == "web"}
    found = differing(OPEN, mine, dict.fromkeys(mine, UNASKED))
    assert [(one.where, one.seen) for one in found] == [("API server -> web", "503: no endpoints")]


def test_a_case_without_connections_is_a_finding() -> None:
    assert differing(OPEN, {}, {}) != []
