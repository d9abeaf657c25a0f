"""Three control planes go to the next patch release while a workload on workers answers; what cannot be is refused.

Also certificates, whose renewal an upgrade includes. Two hops of minor versions have one control plane: what three add
is the same at every version. `--log-cli-level=INFO` says how long the workload did not answer.
"""

from __future__ import annotations

import json
import logging

import pytest

from harness.cell.deploy import recap
from tests.local.playbooks import running, workload
from tests.local.playbooks.conftest import Bench

log = logging.getLogger(__name__)
OLDEST, BEFORE, OLD, NEW = "1.34.4", "1.35.4", "1.36.1", "1.36.3"
SETTINGS = {
    "cluster_apiserver_extra_args": {"event-ttl": "2h0m0s"},
    "cluster_etcd_extra_args": {"quota-backend-bytes": "4294967296"},
    "cluster_containerd_config": {"max_concurrent_downloads": 5},
    "cluster_coredns_cache_seconds": 45,
}
OUTAGE = 10.0  # seconds; a host that is busy answers late, a workload that was taken away is gone for longer


def refused(bench: Bench, *options: str, entry: str = "upgrade") -> str:
    """Ask for what cannot be, with these variables and options; return what was said. Nothing may have been changed."""
    done = bench.attempt(*options, entry=entry)
    assert done.returncode == 2, done.stdout
    assert {host.changed for host in recap(done.stdout)} == {0}
    return " ".join(done.stdout.split())


def asking(version: str, topology: str = "cp3-w2") -> tuple[str, str]:
    """Return the option that asks for a version of Kubernetes, with all that comes with it."""
    return "-e", json.dumps(running.versions_of(running.cell_with(version, topology)))


def expect_version(bench: Bench, version: str, control_planes: int) -> None:
    """Look at every kubelet and at every process of every control plane."""
    wanted = dict.fromkeys(running.CONTROL_PLANE, f"v{version}")
    assert running.kubelets(bench) == {f"v{version}"}
    assert {n: running.control_plane_versions(bench, n) for n in range(control_planes)} == dict.fromkeys(
        range(control_planes), wanted
    )


def expect_settings(bench: Bench) -> None:
    """Look at running processes, not at files, wherever one can be asked."""
    for machine in range(3):
        assert "--event-ttl=2h0m0s" in running.flags(bench, machine, "kube-apiserver")
        assert "--quota-backend-bytes=4294967296" in running.flags(bench, machine, "etcd")
    for number, node in enumerate(("cp-0", "cp-1", "cp-2", "w-0", "w-1")):
        assert running.kubelet_setting(bench, node, "maxPods") == 123
        assert "max_concurrent_downloads = 5" in bench.on(number, "sudo containerd config dump").stdout
    corefile = bench.on(0, f"{running.KUBECTL} -n kube-system get configmap coredns -o yaml").stdout
    assert "cache 45" in corefile


@pytest.fixture(scope="module")
def ha(bench: Bench) -> Bench:
    """Return a bench with three control planes and two workers of the old version, and a workload on them."""
    cell = running.cell_with(OLD, "cp3-w2")
    running.provide(bench, running.cell_with(BEFORE, "cp3-w2"))
    running.deploy(bench, cell)
    expect_version(bench, OLD, control_planes=3)
    workload.start(bench)
    return bench


def test_refuses_what_cannot_be_before_it_changes_anything(ha: Bench) -> None:
    assert f"{BEFORE} is older than what runs (cp-0 {OLD}, cp-1 {OLD}, cp-2 {OLD})" in refused(ha, *asking(BEFORE))
    assert "1.38.0 is not known here: choose one of" in refused(ha, "-e", "cluster_kubernetes_version=1.38.0")
    assert "this does not change versions" in refused(ha, *asking(NEW), entry="reconfigure")
    assert "upgrade the control planes first" in refused(ha, *asking(NEW), "--limit", "w-0")
    for entry in ("cluster", "scale", "kubernetes-binaries"):
        assert "run upgrade.yml to change versions" in refused(ha, *asking(NEW), entry=entry)
    expect_version(ha, OLD, control_planes=3)


