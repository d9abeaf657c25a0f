"""The instance's table as text, and what of it is taken for whole; its effect is tested in real networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import proc
from harness.embedded.machines import netns
from harness.infra.host import firewall


def chain(index: int, name: str) -> list[str]:
    """Return the rules of a chain, its hook first."""
    lines = [line.strip() for line in firewall.rules(index).splitlines()]
    start = lines.index(f"chain {name} {{") + 1
    return lines[start : lines.index("}", start)]


def test_guests_open_connections_to_the_mirror_and_the_registry_alone() -> None:
    icmp = "icmp type { echo-request, echo-reply, destination-unreachable, time-exceeded, parameter-problem }"
    assert chain(3, "from_guests") == [
        "ip daddr 10.216.0.1 tcp dport { 5000, 8080 } accept",
        'iifname "vmx3h250" ip daddr 10.216.0.1 tcp dport 6443 accept',
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
