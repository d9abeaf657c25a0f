"""Pushing vmatrix's image, and why a registry does not take it."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from harness.artifacts.own import push as pushing
from harness.artifacts.own.push import check_name, explained
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Artifact, Store
from harness.errors import BadInput, InfraError, VmatrixError
from harness.proc import CommandFailed, Completed

CRANE = """\
#!/bin/sh
echo "$@" >>{0}/calls
test -z "$DOCKER_CONFIG" || {{ cp "$DOCKER_CONFIG/config.json" {0}/config.json; echo "$DOCKER_CONFIG" >{0}/folder; }}
exit {1}
"""


@pytest.fixture
def image(tmp_path: Path) -> Artifact:
    return Artifact(Ref("image/vmatrix", "1-abc"), "image", tmp_path / "image", {"digest": "sha256:1"})


def crane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
    program = tmp_path / "crane"
    program.write_text(CRANE.format(tmp_path, status))
    program.chmod(stat.S_IRWXU)
    monkeypatch.setattr(pushing, "crane", lambda _store: program)
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)


def test_an_image_is_pushed_under_each_tag(tmp_path: Path, image: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    crane(tmp_path, monkeypatch)
    pushing.push(image, "host:5000/group", ["1-abc", "main"], Store(), login=pushing.Login(), insecure=True)
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"push --insecure {tmp_path}/image/files host:5000/group/vmatrix:1-abc",
        f"push --insecure {tmp_path}/image/files host:5000/group/vmatrix:main",
    ]
    assert not (tmp_path / "config.json").exists()


def test_a_log_in_is_told_to_the_registry_alone(
    tmp_path: Path, image: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane(tmp_path, monkeypatch)
    pushing.push(image, "host/group", ["1"], Store(), login=pushing.Login("me", "secret"), insecure=False)
    told = json.loads((tmp_path / "config.json").read_text())
    assert base64.b64decode(told["auths"]["host"]["auth"]) == b"me:secret"
    assert "secret" not in (tmp_path / "calls").read_text()
    assert not os.path.exists((tmp_path / "folder").read_text().strip())


def test_a_registry_that_refuses_is_the_infrastructures(
    tmp_path: Path, image: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane(tmp_path, monkeypatch, status=1)
    with pytest.raises(InfraError, match="host/vmatrix:1 could not be pushed"):
        pushing.push(image, "host", ["1"], Store(), login=pushing.Login(), insecure=False)


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
    with pytest.raises(BadInput, match="is not a registry"):
        check_name(name)
