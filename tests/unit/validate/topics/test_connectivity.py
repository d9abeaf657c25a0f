"""What pods, nodes and servers outside of the cluster do not get of each other is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.kube import Cluster
from harness.kube.client import Answer, Unreachable
from harness.model import Mirror
from harness.until import Deadline
from harness.validate import probes as dials
from harness.validate.findings import Mismatch, eventually
from harness.validate.probes import DialResult, ProbePod, Probes
from harness.validate.topics import connectivity
from harness.validate.topics.connectivity import (
    changed_outside,
    cut_packets,
    packet_size,
    seen_of_nodes,
    unanswered,
    unreached,
)
from tests.unit.validate import foreign, guests
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
    lambda p: connectivity.unreachable_pods(p, guests.expected(), protocol="http"),
    lambda p: connectivity.unreachable_pods(p, guests.expected(), protocol="udp"),
    lambda p: connectivity.lost_large_answers(p, guests.expected()),
    lambda p: connectivity.unserved(p, guests.expected(), p.service_address),
    lambda p: connectivity.unserved(p, guests.expected(), p.service_address, protocol="udp"),
    lambda p: connectivity.changed_sources(p, guests.expected()),
    lambda p: connectivity.closed_node_ports(p, guests.expected()),
    lambda p: connectivity.api_unreachable(p, guests.expected()),
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
    (first,) = connectivity.unreachable_pods(asked, guests.expected(), protocol="http")
    before = len(asked.api.asked)  # type: ignore[attr-defined]
    for _ in range(3):
        (again,) = connectivity.closed_off(asked, guests.expected(), OUTSIDE)
        assert again.where == first.where
        assert "no answer" in again.seen
    questions = [query for source, query in asked.api.asked[before:] if source == "probe-w"]  # type: ignore[attr-defined]
    assert questions == [{}, {}, {}], "no request that would wait for what is dialled"
    there.append(True)
    assert connectivity.closed_off(asked, guests.expected(), OUTSIDE) == []
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
    assert connectivity.unreachable_pods(placed, guests.expected(), protocol="http") == []
    assert isinstance(placed.api, Api)
    asked = sorted((source, query["host"]) for source, query in placed.api.asked)
    assert asked == sorted((source, host) for source in ("probe-cp", "probe-w") for host in NAMES)


def test_a_backend_that_never_answers_is_found() -> None:
    found = connectivity.unserved(
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
    found = connectivity.lost_large_answers(
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

    assert connectivity.closed_off(probes(), guests.expected(), OUTSIDE) == []
    found = connectivity.closed_off(probes(lost), guests.expected(), OUTSIDE)
    assert [str(one) for one in found] == ["w-0 -> 10.222.0.1:5000: expected an answer to a pod; saw i/o timeout"]


def test_a_source_address_that_is_translated_is_found() -> None:
    def translated(source: str, query: Query) -> Answer:
        return (
            Answer(200, {"responses": ["10.243.1.1:40000"]}, ())
            if query["host"] == "10.243.1.9"
            else well(source, query)
        )

    found = connectivity.changed_sources(probes(translated), guests.expected())
    assert [(one.where, one.seen) for one in found] == [("cp-0 -> w-0", "10.243.1.1"), ("w-0 -> w-0", "10.243.1.1")]


PODS = {name: ProbePod(f"p-{name}", name, (f"10.243.{place}.9",)) for place, name in enumerate(("cp-0", "w-0"))}
PROBES = Probes(None, PODS, PODS, ("10.95.0.77",), 30080, 1.0)  # type: ignore[arg-type]
SERVERS = {"10.95.0.10": "the DNS Service", "10.243.0.3": "a DNS pod"}
EXPECTED = guests.expected()
SIZES = dict.fromkeys(EXPECTED.nodes, 1450)


def answers(why: Mapping[Any, str] | None = None, *, without: int = 0) -> Any:
    """Return what lets machines dial: everything works, but for what contains all the words of a key."""

    def ask(given: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
        found = {}
        for name, asked in given.items():
            rows = [[kind, *one] for kind, several in asked.items() for one in several]
            reasons = [next((w for key, w in (why or {}).items() if set(key) <= {name, *row}), "") for row in rows]
            found[name] = [[*row, reason] for row, reason in zip(rows, reasons, strict=True)][without:]
        return found

    return ask


def test_only_a_well_guest_passes() -> None:
    assert unreached(PROBES, ["10.95.0.1"], EXPECTED, answers()) == []
    assert cut_packets(PROBES, SIZES, EXPECTED, answers()) == []
    assert unanswered(SERVERS, "a.b", EXPECTED, answers()) == []


def test_a_machine_that_answers_less_than_it_was_asked_is_found() -> None:
    assert len(unreached(PROBES, ["10.95.0.1"], EXPECTED, answers(without=1))) == 2
    assert len(cut_packets(PROBES, SIZES, EXPECTED, answers(without=1))) == 2
    assert len(unanswered(SERVERS, "a.b", EXPECTED, answers(without=1))) == 2
    assert unanswered({}, "a.b", EXPECTED, answers())


def test_what_a_machine_does_not_reach_is_found() -> None:
    (found,) = unreached(PROBES, ["10.95.0.1"], EXPECTED, answers({("w-0", "10.243.0.9"): "timed out"}))
    assert str(found) == "w-0 -> pod on cp-0 (10.243.0.9:8080): expected a connection; saw timed out"
    (found,) = unreached(PROBES, ["10.95.0.1"], EXPECTED, answers({("w-0", "10.95.0.1"): "refused"}))
    assert "w-0 -> Service default/kubernetes (10.95.0.1:443)" in str(found)


def test_a_packet_of_the_mtu_that_gets_lost_is_found() -> None:
    (found,) = cut_packets(PROBES, SIZES, EXPECTED, answers({("cp-0", "10.243.1.9", 1450): "timed out"}))
    assert "cp-0 -> pod on w-0" in str(found)
    assert "1450 bytes" in str(found)


def test_dns_that_answers_one_way_only_is_found() -> None:
    (found,) = unanswered(SERVERS, "a.b", EXPECTED, answers({("w-0", "10.243.0.3", "tcp"): "timed out"}))
    assert str(found) == "w-0 -> a DNS pod (10.243.0.3:53/tcp): expected the address of a.b; saw timed out"


def test_without_a_tunnel_the_links_decide_how_large_a_packet_may_be() -> None:
    seen = guests.facts()["cp-0"]
    assert packet_size(seen, EXPECTED) == seen.mtus["flannel.1"]
    unknown = guests.expected(variables={**guests.VARIABLES, "cluster_network_plugin": "nobody"}, leaves=foreign.UNSAID)
    assert packet_size(seen, unknown) == min(m for n, m in seen.mtus.items() if seen.links[n] in ("", "veth", "bridge"))


def test_a_service_without_an_address_of_a_family_is_not_dialled_there() -> None:
    asked: list[Mapping[str, Any]] = []

    def ask(given: Mapping[str, Any]) -> Any:
        asked.append(given)
        return answers()(given)

    assert unreached(PROBES, ["fd10:95::1"], EXPECTED, ask) == []
    assert all(["fd10:95::1", 443] not in one["tcp"] for one in asked[0].values())


MIRROR = Mirror("http://10.222.0.1:8080", "10.222.0.1:5000")
OWN = {"cp-0": "10.222.1.2", "w-0": "10.222.1.3"}


def seen(**by_probe: str) -> Callable[[str, Mapping[str, str]], Answer]:
    """Return what the mirror answers to each probe, through the API server's proxy."""
    told = {"probe-cp": "10.222.1.2", "probe-w": "10.222.1.3", **{k.replace("_", "-"): v for k, v in by_probe.items()}}
    return lambda source, query: Answer(200, {"responses": [told[source] + "\n"]}, ())


