"""Wrong files of pod networks are found, also on a node without pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch
from harness.validate.judge.network_files import wrong_network_files
from tests.unit.validate import foreign, guests, views
from tests.unit.validate.guests import Change
from tests.unit.validate.surrounded import VARIABLES, setups

EXPECTED = guests.expected(variables=VARIABLES)
FILE = "10-flannel.conflist"


def judged(change: Change = lambda _: None, facts: dict[str, NodeFacts] | None = None) -> list[Mismatch]:
    return wrong_network_files(setups(change), facts or guests.facts(), views.view(), EXPECTED)


def no_pods(raw: guests.Json) -> None:
    raw.update(bridged={})


def sized(mtus: dict[str, int]) -> dict[str, NodeFacts]:
    """Return facts with other MTUs."""
    return {name: replace(seen, mtus={**seen.mtus, **mtus}) for name, seen in guests.facts().items()}


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in judged()] == []
    assert wrong_network_files({}, {}, views.view(), EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["cni"].update({"00-other.conflist": {}}), "00-other.conflist"),
        (lambda raw: raw["cni"].update({FILE: None}), "expected JSON"),
        (lambda raw: raw["cni"][FILE]["plugins"][0].update(mtu=9000), "mtu 1450, as cni0 has it"),
        (lambda raw: raw["cni"][FILE]["plugins"].pop(), "plugins as on cp-0, ['bridge', 'portmap']; saw ['bridge']"),
        (
            lambda raw: raw["cni"][FILE]["plugins"][0].update(ipam={"ranges": [[{"subnet": "10.243.9.0/24"}]]}),
            "subnets other than 10.243.1.0/24 []; saw ['10.243.9.0/24']",
        ),
        (lambda raw: raw.update(cni={}), FILE),
    ],
)
def test_a_wrong_file_is_found(change: Change, words: str) -> None:
    assert words in "; ".join(map(str, judged(change)))


def test_a_wrong_mtu_is_found_on_a_node_without_pods() -> None:
    def change(raw: guests.Json) -> None:
        no_pods(raw)
        raw["cni"][FILE]["plugins"][0].update(mtu=9000)

    assert [str(one) for one in judged(change)] == [
        f"w-0 /etc/cni/net.d/{FILE}: expected mtu 1450, as flannel.1 has it; saw 9000"
    ]


def test_a_bridge_that_no_pod_is_on_has_the_kernels_mtu() -> None:
    facts = sized({"cni0": 1500})
    assert "mtu 1500, as cni0 has it" in "; ".join(map(str, judged(facts=facts)))
    assert "w-0" not in "; ".join(map(str, judged(no_pods, facts)))


def test_without_a_tunnel_the_mtu_is_at_most_that_of_a_link() -> None:
    plugin = EXPECTED.plugin
    assert plugin is not None
    routes = replace(EXPECTED, plugin=plugin.model_copy(update={"tunnel": None}))

    def large(raw: guests.Json) -> None:
        no_pods(raw)
        raw["cni"][FILE]["plugins"][0].update(mtu=9000)

    assert wrong_network_files(setups(no_pods), guests.facts(), views.view(), routes) == []
    found = wrong_network_files(setups(large), guests.facts(), views.view(), routes)
    assert ["mtu 1500 at most" in str(one) for one in found] == [True]


def test_mtus_and_subnets_of_a_plugin_that_nobody_describes_are_its_own() -> None:
    def change(raw: guests.Json) -> None:
        no_pods(raw)
        raw["cni"][FILE]["plugins"][0].update(mtu=1280, ipam={"subnet": "10.1.0.0/16"})

    unsaid = foreign.expected(foreign.UNSAID)
    assert unsaid.plugin is None
    assert wrong_network_files(setups(change), guests.facts(), views.view(), unsaid) == []
