"""What the playbooks write for kubeadm, judged by the kubeadm of every version that the matrix has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import paths, proc
from tests.unit.playbooks.playbook_files import load
from tests.unit.playbooks.test_templates import IPV6, render

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

# kubeadm's own, at which it stays where nothing is written (v1beta4's defaults)
DISCOVERY_SECONDS = 300
GIVEN_SECONDS = {
    "controlPlaneComponentHealthCheck": 600,
    "etcdAPICall": 300,
    "kubeletHealthCheck": 600,
    "kubernetesAPICall": 180,
    "tlsBootstrap": 600,
    "upgradeManifests": 600,
}

ALWAYS = [
    *(f"{name}0+strategic.json" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")),
    "corednsdeployment0+strategic.json",
]  # patches that follow from no choice

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
def test_kubeadm_accepts_networks_of_both_families(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    hosts = [
        {"name": name, "address": f"10.0.0.{n}", "ipv6_address": f"fd00::{n}"} for n, name in ((2, "cp"), (3, "w"))
    ]
    ignored = {"cluster_kubeadm_ignore_preflight_errors": ["all"]}
    only = frozenset({"kubeadm.yml", "patches.json"})
    place = render("cp1-w1", tmp_path, only, **VERSIONS[version], **IPV6, **ignored, cluster_hosts=hosts)
    with_patches(place)
    dry = tmp_path / "dry"
    dry.mkdir()
    argv: list[str | Path] = [program, "init", "--dry-run", "--config", place / "kubeadm.yml"]
    proc.run(argv, timeout=120, env={"KUBEADM_INIT_DRYRUN_DIR": str(dry)})
    manifests = {path.stem: path.read_text(encoding="utf-8") for path in dry.rglob("kube-*.yaml")}
    assert "--cluster-cidr=10.243.0.0/16,fd10:243::/56" in manifests["kube-controller-manager"]
    assert "--service-cluster-ip-range=10.95.0.0/16,fd10:95::/112" in manifests["kube-apiserver"]


@versions
def test_an_api_server_has_its_objects_in_an_etcd_elsewhere_below_its_prefix(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    urls = ["https://192.0.2.22:2379", "https://192.0.2.21:2379"]
    elsewhere = {"cluster_etcd_endpoints": urls, "cluster_etcd_prefix": "/registry/a", "cluster_etcd_client_path": "/c"}
    place = render("cp1-w1", tmp_path, frozenset({"kubeadm.yml"}), **VERSIONS[version], **elsewhere)
    proc.run([program, "config", "validate", "--config", place / "kubeadm.yml"], timeout=60)
    written = yaml.safe_load_all((place / "kubeadm.yml").read_text(encoding="utf-8"))
    (cluster,) = (document for document in written if document["kind"] == "ClusterConfiguration")
    assert cluster["etcd"] == {
        "external": {
            "endpoints": sorted(urls),
            "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
            "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
            "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
        }
    }
    assert {"name": "etcd-prefix", "value": "/registry/a"} in cluster["apiServer"]["extraArgs"]


@versions
def test_kubeadm_would_start_what_was_asked_for(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    ignored = {"cluster_kubeadm_ignore_preflight_errors": ["all"]}
    only = frozenset({"kubeadm.yml", "patches.json"})
    place = render("cp1-w1", tmp_path, only, **VERSIONS[version], **SETTINGS, **ignored)
    with_patches(place)
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


def timeouts(place: Path) -> list[dict[str, str]]:
    """Return the time-outs in each configuration of kubeadm's, also in the one that an upgrade writes."""
    found = []
    for name in (*CONFIGURATIONS, "kubeadm-upgrade.yml"):
        documents = yaml.safe_load_all((place / name).read_text(encoding="utf-8"))
        found += [document["timeouts"] for document in documents if "timeouts" in document]
    return found


