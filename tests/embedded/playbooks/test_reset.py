"""A reset leaves a machine exactly as it was before its deployment, and a new deployment works on it."""

from __future__ import annotations

import pytest

from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.validate.phases.leftovers import differences
from tests.embedded.playbooks.conftest import Bench, cell_of


def test_machines_are_as_they_were_and_can_be_deployed_again(bench: Bench) -> None:
    cell = cell_of("cp1-w1")
    machines = range(len(cell.machines))
    bench.boot(cell)
    before = [bench.state(machine) for machine in machines]
    bench.play()
    deployed = [differences(before[machine], bench.state(machine)) for machine in machines]
    # what is compared sees each kind of thing that a deployment makes
    for kind in ("file", "mount", "process", "control group", "firewall rule", "link", "unit", "kernel setting"):
        assert all(any(said.startswith(kind) for said in found) for found in deployed), kind

    told = bench.play("--check", entry="reset")
    assert [differences(before[machine], bench.state(machine)) == [] for machine in machines] == [False] * len(before)
    done = bench.play(entry="reset")

    assert all(host.changed > 0 for host in (*told, *done))
    assert [differences(before[machine], bench.state(machine)) for machine in machines] == [[]] * len(before)
    assert {host.changed for host in bench.play(entry="reset")} == {0}
    bench.play()
    nodes = Cluster.from_kubeconfig(bench.kubeconfig).list(NODE)
    assert {node["metadata"]["name"] for node in nodes.items} == {planned.name for planned in cell.machines}


def test_a_deployment_that_was_killed_half_way_leaves_nothing_either(bench: Bench) -> None:
    bench.boot(cell_of("all-in-one"))
    before = bench.state(0)
    bench.on(
        0,
        "sudo systemd-run --quiet --collect sh -c "
        "'until [ -e /etc/kubernetes/manifests/etcd.yaml ]; do sleep 0.05; done; kill -KILL $(pidof kubeadm)'",
    )
    with pytest.raises(pytest.fail.Exception, match="Initialise the first control plane"):
        bench.play()
    bench.play(entry="reset")
    assert differences(before, bench.state(0)) == []
