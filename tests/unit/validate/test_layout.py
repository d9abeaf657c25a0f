"""Another product's cluster raises no alarm when it is right, and does when not, whatever its product says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.manifests import strange_objects
from harness.validate.topics import (
    addons,
    boot,
    cluster_objects,
    etcd,
    kube_proxy,
    kubeadm,
    kubelet,
    nodes,
    operating_system,
    pod_network,
    programs,
    rbac,
    runtime,
    system_pods,
)
from harness.validate.topics.certificates import bad_certificates, other_roles, strayed_secrets
from tests.unit.validate import foreign, guests, views
from tests.unit.validate.changes import put, replace_flag, second_process, without_process
from tests.unit.validate.foreign import SAID, UNSAID
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi

RECORDED_AT = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
Facts = Mapping[str, NodeFacts]


def certificates(seen: Facts, wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, RECORDED_AT)


def failed(seen: Facts, wanted: ExpectedGuest) -> list[Mismatch]:
    return programs.failed_units(seen, wanted, {})


def identities(seen: Facts, wanted: ExpectedGuest) -> list[Mismatch]:
    return operating_system.confused_identities(seen, wanted, 60.0)


def routes(seen: Facts, wanted: ExpectedGuest) -> list[Mismatch]:
    return pod_network.wrong_routes(seen, foreign.view(), wanted)


def members(judge: Callable[[Any, ExpectedGuest], list[Mismatch]]) -> Callable[[Facts, ExpectedGuest], list[Mismatch]]:
    return lambda seen, wanted: judge({n: f.etcd for n, f in seen.items() if f.etcd is not None}, wanted)


OF_FACTS = {
    "services": programs.stopped_services,
    "failed": failed,
    "processes": programs.misplaced_processes,
    "manifests": programs.wrong_manifests,
    "agents": programs.unhealthy_agents,
    "flags": programs.wrong_flags,
    "kernel": operating_system.wrong_kernel_settings,
    "certificates": certificates,
    "identities": identities,
    "proxy mode": kube_proxy.wrong_proxy_mode,
    "binaries": programs.wrong_binaries,
    "replaced": programs.replaced_binaries,
    "routes": routes,
    "tunnels": pod_network.wrong_tunnels,
    "units": pod_network.wrong_plugin_units,
    "members": members(etcd.wrong_members),
    "health": members(etcd.unhealthy),
    "leader": members(etcd.disagreeing),
    "etcd version": members(etcd.wrong_versions),
}
OF_VIEW = {
    "nodes": nodes.unready_nodes,
    "versions": nodes.wrong_node_versions,
    "networks": nodes.wrong_node_networks,
    "roles": nodes.wrong_roles,
    "deployments": addons.unavailable_deployments,
    "daemon sets": addons.unready_daemon_sets,
    "pods": system_pods.unready_pods,
    "images": system_pods.foreign_images,
    "image versions": system_pods.wrong_image_versions,
}
SAYINGS = {"said": SAID, "unsaid": UNSAID}
SAYS = pytest.mark.parametrize("leaves", SAYINGS.values(), ids=SAYINGS)


@SAYS
def test_a_right_cluster_of_another_layout_raises_no_alarm(leaves: ClusterLeaves) -> None:
    wanted = foreign.expected(leaves)
    of_facts = {name: real(judge(foreign.facts(), wanted)) for name, judge in OF_FACTS.items()}
    of_view = {name: real(judge(foreign.view(), wanted)) for name, judge in OF_VIEW.items()}
    assert {name: found for name, found in {**of_facts, **of_view}.items() if found} == {}


def test_only_what_nothing_shows_is_not_judged() -> None:
    wanted = foreign.expected(SAYINGS["unsaid"])
    found = [one for judge in OF_FACTS.values() for one in judge(foreign.facts(), wanted)]
    found += [one for judge in OF_VIEW.values() for one in judge(foreign.view(), wanted)]
    assert sorted(str(one).partition(":")[0] for one in found) == [
        *("routes to other nodes' pods", "static pods of etcd", "strict filtering of paths and ARP"),
        "the labels of workers",
        "the network plugin's DaemonSet",
        *("the network plugin's unit", "the taints of control planes", "tunnels"),
        "where images come from",
        "whether other add-ons exist",
    ]


# What is judged only where the product says so: by the key that it leaves out, judged of a cluster of which nothing is
# seen.
JUDGED_IF_SAID: Mapping[str, tuple[Callable[[ExpectedGuest], list[Mismatch]], ...]] = {
    "unit_settings": (lambda wanted: programs.other_units({}, wanted),),
    "boot_files": (lambda wanted: boot.strange_boot({}, wanted),),
    "boot_modules": (
        lambda wanted: boot.wrong_boot({}, wanted),
        lambda wanted: operating_system.wrong_kernel_settings({}, wanted),
    ),
    "secrets": (lambda wanted: strayed_secrets({}, {}, wanted),),
    "flags": (lambda wanted: other_roles({}, wanted),),
    "node_labels": (lambda wanted: nodes.strange_metadata(foreign.view(), wanted),),
    "admission": (
        lambda wanted: cluster_objects.strange_admission(KeptApi(), wanted),
        lambda wanted: cluster_objects.undeletable(cluster_objects.ServedObjects({"Pod": ()}, ()), wanted),
    ),
    "namespaces": (lambda wanted: cluster_objects.lasting_tokens(KeptApi(), namespaces=wanted.namespaces),),
    "manifests": (
        lambda wanted: strange_objects(KeptApi(), wanted),
        lambda wanted: rbac.strange_rights(KeptApi(), wanted),
        lambda wanted: cluster_objects.strange_admission(KeptApi(), wanted),
        lambda wanted: kube_proxy.wrong_proxy_settings(KeptApi(), {}, wanted),
        lambda wanted: kubeadm.wrong_kubelet_template(KeptApi(), {}, "10.95.0.10", wanted),
    ),
    "runtime_settings": (lambda wanted: runtime.other_configuration({}, wanted),),
}


@pytest.mark.parametrize("key", JUDGED_IF_SAID)
def test_what_is_not_judged_because_a_key_is_left_out_is_told_with_the_key(key: str) -> None:
    unsaid = guests.expected(leaves=guests.OURS.model_copy(update={key: None}))
    for judge in JUDGED_IF_SAID[key]:
        told = [one for one in judge(unsaid) if isinstance(one, Unjudged)]
        assert any(re.search(rf"[(, ]{key}[,)]", str(one)) for one in told), [*map(str, told)]
        assert not any(isinstance(one, Unjudged) for one in judge(guests.expected()))


@pytest.mark.parametrize("judge", [*OF_FACTS.values()], ids=OF_FACTS)
@SAYS
def test_machines_that_were_not_seen_are_no_pass(leaves: ClusterLeaves, judge: Any) -> None:
    found = judge({}, foreign.expected(leaves))
    assert real(found) or any(isinstance(one, Unjudged) and one.whole for one in found)


def unit_state(unit: str, state: str) -> Change:
    return put(f"units/{unit}/ActiveState", state)


def with_manifest(name: str) -> Change:
    return lambda raw: raw["manifests"].append(name)


def settings_of_etcd(**settings: str) -> Change:
    def change(raw: Json) -> None:
        for process in raw["processes"]:
            if process["name"] == "etcd":
                process["settings"] = {**process["settings"], **{k.replace("_", "-"): v for k, v in settings.items()}}

    return change


def in_etcd(part: str, old: str, new: str) -> Change:
    def change(raw: Json) -> None:
        assert old in raw["etcd"][part]["body"]
        raw["etcd"][part]["body"] = raw["etcd"][part]["body"].replace(old, new)

    return change


def as_pod(program: str) -> Change:
    def change(raw: Json) -> None:
        for process in raw["processes"]:
            if process["name"] == program:
                process["cgroup"] = "/kubepods/burstable/pod1/1"

    return change


# What is wrong -> the judgement that finds it, the machine, the change. Whatever the product says of itself.
FAULTS: dict[str, tuple[str, str, Change]] = {
    "kubelet is stopped": ("services", "w-0", unit_state("kubelet.service", "inactive")),
    "kubelet has ended on one machine": ("replaced", "w-0", without_process("kubelet")),
    "etcd has ended": ("processes", "cp-0", without_process("etcd")),
    "two schedulers": ("processes", "cp-0", second_process("kube-scheduler")),
    "an API server's manifest on a worker": ("manifests", "w-0", with_manifest("kube-apiserver.yaml")),
    "no manifest of the API server": ("manifests", "cp-0", lambda raw: raw["manifests"].remove("kube-apiserver.yaml")),
    "kubelet is not healthy": ("agents", "w-0", put("endpoints/kubelet/status", 500)),
    "kube-proxy does not answer": ("agents", "w-0", put("endpoints/kube-proxy/status", 0)),
    "etcd lets anyone in": ("flags", "cp-0", settings_of_etcd(client_cert_auth="false")),
    "authorization of anyone": (
        *("flags", "cp-0"),
        replace_flag("kube-apiserver", "--authorization-mode=Node,RBAC", "--authorization-mode=AlwaysAllow"),
    ),
    "no CA of clients": (
        *("flags", "cp-0"),
        replace_flag("kube-apiserver", "--client-ca-file=/etc/kubernetes/ssl/ca.crt", "--client-ca-file="),
    ),
    "no configuration of kubelet": (
        *("flags", "w-0"),
        replace_flag("kubelet", "--config=/etc/kubernetes/kubelet-config.yaml", "--v=2"),
    ),
    "another's kubelet certificate": (
        *("certificates", "cp-0"),
        put("whose_certificates/kubelet's client", "/etc/kubernetes/ssl/apiserver.crt"),
    ),
    "no certificate of kubelet": ("certificates", "w-0", put("whose_certificates", {})),
    "another version of kubectl": ("binaries", "cp-0", put("versions/kubectl", "Client Version: v1.35.0")),
    "another version of kubelet": ("binaries", "w-0", put("versions/kubelet", "Kubernetes v1.35.0")),
    "no runc": ("binaries", "w-0", put("versions/runc", None)),
    "a member that is not the inventory's": (
        "members",
        "cp-0",
        in_etcd("members", "10.222.1.2:2380", "10.222.1.9:2380"),
    ),
    "a member that never started": (
        "members",
        "cp-0",
        in_etcd("members", '\\"name\\":\\"etcd1\\",'.replace("\\", ""), ""),
    ),
    "another version of etcd": ("etcd version", "cp-0", in_etcd("status", "3.6.8", "3.6.7")),
}


@pytest.mark.parametrize(("judge", "machine", "change"), FAULTS.values(), ids=FAULTS)
@SAYS
def test_a_fault_of_another_layout_is_found(leaves: ClusterLeaves, judge: str, machine: str, change: Change) -> None:
    wanted = foreign.expected(leaves)
    assert real(OF_FACTS[judge](foreign.facts(change, of=machine), wanted))


SAID_FAULTS: dict[str, tuple[str, str, Change]] = {
    "no route": ("routes", "cp-0", put("routes", [])),
    "no tunnel": ("tunnels", "cp-0", put("links", [{"ifname": "lo"}])),
    "etcd as a pod": ("processes", "cp-0", as_pod("etcd")),
    "etcd was not restarted": ("flags", "cp-0", settings_of_etcd(name="etcd2")),
    "a static pod too much": ("manifests", "w-0", with_manifest("other.yaml")),
    "no kubectl on a control plane": ("binaries", "cp-0", put("versions/kubectl", None)),
    "another configuration of kubelet": (
        *("flags", "w-0"),
        replace_flag(
            "kubelet", "--config=/etc/kubernetes/kubelet-config.yaml", "--config=/var/lib/kubelet/config.yaml"
        ),
    ),
}


@pytest.mark.parametrize(("judge", "machine", "change"), SAID_FAULTS.values(), ids=SAID_FAULTS)
def test_what_a_product_says_is_held_against_it(judge: str, machine: str, change: Change) -> None:
    assert real(OF_FACTS[judge](foreign.facts(change, of=machine), foreign.expected(SAID)))


def no_replica(raw: Json) -> None:
    views.named(raw["deployments"], "coredns")["status"]["availableReplicas"] = 0


def other_image(raw: Json) -> None:
    views.named(raw["pods"], "kube-scheduler")["spec"]["containers"][0]["image"] = "mirror/kube-scheduler:v1.35.0"


OBJECT_FAULTS: dict[str, tuple[str, Change]] = {
    "DNS without a replica": ("deployments", no_replica),
    "no DaemonSet of the network plugin": ("daemon sets", views.without("daemon_sets", "kube-flannel")),
    "a pod that is not ready": ("pods", views.pod("kube-flannel", lambda pod: views.condition(pod, "Ready", "False"))),
    "no scheduler": ("pods", views.without("pods", "kube-scheduler")),
    "another version": ("image versions", other_image),
}


@pytest.mark.parametrize(("judge", "change"), OBJECT_FAULTS.values(), ids=OBJECT_FAULTS)
def test_a_fault_in_the_api_is_found(judge: str, change: Change) -> None:
    assert real(OF_VIEW[judge](foreign.view(change), foreign.expected(SAID)))


def test_a_unit_that_nothing_shows_is_not_judged_unless_the_product_names_it() -> None:
    seen = foreign.facts()
    bare = {
        name: replace(
            facts, processes=tuple(replace(p, main_of="", cgroup="/system.slice") for p in facts.processes), units={}
        )
        for name, facts in seen.items()
    }
    found = programs.stopped_services(bare, foreign.expected(UNSAID))
    assert {one.expected for one in found} == {"the unit of kubelet", "the unit of containerd"}
    assert all(isinstance(one, Unjudged) and one.whole for one in found)
    assert real(programs.stopped_services(bare, foreign.expected(SAID)))


def test_our_own_layout_is_wrong_for_a_product_that_says_another() -> None:
    wanted = foreign.expected(SAID)
    assert {name for name, judge in OF_FACTS.items() if real(judge(guests.facts(), wanted))} >= {
        *("processes", "manifests", "flags", "certificates", "units")
    }


def test_a_cluster_in_one_program_is_judged_by_its_behaviour_alone() -> None:
    """As of k3s: no program of Kubernetes has a process of its own, and nothing is said of it."""

    def alone(raw: Json) -> None:
        raw.update(processes=[], manifests=[], etcd=None, whose_certificates={}, cni_plugins={})
        raw["versions"].update(kubeadm=None, kubectl=None, kubelet=None)

    wanted = foreign.expected(
        UNSAID, cluster_network_plugin="own", cluster_kube_proxy_mode="own", cluster_runc_version=None
    )
    raw = {name: foreign.facts(alone, of=name)[name] for name in ("cp-0", "w-0")}
    whole = {
        name
        for name, judge in OF_FACTS.items()
        if any(isinstance(one, Unjudged) and one.whole for one in judge(raw, wanted))
    }
    assert whole >= {"manifests", "processes", "services", "members", "health", "leader", "etcd version", "proxy mode"}
    assert {name for name, judge in OF_FACTS.items() if real(judge(raw, wanted))} <= {"units"}


@pytest.mark.parametrize(
    ("given", "address", "good"),
    [
        (["169.254.25.10"], "10.95.0.3", True),
        (["10.95.0.3"], "10.95.0.3", True),
        (["10.95.0.10"], "10.95.0.3", False),
        (["8.8.8.8"], "10.95.0.3", False),
        ([], "10.95.0.3", False),
        ([], "", False),
    ],
)
def test_kubelets_give_pods_the_dns_service_or_a_server_on_the_node(given: list[str], address: str, good: bool) -> None:
    wanted = foreign.expected(UNSAID, cluster_kubelet_config={})
    well = {
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
        "rotateCertificates": True,
        "clusterDomain": "cluster.local",
        "clusterDNS": given,
    }
    assert (kubelet.wrong_kubelet_settings({"cp-0": well, "w-0": well}, address, wanted) == []) is good


def test_a_product_may_name_the_address_that_kubelets_give_to_pods() -> None:
    said = UNSAID.model_copy(update={"dns": UNSAID.dns.model_copy(update={"kubelet_address": "169.254.25.10"})})
    found = kubelet.wrong_kubelet_settings({n: {} for n in ("cp-0", "w-0")}, "10.95.0.3", foreign.expected(said))
    assert "clusterDNS ['169.254.25.10']" in {one.expected for one in found}


def test_the_view_knows_pods_of_any_namespace_of_the_cluster() -> None:
    raw = foreign.raw_view()
    raw["pods"] += [
        {"metadata": {"name": name, "namespace": space}, "spec": {"containers": []}, "status": {"phase": "Failed"}}
        for name, space in (("calico-node-1", "calico-system"), ("probe-1", "vmatrix-probe"), ("web", "default"))
    ]
    seen = ClusterView(*(tuple(raw[kind]) for kind in ("nodes", "pods", "daemon_sets", "deployments")))
    assert {one.where for one in real(system_pods.unready_pods(seen, foreign.expected(SAYINGS["unsaid"])))} == {
        "calico-system/calico-node-1"
    }
