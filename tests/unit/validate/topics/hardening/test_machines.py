"""A machine that is open anywhere is found, with the control that it is against; so are Secrets and audit logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch
from harness.validate.topics.hardening import machines as judge
from harness.validate.topics.hardening.facts import HardeningFacts
from harness.validate.topics.hardening.machines import readable_secrets, unaudited
from tests.unit.validate.guests import Json
from tests.unit.validate.hardened import MADE, expected, seen

Seen = Mapping[str, HardeningFacts]
Judge = Callable[[Seen, ExpectedGuest], list[Mismatch]]


def profiles(facts: Seen, guest: ExpectedGuest) -> list[Mismatch]:
    return judge.shown_profiles(facts, {"cp-0": 405, "w-0": 404}, guest)


JUDGES: dict[str, Judge] = {
    "files": judge.open_to_others,
    "listeners": judge.weak_listeners,
    "strangers": judge.served_strangers,
    "kubelets": judge.kubelets_for_strangers,
    "signed": judge.unsigned_kubelets,
    "etcd": judge.etcd_for_strangers,
    "profiles": profiles,
}


def put(*path: str, value: object) -> Callable[[Json], None]:
    """Return what changes one thing that a machine prints."""

    def change(raw: Json) -> None:
        at: Any = raw
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


@pytest.mark.parametrize("name", JUDGES)
def test_only_a_well_guest_passes(name: str) -> None:
    assert JUDGES[name](seen(), expected()) == []
    assert JUDGES[name]({}, expected())


@pytest.mark.parametrize(
    ("name", "machine", "change", "words"),
    [
        (
            "files",
            "w-0",
            put("rights", "4.1.9", value={"/c": [0o644, 0, 0]}),
            "CIS 4.1.9: w-0 /c: expected permissions 0600",
        ),
        (
            "files",
            "w-0",
            put("rights", "4.1.9", value={}),
            "CIS 4.1.9: w-0 /var/lib/kubelet/config.yaml: expected a file",
        ),
        ("files", "cp-0", put("rights", "1.1.14", value={"/a": [0o600, 1, 0]}), "CIS 1.1.14: cp-0 /a: expected owner"),
        (
            "listeners",
            "cp-0",
            put("listeners", "etcd 2379", "old", value=["accepted", "TLSv1"]),
            "CIS 1.2.29: cp-0 etcd",
        ),
        (
            "listeners",
            "w-0",
            put("listeners", "kubelet 10250", "weak", value=["accepted", "x"]),
            "CIS 4.2.12: w-0 kubelet",
        ),
        (
            "listeners",
            "w-0",
            put("listeners", "kubelet 10250", "old", value=["failed", "no route"]),
            "saw failed (no route)",
        ),
        ("listeners", "w-0", put("listeners", "kubelet 10250", "new", value=["refused", "x"]), "accepts TLS 1.3"),
        ("listeners", "w-0", put("listeners", value={}), "w-0 kubelet 10250: expected a listener; saw none"),
        ("strangers", "cp-0", put("strangers", "/version", value=200), "CIS 1.2.1: cp-0 GET /version without"),
        ("strangers", "cp-0", put("strangers", "/livez", value=401), "GET /livez without credentials: expected 200"),
        ("strangers", "cp-0", put("strangers", value={}), "expected 401; saw 0"),
        ("kubelets", "w-0", put("kubelet", "strangers", "/pods", value=403), "CIS 4.2.1, 4.2.2: w-0 kubelet GET /pods"),
        ("kubelets", "w-0", put("kubelet", "read_only", value=True), "CIS 4.2.4: w-0 kubelet: expected no read-only"),
        ("kubelets", "w-0", put("kubelet", value={}), "expected a running kubelet; saw none"),
        ("signed", "w-0", put("kubelet", "unsigned", value="self-signed"), "CIS 1.2.5, 4.2.9, 4.2.11: w-0 kubelet"),
        ("etcd", "cp-0", put("etcd_strangers", "etcd 2380", value=["accepted", "TLSv1.3"]), "CIS 2.5: cp-0 etcd 2380"),
        ("etcd", "cp-0", put("etcd_strangers", value={}), "saw failed (it does not run)"),
        (
            "profiles",
            "cp-0",
            put("profiles", "kube-scheduler", value=200),
            "CIS 1.4.1: cp-0 kube-scheduler: expected 404",
        ),
        (
            "profiles",
            "cp-0",
            put("profiles", value={}),
            "CIS 1.2.15: cp-0 kube-apiserver: expected 404 for a profile; saw 0",
        ),
    ],
)
def test_what_is_open_is_found(name: str, machine: str, change: Callable[[Json], None], words: str) -> None:
    found = JUDGES[name](seen(change, of=machine), expected())
    assert any(words in str(one) for one in found), list(map(str, found))


def test_a_kubelet_that_shows_its_profile_is_found() -> None:
    (found,) = judge.shown_profiles(seen(), {"cp-0": 405, "w-0": 200}, expected())
    assert str(found) == "w-0 kubelet: expected 404 or 405 for a profile; saw 200"


def test_a_cell_of_the_newest_version_accepts_no_other() -> None:
    newest = expected(cluster_tls_minimum="VersionTLS13", cluster_tls_cipher_suites=[])
    assert {one.seen for one in judge.weak_listeners(seen(), newest)} == {
        "accepted (TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256)"
    }


OTHER = "/registry/secrets/kube-system/other"


def test_only_sealed_secrets_and_an_audit_log_pass() -> None:
    assert readable_secrets(seen(), MADE, expected()) == []
    assert unaudited(seen(), expected()) == []
    assert readable_secrets({}, MADE, expected())
    assert unaudited({}, expected())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["stored"]["sealed"].update({OTHER: ""}), f"etcd {OTHER}: expected encrypted by secretbox"),
        (lambda raw: raw["stored"]["sealed"].update({OTHER: "secretbox:v1:key-old"}), "saw secretbox:v1:key-old"),
        (lambda raw: raw["stored"].update(shown=[MADE]), "no readable content; saw what was written into it"),
        (lambda raw: raw["stored"].update(sealed={}), f"expected {MADE}, which was just made; saw no such key"),
        (lambda raw: raw.update(stored={"error": "0: refused"}), "expected Secrets; saw 0: refused"),
        (lambda raw: raw.update(stored=None), "saw no etcd runs"),
    ],
)
def test_a_secret_that_can_be_read_is_found(change: Callable[[Json], None], words: str) -> None:
    found = list(map(str, readable_secrets(seen(change), MADE, expected())))
    assert any(words in one for one in found), found
    assert all(one.startswith("CIS 1.2.27, 1.2.28: ") for one in found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["audited"].update(events=[]), "CIS 1.2.16, 3.2.1, 3.2.2: cp-0 /var/log/kubernetes/audit.log"),
        (lambda raw: raw["audited"]["events"][0].__setitem__(3, None), "saw 1 events of it"),
        (lambda raw: raw["audited"].update(path="", events=[]), "saw no --audit-log-path"),
        (lambda raw: raw["audited"].update(leaked=2), "CIS 3.2.2: cp-0"),
        (lambda raw: raw["audited"].update(status=403), "expected 404; saw 403"),
        (lambda raw: raw.update(audited=None), "expected a running API server; saw none"),
    ],
)
def test_a_request_that_nobody_wrote_down_is_found(change: Callable[[Json], None], words: str) -> None:
    found = list(map(str, unaudited(seen(change), expected())))
    assert any(words in one for one in found), found
