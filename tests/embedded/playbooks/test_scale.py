"""Machines come to a cluster and leave it: workers, gone ones too, and what is refused."""

from __future__ import annotations

import pytest

from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.validate.phases.leftovers import differences
from tests.embedded.playbooks.conftest import KUBECTL, Bench, cell_of, leaving, nodes

LEAVES = leaving("w-1")


@pytest.fixture(scope="module")
def grown(bench: Bench) -> dict[str, dict[str, str]]:
    """Deploy one control plane and one worker, then scale to two; return what w-1 was like before."""
    bench.boot(cell_of("cp1-w2"))
    before = bench.state(2)
    bench.list_only("cp-0", "w-0")
    bench.play()
    bench.list_only("cp-0", "w-0", "w-1")
    return before


def test_a_cluster_that_is_not_there_cannot_grow(bench: Bench) -> None:
    bench.boot(cell_of("cp1-w1"))
    done = bench.attempt(entry="scale")
    assert done.returncode == 2
    assert "there is no cluster to scale: run cluster.yml" in done.stdout


def test_a_worker_comes_leaves_comes_again_and_is_lost(bench: Bench, grown: dict[str, dict[str, str]]) -> None:
    bench.play(entry="scale")
    assert nodes(bench) == {"cp-0", "w-0", "w-1"}
    assert {host.changed for host in bench.play(entry="scale")} == {0}

    bench.play(*LEAVES, entry="remove-node")
    assert nodes(bench) == {"cp-0", "w-0"}
    assert differences(grown, bench.state(2)) == []
    assert {host.changed for host in bench.play(*LEAVES, entry="remove-node")} == {0}
    bench.list_only("cp-0", "w-0")
    assert {host.changed for host in bench.play()} == {0}

    bench.list_only("cp-0", "w-0", "w-1")
    bench.play(entry="scale")
    bench.end(2)
    done = bench.attempt(*LEAVES, entry="remove-node")
    assert done.returncode == 0, done.stdout
    assert "w-1 does not respond within" in done.stdout
    assert nodes(bench) == {"cp-0", "w-0"}


def test_a_node_that_cannot_be_emptied_stays(bench: Bench, grown: dict[str, dict[str, str]]) -> None:
    bench.list_only("cp-0", "w-0")
    bench.on(
        0,
        f'{KUBECTL} run alone --image pause --restart Never --overrides \'{{"spec": {{"nodeName": "w-0"}}}}\'',
    )
    done = bench.attempt("-e", '{"cluster_remove_nodes": ["w-0"], "cluster_drain_timeout": 20}', entry="remove-node")
    assert done.returncode == 2
    assert "cluster_drain_force: true gives up" in done.stdout
    (node,) = [
        node for node in Cluster.from_kubeconfig(bench.kubeconfig).list(NODE).items if node["metadata"]["name"] == "w-0"
    ]
    assert "unschedulable" not in node["spec"]
