"""What the playbooks write for kubeadm, judged by the kubeadm of every version that the matrix has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import paths, proc
from tests.unit.playbooks.playbook_files import load
from tests.unit.playbooks.test_templates import render

AXES = load(paths.project_dir() / "matrix" / "axes.yml")["axes"]
VERSIONS: dict[str, dict[str, Any]] = {
    value["id"]: value["vars"] for axis in AXES if axis["name"] == "kubernetes" for value in axis["values"]
}
CONFIGURATIONS = ("kubeadm.yml", "kubeadm-join.yml", "kubeadm-join-control-plane.yml")
SETTINGS = {
    "cluster_apiserver_extra_args": {"audit-log-maxage": 7},
    "cluster_controller_manager_extra_args": {"node-monitor-period": "4s"},
    "cluster_scheduler_extra_args": {"v": 2},
    "cluster_etcd_extra_args": {"heartbeat-interval": 200},
    "cluster_kubelet_config": {"maxPods": 90, "failCgroupV1": False},
}

versions = pytest.mark.parametrize("version", VERSIONS)


def kubeadm(version: str) -> Path:
    """Return the program of a version; it is not made here, which would take minutes."""
    program = paths.cache_dir() / "artifacts" / "kubeadm" / version / "current" / "files" / "kubeadm"
    if not program.exists():
        pytest.skip(f"kubeadm {version} is not in the cache: vmatrix artifacts build kubeadm@{version}")
    return program


@versions
@pytest.mark.parametrize("topology", ["cp3-w1", "cp2-etcd3-w1"])
def test_kubeadm_accepts_what_it_is_given(version: str, topology: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    place = render(topology, tmp_path, frozenset(CONFIGURATIONS), **VERSIONS[version], **SETTINGS)
    (tmp_path / "discovery.conf").touch()
    for name in CONFIGURATIONS:
        text = (place / name).read_text(encoding="utf-8")
        text = text.replace("/run/kubeadm-discovery.conf", str(tmp_path / "discovery.conf"))  # has to be there
        (place / name).write_text(text, encoding="utf-8")
        done = proc.run([program, "config", "validate", "--config", place / name], timeout=60)
        assert "deprecated" not in done.stderr


@versions
def test_kubeadm_would_start_what_was_asked_for(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    ignored = {"cluster_kubeadm_ignore_preflight_errors": ["all"]}
    place = render("cp1-w1", tmp_path, frozenset({"kubeadm.yml"}), **VERSIONS[version], **SETTINGS, **ignored)
    dry = tmp_path / "dry"
    dry.mkdir()
    argv: list[str | Path] = [program, "init", "--dry-run", "--config", place / "kubeadm.yml"]
    done = proc.run(argv, timeout=120, env={"KUBEADM_INIT_DRYRUN_DIR": str(dry)})
    manifests = {path.stem: path.read_text(encoding="utf-8") for path in dry.rglob("kube-*.yaml")}
    assert "--audit-log-maxage=7" in manifests["kube-apiserver"]
    assert "--node-monitor-period=4s" in manifests["kube-controller-manager"]
    assert "--v=2" in manifests["kube-scheduler"]
    assert f"10.0.0.1:5000/kube-apiserver:v{version}" in manifests["kube-apiserver"]
    assert "server: https://127.0.0.1:6445" in done.stdout
    (kubelet,) = dry.rglob("config.yaml")
    assert "maxPods: 90" in kubelet.read_text(encoding="utf-8")


@versions
def test_kubeadm_names_the_companions_that_the_matrix_does(version: str) -> None:
    done = proc.run([kubeadm(version), "config", "images", "list", "--kubernetes-version", f"v{version}"], timeout=60)
    tags = dict(line.rpartition("/")[2].split(":") for line in done.stdout.split())
    given = VERSIONS[version]
    assert tags["etcd"] == f"{given['cluster_etcd_version']}-0"
    assert tags["coredns"] == f"v{given['cluster_coredns_version']}"
    assert tags["pause"] == given["cluster_pause_version"]
