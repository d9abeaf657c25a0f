"""An instance comes up, is mended, and goes away without a trace, in whatever state it is."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from harness import proc
from harness.embedded.machines import Machines
from harness.errors import BadInput, InfraError, Leaked
from harness.infra.cluster.capacity import free_for_machines
from harness.infra.host import folder, layout, network, processes, status
from harness.infra.host.network import address_of, bridge_of
from harness.infra.host.status import State
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, NODE
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.conftest import Instances
from tests.embedded.infra import host

PROGRAMS = {
    "mirror",
    "mirror-ipv6",
    "registry",
    "registry-ipv6",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubevirt",
}


def pids(provider: EmbeddedProvider) -> dict[str, int]:
    found = {name: proc.Service.load(provider.layout.pidfile(name)) for name in processes.recorded(provider.layout)}
    return {name: service.pid for name, service in found.items() if service is not None and service.alive()}


def index_of(provider: EmbeddedProvider) -> int:
    found = layout.load_record(provider.layout)
    assert found is not None
    return found.index


def traces(provider: EmbeddedProvider, index: int) -> set[str]:
    bridge = bridge_of(index)
    return host.things(provider.layout.name, f"{bridge}-", f"{bridge}:", f"{bridge}h", f"{address_of(index)}:")


def kill_all(provider: EmbeddedProvider) -> None:
    for pid in pids(provider).values():
        os.killpg(pid, signal.SIGKILL)
    until(
        lambda: NotYet(str(alive)) if (alive := pids(provider)) else None,
        deadline=Deadline.after(10),
        what="the killed processes are gone",
        interval=0.05,
    )


def test_up_is_complete_and_repeated_changes_nothing(infra: EmbeddedProvider, cluster: Cluster) -> None:
    before = pids(infra)
    assert set(before) == PROGRAMS
    infra.up()
    assert pids(infra) == before
    seen = infra.status()
    assert seen.state is State.UP
    assert {p.name for p in seen.programs} == PROGRAMS
    assert (seen.kubevirt, seen.cdi) == ("Deployed", "Deployed")
    assert seen.disk_mib > 0
    assert cluster.server == infra.describe()["server"]
    assert [n["metadata"]["name"] for n in cluster.list(NODE).items] == [f"vmatrix-{infra.layout.name}"]


def test_what_the_node_has_free_is_less_than_this_host_has(cluster: Cluster) -> None:
    free = free_for_machines(cluster)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert 0 < free.cpus <= (os.cpu_count() or 0)
    assert 0 < free.memory_mib <= total


def test_anonymous_requests_are_refused(infra: EmbeddedProvider) -> None:
    done = proc.run(["curl", "--silent", "--insecure", f"{infra.describe()['server']}/api"], timeout=10)
    assert json.loads(done.stdout)["code"] == 401


def test_two_instances_run_side_by_side(infra: EmbeddedProvider, instances: Instances) -> None:
    other = instances("other")
    other.up()
    assert index_of(other) != index_of(infra)
    assert other.status().state is infra.status().state is State.UP
    name = "only-here"
    here, there = (Cluster.from_kubeconfig(p.kubeconfig()) for p in (other, infra))
    here.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    assert there.get(NAMESPACE, name) is None
    before = pids(infra)
    other.down()
    assert infra.status().state is State.UP
    assert pids(infra) == before


def test_killed_processes_alone_are_started_again_and_data_is_kept(instances: Instances) -> None:
    provider = instances("mend")
    provider.up()
    index = index_of(provider)
    cluster = Cluster.from_kubeconfig(provider.kubeconfig())
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}})
    for victims in ({"kube-scheduler"}, {"etcd", "kubevirt"}, {"kube-apiserver", "mirror", "registry"}):
        before = pids(provider)
        for name in victims:
            os.killpg(before[name], signal.SIGKILL)
        until(
            lambda victims=victims: NotYet("alive") if victims & set(pids(provider)) else None,  # type: ignore[misc]
            deadline=Deadline.after(10),
            what="the killed processes are gone",
        )
        seen = provider.status()
        assert seen.state is State.BROKEN
        assert victims <= {p.name for p in seen.programs if p.problem.startswith("ended")}
        provider.up()
        after = pids(provider)
        assert {name for name in PROGRAMS if after[name] != before[name]} == victims
        assert provider.status().state is State.UP
        assert cluster.get(NAMESPACE, "kept") is not None
    provider.down()
    assert traces(provider, index) == set()


def test_the_packet_filter_is_the_instances_own_is_mended_and_goes(instances: Instances) -> None:
    first, second = instances("filter"), instances("filter-2")
    first.up()
    second.up()
    here, there = index_of(first), index_of(second)
    whole = filter_of(here)
    assert f'iifname "{bridge_of(here)}h*" jump from_guests' in whole
    proc.run(["nft", "flush", "chain", "inet", bridge_of(here), "from_guests"], timeout=10)
    seen = first.status()
    assert seen.state is State.BROKEN
    assert [p.problem for p in seen.programs if p.name == "packet filter"] == [
        f"table inet {bridge_of(here)} is not whole: guests may reach more of this host"
    ]
    for damage in ((), ("delete", "table", "inet", bridge_of(here)), ()):
        if damage:
            proc.run(["nft", *damage], timeout=10)
        first.up()
        assert filter_of(here) == whole
        assert first.status().state is State.UP
    first.down()
    assert filter_of(here) == ""
    assert bridge_of(there) in filter_of(there)
    assert second.status().state is State.UP


def filter_of(index: int) -> str:
    """Return an instance's table in this host's packet filter."""
    return proc.run(["nft", "list", "table", "inet", bridge_of(index)], timeout=10, check=False).stdout


def test_what_only_the_host_needs_listens_on_the_loopback(infra: EmbeddedProvider) -> None:
    shown = proc.run(["ss", "-Hltn"], timeout=10).stdout.splitlines()
    octet = 213 + index_of(infra)
    own = {row.split()[3] for row in shown if row.split()[3].startswith((f"10.{octet}.", f"127.{octet}."))}
    assert {a for a in own if a.startswith("127.")} == {
        f"127.{octet}.0.1:{p}" for p in (2379, 2380, 2381, 10257, 10259)
    }
    assert {a for a in own if a.startswith("10.")} == {
        f"10.{octet}.0.1:{port}" for port in (5000, 6443, 8080, 8443, 8444, 10250)
    }


def test_down_leaves_nothing_of_machines_networks_and_disks(instances: Instances) -> None:
    provider = instances("disks")
    provider.up()
    index, root = index_of(provider), provider.layout.root
    Machines(root, index).ensure_network(1)
    disk, point = root / "disks" / "left.raw", root / "machines" / "abc" / "root"
    point.mkdir(parents=True)
    proc.run(["truncate", "--size=16M", disk], timeout=10)
    proc.run(["mke2fs", "-q", "-t", "ext4", disk], timeout=10)
    proc.run(["mount", "-o", "loop", disk, point], timeout=10)
    group = Path("/sys/fs/cgroup/memory") if Path("/sys/fs/cgroup/memory").is_dir() else Path("/sys/fs/cgroup")
    (group / f"{bridge_of(index)}-abc").mkdir()
    kinds = {thing.split()[0] for thing in traces(provider, index)}
    assert kinds == {"process", "mount", "loop", "cgroup", "link", "filter", "netns", "file"}
    provider.down()
    assert traces(provider, index) == set()
    assert status.leftovers(provider.layout, index) == []
    assert provider.status().state is State.DOWN


@pytest.mark.parametrize("damage", ["missing", "half-written", "everything-lost"])
def test_down_works_without_a_record(instances: Instances, damage: str) -> None:
    provider = instances(damage)
    provider.up()
    index = index_of(provider)
    if damage == "missing":
        provider.layout.record.unlink()
    elif damage == "half-written":
        kill_all(provider)
        provider.layout.record.write_text('{"name": "x", "ind', encoding="utf-8")
    else:
        proc.run(["rm", "-r", provider.layout.root], timeout=30)
    assert provider.status().state is State.BROKEN
    provider.down()
    assert traces(provider, index) == set()


@pytest.mark.parametrize("moment", ["instance.json", "pki/ca.crt", "run/etcd.pid", "run/kubevirt.pid"])
def test_down_after_an_up_that_was_killed(instances: Instances, tmp_path: Path, moment: str) -> None:
    provider = instances(f"cut-{Path(moment).stem}")
    command = ("vmatrix", "infra", "up", "--name", provider.layout.name)
    coming = proc.spawn(command, log=tmp_path / "log")
    path = provider.layout.root / moment
    until(
        lambda: None if path.exists() else NotYet("it is not there"),
        deadline=Deadline.after(60),
        what=f"{path} is there",
        interval=0.01,
    )
    coming.stop(grace=0)
    index = folder.find_index(provider.layout)
    assert index is not None
    if moment.startswith("run/"):
        assert f"packet filter's table inet {bridge_of(index)}" in status.leftovers(provider.layout, index)
    provider.down()
    assert traces(provider, index) == set()


def test_after_a_reboot_up_begins_anew_and_no_stranger_is_killed(instances: Instances, tmp_path: Path) -> None:
    provider = instances("reboot")
    provider.up()
    cluster = Cluster.from_kubeconfig(provider.kubeconfig())
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "before"}})
    kill_all(provider)
    network.remove_bridge(index_of(provider), provider.layout)
    found = layout.load_record(provider.layout)
    assert found is not None
    layout.save_record(provider.layout, replace(found, boot="another boot"))
    stranger = proc.spawn(["sleep", "600"], log=tmp_path / "log")
    try:
        for name in PROGRAMS:  # the pids were given out again
            replace(stranger, started=stranger.started - 1).save(provider.layout.pidfile(name))
        provider.up()
        assert stranger.alive()
        assert provider.status().state is State.UP
        assert Cluster.from_kubeconfig(provider.kubeconfig()).get(NAMESPACE, "before") is None
        assert stranger.pid not in pids(provider).values()
    finally:
        stranger.stop(grace=0)


def test_an_interrupted_down_is_finished_by_the_next_command(instances: Instances) -> None:
    provider = instances("half")
    provider.up()
    found = layout.load_record(provider.layout)
    assert found is not None
    layout.save_record(provider.layout, replace(found, ending=True))
    processes.take_down(provider.layout, ["etcd"], grace=1)
    proc.run(["rm", "-r", provider.layout.etcd], timeout=10)
    provider.up()
    assert provider.status().state is State.UP


def test_a_program_that_ends_at_once_is_named_with_its_last_lines(instances: Instances, tmp_path: Path) -> None:
    broken = tmp_path / "kube-scheduler"
    broken.write_text("#!/bin/sh\necho it is broken\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    good = instances("broken")
    binaries = good.host.config.binaries
    config = replace(good.host.config, binaries=lambda name: broken if name == "kube-scheduler" else binaries(name))
    provider = EmbeddedProvider(config)
    with pytest.raises(InfraError, match=r"kube-scheduler of instance .* ended while it was coming up") as caught:
        provider.up()
    assert "it is broken" in caught.value.detail
    assert caught.value.paths == (provider.layout.logfile("kube-scheduler"),)
    index = index_of(provider)
    provider.down()
    assert traces(provider, index) == set()


def test_a_program_that_never_becomes_ready_is_named(instances: Instances, tmp_path: Path) -> None:
    silent = tmp_path / "etcd"
    silent.write_text("#!/bin/sh\necho it says nothing more\nexec sleep 600\n", encoding="utf-8")
    silent.chmod(0o755)
    good = instances("silent")
    binaries = good.host.config.binaries
    config = replace(good.host.config, binaries=lambda name: silent if name == "etcd" else binaries(name), up_seconds=5)
    with pytest.raises(InfraError, match="etcd") as caught:
        EmbeddedProvider(config).up()
    assert "it says nothing more" in caught.value.detail
    assert good.layout.logfile("etcd") in caught.value.paths
    assert good.layout.logfile("kube-apiserver") not in caught.value.paths


def test_a_host_that_lacks_something_is_left_untouched(instances: Instances, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = instances("refused")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadInput, match="not root"):
        provider.up()
    assert host.things(provider.layout.name) == set()


def test_what_cannot_be_taken_away_is_reported_and_the_rest_goes(instances: Instances) -> None:
    provider = instances("stuck")
    provider.up()
    index = index_of(provider)
    point = provider.layout.disks / "busy"
    point.mkdir()
    proc.run(["mount", "-t", "tmpfs", "none", point], timeout=10)
    try:
        with pytest.raises(Leaked) as caught:
            provider.down()
        assert f"mount {point}" in caught.value.detail
        assert pids(provider) == {}
    finally:
        proc.run(["umount", point], timeout=10)
    provider.down()
    assert traces(provider, index) == set()
