"""Every judgement about a cluster passes on a well guest, and each fault is found by the judgement that is about it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.kube import Cluster
from harness.until import Deadline
from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.inspection import settle
from harness.validate.judge import addons, cluster_nodes, kubelets, system_pods
from harness.validate.judge.mismatch import Mismatch
from tests.unit.validate import guests
from tests.unit.validate.guests import NOWHERE

Json = dict[str, Any]
Judge = Callable[[ClusterView, ExpectedGuest], list[Mismatch]]
Change = Callable[[Json], None]


def recorded() -> Json:
    read: Json = json.loads((guests.RECORDED / "view.json").read_text(encoding="utf-8"))
    return read


def view(change: Change = lambda _: None) -> ClusterView:
    raw = recorded()
    change(raw)
    return ClusterView(*(tuple(raw[kind]) for kind in ("nodes", "pods", "daemon_sets", "deployments")))


JUDGES: tuple[Judge, ...] = (
    cluster_nodes.unready_nodes,
    cluster_nodes.wrong_node_versions,
    cluster_nodes.wrong_node_networks,
    cluster_nodes.wrong_roles,
    system_pods.unready_pods,
    system_pods.foreign_images,
    system_pods.wrong_image_versions,
    addons.unavailable_deployments,
    addons.unready_daemon_sets,
)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_well_guest_passes(judge: Judge) -> None:
    assert judge(view(), guests.expected()) == []


@pytest.mark.parametrize("judge", JUDGES)
def test_an_empty_answer_fails(judge: Judge) -> None:
    assert judge(ClusterView((), (), (), ()), guests.expected()) != []


def named(objects: list[Json], start: str) -> Json:
    return next(obj for obj in objects if obj["metadata"]["name"].startswith(start))


def condition(obj: Json, kind: str, status: str) -> None:
    next(c for c in obj["status"]["conditions"] if c["type"] == kind)["status"] = status


def node(change: Change) -> Change:
    return lambda raw: change(named(raw["nodes"], "w-0"))


def pod(start: str, change: Change) -> Change:
    return lambda raw: change(named(raw["pods"], start))


def daemon_set(change: Change) -> Change:
    return lambda raw: change(named(raw["daemon_sets"], "kube-flannel"))


def coredns(change: Change) -> Change:
    return lambda raw: change(named(raw["deployments"], "coredns"))


def without(kind: str, start: str) -> Change:
    return lambda raw: raw[kind].remove(named(raw[kind], start))


def another_node(raw: Json) -> None:
    stranger = copy.deepcopy(named(raw["nodes"], "w-0"))
    stranger["metadata"]["name"] = "w-1"
    raw["nodes"].append(stranger)


def image(text: str) -> Change:
    return lambda obj: obj["spec"]["containers"][0].update(image=text)


def container(**fields: object) -> Change:
    return lambda obj: obj["status"]["containerStatuses"][0].update(fields)


FAULTS: list[tuple[Judge, Change]] = [
    (cluster_nodes.unready_nodes, without("nodes", "w-0")),
    (cluster_nodes.unready_nodes, another_node),
    (cluster_nodes.unready_nodes, node(lambda n: condition(n, "Ready", "Unknown"))),
    (cluster_nodes.unready_nodes, node(lambda n: condition(n, "DiskPressure", "True"))),
    (cluster_nodes.unready_nodes, node(lambda n: n["status"].update(conditions=[]))),
    (cluster_nodes.unready_nodes, node(lambda n: n["spec"].update(unschedulable=True))),
    (cluster_nodes.wrong_node_versions, node(lambda n: n["status"]["nodeInfo"].update(kubeletVersion="v1.35.4"))),
    (
        cluster_nodes.wrong_node_versions,
        node(lambda n: n["status"]["nodeInfo"].update(containerRuntimeVersion="containerd://1.7.35")),
    ),
    (cluster_nodes.wrong_node_networks, node(lambda n: n["status"].update(addresses=[]))),
    (cluster_nodes.wrong_node_networks, node(lambda n: n["spec"].update(podCIDR=""))),
    (cluster_nodes.wrong_node_networks, node(lambda n: n["spec"].update(podCIDR="10.244.0.0/24"))),
    (
        cluster_nodes.wrong_node_networks,
        lambda raw: raw["nodes"][0]["spec"].update(podCIDR=raw["nodes"][1]["spec"]["podCIDR"]),
    ),
    (
        cluster_nodes.wrong_roles,
        node(lambda n: n["metadata"]["labels"].update({cluster_nodes.CONTROL_PLANE_LABEL: ""})),
    ),
    (cluster_nodes.wrong_roles, lambda raw: named(raw["nodes"], "cp-0")["spec"].update(taints=[])),
    (cluster_nodes.wrong_roles, node(lambda n: n["spec"].update(taints=[{"key": "gpu", "effect": "NoSchedule"}]))),
    (system_pods.unready_pods, without("pods", "etcd-cp-0")),
    (system_pods.unready_pods, pod("coredns", lambda p: p["status"].update(phase="Pending"))),
    (system_pods.unready_pods, pod("kube-proxy", lambda p: condition(p, "Ready", "False"))),
    (system_pods.unready_pods, pod("kube-proxy", container(restartCount=3))),
    (system_pods.unready_pods, pod("kube-proxy", container(state={"waiting": {"reason": "CrashLoopBackOff"}}))),
    (system_pods.foreign_images, pod("coredns", image("registry.k8s.io/coredns/coredns:v1.14.2"))),
    (system_pods.wrong_image_versions, pod("coredns", image("10.222.0.1:5000/coredns:v1.13.1"))),
    (system_pods.wrong_image_versions, pod("etcd", image("10.222.0.1:5000/etcd:3.5.24-0"))),
    (system_pods.wrong_image_versions, pod("kube-proxy", image("10.222.0.1:5000/kube-proxy:v1.35.4"))),
    (system_pods.wrong_image_versions, without("pods", "kube-scheduler")),
    (addons.unavailable_deployments, without("deployments", "coredns")),
    (addons.unavailable_deployments, coredns(lambda d: d["status"].update(availableReplicas=1))),
    (addons.unavailable_deployments, coredns(lambda d: d["spec"].update(replicas=0))),
    (addons.unavailable_deployments, coredns(lambda d: d["metadata"].update(generation=9))),
    (addons.unready_daemon_sets, without("daemon_sets", "kube-proxy")),
    (addons.unready_daemon_sets, without("daemon_sets", "kube-flannel")),
    (addons.unready_daemon_sets, daemon_set(lambda d: d["status"].update(numberReady=1))),
    (addons.unready_daemon_sets, daemon_set(lambda d: d["status"].update(desiredNumberScheduled=1))),
    (addons.unready_daemon_sets, daemon_set(lambda d: d["status"].update(updatedNumberScheduled=0))),
]


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    found = judge(view(fault), guests.expected())
    assert found
    assert all(finding.where and finding.expected and finding.seen for finding in found)


VERSIONS = {add_on.variable: "1.2.3" for add_on in ADD_ONS.values()}


def with_add_ons(raw: Json) -> None:
    """Let the recorded guest have both add-ons, each on its own."""
    for add_on in ADD_ONS.values():
        namespace, name = add_on.deployment
        for kind, start in (("deployments", "coredns"), ("pods", "coredns")):
            made = copy.deepcopy(named(raw[kind], start))
            made["metadata"].update(namespace=namespace, name=name)
            if kind == "pods":
                made["spec"]["containers"][0]["image"] = f"10.222.0.1:5000/{add_on.image}:v1.2.3"
            raw[kind].append(made)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_guest_with_add_ons_passes_only_where_they_are_wanted(judge: Judge) -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    assert judge(view(with_add_ons), wanted) == []
    if judge in (addons.unavailable_deployments, system_pods.wrong_image_versions):
        assert {name for name in ADD_ONS for f in judge(view(), wanted) if name in f.where} == set(ADD_ONS)
    if judge is addons.unavailable_deployments:
        assert [f.seen for f in judge(view(with_add_ons), guests.expected())] == ["it exists"] * len(ADD_ONS)


def test_an_add_on_of_another_version_is_found() -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS, "cluster_metrics_server_version": "1.2.4"})
    assert [f.where for f in system_pods.wrong_image_versions(view(with_add_ons), wanted)] == ["metrics-server"]


def test_a_nodes_conditions_as_taints_are_no_wrong_role() -> None:
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert cluster_nodes.wrong_roles(view(node(lambda n: n["spec"].update(taints=[passing]))), guests.expected()) == []


def test_a_single_machine_that_is_everything_takes_pods() -> None:
    wanted = guests.expected(groups=(("control_plane", "etcd", "node"), ()))
    alone = view(lambda raw: raw.update(nodes=[named(raw["nodes"], "cp-0")]))
    assert [f.seen for f in cluster_nodes.wrong_roles(alone, wanted)] == [
        "node-role.kubernetes.io/control-plane:NoSchedule"
    ]


SETTINGS: Json = {
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
    "authorization": {"mode": "Webhook"},
    "rotateCertificates": True,
    "clusterDomain": "cluster.local",
    "clusterDNS": ["10.95.0.10"],
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
}


def test_kubelets_with_the_cells_settings_pass() -> None:
    settings = dict.fromkeys(("cp-0", "w-0"), SETTINGS)
    assert kubelets.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"clusterDNS": ["10.96.0.10"]},
        {"clusterDomain": "other"},
        {"cgroupDriver": "systemd"},
        {"authorization": {"mode": "AlwaysAllow"}},
        {"authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": True}}},
        {"readOnlyPort": 10255},
    ],
)
def test_a_kubelet_with_another_setting_is_found(change: Json) -> None:
    settings = {"cp-0": SETTINGS, "w-0": {**SETTINGS, **change}}
    found = kubelets.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected())
    assert [finding.where for finding in found] == ["w-0 kubelet"]


def test_a_kubelet_that_does_not_tell_its_settings_is_found() -> None:
    found = kubelets.wrong_kubelet_settings({"cp-0": SETTINGS}, "10.95.0.10", guests.expected())
    assert [(finding.where, finding.seen) for finding in found] == [("w-0", "none")]


class Answers(Cluster):
    """An API that lists recorded objects, those of a later look at each further list of nodes."""

    def __init__(self, *looks: Json) -> None:
        super().__init__(NOWHERE)
        self.looks = list(looks)

    def list(self, resource: Any, *_: Any, **__: Any) -> Any:
        kinds = {"Node": "nodes", "Pod": "pods", "DaemonSet": "daemon_sets", "Deployment": "deployments"}
        items = self.looks[0][kinds[resource.kind]]
        if resource.kind == "Deployment" and len(self.looks) > 1:  # the last question of a look
            self.looks.pop(0)
        return type("Listing", (), {"items": items})


def unavailable(seen: ClusterView) -> list[Mismatch]:
    return addons.unavailable_deployments(seen, guests.expected())


def test_a_cluster_is_looked_at_until_it_has_settled() -> None:
    starting = recorded()
    named(starting["deployments"], "coredns")["status"]["availableReplicas"] = 0
    seen = settle(Answers(starting, recorded()), unavailable, Deadline.after(30))
    assert unavailable(seen) == []


def test_a_cluster_that_never_settles_is_judged_as_it_was_last() -> None:
    starting = recorded()
    named(starting["deployments"], "coredns")["status"]["availableReplicas"] = 0
    seen = settle(Answers(starting), unavailable, Deadline.after(0))
    assert [finding.seen for finding in unavailable(seen)] == ["0"]
