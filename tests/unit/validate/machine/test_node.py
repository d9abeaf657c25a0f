"""What a machine reports of its files is found by the flags of what runs there, wherever a product puts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.validate.machine import node
from tests.unit.validate.guests import Json

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
EMBEDDED = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="


def process(name: str, *flags: str, cgroup: str = "/", main_of: str = "", **settings: str) -> Json:
    named = {"pid": 7, "name": name, "argv": [name, *flags]}
    return {**named, "cgroup": cgroup, "main_of": main_of, "settings": settings}


@pytest.fixture
def kubelet(tmp_path: Path) -> Json:
    """A kubelet with its files in a folder of another product."""
    (tmp_path / "kubelet.yml").write_text('staticPodPath: "/opt/pods"\nhealthzPort: 10348\n', encoding="utf-8")
    (tmp_path / "client.pem").write_text(KEY + PEM, encoding="utf-8")
    kubeconfig = f"    server: https://localhost:6443\n    client-certificate: {tmp_path}/client.pem\n"
    (tmp_path / "kubelet.conf").write_text(kubeconfig, encoding="utf-8")
    return process("kubelet", f"--config={tmp_path}/kubelet.yml", f"--kubeconfig={tmp_path}/kubelet.conf")


def test_kubelets_files_say_where_static_pods_are_and_how_the_api_is_reached(kubelet: Json, tmp_path: Path) -> None:
    assert node.kubelet_files([kubelet]) == {
        "kubeconfig": f"{tmp_path}/kubelet.conf",
        "manifests": "/opt/pods",
        "healthz_port": "10348",
        "server": "https://localhost:6443",
    }
    assert node.kubelet_files([]) == {}


def test_certificates_are_those_that_flags_and_settings_name_and_never_keys(kubelet: Json, tmp_path: Path) -> None:
    for name in ("api.crt", "ca.pem"):
        (tmp_path / name).write_text(PEM, encoding="utf-8")
    server = process("kube-apiserver", f"--tls-cert-file={tmp_path}/api.crt", "--tls-private-key-file=/nowhere")
    etcd = process("etcd", **{"trusted-ca-file": f"{tmp_path}/ca.pem"})
    found = node.certificates([kubelet, server, etcd], "")
    ours = {path: text for path, text in found.items() if path.startswith(str(tmp_path))}
    assert set(ours) == {f"{tmp_path}/{name}" for name in ("client.pem", "api.crt", "ca.pem")}
    assert not [text for text in ours.values() if "PRIVATE" in text]
    assert node.whose([kubelet, server]) == {
        node.KUBELET: f"{tmp_path}/client.pem",
        node.API_SERVER: f"{tmp_path}/api.crt",
    }


def test_a_certificate_inside_a_kubeconfig_is_found_there(tmp_path: Path) -> None:
    file = tmp_path / "kubelet.kubeconfig"
    file.write_text(f"users:\n- user:\n    client-certificate-data: {EMBEDDED}\n", encoding="utf-8")
    kubelet = process("kubelet", f"--kubeconfig={file}")
    assert node.whose([kubelet]) == {node.KUBELET: str(file)}
    assert str(file) in node.certificates([kubelet], "")


def test_certificates_of_the_products_folder_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(PEM, encoding="utf-8")
    assert f"{tmp_path}/ca.crt" in node.certificates([], str(tmp_path))


def test_units_are_those_of_the_running_processes() -> None:
    running = [
        process("kubelet", cgroup="/system.slice/k3s.service"),
        process("etcd", cgroup="/kubepods/burstable/pod1/2"),
        process("containerd", cgroup="/system.slice/containerd.service/init.scope"),
        process("crio", cgroup="/system.slice", main_of="crio.service"),
    ]
    assert node.own_units(running) == ["containerd.service", "crio.service", "k3s.service"]


def test_a_unit_is_also_known_by_its_main_process(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "Id=containerd.service\nMainPID=7\n\nId=kubelet.service\nMainPID=0"
    monkeypatch.setattr(node, "said", lambda _: shown)
    (found,) = node.with_units([process("containerd", cgroup="/system.slice")])
    assert found["main_of"] == "containerd.service"


def test_versions_are_those_of_the_file_that_runs_and_of_the_products_tools() -> None:
    running = [{**process("kubelet"), "argv": ["/bin/true", "--config=x"]}]
    found = node.commands(running, {"kubectl": "/opt/bin/kubectl"})
    assert found["kubelet"] == ["/bin/true", "--version"]
    assert found["kubectl"][0] == "/opt/bin/kubectl"
    assert found["runc"] == ["runc", "--version"]
