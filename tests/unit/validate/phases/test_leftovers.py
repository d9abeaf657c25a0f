"""Machines that left are forgotten everywhere, and machines that were reset are as before; each trace is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.kube.resources import CSI_NODE, CSR, ENDPOINT_SLICE, LEASE, NODE, POD, Resource
from harness.model import Cell, Phase
from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import Mismatch, real
from harness.validate.inspection import MachineState
from harness.validate.phases import leftovers
from harness.validate.phases.leftovers import KINDS, LISTED, ApiTraces, gone_by, joined_in, not_joined
from tests.unit.validate import foreign, guests
from tests.unit.validate.fake_api import Api
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.moments import moment


def without_worker(raw: Json) -> None:
    raw["nodes"] = [node for node in raw["nodes"] if node["metadata"]["name"] != "w-0"]


def test_a_machine_that_was_no_node_and_is_one_has_joined() -> None:
    assert not_joined(moment(view=without_worker), moment(), ("w-0",)) == []


def not_ready(raw: Json) -> None:
    for node in raw["nodes"]:
        for condition in node["status"]["conditions"]:
            condition["status"] = "False"


def test_a_machine_that_was_a_node_before_or_is_no_ready_one_after_has_not_joined() -> None:
    assert [f.where for f in not_joined(moment(), moment(), ("w-0",))] == ["w-0, before the phase"]
    for view in (without_worker, not_ready):
        found = not_joined(moment(view=without_worker), moment(view=view), ("w-0",))
        assert [f.where for f in found] == ["w-0, after it"]


def test_a_member_of_etcd_that_was_one_before_has_not_joined() -> None:
    assert "is a member of etcd False" in [f.expected for f in not_joined(moment(), moment(), ("cp-0",))]


def test_nothing_seen_before_proves_nothing() -> None:
    empty = moment(view=lambda raw: raw.update(nodes=[]))
    assert not_joined(empty, moment(), ("w-0",))


def test_who_is_gone_and_who_joins_follows_from_the_phases() -> None:
    deploy = Phase("deploy", machines=("a", "b", "c"))
    phases = (
        deploy,
        Phase("scale-out", machines=("a", "b", "c", "d")),
        Phase("remove", machines=("a", "b", "c", "d"), removed=("d",)),
        Phase("recover", machines=("a", "b", "c"), lost=("c",)),
    )
    cell = Cell("c", {}, "s", phases, (), {})
    assert [gone_by(cell, index) for index in range(4)] == [(), (), ("d",), ("d", "c")]
    assert [joined_in(cell, index) for index in range(4)] == [(), ("d",), (), ()]


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


ALL = (*KINDS, "firewall rule")
WELL: MachineState = {kind: {f"{kind} of the system": "as it is"} for kind in ALL}
UNSAID = ClusterLeaves()


def not_as_before(
    names: tuple[str, ...],
    before: dict[str, MachineState],
    after: dict[str, MachineState],
    leaves: ClusterLeaves = guests.OURS,
) -> list[Mismatch]:
    return leftovers.not_as_before(names, before, after, leaves)


def test_a_machine_as_before_passes() -> None:
    assert not_as_before(("m",), {"m": WELL}, {"m": copy.deepcopy(WELL)}) == []


@pytest.mark.parametrize("kind", ALL)
def test_what_is_left_behind_lost_or_changed_is_found(kind: str) -> None:
    left, lost, changed = copy.deepcopy(WELL), copy.deepcopy(WELL), copy.deepcopy(WELL)
    left[kind]["of the cluster"] = ""
    lost[kind] = {"another": ""}
    changed[kind] = dict.fromkeys(WELL[kind], "another")
    for after in (left, lost, changed):
        assert any(f.seen.startswith(kind) for f in not_as_before(("m",), {"m": WELL}, {"m": after}))


@pytest.mark.parametrize(("before", "after"), [({}, {"m": WELL}), ({"m": WELL}, {}), ({}, {})])
def test_a_machine_that_was_not_looked_at_is_found(
    before: dict[str, MachineState], after: dict[str, MachineState]
) -> None:
    assert not_as_before(("m",), before, after)


def test_two_empty_states_prove_nothing() -> None:
    assert not_as_before(("m",), {"m": {}}, {"m": {}})


def test_many_differences_are_counted() -> None:
    after = copy.deepcopy(WELL)
    after["file"] |= {f"/left/{number}": "" for number in range(LISTED + 5)}
    found = not_as_before(("m",), {"m": WELL}, {"m": after})
    assert len(found) == LISTED + 1
    assert found[-1].seen == "5 more differences"


def left(kind: str, name: str) -> MachineState:
    """Return the state of a machine on which one thing more is left."""
    after = copy.deepcopy(WELL)
    after[kind][name] = ""
    return after


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("process", "/usr/local/bin/etcd"),
        ("process", "/usr/local/bin/containerd-shim-runc-v2 -namespace k8s.io -id 1"),
        ("mount", "/var/lib/kubelet/pods/1/volumes/token"),
        ("link", "flannel.1"),
        ("firewall rule", "1: chain KUBE-SERVICES {"),
        ("control group", "kubepods"),
    ],
)
def test_what_disturbs_another_cluster_is_found_after_the_reset_of_any_product(kind: str, name: str) -> None:
    assert real(not_as_before(("m",), {"m": WELL}, {"m": left(kind, name)}, UNSAID))


@pytest.mark.parametrize(("kind", "name"), [("file", "/usr/local/bin/crictl"), ("process", "/usr/bin/chronyd")])
def test_files_and_other_programs_are_not_judged_where_the_product_does_not_say_what_it_leaves(
    kind: str, name: str
) -> None:
    found = not_as_before(("m",), {"m": WELL}, {"m": left(kind, name)}, UNSAID)
    assert real(found) == []
    assert [str(one).partition(":")[0] for one in found] == ["each file", "each unit", "each kernel setting"]


def test_a_product_may_say_what_a_reset_leaves() -> None:
    said = ClusterLeaves(reset_leaves=("file /usr/local/bin/*",))
    assert not_as_before(("m",), {"m": WELL}, {"m": left("file", "/usr/local/bin/crictl")}, said) == []
    assert real(not_as_before(("m",), {"m": WELL}, {"m": left("file", "/var/lib/etcd/member")}, said))
