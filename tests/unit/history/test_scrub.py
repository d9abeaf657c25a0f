"""Texts lose what looks like a secret."""

from __future__ import annotations

import pytest

from harness.history.scrub import scrubber

SECRETS = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n-----END OPENSSH PRIVATE KEY-----",
    "https://user:hunter22hunter@registry.invalid/x",
    "Authorization: Bearer abcdefghijklmnop.qrstuv",
    "glpat-abcdefghij0123456789",
    "client-key-data: TFMwdExTMUNSVWRKVGlCU1UwRWdVRkpKVmtGVVJTQkxSVmt0TFMwdExRbz0=",
    "the token is t0psecr3tvalue",
)


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    scrub = scrubber({"SOME_TOKEN": "t0psecr3tvalue", "PATH": "/usr/bin"})
    found = scrub(f"before {text} after")
    assert "[masked]" in found
    assert not any(word in found for word in ("b3Blbn", "hunter22", "qrstuv", "abcdefghij", "TFMwd", "t0psecr3t"))
