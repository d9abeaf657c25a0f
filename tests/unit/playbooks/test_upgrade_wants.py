"""What an upgrade is told and what it fetches: options that every kubeadm knows, releases from the right place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import proc
from harness.artifacts.catalogue import load
from harness.artifacts.refs import BUSYBOX
from tests.unit.playbooks.playbook_files import PLAYBOOKS, tasks
from tests.unit.playbooks.test_kubeadm import kubeadm, versions
from tests.unit.playbooks.test_templates import render


@versions
@pytest.mark.parametrize("differing", [["etcd"], ["kube-apiserver"]])
def test_kubeadm_accepts_how_it_is_to_upgrade(version: str, differing: list[str], tmp_path: Path) -> None:
    place = render("cp1-w1", tmp_path, frozenset({"kubeadm-upgrade.yml"}), static_pods_differing=differing)
    config = place / "kubeadm-upgrade.yml"
    proc.run([kubeadm(version), "config", "validate", "--config", config], timeout=60)
    given = yaml.safe_load(config.read_text(encoding="utf-8"))
    assert given["timeouts"]["upgradeManifests"] == "10m0s"
    assert given["node"] == given["apply"]
    assert given["apply"]["etcdUpgrade"] is ("etcd" in differing)


@pytest.mark.parametrize(("version", "retired"), [("1.34.4", []), ("1.36.3", ["pod-infra-container-image"])])
def test_a_flag_with_which_a_newer_kubelet_does_not_start_goes_and_nothing_else(
    version: str, retired: list[str], tmp_path: Path
) -> None:
    place = render("cp1-w1", tmp_path, frozenset({"chosen.json"}), cluster_kubernetes_version=version)
    flags = json.loads((place / "chosen.json").read_text(encoding="utf-8"))["retired_flags"]
    assert flags == retired
    (task,) = [
        task for task in tasks(PLAYBOOKS / "roles/kubelet_update/tasks/main.yml") if "ansible.builtin.replace" in task
    ]
    text = 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.3 --pod-infra-container-image=10.0.0.1:5000/pause:3.10.1 --v=2"'
    for flag in flags:
        text = re.sub(task["ansible.builtin.replace"]["regexp"].replace("{{ kubelet_update_flag }}", flag), "", text)
    assert ("pod-infra" in text) is not bool(retired)
    assert text.startswith('KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.3 ')
    assert text.endswith(' --v=2"')


def wanted(directory: Path, **variables: Any) -> dict[str, Any]:
    """Return what is asked for of the mirror, and fetched ahead of an upgrade, with these variables."""
    template = Path("..") / ".." / Path(__file__).parent.relative_to(PLAYBOOKS.parent) / "wanted.json.j2"
    place = render("cp1-w1", directory, render={"wanted.json": str(template)}, **variables)
    found: dict[str, Any] = json.loads((place / "wanted.json").read_text(encoding="utf-8"))
    return found


def test_a_mirror_is_asked_for_every_image_that_it_is_to_serve(tmp_path: Path) -> None:
    found = wanted(
        tmp_path, cluster_metrics_server_version="0.8.0", cluster_network_plugin_image="10.9.9.9:5000/flannel:v1"
    )
    assert {"pause:3.10.2", "etcd:3.6.8-0", "coredns:v1.14.2", "metrics-server:v0.8.0"} <= set(found["preflight"])
    assert [image for image in found["preflight"] if "flannel" in image] == []
    assert "10.9.9.9:5000/flannel:v1" in found["upgrade"]
    assert "10.0.0.1:5000/kube-apiserver:v1.36.3" in found["upgrade"]


@pytest.mark.parametrize("version", ["1.36.3", "1.37.2"])
def test_the_add_ons_run_the_busybox_that_a_mirror_of_the_release_has(version: str, tmp_path: Path) -> None:
    given = {"cluster_kubernetes_version": version, "cluster_local_path_provisioner_version": "0.0.30"}
    found = wanted(tmp_path, **given)
    assert f"{BUSYBOX}:{load().release(version).images[BUSYBOX]}" in found["preflight"]


def test_an_upgrade_fetches_from_where_a_deployment_does(tmp_path: Path) -> None:
    sums = {"kubelet/1.36.3": "0" * 64}
    found = wanted(
        tmp_path, cluster_artifact_source="upstream", cluster_kubernetes_site="https://k", cluster_checksums=sums
    )
    kubelet = next(release for release in found["releases"] if release["name"] == "kubelet")
    assert kubelet["url"] == "https://k/v1.36.3/bin/linux/amd64/kubelet"
    assert kubelet["sha256_url"] == "https://k/v1.36.3/bin/linux/amd64/kubelet.sha256"
    assert kubelet["sha256"] == "0" * 64
    assert found["preflight"] == []
