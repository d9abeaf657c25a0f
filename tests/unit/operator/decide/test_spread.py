"""Machines of a set over failure domains: balanced however the set grows and shrinks, and told where they are not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.operator.api.sets import HOSTNAME_LABEL, ZONE_LABEL
from harness.operator.decide.desired import scale_in_order
from harness.operator.decide.spread import (
    Spreading,
    claimed_in_order,
    emptiest,
    leaving_in_order,
    share,
    spread_of,
    together,
)
from tests.unit.operator.decide.wishes import claimed

Json = dict[str, Any]
KEY = "example.com/rack"


def machine(name: str, domain: str = "", key: str = ZONE_LABEL, **more: Any) -> Json:
    labels = {key: domain} if domain else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, **more}


def wanted(replicas: int = 3, **domains: Any) -> Json:
    return {"name": "cp", "replicas": replicas, "failureDomains": domains}


@given(st.integers(0, 40), st.integers(1, 9))
def test_a_share_is_the_least_that_holds_all(machines: int, domains: int) -> None:
    most = share(machines, domains)
    assert most * domains >= machines
    assert (most - 1) * domains < machines or most == 0


def balanced(domains: list[str], known: int) -> bool:
    counts = Counter(domains)
    return not counts or max(counts.values()) <= share(len(domains), known)


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from(["grow", "shrink", "replace"]), st.integers(0, 99)), max_size=40),
)
@settings(max_examples=200, deadline=None)
def test_made_machines_stay_balanced_whatever_comes_and_goes(known: int, steps: list[tuple[str, int]]) -> None:
    """Names rise, so that the last made one is the first to leave; a replaced one's domain gets the next."""
    zones = [f"z-{number}" for number in range(known)]
    own: list[tuple[str, str]] = []
    for number, (step, which) in enumerate(steps):
        if step == "replace" and own:
            own.pop(which % len(own))
        elif step == "shrink":
            gone = leaving_in_order(list(reversed(own)), 0)[:1]
            own = [one for one in own if one[0] not in gone]
        if step != "shrink":
            own.append((f"m-{number:02}", emptiest(zones, [domain for _, domain in own])))
        assert balanced([domain for _, domain in own], known), (step, own)


@given(
    st.lists(st.sampled_from("abcd"), max_size=24),
    st.lists(st.sampled_from("abcd"), max_size=4),
    st.integers(1, 12),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_claimed_machines_are_as_even_as_the_pool_allows(
    free: list[str], own: list[str], more: int, strict: bool
) -> None:
    pool = [machine(f"f-{number}", zone) for number, zone in enumerate(free)]
    mine = [machine(f"o-{number}", zone) for number, zone in enumerate(own)]
    over = Spreading(required=strict, asked=True)
    taken = [over.domain_of(one) for one in list(claimed_in_order(over, pool, mine))[:more]]
    counts, left = Counter(own + taken), Counter(free) - Counter(taken)
    before = Counter(own)
    for domain in set(taken):  # whoever got one was never ahead of a domain that still has a free one
        assert all(counts[domain] <= max(counts[other] + 1, before[domain] + 1) for other in left)
    if strict:
        assert all(counts[domain] <= max(1, before[domain]) for domain in counts)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=15), st.integers(0, 15))
def test_those_that_leave_first_do_and_the_others_leave_the_fullest(domains: list[str], first: int) -> None:
    machines = [(f"m-{number}", domain) for number, domain in enumerate(domains)]
    first = min(first, len(machines))
    order = leaving_in_order(machines, first)
    assert sorted(order) == sorted(name for name, _ in machines)
    assert order[:first] == [name for name, _ in machines[:first]]
    where, left = dict(machines), Counter(domain for _, domain in machines[first:])
    for name in order[first:]:
        assert left[where[name]] == max(left.values())
        left[where[name]] -= 1


def test_of_the_fullest_domain_the_last_made_leaves_and_a_machine_that_is_not_ready_before_it() -> None:
    def one(name: str, zone: str, phase: str = "Ready") -> Any:
        made = claimed(name, "cp")
        meta = made.metadata.model_copy(update={"labels": {ZONE_LABEL: zone}})
        return made.model_copy(update={"metadata": meta, "status": made.status.model_copy(update={"phase": phase})})

    machines = [one("m-1", "a"), one("m-2", "b"), one("m-3", "a"), one("m-4", "c"), one("m-5", "a")]
    over = {"cp": Spreading(asked=True)}
    assert scale_in_order(machines, over) == ["m-5", "m-3", "m-4", "m-2", "m-1"]
    assert scale_in_order(machines) == ["m-5", "m-4", "m-3", "m-2", "m-1"]
    crowded = [one("m-1", "a"), one("m-2", "a"), one("m-3", "b")]
    assert scale_in_order(crowded) == ["m-3", "m-2", "m-1"]
    assert scale_in_order(crowded, over) == ["m-2", "m-3", "m-1"]
    ill = [*crowded, one("m-0", "c", phase="NotReady")]
    assert scale_in_order(ill, over)[0] == "m-0"


