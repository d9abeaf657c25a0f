"""A wrong value of any setting leaves a way back: it is refused, or the former settings are restored.

The table has a value for each class of settings. After each of them the former variables are applied, and everything
has to be as it was. `-k` chooses rows by their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
import yaml

from harness.machines.runner.playbook_output import recap
from harness.paths import project_dir
from tests.embedded.playbooks import running
from tests.embedded.playbooks.conftest import Bench, cell_of

End = Literal["refused", "tried", "restored", "warned"]
# What the run says in each case. `warned`: it succeeds, because machines that have everything ask for nothing.
SAYS: dict[End, str] = {
    "refused": "",
    "tried": "nothing was changed",
    "restored": "runs with its former settings again",
    "warned": "machines will report what is missing",
}
NOT_THERE = "/nowhere/policy.yml"


@dataclass(frozen=True)
class WrongSetting:
    """One wrong value. end: how the run ends.  words: what its message has, of the component itself where it speaks."""

    name: str
    variables: dict[str, Any]
    end: End
    words: str


def flag(component: str, name: str, value: str, end: End, words: str) -> WrongSetting:
    """Return a wrong flag of a component."""
    return WrongSetting(f"{component}-{name}", {f"cluster_{component}_extra_args": {name: value}}, end, words)


def volume(component: str, kind: str, end: End, words: str) -> WrongSetting:
    """Return a volume whose folder is not there."""
    one = {"name": "wrong", "hostPath": "/nowhere", "mountPath": "/nowhere", "pathType": kind}
    return WrongSetting(f"{component}-volume-{kind}", {f"cluster_{component}_extra_volumes": [one]}, end, words)


def kubelet(name: str, value: Any, end: End, words: str) -> WrongSetting:
    """Return a wrong setting of kubelets."""
    return WrongSetting(f"kubelet-{name}", {"cluster_kubelet_config": {name: value}}, end, words)


def kube_proxy(name: str, value: Any, end: End, words: str) -> WrongSetting:
    """Return a wrong setting of kube-proxy."""
    return WrongSetting(f"kube-proxy-{name}", {"cluster_kube_proxy_config": {name: value}}, end, words)


def patch(target: str, change: dict[str, Any], end: End, words: str) -> WrongSetting:
    """Return a wrong patch for kubeadm."""
    file = f"{target}9+strategic.json"
    return WrongSetting(f"patch-{target}", {"cluster_kubeadm_patches": {file: change}}, end, words)


def image_of(component: str) -> dict[str, Any]:
    """Return a patch with an image that no registry has."""
    return {"spec": {"containers": [{"name": component, "image": "nowhere.invalid/none:1"}]}}


WRONG = (
    # flags: unknown ones, values of another type, values that only a running component refuses
    flag("apiserver", "no-such-flag", "x", "tried", "unknown flag: --no-such-flag"),
    flag("apiserver", "event-ttl", "soon", "tried", "invalid argument"),
    flag("apiserver", "feature-gates", "NoSuchGate=true", "tried", "NoSuchGate"),
    flag("apiserver", "audit-policy-file", NOT_THERE, "restored", "policy.yml"),
    flag("apiserver", "anonymous-auth", "false", "restored", "does not serve"),
    flag("controller_manager", "no-such-flag", "x", "tried", "unknown flag: --no-such-flag"),
    flag("controller_manager", "node-monitor-period", "often", "tried", "invalid argument"),
    flag("controller_manager", "controllers", "no-such-controller", "restored", "no-such-controller"),
    flag("scheduler", "no-such-flag", "x", "tried", "unknown flag: --no-such-flag"),
    flag("scheduler", "config", NOT_THERE, "restored", "policy.yml"),
    flag("etcd", "no-such-flag", "x", "tried", "no-such-flag"),
    flag("etcd", "quota-backend-bytes", "much", "tried", "invalid value"),
    flag("etcd", "auto-compaction-mode", "never", "restored", "auto-compaction"),
    volume("apiserver", "Directory", "restored", "/nowhere"),
    volume("controller_manager", "Directory", "restored", "/nowhere"),
    # files that the API server and the scheduler read
    WrongSetting("audit-policy", {"cluster_audit_policy": {"rules": [{"level": "Loud"}]}}, "restored", "Loud"),
    WrongSetting(
        "authenticators",
        {
            "cluster_jwt_authenticators": [
                {
                    "issuer": {"url": "https://issuer.example", "audiences": ["a"]},
                    "claimMappings": {"username": {"claim": "sub"}},  # without a prefix, be it empty
                }
            ]
        },
        "restored",
        "prefix",
    ),
    WrongSetting("admission", {"cluster_admission_plugins": ["NoSuchPlugin"]}, "restored", "NoSuchPlugin"),
    WrongSetting("scheduler-file", {"cluster_scheduler_config": {"parallelism": -1}}, "restored", "parallelism"),
    WrongSetting("cipher-suites", {"cluster_tls_cipher_suites": ["TLS_NONE"]}, "refused", "TLS_NONE"),
    # kubelets, kube-proxy and the runtime
    kubelet("noSuchSetting", True, "tried", "noSuchSetting"),
    kubelet("maxPods", -5, "tried", "maxPods"),
    kubelet("featureGates", {"NoSuchGate": True}, "tried", "NoSuchGate"),
    kubelet("cgroupDriver", "none", "refused", "cgroupDriver"),
    kubelet("authentication", {"x509": {"clientCAFile": "/nowhere.crt"}}, "restored", "nowhere.crt"),
    WrongSetting(
        "kubelet-serving-files",
        {"cluster_kubelet_config": {"tlsCertFile": "/nowhere.crt", "tlsPrivateKeyFile": "/nowhere.key"}},
        "restored",
        "nowhere.crt",
    ),
    kube_proxy("noSuchSetting", True, "tried", "noSuchSetting"),
    kube_proxy("bindAddress", "nowhere", "tried", "nowhere"),
    WrongSetting("kube-proxy-mode", {"cluster_kube_proxy_mode": "magic"}, "refused", "magic"),
    WrongSetting(
        "containerd",
        {"cluster_containerd_config": {"max_concurrent_downloads": "many"}},
        "restored",
        "MaxConcurrentDownloads",
    ),
    # patches of kubeadm
    patch("kube-apiserver", {"spec": {"priorityClassName": "no-such-class"}}, "tried", "no-such-class"),
    patch("kube-scheduler", image_of("kube-scheduler"), "restored", "kube-scheduler"),
    patch("kubeletconfiguration", {"maxPods": -5}, "restored", "maxPods"),
    # where binaries and images come from
    WrongSetting("registry", {"cluster_image_registry": "127.0.0.1:9"}, "restored", "127.0.0.1:9"),
    WrongSetting("mirror", {"cluster_mirror_url": "http://127.0.0.1:9"}, "warned", "127.0.0.1:9"),
    WrongSetting("kubernetes", {"cluster_kubernetes_version": "1.36.99"}, "refused", "1.36.99"),
)
FILES = (
    "/etc/kubernetes/manifests /etc/kubernetes/kubeadm.yml /etc/kubernetes/patches /etc/kubernetes/scheduler "
    "/var/lib/kubelet/config.yaml /etc/containerd /etc/kubernetes/checkpoint.tar"
)


@pytest.fixture(scope="module")
def cluster(bench: Bench) -> Bench:
    """Deploy a control plane and a worker, with settings that have been applied once."""
    running.deploy(bench, cell_of("cp1-w1"))
    assert {host.changed for host in bench.play(entry="reconfigure")} == {0}
    return bench


def seen(bench: Bench) -> dict[str, Any]:
    """Return what has to be as it was: files, flags of what runs, configuration in the API, nodes."""
    files = [
        bench.on(place, f"sudo find {FILES} -type f -exec sha256sum {{}} + | sort -k 2").stdout for place in (0, 1)
    ]
    flags = {name: running.flags(bench, 0, name) for name in (*running.CONTROL_PLANE, "etcd")}
    maps = "configmap/kubeadm-config configmap/kubelet-config configmap/kube-proxy"
    uploaded = bench.on(0, f"{running.KUBECTL} -n kube-system get {maps} -o jsonpath='{{.items[*].data}}'").stdout
    ready = bench.on(0, f"{running.KUBECTL} wait --for=condition=Ready node --all --timeout=60s").returncode
    served = bench.on(0, f"{running.KUBECTL} get --raw /readyz").stdout
    return {"files": files, "flags": flags, "uploaded": uploaded, "ready": ready, "served": served}


def without_checkpoint(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without the checkpoints of machines that a failed run did not come to; the next run has them."""
    files = ["".join(x for x in listed.splitlines(True) if "checkpoint.tar" not in x) for listed in state["files"]]
    return {**state, "files": files}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_taking_a_wrong_setting_back_leads_to_the_cluster_as_it_was(cluster: Bench, wrong: WrongSetting) -> None:
    extra = cluster.directory / "extra-vars.yml"
    former, before = extra.read_text(encoding="utf-8"), seen(cluster)
    try:
        running.give(cluster, **wrong.variables)
        done = cluster.attempt(entry="reconfigure", timeout=600)
        said = " ".join([*done.stdout.split(), *done.stderr.split()])
        after = seen(cluster)
    finally:
        extra.write_text(former, encoding="utf-8")
    changed = {host.changed for host in recap(done.stdout)}
    cluster.play(entry="reconfigure")

    assert seen(cluster) == before
    assert done.returncode == (0 if wrong.end == "warned" else 2), said[-3000:]
    assert wrong.words in said
    assert SAYS[wrong.end] in said, said[-3000:]
    if wrong.end != "restored":
        assert changed <= {0}
    assert without_checkpoint(after) == before


