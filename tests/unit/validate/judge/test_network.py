"""What is made of the probes' answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.kube import Cluster
from harness.kube.client import Answer, Unreachable
from harness.until import Deadline
from harness.validate import probes as dials
from harness.validate.findings import Mismatch, eventually
from harness.validate.judge import network
from harness.validate.probes import DialResult, ProbePod, Probes
from tests.unit.validate import guests
from tests.unit.validate.guests import NOWHERE

Query = dict[str, str]
Reply = Callable[[str, Query], Answer]
TLS = "Client sent an HTTP request to an HTTPS server.\n"
ADDRESSES = {"probe-cp": "10.243.0.8", "probe-w": "10.243.1.8"}
OUTSIDE = "10.222.0.1:5000"
NAMES = {"10.243.0.9": "peer-cp", "10.243.1.9": "peer-w"}


def well(source: str, query: Query) -> Answer:
    """Answer as probes of a well network do."""
    tries = int(query["tries"])
    if query["port"] == "443":
        said = [TLS]
    elif query["request"].startswith("echo?msg="):
        said = [query["request"].removeprefix("echo?msg=")]
    elif query["request"] == "clientip":
        said = [f"{ADDRESSES[source]}:40000"]
    elif query["port"] == "5000":
        said = ["{}"]
    elif query["host"] in NAMES:
        said = [NAMES[query["host"]]]
    else:
        said = [("probe-cp", "probe-w")[number % 2] for number in range(tries)]
    return Answer(200, {"responses": said}, ())


class Api(Cluster):
    """A pod proxy that answers by a function of the probe that dials and what it is asked."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(NOWHERE)
        self.reply = reply
        self.asked: list[tuple[str, Query]] = []

    def send(self, method: str, path: str, *, query: Any = None, **_: Any) -> Answer:
        source = path.split("/")[6].removesuffix(":8080")
        self.asked.append((source, dict(query or {})))
        return self.reply(source, dict(query or {"tries": "1", "port": "", "request": "", "host": ""}))


def probes(reply: Reply = well) -> Probes:
    return Probes(
        api=Api(reply),
        dialling={
            "cp-0": ProbePod("probe-cp", "cp-0", ("10.243.0.8",)),
            "w-0": ProbePod("probe-w", "w-0", ("10.243.1.8",)),
        },
        dialled={
            "cp-0": ProbePod("peer-cp", "cp-0", ("10.243.0.9",)),
            "w-0": ProbePod("peer-w", "w-0", ("10.243.1.9",)),
        },
        service_addresses=("10.95.1.1",),
        node_port=30080,
        proxy_seconds=10.0,
    )


Judge = Callable[[Probes], list[Mismatch]]
JUDGES: tuple[Judge, ...] = (
    lambda p: network.unreachable_pods(p, guests.expected(), protocol="http"),
    lambda p: network.unreachable_pods(p, guests.expected(), protocol="udp"),
    lambda p: network.lost_large_answers(p, guests.expected()),
    lambda p: network.unserved(p, guests.expected(), p.service_address),
    lambda p: network.unserved(p, guests.expected(), p.service_address, protocol="udp"),
    lambda p: network.changed_sources(p, guests.expected()),
    lambda p: network.closed_node_ports(p, guests.expected()),
    lambda p: network.api_unreachable(p, guests.expected()),
)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_well_network_passes(judge: Judge) -> None:
    assert judge(probes()) == []


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {"errors": ["connection refused"]}, ()),
        Answer(200, {}, ()),
        Answer(200, {"responses": ["another"]}, ()),
        Answer(400, "host and/or port param are invalid. lookup probe: no such host", ()),
        Answer(200, "not json", ()),
    ],
)
def test_one_node_that_gets_no_right_answer_is_found(judge: Judge, answer: Answer) -> None:
    found = judge(probes(lambda source, query: answer if source == "probe-w" else well(source, query)))
    assert found
    assert all(finding.where.startswith("w-0 -> ") for finding in found)


NO_ANSWER = Unreachable("GET /api/v1/namespaces: timed out")
NO_ROUTE = Answer(503, {"kind": "Status", "message": "no route to host"}, ())


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(("trouble", "words"), [(NO_ANSWER, "no answer"), (NO_ROUTE, "no route to host")])
def test_a_probe_that_the_api_server_does_not_reach_is_found_once_and_blames_no_pair(
    judge: Judge, trouble: Answer | Unreachable, words: str
) -> None:
    def reply(source: str, query: Query) -> Answer:
        if source == "probe-w":
            if isinstance(trouble, Unreachable):
                raise trouble
            return trouble
        return well(source, query)

    (found,) = judge(probes(reply))
    assert found.where == "API server -> probe on w-0"
    assert dials.only_unasked([found])
    assert not dials.only_unasked([found, Mismatch("w-0 -> cp-0", "an answer", "none")])
    assert words in found.seen


