"""A cluster from bare machines: it comes up, a second run changes nothing, a killed one can be repeated.

Whatever entry there is runs twice and in check mode on a cluster that is as asked for, and changes nothing.
"""

from __future__ import annotations

import json

import pytest

from harness import paths
from harness.kube.client import Cluster
from harness.kube.resources import NODE
from tests.embedded.playbooks.conftest import Bench, cell_of

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


ENTRIES = sorted(path.stem for path in (paths.project_dir() / "playbooks").glob("*.yml") if path.stem != "galaxy")
# What an entry cannot do without, beyond what the deployment was given
NEEDS = {"backup": {"cluster_etcd_snapshot_path": "SNAPSHOT"}, "remove-node": {"cluster_remove_nodes": ["w-0"]}}
# A snapshot is a new one each time
NEVER_THE_SAME = {"backup"}
# They take the cluster away, the second all of it; so they come last and their first run has something to do
UNMAKING = ("remove-node", "reset")
KEEPING = [entry for entry in ENTRIES if entry not in UNMAKING]


@pytest.fixture(scope="module")
def deployed(bench: Bench) -> Bench:
    """Return a bench with a cluster of one control plane and one worker."""
    bench.boot(cell_of("cp1-w1"))
    bench.play()
    return bench


def options(bench: Bench, entry: str) -> tuple[str, str]:
    """Return what an entry is given on the command line."""
    text = json.dumps(NEEDS.get(entry, {}))
    return "-e", text.replace("SNAPSHOT", str(bench.directory / "snapshot.db"))


@pytest.mark.parametrize("entry", KEEPING)
def test_an_entry_changes_nothing_where_all_is_as_asked_for(deployed: Bench, entry: str) -> None:
    if entry in NEVER_THE_SAME:
        deployed.play(*options(deployed, entry), entry=entry)
    checked = deployed.play("--check", "--diff", *options(deployed, entry), entry=entry)
    again = deployed.play(*options(deployed, entry), entry=entry)

    if entry in NEVER_THE_SAME:
        assert sum(host.changed for host in again) > 0
    else:
        assert {host.changed for host in (*checked, *again)} == {0}


@pytest.mark.parametrize("entry", UNMAKING)
def test_an_entry_that_takes_away_is_checked_first_and_then_done_once(deployed: Bench, entry: str) -> None:
    before = [deployed.state(machine)["process"] for machine in (0, 1)]
    checked = deployed.play("--check", "--diff", *options(deployed, entry), entry=entry)
    assert sum(host.changed for host in checked) > 0
    assert [deployed.state(machine)["process"] for machine in (0, 1)] == before

    first = deployed.play(*options(deployed, entry), entry=entry)
    assert sum(host.changed for host in first) > 0
    second = deployed.play(*options(deployed, entry), entry=entry)
    assert {host.changed for host in second} == {0}
