"""A cluster goes to the next patch release while a workload on its workers answers; what cannot be is refused.

With one control plane and with three. Also certificates, whose renewal an upgrade includes. Two hops of minor versions
have one control plane. `--log-cli-level=INFO` says how long the workload did not answer.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

import pytest

from harness.machines.runner.playbook_output import recap
from tests.embedded.playbooks import running, workload
from tests.embedded.playbooks.conftest import Bench

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


def asking(version: str, topology: str) -> tuple[str, str]:
    """Return the option that asks for a version of Kubernetes, with all that comes with it."""
    return "-e", json.dumps(running.versions_of(running.cell_with(version, topology)))


def expect_version(bench: Bench, version: str, control_planes: int) -> None:
    """Look at every kubelet and at every process of every control plane."""
    assert running.kubelets(bench) == {f"v{version}"}
    for machine in range(control_planes):
        wanted = dict.fromkeys(running.CONTROL_PLANE, f"v{version}")
        assert running.control_plane_versions(bench, machine) == wanted


def expect_settings(bench: Bench, control_planes: int) -> None:
    """Look at running processes, not at files, wherever one can be asked."""
    for machine in range(control_planes):
        assert "--event-ttl=2h0m0s" in running.flags(bench, machine, "kube-apiserver")
        assert "--quota-backend-bytes=4294967296" in running.flags(bench, machine, "etcd")
    for number, machine in enumerate(running.given(bench)["cluster_hosts"]):
        assert running.kubelet_setting(bench, machine["name"], "maxPods") == 123
        assert "max_concurrent_downloads = 5" in bench.on(number, "sudo containerd config dump").stdout
    corefile = bench.on(0, f"{running.KUBECTL} -n kube-system get configmap coredns -o yaml").stdout
    assert "cache 45" in corefile


@dataclass(frozen=True)
class Upgraded:
    """A cluster with a workload, and how many machines of each kind it has; the control planes come first."""

    bench: Bench
    topology: str
    control_planes: int
    workers: int


@pytest.fixture(scope="module", params=["cp1-w2", "cp3-w2"])
def cluster(bench: Bench, request: pytest.FixtureRequest) -> Upgraded:
    """Return a cluster of the old version with a workload on it."""
    topology = str(request.param)
    cell = running.cell_with(OLD, topology)
    running.provide(bench, running.cell_with(BEFORE, topology))
    running.deploy(bench, cell)
    control_planes = sum("control_plane" in machine.groups for machine in cell.machines)
    expect_version(bench, OLD, control_planes)
    workload.start(bench)
    return Upgraded(bench, topology, control_planes, len(cell.machines) - control_planes)


def test_refuses_what_cannot_be_before_it_changes_anything(cluster: Upgraded) -> None:
    bench = cluster.bench
    versions = ", ".join(f"cp-{number} {OLD}" for number in range(cluster.control_planes))
    older = refused(bench, *asking(BEFORE, cluster.topology))
    assert f"{BEFORE} is older than the running version ({versions})" in older
    assert "1.38.0 is unknown: choose one of" in refused(bench, "-e", "cluster_kubernetes_version=1.38.0")
    newer = asking(NEW, cluster.topology)
    assert "this does not change versions" in refused(bench, *newer, entry="reconfigure")
    assert "upgrade the control planes first" in refused(bench, *newer, "--limit", "w-0")
    for entry in ("cluster", "scale", "kubernetes-binaries"):
        assert "run upgrade.yml to change versions" in refused(bench, *newer, entry=entry)
    expect_version(bench, OLD, cluster.control_planes)


def test_settings_are_rolled_over_every_machine(cluster: Upgraded) -> None:
    bench = cluster.bench
    kubelet = {**running.given(bench)["cluster_kubelet_config"], "maxPods": 123}
    running.give(bench, **SETTINGS, cluster_kubelet_config=kubelet)

    with workload.Probe.through(bench, machine=cluster.control_planes) as probe:
        bench.play(entry="reconfigure", timeout=3000)

    log.info("reconfigure of %s: %s", cluster.topology, probe)
    expect_settings(bench, cluster.control_planes)
    assert probe.longest < OUTAGE, str(probe)
    assert {host.changed for host in bench.play(entry="reconfigure")} == {0}


def test_an_upgrade_stops_at_a_budget_without_room_goes_on_and_the_workload_answers(cluster: Upgraded) -> None:
    bench = cluster.bench
    running.give(bench, **running.versions_of(running.cell_with(NEW, cluster.topology)))

    with workload.Probe.through(bench, machine=0) as probe:
        stopped = bench.attempt("-e", "cluster_drain_timeout=30", entry="upgrade", timeout=3600)
        said = " ".join(stopped.stdout.split())
        assert stopped.returncode == 2, stopped.stdout
        assert "w-0 is cordoned but not empty after 30 s" in said, said
        assert "violate the pod's disruption budget" in said, said
        for machine in range(cluster.control_planes):
            assert set(running.control_plane_versions(bench, machine).values()) == {f"v{NEW}"}
        assert running.kubelets(bench) == {f"v{OLD}", f"v{NEW}"}
        assert running.cordoned(bench) == {"w-0"}

        workload.make_room(bench)
        bench.play(entry="upgrade", timeout=3000)

    log.info("upgrade of %s: %s", cluster.topology, probe)
    expect_version(bench, NEW, cluster.control_planes)
    expect_settings(bench, cluster.control_planes)
    assert running.cordoned(bench) == set()
    assert probe.longest < OUTAGE, str(probe)
    assert {host.changed for host in bench.play(entry="upgrade")} == {0}


def test_certificates_are_shown_and_renewed_and_the_kubeconfig_stays_good(cluster: Upgraded) -> None:
    bench, control_planes = cluster.bench, range(cluster.control_planes)
    sums = "sudo sha256sum /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/etcd/server.crt"
    before = [bench.on(machine, sums).stdout for machine in control_planes]
    shown = bench.attempt(entry="certificates", check=True).stdout
    assert "apiserver-kubelet-client" in shown
    assert [bench.on(machine, sums).stdout for machine in control_planes] == before

    with workload.Probe.through(bench, machine=0) as probe:
        bench.play("-e", "cluster_certificates_renew_before_days=400", entry="certificates", timeout=1800)

    log.info("renewal on %s: %s", cluster.topology, probe)
    after = [bench.on(machine, sums).stdout for machine in control_planes]
    assert all(new != old for new, old in zip(after, before, strict=True))
    assert len(running.nodes(bench)) == cluster.control_planes + cluster.workers
    assert {host.changed for host in bench.play(entry="certificates")} == {0}


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