def test_pods_under_their_nodes_address_are_right() -> None:
    assert changed_outside(probes(seen()), MIRROR, OWN, EXPECTED) == []


@pytest.mark.parametrize("other", ["10.222.1.200", "10.243.1.8", "404 nothing here"])
def test_pods_under_another_address_are_found(other: str) -> None:
    (found,) = changed_outside(probes(seen(probe_w=other)), MIRROR, OWN, EXPECTED)
    assert str(found).startswith("a pod on w-0 -> http://10.222.0.1:8080: expected 10.222.1.3 as source; saw")


def test_an_unknown_network_plugin_may_route_pods_addresses() -> None:
    unknown = guests.expected(variables={**guests.VARIABLES, "cluster_network_plugin": "nobody"}, leaves=foreign.UNSAID)
    assert changed_outside(probes(seen(probe_w="10.243.1.8")), MIRROR, OWN, unknown) == []
    assert changed_outside(probes(seen(probe_w="10.222.1.200")), MIRROR, OWN, unknown)


def test_a_pod_without_an_answer_is_found() -> None:
    lost = lambda source, query: Answer(200, {"errors": ["timed out"]}, ())  # noqa: E731
    assert [one.seen for one in changed_outside(probes(lost), MIRROR, OWN, EXPECTED)] == ["timed out", "timed out"]


def test_what_is_seen_of_a_node_is_what_the_mirror_tells_it() -> None:
    def ask(given: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
        assert all(asked["seen"] == [["10.222.0.1", 8080, "client"]] for asked in given.values())
        return {"cp-0": [["seen", "10.222.0.1", 8080, "client", "10.222.1.2"]], "w-0": [["seen", "", 0, "", "<html>"]]}

    assert seen_of_nodes(MIRROR, EXPECTED, ask) == {"cp-0": "10.222.1.2", "w-0": ""}
