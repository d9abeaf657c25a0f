"""What clusters get of a pool: nothing that another has, the same whoever asks, and a reason where there is nothing."""

from __future__ import annotations

from ipaddress import ip_network
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.operator.api.cluster import NetworksState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.networks import ClusterNetworkPool, PoolAllocation
from harness.operator.decide.networks import NetworksRefused, allocation, available, filled
from harness.operator.decide.observed import Observed
from harness.operator.decide.operations import next_operation
from tests.unit.operator.api.objects import defaulted, deployment
from tests.unit.operator.decide.wishes import NOW, operation, wait, wish

Json = dict[str, Any]


def pool(*taken: PoolAllocation, **spec: Any) -> ClusterNetworkPool:
    """Return a pool for four clusters, or with another spec."""
    given = {
        "pods": [{"cidr": "10.64.0.0/14", "prefix": 16}],
        "services": [{"cidr": "10.96.0.0/14", "prefix": 16}],
        "vxlan": {"vnis": {"first": 100, "last": 199}},
        **spec,
    }
    status = {"allocations": [one.model_dump(by_alias=True) for one in taken]}
    return ClusterNetworkPool.model_validate({"metadata": {"name": "flat"}, "spec": given, "status": status})


def cluster(name: str = "one", **network: Any) -> ClusterDeployment:
    body = deployment(name=name, namespace="team", network={"pool": "flat", **network})
    body["metadata"]["uid"] = f"uid-{name}"
    return defaulted(body)


def several(number: int, **spec: Any) -> ClusterNetworkPool:
    """Return a pool of which so many clusters have something."""
    made = pool(**spec)
    for one in range(number):
        made = pool(*made.status.allocations, allocation(made, cluster(f"c-{one}")), **spec)
    return made


def test_the_first_that_nobody_has_is_given() -> None:
    first = allocation(pool(), cluster())
    assert (first.pods, first.services, first.vni, first.port) == ("10.64.0.0/16", "10.96.0.0/16", 100, 8472)
    second = allocation(pool(first), cluster("two"))
    assert (second.pods, second.services, second.vni) == ("10.65.0.0/16", "10.97.0.0/16", 101)
    assert allocation(pool(first, second), cluster()) == first, "who asks twice has the same"
    assert allocation(pool(second), cluster("three")).pods == first.pods, "what is given up is free"


def test_ports_are_shared_out_where_the_pool_has_some() -> None:
    ports = {"vxlan": {"vnis": {"first": 1, "last": 9}, "ports": {"first": 9000, "last": 9001}}}
    assert [one.port for one in several(2, **ports).status.allocations] == [9000, 9001]


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"pods": "10.64.128.0/17"}, "spec.network.pods: 10.64.128.0/17 overlaps 10.64.0.0/16 of cluster team/c-0"),
        ({"pods": "10.96.0.0/24"}, "spec.network.pods: 10.96.0.0/24 overlaps 10.96.0.0/16 of cluster team/c-0"),
        ({"services": "10.0.0.0/8"}, "spec.network.services: 10.0.0.0/8 overlaps 10.64.0.0/16 of cluster team/c-0"),
        ({"vxlan": {"vni": 100}}, "spec.network.vxlan.vni: 100 is that of cluster team/c-0 in ClusterNetworkPool flat"),
    ],
)
def test_what_another_cluster_has_is_refused_by_name(network: Json, words: str) -> None:
    with pytest.raises(NetworksRefused, match="choose another") as refused:
        allocation(several(1), cluster("other", **network))
    assert refused.value.reason == "Conflict"
    assert words in str(refused.value)


def test_what_a_cluster_names_itself_is_written_down_and_left_out_for_others() -> None:
    own = allocation(pool(), cluster(pods="10.64.0.0/15", services="172.20.0.0/16", vxlan={"vni": 7, "port": 9}))
    assert (own.pods, own.services, own.vni, own.port) == ("10.64.0.0/15", "172.20.0.0/16", 7, 9)
    assert allocation(pool(own), cluster("two")).pods == "10.66.0.0/16"
    assert allocation(pool(), cluster(services="10.64.0.0/16")).pods == "10.65.0.0/16", "its own networks are apart"


