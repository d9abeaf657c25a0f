"""What a registry's refusal means for the person who pushes."""

from __future__ import annotations

import pytest

from harness.artifacts.own.push_errors import check_name, explained
from harness.errors import BadInput, InfraError, VmatrixError
from harness.proc import CommandFailed, Completed

# What crane 0.22.1 says, as it was seen.
REFUSED = "Error: HEAD https://h/v2/vmatrix/manifests/1: unexpected status code 401 Unauthorized (HEAD responses ...)"
DENIED = "Error: POST https://h/v2/vmatrix/blobs/uploads/: DENIED: requested access to the resource is denied"
PLAIN = 'Error: Get "https://h/v2/": http: server gave HTTP response to HTTPS client'
CERTIFICATE = (
    'Error: Get "https://h/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority'
)
READ_ONLY = "Error: POST http://h/v2/vmatrix/blobs/uploads/: UNSUPPORTED: The operation is unsupported."
ABSENT = 'Error: Get "https://h/v2/": dial tcp: lookup h on 10.0.0.53:53: no such host'
OTHER = "Error: PUT https://h/v2/vmatrix/blobs/uploads/1: unexpected status code 507 Insufficient Storage"


@pytest.mark.parametrize(
    ("said", "kind", "meaning", "remedy"),
    [
        (REFUSED, BadInput, "refused user me", "--user and --password"),
        (DENIED, BadInput, "refused user me", "may push there"),
        (PLAIN, BadInput, "plain HTTP", "add --insecure"),
        (CERTIFICATE, BadInput, "not trusted", "SSL_CERT_FILE"),
        (READ_ONLY, BadInput, "only serves pulls", "--publish"),
        (ABSENT, InfraError, "does not answer", "check its address"),
        (OTHER, InfraError, "did not take it", "see what it answered"),
    ],
)
def test_each_answer_has_its_meaning_and_its_remedy(
    said: str, kind: type[VmatrixError], meaning: str, remedy: str
) -> None:
    failed = CommandFailed(Completed(("crane", "push"), 1, "", said, 0.1), why="ended with status 1")
    found = explained("h/vmatrix:1", "me", failed)
    assert type(found) is kind
    assert found.summary.startswith("h/vmatrix:1 could not be pushed: the registry")
    assert meaning in found.summary
    assert remedy in found.hint
    assert found.detail == said
    assert "crane push" not in found.summary


def test_nobody_is_named_who_was_not_given() -> None:
    failed = CommandFailed(Completed(("crane",), 1, "", REFUSED, 0.1), why="ended with status 1")
    assert explained("h/vmatrix:1", "", failed).summary.endswith("refused a push without --user")


@pytest.mark.parametrize(
    "name", ["h", "h:5000", "registry.example.org/group/my_project", "10.0.0.1:5000/a-b.c/", "H/x"]
)
def test_registries_are_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "https://h", "h/Group", "h:x", "h//x", "h/x/vmatrix:1", "-h", "h /x"])
def test_what_is_no_registry_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="is no registry"):
        check_name(name)
