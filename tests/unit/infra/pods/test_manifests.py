"""The objects of the machine that runs pods."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded.cdi.provisioner import DEFAULT_CLASS, default_class
from harness.embedded.machines.names import PODS_NETWORK, Names
from harness.embedded.node import addresses
from harness.embedded.operands import PROVISIONER, storage_class
from harness.infra.host import pki
from harness.infra.pods import manifests
from harness.infra.pods.machine import (
    CPUS,
    IMAGES,
    MEMORY_MIB,
    NAMESPACE_NAME,
    OWN_MIB,
    PAUSE,
    PROGRAMS,
    BootDisk,
    PodsMachine,
)
from harness.model import Mirror

MACHINE = PodsMachine("vmatrix-a-pods", "", Mirror("http://m:8080", "r"), BootDisk("d.qcow2", "ab"), {}, Path())


def test_no_cell_gets_its_network() -> None:
    assert addresses.LAST_NETWORK < PODS_NETWORK
    assert Names(0).network(PODS_NETWORK) != Names(0).probe_network


def test_its_disk_is_checked_and_its_host_name_is_its_nodes() -> None:
    source = manifests.disk(MACHINE)["spec"]["source"]["http"]
    assert source == {"url": "http://m:8080/images/d.qcow2", "checksum": "sha256:ab"}
    spec = manifests.virtual_machine(MACHINE)["spec"]
    assert spec["runStrategy"] == "Once"
    assert spec["template"]["spec"]["hostname"] == "vmatrix-a-pods"
    assert [volume["name"] for volume in spec["template"]["spec"]["volumes"]] == ["root", "seed"]


def test_what_it_is_told_is_a_secret() -> None:
    made = manifests.seed("#cloud-config\n", "ab")
    assert made["kind"] == "Secret"
    assert made["metadata"]["annotations"] == {"vmatrix.dev/certificates": "ab"}


VERSIONS = {name: f"1.{number}" for number, name in enumerate(IMAGES)}
MACHINE_CLAIMS = PodsMachine("vmatrix-a-pods", "", Mirror("http://m", "r:5000"), BootDisk("d", "0"), VERSIONS, Path())


@pytest.fixture
def objects() -> dict[str, manifests.Json]:
    """Return the objects, by kind."""
    made = manifests.storage_objects(MACHINE_CLAIMS)
    assert sorted(body["kind"] for body in made) == sorted(kind.kind for kind in manifests.KINDS)
    return {body["kind"]: body for body in made}


def test_the_class_is_neither_the_default_one_nor_cdis(objects: dict[str, manifests.Json]) -> None:
    made = objects["StorageClass"]
    assert made["metadata"] == {"name": manifests.CLASS}
    assert not set(DEFAULT_CLASS) & set(made["metadata"].get("annotations") or {})
    assert made["provisioner"] != PROVISIONER  # only classes of that one have a StorageProfile
    assert default_class([made, storage_class()]) == storage_class()["metadata"]["name"]


def test_claims_are_of_the_machine_alone(objects: dict[str, manifests.Json]) -> None:
    wanted = {"key": "vmatrix.dev/runs-pods", "values": ["true"]}
    assert objects["StorageClass"]["allowedTopologies"] == [{"matchLabelExpressions": [wanted]}]
    config = objects["ConfigMap"]["data"]
    assert [entry["node"] for entry in json.loads(config["config.json"])["nodePathMap"]] == ["vmatrix-a-pods"]
    assert '"$VOL_DIR"' in config["setup"]


def test_its_pods_run_images_of_the_instances_registry_and_never_on_the_hosts_node(
    objects: dict[str, manifests.Json],
) -> None:
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    helper = yaml.safe_load(objects["ConfigMap"]["data"]["helperPod.yaml"])
    used = [spec["containers"][0]["image"], helper["spec"]["containers"][0]["image"]]
    assert used == ["r:5000/local-path-provisioner:1.1", "r:5000/e2e-test-images/busybox:1.2"]
    assert spec["nodeSelector"] == {"vmatrix.dev/runs-pods": "true"}


def test_what_has_a_namespace_is_in_the_machines_and_goes_with_it(objects: dict[str, manifests.Json]) -> None:
    namespaced = {kind.kind for kind in manifests.KINDS if kind.namespaced}
    assert {objects[kind]["metadata"]["namespace"] for kind in namespaced} == {NAMESPACE_NAME}


MIRROR = Mirror(http="http://10.213.0.1:8080", registry="10.213.0.1:5000")


@pytest.fixture
def machine(tmp_path: Path) -> PodsMachine:
    """Return a machine of an instance with certificates."""
    pki.ensure(tmp_path, addresses=["10.213.0.1"], names=["kubernetes"], node="vmatrix-a")
    versions = {**{name: f"1.{number}" for number, name in enumerate(PROGRAMS)}, PAUSE: "3.10.2"}
    disk = BootDisk("debian-13-0.qcow2", "0" * 64)
    return PodsMachine("vmatrix-a-pods", "https://10.213.0.1:6443", MIRROR, disk, versions, tmp_path)


@pytest.fixture
def told(machine: PodsMachine) -> dict[str, Any]:
    """Return the user-data, read."""
    text = manifests.user_data(machine)
    assert text.startswith("#cloud-config\n")
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def written(told: dict[str, Any], path: str) -> str:
    (found,) = [file for file in told["write_files"] if file["path"] == path]
    return str(found["content"])


def test_every_program_is_fetched_in_its_version_to_where_it_is_looked_for(told: dict[str, Any]) -> None:
    (script,) = told["runcmd"]
    assert script[:3] == ["sh", "/etc/kubernetes/start-pods.sh", MIRROR.http]
    assert script[3:] == [
        "containerd:1.0:/usr/local/bin",
        "runc:1.1:/usr/local/bin",
        "cni-plugins:1.2:/opt/cni/bin",
        "kubelet:1.3:/usr/local/bin",
        "kube-proxy:1.4:/usr/local/bin",
    ]


def test_the_script_is_a_shells(told: dict[str, Any]) -> None:
    subprocess.run(["/bin/sh", "-n"], input=written(told, "/etc/kubernetes/start-pods.sh"), text=True, check=True)


@pytest.mark.parametrize(
    ("program", "subject"),
    [("kubelet", "CN=system:node:vmatrix-a-pods,O=system:nodes"), ("kube-proxy", "CN=system:kube-proxy")],
)
def test_each_program_has_a_name_of_its_own_and_only_root_reads_its_key(
    told: dict[str, Any], program: str, subject: str
) -> None:
    path = f"/etc/kubernetes/{program}.kubeconfig"
    (file,) = [file for file in told["write_files"] if file["path"] == path]
    assert file["permissions"] == "0600"
    found = json.loads(file["content"])
    assert found["clusters"][0]["cluster"]["server"] == "https://10.213.0.1:6443"
    certificate = base64.b64decode(found["users"][0]["user"]["client-certificate-data"])
    argv = ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253,-esc_msb"]
    said = subprocess.run(argv, input=certificate, capture_output=True, check=True).stdout.decode()
    assert said.strip() == f"subject={subject}"


def test_images_of_any_registry_come_from_the_mirror(told: dict[str, Any]) -> None:
    runtime = tomllib.loads(written(told, "/etc/containerd/config.toml"))["plugins"]
    pinned = runtime["io.containerd.cri.v1.images"]["pinned_images"]
    assert pinned == {"sandbox": "10.213.0.1:5000/pause:3.10.2"}
    hosts = tomllib.loads(written(told, "/etc/containerd/certs.d/_default/hosts.toml"))
    assert list(hosts["host"]) == ["http://10.213.0.1:5000"]


def test_the_kubelet_lets_only_the_api_in_and_says_that_it_runs_pods(told: dict[str, Any]) -> None:
    kubelet = yaml.safe_load(written(told, "/etc/kubernetes/kubelet.yaml"))
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert kubelet["cgroupDriver"] in {"systemd", "cgroupfs"}
    unit = written(told, "/etc/systemd/system/kubelet.service")
    assert "--hostname-override=vmatrix-a-pods" in unit
    assert "--node-labels=vmatrix.dev/runs-pods=true" in unit
    # asked for by name, its address would cost seconds of DNS at each report of the Node
    assert "--node-ip=${ADDRESS}" in unit
    assert "EnvironmentFile=-/run/pods.env" in unit
    assert "/run/pods.env" in written(told, "/etc/kubernetes/start-pods.sh")


def test_pods_get_the_machines_memory_and_not_the_hosts(told: dict[str, Any]) -> None:
    reserved = yaml.safe_load(written(told, "/etc/kubernetes/kubelet.yaml"))["systemReserved"]
    seen_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert seen_kib - int(reserved["memory"].removesuffix("Ki")) <= (MEMORY_MIB - OWN_MIB) * 1024
    assert (os.cpu_count() or 0) - int(reserved["cpu"]) <= CPUS


def test_a_larger_machine_has_more_for_its_pods(machine: PodsMachine) -> None:
    usual, more = (reserved_kib(made) for made in (machine, replace(machine, memory_mib=MEMORY_MIB + 1024)))
    assert usual - more == 1024 * 1024


def reserved_kib(machine: PodsMachine) -> int:
    told = yaml.safe_load(manifests.user_data(machine))
    kubelet = yaml.safe_load(written(told, "/etc/kubernetes/kubelet.yaml"))
    return int(kubelet["systemReserved"]["memory"].removesuffix("Ki"))
