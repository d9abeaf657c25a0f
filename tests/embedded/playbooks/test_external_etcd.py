"""etcd on machines of its own, and two control planes: both grow, one fails, one is replaced, all of it ends."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.model import Cell
from harness.validate.phases.leftovers import differences
from tests.embedded.playbooks.conftest import ETCDCTL, KUBECTL, Bench, cell_of, external_members, leaving, nodes

LOG = logging.getLogger(__name__)
EVERY = {"etcd-0", "etcd-1", "etcd-2"}
WATCH = """
import ssl, time, urllib.request
stranger = ssl._create_unverified_context()
began = last = time.monotonic()
longest = answers = 0
while time.monotonic() < began + 30:
    try:
        urllib.request.urlopen("https://127.0.0.1:6445/readyz", timeout=2, context=stranger).close()
        answers, longest, last = answers + 1, max(longest, time.monotonic() - last), time.monotonic()
    except OSError:
        pass
    time.sleep(0.1)
print(answers, max(longest, time.monotonic() - last))
"""


@pytest.fixture(scope="module")
def ordered() -> Cell:
    """Return two control planes, three members of etcd and a worker."""
    return cell_of("cp2-etcd3-w1")


@pytest.fixture(scope="module")
def place(ordered: Cell) -> dict[str, int]:
    """Return the machines' places in the inventory."""
    return {planned.name: number for number, planned in enumerate(ordered.machines)}


@pytest.fixture(scope="module")
def before(bench: Bench, ordered: Cell, place: dict[str, int]) -> dict[str, dict[str, dict[str, str]]]:
    """Deploy the smallest cluster with an etcd of its own; return what all machines were like, by name."""
    bench.boot(ordered)
    states = {name: bench.state(number) for name, number in place.items()}
    bench.list_only("cp-0", "etcd-0", "w-0")
    bench.play()
    return states


def etcd_servers(bench: Bench, machine: int) -> int:
    """Return with how many members of etcd the running API server of a machine speaks."""
    return bench.on(machine, "sudo cat /proc/$(pidof kube-apiserver)/cmdline").stdout.count(":2379")


def member_ids(bench: Bench, machine: int) -> dict[str, str]:
    """Return the identities of etcd's members by name."""
    lines = bench.on(machine, f"sudo {ETCDCTL} member list").stdout.splitlines()
    return {line.split(", ")[2]: line.split(", ")[0] for line in lines}


def healthy(bench: Bench, machine: int) -> int:
    """Return how many members of etcd call themselves healthy."""
    done = bench.on(machine, f"sudo {ETCDCTL} endpoint health --cluster 2>&1")
    return done.stdout.count(" is healthy")


@pytest.mark.usefixtures("before")
def test_members_of_etcd_and_a_control_plane_come(bench: Bench, place: dict[str, int]) -> None:
    assert external_members(bench, place["etcd-0"]) == {"etcd-0"}
    bench.list_only(*place)
    bench.play(entry="scale")
    assert external_members(bench, place["etcd-0"]) == EVERY
    assert healthy(bench, place["etcd-1"]) == len(EVERY)
    assert nodes(bench) == {"cp-0", "cp-1", "w-0"}
    assert [etcd_servers(bench, place[name]) for name in ("cp-0", "cp-1")] == [len(EVERY)] * 2
    assert {host.changed for host in bench.play(entry="scale")} == {0}


CERTIFICATES = {
    "etcd-0": ("etcd/server.crt", "etcd/peer.crt", "etcd/healthcheck-client.crt", "apiserver-etcd-client.crt"),
    "etcd-2": ("etcd/server.crt", "etcd/peer.crt", "etcd/healthcheck-client.crt"),
    "cp-0": ("apiserver.crt", "apiserver-etcd-client.crt"),
    "cp-1": ("apiserver.crt", "apiserver-etcd-client.crt"),
}


def certificates(bench: Bench, place: dict[str, int]) -> dict[str, list[str]]:
    """Return the digests of certificates that kubeadm signs, by machine, in the order of CERTIFICATES."""
    folder = "/etc/kubernetes/pki"
    return {
        name: [
            line.split()[0]
            for line in bench.on(place[name], f"cd {folder} && sudo sha256sum {' '.join(files)}").stdout.splitlines()
        ]
        for name, files in CERTIFICATES.items()
    }


