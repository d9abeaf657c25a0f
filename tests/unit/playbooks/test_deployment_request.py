"""What is refused before any machine is touched: groups, addresses, networks, versions, what the mirror lacks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.playbooks.mirror import serving
from tests.unit.playbooks.playbook_files import module

request_ = module("action_plugins/deployment_request.py")
HOSTS = [{"name": "cp", "address": "10.0.0.2"}, {"name": "w", "address": "10.0.0.3"}]


def groups(**given: list[str]) -> dict[str, list[str]]:
    machines = sorted({machine for names in given.values() for machine in names})
    return {"all": machines, "ungrouped": [], **given}


DUAL = {
    "ipv6_pod_cidr": "fd10:243::/56",
    "ipv6_service_cidr": "fd10:95::/112",
    "hosts": [{**host, "ipv6_address": f"fd00::{number}"} for number, host in enumerate(HOSTS, 2)],
}


ALONE = {
    "pod_cidr": "fd10:243::/56",
    "service_cidr": "fd10:95::/112",
    "hosts": [{**host, "address": f"fd00::{number}"} for number, host in enumerate(HOSTS, 2)],
    "outside": ["fd00::9"],
}


def networks(**given: Any) -> list[str]:
    right = {"pod_cidr": "10.243.0.0/16", "service_cidr": "10.95.0.0/16", "hosts": HOSTS, "outside": ["10.0.0.1"]}
    right |= {"ipv6_pod_cidr": "", "ipv6_service_cidr": ""}
    return list(request_.network_problems({**right, **given}, 2))


@pytest.mark.parametrize(
    "given",
    [
        groups(control_plane=["a"], etcd=["a"], node=["a"]),
        groups(control_plane=["a", "b", "c"], etcd=["a", "b", "c"], node=["d"]),
        groups(control_plane=["a", "b"], etcd=["x", "y", "z"], node=["d"]),
    ],
)
def test_accepts_the_topologies_that_it_makes(given: dict[str, list[str]]) -> None:
    assert list(request_.group_problems(given, exists=False)) == []


def test_refuses_two_stacked_control_planes_unless_they_are_there_already() -> None:
    two = groups(control_plane=["a", "b"], etcd=["a", "b"])
    (problem,) = request_.group_problems(two, exists=False)
    assert "use one or three control planes, or three separate machines for etcd" in problem
    assert list(request_.group_problems(two, exists=True)) == []


def test_refuses_a_group_that_it_does_not_know() -> None:
    (problem,) = request_.group_problems(groups(control_plane=["a"], etcd=["a"], workers=["w"]), exists=False)
    assert problem.startswith("machine w is in none of the groups control_plane, etcd, node (it is in workers)")


def test_refuses_an_etcd_that_is_half_stacked() -> None:
    (problem,) = request_.group_problems(groups(control_plane=["a", "b"], etcd=["b", "x", "y"]), exists=False)
    assert "shares b with control_plane but is not equal to it" in problem


def test_refuses_an_inventory_without_control_plane() -> None:
    assert any("control_plane is empty" in each for each in request_.group_problems(groups(node=["w"]), exists=False))


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ([HOSTS[0]], "machine w is not in cluster_hosts"),
        ([HOSTS[0], {"name": "w", "address": "10.0.0.2"}], "gives 10.0.0.2 to 2 machines"),
        ([HOSTS[0], {"name": "w", "address": "worker"}], "worker is not an IP address"),
        ([*HOSTS, HOSTS[1]], "names w 2 times"),
    ],
)
def test_refuses_machines_without_an_address_of_their_own(hosts: list[dict[str, Any]], said: str) -> None:
    assert any(said in each for each in request_.host_problems(["cp", "w"], hosts))


def test_accepts_networks_apart_from_each_other() -> None:
    assert networks() == []
    assert networks(**DUAL) == []


def test_a_cluster_of_ipv6_alone_needs_machines_with_ipv6_addresses() -> None:
    assert networks(**ALONE) == []
    names = [host["name"] for host in HOSTS]
    assert list(request_.host_problems(names, ALONE["hosts"], pods=str(ALONE["pod_cidr"]))) == []
    wrong = list(request_.host_problems(names, HOSTS, pods=str(ALONE["pod_cidr"])))
    assert wrong[0] == (
        "cluster_hosts: the address 10.0.0.2 of machine cp is not of IPv6, as cluster_pod_cidr is:"
        " let both be of one IP family"
    )
    assert len(wrong) == len(HOSTS)
    assert len(list(request_.host_problems(names, ALONE["hosts"], pods="10.243.0.0/16"))) == len(HOSTS)


def test_a_cluster_of_both_families_needs_an_ipv6_address_of_every_machine() -> None:
    names = [host["name"] for host in HOSTS]
    assert list(request_.host_problems(names, DUAL["hosts"], dual=True)) == []
    assert list(request_.host_problems(names, HOSTS)) == []
    lacking = list(request_.host_problems(names, HOSTS, dual=True))
    assert len(lacking) == len(HOSTS)
    assert "needs an ipv6_address, and it has none" in lacking[0]
    other = [{**HOSTS[0], "ipv6_address": "10.0.0.9"}, *DUAL["hosts"][1:]]
    assert "ipv6_address '10.0.0.9' is none" in next(request_.host_problems(names, other, dual=True))
    twins = [{**host, "ipv6_address": "fd00::2"} for host in HOSTS]
    assert "gives fd00::2 to" in next(request_.host_problems(names, twins, dual=True))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"service_cidr": "10.243.128.0/20"}, "cluster_pod_cidr 10.243.0.0/16 overlaps cluster_service_cidr"),
        ({"pod_cidr": "10.0.0.0/8"}, "contains 10.0.0.2, the address of machine cp"),
        ({"service_cidr": "10.0.0.0/24", "hosts": []}, "contains 10.0.0.1, the address of the mirror"),
        ({"pod_cidr": "10.243.0.0/24"}, "has no /24 for each of 2 nodes"),
        ({"pod_cidr": "10.243.0.1/16"}, "has host bits set"),
        ({"pod_cidr": "pods"}, "use a network such as"),
        ({"pod_cidr": "fd10:243::/56"}, "cluster_service_cidr 10.95.0.0/16 are of two IP families: use one"),
        ({**ALONE, "pod_cidr": "fd10:243::/64"}, "cluster_pod_cidr fd10:243::/64 has no /64 for each of 2 nodes"),
        ({**ALONE, "pod_cidr": "fd10::/32"}, "cluster_pod_cidr fd10::/32 is too large: kubeadm takes a /48 at most"),
        ({**ALONE, "service_cidr": "fd10:95::/64"}, "cluster_service_cidr fd10:95::/64 is too large: the API server"),
        ({**ALONE, "pod_cidr": "fd00::/56"}, "contains fd00::2, the address of machine cp"),
        (
            {**DUAL, "pod_cidr": "fd20:243::/56"},
            "cluster_pod_cidr fd20:243::/56 is of IPv6, and so is cluster_ipv6_pod",
        ),
        ({**DUAL, "ipv6_pod_cidr": "10.9.0.0/16"}, "cluster_ipv6_pod_cidr 10.9.0.0/16 is not of IPv6"),
        ({**DUAL, "ipv6_service_cidr": ""}, "cluster_ipv6_pod_cidr is set and cluster_ipv6_service_cidr is not"),
        ({**DUAL, "ipv6_pod_cidr": ""}, "cluster_ipv6_service_cidr is set and cluster_ipv6_pod_cidr is not"),
        ({**DUAL, "ipv6_service_cidr": "fd10:243:0:7::/112"}, "fd10:243::/56 overlaps cluster_ipv6_service_cidr"),
        ({**DUAL, "ipv6_pod_cidr": "fd10:243::/64"}, "cluster_ipv6_pod_cidr fd10:243::/64 has no /64 for each of 2"),
        ({**DUAL, "ipv6_pod_cidr": "fd10::/32"}, "too large: kubeadm takes a /48 at most"),
        (
            {**DUAL, "service_cidr": "10.95.0.0/30"},
            "cluster_service_cidr 10.95.0.0/30 has 4 addresses, and kubeadm asks",
        ),
        ({**DUAL, "ipv6_service_cidr": "fd10:95::/64"}, "too large: the API server takes a /108 at most"),
        ({**DUAL, "ipv6_pod_cidr": "fd00:0:0::/56"}, "contains fd00::2, the address of machine cp"),
    ],
)
def test_refuses_networks_that_cannot_come_right(given: dict[str, Any], said: str) -> None:
    assert any(said in each for each in networks(**given))


def test_refuses_what_it_does_not_know() -> None:
    asked = {
        "versions": {"kubernetes": "1.33.1", "etcd": "latest"},
        "known": {"kubernetes": ["1.35", "1.36"]},
        "choices": {"kube_proxy_mode": ["ipvs", ["iptables", "nftables"]]},
    }
    assert list(request_.version_problems(asked)) == [
        "cluster_kubernetes_version 1.33.1 is unknown: choose one of 1.35.x, 1.36.x",
        "cluster_etcd_version 'latest' is not a version such as 1.36.3",
        "cluster_kube_proxy_mode 'ipvs' is unknown: choose one of iptables, nftables",
    ]


@pytest.fixture
def mirror() -> Iterator[str]:
    """Serve one file, /bin/kubelet/1/kubelet, and the manifest of one image."""
    there = ("/bin/kubelet/1/kubelet", "/v2/pause/manifests/3")
    with serving(lambda path: path in there, b"one") as address:
        yield address


def wanted(mirror: str, version: str, image: str, sha256: str | None = None) -> list[dict[str, Any]]:
    release = {"url": f"http://{mirror}/bin/kubelet/{version}/kubelet", "sha256": sha256}
    found: list[dict[str, Any]] = request_.addresses({"releases": [release], "images": [image], "registry": mirror})
    return found


def test_accepts_what_the_mirror_has(mirror: str) -> None:
    right = hashlib.sha256(b"one").hexdigest()
    assert request_.mirror_problems(wanted(mirror, "1", "pause:3")) == ([], [])
    assert request_.mirror_problems(wanted(mirror, "1", "pause:3", right)) == ([], [])


def test_refuses_what_the_mirror_lacks(mirror: str) -> None:
    problems, silent = request_.mirror_problems(wanted(mirror, "2", "pause:4"))
    assert [problem.split(": 404")[0].rpartition(mirror)[2] for problem in problems] == [
        "/bin/kubelet/2/kubelet",
        "/v2/pause/manifests/4",
    ]
    assert silent == []


def test_refuses_a_wrong_checksum(mirror: str) -> None:
    ((problem,), _) = request_.mirror_problems(wanted(mirror, "1", "pause:3", "0" * 64))
    assert f"checksum {hashlib.sha256(b'one').hexdigest()}, but cluster_checksums has {'0' * 64}" in problem


def test_leaves_a_mirror_that_it_cannot_ask_to_the_machines() -> None:
    problems, silent = request_.mirror_problems(wanted("127.0.0.1:9", "1", "pause:3"))
    assert problems == []
    assert len(silent) == 1
    assert silent[0].startswith("http://127.0.0.1:9: ")
