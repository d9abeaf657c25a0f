"""The instance's table as text, and what of it is taken for whole; its effect is tested in real networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.embedded.machines import netns
from harness.embedded.machines.names import Names
from harness.infra.host import firewall


def chain(index: int, name: str) -> list[str]:
    """Return the rules of a chain, its hook first."""
    lines = [line.strip() for line in firewall.rules(index).splitlines()]
    start = lines.index(f"chain {name} {{") + 1
    return lines[start : lines.index("}", start)]


def test_guests_open_connections_to_what_is_served_to_them_alone() -> None:
    icmp = "icmp type { echo-request, echo-reply, destination-unreachable, time-exceeded, parameter-problem }"
    assert chain(3, "from_guests") == [
        "ip daddr 10.216.0.1 tcp dport { 5000, 8080, 5002 } accept",
        'iifname "vmx3h250" ip daddr 10.216.0.1 tcp dport { 6443, 5001 } accept',
        f"ip daddr 10.216.0.0/16 {icmp} accept",
        "ip daddr 10.216.0.0/16 tcp flags & (syn | ack) != syn accept",
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept",
        "ip6 daddr fd76:6d78:d8::1 tcp dport { 5000, 8080 } accept",
        f"ip6 daddr fd76:6d78:d8::/48 {netns.ICMP6} accept",
        "ip6 daddr fd76:6d78:d8::/48 tcp flags & (syn | ack) != syn accept",
        "drop",
    ]


def test_only_the_instances_own_links_are_judged() -> None:
    assert chain(1, "input") == [
        "type filter hook input priority 0; policy accept;",
        'iifname "vmx1h*" jump from_guests',
    ]
    assert chain(1, "forward")[1:] == ['iifname "vmx1h*" drop', 'oifname "vmx1h*" drop']


def test_the_table_is_named_after_the_instance_and_replaced_in_one_step() -> None:
    lines = firewall.rules(12).strip().splitlines()
    assert lines[:3] == ["table inet vmx12", "delete table inet vmx12", "table inet vmx12 {"]


def test_a_table_that_lost_a_rule_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = firewall.rules(2).partition("delete table inet vmx2\n")[2]
    for text, holds in ((whole, True), (whole.replace("        drop\n", ""), False), ("", False)):
        monkeypatch.setattr(firewall, "_listed", lambda *_, text=text, **__: text)
        assert firewall.holds(2) is holds


def test_only_the_very_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "table ip filter\ntable inet vmx1\ntable inet vmx12\ntable bridge vmx1\n"
    monkeypatch.setattr(firewall, "_listed", lambda *_, **__: listed)
    assert firewall.found(1) == ["table inet vmx1"]
    assert firewall.found(2) == []


def test_a_host_without_nft_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert firewall.found(1) == []
    assert not firewall.holds(1)
    firewall.remove(1)


def test_a_kernel_that_does_not_tell_is_not_taken_for_one_without_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "nft"
    broken.write_text("#!/bin/sh\necho cannot >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(proc.CommandFailed, match="nft list tables"):
        firewall.remove(1)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert firewall.found(1) == []


@pytest.fixture(autouse=True)
def _no_legacy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no table of iptables-legacy."""
    monkeypatch.setattr(firewall, "LEGACY", tmp_path / "none")


def ruleset(*items: dict[str, Any]) -> str:
    """Return what nft would list."""
    return json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *items]})


def base(family: str, table: str, name: str, *, hook: str = "input", policy: str = "accept") -> dict[str, Any]:
    """Return a chain that packets come into."""
    return {"chain": {"family": family, "table": table, "name": name, "hook": hook, "policy": policy}}


def rule(family: str, table: str, *statements: dict[str, Any]) -> dict[str, Any]:
    """Return a rule of any chain."""
    return {"rule": {"family": family, "table": table, "chain": "x", "expr": list(statements)}}


def test_chains_that_drop_by_policy_or_by_rule_are_named() -> None:
    listed = ruleset(
        base("ip", "filter", "INPUT", policy="drop"),
        base("ip6", "filter", "INPUT", policy="drop"),
        base("inet", "firewalld", "filter_INPUT"),
        rule("inet", "firewalld", {"match": {}}, {"reject": {"type": "icmpx"}}),
        base("inet", "quiet", "input"),
        rule("inet", "quiet", {"accept": None}),
    )
    assert firewall.dropping_tables(listed, 0) == [
        "nftables: table ip filter, chain INPUT",
        "nftables: table ip6 filter, chain INPUT",
        "nftables: table inet firewalld, chain filter_INPUT",
    ]


def test_what_cannot_drop_it_is_not_named() -> None:
    listed = ruleset(
        base("ip", "filter", "FORWARD", hook="forward", policy="drop"),  # Docker's
        base("arp", "filter", "INPUT", policy="drop"),
        base("inet", "vmx3", "input"),
        rule("inet", "vmx3", {"drop": None}),
    )
    assert firewall.dropping_tables(listed, 3) == []
    assert firewall.dropping_tables(listed, 4) == ["nftables: table inet vmx3, chain input"]
    assert firewall.dropping_tables("", 3) == []


def test_tables_of_iptables_legacy_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("filter\nnat\n", encoding="utf-8")
    monkeypatch.setattr(firewall, "LEGACY", tmp_path / "names")
    assert firewall.dropping_tables("", 0) == ["iptables-legacy: table filter", "iptables-legacy: table nat"]


@pytest.mark.parametrize(
    ("listed", "command"),
    [
        (
            '"chain": "ufw-user-input"',
            "ufw allow proto tcp from 10.215.0.0/16 to 10.215.0.1 port 5000,8080,5002; "
            "ufw allow proto tcp from fd76:6d78:d7::/48 to fd76:6d78:d7::1 port 5000,8080,5002",
        ),
        (
            '"table": "firewalld"',
            "firewall-cmd --zone=trusted --add-source=10.215.0.0/16 --add-source=fd76:6d78:d7::/48",
        ),
        (
            "",
            "let TCP from 10.215.0.0/16 to 10.215.0.1 and from fd76:6d78:d7::/48 to fd76:6d78:d7::1, "
            "ports 5000,8080,5002, in: nft list ruleset; iptables-legacy-save",
        ),
    ],
)
def test_the_remedy_is_the_command_of_the_firewall_that_is_there(listed: str, command: str) -> None:
    assert firewall.let_guests_through(listed, Names(2)) == command


def test_the_network_that_is_tried_is_nobodys() -> None:
    names = Names(2)
    assert str(names.probe_network) == "10.215.251.0/24"
    with pytest.raises(ValueError, match=r"not in 1\.\.250"):
        names.network(251)
