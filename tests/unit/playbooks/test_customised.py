"""What the playbooks write for a customised kubeadm, and that they write nothing of it for another."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from harness import paths, proc
from tests.unit.playbooks.playbook_files import load
from tests.unit.playbooks.test_kubeadm import ALWAYS, VERSIONS, kubeadm, started, versions, with_patches
from tests.unit.playbooks.test_templates import documents, render

AXES = load(paths.project_dir() / "matrix" / "axes.yml")["axes"]
CHOICES = {v["id"]: v.get("vars", {}) for axis in AXES if axis["name"] == "kubeadm" for v in axis["values"]}
CUSTOMISED: dict[str, Any] = CHOICES["customised"]
FILES = frozenset({"kubeadm.yml", "kubeadm-join.yml", "patches.json", "scheduler.yml", "chosen.json"})
IGNORED = {"cluster_kubeadm_ignore_preflight_errors": ["all"]}


def chosen(place: Path) -> dict[str, Any]:
    """Return what roles make of the variables."""
    found: dict[str, Any] = json.loads((place / "chosen.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def customised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a control plane whose kubeadm is customised."""
    return render("cp1-w1", tmp_path_factory.mktemp("customised"), FILES, **CUSTOMISED)


def test_nothing_is_customised_without_being_asked_for(tmp_path: Path) -> None:
    place = render("cp1-w1", tmp_path, FILES)
    cluster = documents(place / "kubeadm.yml")["ClusterConfiguration"]
    for component in ("apiServer", "controllerManager", "scheduler"):
        assert "extraVolumes" not in cluster[component]
    assert cluster["scheduler"]["extraArgs"] == []
    assert "patches" not in (place / "kubeadm-join.yml").read_text(encoding="utf-8")
    assert "--patches" not in chosen(place)["kubelet"]
    assert [*json.loads((place / "patches.json").read_text(encoding="utf-8"))] == ALWAYS


@pytest.mark.parametrize("more", [{}, CUSTOMISED], ids=["plain", "customised"])
def test_coredns_says_which_patches_it_was_made_with(more: dict[str, Any], tmp_path: Path) -> None:
    place = render("cp1-w1", tmp_path, FILES, **more)
    patches = json.loads((place / "patches.json").read_text(encoding="utf-8"))
    probe = {"periodSeconds": 2, "failureThreshold": 15}
    own = patches["corednsdeployment0+strategic.json"]
    wanted = own["metadata"]["annotations"]["kubeadm/patches"]
    assert chosen(place)["coredns"] == wanted
    assert own["spec"]["template"]["spec"]["containers"] == [{"name": "coredns", "readinessProbe": probe}]


