"""Every judgement about machines passes on a well guest, and each fault is found by the judgement that is about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.errors import HarnessBug, InfraError
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts, parse, version_in
from harness.validate.judge import etcd, nodes
from harness.validate.judge.etcd import EtcdView
from harness.validate.judge.mismatch import CheckFailed, Mismatch, require
from tests.unit.validate import guests

Json = dict[str, Any]
Judge = Callable[[Mapping[str, NodeFacts], ExpectedGuest], list[Mismatch]]
RECORDED_AT = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def units(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return nodes.failed_units(seen, wanted, {"allowed.service": "it may"})


def certificates(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return nodes.bad_certificates(seen, wanted, RECORDED_AT)


def certificates_a_year_on(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return nodes.bad_certificates(seen, wanted, datetime(2027, 11, 1, tzinfo=UTC))


def views(seen: Mapping[str, NodeFacts]) -> dict[str, EtcdView]:
    return {name: facts.etcd for name, facts in seen.items() if facts.etcd is not None}


JUDGES: tuple[Judge, ...] = (
    nodes.stopped_services,
    units,
    nodes.wrong_binaries,
    nodes.replaced_binaries,
    nodes.misplaced_processes,
    nodes.wrong_manifests,
    nodes.wrong_flags,
    nodes.wrong_kernel_settings,
    certificates,
    nodes.confused_identities,
    nodes.unhealthy_agents,
    nodes.wrong_proxy_mode,
    lambda seen, wanted: etcd.unhealthy(views(seen), wanted),
    lambda seen, wanted: etcd.wrong_members(views(seen), wanted),
    lambda seen, wanted: etcd.disagreeing(views(seen), wanted),
    lambda seen, wanted: etcd.wrong_versions(views(seen), wanted),
)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_well_guest_passes(judge: Judge) -> None:
    assert judge(guests.facts(), guests.expected()) == []


@pytest.mark.parametrize("judge", JUDGES)
def test_a_guest_whose_machines_were_not_seen_fails(judge: Judge) -> None:
    assert judge({}, guests.expected()) != []


@pytest.mark.parametrize("judge", [nodes.stopped_services, nodes.wrong_binaries, nodes.wrong_kernel_settings])
def test_a_guest_without_machines_is_a_bug_of_the_harness(judge: Judge) -> None:
    with pytest.raises(HarnessBug):
        judge({}, guests.expected(groups=((), ())))


def put(path: str, value: object) -> Callable[[Json], None]:
    """Return a change of one value, by its path of keys."""

    def change(raw: Json) -> None:
        *parents, last = path.split("/")
        place: Any = raw
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[last] = value

    return change


def replace_flag(program: str, old: str, new: str) -> Callable[[Json], None]:
    def change(raw: Json) -> None:
        for process in raw["processes"]:
            if process["name"] == program:
                process["argv"] = [new if word == old else word for word in process["argv"]]

    return change


def without_process(program: str) -> Callable[[Json], None]:
    return lambda raw: raw.update(processes=[p for p in raw["processes"] if p["name"] != program])


def second_process(program: str) -> Callable[[Json], None]:
    return lambda raw: raw["processes"].append(next(p for p in raw["processes"] if p["name"] == program))


def without_manifest(raw: Json) -> None:
    del raw["manifests"]["etcd.yaml"]


def replaced_kubelet(raw: Json) -> None:
    for process in raw["processes"]:
        if process["name"] == "kubelet":
            process["executable"] += " (deleted)"


def without_kubelet_client(raw: Json) -> None:
    del raw["certificates"]["/var/lib/kubelet/pki/kubelet-client-current.pem"]


def in_text(path: str, old: str, new: str) -> Callable[[Json], None]:
    """Return a change of a part of one text, by its path of keys; the part must be there."""

    def change(raw: Json) -> None:
        *parents, last = path.split("/")
        for parent in parents:
            raw = raw[parent]
        assert old in raw[last]
        raw[last] = raw[last].replace(old, new)

    return change


FAULTS: list[tuple[Judge, Callable[[Json], None]]] = [
    (nodes.stopped_services, put("units/kubelet.service/ActiveState", "failed")),
    (nodes.stopped_services, put("units/containerd.service/UnitFileState", "disabled")),
    (nodes.stopped_services, put("units", {})),
    (units, put("failed_units", ["other.service"])),
    (units, put("system_state", "offline")),
    (units, put("system_state", None)),
    (nodes.wrong_binaries, put("versions/kubelet", "Kubernetes v1.35.4")),
    (nodes.wrong_binaries, put("versions/runc", None)),
    (nodes.wrong_binaries, put("cni_plugins/bridge", "CNI bridge plugin v1.1.1")),
    (nodes.wrong_binaries, put("cni_plugins", {})),
    (nodes.replaced_binaries, replaced_kubelet),
    (nodes.replaced_binaries, without_process("kubelet")),
    (nodes.replaced_binaries, second_process("containerd")),
    (nodes.misplaced_processes, without_process("kube-scheduler")),
    (nodes.misplaced_processes, second_process("etcd")),
    (nodes.wrong_manifests, without_manifest),
    (nodes.wrong_manifests, put("manifests/extra.yaml", "0")),
    (
        nodes.wrong_flags,
        replace_flag("kube-apiserver", "--authorization-mode=Node,RBAC", "--authorization-mode=AlwaysAllow"),
    ),
    (
        nodes.wrong_flags,
        replace_flag("kube-controller-manager", "--cluster-cidr=10.243.0.0/16", "--cluster-cidr=10.0.0.0/8"),
    ),
    (nodes.wrong_flags, replace_flag("etcd", "--client-cert-auth=true", "--client-cert-auth=false")),
    (nodes.wrong_flags, without_process("kube-apiserver")),
    (nodes.wrong_kernel_settings, put("swaps", ["/dev/sda2 partition 1 0 -2"])),
    (nodes.wrong_kernel_settings, lambda raw: raw["sysctls"].update({"net.ipv4.ip_forward": "0"})),
    (nodes.wrong_kernel_settings, lambda raw: raw["sysctls"].update({"net.bridge.bridge-nf-call-iptables": ""})),
    (certificates_a_year_on, lambda _: None),
    (certificates, without_kubelet_client),
    (
        certificates,
        lambda raw: raw["certificates"].update({nodes.API_SERVER: raw["certificates"][nodes.KUBELET_CLIENT]}),
    ),
    (nodes.confused_identities, put("hostname", "localhost")),
    (nodes.confused_identities, put("machine_id", "")),
    (nodes.confused_identities, lambda raw: raw.update(machine_id=guests.raw_facts("w-0")["machine_id"])),
    (nodes.confused_identities, lambda raw: raw.update(time=raw["time"] + 3600)),
    (nodes.unhealthy_agents, lambda raw: raw["endpoints"].update(kubelet={"status": 0, "body": "refused"})),
    (nodes.unhealthy_agents, lambda raw: raw["endpoints"].update({"kube-proxy": {"status": 503, "body": "stale"}})),
    (
        nodes.wrong_proxy_mode,
        lambda raw: raw["endpoints"].update({"kube-proxy mode": {"status": 200, "body": "iptables"}}),
    ),
    (nodes.wrong_proxy_mode, put("nft_tables", ["table ip filter"])),
    (lambda s, e: etcd.unhealthy(views(s), e), put("etcd/health", {"status": 503, "body": '{"health":"false"}'})),
    (
        lambda s, e: etcd.unhealthy(views(s), e),
        put("etcd/alarms/body", '{"alarms":[{"memberID":"1","alarm":"NOSPACE"}]}'),
    ),
    (lambda s, e: etcd.unhealthy(views(s), e), put("etcd", {"endpoint": "https://127.0.0.1:2379", "error": "no key"})),
    (
        lambda s, e: etcd.wrong_members(views(s), e),
        put("etcd/members/body", '{"members":[{"name":"cp-0"},{"name":"old"}]}'),
    ),
    (
        lambda s, e: etcd.wrong_members(views(s), e),
        put("etcd/members/body", '{"members":[{"name":"cp-0","isLearner":true}]}'),
    ),
    (lambda s, e: etcd.wrong_members(views(s), e), put("etcd/members", {"status": 0, "body": "refused"})),
    (lambda s, e: etcd.disagreeing(views(s), e), put("etcd/status/body", '{"version":"3.6.8","raftTerm":"2"}')),
    # each of these alone, in an answer that is otherwise that of a well member
    *(
        (lambda s, e: etcd.wrong_members(views(s), e), in_text("etcd/members/body", old, new))
        for old, new in (
            ('"name":"cp-0", ', ""),  # added and never started
            ('"clientURLs":["https://10.222.1.2:2379"]', '"clientURLs":[]'),
            ('"clientURLs"', '"isLearner":true, "clientURLs"'),
            ("https://10.222.1.2:2380", "https://10.222.1.9:2380"),
            ('"name":"cp-0"', '"name":"cp-1"'),
            ("]}]}", ']}, {"ID":"2", "name":"w-9", "peerURLs":["https://10.222.1.9:2380"], "clientURLs":["x"]}]}'),
            ("]}]}", ']}, {"ID":"2", "name":"cp-0", "peerURLs":["https://10.222.1.2:2380"], "clientURLs":["x"]}]}'),
        )
    ),
    (
        lambda s, e: etcd.disagreeing(views(s), e),
        in_text("etcd/status/body", '"leader":"12917209335202835459"', '"leader":"7"'),
    ),
    (
        lambda s, e: etcd.wrong_versions(views(s), e),
        put("etcd/status/body", '{"version":"3.5.24","leader":"1","raftTerm":"2"}'),
    ),
]


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Callable[[Json], None]) -> None:
    found = judge(guests.facts(fault), guests.expected())
    assert found
    assert all(finding.where and finding.expected and finding.seen for finding in found)


def test_a_control_plane_program_on_a_worker_is_found() -> None:
    server = next(p for p in guests.raw_facts("cp-0")["processes"] if p["name"] == "kube-apiserver")
    seen = guests.facts(lambda raw: raw["processes"].append(server), of="w-0")
    assert [f.where for f in nodes.misplaced_processes(seen, guests.expected())] == ["w-0 kube-apiserver"]


def test_members_of_two_clusters_do_not_agree() -> None:
    """Two machines of the group etcd, each well by itself, of which one began a cluster of its own."""
    wanted = guests.expected(groups=(("control_plane", "etcd"), ("node", "etcd")))
    one = views(guests.facts())["cp-0"]
    other = replace(one, cluster="1", members=one.members)
    assert [f.expected for f in etcd.disagreeing({"cp-0": one, "w-0": other}, wanted)] == [
        f"cluster id {one.cluster!r}"
    ]


def test_an_allowed_unit_may_fail() -> None:
    assert units(guests.facts(put("failed_units", ["allowed.service"])), guests.expected()) == []


def test_an_external_etcd_is_expected_on_its_own_machines() -> None:
    wanted = guests.expected(groups=(("control_plane",), ("etcd",)))
    assert wanted.nodes == ("cp-0",)
    assert not wanted.stacked_etcd
    assert {f.where for f in nodes.misplaced_processes(guests.facts(), wanted)} == {"cp-0 etcd", "w-0 etcd"}


def test_a_variable_that_is_missing_is_named() -> None:
    with pytest.raises(HarnessBug, match="cluster_runc_version"):
        guests.expected(variables={k: v for k, v in guests.VARIABLES.items() if k != "cluster_runc_version"})


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"time": 1}'])
def test_what_no_machine_would_say_is_refused(text: str) -> None:
    with pytest.raises(InfraError):
        parse(text)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Kubernetes v1.36.3", "1.36.3"),
        ("containerd github.com/containerd/containerd/v2 v2.4.2 0123abc", "2.4.2"),
        ("runc version 1.5.2\nspec: 1.3.0", "1.5.2"),
        ("CNI bridge plugin v1.9.1\nCNI protocol versions supported: 0.1.0", "1.9.1"),
        ("v1.37.0-rc.1", "1.37.0-rc.1"),
        ("failed: timed out", ""),
        (None, ""),
    ],
)
def test_a_version_is_read_from_what_a_program_says(said: str | None, version: str) -> None:
    assert version_in(said) == version


def test_a_failed_check_says_everything_a_person_needs() -> None:
    found = [Mismatch("cp-0 kubelet", "version '1.36.3'", "'1.35.4'"), Mismatch("w-0", "an answer", "none")]
    with pytest.raises(CheckFailed) as failed:
        require(found, claim="all is well", look="the log", do="vmatrix login cell cp-0")
    assert str(failed.value).splitlines() == [
        "not true: all is well",
        "  - cp-0 kubelet: expected version '1.36.3'; saw '1.35.4'",
        "  - w-0: expected an answer; saw none",
        "look at: the log",
        "type:    vmatrix login cell cp-0",
    ]
