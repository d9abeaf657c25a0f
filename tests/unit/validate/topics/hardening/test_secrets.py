"""Secrets that etcd shows, and requests that nobody wrote down, are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.validate.topics.hardening.secrets import readable_secrets, unaudited
from tests.unit.validate.guests import Json
from tests.unit.validate.hardened import MADE, expected, seen

OTHER = "/registry/secrets/kube-system/other"


def test_only_a_well_guest_passes() -> None:
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
