"""What a firewall that drops guests' packets is called, and how they are let through it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.embedded.machines.names import Names
from harness.infra.host import foreign


@pytest.fixture(autouse=True)
def _no_legacy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no table of iptables-legacy."""
    monkeypatch.setattr(foreign, "LEGACY", tmp_path / "none")


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
    assert foreign.suspects(listed, 0) == [
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
    assert foreign.suspects(listed, 3) == []
    assert foreign.suspects(listed, 4) == ["nftables: table inet vmx3, chain input"]
    assert foreign.suspects("", 3) == []


def test_tables_of_iptables_legacy_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("filter\nnat\n", encoding="utf-8")
    monkeypatch.setattr(foreign, "LEGACY", tmp_path / "names")
    assert foreign.suspects("", 0) == ["iptables-legacy: table filter", "iptables-legacy: table nat"]


@pytest.mark.parametrize(
    ("listed", "command"),
    [
        (
            '"chain": "ufw-user-input"',
            "ufw allow proto tcp from 10.215.0.0/16 to 10.215.0.1 port 5000,8080; "
            "ufw allow proto tcp from fd76:6d78:d7::/48 to fd76:6d78:d7::1 port 5000,8080",
        ),
        (
            '"table": "firewalld"',
            "firewall-cmd --zone=trusted --add-source=10.215.0.0/16 --add-source=fd76:6d78:d7::/48",
        ),
        (
            "",
            "let TCP from 10.215.0.0/16 to 10.215.0.1 and from fd76:6d78:d7::/48 to fd76:6d78:d7::1, "
            "ports 5000,8080, in: nft list ruleset; iptables-legacy-save",
        ),
    ],
)
def test_the_remedy_is_the_command_of_the_firewall_that_is_there(listed: str, command: str) -> None:
    assert foreign.remedy(listed, Names(2)) == command


def test_the_network_that_is_tried_is_nobodys() -> None:
    names = Names(2)
    assert str(names.probe_network) == "10.215.251.0/24"
    with pytest.raises(ValueError, match=r"not in 1\.\.250"):
        names.network(251)
