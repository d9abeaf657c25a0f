"""What machines themselves do not reach is found, and an answer that is missing too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.validate.judge.machine_network import cut_packets, packet_size, unanswered, unreached
from harness.validate.probes import ProbePod, Probes
from tests.unit.validate import foreign, guests

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
