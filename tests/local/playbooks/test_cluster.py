"""A cluster from bare machines: it comes up, a second run changes nothing, a killed one can be repeated."""

from __future__ import annotations

import pytest

from harness.kube.client import Cluster
from harness.kube.resources import NODE
from tests.local.playbooks.conftest import Bench, cell_of

topologies = pytest.mark.parametrize("topology", ["cp1-w1", "all-in-one", "cp3-w2", "cp2-etcd3-w1"])


@topologies
def test_a_second_run_changes_nothing(bench: Bench, topology: str) -> None:
    cell = cell_of(topology)
    bench.boot(cell)
    first = bench.play()
    assert all(host.changed > 0 for host in first)

    second = bench.play()
    checked = bench.play("--check")
    limited = bench.play("--limit", cell.machines[-1].name)

    names = {planned.name for planned in cell.machines}
    assert {(host.host, host.changed) for host in second} == {(name, 0) for name in names}
    assert {(host.host, host.changed) for host in checked} == {(name, 0) for name in names}
    assert [(host.host, host.changed) for host in limited] == [(cell.machines[-1].name, 0)]
    nodes = Cluster.from_kubeconfig(bench.kubeconfig).list(NODE)
    of_kubernetes = {planned.name for planned in cell.machines if {"control_plane", "node"} & set(planned.groups)}
    assert {node["metadata"]["name"] for node in nodes.items} == of_kubernetes
    assert bench.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_a_fresh_machine_can_be_checked_and_a_killed_initialisation_repeated(bench: Bench) -> None:
    bench.boot(cell_of("all-in-one"))
    assert all(host.failed == 0 for host in bench.play("--check"))
    # kubeadm is killed as soon as it has begun to write certificates, whenever that is during the run
    bench.on(
        0,
        "sudo systemd-run --quiet --collect sh -c "
        "'until [ -e /etc/kubernetes/pki/apiserver.crt ]; do sleep 0.05; done; kill -KILL $(pidof kubeadm)'",
    )
    with pytest.raises(pytest.fail.Exception, match="Initialise the first control plane"):
        bench.play()
    bench.play()
    assert {host.changed for host in bench.play()} == {0}
