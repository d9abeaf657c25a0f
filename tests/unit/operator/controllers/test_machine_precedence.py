"""Which of several clusters gets Machines, in every order in which things can happen: never do two wait for ever."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest

from harness.operator.controllers.machine_choice import Claimant, claimable, oldest_first
from harness.operator.controllers.machine_precedence import WaitingSet, given_back, goes_first, waiting_sets
from tests.unit.operator.api.objects import deployment, wanted_set
from tests.unit.operator.controllers.objects import idle

Json = dict[str, Any]
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
        for machine in oldest_first(self.machines) if missing > 0 else ():
            free = claimant.chooses(machine) and claimable(machine)
            if free and not goes_first(machine, self.deployments[claimant.cluster], waiting):
                machine["spec"]["claim"] = claimant.json()
                return True
        return False

    def give_back(self) -> bool:
        """Let one Machine be given back, and be looked at; tell whether one was."""
        waiting = self.waiting()
        for machine in self.machines:
            if machine["metadata"]["name"] in given_back(waiting, self.machines, ()):
                del machine["spec"]["claim"]
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
