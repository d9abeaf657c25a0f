from __future__ import annotations

from typing import Any

import pytest

from harness.operator.api.made import ZONE_LABEL
from harness.operator.controllers.machine_choice import Claimant, claimable, oldest_first, shortage, spread
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


def zoned(name: str, zone: str, made: str = "2026-01-01T00:00:00Z") -> Json:
    found = idle(name, made=made)
    found["metadata"]["labels"] = {"rack": "a", ZONE_LABEL: zone}
    return found


def test_machines_are_claimed_over_zones_and_oldest_first_within_one() -> None:
    young = "2026-01-02T00:00:00Z"
    free = [zoned("a-1", "a"), zoned("a-2", "a"), zoned("b-2", "b", young), zoned("b-1", "b"), zoned("c-1", "c", young)]
    assert [m["metadata"]["name"] for m in spread(free, [])] == ["a-1", "b-1", "c-1", "a-2", "b-2"]
    assert [m["metadata"]["name"] for m in spread(free, [zoned("a-0", "a")])][:2] == ["b-1", "c-1"]


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
