"""Flags and settings that are not as the benchmark asks are found; a waiver takes away its control alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.spec.controls import Waiver
from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.topics.hardening.benchmark import against, loose_flags, loose_kubelets, unwaived
from harness.validate.topics.kubeadm import wanted_flags
from harness.validate.variables import hardened_flags, hardened_kubelet
from tests.unit.validate import guests
from tests.unit.validate.guests import Json
from tests.unit.validate.hardened import PROFILE, expected

ONE = Mismatch("here", "a", "b")
WAIVERS = (Waiver(control="1.2.9", reason="elsewhere"),)


def test_what_is_only_against_waived_controls_is_not_judged() -> None:
    (found,) = unwaived(against("1.2.9", [ONE]), WAIVERS)
    assert isinstance(found, Unjudged)
    assert "CIS 1.2.9 (Ensure that the admission control plugin EventRateLimit is set): waived: elsewhere" in str(found)


def test_everything_else_stays() -> None:
    kept = unwaived([*against("1.2.9 1.2.1", [ONE]), *against("1.2.1", [ONE]), ONE], WAIVERS)
    assert list(map(str, real(kept))) == [
        "CIS 1.2.9, 1.2.1: here: expected a; saw b",
        "CIS 1.2.1: here: expected a; saw b",
        "here: expected a; saw b",
    ]


GOOD: Json = {
    "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": "/ca.crt"}},
    "authorization": {"mode": "Webhook"},
    "streamingConnectionIdleTimeout": "4h0m0s",
    "makeIPTablesUtilChains": True,
    "eventRecordQPS": 50,
    "rotateCertificates": True,
    "podPidsLimit": 4096,
    "seccompDefault": True,
}


def with_flags(change: Callable[[str, dict[str, str]], None] | None = None) -> Callable[[Json], None]:
    """Return what lets the programs of the recorded control plane run with the flags that they must have."""

    def edit(raw: Json) -> None:
        for process in raw["processes"]:
            flags = wanted_flags(process["name"], "cp-0", expected())
            if change is not None:
                change(process["name"], flags)
            if flags:
                process["argv"] = [process["name"], *(f"--{name}={value}" for name, value in flags.items())]

    return edit


def test_flags_of_a_hardened_cell_are_those_of_the_benchmark() -> None:
    assert loose_flags(guests.facts(with_flags()), expected()) == []
    assert loose_flags({}, expected())


@pytest.mark.parametrize(
    ("program", "flag", "value", "words"),
    [
        ("kube-apiserver", "authorization-mode", "AlwaysAllow", "CIS 1.2.6: cp-0 kube-apiserver: expected"),
        ("kube-apiserver", "audit-log-maxage", "7", "CIS 1.2.17"),
        ("kube-apiserver", "token-auth-file", "/t", "CIS 1.2.2"),
        ("kube-apiserver", "service-account-extend-token-expiration", "true", "CIS 1.2.30"),
        ("kube-controller-manager", "terminated-pod-gc-threshold", "0", "CIS 1.3.1"),
        ("kube-controller-manager", "bind-address", "10.222.1.2", "CIS 1.3.7"),
        ("etcd", "auto-tls", "true", "CIS 2.3"),
        ("etcd", "client-cert-auth", "false", "CIS 2.2"),
    ],
)
def test_a_loose_flag_is_found(program: str, flag: str, value: str, words: str) -> None:
    def change(name: str, flags: dict[str, str]) -> None:
        if name == program:
            flags[flag] = value

    found = list(map(str, loose_flags(guests.facts(with_flags(change)), expected())))
    assert any(words in one and f"--{flag}={value}" in one for one in found), found


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("readOnlyPort", 10255, "CIS 4.2.4"),
        ("podPidsLimit", -1, "CIS 4.2.13"),
        ("seccompDefault", None, "CIS 4.2.14"),
        ("streamingConnectionIdleTimeout", "0s", "CIS 4.2.5"),
        ("eventRecordQPS", 0, "CIS 4.2.8"),
    ],
)
def test_a_loose_setting_is_found(path: str, value: Any, words: str) -> None:
    settings = {"cp-0": GOOD, "w-0": {**GOOD, path: value}}
    (found,) = loose_kubelets(settings, {}, expected())
    assert words in str(found)


def test_a_kubelet_that_says_nothing_is_found() -> None:
    assert loose_kubelets({"cp-0": GOOD, "w-0": GOOD}, {}, expected()) == []
    (silent,) = loose_kubelets({"cp-0": GOOD}, {"w-0": "403: forbidden"}, expected())
    assert str(silent) == "w-0 kubelet: expected its configuration; saw 403: forbidden"


def test_a_plain_cell_asks_for_nothing_of_it() -> None:
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kubelet"):
        assert hardened_flags(program, guests.VARIABLES) == {}
    assert hardened_kubelet(guests.VARIABLES) == {}
    assert hardened_kubelet(PROFILE)["enableProfilingHandler"] is False
