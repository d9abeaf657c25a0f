"""What the playbooks write for a hardened cluster, and that they write nothing of it for another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness import paths, proc
from tests.unit.playbooks.playbook_files import load
from tests.unit.playbooks.test_kubeadm import ALWAYS, VERSIONS, kubeadm, versions
from tests.unit.playbooks.test_templates import documents, render

AXES = load(paths.project_dir() / "matrix" / "axes.yml")["axes"]
(HARDENED,) = [v["vars"] for axis in AXES if axis["name"] == "profile" for v in axis["values"] if v["id"] == "hardened"]


@pytest.fixture(scope="module")
def hardened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a hardened control plane."""
    names = frozenset({"kubeadm.yml", "audit.yml", "authentication.yml", "admission.yml", "patches.json"})
    return render("cp1-w1", tmp_path_factory.mktemp("hardened"), names, **HARDENED)


def flags(place: Path, component: str) -> dict[str, str]:
    found = documents(place / "kubeadm.yml")["ClusterConfiguration"][component]["extraArgs"]
    return {one["name"]: one["value"] for one in found}


def test_nothing_is_hardened_without_being_asked_for(tmp_path: Path) -> None:
    place = render("cp1-w1", tmp_path, frozenset({"kubeadm.yml", "patches.json"}))
    found = documents(place / "kubeadm.yml")
    assert set(flags(place, "apiServer")) == {"shutdown-send-retry-after", "shutdown-watch-termination-grace-period"}
    assert (flags(place, "controllerManager"), flags(place, "scheduler")) == ({}, {})
    assert "extraVolumes" not in found["ClusterConfiguration"]["apiServer"]
    assert found["ClusterConfiguration"]["etcd"]["local"]["extraArgs"] == []
    assert not {"serverTLSBootstrap", "tlsMinVersion", "seccompDefault"} & found["KubeletConfiguration"].keys()
    assert [*json.loads((place / "patches.json").read_text(encoding="utf-8"))] == ALWAYS


def test_every_program_gets_its_flags(hardened: Path) -> None:
    server = flags(hardened, "apiServer")
    assert server["encryption-provider-config"] == "/etc/kubernetes/hardening/encryption.yml"
    assert server["enable-admission-plugins"] == "NodeRestriction,EventRateLimit,DenyServiceExternalIPs"
    assert server["kubelet-certificate-authority"] == "/etc/kubernetes/pki/ca.crt"
    for component in ("apiServer", "controllerManager", "scheduler"):
        assert flags(hardened, component)["profiling"] == "false"
        assert flags(hardened, component)["tls-min-version"] == "VersionTLS12"
    etcd = documents(hardened / "kubeadm.yml")["ClusterConfiguration"]["etcd"]["local"]["extraArgs"]
    assert {"name": "tls-min-version", "value": "TLS1.2"} in etcd
    kubelet = documents(hardened / "kubeadm.yml")["KubeletConfiguration"]
    assert (kubelet["serverTLSBootstrap"], kubelet["seccompDefault"]) == (True, True)
    assert (kubelet["enableProfilingHandler"], kubelet["podPidsLimit"]) == (False, 4096)


def test_the_api_server_sees_its_files_and_starts_anew_when_they_change(hardened: Path, tmp_path: Path) -> None:
    volumes = documents(hardened / "kubeadm.yml")["ClusterConfiguration"]["apiServer"]["extraVolumes"]
    assert [one["mountPath"] for one in volumes] == ["/etc/kubernetes/hardening", "/var/log/kubernetes"]
    before = (hardened / "patches.json").read_text(encoding="utf-8")
    other = {**HARDENED, "cluster_audit_policy": {"rules": [{"level": "Metadata"}]}}
    place = render("cp1-w1", tmp_path, frozenset({"patches.json"}), **other)
    after = (place / "patches.json").read_text(encoding="utf-8")
    assert "kube-apiserver0hardening+strategic.json" in before
    assert before != after


def test_the_files_are_what_the_variables_say(hardened: Path) -> None:
    audit, admission, authentication = (
        yaml.safe_load((hardened / f"{name}.yml").read_text(encoding="utf-8"))
        for name in ("audit", "admission", "authentication")
    )
    assert audit == {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **HARDENED["cluster_audit_policy"]}
    security, events = (plugin["configuration"] for plugin in admission["plugins"])
    assert security["defaults"]["enforce"] == "baseline"
    assert security["exemptions"]["namespaces"] == ["kube-system", "local-path-storage", "kube-flannel"]
    assert events["limits"] == HARDENED["cluster_event_rate_limits"]
    paths_ = [one["path"] for one in authentication["anonymous"]["conditions"]]
    assert paths_ == ["/livez", "/readyz", "/healthz"]


def test_authenticators_of_tokens_are_the_api_server_s_with_or_without_other_hardening(tmp_path: Path) -> None:
    issuer = {"url": "https://issuer.example", "audiences": ["guest"]}
    jwt = [{"issuer": issuer, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}]
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    for name, more in {"alone": {}, "hardened": HARDENED}.items():
        names = frozenset({"kubeadm.yml", "authentication.yml"})
        (tmp_path / name).mkdir()
        place = render("cp1-w1", tmp_path / name, names, cluster_jwt_authenticators=jwt, **more)
        made = yaml.safe_load((place / "authentication.yml").read_text(encoding="utf-8"))
        anonymous = made.pop("anonymous", None)
        assert made == {**head, "jwt": jwt}
        assert (anonymous is not None) == bool(more)
        assert flags(place, "apiServer")["authentication-config"] == "/etc/kubernetes/hardening/authentication.yml"
        volumes = documents(place / "kubeadm.yml")["ClusterConfiguration"]["apiServer"]["extraVolumes"]
        assert "/etc/kubernetes/hardening" in [one["mountPath"] for one in volumes]


@versions
def test_kubeadm_makes_a_hardened_api_server(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    ignored = {"cluster_kubeadm_ignore_preflight_errors": ["all"]}
    names = frozenset({"kubeadm.yml"})
    place = render("cp1-w1", tmp_path, names, **VERSIONS[version], **HARDENED, **ignored, cluster_kubeadm_patches={})
    config = place / "kubeadm.yml"
    text = config.read_text(encoding="utf-8").replace("/etc/kubernetes/patches", str(tmp_path))
    config.write_text(text, encoding="utf-8")
    (tmp_path / "dry").mkdir()
    argv: list[str | Path] = [program, "init", "phase", "control-plane", "all", "--dry-run", "--config", config]
    proc.run(argv, timeout=120, env={"KUBEADM_INIT_DRYRUN_DIR": str(tmp_path / "dry")})
    (manifest,) = (tmp_path / "dry").rglob("kube-apiserver.yaml")
    pod = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    assert (
        "--authentication-config=/etc/kubernetes/hardening/authentication.yml"
        in pod["spec"]["containers"][0]["command"]
    )
    assert {"/etc/kubernetes/hardening", "/var/log/kubernetes"} <= {
        mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]
    }