def test_a_probe_that_is_silent_is_only_asked_whether_it_is_there_until_it_says_so() -> None:
    there: list[bool] = []

    def reply(source: str, query: Query) -> Answer:
        if source == "probe-w" and not there:
            raise NO_ANSWER
        return well(source, query)

    asked = probes(reply)
    (first,) = network.unreachable_pods(asked, guests.expected(), protocol="http")
    before = len(asked.api.asked)  # type: ignore[attr-defined]
    for _ in range(3):
        (again,) = network.closed_off(asked, guests.expected(), OUTSIDE)
        assert again.where == first.where
        assert "no answer" in again.seen
    questions = [query for source, query in asked.api.asked[before:] if source == "probe-w"]  # type: ignore[attr-defined]
    assert questions == [{}, {}, {}], "no request that would wait for what is dialled"
    there.append(True)
    assert network.closed_off(asked, guests.expected(), OUTSIDE) == []
    assert not asked.silent


@pytest.mark.parametrize("judge", JUDGES)
def test_an_answer_of_the_api_server_that_comes_at_the_second_time_is_enough(judge: Judge) -> None:
    late: list[str] = []

    def reply(source: str, query: Query) -> Answer:
        asked = f"{source} {query}"
        if asked in late:
            return well(source, query)
        late.append(asked)
        raise NO_ANSWER

    assert judge(probes(reply)) == []


def test_every_ordered_pair_of_nodes_is_asked_once() -> None:
    placed = probes()
    assert network.unreachable_pods(placed, guests.expected(), protocol="http") == []
    assert isinstance(placed.api, Api)
    asked = sorted((source, query["host"]) for source, query in placed.api.asked)
    assert asked == sorted((source, host) for source in ("probe-cp", "probe-w") for host in NAMES)


def test_a_backend_that_never_answers_is_found() -> None:
    found = network.unserved(
        probes(lambda _, query: Answer(200, {"responses": ["probe-cp"] * int(query["tries"])}, ())),
        guests.expected(),
        "10.95.1.1",
    )
    assert len(found) == 2
    assert "probe-w" in found[0].expected


def test_a_pair_that_was_not_asked_is_found() -> None:
    asked = dials.pairs(guests.expected())
    answers = {pair: DialResult(("name",), ()) for pair in asked[1:]}
    found = dials.wrong_answers(asked, answers, lambda _: "name")
    assert [finding.where for finding in found] == ["the check", "cp-0 -> cp-0"]


def test_large_answers_are_named_by_their_size() -> None:
    found = network.lost_large_answers(
        probes(lambda *_: Answer(200, {"responses": ["x" * 500]}, ())), guests.expected()
    )
    assert "8000 bytes" in found[0].expected
    assert "500 bytes" in found[0].seen


def test_what_comes_right_in_time_is_not_held_against_it() -> None:
    answers = [[Mismatch("a", "b", "c")], []]
    assert eventually(lambda: answers.pop(0), deadline=Deadline.after(30), what="it is well") == []


def test_what_stays_wrong_is_returned_as_it_was_last() -> None:
    last = [Mismatch("a", "b", "c")]
    assert eventually(lambda: last, deadline=Deadline.after(0), what="it is well") == last


def test_pods_that_do_not_reach_the_outside_are_found() -> None:
    def lost(source: str, query: Query) -> Answer:
        return Answer(200, {"errors": ["i/o timeout"]}, ()) if source == "probe-w" else well(source, query)

    assert network.closed_off(probes(), guests.expected(), OUTSIDE) == []
    found = network.closed_off(probes(lost), guests.expected(), OUTSIDE)
    assert [str(one) for one in found] == ["w-0 -> 10.222.0.1:5000: expected an answer to a pod; saw i/o timeout"]


def test_a_source_address_that_is_translated_is_found() -> None:
    def translated(source: str, query: Query) -> Answer:
        return (
            Answer(200, {"responses": ["10.243.1.1:40000"]}, ())
            if query["host"] == "10.243.1.9"
            else well(source, query)
        )

    found = network.changed_sources(probes(translated), guests.expected())
    assert [(one.where, one.seen) for one in found] == [("cp-0 -> w-0", "10.243.1.1"), ("w-0 -> w-0", "10.243.1.1")]
