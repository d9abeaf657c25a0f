"""Flags that nobody asked for and settings that kubeadm keeps otherwise than the cell asks are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.topics.kubeadm import (
    strange_flags,
    strange_kubelet_files,
    wrong_cluster_settings,
    wrong_kubelet_template,
)
from tests.unit.validate import foreign, guests, surrounded
from tests.unit.validate.changes import replace_flag
from tests.unit.validate.guests import Change
from tests.unit.validate.kept import KeptApi, Objects, named, recorded


def with_flag(program: str, flag: str) -> Change:
    def change(raw: guests.Json) -> None:
        for process in raw["processes"]:
            if process["name"] == program:
                process["argv"].append(flag)

    return change


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in strange_flags(guests.facts(), guests.expected())] == []
    assert strange_flags({}, guests.expected())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            with_flag("kube-apiserver", "--tls-min-version=VersionTLS10"),
            "cp-0 kube-apiserver: expected no flag --tls-m",
        ),
        (with_flag("kubelet", "--max-open-files=5"), "cp-0 kubelet: expected no flag --max-open-files"),
        (replace_flag("kube-scheduler", "--leader-elect=true", "--leader-elect=false"), "saw --leader-elect=false"),
        (
            replace_flag("etcd", "--client-cert-auth=true", "--name=cp-0"),
            "expected --client-cert-auth=true; saw no such",
        ),
        (replace_flag("etcd", "--snapshot-count=10000", "--snapshot-count=9"), "saw --snapshot-count=9"),
    ],
)
def test_a_strange_flag_is_found(change: Change, words: str) -> None:
    (found,) = strange_flags(guests.facts(change), guests.expected())
    assert words in str(found)


def test_kubeadm_of_1_34_names_the_sandbox_image() -> None:
    change = with_flag("kubelet", "--pod-infra-container-image=mirror/pause:3.10.1")
    older = guests.expected(variables={**guests.VARIABLES, "cluster_kubernetes_version": "1.34.4"})
    assert not [one for one in strange_flags(guests.facts(change), older) if "cp-0 kubelet" in str(one)]
    assert "no flag --pod-infra-container-image" in str(strange_flags(guests.facts(change), guests.expected()))


@pytest.mark.parametrize("version", ["1.33.4", "1.31.5+k3s1", "1.38.0-alpha.1"])
def test_flags_of_a_minor_that_nobody_knows_are_not_judged(version: str) -> None:
    other = guests.expected(variables={**guests.VARIABLES, "cluster_kubernetes_version": version})
    (found,) = strange_flags(guests.facts(), other)
    assert isinstance(found, Unjudged)
    assert "kubeadm's flags are known for Kubernetes 1.34 to 1.37" in str(found)


def test_flags_of_the_cell_are_wanted() -> None:
    variables = {**guests.VARIABLES, "cluster_scheduler_extra_args": {"profiling": False}}
    change = with_flag("kube-scheduler", "--profiling=false")
    assert strange_flags(guests.facts(change), guests.expected(variables=variables)) == []
    (found,) = strange_flags(guests.facts(), guests.expected(variables=variables))
    assert "--profiling=false" in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = strange_flags(guests.facts(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


DNS = "10.95.0.10"
ETCD = {"cluster_etcd_extra_args": {"election-timeout": "5000", "heartbeat-interval": "500"}}
EXPECTED = guests.expected(variables={**guests.VARIABLES, **ETCD})


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """The admin's kubeconfig, with the recorded cluster's CA."""
    info = yaml.safe_load(named(recorded("objects.json")["configmaps"], "cluster-info")["data"]["kubeconfig"])
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(info), encoding="utf-8")
    return file


def edited(name: str, old: str, new: str) -> Callable[[Objects], None]:
    def change(objects: Objects) -> None:
        data = named(objects["configmaps"], name)["data"]
        (key,) = data
        assert old in data[key]
        data[key] = data[key].replace(old, new)

    return change


def wrong_proxy(objects: Objects) -> None:
    data = named(objects["configmaps"], "kube-proxy")["data"]
    data["kubeconfig.conf"] = data["kubeconfig.conf"].replace("6445", "6444")


def gone(name: str) -> Callable[[Objects], None]:
    return lambda objects: objects["configmaps"].remove(named(objects["configmaps"], name))


def template(change: Callable[[Objects], None] = lambda _: None) -> list[Mismatch]:
    return wrong_kubelet_template(KeptApi(change), recorded("kubelets.json"), DNS, guests.expected())


def test_a_well_cluster_passes(kubeconfig: Path) -> None:
    assert wrong_cluster_settings(KeptApi(), kubeconfig, EXPECTED) == []
    assert template() == []


def test_flags_of_a_hardened_cell_are_asked_for(kubeconfig: Path) -> None:
    hardened = guests.expected(variables={**guests.VARIABLES, **ETCD, "cluster_profiling": False})
    (missing, *_) = wrong_cluster_settings(KeptApi(), kubeconfig, hardened)
    assert "apiServer.extraArgs profiling 'false'; saw None" in str(missing)
    there = edited("kubeadm-config", "scheduler: {}", "scheduler: {extraArgs: [{name: profiling, value: 'false'}]}")
    found = wrong_cluster_settings(KeptApi(there), kubeconfig, hardened)
    assert not [one for one in found if "scheduler" in str(one)]


def test_a_controller_manager_beside_an_external_ca_is_told_to_sign_nothing(kubeconfig: Path) -> None:
    external = guests.expected(variables={**guests.VARIABLES, **ETCD, "cluster_external_ca": True})
    (cert, key) = wrong_cluster_settings(KeptApi(), kubeconfig, external)
    assert "controllerManager.extraArgs cluster-signing-cert-file ''; saw None" in str(cert)
    assert "controllerManager.extraArgs cluster-signing-key-file ''; saw None" in str(key)
    flags = "[{name: cluster-signing-cert-file, value: ''}, {name: cluster-signing-key-file, value: ''}]"
    there = edited("kubeadm-config", "controllerManager: {}", f"controllerManager: {{extraArgs: {flags}}}")
    assert wrong_cluster_settings(KeptApi(there), kubeconfig, external) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edited("kubeadm-config", "v1.36.3", "v1.35.4"), "kubernetesVersion 'v1.36.3'; saw 'v1.35.4'"),
        (edited("kubeadm-config", "10.243.0.0/16", "10.244.0.0/16"), "networking.podSubnet"),
        (edited("kubeadm-config", "10.95.0.0/16", "10.96.0.0/12"), "networking.serviceSubnet"),
        (edited("kubeadm-config", "cluster.local", "other"), "networking.dnsDomain"),
        (edited("kubeadm-config", "10.222.0.1:5000", "registry.example"), "imageRepository"),
        (edited("kubeadm-config", "127.0.0.1:6445", "10.0.0.9:6443"), "controlPlaneEndpoint '127.0.0.1:6445'"),
        (
            edited("kubeadm-config", "value: 5s", "value: 9s"),
            "apiServer.extraArgs shutdown-watch-termination-grace-period",
        ),
        (edited("kubeadm-config", "- name: election-timeout", "- name: quota"), "etcd.local.extraArgs"),
        (edited("kubeadm-config", "scheduler: {}", "scheduler: {extraArgs: [{name: v, value: '9'}]}"), "saw '9'"),
        (wrong_proxy, "ConfigMap kube-system/kube-proxy kubeconfig.conf: expected server"),
        (edited("cluster-info", "127.0.0.1:6445", "10.0.0.9:6443"), "saw 'https://10.0.0.9:6443'"),
        (edited("cluster-info", "certificate-authority-data: L", "certificate-authority-data: M"), "another CA"),
        (gone("kubeadm-config"), "ConfigMap kube-system/kubeadm-config: expected to exist"),
        (gone("cluster-info"), "ConfigMap kube-public/cluster-info: expected to exist"),
    ],
)
def test_other_settings_of_the_cluster_are_found(
    kubeconfig: Path, change: Callable[[Objects], None], words: str
) -> None:
    found = wrong_cluster_settings(KeptApi(change), kubeconfig, EXPECTED)
    assert words in "; ".join(map(str, found))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edited("kubelet-config", DNS, "10.96.0.10"), "clusterDNS ['10.95.0.10']; saw ['10.96.0.10']"),
        (edited("kubelet-config", "cgroupDriver: cgroupfs", "cgroupDriver: systemd"), "cgroupDriver 'cgroupfs'"),
        (
            edited("kubelet-config", "maxParallelImagePulls: 4", "maxParallelImagePulls: 9"),
            "maxParallelImagePulls 4; saw 9",
        ),
        (
            edited("kubelet-config", "healthzPort: 10248", "healthzPort: 1"),
            "kubelet-config: expected healthzPort 10248",
        ),
        (edited("kubelet-config", "healthzPort", "maxPods: 20\nhealthzPort"), "no maxPods, for which nobody asked"),
        (edited("kubelet-config", "failCgroupV1: false", "failCgroupV1: true"), "failCgroupV1 False; saw True"),
        (gone("kubelet-config"), "to exist"),
    ],
)
def test_another_template_of_kubelets_is_found(change: Callable[[Objects], None], words: str) -> None:
    assert any(words in str(one) for one in template(change))


def test_a_kubelet_that_runs_with_other_settings_is_found() -> None:
    running = recorded("kubelets.json")
    running["w-0"]["serializeImagePulls"] = True
    (found,) = wrong_kubelet_template(KeptApi(), running, DNS, guests.expected())
    assert (found.where, found.seen) == ("w-0 kubelet", "True")


def test_a_cluster_of_which_nothing_says_that_kubeadm_made_it_is_not_judged(kubeconfig: Path) -> None:
    api, wanted = KeptApi(gone("kubeadm-config")), foreign.expected(foreign.UNSAID)
    for found in (
        wrong_cluster_settings(api, kubeconfig, wanted),
        wrong_kubelet_template(KeptApi(), recorded("kubelets.json"), DNS, wanted),
    ):
        assert real(found) == []
        assert isinstance(found[0], Unjudged)
        assert found[0].whole


def test_another_file_of_name_servers_for_pods_is_found() -> None:
    setups = surrounded.setups(lambda raw: raw.update(kubelet="resolvConf: /root/resolv.conf\n"))
    (found,) = strange_kubelet_files(KeptApi(), setups, EXPECTED)
    assert (found.where, found.seen) == ("w-0 kubelet's file", "/root/resolv.conf")
    own = surrounded.setups(lambda raw: raw.update(kubelet="resolvConf: /run/systemd/resolve/resolv.conf\n"))
    assert strange_kubelet_files(KeptApi(), own, EXPECTED) == []
