"""Pods that a server outside of the cluster sees under another address than their node's are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.kube.client import Answer
from harness.model import Mirror
from harness.validate.judge.outside import changed_outside, seen_of_nodes
from tests.unit.validate import foreign, guests
from tests.unit.validate.judge.test_network import probes

MIRROR = Mirror("http://10.222.0.1:8080", "10.222.0.1:5000")
OWN = {"cp-0": "10.222.1.2", "w-0": "10.222.1.3"}
EXPECTED = guests.expected()


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
