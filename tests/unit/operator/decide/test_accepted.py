"""Edits of a deployed cluster that no operation carries out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.api.cluster import AppliedState
from harness.operator.decide.accepted import edit_mistakes, judged
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed
from tests.unit.operator.api.objects import deployment, wanted_set
from tests.unit.operator.decide.wishes import CP, MACHINES, NOW, claimed, deployed, wish

THREE = wanted_set("cp", "control-plane", "worker", replicas=3)
EXTERNAL = (wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=3))
PLANES = tuple(claimed(f"m-{number}", "cp") for number in range(3))
MEMBERS = (claimed("m-9", "cp"), *(claimed(f"m-{number}", "db") for number in range(3)))


def applied(one: Desired) -> AppliedState:
    found = deployed(one).applied
    assert found is not None
    return found


def said(after: Desired, before: Desired) -> list[str]:
    return [mistake.text for mistake in edit_mistakes(after.wish, applied(before))]


def test_nothing_is_refused_of_a_cluster_that_is_not_there_yet() -> None:
    assert edit_mistakes(wish(version="1.34.4").wish, None) == []


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"version": "1.36.3"},
        {"variables": {"cluster_a": 1}},
        {"components": {"etcd": "3.6.9"}},
        {"network": {"vxlan": {"port": 4789}}},
        {"etcd": {"backup": {"schedule": "@daily", "timeZone": "Europe/Berlin", "destination": {"claim": "c"}}}},
        {"etcd": {"backup": {"destination": {"s3": {"bucket": "backups", "secretRef": {"name": "keys"}}}}}},
    ],
)
def test_what_an_operation_carries_out_is_no_mistake(change: dict[str, Any]) -> None:
    assert said(wish(**change), wish(version="1.36.1")) == []


def test_a_downgrade_is_refused_with_what_to_use() -> None:
    assert said(wish(version="1.35.4"), wish(version="1.36.1")) == [
        "spec.version: Kubernetes 1.35.4 is older than 1.36.1, which is deployed, and cannot be gone back to: "
        "use 1.36.1 or newer"
    ]


def test_two_minors_are_no_mistake_where_the_table_knows_a_way() -> None:
    assert said(wish(version="1.36.3"), wish(version="1.34.4")) == []


def test_a_minor_that_the_table_lacks_is_refused() -> None:
    before = applied(wish(version="1.34.4")).model_copy(update={"version": "1.32.0"})
    (mistake,) = edit_mistakes(wish(version="1.35.4").wish, before)
    assert (mistake.field, mistake.remedy) == ("spec.version", "use 1.32.0")


def test_an_unknown_version_is_told_of_once_by_the_rules_of_the_object() -> None:
    assert said(wish(version="1.99.0"), wish()) == []


def test_an_older_etcd_is_refused() -> None:
    (text,) = said(wish(components={"etcd": "3.5.1"}), wish())
    assert text.startswith("spec.components.etcd: etcd 3.5.1 is older than 3.6.8")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"network": {"pods": "10.9.0.0/16"}}, "spec.network.pods"),
        ({"network": {"plugin": "routes"}}, "spec.network.plugin"),
        ({"variables": {"cluster_service_cidr": "10.8.0.0/16"}}, "spec.variables.cluster_service_cidr"),
    ],
)
def test_networks_stay_as_they_are_however_they_are_written(change: dict[str, Any], field: str) -> None:
    (text,) = said(wish(**change), wish())
    name = field.rpartition(".")[2]
    assert text == f"{field}: {name} cannot change: delete the object and create it again to change this"


OWN_NAMES: dict[str, Any] = {"certificates": {"extraSans": ["api.example.com"]}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Local", "Local"),
        ("Service", "Service"),
        ("Local", "Service"),
        ("Service", "Local"),
    ],
)
def test_what_stands_in_front_of_the_api_servers_may_change(before: str, after: str) -> None:
    pairs: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ((OWN_NAMES, {}), ({}, OWN_NAMES), ({}, {}))
    for first, then in pairs:
        found = said(wish(loadBalancer={"type": after}, **then), wish(loadBalancer={"type": before}, **first))
        assert found == []


def test_the_roles_of_a_set_stay_as_they_are() -> None:
    after = wish(wanted_set("cp", "control-plane", "worker"), wanted_set("w", "control-plane", "worker", replicas=2))
    assert said(after, wish()) == [
        "spec.machineSets[1].roles: roles cannot change: add a set with the other roles and scale this one to 0"
    ]


def test_etcd_stays_where_it_is() -> None:
    (text,) = said(wish(*EXTERNAL, machines=MEMBERS), wish(THREE, machines=PLANES))
    assert text.startswith("spec.machineSets: etcd cannot move")


@pytest.mark.parametrize(("replicas", "refused"), [(2, False), (1, True)])
def test_no_majority_of_etcd_leaves_in_one_edit(replicas: int, refused: bool) -> None:
    fewer = wanted_set("cp", "control-plane", "worker", replicas=replicas)
    found = said(wish(fewer, machines=PLANES), wish(THREE, machines=PLANES))
    assert found == (
        ["spec.machineSets: of 3 etcd members 2 would leave, and the others are no majority: remove 1 at a time"]
        if refused
        else []
    )
    members = (EXTERNAL[0], wanted_set("db", "etcd", replicas=replicas))
    assert bool(said(wish(*members, machines=MEMBERS), wish(*EXTERNAL, machines=MEMBERS))) is refused


def test_two_members_may_become_one() -> None:
    two = wanted_set("cp", "control-plane", "worker", replicas=2)
    assert said(wish(machines=MACHINES[:1]), wish(two, machines=PLANES[:2])) == []


def test_what_is_lost_may_leave_in_one_edit() -> None:
    one = wanted_set("cp", "control-plane", "worker")
    fewer, before = wish(one, machines=PLANES).wish, applied(wish(THREE, machines=PLANES))
    assert edit_mistakes(fewer, before, lost=True) == []
    assert len(edit_mistakes(fewer, before)) == 1


@pytest.mark.parametrize(("replicas", "refused"), [(2, False), (3, False), (4, True), (5, False), (6, True)])
def test_members_grow_to_an_odd_number(replicas: int, refused: bool) -> None:
    stacked = wanted_set("cp", "control-plane", "worker", replicas=replicas)
    before = wanted_set("cp", "control-plane", "worker", replicas=1)
    assert bool(said(wish(stacked, machines=PLANES), wish(before, machines=PLANES[:1]))) is refused
    if refused:
        (text,) = said(wish(stacked, machines=PLANES), wish(THREE, machines=PLANES))
        instead = f"use {replicas - 1} or {replicas + 1}"
        assert text.endswith(f"{replicas} etcd members stand no more failures than {replicas - 1}: {instead}")


def workers(name: str, **spec: Any) -> Desired:
    """Return the wish for a control plane, and two workers of a set of this name."""
    machines = (claimed("m-9", "cp"), claimed("m-1", "w"), claimed("m-2", "w"))
    sets = [wanted_set("cp", "control-plane"), *([wanted_set(name, "worker", replicas=2)] if name else [])]
    return wish(*sets, machines=machines, **spec)


def test_a_set_is_not_renamed() -> None:
    confirm = "or confirm with annotation cluster.vmatrix.dev/remove-sets=w"
    assert said(workers("workers"), workers("w")) == [
        "spec.machineSets[1].name: the machines of set w would leave the cluster, and others would join as workers: "
        f"keep the name; to replace its machines, add workers first, and remove w afterwards; {confirm}"
    ]
    assert said(confirming(workers("workers"), "w"), workers("w")) == []


def test_a_set_whose_machines_are_deployed_is_dropped_only_with_a_confirmation_of_it() -> None:
    text = "spec.machineSets: set w is missing, and its machines would leave the cluster: m-1, m-2: put the set back, "
    text += "with replicas 0 to have them leave; or confirm with annotation cluster.vmatrix.dev/remove-sets="
    assert said(workers(""), workers("w")) == [f"{text}w"]
    assert said(confirming(workers(""), "others"), workers("w")) == [f"{text}others,w"]
    for confirmed in ("w", "others,w", "w, others"):
        assert said(confirming(workers(""), confirmed), workers("w")) == []


def test_a_set_is_dropped_freely_once_it_is_empty() -> None:
    before = applied(workers("w"))
    empty = before.model_copy(update={"hosts": before.hosts[:1], "machines": before.machines[:1]})
    assert edit_mistakes(workers("").wish, empty) == []


def confirming(one: Desired, sets: str) -> Desired:
    """Return a wish with the annotation that confirms the removal of sets."""
    meta = one.wish.metadata.model_copy(update={"annotations": {"cluster.vmatrix.dev/remove-sets": sets}})
    return replace(one, wish=one.wish.model_copy(update={"metadata": meta}))


OF_4 = {"address": "192.0.2.10"}
OF_6 = {"address": "fd00:5::10"}
OF_BOTH = {"address": "192.0.2.10", "ipv6Address": "fd00:5::10"}


@pytest.mark.parametrize(
    ("families", "addresses", "words"),
    [
        (["IPv4"], OF_4, ""),
        (["IPv4"], OF_BOTH, ""),
        (["IPv4"], OF_6, "no IPv4 address: set spec.address of the Machine"),
        (["IPv6"], OF_6, ""),
        (["IPv6"], OF_BOTH, ""),
        (["IPv6"], OF_4, "no IPv6 address: set spec.ipv6Address of the Machine"),
        (["IPv4", "IPv6"], OF_BOTH, ""),
        (["IPv4", "IPv6"], OF_4, "no IPv6 address: set spec.ipv6Address of the Machine"),
        (["IPv4", "IPv6"], OF_6, "no IPv4 address: set spec.address of the Machine"),
    ],
)
def test_machines_have_an_address_of_each_family_of_their_cluster(families: Any, addresses: Any, words: str) -> None:
    machine = claimed("m-0", "cp", **addresses)
    body = deployment(CP, network={"ipFamilies": families})
    found = judged(body, [machine], Observed(NOW), "registry.invalid/executor:1")[1]
    assert [mistake.field for mistake in found] == (["spec.network.ipFamilies"] if words else [])
    assert not words or found[0].text.startswith(f"spec.network.ipFamilies: Machine m-0 has {words}")


def test_a_network_around_a_second_address_of_a_machine_is_refused() -> None:
    body = deployment(CP, network={"ipFamilies": ["IPv4", "IPv6"], "ipv6Pods": "fd00:5::/56"})
    found = judged(body, [claimed("m-0", "cp", **OF_BOTH)], Observed(NOW), "registry.invalid/executor:1")[1]
    assert [(mistake.field, mistake.message.split()[4]) for mistake in found] == [
        ("spec.network.ipv6Pods", "fd00:5::10/128,")
    ]


def test_the_addresses_that_a_cluster_is_given_are_those_of_its_families() -> None:
    def hosts(**network: Any) -> list[dict[str, str]]:
        machines = (claimed("cp-0", "cp", **OF_BOTH),)
        return list(wish(CP, machines=machines, network=network).variables["cluster_hosts"])

    assert hosts() == [{"name": "cp-0", "address": "192.0.2.10"}]
    assert hosts(ipFamilies=["IPv6"]) == [{"name": "cp-0", "address": "fd00:5::10"}]
    dual = [{"name": "cp-0", "address": "192.0.2.10", "ipv6_address": "fd00:5::10"}]
    assert hosts(ipFamilies=["IPv4", "IPv6"]) == dual