BOTH: Json = {
    "pods": [{"cidr": "10.64.0.0/14", "prefix": 16}, {"cidr": "fd00:64::/54", "prefix": 56}],
    "services": [{"cidr": "fd00:96::/110", "prefix": 112}, {"cidr": "10.96.0.0/14", "prefix": 16}],
}
FOURTH = ("10.64.0.0/16", "10.96.0.0/16")
SIXTH = ("fd00:64::/56", "fd00:96::/112")


@pytest.mark.parametrize(
    ("spec", "network", "first", "second"),
    [
        (BOTH, {}, FOURTH, (None, None)),
        (BOTH, {"ipFamilies": ["IPv4"]}, FOURTH, (None, None)),
        (BOTH, {"ipFamilies": ["IPv6"]}, SIXTH, (None, None)),
        (BOTH, {"ipFamilies": ["IPv4", "IPv6"]}, FOURTH, SIXTH),
        (BOTH, {"pods": "10.9.0.0/16"}, ("10.9.0.0/16", FOURTH[1]), (None, None)),
        (BOTH, {"pods": "fd00:9::/56"}, ("fd00:9::/56", SIXTH[1]), (None, None)),
        (BOTH, {"ipv6Pods": "fd00:9::/56"}, FOURTH, ("fd00:9::/56", SIXTH[1])),
        ({name: one[-1:] if name == "pods" else one[:1] for name, one in BOTH.items()}, {}, SIXTH, (None, None)),
    ],
)
def test_a_cluster_has_networks_of_its_own_families(spec: Json, network: Json, first: Any, second: Any) -> None:
    mine = allocation(pool(**spec), cluster(**network))
    assert ((mine.pods, mine.services), (mine.ipv6_pods, mine.ipv6_services)) == (first, second)


def test_a_family_that_a_pool_lacks_is_named_and_so_is_what_another_cluster_has_of_a_second_one() -> None:
    with pytest.raises(NetworksRefused, match="has no range of IPv6 for ipv6Pods: add one, or set spec") as none:
        allocation(pool(), cluster(ipFamilies=["IPv4", "IPv6"]))
    assert none.value.reason == "NoRange"
    dual = allocation(pool(**BOTH), cluster("dual", ipFamilies=["IPv4", "IPv6"]))
    with pytest.raises(NetworksRefused, match="overlaps fd00:64::/56 of cluster team/dual"):
        allocation(pool(dual, **BOTH), cluster("other", ipv6Pods="fd00:64::/60"))
    third = allocation(pool(dual, **BOTH), cluster("third", ipFamilies=["IPv6"]))
    assert (third.pods, third.services) == ("fd00:64:0:100::/56", "fd00:96::1:0/112")


def test_a_pool_is_available_while_it_has_something_of_each_of_its_families() -> None:
    entries = [allocation(pool(**BOTH), cluster(ipFamilies=["IPv4", "IPv6"]))]
    for name in "abc":
        entries.append(allocation(pool(*entries, **BOTH), cluster(name, ipFamilies=["IPv6"])))
    said = available(pool(**BOTH), entries)
    assert said[:2] == (False, "Exhausted")
    assert "no ipv6Pods left" in said[2]
    assert available(pool(**BOTH), entries[:3])[0]


