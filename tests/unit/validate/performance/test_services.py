"""How long Services took to answer on a node: whichever clock the node has."""

from __future__ import annotations

from harness.validate.performance.services import FirstAnswers, first_answers, middle, taken

ADDRESSES = ["10.95.0.1", "10.95.0.2", "10.95.0.3"]


def test_clocks_that_may_agree_do() -> None:
    found = first_answers({"began": 100.2, "ended": 110.0, "first": {"10.95.0.1:80": 105.0}}, 100.0, 110.3)
    assert found == FirstAnswers(100.2, {"10.95.0.1:80": 105.0})


def test_a_clock_that_is_ahead_is_set_back() -> None:
    found = first_answers({"began": 160.2, "ended": 170.0, "first": {"10.95.0.1:80": 165.0}}, 100.0, 110.2)
    assert abs(found.began - 100.2) <= 0.2
    assert abs(found.first["10.95.0.1:80"] - 105.0) <= 0.2


def test_a_service_that_never_answered_is_told_from_one_that_did() -> None:
    found = FirstAnswers(0.0, {"10.95.0.1:80": 2.5, "10.95.0.3:80": 5.0})
    assert taken([2.0, 3.0, 4.0], ADDRESSES, found) == [0.5, None, 1.0]


def test_what_had_an_endpoint_before_the_node_asked_says_nothing() -> None:
    assert taken([2.0, 3.0, 4.0], ADDRESSES, FirstAnswers(3.5, {"10.95.0.3:80": 4.25})) == [0.25]


def test_an_answer_before_its_endpoint_took_no_time() -> None:
    assert taken([2.0], ADDRESSES[:1], FirstAnswers(0.0, {"10.95.0.1:80": 1.99})) == [0.0]


def test_the_median_is_of_those_that_answered() -> None:
    assert middle([0.5, None, 1.5, 0.7]) == 0.7