VM: Json = {"kubevirt": {"cpus": 2}}


@pytest.mark.parametrize(
    ("found", "over", "domain"),
    [
        (machine("m-0", "a"), Spreading(), "a"),
        (machine("m-0"), Spreading(), ""),
        (machine("m-0", "r-1", KEY), Spreading(KEY), "r-1"),
        (machine("m-0", "a"), Spreading(domains=("b", "c")), ""),
        (machine("m-0"), Spreading(HOSTNAME_LABEL), "m-0"),
        (machine("m-0", "rack-7", HOSTNAME_LABEL), Spreading(HOSTNAME_LABEL), "rack-7"),
        ({**machine("m-0"), "spec": VM}, Spreading(HOSTNAME_LABEL), ""),
        (
            {**machine("m-0"), "spec": VM, "status": {"infrastructure": {"node": "node-a"}}},
            Spreading(HOSTNAME_LABEL),
            "node-a",
        ),
        (
            {**machine("m-0"), "spec": {"through": {}}, "status": {"infrastructure": {"node": "node-a"}}},
            Spreading(ZONE_LABEL),
            "",
        ),
    ],
)
def test_where_a_machine_is(found: Json, over: Spreading, domain: str) -> None:
    assert over.domain_of(found) == domain


A, B, C = (machine(f"m-{zone}", zone) for zone in "abc")
A2, A3, NOWHERE = machine("m-a2", "a"), machine("m-a3", "a"), machine("m-x")


@pytest.mark.parametrize(
    ("asked", "own", "others", "status", "reason", "words"),
    [
        (wanted(), [A, B, C], [], True, "Spread", "a: 1, b: 1, c: 1"),
        (wanted(), [A, A2, B], [], True, "Spread", "a: 2, b: 1"),  # of two zones, which are all that there are
        (wanted(), [A, A2, B], [C], False, "TooManyInOne", "a has m-a, m-a2, of 3 machines in 3 domains of"),
        (wanted(), [A, A2, A3], [], False, "TooManyInOne", "a has m-a, m-a2, m-a3, of 3 machines in 1 domains"),
        (wanted(1), [A], [], True, "Spread", "a: 1"),
        (wanted(), [A, NOWHERE, B], [], None, "DomainUnknown", f"nothing says that m-x is in a domain of {ZONE_LABEL}"),
        (wanted(domains=["a", "b"]), [A, C], [], None, "DomainUnknown", "m-c is in a domain of"),
        (wanted(policy="Required"), [A, B], [], False, "TooFewDomains", "3 machines need as many domains"),
        (wanted(policy="Required"), [A, B], [C], True, "Spread", "a: 1, b: 1, c: 0"),
        (wanted(policy="Required"), [A, A2, B], [], False, "TooManyInOne", "a has m-a, m-a2, of 3 machines in 2"),
        (wanted(domains=["a", "b", "c"]), [A, B], [], True, "Spread", "a: 1, b: 1, c: 0"),
    ],
)
def test_what_is_said_of_a_set(
    asked: Json, own: list[Json], others: list[Json], status: bool | None, reason: str, words: str
) -> None:
    said = spread_of(asked, own, others)
    assert said is not None
    assert said[:2] == (status, reason)
    assert words in said[2]
    assert status is True or said[2].startswith("set cp: ")


def test_a_set_that_asks_for_nothing_has_nothing_said_of_it() -> None:
    assert spread_of({"name": "cp", "replicas": 3}, [A, A2, A3]) is None
    assert together([]) == (True, "NotAsked", "")


def test_of_several_sets_what_is_wrong_is_said_first() -> None:
    fine, wrong, dark = (True, "Spread", "fine"), (False, "TooManyInOne", "wrong"), (None, "DomainUnknown", "dark")
    assert together([fine, dark, wrong, wrong]) == (False, "TooManyInOne", "wrong; wrong")
    assert together([fine, dark]) == dark
    assert together([fine]) == (True, "Spread", "")