ONE = {"first": 1, "last": 1}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "flat has no pods left: 4 clusters have all that there are (/16 of 10.64.0.0/14): add a range, or delete"),
        (
            {"pods": [{"cidr": "10.0.0.0/8", "prefix": 16}], "services": [{"cidr": "11.0.0.0/16", "prefix": 18}]},
            "services",
        ),
        ({"pods": [{"cidr": "10.0.0.0/16", "prefix": 24}], "vxlan": {"vnis": {"first": 1, "last": 4}}}, "has no"),
    ],
)
def test_a_pool_that_is_exhausted_is_named_with_what_it_lacks(spec: Json, words: str) -> None:
    made = several(4, **spec)
    with pytest.raises(NetworksRefused) as refused:
        allocation(made, cluster("last"))
    assert refused.value.reason == "Exhausted"
    assert "ClusterNetworkPool flat has no" in str(refused.value)
    assert words in str(refused.value)
    assert available(made, made.status.allocations)[:2] == (False, "Exhausted")
    assert available(made, made.status.allocations[1:]) == (True, "Available", "3 clusters have a part of it")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"pods": [{"cidr": "10.64.0.1/14", "prefix": 16}]}, "10.64"),
        ({"pods": [{"cidr": "10.64.0.0/14", "prefix": 12}]}, ""),
        ({"pods": [{"cidr": "10.0.0.0/8", "prefix": 30}]}, ""),
        ({"services": [{"cidr": "10.65.0.0/16", "prefix": 20}]}, ""),
        ({"vxlan": {"vnis": {"first": 9, "last": 3}}}, ""),
        ({"vxlan": {"vnis": ONE, "ports": {"first": 60000, "last": 70000}}}, ""),
        ({"vxlan": {"vnis": ONE, "ports": {"first": 9001, "last": 9000}}}, ""),
        ({"pods": [{"cidr": "10.64.0.0/014", "prefix": 16}]}, ""),
        ({"pods": [{"cidr": "::ffff:10.0.0.0/104", "prefix": 112}]}, ""),
    ],
)
def test_a_pool_with_mistakes_gives_nothing(spec: Json, field: str) -> None:
    with pytest.raises(NetworksRefused, match="ClusterNetworkPool flat: ") as refused:
        allocation(pool(**spec), cluster())
    assert refused.value.reason == "PoolInvalid"


NAMED = st.sampled_from(
    [
        *({}, {"pods": "10.65.0.0/16"}, {"services": "10.64.0.0/17"}, {"vxlan": {"vni": 101}}),
        *({"ipFamilies": ["IPv6"]}, {"ipFamilies": ["IPv4", "IPv6"]}, {"ipv6Services": "fd00:64::/112"}),
    ]
)


def networks(one: PoolAllocation) -> list[Any]:
    texts = (one.pods, one.services, one.ipv6_pods, one.ipv6_services)
    return [ip_network(text) for text in texts if text is not None]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), NAMED), max_size=12))
@settings(max_examples=60, deadline=None)
def test_no_two_clusters_ever_have_the_same(steps: list[tuple[str, bool, Json]]) -> None:
    """Clusters come, ask again and go in any order, and name networks or not."""
    made = pool(**BOTH)
    for name, stays, network in steps:
        entries = made.status.allocations
        if not stays:
            made = pool(*(one for one in entries if one.cluster != name), **BOTH)
            continue
        try:
            mine = allocation(made, cluster(name, **network))
        except NetworksRefused:
            continue
        made = pool(*(one for one in entries if one != mine), mine, **BOTH)
    for one, other in combinations(made.status.allocations, 2):
        assert one.vni != other.vni
        assert not any(a.version == b.version and a.overlaps(b) for a in networks(one) for b in networks(other))


def test_a_deployment_waits_for_its_networks_and_gets_them() -> None:
    network: Json = {"pool": "flat"}
    assert wait(next_operation(wish(network=network), Observed(NOW))).reason == "WaitingForNetworks"
    none = NetworksState(pool="flat", reason="Exhausted", message="flat has none")
    assert wait(next_operation(wish(network=network), Observed(NOW, networks=none))).message == "flat has none"
    got = NetworksState(pool="flat", allocated=True, pods="10.64.0.0/16", services="10.96.0.0/16", vni=100, port=8472)
    body = filled(deployment(network=network), got)
    wanted = wish(network=body["spec"]["network"])
    assert operation(next_operation(wanted, Observed(NOW, networks=got))).operation == "deploy"
    names = ("cluster_pod_cidr", "cluster_service_cidr", "cluster_vxlan_vni", "cluster_vxlan_port")
    assert [wanted.variables[name] for name in names] == ["10.64.0.0/16", "10.96.0.0/16", 100, 8472]


def test_what_an_object_names_stays_as_it_is() -> None:
    got = NetworksState(pool="flat", allocated=True, pods="a", services="b", vni=1, port=2)
    body = deployment(network={"pool": "flat", "pods": "10.1.0.0/16", "vxlan": {"vni": 5}})
    assert filled(body, got)["spec"]["network"] == {
        "pool": "flat",
        "pods": "10.1.0.0/16",
        "services": "b",
        "vxlan": {"vni": 5, "port": 2},
    }
    assert filled(body, None) is body
