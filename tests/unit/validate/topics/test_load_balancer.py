"""Services of type LoadBalancer that answer outside pass; each way of failing is a finding."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube import Cluster, Resource
from harness.validate.probes import ProbePod, Probes
from harness.validate.topics import load_balancer
from harness.validate.topics.load_balancer import OutsideAnswer, get_from_outside
from tests.unit.playbooks.mirror import serving
from tests.unit.validate.guests import NOWHERE, Json

POOL = load_balancer.pool_of({load_balancer.POOL: ["10.0.0.240-10.0.0.241", "10.0.1.0/30"]})
OWN = "10.0.0.1"


class Balanced(Cluster):
    """An API that gives each Service the next of some addresses."""

    def __init__(self, *addresses: list[str]) -> None:
        super().__init__(NOWHERE)
        self.addresses = list(addresses)
        self.there: dict[str, Json] = {}

    def create(self, resource: Resource, body: Json, **_: Any) -> Json:
        given = self.addresses.pop(0)
        body["status"] = {"loadBalancer": {"ingress": [{"ip": address} for address in given]}}
        self.there[body["metadata"]["name"]] = body
        return body

    def get(self, resource: Resource, name: str, *_: Any, **__: Any) -> Json | None:
        return self.there.get(name)

    def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> bool:
        return self.there.pop(name, None) is not None

    def events_of(self, *_: str) -> Any:
        return ["Warning AllocationFailed: no available IPs"]


def made(*addresses: list[str]) -> Balanced:
    api = Balanced(*(addresses or (["10.0.0.240"], ["10.0.1.3"])))
    load_balancer.create(api)
    return api


def probes(api: Cluster) -> Probes:
    dialling = {node: ProbePod(f"probe-{node}", node, ("10.243.0.9",)) for node in ("cp-0", "w-0")}
    return Probes(api, dialling, {}, ("10.95.0.7",), 30000, 1.0)


def test_services_with_addresses_of_the_pool_pass() -> None:
    assert load_balancer.wrong_addresses(made(), POOL) == []


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (([], ["10.0.1.3"]), "AllocationFailed"),
        ((["10.0.0.240", "10.0.0.241"], ["10.0.1.3"]), "10.0.0.240, 10.0.0.241"),
        ((["10.0.0.242"], ["10.0.1.3"]), "10.0.0.242"),
        ((["10.0.0.240"], ["10.0.1.4"]), "10.0.1.4"),
        ((["10.0.0.240"], ["fd00::1"]), "fd00::1"),
        ((["10.0.0.240"], ["10.0.0.240"]), "1"),
    ],
)
def test_a_wrong_address_is_found(addresses: tuple[list[str], ...], words: str) -> None:
    found = load_balancer.wrong_addresses(made(*addresses), POOL)
    assert any(words in one.seen for one in found)


def test_a_cell_without_addresses_proves_nothing() -> None:
    assert load_balancer.wrong_addresses(made(), ()) != []


def test_a_service_that_reaches_every_backend_passes() -> None:
    api, names = made(), ["probe-cp-0", "probe-w-0"]
    seen: list[tuple[str, int, str]] = []

    def ask(*asked: Any) -> OutsideAnswer:
        seen.append(asked)
        return OutsideAnswer(names[len(seen) % 2], OWN)

    assert load_balancer.unserved_outside(api, probes(api), ask) == []
    assert set(seen) == {("10.0.0.240", 80, "hostname")}


@pytest.mark.parametrize(
    "answer", [OutsideAnswer(error="timed out"), OutsideAnswer("probe-w-0", OWN), OutsideAnswer("other", OWN)]
)
def test_a_backend_that_is_missed_is_found(answer: OutsideAnswer) -> None:
    api = made()
    found = load_balancer.unserved_outside(api, probes(api), lambda *_: answer)
    assert "10.0.0.240:80" in found[0].where


def test_a_service_without_an_address_serves_nobody() -> None:
    api = made([], [])
    answer = OutsideAnswer("probe-w-0:1", OWN)
    assert "no address" in load_balancer.unserved_outside(api, probes(api), lambda *_: answer)[0].seen
    assert "no address" in load_balancer.hidden_clients(api, lambda *_: answer)[0].seen


@pytest.mark.parametrize(("text", "good"), [(f"{OWN}:40000", True), ("10.0.0.3:40000", False), ("", False)])
def test_a_pod_that_sees_another_client_is_found(text: str, good: bool) -> None:
    found = load_balancer.hidden_clients(made(), lambda *_: OutsideAnswer(text, OWN))
    assert (found == []) is good


def test_no_answer_to_a_local_service_is_found() -> None:
    assert load_balancer.hidden_clients(made(), lambda *_: OutsideAnswer(error="refused"))[0].seen == "refused"


def test_its_services_are_removed_again() -> None:
    api = made()
    load_balancer.remove(api)
    assert api.there == {}


def test_an_answer_comes_with_the_clients_own_address() -> None:
    with serving(lambda path: path == "/hostname", b"probe\n") as place:
        host, _, port = place.rpartition(":")
        answer = get_from_outside(host, int(port), "hostname", 5.0)
        refused = get_from_outside(host, int(port), "other", 5.0)
    assert (answer.text, answer.own, answer.error) == ("probe", "127.0.0.1", "")
    assert refused.error.startswith("404")


def test_where_nobody_listens_the_reason_is_told() -> None:
    answer = get_from_outside("127.0.0.1", 1, "hostname", 1.0)
    assert answer.text == ""
    assert answer.error