@versions
def test_a_factor_stretches_all_that_kubeadm_waits_for_and_its_probes(version: str, tmp_path: Path) -> None:
    program, names = kubeadm(version), frozenset({*CONFIGURATIONS, "kubeadm-upgrade.yml", "patches.json"})
    ignored: dict[str, Any] = {"cluster_kubeadm_ignore_preflight_errors": ["all"], "cluster_timeout_scale": 3}
    mine = {"etcd1+merge.json": {"metadata": {"annotations": {"mine": "yes"}}}}
    place = render("cp3-w1", tmp_path, names, **VERSIONS[version], **ignored, cluster_kubeadm_patches=mine)
    wanted = {name: f"{3 * seconds}s" for name, seconds in {**GIVEN_SECONDS, "discovery": DISCOVERY_SECONDS}.items()}
    assert timeouts(place) == [wanted] * 4

    manifests = started(program, place)
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
        (container,) = manifests[component]["spec"]["containers"]
        assert (container["livenessProbe"]["timeoutSeconds"], container["livenessProbe"]["failureThreshold"]) == (
            45,
            24,
        )
        startup = container["startupProbe"]
        assert (startup["timeoutSeconds"], startup["periodSeconds"], startup["failureThreshold"]) == (15, 2, 900)
    assert manifests["etcd"]["metadata"]["annotations"]["mine"] == "yes"


@versions
def test_without_a_factor_kubeadm_has_the_defaults_that_nothing_writes(version: str, tmp_path: Path) -> None:
    program, names = kubeadm(version), frozenset({*CONFIGURATIONS, "kubeadm-upgrade.yml", "patches.json"})
    ignored = {"cluster_kubeadm_ignore_preflight_errors": ["all"]}
    place = render("cp1-w1", tmp_path, names, **VERSIONS[version], **ignored)
    assert [*json.loads((place / "patches.json").read_text(encoding="utf-8"))] == ALWAYS
    assert "patches:" not in (place / "kubeadm-join.yml").read_text(encoding="utf-8")
    assert [set(given) for given in timeouts(place)] == [set(GIVEN_SECONDS)] * 4

    for component, manifest in started(program, place).items():
        (container,) = manifest["spec"]["containers"]
        probe, startup = container["livenessProbe"], container["startupProbe"]
        assert (probe["timeoutSeconds"], probe["failureThreshold"]) == (15, 8), component
        assert startup["failureThreshold"] * startup["periodSeconds"] == 600, component
        assert (startup["initialDelaySeconds"], startup["periodSeconds"], startup["timeoutSeconds"]) == (2, 2, 5)
    done = proc.run([program, "config", "print", "init-defaults"], timeout=60)
    defaults = next(d for d in yaml.safe_load_all(done.stdout) if d["kind"] == "InitConfiguration")["timeouts"]
    assert defaults["discovery"] == f"{DISCOVERY_SECONDS // 60}m0s"


def with_patches(place: Path) -> None:
    """Put the patches where kubeadm finds them, as on a machine."""
    patches = place / "patches"
    patches.mkdir()
    for name, patch in json.loads((place / "patches.json").read_text(encoding="utf-8")).items():
        (patches / name).write_text(json.dumps(patch), encoding="utf-8")
    text = (place / "kubeadm.yml").read_text(encoding="utf-8").replace("/etc/kubernetes/patches", str(patches))
    (place / "kubeadm.yml").write_text(text, encoding="utf-8")


def started(program: Path, place: Path) -> dict[str, dict[str, Any]]:
    """Return the static pods that kubeadm would start, by component, with the patches that a machine would have."""
    with_patches(place)
    proc.run([program, "config", "validate", "--config", place / "kubeadm.yml"], timeout=60)
    dry = place / "dry"
    dry.mkdir()
    argv: list[str | Path] = [program, "init", "--dry-run", "--config", place / "kubeadm.yml"]
    proc.run(argv, timeout=120, env={"KUBEADM_INIT_DRYRUN_DIR": str(dry)})
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in dry.rglob("*.yaml")]
    return {pod["metadata"]["name"]: pod for pod in found if pod.get("kind") == "Pod"}
