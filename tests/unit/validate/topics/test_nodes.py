"""Nodes that are missing, foreign or wrong are found."""

from __future__ import annotations

import copy

import pytest

from harness.validate.topics.nodes import (
    CONTROL_PLANE_LABEL,
    strange_leases,
    unready_nodes,
    wrong_node_networks,
    wrong_node_versions,
    wrong_roles,
)
from tests.unit.validate import guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi
from tests.unit.validate.views import (
    VERSIONS,
    Judge,
    condition,
    finds,
    named,
    passes_a_well_guest_only,
    view,
    with_add_ons,
    without,
)

WORKER_LABEL = "node-role.kubernetes.io/worker"


def node(change: Change) -> Change:
    return lambda raw: change(named(raw["nodes"], "w-0"))


def another_node(raw: Json) -> None:
    stranger = copy.deepcopy(named(raw["nodes"], "w-0"))
    stranger["metadata"]["name"] = "w-1"
    raw["nodes"].append(stranger)


JUDGES: tuple[Judge, ...] = (
    unready_nodes,
    wrong_node_versions,
    wrong_node_networks,
    wrong_roles,
)
FAULTS: list[tuple[Judge, Change]] = [
    (unready_nodes, without("nodes", "w-0")),
    (unready_nodes, another_node),
    (unready_nodes, node(lambda n: condition(n, "Ready", "Unknown"))),
    (unready_nodes, node(lambda n: condition(n, "DiskPressure", "True"))),
    (unready_nodes, node(lambda n: n["status"].update(conditions=[]))),
    (unready_nodes, node(lambda n: n["spec"].update(unschedulable=True))),
    (wrong_node_versions, node(lambda n: n["status"]["nodeInfo"].update(kubeletVersion="v1.35.4"))),
    (
        wrong_node_versions,
        node(lambda n: n["status"]["nodeInfo"].update(containerRuntimeVersion="containerd://1.7.35")),
    ),
    (wrong_node_networks, node(lambda n: n["status"].update(addresses=[]))),
    (wrong_node_networks, node(lambda n: n["spec"].update(podCIDR="", podCIDRs=[]))),
    (wrong_node_networks, node(lambda n: n["spec"].update(podCIDRs=["10.244.0.0/24"]))),
    (
        wrong_node_networks,
        lambda raw: raw["nodes"][0]["spec"].update(podCIDRs=raw["nodes"][1]["spec"]["podCIDRs"]),
    ),
    (
        wrong_roles,
        node(lambda n: n["metadata"]["labels"].update({CONTROL_PLANE_LABEL: ""})),
    ),
    (wrong_roles, lambda raw: named(raw["nodes"], "cp-0")["spec"].update(taints=[])),
    (wrong_roles, node(lambda n: n["spec"].update(taints=[{"key": "gpu", "effect": "NoSchedule"}]))),
    (wrong_roles, node(lambda n: n["metadata"]["labels"].pop(WORKER_LABEL))),
    (wrong_roles, lambda raw: named(raw["nodes"], "cp-0")["metadata"]["labels"].update({WORKER_LABEL: ""})),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_guest_with_add_ons_passes_where_they_are_wanted(judge: Judge) -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    assert judge(view(with_add_ons), wanted) == []


def test_a_nodes_conditions_as_taints_are_no_wrong_role() -> None:
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert wrong_roles(view(node(lambda n: n["spec"].update(taints=[passing]))), guests.expected()) == []


def test_a_single_machine_that_is_everything_takes_pods() -> None:
    wanted = guests.expected(groups=(("control_plane", "etcd", "node"), ()))
    alone = view(lambda raw: raw.update(nodes=[named(raw["nodes"], "cp-0")]))
    assert [f.seen for f in wrong_roles(alone, wanted)] == ["node-role.kubernetes.io/control-plane:NoSchedule"]


def test_leases_are_those_of_the_machines() -> None:
    assert strange_leases(KeptApi(), guests.expected()) == []
    ghost = {"metadata": {"name": "ghost"}}
    (found,) = strange_leases(KeptApi(lambda objects: objects["leases"].append(ghost)), guests.expected())
    assert "ghost" in found.seen
    (found,) = strange_leases(
        KeptApi(lambda objects: objects["leases"].remove(objects["leases"][1])), guests.expected()
    )
    assert "no w-0" in found.seen


@pytest.mark.parametrize(
    ("name", "change", "wrong"),
    [
        ("coredns", {"podIP": "10.243.7.9"}, True),
        ("coredns", {"podIP": "10.243.7.9", "phase": "Succeeded"}, False),
        ("kube-proxy", {"podIP": "10.222.1.2"}, False),
    ],
)
def test_a_pod_with_an_address_of_another_network_is_found(name: str, change: Json, wrong: bool) -> None:
    seen = view(lambda raw: named(raw["pods"], name)["status"].update(change))
    found = wrong_node_networks(seen, guests.expected())
    assert [one.seen for one in found] == ([change["podIP"]] if wrong else [])


def test_crio_is_known_by_what_it_calls_itself() -> None:
    variables = {**guests.VARIABLES, "cluster_container_runtime": "crio", "cluster_crio_version": "1.34.0"}
    expected = guests.expected(variables=variables)

    def reports(runtime: str) -> Change:
        def change(raw: Json) -> None:
            for one in raw["nodes"]:
                one["status"]["nodeInfo"]["containerRuntimeVersion"] = runtime

        return change

    assert wrong_node_versions(view(reports("cri-o://1.34.0")), expected) == []
    assert "cri-o://1.34.0" in str(wrong_node_versions(view(reports("cri-o://1.33.5")), expected))


@pytest.mark.parametrize("suffix", ["+k3s1", "+rke2r1", "-eks-1-30-1", "-gke.100", "+vmware.1"])
def test_a_distributions_kubelet_has_upstreams_version(suffix: str) -> None:
    def change(raw: Json) -> None:
        for one in raw["nodes"]:
            one["status"]["nodeInfo"]["kubeletVersion"] += suffix

    assert wrong_node_versions(view(change), guests.expected()) == []
