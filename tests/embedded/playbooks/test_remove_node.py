"""Control planes leave, dead or alive, and come, after a kill too; what costs etcd its majority does not happen."""

from __future__ import annotations

import pytest

from harness.validate.phases.leftovers import differences
from tests.embedded.playbooks.conftest import KUBECTL, Bench, cell_of, leaving, nodes, stacked_members

KUBELETS_OWN = "/var/lib/kubelet/pki/kubelet-client-current.pem"  # which it has as a node of the cluster


@pytest.fixture(scope="module")
def stacked(bench: Bench) -> dict[str, dict[str, str]]:
    """Deploy three control planes with etcd on them; return what the first was like before."""
    cell = cell_of("cp3-w2")
    bench.boot(cell)
    before = bench.state(0)
    bench.play()
    return before


def test_control_planes_leave_until_one_is_left(bench: Bench, stacked: dict[str, dict[str, str]]) -> None:
    bench.end(2)
    refused = bench.attempt(*leaving("cp-1"), entry="remove-node")
    assert refused.returncode != 0
    assert "remaining etcd members, these are not healthy: cp-2; nothing was removed" in refused.stdout
    assert nodes(bench) == {"cp-0", "cp-1", "cp-2", "w-0", "w-1"}

    bench.play(*leaving("cp-2"), entry="remove-node")
    assert nodes(bench) == {"cp-0", "cp-1", "w-0", "w-1"}
    assert stacked_members(bench, 0, "cp-0") == {"cp-0", "cp-1"}

    bench.list_only("cp-0", "cp-1", "w-0", "w-1")
    bench.play(*leaving("cp-0"), entry="remove-node")
    assert nodes(bench) == {"cp-1", "w-0", "w-1"}
    assert stacked_members(bench, 1, "cp-1") == {"cp-1"}
    assert differences(stacked, bench.state(0)) == []

    bench.list_only("cp-1", "w-0", "w-1")
    assert {host.changed for host in bench.play()} == {0}


def test_the_first_of_the_inventory_comes_back_as_a_further_one(
    bench: Bench, stacked: dict[str, dict[str, str]]
) -> None:
    bench.list_only("cp-0", "cp-1", "w-0", "w-1")
    bench.play(entry="scale")
    assert nodes(bench) == {"cp-0", "cp-1", "w-0", "w-1"}
    assert stacked_members(bench, 1, "cp-1") == {"cp-0", "cp-1"}
    assert {host.changed for host in bench.play(entry="scale")} == {0}


@pytest.mark.usefixtures("stacked")
def test_a_join_that_was_killed_goes_on_although_its_node_is_ready_already(bench: Bench) -> None:
    bench.boot_anew(cell_of("cp3-w2"), 2)
    bench.list_only("cp-0", "cp-1", "cp-2", "w-0", "w-1")
    bench.on(
        2,
        "sudo systemd-run --quiet sh -c "
        f"'until [ -e {KUBELETS_OWN} ]; do sleep 0.05; done; kill -KILL $(pidof kubeadm)'",
    )
    killed = bench.attempt(entry="scale")
    assert killed.returncode == 2, killed.stdout
    assert bench.on(2, "sudo ls /etc/kubernetes/pki/init-done").returncode != 0
    bench.play(entry="network-plugin")
    ready = bench.on(1, f"{KUBECTL} wait --for=condition=Ready --timeout 120s node/cp-2")
    assert ready.returncode == 0, ready.stdout + ready.stderr

    bench.play(entry="scale")
    assert nodes(bench) == {"cp-0", "cp-1", "cp-2", "w-0", "w-1"}
    assert stacked_members(bench, 1, "cp-1") == {"cp-0", "cp-1", "cp-2"}
    assert {host.changed for host in bench.play(entry="scale")} == {0}