def test_each_program_gets_its_volumes_and_the_scheduler_its_file(customised: Path) -> None:
    cluster = documents(customised / "kubeadm.yml")["ClusterConfiguration"]
    names = {part: [one["name"] for one in cluster[part]["extraVolumes"]] for part in ("apiServer", "scheduler")}
    assert names == {"apiServer": ["machine-share"], "scheduler": ["scheduler-config", "hostname"]}
    assert {"name": "config", "value": "/etc/kubernetes/scheduler/config.yml"} in cluster["scheduler"]["extraArgs"]
    written = yaml.safe_load((customised / "scheduler.yml").read_text(encoding="utf-8"))
    assert written["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert written["profiles"] == CUSTOMISED["cluster_scheduler_config"]["profiles"]


@pytest.mark.parametrize(
    ("chosen", "profiles"), [({"parallelism": 4}, False), ({"enableProfiling": True}, True)], ids=["left", "chosen"]
)
def test_a_scheduler_with_a_file_shows_no_profiles_where_none_are_wanted(
    tmp_path: Path, chosen: dict[str, object], profiles: bool
) -> None:
    files = frozenset({"scheduler.yml"})
    place = render("cp1-w1", tmp_path, files, cluster_scheduler_config=chosen, cluster_profiling=False)
    written = yaml.safe_load((place / "scheduler.yml").read_text(encoding="utf-8"))
    assert written["enableProfiling"] is profiles


def test_a_scheduler_starts_anew_when_its_file_changes(customised: Path, tmp_path: Path) -> None:
    other = {**CUSTOMISED, "cluster_scheduler_config": {"parallelism": 4}}
    place = render("cp1-w1", tmp_path, frozenset({"patches.json"}), **other)
    name = "kube-scheduler0config+strategic.json"
    before, after = (json.loads((at / "patches.json").read_text(encoding="utf-8"))[name] for at in (customised, place))
    assert before != after


def test_workers_have_the_patches_of_kubelets(customised: Path) -> None:
    join = documents(customised / "kubeadm-join.yml")["JoinConfiguration"]
    assert join["patches"] == {"directory": "/etc/kubernetes/patches"}
    assert chosen(customised)["kubelet"][-2:] == ["--patches", "/etc/kubernetes/patches"]
    assert [*chosen(customised)["kubelet_patches"]] == ["kubeletconfiguration1+merge.json"]


@versions
def test_kubeadm_applies_the_patches_and_gives_the_volumes(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    place = render("cp1-w1", tmp_path, FILES, **VERSIONS[version], **CUSTOMISED, **IGNORED)
    manifests = started(program, place)
    server = manifests["kube-apiserver"]
    assert server["metadata"]["annotations"]["vmatrix/patched"] == "strategic"
    assert server["spec"]["containers"][0]["resources"]["requests"]["memory"] == "200Mi"
    assert manifests["kube-controller-manager"]["metadata"]["labels"]["patched"] == "merge"
    assert manifests["kube-scheduler"]["metadata"]["labels"]["patched"] == "json"
    assert (
        "--config=/etc/kubernetes/scheduler/config.yml"
        in manifests["kube-scheduler"]["spec"]["containers"][0]["command"]
    )
    mounts = manifests["kube-scheduler"]["spec"]["containers"][0]["volumeMounts"]
    assert {"/etc/kubernetes/scheduler", "/srv/machine-hostname"} <= {one["mountPath"] for one in mounts}
    (kubelet,) = (place / "dry").rglob("config.yaml")
    assert yaml.safe_load(kubelet.read_text(encoding="utf-8"))["maxPods"] == 97


@versions
def test_kubeadm_patches_coredns_in_the_phase_that_the_playbooks_run(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    place = render("cp1-w1", tmp_path, FILES, **VERSIONS[version], **CUSTOMISED, **IGNORED)
    started(program, place)  # which puts the patches into their place
    argv: list[str | Path] = [program, "init", "phase", "addon", "coredns", "--print-manifest", "--config"]
    done = proc.run([*argv, place / "kubeadm.yml"], timeout=60)
    (text,) = [one for one in re.split("^---", done.stdout, flags=re.M) if "kind: Deployment\n" in one]
    deployment = yaml.safe_load(text)
    assert deployment["metadata"]["labels"]["patched"] == "strategic"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "180Mi"
    assert container["readinessProbe"]["periodSeconds"] == 2


def test_kube_proxy_may_be_left_out_where_the_plugin_takes_its_place(tmp_path: Path) -> None:
    names = frozenset({"kubeadm.yml", "kubeadm-join.yml", "chosen.json", "kubeadm-upgrade.yml"})
    place = render("cp1-w1", tmp_path, names, cluster_kubeadm_skip_phases=["addon/kube-proxy", "preflight"])
    init = documents(place / "kubeadm.yml")["InitConfiguration"]
    assert init["skipPhases"] == ["addon/kube-proxy", "preflight"]
    assert documents(place / "kubeadm-join.yml")["JoinConfiguration"]["skipPhases"] == ["preflight"]
    upgrade = yaml.safe_load((place / "kubeadm-upgrade.yml").read_text(encoding="utf-8"))
    assert upgrade["apply"]["skipPhases"] == ["addon/kube-proxy", "preflight", "kubelet-config"]
    assert chosen(place)["kube_proxy"] is False
    assert chosen(place)["daemon_sets"] == ["kube-flannel/kube-flannel-ds"]


@versions
def test_kubeadm_puts_certificates_where_and_for_as_long_as_asked(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    place = render("cp1-w1", tmp_path, FILES, **VERSIONS[version], **CUSTOMISED, **IGNORED)
    config = place / "kubeadm.yml"
    text = config.read_text(encoding="utf-8").replace("/etc/kubernetes/ssl", str(tmp_path / "ssl"))
    config.write_text(text, encoding="utf-8")
    proc.run([program, "init", "phase", "certs", "all", "--config", config], timeout=60)
    lasts = {}
    for name in ("ca", "apiserver", "etcd/peer"):
        read = x509.load_pem_x509_certificate((tmp_path / "ssl" / f"{name}.crt").read_bytes())
        lasts[name] = (read.not_valid_after_utc - read.not_valid_before_utc) // timedelta(hours=1)
    assert lasts == {"ca": 43800, "apiserver": 4392, "etcd/peer": 4392}


@versions
def test_kubeadm_leaves_out_the_phases_and_nothing_else(version: str, tmp_path: Path) -> None:
    program = kubeadm(version)
    skipped = {"cluster_kubeadm_skip_phases": ["addon/kube-proxy", "preflight", "show-join-command"]}
    only = frozenset({"kubeadm.yml", "patches.json"})
    place = render("cp1-w1", tmp_path, only, **VERSIONS[version], **IGNORED, **skipped)
    with_patches(place)
    (tmp_path / "dry").mkdir()
    argv: list[str | Path] = [program, "init", "--dry-run", "--config", place / "kubeadm.yml"]
    done = proc.run(argv, timeout=120, env={"KUBEADM_INIT_DRYRUN_DIR": str(tmp_path / "dry")})
    assert "coredns" in done.stdout
    assert "k8s-app: kube-proxy" not in done.stdout
    assert "[preflight]" not in done.stdout
    for phase in (["addon", "coredns", "--print-manifest"], ["control-plane", "all", "--dry-run"]):
        proc.run([program, "init", "phase", *phase, "--config", place / "kubeadm.yml"], timeout=60)
