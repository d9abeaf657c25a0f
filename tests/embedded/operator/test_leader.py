"""Leader election on a real API: each process judges by its own clock, and one of them works."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure, Unreachable
from harness.kube.leader import GIVE_UP_SECONDS, LEASE_SECONDS, RETRY_SECONDS, Leadership, LeadershipLost, LeaseTimes
from harness.kube.resources import LEASE
from tests.embedded.operator.recorded import Asked, RecordedCluster

NAME = "who-works"
TAKEN_OVER_SECONDS = 20.0  # what docs/operator/installing.md promises
FIRST_LISTS_SECONDS = 3.0  # of two hundred clusters, on a host with two cores
PROMPT = LeaseTimes(renew=0.01, give_up=300.0, retry=0.01)
BRIEF = LeaseTimes(renew=0.01, give_up=0.1, retry=0.01)


@dataclass
class Clock:
    """A process's own clock."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the process that waits."""
    return Clock()


@pytest.fixture
def one(client: RecordedCluster, namespace: str) -> Leadership:
    """Return the process that comes first; its requests are the test's to refuse."""
    return Leadership(client, namespace, NAME, "one", times=PROMPT)


@pytest.fixture
def two(api: Cluster, namespace: str, clock: Clock) -> Leadership:
    """Return the process that waits."""
    return Leadership(api, namespace, NAME, "two", clock=clock)


def lease(api: Cluster, namespace: str) -> Json:
    found = api.get(LEASE, NAME, namespace)
    assert found is not None
    return found


def test_the_first_has_it_and_the_second_has_not(
    one: Leadership, two: Leadership, api: Cluster, namespace: str
) -> None:
    assert one.attempt()
    assert not two.attempt()
    assert lease(api, namespace)["spec"]["holderIdentity"] == "one"


def test_who_does_not_renew_is_replaced_after_the_time_of_the_lease(
    one: Leadership, two: Leadership, clock: Clock, api: Cluster, namespace: str
) -> None:
    assert one.attempt()
    assert not two.attempt()
    clock.at = LEASE_SECONDS - 0.1
    assert not two.attempt()
    clock.at = LEASE_SECONDS
    assert two.attempt()
    spec = lease(api, namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)


@pytest.mark.parametrize("late", [0.0, RETRY_SECONDS - 0.1])
def test_who_is_killed_is_replaced_in_time_for_the_first_lists(
    one: Leadership, two: Leadership, clock: Clock, late: float
) -> None:
    """`late`: how long after the last renewal it is seen for the first time."""
    assert one.attempt()
    clock.at = late
    looks = 1
    while not two.attempt():
        clock.at += two.pause()
        looks += 1
    assert clock.at <= TAKEN_OVER_SECONDS - FIRST_LISTS_SECONDS
    assert looks <= LEASE_SECONDS / RETRY_SECONDS + 2, "and without asking more often than twice in four seconds"


def test_a_holder_gives_up_before_another_can_take_over() -> None:
    assert GIVE_UP_SECONDS + RETRY_SECONDS < LEASE_SECONDS


def test_who_renews_stays(one: Leadership, two: Leadership, clock: Clock) -> None:
    assert one.attempt()
    for moment in range(0, 100, 10):
        clock.at = float(moment)
        assert not two.attempt()
        one.renew()


def test_clocks_of_other_machines_do_not_count(two: Leadership, clock: Clock, api: Cluster, namespace: str) -> None:
    spec = {"holderIdentity": "far", "leaseDurationSeconds": 30, "renewTime": "2001-01-01T00:00:00.000000Z"}
    api.create(LEASE, LEASE.manifest(NAME, namespace, labels={}, spec=spec))
    assert not two.attempt()
    for beat in range(1, 5):
        api.merge(LEASE, NAME, {"spec": {"renewTime": f"2001-01-01T00:00:0{beat}.000000Z"}}, namespace)
        clock.at += LEASE_SECONDS - 1.0
        assert not two.attempt()
    clock.at += 30.0  # as its Lease says
    assert two.attempt()


def test_who_was_replaced_learns_it_at_the_next_renewal(one: Leadership, two: Leadership, clock: Clock) -> None:
    assert one.attempt()
    two.attempt()
    clock.at = LEASE_SECONDS + 1.0
    assert two.attempt()
    with pytest.raises(LeadershipLost, match="is two's now") as lost:
        one.renew()
    assert lost.value.exit_code != 0


def test_who_cannot_renew_gives_up_before_another_takes_over(namespace: str, client: RecordedCluster) -> None:
    one = Leadership(client, namespace, NAME, "one", times=BRIEF)
    assert one.attempt()

    def cut(_: Asked) -> None:
        raise Unreachable("cut off")

    client.before = cut
    with pytest.raises(LeadershipLost, match=r"could not be renewed for 0\.1 s.*cut off"):
        one.keep(threading.Event())


def test_an_answer_that_was_lost_costs_nothing(
    one: Leadership, client: RecordedCluster, api: Cluster, namespace: str
) -> None:
    assert one.attempt()
    left = ["the first"]

    def lose(asked: Asked) -> None:
        if asked.method == "PUT" and left:
            left.clear()
            raise Unreachable("the answer was lost")

    client.after = lose
    one.renew()
    before = lease(api, namespace)["metadata"]["resourceVersion"]
    one.renew()
    assert lease(api, namespace)["metadata"]["resourceVersion"] != before


def test_a_lease_that_somebody_labelled_is_still_renewed(one: Leadership, api: Cluster, namespace: str) -> None:
    assert one.attempt()
    api.merge(LEASE, NAME, {"metadata": {"labels": {"a": "b"}}}, namespace)
    one.renew()
    assert lease(api, namespace)["metadata"]["labels"] == {"a": "b"}


def test_a_released_lease_is_anybodys_at_once(one: Leadership, two: Leadership) -> None:
    assert one.attempt()
    assert not two.attempt()
    one.release()
    assert two.attempt()


def test_a_lease_that_is_deleted_is_made_anew_by_its_holder_or_another(
    one: Leadership, two: Leadership, api: Cluster, namespace: str
) -> None:
    assert one.attempt()
    api.delete(LEASE, NAME, namespace)
    assert two.attempt()
    with pytest.raises(LeadershipLost):
        one.renew()


def test_of_two_at_the_same_moment_one_is_refused(one: Leadership, two: Leadership, client: RecordedCluster) -> None:
    other: list[bool] = []

    def overtake(asked: Asked) -> None:
        if asked.writes:
            client.before = lambda _: None
            other.append(two.attempt())

    client.before = overtake
    assert [one.attempt(), *other] == [False, True]


def test_waiting_ends_when_the_process_is_to_end(one: Leadership, two: Leadership) -> None:
    assert two.attempt()
    stopping = threading.Event()
    stopping.set()
    assert one.acquire(stopping) is False


def test_a_refusal_that_does_not_pass_is_told(one: Leadership, client: RecordedCluster) -> None:
    def refuse(_: Asked) -> None:
        raise ApiFailure(403, "Forbidden", "leases are forbidden", [], request="GET")

    client.before = refuse
    with pytest.raises(ApiFailure, match="forbidden"):
        one.acquire(threading.Event())
