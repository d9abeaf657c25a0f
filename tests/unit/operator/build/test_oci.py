"""Manifests and blobs of a registry, its log-ins and its refusals."""

from __future__ import annotations

import base64
import json

import pytest

from harness.http_client import WebRequest
from harness.operator.build import oci
from harness.until import Deadline
from tests.unit.operator.build.registries import LOGIN, Registry, played, reply

CHALLENGE = reply(401, headers={"WWW-Authenticate": 'Bearer realm="https://r.test:5000/token"'})
MANIFEST = {"schemaVersion": 2, "mediaType": oci.MANIFEST, "layers": []}


def repository(**more: str | bool) -> oci.Repository:
    return oci.Repository("r.test:5000", "app", Deadline.after(60), login=LOGIN, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["", "a-token"])
def test_what_is_written_is_read(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    played(monkeypatch, Registry(token=token))
    ours = repository()
    ours.put_blob(b"content")
    raw = oci.document(MANIFEST)
    ours.put_content("tag", raw, oci.MANIFEST)
    digest = oci.digest_of(raw)
    assert ours.blob(oci.digest_of(b"content")) == b"content"
    assert ours.manifest("tag") == ours.manifest(digest) == (MANIFEST, digest)
    assert ours.manifest("other") is None


def test_a_log_in_goes_to_its_registry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = played(monkeypatch, Registry(token="t"))
    repository().manifest("tag")
    first, token, second = registry.requests
    assert first.secrets == token.secrets == {"Authorization": f"Basic {LOGIN}"}
    assert "scope=repository%3Aapp%3Apull%2Cpush" in token.url
    assert second.secrets == {"Authorization": "Bearer t"}


def test_no_log_in_is_sent_in_clear_because_a_challenge_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(token="t")
    monkeypatch.setattr(oci, "ask", lambda request, seconds, largest=0: registry.ask(_clear(request), seconds))
    with pytest.raises(oci.RegistryRefused):
        repository().put_blob(b"x")
    assert not [one for one in registry.requests if "/token" in one.url]


def _clear(request: WebRequest) -> WebRequest:
    return WebRequest(request.url.replace("https:", "http:"), request.method, request.headers, request.secrets)


def test_a_blob_that_is_there_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = played(monkeypatch, Registry())
    ours = repository()
    ours.put_blob(b"x")
    sent = len(registry.requests)
    ours.put_blob(b"x")
    assert [one.method for one in registry.requests[sent:]] == ["HEAD"]


def test_another_content_than_its_digest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = played(monkeypatch, Registry())
    wrong = f"sha256:{'0' * 64}"
    registry.content |= {f"app/manifests/{wrong}": b"{}", f"app/blobs/{wrong}": b"{}"}
    for read in (repository().manifest, repository().blob):
        with pytest.raises(oci.RegistryFailed, match="another"):
            read(wrong)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"null", b"\xff"])
def test_an_answer_that_is_no_object_is_the_registrys_fault(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    registry = played(monkeypatch, Registry())
    registry.content["app/manifests/tag"] = raw
    with pytest.raises(oci.RegistryFailed, match="manifest tag") as failed:
        repository().manifest("tag")
    assert failed.value.hint
    monkeypatch.setattr(oci, "ask", lambda request, *_, **__: reply(200, raw) if "/token" in request.url else CHALLENGE)
    with pytest.raises(oci.RegistryFailed, match="token"):
        repository().manifest("tag")


@pytest.mark.parametrize("knows", [True, False])
def test_referrers_are_found_whether_or_not_the_registry_lists_them(
    monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    played(monkeypatch, Registry(knows_subject=knows))
    ours = repository()
    subject = {"mediaType": oci.MANIFEST, "digest": f"sha256:{'1' * 64}", "size": 2}
    for content in (b"one", b"two"):
        ours.attach(subject, "x", "application/x", content, "2026-01-01T00:00:00Z")
    assert [one["artifactType"] for one in ours.referrers(str(subject["digest"]))] == ["x"]


STATUSES = {
    401: (oci.RegistryRefused, False),
    403: (oci.RegistryRefused, False),
    405: (oci.RegistryRefused, False),
    404: (oci.NotInRegistry, False),
    400: (oci.RegistryFailed, False),
    429: (oci.RegistryUnavailable, True),
    500: (oci.RegistryUnavailable, True),
    503: (oci.RegistryUnavailable, True),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_refusal_says_whether_it_passes(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    played(monkeypatch, Registry(failing=[status, status]))
    kind, passing = STATUSES[status]
    with pytest.raises(oci.RegistryFailed) as failed:
        repository().blob(f"sha256:{'0' * 64}")
    assert (type(failed.value), failed.value.passing) == (kind, passing)
    assert failed.value.reason
    assert failed.value.hint


def test_a_registry_that_is_silent_may_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, Registry(silent=1))
    with pytest.raises(oci.RegistryUnavailable, match="connection refused") as failed:
        repository().manifest("tag")
    assert failed.value.passing


def config(auths: object) -> bytes:
    return json.dumps({"auths": auths}).encode()


LOGINS = {
    "a whole": config({"r.test:5000": {"auth": LOGIN}}),
    "a URL": config({"https://r.test:5000/v2/": {"auth": LOGIN}}),
    "in parts": config({"r.test:5000": {"username": "builder", "password": "secret"}}),
}


@pytest.mark.parametrize("form", LOGINS)
def test_a_log_in_of_container_tools_is_read(form: str) -> None:
    assert oci.login_of(LOGINS[form], "r.test:5000") == LOGIN
    assert oci.login_of(LOGINS[form], "other.test") == ""


@pytest.mark.parametrize("text", [b"no JSON", b"[]", config([]), config({"r.test:5000": {"auth": "?"}}), b"\xff"])
def test_what_is_no_log_in_is_refused(text: bytes) -> None:
    with pytest.raises(oci.RegistryRefused, match="pushSecretRef"):
        oci.login_of(text, "r.test:5000")
    assert oci.login_of(None, "r.test:5000") == ""


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("r.test:5000/a/b", ("r.test:5000", "a/b", "")),
        ("r.test:5000/a:1", ("r.test:5000", "a", "1")),
        ("r.test/a@sha256:0", ("r.test", "a", "sha256:0")),
    ],
)
def test_a_name_has_three_parts(image: str, parts: tuple[str, str, str]) -> None:
    assert oci.split(image) == parts


def test_a_user_of_a_registry_is_not_part_of_what_is_printed() -> None:
    assert base64.b64decode(LOGIN).decode() not in str(repository())
