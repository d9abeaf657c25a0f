"""Kernel settings, identities, names, open ports and next boots that are wrong are found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.kernel import AMONG, KERNEL, LEAST, PORTS, RESERVED, KernelRule, applies
from harness.validate.topics.operating_system import (
    confused_identities,
    open_ports,
    wrong_kernel_settings,
    wrong_names,
)
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate import foreign, guests
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, put
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.on_disk import files
from tests.unit.validate.surrounded import running, setups


def identities(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return confused_identities(seen, wanted, TIMEOUTS.clock_margin)


def clock(ahead: float) -> Change:
    """Return a machine whose clock is ahead of the harness's by so many seconds."""
    return lambda raw: raw.update(began=raw["began"] + ahead, ended=raw["ended"] + ahead)


JUDGES: tuple[Judge, ...] = (
    wrong_kernel_settings,
    identities,
)
FAULTS: list[tuple[Judge, Change]] = [
    (wrong_kernel_settings, put("swaps", ["/dev/sda2 partition 1 0 -2"])),
    (wrong_kernel_settings, lambda raw: raw["sysctls"].update({"net.ipv4.ip_forward": "0"})),
    (
        wrong_kernel_settings,
        lambda raw: raw["sysctls"].update({"net.bridge.bridge-nf-call-iptables": ""}),
    ),
    (identities, put("hostname", "localhost")),
    (identities, put("machine_id", "")),
    (identities, lambda raw: raw.update(machine_id=guests.raw_facts("w-0")["machine_id"])),
    (identities, clock(+3600)),
    (identities, clock(-3600)),
    (identities, clock(TIMEOUTS.clock_margin + 2)),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


def test_machines_that_answer_late_have_right_clocks() -> None:
    """As on a host at load 80: a minute until the program runs on one machine, and one until its answer is here."""

    def late(raw: Json) -> None:
        raw.update(began=raw["began"] + 60, ended=raw["ended"] + 60, answered=raw["answered"] + 120)

    assert identities(guests.facts(late), guests.expected()) == []


def test_clocks_that_are_all_wrong_alike_are_found() -> None:
    seen = {**guests.facts(clock(-90)), "w-0": guests.facts(clock(-90), of="w-0")["w-0"]}
    found = identities(seen, guests.expected())
    assert [one.where for one in found] == ["cp-0", "w-0"]
    assert found[0].seen == "at least 89 s behind"


EXPECTED = guests.expected()


def hosts(*lines: list[str]) -> Change:
    return lambda raw: raw.update(hosts=[["127.0.0.1", "localhost"], *lines])


def test_only_right_names_pass() -> None:
    assert wrong_names(running(), setups(), EXPECTED) == []
    assert wrong_names({}, {}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (hosts(["192.0.2.9", "cp-0"], ["10.222.1.3", "w-0"]), "cp-0 at ['10.222.1.2']; saw ['192.0.2.9']"),
        (hosts(["10.222.1.3", "w-0"]), "cp-0 at ['10.222.1.2']; saw []"),
        (hosts(["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"], ["192.0.2.8", "w-9"]), "saw w-9"),
    ],
)
def test_a_wrong_name_is_found(change: Change, words: str) -> None:
    (found,) = wrong_names(running(change), setups(), EXPECTED)
    assert words in str(found)


def test_another_name_server_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw.update(resolvers=["192.0.2.53"])), EXPECTED)
    assert "w-0 /etc/resolv.conf" in str(found)
    assert "192.0.2.53" in str(found)


def test_another_domain_to_look_for_names_in_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw.update(search=["search example.com"])), EXPECTED)
    assert "domains and options as on cp-0, ['search example.net']; saw ['search example.com']" in str(found)


def test_a_name_of_another_machine_at_the_machine_itself_is_found() -> None:
    lines = hosts(["127.0.0.1", "cp-0"], ["127.0.1.1", "w-0"], ["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"])
    (found,) = wrong_names(running(lines), setups(), EXPECTED)
    assert "w-0 /etc/hosts: expected cp-0 at ['10.222.1.2']; saw ['10.222.1.2', '127.0.0.1']" in str(found)


