"""Nodes that are missing, foreign or wrong are found."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import Unjudged, real
from harness.validate.topics.nodes import (
    CONTROL_PLANE_LABEL,
    OF_CONDITIONS,
    UNSCHEDULABLE,
    same_nodes,
    strange_leases,
    strange_metadata,
    unready_nodes,
    wrong_node_networks,
    wrong_node_versions,
    wrong_roles,
)
from tests.unit.validate import foreign, guests
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
    assert strange_leases(KeptApi(), view(), guests.expected()) == []
    ghost = {"metadata": {"name": "ghost"}}
    (found,) = strange_leases(KeptApi(lambda objects: objects["leases"].append(ghost)), view(), guests.expected())
    assert "ghost" in found.seen
    (found,) = strange_leases(
        KeptApi(lambda objects: objects["leases"].remove(objects["leases"][1])), view(), guests.expected()
    )
    assert "no w-0" in found.seen


# Nodes that no inventory can have, as clusters of others have them, and one that an inventory must have.
BESIDE = {
    "windows": ({"labels": {"kubernetes.io/os": "windows"}}, "it is a Windows machine"),
    "virtual-kubelet": ({"labels": {"type": "virtual-kubelet"}}, "it is not a machine, but a virtual kubelet"),
    "fargate": ({"labels": {"eks.amazonaws.com/compute-type": "fargate"}}, "but a pod of Fargate"),
    "kwok": ({"annotations": {"kwok.x-k8s.io/node": "fake"}}, "but a Node of kwok"),
    "spot": ({"labels": {"kubernetes.io/os": "linux", "node.example.org/spot": "true"}}, ""),
    "bare": ({}, ""),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("ours", [True, False])
def test_a_node_without_a_login_is_not_judged_in_a_cluster_of_others(name: str, ours: bool) -> None:
    about, why = BESIDE[name]
    wanted = guests.expected() if ours else replace(guests.expected(), cell="")
    seen = view(lambda raw: raw["nodes"].append({"metadata": {"name": name, **about}, "spec": {}, "status": {}}))
    lease = {"metadata": {"name": name}}
    leases = strange_leases(KeptApi(lambda objects: objects["leases"].append(lease)), seen, wanted)
    nodes = unready_nodes(seen, wanted)
    if ours or not why:
        assert [f.seen for f in (*real(nodes), *leases)] == [name, name]
        return
    assert (real(nodes), leases) == ([], [])
    assert [f"{f.expected}: {f.seen}" for f in nodes] == [f"Node {name}: {nodes[0].seen}"]
    assert why in nodes[0].seen


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


OURS = {"cp-0": "control-plane", "w-0": "worker"}
FLANNEL = "flannel.alpha.coreos.com/"


def labelled(raw: Json) -> None:
    """Let the recorded nodes have what kubelets, kubeadm, the product and flannel of today give them."""
    for one in raw["nodes"]:
        name = one["metadata"]["name"]
        address = next(a["address"] for a in one["status"]["addresses"] if a["type"] == "InternalIP")
        one["metadata"]["labels"] = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64",
            f"node-role.kubernetes.io/{OURS[name]}": "",
        }
        if name == "cp-0":
            one["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"] = ""
        one["metadata"]["annotations"] = {
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock",
            f"{FLANNEL}kube-subnet-manager": "true",
            f"{FLANNEL}backend-type": "vxlan",
            f"{FLANNEL}backend-data": '{"VNI":1}',
            f"{FLANNEL}public-ip": address,
        }
        one["status"]["nodeInfo"].update(operatingSystem="linux", architecture="amd64")


def described(change: Change = lambda _: None, *, name: str = "w-0", ours: bool = True) -> list[str]:
    """Return what is said of the labels and annotations of a node that was changed."""

    def both(raw: Json) -> None:
        labelled(raw)
        change(named(raw["nodes"], name))

    wanted = guests.expected() if ours else guests.expected(leaves=foreign.SAID)
    return [str(one) for one in strange_metadata(view(both), wanted) if not isinstance(one, Unjudged)]


def test_nodes_with_the_labels_of_their_role_pass() -> None:
    assert described() == []
    assert described(ours=False) == []


PLAIN = [
    ("kubernetes.io/hostname", "other"),
    ("kubernetes.io/os", "windows"),
    ("kubernetes.io/arch", "arm64"),
    ("beta.kubernetes.io/os", "windows"),
    ("beta.kubernetes.io/arch", "arm64"),
]


@pytest.mark.parametrize("name", ["cp-0", "w-0"])
@pytest.mark.parametrize(("label", "value"), PLAIN)
@pytest.mark.parametrize("ours", [True, False])
def test_every_label_of_a_kubelet_has_its_value(name: str, label: str, value: str, ours: bool) -> None:
    right = {"kubernetes.io/hostname": name}.get(label, "linux" if label.endswith("os") else "amd64")
    wrong = described(lambda one: one["metadata"]["labels"].update({label: value}), name=name, ours=ours)
    assert wrong == [f"{name}: expected the label {label}={right}; saw {label}={value}"]
    gone = described(lambda one: one["metadata"]["labels"].pop(label), name=name, ours=ours)
    assert gone == [f"{name}: expected the label {label}={right}; saw no such label"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("cp-0", "node-role.kubernetes.io/control-plane"),
        ("cp-0", "node.kubernetes.io/exclude-from-external-load-balancers"),
        ("w-0", "node-role.kubernetes.io/worker"),
    ],
)
def test_every_label_of_a_role_is_missed(name: str, label: str) -> None:
    (said,) = described(lambda one: one["metadata"]["labels"].pop(label), name=name)
    assert label in said
    (said,) = described(lambda one: one["metadata"]["labels"].update({label: "false"}), name=name)
    assert said.endswith(f"{label}=false")


# kubernetes.io, "Well-Known Labels, Annotations and Taints", and what has one of Kubernetes' domains
STRANGE = (
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "node.kubernetes.io/exclude-disruption",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type",
    "node-role.kubernetes.io/etcd",
    "node-restriction.kubernetes.io/pool",
    "kubelet.kubernetes.io/any",
    "feature.node.k8s.io/cpu",
    "storage.k8s.io/class",
)


@pytest.mark.parametrize("label", STRANGE)
def test_a_label_of_kubernetes_that_nobody_gave_is_found(label: str) -> None:
    def add(one: Json) -> None:
        one["metadata"]["labels"][label] = "here"

    assert described(add) == [f"w-0: expected no other label of Kubernetes' own; saw {label}=here"]
    assert described(add, ours=False) == []


@pytest.mark.parametrize("label", ["example.com/pool", "pool", "mykubernetes.io/pool"])
def test_labels_of_others_are_theirs(label: str) -> None:
    assert described(lambda one: one["metadata"]["labels"].update({label: "x"})) == []


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        ("node.alpha.kubernetes.io/ttl", "300", "ttl=0"),
        ("volumes.kubernetes.io/controller-managed-attach-detach", "false", "=true"),
        ("kubeadm.alpha.kubernetes.io/cri-socket", "unix:///var/run/dockershim.sock", "containerd.sock"),
        ("alpha.kubernetes.io/provided-node-ip", "192.0.2.9", "10.222.1.3"),
        (f"{FLANNEL}public-ip", "192.0.2.9", "10.222.1.3"),
        (f"{FLANNEL}public-ip-overwrite", "192.0.2.9", "no annotation that changes"),
        (f"{FLANNEL}backend-type", "udp", "vxlan"),
        (f"{FLANNEL}kube-subnet-manager", "false", "true"),
        ("scheduler.alpha.kubernetes.io/preferAvoidPods", "{}", "no annotation that changes"),
        ("node.kubernetes.io/any", "x", "no annotation that changes"),
    ],
)
def test_an_annotation_with_a_meaning_has_its_value(annotation: str, value: str, words: str) -> None:
    (said,) = described(lambda one: one["metadata"]["annotations"].update({annotation: value}))
    assert words in said
    assert value in said


def test_a_socket_below_the_link_of_run_is_the_same() -> None:
    text = "unix:///var/run/containerd/containerd.sock"  # kubeadm's own default
    change = {"kubeadm.alpha.kubernetes.io/cri-socket": text}
    assert described(lambda one: one["metadata"]["annotations"].update(change), ours=False) == []


def test_flannel_without_a_tunnel_has_another_backend() -> None:
    plugins = {"flannel": {"unit": None, "daemon_set": "kube-system/kube-flannel", "tunnel": None}}
    leaves = ClusterLeaves.model_validate({"network_plugins": plugins})

    def change(raw: Json) -> None:
        labelled(raw)
        named(raw["nodes"], "w-0")["metadata"]["annotations"].update({f"{FLANNEL}backend-type": "host-gw"})

    assert real(strange_metadata(view(change), guests.expected(leaves=leaves))) == []


def test_a_node_whose_volumes_nobody_attaches_is_found() -> None:
    (said,) = described(lambda one: one["metadata"].update(annotations={}))
    assert "controller-managed-attach-detach" in said


def test_a_node_of_a_cloud_is_found_where_there_is_none() -> None:
    assert described(lambda one: one["spec"].update(providerID="aws:///x")) == [
        "w-0: expected no providerID: the cluster has no cloud; saw aws:///x"
    ]


@pytest.mark.parametrize("key", [*OF_CONDITIONS, UNSCHEDULABLE])
def test_a_taint_for_a_condition_that_a_node_does_not_have_is_found(key: str) -> None:
    taint = {"key": key, "effect": "NoExecute"}
    (found,) = unready_nodes(view(node(lambda one: one["spec"].update(taints=[taint]))), guests.expected())
    assert (found.where, found.seen) == ("w-0", f"{key}:NoExecute")


def test_a_taint_that_follows_a_condition_is_no_finding_of_its_own() -> None:
    def press(one: Json) -> None:
        condition(one, "DiskPressure", "True")
        one["spec"]["taints"] = [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]

    (found,) = unready_nodes(view(node(press)), guests.expected())
    assert "DiskPressure=False" in found.expected


@pytest.mark.parametrize(
    "key", ["node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/uninitialized", "own"]
)
def test_any_other_taint_is_one_too_much(key: str) -> None:
    taint = {"key": key, "value": "x", "effect": "NoExecute"}
    (found,) = wrong_roles(view(node(lambda one: one["spec"].update(taints=[taint]))), guests.expected())
    assert found.seen == f"{key}=x:NoExecute"


def test_nodes_of_another_cluster_have_other_uids() -> None:
    def node(name: str, uid: str) -> Json:
        return {"metadata": {"name": name, "uid": uid}}

    before = [node("cp", "u1"), node("w", "u2")]
    assert same_nodes(before, [node("cp", "u3"), node("w", "u4")]) == []
    (found,) = same_nodes(before, [node("cp", "u3"), node("w", "u2")])
    assert (found.where, found.seen) == ("Node w", "the same, u2")
    assert same_nodes([], before), "nothing shows that the same would be found"
