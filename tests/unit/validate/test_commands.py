"""Every command that a failed check prints is one that a shell takes: nothing is left to be filled in."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from harness.validate.commands import etcdctl, on_machine
from harness.validate.findings import CheckFailed, Mismatch, require
from tests.faults.commands import MAKERS, line_of, printed
from tests.unit.validate import guests

OURS = replace(guests.expected(), options=("--infra-name", "lab"))
FOUND = [
    Mismatch("w-0 kube-proxy", "a rule for 10.95.0.10 udp 53", "none"),
    Mismatch("cp-0 /etc/kubernetes/pki/etcd/server.crt", "net.ipv4.ip_forward", "api-endpoint.service"),
    Mismatch("pod kube-system/etcd-cp-0", "x", "10.243.1.7"),
]
COMMANDS = list(printed())
NO_COMMAND = ("give the setting another value in matrix/scenarios.yml",)  # what a person edits


def test_every_check_says_what_to_type() -> None:
    assert len(COMMANDS) > 100
    assert {maker for _, maker, _ in COMMANDS} == {"text", *MAKERS}


@pytest.mark.parametrize(("where", "maker", "texts"), COMMANDS, ids=[one[0] for one in COMMANDS])
@pytest.mark.parametrize("found", [FOUND, [Mismatch("the cluster", "x", "y")]], ids=["named", "nothing-named"])
def test_every_command_is_whole(where: str, maker: str, texts: tuple[str, ...], found: list[Mismatch]) -> None:
    line = line_of(maker, texts, OURS, found)
    if line in NO_COMMAND:
        return
    for part in line.split("; ") if maker == "kubectl" else [line]:
        words = shlex.split(part)  # raises ValueError for a quote that nobody closes
        assert words[0] in ("vmatrix", "kubectl", "grep"), where  # grep: in a log that was collected
        assert "None" not in words
        assert not re.search(
            r"\b(MACHINE|NODE|ADDRESS|FILE|POD|PROGRAM|UNIT|NAME|FOLDER|PORT|SETTING|KEY|CA)\b", part
        ), where
        assert ", then " not in part
        if words[0] == "grep":
            assert words[1:3] == ["-n", "-F"], where
        elif words[0] == "kubectl":
            infra = where.startswith("delivery/") and words[1] == "get"  # an application may be in either cluster
            assert infra or words[1:3] == ["--kubeconfig", "kubeconfig"], where
        else:
            assert words[:2] == ["vmatrix", "login"] or words[:2] == ["vmatrix", "report"], where


def test_a_command_on_a_machine_is_roots_and_names_the_infra_and_the_machine() -> None:
    assert on_machine(OURS, "nft list ruleset")(FOUND) == (
        "vmatrix login --infra-name lab cell-1 w-0 -- sudo nft list ruleset"
    )
    assert on_machine(OURS, "nft list ruleset", "cp-0")(FOUND).split(" -- ")[0].endswith(" cp-0")
    assert on_machine(OURS, "ls")([]).startswith("vmatrix login --infra-name lab cell-1 cp-0 --")


def test_what_only_a_shell_knows_reaches_the_machines_shell_in_one_word() -> None:
    script = "tr '\\0' '\\n' < /proc/$(pidof PROGRAM)/cmdline"
    words = shlex.split(on_machine(OURS, script)(FOUND))
    assert words[-4:] == ["sudo", "sh", "-c", "tr '\\0' '\\n' < /proc/$(pidof kube-proxy)/cmdline"]


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("ADDRESS", "10.222.1.3"),
        ("OTHER", "10.222.1.2"),
        ("FILE", "/etc/kubernetes/pki/etcd/server.crt"),
        ("CERTIFICATE", "/etc/kubernetes/pki/etcd/server.crt"),
        ("KEY", "/etc/kubernetes/pki/etcd/server.key"),
        ("CA", "/etc/kubernetes/pki/ca.crt"),
        ("PROGRAM", "kube-proxy"),
        ("UNIT", "api-endpoint.service"),
        ("SETTING", "net.ipv4.ip_forward"),
        ("POD", "etcd-cp-0"),
        ("NODE", "w-0"),
        ("MACHINE", "w-0"),
        ("DOMAIN", "cluster.local"),
        ("POSTROUTING", "POSTROUTING"),
    ],
)
def test_words_in_capital_letters_are_filled_in_from_what_was_found(word: str, filled: str) -> None:
    assert on_machine(OURS, f"echo {word}")(FOUND).endswith(f"sudo echo {filled}")


def test_etcdctl_runs_where_the_member_is() -> None:
    assert etcdctl(OURS, "member list")(FOUND).startswith(
        "kubectl --kubeconfig kubeconfig -n kube-system exec etcd-cp-0 -- etcdctl --cacert=/etc/kubernetes/pki/etcd/ca"
    )
    external = guests.expected(groups=(("control_plane",), ("etcd",)))
    assert etcdctl(external, "member list")([]).startswith("vmatrix login cell-1 w-0 -- sudo etcdctl")


def test_machines_of_others_are_logged_in_to_by_other_ways() -> None:
    assert on_machine(replace(OURS, cell=""), "ls /")(FOUND) == "on w-0: sudo ls /"


def test_a_failed_check_prints_the_command_for_what_it_found() -> None:
    with pytest.raises(CheckFailed, match="login --infra-name lab cell-1 w-0 -- sudo ip route"):
        require(FOUND, claim="x", look="y", do=on_machine(OURS, "ip route"))