def test_a_name_that_programs_do_not_find_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw["resolved"].update({"cp-0": []})), EXPECTED)
    assert str(found) == "w-0 getent: expected cp-0 at 10.222.1.2; saw no address"


def test_names_are_not_judged_of_a_product_that_names_no_file() -> None:
    (only,) = wrong_names(running(), setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(only, Unjudged)


def listens(address: str, port: int, program: str) -> Change:
    return lambda raw: raw["listening"].append([address, port, program])


@pytest.mark.parametrize("judge", [open_ports])
def test_only_a_well_guests_ports_and_next_boot_pass(judge: object) -> None:
    assert callable(judge)
    assert judge(files(), guests.expected()) == []
    assert judge({}, guests.expected())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (listens("0.0.0.0", 6445, "haproxy"), "w-0 haproxy: expected only ports 10250, 10256 open to others"),  # noqa: S104 - what was seen
        (listens("*", 10249, "kube-proxy"), "saw *:10249"),
        (listens("10.222.1.3", 2379, "etcd"), "saw 10.222.1.3:2379"),
        (lambda raw: raw.update(listening=[]), "w-0: expected programs of the cluster that listen"),
    ],
)
def test_a_port_that_is_open_beyond_the_role_is_found(change: Change, words: str) -> None:
    (found,) = open_ports(files(change), guests.expected())
    assert words in str(found)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53%lo", "::1"])
def test_loopback_is_for_everybody(address: str) -> None:
    assert open_ports(files(listens(address, 4321, "kubelet")), guests.expected()) == []


def test_ports_are_not_judged_where_the_product_does_not_say_them() -> None:
    wanted = foreign.expected(foreign.UNSAID)
    (ports,) = open_ports(files(listens("*", 9999, "kubelet")), wanted)
    assert isinstance(ports, Unjudged)
    assert ports.whole


WANTED = guests.expected()


def wrong_value(rule: KernelRule) -> str:
    """Return a value that a rule forbids."""
    values = {PORTS: "1024 65535", LEAST: str(rule.value[0] - 1) if rule.value else "", AMONG: "3"}
    return values.get(rule.kind, str(1 - rule.value[0] if rule.value and rule.value[0] < 2 else 7))


@pytest.mark.parametrize("rule", KERNEL, ids=lambda rule: str(rule.setting))
def test_each_rule_of_the_kernel_finds_its_wrong_value(rule: KernelRule) -> None:
    key, value = rule.setting.replace("*", "eth0"), wrong_value(rule)
    assert rule.wrong(value)
    found = wrong_kernel_settings(guests.facts(lambda raw: raw["sysctls"].update({key: value})), WANTED)
    assert bool(found) is applies(rule, WANTED)
    for one in found:
        assert (one.where, one.seen) == ("cp-0", repr(value))
        assert key in one.expected
        assert rule.why in one.expected


@pytest.mark.parametrize(("value", "right"), [("32768 60999", True), ("33000 39000", False), ("10000 29999", True)])
def test_ports_of_connections_are_no_node_ports_and_enough(value: str, right: bool) -> None:
    rule = next(rule for rule in KERNEL if rule.kind == PORTS)
    assert (rule.wrong(value) == "") is right


def test_reserved_ports_may_be_in_the_range() -> None:
    wide = {"net.ipv4.ip_local_port_range": "1024 65535"}
    for reserved, passes in (("30000-32767", True), ("30000-32766", False), ("8080,29000-33000", True)):
        facts = guests.facts(lambda raw, text=reserved: raw["sysctls"].update({**wide, RESERVED: text}))  # type: ignore[misc]
        assert (wrong_kernel_settings(facts, WANTED) == []) is passes


def test_rules_of_products_that_say_nothing_are_fewer() -> None:
    strict = guests.facts(lambda raw: raw["sysctls"].update({"net.ipv4.conf.eth0.rp_filter": "1"}))
    assert wrong_kernel_settings(strict, WANTED)
    found = wrong_kernel_settings(strict, guests.expected(leaves=foreign.UNSAID))
    assert [type(one) for one in found] == [Unjudged]