@pytest.mark.usefixtures("before")
def test_certificates_of_etcd_are_renewed_with_those_of_the_api_servers(bench: Bench, place: dict[str, int]) -> None:
    was = certificates(bench, place)
    bench.play("-e", "cluster_certificates_renew_before_days=400", entry="certificates")
    now = certificates(bench, place)
    assert {name: len(found) for name, found in now.items()} == {name: len(f) for name, f in CERTIFICATES.items()}
    assert not [(name, a) for name in now for a, b in zip(was[name], now[name], strict=True) if a == b]
    assert now["cp-0"][-1] == now["cp-1"][-1] == now["etcd-0"][-1], "API servers ask with the one that was renewed"
    assert (healthy(bench, place["etcd-0"]), nodes(bench)) == (len(EVERY), {"cp-0", "cp-1", "w-0"})
    assert {host.changed for host in bench.play(entry="certificates")} == {0}


@pytest.mark.usefixtures("before")
def test_every_machine_reaches_an_api_server_when_the_first_one_dies(bench: Bench, place: dict[str, int]) -> None:
    # a control plane's own kubelet asks the API server beside it alone, as kubeadm has it: that one must not be older;
    # a worker has no kubeconfig but its kubelet's, which may read its own Node only
    every = ["node/cp-0", "node/cp-1", "node/w-0"]
    asking = {
        "cp-0": ("admin.conf get nodes", every),
        "cp-1": ("admin.conf get nodes", every),
        "w-0": ("kubelet.conf get node w-0", ["node/w-0"]),
    }
    with ThreadPoolExecutor() as pool:
        watched = [pool.submit(bench.on, place[name], f"python3 -c '{WATCH}'") for name in asking]
        bench.on(
            place["cp-0"],
            "sudo mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && sudo pkill -KILL -x kube-apiserver",
        )
        seen = [future.result().stdout.split() for future in watched]
    LOG.info("answers, longest silence in seconds, by machine: %s", seen)
    dead = bench.on(place["cp-0"], "pgrep -x kube-apiserver").stdout == ""
    asked = {
        name: bench.on(place[name], f"sudo kubectl --kubeconfig /etc/kubernetes/{words} --output name")
        for name, (words, _) in asking.items()
    }
    bench.on(place["cp-0"], "sudo mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
    ready = f"{KUBECTL} --server https://127.0.0.1:6443 get --raw /readyz"
    back = bench.on(place["cp-0"], f"timeout 120 sh -c 'until {ready}; do sleep 1; done'")
    assert dead
    assert {name: done.stdout.split() for name, done in asked.items()} == {
        name: expected for name, (_, expected) in asking.items()
    }, asked
    assert back.stdout.endswith("ok"), "the API server that died serves again"
    assert all(int(answers) > 50 and float(silence) < 10 for answers, silence in seen), seen


def test_a_lost_member_of_etcd_is_replaced_by_an_empty_machine(
    bench: Bench, ordered: Cell, place: dict[str, int], before: dict[str, dict[str, dict[str, str]]]
) -> None:
    was = member_ids(bench, place["etcd-1"])
    bench.end(place["etcd-0"])
    assert nodes(bench) == {"cp-0", "cp-1", "w-0"}, "two of three members are enough"
    bench.boot_anew(ordered, place["etcd-0"])
    before["etcd-0"] = bench.state(place["etcd-0"])  # another machine, with an id and host keys of its own
    bench.play(entry="scale")
    now = member_ids(bench, place["etcd-1"])
    assert set(now) == EVERY
    assert {name for name in EVERY if now[name] != was[name]} == {"etcd-0"}
    assert healthy(bench, place["etcd-0"]) == len(EVERY)
    assert {host.changed for host in bench.play(entry="scale")} == {0}


def test_a_member_of_etcd_and_a_control_plane_leave(
    bench: Bench, place: dict[str, int], before: dict[str, dict[str, dict[str, str]]]
) -> None:
    bench.play(*leaving("etcd-0", "cp-0"), entry="remove-node")
    assert external_members(bench, place["etcd-1"]) == {"etcd-1", "etcd-2"}
    assert etcd_servers(bench, place["cp-1"]) == len(("etcd-1", "etcd-2"))
    assert nodes(bench) == {"cp-1", "w-0"}
    assert [differences(before[name], bench.state(place[name])) for name in ("etcd-0", "cp-0")] == [[], []]


def test_all_machines_are_as_they_were_and_can_be_deployed_again(
    bench: Bench, place: dict[str, int], before: dict[str, dict[str, dict[str, str]]]
) -> None:
    bench.play(entry="reset")
    assert {name: differences(before[name], bench.state(number)) for name, number in place.items()} == {
        name: [] for name in place
    }
    bench.list_only("cp-1", "etcd-1", "w-0")
    bench.play()
    assert nodes(bench) == {"cp-1", "w-0"}
    assert external_members(bench, place["etcd-1"]) == {"etcd-1"}