def test_a_run_that_is_killed_leaves_a_way_back(cluster: Bench) -> None:
    before = seen(cluster)
    manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    defaults = yaml.safe_load((project_dir() / "playbooks/roles/checkpoint/defaults/main.yml").read_text("utf-8"))
    kept = " ".join(defaults["checkpoint_paths"])
    save = f"ls -d {kept} 2>/dev/null | xargs tar -P -cf /etc/kubernetes/checkpoint.tar"
    breaks = f"sed -i 's/^    - kube-apiserver$/&\\n    - --no-such-flag/' {manifest}"
    assert cluster.on(0, f'sudo sh -c "{save}" && sudo {breaks}').returncode == 0
    cluster.play(entry="reconfigure")

    assert seen(cluster) == before


def test_a_control_plane_that_does_not_start_any_more_is_mended_by_the_wanted_settings(cluster: Bench) -> None:
    before = seen(cluster)
    manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    breaks = f"sed -i 's/^    - kube-apiserver$/&\\n    - --no-such-flag/' {manifest}"
    assert cluster.on(0, f"sudo {breaks}; sleep 5").returncode == 0  # as a setting that only fails after a reboot
    cluster.play(entry="reconfigure")

    assert seen(cluster) == before


def test_the_table_has_each_variable_once() -> None:
    assert len({wrong.name for wrong in WRONG}) == len(WRONG)
    assert all(yaml.safe_load(yaml.safe_dump(wrong.variables)) == wrong.variables for wrong in WRONG)
