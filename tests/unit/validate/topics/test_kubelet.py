"""Settings of running kubelets and static pods that are not those of the cell are found."""

from __future__ import annotations

import pytest

from harness.kube.client import Answer
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Unjudged
from harness.validate.topics import kubelet
from harness.validate.topics.kubelet import strange_static_pods
from tests.unit.validate import foreign, guests, views
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi

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
    assert kubelet.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected()) == []


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
    found = kubelet.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected())
    assert [finding.where for finding in found] == ["w-0 kubelet"]


def test_a_kubelet_that_does_not_tell_its_settings_is_found() -> None:
    found = kubelet.wrong_kubelet_settings({"cp-0": SETTINGS}, "10.95.0.10", guests.expected())
    assert [(finding.where, finding.seen) for finding in found] == [("w-0", "none")]


def test_a_kubelet_that_the_api_server_does_not_reach_is_found_with_the_reason() -> None:
    refused = Answer(502, {"message": "x509: certificate signed by unknown authority"}, ())
    path = "/api/v1/nodes/{}/proxy/configz".format
    api = KeptApi(answers={path("cp-0"): Answer(200, {"kubeletconfig": SETTINGS}, ()), path("w-0"): refused})
    settings, silent = kubelet.asked_kubelets(api, guests.expected())
    found = kubelet.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected(), silent)
    assert [str(one) for one in found] == [
        "w-0 kubelet: expected its configuration; saw 502: x509: certificate signed by unknown authority"
    ]


PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SCHEDULER = "kube-scheduler-cp-0"


def as_made(raw: Json) -> None:
    """Give the recorded pods, of which only images were recorded, the rest of what kubeadm gives them."""
    for program in PROGRAMS:
        spec = views.named(raw["pods"], f"{program}-cp-0")["spec"]
        spec.update(hostNetwork=True, priorityClassName="system-node-critical")
        spec["volumes"] = [{"hostPath": {"path": "/etc/kubernetes/pki"}}, {"hostPath": {"path": "/etc/ssl/certs"}}]
        spec["containers"][0].update(name=program, livenessProbe={}, startupProbe={})


def with_change(change: Change) -> Change:
    def both(raw: Json) -> None:
        as_made(raw)
        change(views.named(raw["pods"], SCHEDULER)["spec"])

    return both


def test_only_a_well_cluster_passes() -> None:
    assert strange_static_pods(views.view(as_made), guests.expected()) == []
    gone = strange_static_pods(views.view(lambda raw: raw["pods"].clear()), guests.expected())
    assert f"pod {SCHEDULER}: expected to exist; saw none" in map(str, gone)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda spec: spec["containers"].append({"name": "extra"}),
            "no other containers than kube-scheduler; saw extra",
        ),
        (lambda spec: spec.update(initContainers=[{"name": "first"}]), "saw first"),
        (lambda spec: spec["containers"][0].pop("livenessProbe"), "a livenessProbe; saw none"),
        (lambda spec: spec["containers"][0].update(env=[{"name": "GODEBUG", "value": "x"}]), "GODEBUG"),
        (lambda spec: spec["containers"][0].update(securityContext={"privileged": True}), "privileged False"),
        (lambda spec: spec.update(priorityClassName="low"), "priorityClassName"),
        (lambda spec: spec.update(hostNetwork=False), "hostNetwork"),
        (lambda spec: spec["volumes"].append({"hostPath": {"path": "/"}}), "saw ['/']"),
    ],
)
def test_a_strange_pod_is_found(change: Change, words: str) -> None:
    (found,) = strange_static_pods(views.view(with_change(change)), guests.expected())
    assert words in str(found)
    assert SCHEDULER in found.where


def test_the_folder_of_an_audit_log_that_the_cell_asks_for_is_the_api_servers_alone() -> None:
    def change(raw: Json) -> None:
        as_made(raw)
        for program in ("kube-apiserver", "kube-scheduler"):
            spec = views.named(raw["pods"], f"{program}-cp-0")["spec"]
            spec["volumes"].append({"hostPath": {"path": "/var/log/kubernetes"}})

    view = views.view(change)
    audited = {**guests.VARIABLES, "cluster_audit_policy": {"rules": [{"level": "Metadata"}]}}
    found = strange_static_pods(view, guests.expected(variables=audited))
    assert [one.where for one in found] == [f"pod {SCHEDULER}"]
    assert len(strange_static_pods(view, guests.expected())) == 2


def test_a_proxy_that_kubeadm_hands_on_is_none_of_it() -> None:
    env = [{"name": "HTTPS_PROXY", "value": "http://192.0.2.1"}, {"name": "no_proxy", "value": "10.0.0.0/8"}]
    change = with_change(lambda spec: spec["containers"][0].update(env=env))
    assert strange_static_pods(views.view(change), guests.expected()) == []


@pytest.mark.parametrize(
    "wanted",
    [
        guests.expected(leaves=foreign.UNSAID),
        guests.expected(variables={**guests.VARIABLES, "cluster_patches": {"etcd.json": "{}"}}),
    ],
    ids=["unsaid", "patched"],
)
def test_pods_of_others_and_patched_ones_are_not_judged(wanted: ExpectedGuest) -> None:
    (found,) = strange_static_pods(views.view(as_made), wanted)
    assert isinstance(found, Unjudged)
