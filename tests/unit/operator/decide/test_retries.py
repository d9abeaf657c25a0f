"""What an operation that failed waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.api.cluster import PastOperation
from harness.operator.decide.observed import Observed
from harness.operator.decide.operations import next_operation
from harness.operator.decide.retries import FIRST_SECONDS, LONGEST_SECONDS, delay_seconds
from tests.unit.operator.decide.wishes import CP, NOW, claimed, deployed, operation, past, wait, wish


def after(*history: PastOperation) -> Observed:
    """Return the world after these operations, the latest first."""
    return Observed(NOW, sequence=max(one.sequence for one in history), history=history)


def test_a_failure_of_the_product_is_final_for_these_inputs() -> None:
    failed = past(
        wish(), task="kubeadm : init", host="cp-0", summary="exit status 1", hint="look at the log", ago=86400
    )
    found = wait(next_operation(wish(), after(failed)))
    assert (found.reason, found.again_seconds) == ("Failed", None)
    assert found.message == (
        "deploy failed, product to blame at task 'kubeadm : init' on cp-0: exit status 1; look at the log; change the "
        "object, or give annotation cluster.vmatrix.dev/retry another value, to try again"
    )


@pytest.mark.parametrize("blame", ["product", "user", "harness", None])
def test_only_the_infrastructures_failures_are_tried_again_by_themselves(blame: str | None) -> None:
    assert wait(next_operation(wish(), after(past(wish(), blame=blame, ago=86400)))).reason == "Failed"


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.36.1"},
        {"retry": "1"},
        {"jobs": {"deadlineSeconds": 7200}},
        {"playbooks": {"image": "registry:5000/fixed:2"}},
        {"source": {"mirror": "http://192.0.2.1:8080", "registry": "192.0.2.1:5000"}},
        {"variables": {"cluster_timeout_scale": 3}},
    ],
)
def test_other_inputs_begin_anew(change: dict[str, Any]) -> None:
    one = operation(next_operation(wish(**change), after(past(wish()))))
    assert (one.operation, one.sequence, one.attempt) == ("deploy", 2, 1)


def test_another_machine_or_another_login_is_another_input() -> None:
    failed = after(past(wish(CP, machines=(claimed("cp-0", "cp"),))))
    other = wish(CP, machines=(claimed("cp-0", "cp", user="admin"),))
    assert operation(next_operation(other, failed)).attempt == 1
    other = wish(CP, machines=(claimed("cp-7", "cp"),))
    assert operation(next_operation(other, failed)).attempt == 1


def test_a_wish_that_failed_and_comes_back_is_remembered() -> None:
    history = (past(wish(version="1.36.1"), sequence=2), past(wish(), sequence=1))
    assert wait(next_operation(wish(), after(*history))).reason == "Failed"


def test_a_failure_of_the_infrastructure_is_tried_again_after_a_delay() -> None:
    failed = past(wish(), blame="infra", summary="no route to host", ago=10)
    found = wait(next_operation(wish(), after(failed)))
    assert (found.reason, found.again_seconds) == ("RetryLater", FIRST_SECONDS - 10)
    assert found.message == "deploy failed, infra to blame: no route to host; attempt 2 of 3 follows"
    one = operation(next_operation(wish(), after(past(wish(), blame="infra", ago=FIRST_SECONDS))))
    assert (one.sequence, one.attempt) == (1, 2)


def test_an_executor_that_was_stopped_is_tried_again() -> None:
    stopped = past(wish(), blame=None, outcome="interrupted", ago=FIRST_SECONDS)
    assert operation(next_operation(wish(), after(stopped))).attempt == 2


def test_the_delay_grows_with_each_attempt_up_to_a_limit() -> None:
    assert [delay_seconds(n) for n in (1, 2, 3, 4, 5, 6, 99)] == [
        30,
        60,
        120,
        240,
        480,
        LONGEST_SECONDS,
        LONGEST_SECONDS,
    ]


def test_attempts_end_with_the_retries_of_the_object() -> None:
    def third(retries: int) -> Observed:
        one = wish(jobs={"retries": retries})
        return after(*(past(one, blame="infra", attempt=n, ago=86400) for n in (3, 2, 1)))

    found = wait(next_operation(wish(jobs={"retries": 2}), third(2)))
    assert found.reason == "Failed"
    assert found.message.startswith("deploy failed 3 times, infra to blame")
    assert operation(next_operation(wish(jobs={"retries": 3}), third(3))).attempt == 4
    assert wait(next_operation(wish(jobs={"retries": 0}), after(past(wish(), blame="infra")))).reason == "Failed"


def test_a_retry_by_hand_counts_attempts_from_the_first() -> None:
    tired = tuple(past(wish(), blame="infra", attempt=n, ago=86400) for n in (3, 2, 1))
    one = operation(next_operation(wish(retry="again"), after(*tired)))
    assert (one.sequence, one.attempt) == (2, 1)


def test_a_retry_after_another_wish_has_a_number_of_its_own() -> None:
    history = (past(wish(version="1.36.1"), sequence=2), past(wish(), blame="infra", sequence=1, ago=86400))
    one = operation(next_operation(wish(), after(*history)))
    assert (one.sequence, one.attempt) == (3, 2)


def test_a_retry_after_an_operation_that_was_given_up_has_a_number_of_its_own() -> None:
    world = Observed(NOW, sequence=2, history=(past(wish(), blame="infra", sequence=1, ago=86400),))
    one = operation(next_operation(wish(), world))
    assert (one.sequence, one.attempt) == (3, 2)


def test_missing_machines_come_before_the_delay_and_before_a_failure() -> None:
    for blame in ("infra", "product"):
        world = replace(after(past(wish(), blame=blame)), trouble={"w-1": "no answer"})
        assert wait(next_operation(wish(), world)).reason == "WaitingForMachines"


def test_a_clock_that_was_set_back_does_not_make_the_delay_longer() -> None:
    found = wait(next_operation(wish(), after(past(wish(), blame="infra", ago=-86400))))
    assert found.again_seconds == FIRST_SECONDS


def test_a_reset_that_failed_says_how_to_delete_without_it() -> None:
    one = wish(deleted=True)
    world = deployed(wish())
    world = replace(world, sequence=2, history=(past(one, "reset", sequence=2), *world.history))
    found = wait(next_operation(one, world))
    assert found.reason == "Failed"
    assert found.message.endswith("(or set spec.deletion.machines to Leave)")