def test_settings_are_rolled_over_every_control_plane(ha: Bench) -> None:
    kubelet = {**running.given(ha)["cluster_kubelet_config"], "maxPods": 123}
    running.give(ha, **SETTINGS, cluster_kubelet_config=kubelet)

    with workload.Probe.through(ha, machine=3) as probe:
        ha.play(entry="reconfigure", timeout=3000)

    log.info("reconfigure of three control planes: %s", probe)
    expect_settings(ha)
    assert probe.longest < OUTAGE, str(probe)
    assert {host.changed for host in ha.play(entry="reconfigure")} == {0}


def test_an_upgrade_stops_at_a_budget_without_room_goes_on_and_the_workload_answers(ha: Bench) -> None:
    running.give(ha, **running.versions_of(running.cell_with(NEW, "cp3-w2")))

    with workload.Probe.through(ha, machine=0) as probe:
        stopped = ha.attempt("-e", "cluster_drain_timeout=30", entry="upgrade", timeout=3600)
        said = " ".join(stopped.stdout.split())
        assert stopped.returncode == 2, stopped.stdout
        assert "w-0 is cordoned and not empty after 30 s" in said, said
        assert "violate the pod's disruption budget" in said, said
        assert {n: running.control_plane_versions(ha, n)["kube-apiserver"] for n in range(3)} == dict.fromkeys(
            range(3), f"v{NEW}"
        )
        assert running.kubelets(ha) == {f"v{OLD}", f"v{NEW}"}
        assert running.cordoned(ha) == {"w-0"}

        workload.make_room(ha)
        ha.play(entry="upgrade", timeout=3000)

    log.info("upgrade of three control planes and two workers: %s", probe)
    expect_version(ha, NEW, control_planes=3)
    expect_settings(ha)
    assert running.cordoned(ha) == set()
    assert probe.longest < OUTAGE, str(probe)
    assert {host.changed for host in ha.play(entry="upgrade")} == {0}


def test_certificates_are_shown_and_renewed_and_the_kubeconfig_stays_good(ha: Bench) -> None:
    sums = "sudo sha256sum /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/etcd/server.crt"
    before = [ha.on(machine, sums).stdout for machine in range(3)]
    shown = ha.attempt(entry="certificates", check=True).stdout
    assert "apiserver-kubelet-client" in shown
    assert [ha.on(machine, sums).stdout for machine in range(3)] == before

    with workload.Probe.through(ha, machine=0) as probe:
        ha.play("-e", "cluster_certificates_renew_before_days=400", entry="certificates", timeout=1800)

    log.info("renewal on three control planes: %s", probe)
    after = [ha.on(machine, sums).stdout for machine in range(3)]
    assert all(new != old for new, old in zip(after, before, strict=True))
    assert len(running.nodes(ha)) == 5
    assert {host.changed for host in ha.play(entry="certificates")} == {0}


def test_two_hops_of_minor_versions_and_no_skipping(bench: Bench) -> None:
    running.provide(bench, running.cell_with(BEFORE, "cp1-w1"))
    running.deploy(bench, running.cell_with(OLDEST, "cp1-w1"))
    expect_version(bench, OLDEST, control_planes=1)
    said = refused(bench, *asking(NEW, "cp1-w1"))
    assert f"from cp-0 {OLDEST} to {NEW} skips a minor version" in said
    assert "upgrade to a version of 1.35 first" in said

    for version in (BEFORE, NEW):
        running.give(bench, **running.versions_of(running.cell_with(version, "cp1-w1")))
        bench.play(entry="upgrade", timeout=3000)
        expect_version(bench, version, control_planes=1)
        assert {host.changed for host in bench.play(entry="upgrade")} == {0}
        assert {host.changed for host in bench.play()} == {0}
