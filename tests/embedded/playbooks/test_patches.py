"""Patches of static pods: there from the first deployment, changed and taken back later, gone after a reset."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.embedded.playbooks import running
from tests.embedded.playbooks.conftest import Bench, cell_of

PATCHES = "/etc/kubernetes/patches"
MINE = {"kube-scheduler1+merge.json": {"metadata": {"annotations": {"mine": "first"}}}}
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")


@pytest.fixture(scope="module")
def deployed(bench: Bench) -> Bench:
    """Deploy one machine with a factor and a patch of the caller's."""
    bench.boot(cell_of("all-in-one"))
    running.give(bench, cluster_timeout_scale=3, cluster_kubeadm_patches=MINE)
    bench.play()
    return bench


def pod(bench: Bench, component: str) -> dict[str, Any]:
    """Return a static pod as the API server shows it: what the kubelet runs."""
    done = bench.on(0, f"{running.KUBECTL} -n kube-system get pod -l component={component} -o json")
    (found,) = json.loads(done.stdout)["items"]
    return dict(found)


def patience(bench: Bench) -> set[tuple[int, int]]:
    """Return how long and how often the kubelet asks each static pod before it restarts it."""
    probes = [pod(bench, component)["spec"]["containers"][0]["livenessProbe"] for component in COMPONENTS]
    return {(probe["timeoutSeconds"], probe["failureThreshold"]) for probe in probes}


def test_a_factor_and_a_patch_reach_what_runs_and_a_second_run_changes_nothing(deployed: Bench) -> None:
    assert patience(deployed) == {(45, 24)}
    assert pod(deployed, "kube-scheduler")["metadata"]["annotations"]["mine"] == "first"
    assert {host.changed for host in deployed.play()} == {0}


def test_a_reconfiguration_applies_other_patches_and_takes_them_back(deployed: Bench) -> None:
    other = {"kube-scheduler1+merge.json": {"metadata": {"annotations": {"mine": "second"}}}}
    _reconfigure(deployed, cluster_timeout_scale=1, cluster_kubeadm_patches=other)
    assert patience(deployed) == {(15, 8)}
    assert pod(deployed, "kube-scheduler")["metadata"]["annotations"]["mine"] == "second"
    assert deployed.on(0, f"ls {PATCHES}").stdout.split() == [*other]

    _reconfigure(deployed, cluster_kubeadm_patches={})
    assert "mine" not in pod(deployed, "kube-scheduler")["metadata"]["annotations"]
    assert deployed.on(0, f"ls {PATCHES}").stdout.split() == []


def test_a_reset_leaves_no_patch(deployed: Bench) -> None:
    _reconfigure(deployed, cluster_kubeadm_patches=MINE)
    deployed.play(entry="reset")
    assert deployed.on(0, f"test -e {PATCHES} || echo gone").stdout.split() == ["gone"]


def _reconfigure(bench: Bench, **settings: Any) -> None:
    path = bench.directory / "extra-vars.yml"  # not `give`, which merges mappings: patches have to go as well
    path.write_text(yaml.safe_dump({**running.given(bench), **settings}), encoding="utf-8")
    bench.play(entry="reconfigure", timeout=1200)
    assert {host.changed for host in bench.play(entry="reconfigure")} == {0}
