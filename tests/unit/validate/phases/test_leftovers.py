"""Machines that left are forgotten by the API and by every other machine; each trace of them is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.kube.resources import CSI_NODE, CSR, ENDPOINT_SLICE, LEASE, NODE, POD, Resource
from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import real
from harness.validate.phases import leftovers
from harness.validate.phases.leftovers import ApiTraces
from tests.unit.validate import foreign
from tests.unit.validate.fake_api import Api
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.moments import moment

GONE = {"w-1": "10.222.1.9"}
CLEAN = ApiTraces(
    nodes=frozenset({"cp-0", "w-0"}),
    leases=frozenset({"cp-0", "w-0"}),
    csi_nodes=frozenset({"cp-0", "w-0"}),
    requests=frozenset(),
    pods={"w-0": ("kube-system/coredns-1",)},
    api_servers=frozenset({"10.222.1.2"}),
    kubeconfig_server="10.222.1.2",
)


def test_an_api_without_traces_passes() -> None:
    assert leftovers.left_in_api(CLEAN, GONE, moment().expected) == []


@pytest.mark.parametrize(
    "traces",
    [
        replace(CLEAN, nodes=CLEAN.nodes | {"w-1"}),
        replace(CLEAN, leases=CLEAN.leases | {"w-1"}),
        replace(CLEAN, csi_nodes=CLEAN.csi_nodes | {"w-1"}),
        replace(CLEAN, requests=frozenset({"system:node:w-1"})),
        replace(CLEAN, pods={"w-1": ("default/left",)}),
        replace(CLEAN, api_servers=frozenset({"10.222.1.2", "10.222.1.9"})),
        replace(CLEAN, api_servers=frozenset()),
        replace(CLEAN, leases=frozenset()),
        replace(CLEAN, kubeconfig_server="10.222.1.9"),
    ],
)
def test_a_trace_in_the_api_is_found(traces: ApiTraces) -> None:
    assert leftovers.left_in_api(traces, GONE, moment().expected)


def test_machines_that_have_forgotten_pass() -> None:
    assert leftovers.left_on_others(moment(), GONE) == []


def stale_api_server(raw: Json) -> None:
    for process in raw["processes"]:
        process["argv"] = [
            f"{word},https://10.222.1.9:2379" if word.startswith("--etcd-servers") else word for word in process["argv"]
        ]


FAULTS: list[Callable[[Json], None]] = [
    lambda raw: raw["hosts"].append(["10.222.1.9", "w-1"]),
    lambda raw: raw["hosts"].append(["10.222.1.9", "renamed"]),
    lambda raw: raw.update(hosts=[["127.0.0.1", "localhost"]]),
    lambda raw: raw["proxy"]["servers"].append(["w-1", "10.222.1.9:6443"]),
    lambda raw: raw["proxy"].update(servers=[]),
    lambda raw: raw["proxy"].update(changed=2000.0),
    lambda raw: raw.update(proxy=None),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("machine", ["cp-0", "w-0"])
def test_a_machine_that_still_knows_of_it_is_found(fault: Callable[[Json], None], machine: str) -> None:
    assert {f.where.split()[0] for f in leftovers.left_on_others(moment(runs=fault, of=machine), GONE)} == {machine}


def test_an_api_server_that_speaks_with_a_member_that_is_gone_is_found() -> None:
    found = leftovers.left_on_others(moment(facts=stale_api_server), GONE)
    assert [f.where for f in found] == ["cp-0 kube-apiserver --etcd-servers"]


def test_machines_that_were_not_seen_are_found() -> None:
    assert leftovers.left_on_others(replace(moment(), running={}), GONE)


def named(*names: str) -> list[Json]:
    return [{"metadata": {"name": name, "namespace": "kube-system"}, "spec": {}} for name in names]


def test_traces_of_machines_are_read_as_the_api_says_them() -> None:
    pod = named("coredns-1")[0] | {"spec": {"nodeName": "w-0"}}
    approved: Json = {"spec": {"username": "system:node:w-1"}, "status": {"conditions": [{"type": "Approved"}]}}
    lists: dict[Resource, list[Json]] = {
        NODE: named("cp-0", "w-0"),
        LEASE: named("cp-0", "w-0"),
        CSI_NODE: named("cp-0", "w-0"),
        POD: [pod],
        CSR: [approved],
        ENDPOINT_SLICE: [{"endpoints": [{"addresses": ["10.222.1.2"]}]}, {"endpoints": None}],
    }
    api: Any = Api(lists=lists)
    assert leftovers.traces_of(api) == CLEAN
    api.lists[CSR] = [{"spec": {"username": "system:node:w-1"}}]
    assert leftovers.traces_of(api).requests == {"system:node:w-1"}


SAYS = pytest.mark.parametrize("leaves", [foreign.SAID, foreign.UNSAID], ids=["said", "unsaid"])


@SAYS
def test_machines_of_another_product_that_have_forgotten_pass(leaves: ClusterLeaves) -> None:
    assert real(leftovers.left_on_others(foreign.moment(leaves), GONE)) == []


OTHER_TRACES: dict[str, Change] = {
    "a name": lambda raw: raw["hosts"].append(["10.222.1.9", "w-1.cluster.local", "w-1"]),
    "a server of nginx": lambda raw: raw["proxy"]["servers"].append(["10.222.1.9:6443", "10.222.1.9:6443"]),
    "an older nginx": lambda raw: raw["proxy"].update(changed=2000.0),
}


@pytest.mark.parametrize("change", OTHER_TRACES.values(), ids=OTHER_TRACES)
@SAYS
def test_a_trace_on_another_products_machine_is_found(leaves: ClusterLeaves, change: Change) -> None:
    assert real(leftovers.left_on_others(foreign.moment(leaves, runs=change), GONE))


def test_a_worker_without_its_proxy_is_found_where_the_product_says_that_there_is_one() -> None:
    without = foreign.moment(foreign.SAID, runs=lambda raw: raw.update(proxy=None))
    assert [one.where for one in real(leftovers.left_on_others(without, GONE))] == ["w-0 proxy"]
    unsaid = foreign.moment(foreign.UNSAID, runs=lambda raw: raw.update(proxy=None))
    assert "the control planes behind the local API address" in [
        one.expected for one in leftovers.left_on_others(unsaid, GONE)
    ]


def test_api_servers_use_their_own_member_or_every_member() -> None:
    seen = foreign.moment(foreign.UNSAID)
    gone = {**seen.expected.addresses, "cp-0": "10.222.1.9"}
    other = replace(seen, expected=replace(seen.expected, addresses=gone))
    assert any("--etcd-servers" in one.where for one in real(leftovers._wrong_etcd_servers(other)))
