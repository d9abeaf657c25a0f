"""Which Machines a set may claim, and in which order."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest

from harness.operator.api.sets import ZONE_LABEL
from harness.operator.controllers.machine_choice import (
    Claimant,
    WaitingSet,
    claimable,
    given_back,
    goes_first,
    oldest_first,
    scarce_domains,
    shortage,
    waiting_sets,
)
from harness.operator.decide.spread import Spreading, claimed_in_order
from tests.unit.operator.api.objects import deployment, wanted_set
from tests.unit.operator.controllers.objects import CLAIM, condition, idle, machine

Json = dict[str, Any]
POOL = {"pool": {"selector": {"matchLabels": {"rack": "a"}}}}


def us(source: Json) -> Claimant:
    """Return a set with machines from some source."""
    return Claimant({"name": "cp", "machines": source}, "two", "uid-of-two")


US = us(POOL)


def test_a_machine_is_chosen_by_all_labels_or_by_name() -> None:
    assert US.chooses(idle())
    assert not us({"pool": {"selector": {"matchLabels": {"rack": "a", "disk": "fast"}}}}).chooses(idle())
    assert us({"pool": {}}).chooses(idle())
    assert us({"names": ["m-0"]}).chooses(idle("m-0"))
    assert not us({"names": ["m-0"]}).chooses(idle("m-1"))


def test_the_oldest_is_first_and_names_decide_between_equals() -> None:
    machines = [idle("b"), idle("c"), idle("a", made="2026-01-02T00:00:00Z")]
    assert [m["metadata"]["name"] for m in oldest_first(machines)] == ["b", "c", "a"]


def unclaimable() -> dict[str, Json]:
    """Return Machines that cannot be claimed, by why."""
    going, older, pending = idle(), idle(), idle()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    older["metadata"]["generation"] = 2
    pending["status"]["phase"] = "Pending"
    twin = idle()
    twin["status"]["conditions"][1] = condition("Empty", "False", "DuplicateMachineID")
    return {
        "claimed": idle(claim=CLAIM),
        "being deleted": going,
        "edited since it was looked at": older,
        "not judged yet": pending,
        "not distinct": twin,
        "new": machine(),
    }


@pytest.mark.parametrize("why", unclaimable())
def test_a_machine_cannot_be_claimed(why: str) -> None:
    assert claimable(idle())
    assert not claimable(unclaimable()[why])


def test_a_machine_that_a_cluster_has_something_on_cannot_be_claimed() -> None:
    assert not claimable(idle("m-0"), frozenset({"m-0"}))


def test_a_cluster_that_is_adopted_claims_only_machines_with_a_cluster_on_them() -> None:
    there, down, twin = idle(), idle(), unclaimable()["not distinct"]
    there["status"]["conditions"][1] = condition("Empty", "False", "NotEmpty")
    down["status"]["conditions"] = [condition("Reachable", "False"), there["status"]["conditions"][1]]
    assert not claimable(there)
    assert claimable(there, adopting=True)
    assert not any(claimable(one, adopting=True) for one in (idle(), down, twin, unclaimable()["claimed"]))
    assert not claimable(there, frozenset({"m-0"}), adopting=True)


def test_who_waits_is_told_how_many_are_missing_and_why() -> None:
    down = machine("m-2")
    down["status"]["phase"] = "Unreachable"
    machines = [idle("m-0", claim=US.json()), idle("m-1", claim=CLAIM), down, machine("m-3"), idle("m-9")]
    machines[-1]["metadata"]["labels"] = {}
    assert shortage(1, US, machines) == (
        "waiting for 1 more machine with labels rack=a: 3 exist, 1 is Pending (m-3), 1 is Unreachable (m-2), "
        "1 is claimed by cluster one (m-1)"
    )


def test_who_waits_for_names_is_told_which_are_not_there() -> None:
    assert shortage(2, us({"names": ["m-0", "m-7"]}), [idle("m-0", claim=CLAIM)]) == (
        "waiting for 2 more machines of m-0, m-7: 1 exists, 1 is claimed by cluster one (m-0), m-7 not found"
    )


def test_an_empty_pool_is_told() -> None:
    assert shortage(3, us({"pool": {}}), []) == "waiting for 3 more machines: 0 exist"


def test_many_machines_are_told_in_few_words() -> None:
    many = [idle(f"m-{number}", claim=CLAIM) for number in range(9)]
    assert shortage(1, US, many).endswith("9 exist, 9 are claimed by cluster one (m-0, m-1, m-2, m-3, m-4 and 4 more)")


def zoned(name: str, zone: str, made: str = "2026-01-01T00:00:00Z", **spec: Any) -> Json:
    found = idle(name, made=made, **spec)
    found["metadata"]["labels"] = {"rack": "a", ZONE_LABEL: zone}
    return found


def test_machines_are_claimed_over_zones_and_oldest_first_within_one() -> None:
    young = "2026-01-02T00:00:00Z"
    free = [zoned("a-1", "a"), zoned("a-2", "a"), zoned("b-2", "b", young), zoned("b-1", "b"), zoned("c-1", "c", young)]
    assert order(Spreading(), free) == ["a-1", "b-1", "c-1", "a-2", "b-2"]
    assert order(Spreading(), free, zoned("a-0", "a"))[:2] == ["b-1", "c-1"]


def order(spreading: Spreading, free: list[Json], *own: Json) -> list[str]:
    return [m["metadata"]["name"] for m in claimed_in_order(spreading, oldest_first(free), own)]


def required(replicas: int, **more: Any) -> Json:
    domains = {"topologyKey": ZONE_LABEL, "policy": "Required", **more}
    return {"name": "w", "replicas": replicas, "machines": {"pool": {}}, "failureDomains": domains}


@pytest.mark.parametrize("replicas", [2, 3, 9])
def test_a_domain_that_is_required_has_one_machine_of_the_set_and_has_to_be_known(replicas: int) -> None:
    free = [zoned("a-1", "a"), zoned("a-2", "a"), zoned("b-1", "b"), idle("m-0")]
    over = Spreading.of(required(replicas))
    assert order(over, free) == ["a-1", "b-1"]
    assert order(over, free, zoned("a-0", "a")) == ["b-1"]
    assert order(Spreading.of(required(replicas, domains=["b"])), free) == ["b-1"]


def test_machines_in_domains_that_have_one_already_are_told_apart_from_those_that_may_be_claimed() -> None:
    set_of_two = Claimant(required(2), CLAIM["cluster"], CLAIM["uid"])
    own = zoned("a-0", "a", claim=set_of_two.json())
    assert shortage(1, set_of_two, [own, zoned("a-1", "a"), idle("m-0")]) == (
        f"waiting for 1 more machine: 2 exist, 2 are in no domain of {ZONE_LABEL} that lacks a machine (a-1, m-0)"
    )
    assert "1 is Idle (b-1)" in shortage(1, set_of_two, [own, zoned("b-1", "b")])


@pytest.mark.parametrize(
    ("replicas", "names", "words"),
    [
        (2, ("a-1", "b-1"), ""),
        (3, ("a-1", "b-1"), ""),  # it waits for another one, which may be in another zone
        (
            3,
            ("a-1", "a-2", "b-1"),
            f"3 machines need as many failure domains, and the Machines are in 2 of {ZONE_LABEL} (a, b)",
        ),
        (1, ("m-0",), f"1 machines need as many failure domains, and the Machines are in 0 of {ZONE_LABEL}"),
        (3, ("a-1", "b-1", "c-1"), ""),
    ],
)
def test_more_machines_than_domains_are_refused_where_each_is_to_have_one(
    replicas: int, names: tuple[str, ...], words: str
) -> None:
    machines = [zoned(name, name[0]) if name != "m-0" else idle(name) for name in names]
    found = list(scarce_domains([required(replicas)], "one", machines))
    assert [(mistake.field, mistake.message) for mistake in found] == (
        [("spec.machineSets[0].failureDomains", words)] if words else []
    )
    assert list(scarce_domains([{**required(9), "failureDomains": {"policy": "Preferred"}}], "one", machines)) == []
    assert list(scarce_domains([required(replicas, domains=["x"])], "one", machines)) == []


def test_machines_of_another_cluster_are_no_domains() -> None:
    other = zoned("c-1", "c")
    other["spec"]["claim"] = {"cluster": "two", "set": "w", "uid": "u"}
    machines = [zoned("a-1", "a"), zoned("a-2", "a"), other]
    assert len(list(scarce_domains([required(2)], "one", machines))) == 1
    other["spec"]["claim"]["cluster"] = "one"
    assert list(scarce_domains([required(2)], "one", machines)) == []


def test_a_machine_that_a_set_has_made_for_itself_is_no_other_set_s() -> None:
    owned = idle()
    owned["metadata"]["ownerReferences"] = [{"kind": "MachineSet", "name": "x", "uid": "u", "controller": True}]
    assert not us({"pool": {}}).chooses(owned)


MARKS: dict[str, Json] = {
    "deleted": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    "replaced": {"annotations": {"cluster.vmatrix.dev/replace": "it is slow"}},
}


@pytest.mark.parametrize("mark", MARKS)
def test_a_machine_that_is_to_go_is_not_claimable(mark: str) -> None:
    found = idle()
    found["metadata"] |= MARKS[mark]
    assert not claimable(found)


MADE = {"old": "2026-01-01T00:00:00Z", "young": "2026-01-01T00:00:05Z"}


class Pool:
    """A namespace whose controllers look at one object at a time, in an order of the test's."""

    def __init__(self) -> None:
        self.deployments: dict[str, Json] = {}
        self.sets: list[Json] = []
        self.machines: list[Json] = []

    def declare(self, name: str, *replicas: int) -> None:
        """Make a ClusterDeployment with one set for each number of machines."""
        body = deployment(*(wanted_set(f"s{n}", "worker", replicas=number) for n, number in enumerate(replicas)))
        meta = {"name": name, "uid": name, "creationTimestamp": MADE[name]}
        self.deployments[name] = {**body, "metadata": {**body["metadata"], **meta}}
        owner = {"kind": "ClusterDeployment", "name": name, "uid": name, "controller": True}
        for spec in body["spec"]["machineSets"]:
            self.sets.append({"metadata": {"name": f"{name}-{spec['name']}", "ownerReferences": [owner]}, "spec": spec})

    def waiting(self) -> tuple[WaitingSet, ...]:
        return waiting_sets(self.sets, self.deployments.values(), self.machines)

    def claim(self, one: Json) -> bool:
        """Let a set claim a Machine; tell whether it did."""
        claimant, waiting = Claimant.of(one), self.waiting()
        missing = one["spec"]["replicas"] - sum(claimant.has(m) for m in self.machines)
        for candidate in oldest_first(self.machines) if missing > 0 else ():
            free = claimant.chooses(candidate) and claimable(candidate)
            if free and not goes_first(candidate, self.deployments[claimant.cluster], waiting):
                candidate["spec"]["claim"] = claimant.json()
                return True
        return False

    def give_back(self) -> bool:
        """Let one Machine be given back, and be looked at; tell whether one was."""
        waiting = self.waiting()
        for candidate in self.machines:
            if candidate["metadata"]["name"] in given_back(waiting, self.machines, ()):
                del candidate["spec"]["claim"]
                return True
        return False

    def settle(self, claims_first: bool, backwards: bool) -> None:
        """Let controllers work until nothing changes any more."""
        for _ in range(50):
            sets = list(reversed(self.sets)) if backwards else self.sets
            if claims_first:
                changed = any(self.claim(one) for one in sets) or self.give_back()
            else:
                changed = self.give_back() or any(self.claim(one) for one in sets)
            if not changed:
                return
        pytest.fail(f"clusters take machines from each other for ever: {self.counts()}")

    def counts(self) -> dict[str, int]:
        claims = [m["spec"]["claim"]["cluster"] for m in self.machines if m["spec"].get("claim")]
        return {name: claims.count(name) for name in self.deployments}


