"""Requests of git servers: each provider's signature, replays, events and refs that do not matter, bodies too large."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.kube.client import ApiFailure
from harness.kube.resources import SECRET
from harness.operator.api.delivery import GitSource
from harness.operator.api.resources import DELIVERY
from harness.operator.controllers.gitwebhooks import (
    EVENTS,
    IGNORED,
    MOST_BYTES,
    REFUSED,
    REPEATED,
    SIGNED,
    TAKEN,
    GitReceiver,
    GitRequest,
    author_of,
    concerns,
    refs_of,
    served,
)
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.deliveries import GIT, delivery

Json = dict[str, Any]
KEY, SECRET_TEXT, NOW = ("team", "shop"), b"s3cret", 1_800_000_000.0
PUSH: dict[str, Json] = {
    "GitHub": {"ref": "refs/heads/main", "pusher": {"name": "alice"}},
    "GitLab": {"ref": "refs/heads/main", "user_username": "alice"},
    "Bitbucket": {
        "push": {"changes": [{"new": {"type": "branch", "name": "main"}}]},
        "actor": {"nickname": "alice"},
    },
}


def hub(body: bytes, secret: bytes = SECRET_TEXT) -> str:
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def standard(body: bytes, key: bytes, *, at: float = NOW, name: str = "id-1") -> dict[str, str]:
    """Return the headers of Standard Webhooks."""
    stamp = str(int(at))
    text = f"{name}.{stamp}.".encode() + body
    made = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": f"v1,AAAA v1,{made}"}


def signed(provider: str, body: bytes, secret: bytes = SECRET_TEXT) -> dict[str, str]:
    """Return the headers with which a provider signs a request."""
    if provider == "GitHub":
        return {"x-hub-signature-256": hub(body, secret)}
    return {"x-hub-signature": hub(body, secret)} if provider == "Bitbucket" else {"x-gitlab-token": secret.decode()}


def push(provider: str, *, secret: bytes = SECRET_TEXT, event: str | None = None, **content: Any) -> GitRequest:
    """Return the request of a push."""
    body = json.dumps({**PUSH[provider], **content}).encode()
    header, events = EVENTS[provider]  # type: ignore[index]
    return GitRequest({header: event or events[0], **signed(provider, body, secret)}, body)


def receiver(provider: str, *, namespace: str | None = None, **source: Any) -> tuple[GitReceiver, FakeCluster]:
    """Return a receiver for one Delivery, and the API."""
    webhook = {"provider": provider, "secretRef": {"name": "hook", "key": "token"}}
    body = delivery(source={"webhook": webhook, **source})
    data = {"token": base64.b64encode(SECRET_TEXT + b"\n").decode()}
    api = FakeCluster({DELIVERY: [body], SECRET: [SECRET.manifest("hook", "team", labels={}, data=data)]})
    return GitReceiver(api, namespace, lambda: NOW), api


def annotated(api: FakeCluster) -> Json:
    found = api.get(DELIVERY, "shop", "team") or {}
    return {name.rpartition("/")[2]: said for name, said in (found["metadata"].get("annotations") or {}).items()}


@pytest.mark.parametrize("provider", SIGNED)
def test_a_signed_push_has_the_repository_looked_at_and_says_who_pushed(provider: str) -> None:
    judge, api = receiver(provider)
    request = push(provider)
    assert judge.answer(KEY, request) == TAKEN
    assert annotated(api) == {"reconcile": request.digest, "pushed-by": f"alice {request.digest}"}


@pytest.mark.parametrize("provider", SIGNED)
def test_the_same_request_has_no_effect_twice(provider: str) -> None:
    judge, api = receiver(provider)
    assert judge.answer(KEY, push(provider)) == TAKEN
    before = api.get(DELIVERY, "shop", "team")
    again = push(provider)
    again = GitRequest({**again.headers, "x-github-delivery": "another"}, again.body)
    assert judge.answer(KEY, again) == REPEATED
    assert api.get(DELIVERY, "shop", "team") == before
    assert judge.answer(KEY, push(provider, after="f" * 40)) == TAKEN


@pytest.mark.parametrize("provider", SIGNED)
def test_a_request_by_nobody_is_refused_and_learns_nothing(provider: str) -> None:
    judge, api = receiver(provider)
    good = push(provider)
    wrong = {
        "another secret": push(provider, secret=b"other"),
        "no signature": GitRequest({EVENTS[provider][0]: EVENTS[provider][1][0]}, good.body),  # type: ignore[index]
        "no ASCII": GitRequest({**good.headers, **dict.fromkeys(signed(provider, b""), "é\udcff")}, good.body),
    }
    if provider != "GitLab":  # whose token says nothing of the body
        wrong["another body"] = GitRequest(good.headers, good.body + b" ")
    for request in wrong.values():
        assert judge.answer(KEY, request) == REFUSED
    assert judge.answer(("team", "other"), good) == judge.answer(("other", "shop"), good) == REFUSED
    assert annotated(api) == {}


def test_a_delivery_without_a_webhook_or_a_secret_hears_nobody() -> None:
    judge, api = receiver("GitHub")
    api.put(DELIVERY, delivery())
    assert judge.answer(KEY, push("GitHub")) == REFUSED
    for data in ({}, {"token": ""}):
        judge, api = receiver("GitHub")
        api.put(SECRET, SECRET.manifest("hook", "team", labels={}, data=data))
        assert judge.answer(KEY, push("GitHub", secret=b"")) == REFUSED, "an empty secret signs nothing"
    judge, api = receiver("GitHub")
    api.delete(SECRET, "hook", "team")
    assert judge.answer(KEY, push("GitHub")) == REFUSED


def test_a_manager_of_one_namespace_hears_of_no_other() -> None:
    judge, _ = receiver("GitHub", namespace="other")
    assert judge.answer(KEY, push("GitHub")) == REFUSED
    judge, _ = receiver("GitHub", namespace="team")
    assert judge.answer(KEY, push("GitHub")) == TAKEN


@pytest.mark.parametrize("secret", [SECRET_TEXT, b"whsec_" + base64.b64encode(b"0123456789abcdef")])
def test_gitlab_may_sign_as_standard_webhooks_do(secret: bytes) -> None:
    key = b"0123456789abcdef" if secret.startswith(b"whsec_") else secret
    body = json.dumps(PUSH["GitLab"]).encode()
    check = SIGNED["GitLab"]
    assert check(GitRequest(standard(body, key), body), secret, NOW)
    assert check(GitRequest(standard(body, key, at=NOW - 299), body), secret, NOW)
    token = {"x-gitlab-token": secret.decode()}
    refused = {
        "old": GitRequest(standard(body, key, at=NOW - 301), body),
        "of the future": GitRequest(standard(body, key, at=NOW + 301), body),
        "another body": GitRequest(standard(body, key), body + b" "),
        "another id": GitRequest({**standard(body, key), "webhook-id": "id-2"}, body),
        "no time": GitRequest({**standard(body, key), "webhook-timestamp": "now"}, body),
        "a wrong signature beside a token": GitRequest({**standard(body, b"other"), **token}, body),
    }
    for name, request in refused.items():
        assert not check(request, secret, NOW), name


@pytest.mark.parametrize("provider", SIGNED)
def test_events_that_bring_no_commit_are_ignored(provider: str) -> None:
    judge, api = receiver(provider)
    assert judge.answer(KEY, push(provider, event="ping")) == IGNORED
    assert annotated(api) == {}


@pytest.mark.parametrize("provider", SIGNED)
def test_a_push_to_another_branch_is_ignored(provider: str) -> None:
    judge, api = receiver(provider, branch="release")
    assert judge.answer(KEY, push(provider)) == IGNORED
    assert annotated(api) == {}


def source(**fields: Any) -> GitSource:
    return GitSource.model_validate({"git": GIT, **fields})


def test_which_pushes_concern_a_delivery() -> None:
    assert concerns(source(), ["refs/heads/any"])
    assert concerns(source(branch="main"), [])
    assert concerns(source(branch="main"), ["main"])
    assert concerns(source(tag="v1"), ["refs/heads/main", "refs/tags/v1"])
    assert not concerns(source(tag="v1"), ["refs/heads/v1"])
    assert not concerns(source(revision="0" * 40), ["refs/heads/main"])


def test_refs_and_authors_of_all_forms() -> None:
    server = {"changes": [{"ref": {"id": "refs/heads/x"}}], "actor": {"name": "bob"}}
    assert refs_of("Bitbucket", server) == ["refs/heads/x"]
    assert refs_of("Bitbucket", {"push": {"changes": [{"new": {"type": "tag", "name": "v1"}}, {"new": None}]}}) == [
        "refs/tags/v1"
    ]
    assert refs_of("GitHub", {"ref": 7}) == []
    assert author_of("Bitbucket", server) == "bob"
    assert author_of("GitHub", {}) == "GitHub"
    assert author_of("GitHub", {"sender": {"login": "x" * 300}}) == "x" * 200


def test_a_body_that_is_no_json_still_tells_of_news() -> None:
    judge, _ = receiver("GitHub")
    body = b"payload=%7B%7D"
    assert judge.answer(KEY, GitRequest({"x-github-event": "push", **signed("GitHub", body)}, body)) == TAKEN


def test_what_the_api_has_not_taken_is_heard_once_more() -> None:
    judge, api = receiver("GitHub")
    api.refusals["PATCH deliveries"] = ApiFailure(500, "InternalError", "no", [], request="PATCH")
    with pytest.raises(ApiFailure):
        judge.answer(KEY, push("GitHub"))
    api.refusals.clear()
    assert judge.answer(KEY, push("GitHub")) == TAKEN


@pytest.fixture
def port() -> Iterator[int]:
    """Return the port of a server with one Delivery, that of GitHub."""
    server = served(receiver("GitHub")[0], 0)
    yield server.server_port
    server.shutdown()
    server.server_close()


def asked(port: int, path: str, body: bytes = b"", method: str = "POST", **headers: str) -> tuple[int, str]:
    """Send a request; return status and text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(body or None)
    answer = connection.getresponse()
    told = answer.status, answer.read().decode()
    connection.close()
    return told


def test_requests_over_http(port: int) -> None:
    request = push("GitHub")
    headers = {name.replace("-", "_"): value for name, value in request.headers.items()}
    length = str(len(request.body))
    assert asked(port, "/deliveries/team/shop", request.body, Content_Length=length, **headers)[0] == 202
    assert asked(port, "/deliveries/team/shop?x=y", request.body, Content_Length=length, **headers)[0] == 200
    assert asked(port, "/deliveries/team/shop", b"{}", Content_Length="2")[0] == 403
    assert asked(port, "/deliveries/team", b"{}", Content_Length="2")[0] == 404
    assert asked(port, "/deliveries/team/../shop", b"{}", Content_Length="2")[0] == 404
    assert asked(port, "/deliveries/team/shop")[0] == 411
    assert asked(port, "/deliveries/team/shop", Content_Length="-1")[0] == 411
    assert asked(port, "/deliveries/team/shop", Content_Length="9" * 5000)[0] == 411
    assert asked(port, "/deliveries/team/shop", Content_Length=str(MOST_BYTES + 1))[0] == 413
    assert asked(port, "/deliveries/team/shop", method="GET")[0] == 501