@pytest.mark.parametrize("sets", [(2,), (1, 1)], ids=["a set", "two sets"])
@pytest.mark.parametrize("settles", [True, False], ids=["looked at after each event", "looked at in the end"])
@pytest.mark.parametrize(("claims_first", "backwards"), [(True, True), (True, False), (False, True), (False, False)])
def test_of_two_clusters_one_always_has_all_of_its_machines(
    sets: tuple[int, ...], settles: bool, claims_first: bool, backwards: bool
) -> None:
    for order in permutations(("old", "young", "m-0", "m-1", "m-2")):
        pool = Pool()
        complete = ""
        for event in order:
            if event in MADE:
                pool.declare(event, *sets)
            else:
                pool.machines.append(idle(event))
            if settles:
                pool.settle(claims_first, backwards)
                complete = complete or next((name for name, has in pool.counts().items() if has == 2), "")
        pool.settle(claims_first, backwards)
        winner = complete or "old"
        assert pool.counts() == {"old": 1, "young": 1} | {winner: 2}, order
        assert complete == "" or winner == complete, "a cluster that had all of its machines keeps them"


def test_no_more_is_given_back_than_the_older_one_lacks_and_nothing_that_is_deployed() -> None:
    pool = Pool()
    pool.declare("young", 3)
    pool.machines += [idle("m-0"), idle("m-1")]
    pool.settle(claims_first=True, backwards=False)
    pool.declare("old", 1)
    waiting = pool.waiting()
    assert given_back(waiting, pool.machines, ()) == {"m-1": "old"}
    assert given_back(waiting, pool.machines, ("m-1",)) == {"m-0": "old"}
    assert given_back(waiting, pool.machines, ("m-0", "m-1")) == {}
    released = copy.deepcopy(pool.machines)
    del released[1]["spec"]["claim"]
    released[1]["metadata"]["generation"] = 2
    assert not claimable(released[1])
    assert given_back(waiting_sets(pool.sets, pool.deployments.values(), released), released, ()) == {}, "it comes soon"


@pytest.mark.parametrize("change", ["paused", "deleted", "another namesake"])
def test_who_may_not_claim_waits_for_nothing(change: str) -> None:
    pool = Pool()
    pool.declare("old", 2)
    if change == "paused":
        pool.deployments["old"]["spec"]["paused"] = True
    elif change == "deleted":
        pool.deployments["old"]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    else:
        pool.deployments["old"]["metadata"]["uid"] = "later"
    assert waiting_sets(pool.sets, pool.deployments.values(), [idle()]) == ()
