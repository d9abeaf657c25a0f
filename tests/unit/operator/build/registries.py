"""A registry in memory, in the place of HTTP: what it was sent, and what it answers."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.http_client import NoAnswer, Reply, TooMuch, WebRequest
from harness.operator.build import oci

LOGIN = base64.b64encode(b"builder:secret").decode()


@dataclass
class Registry:
    """Manifests and blobs of repositories, by path.

    Attributes: token (what requests need besides the first), knows_subject (lists referrers), failing (answers left
    that are this status), silent (answers left that do not come).
    """

    token: str = ""
    knows_subject: bool = False
    failing: list[int] = field(default_factory=list)
    silent: int = 0
    content: dict[str, bytes] = field(default_factory=dict)
    requests: list[WebRequest] = field(default_factory=list)

    def ask(self, request: WebRequest, seconds: float, *, largest: int = 0) -> Reply:
        """Answer one request."""
        assert seconds > 0
        self.requests.append(request)
        if self.silent:
            self.silent -= 1
            raise NoAnswer("connection refused")
        if self.failing:
            return reply(self.failing.pop(0))
        url = urlsplit(request.url)
        if url.path == "/token":
            assert request.secrets == {"Authorization": f"Basic {LOGIN}"}
            return reply(200, json.dumps({"token": self.token}).encode())
        if self.token and request.secrets.get("Authorization") != f"Bearer {self.token}":
            realm = f'Bearer realm="{url.scheme}://{url.netloc}/token",service="it",scope="repository:app:pull"'
            return reply(401, headers={"WWW-Authenticate": realm})
        return self._served(request, url.path, parse_qs(url.query), largest)

    def _served(self, request: WebRequest, path: str, query: dict[str, list[str]], largest: int) -> Reply:
        place = path.removeprefix("/v2/")
        if request.method == "POST":
            return reply(202, headers={"Location": f"{path}upload?state=1"})
        if request.method == "PUT":
            digest = query.get("digest", [""])[0]
            repository = place.partition("/manifests/")[0] if not digest else place.partition("/blobs/")[0]
            content = request.content or b""
            assert digest in ("", oci.digest_of(content))
            self.content[f"{repository}/blobs/{digest}" if digest else place] = content
            if not digest:
                self.content[f"{repository}/manifests/{oci.digest_of(content)}"] = content
            known = self.knows_subject and b'"subject"' in content
            return reply(201, headers={"OCI-Subject": "yes"} if known else {})
        if "/referrers/" in place and self.knows_subject:
            return reply(200, b'{"manifests": [{"artifactType": "x"}]}')
        found = self.content.get(place)
        if found is None or request.method == "HEAD":
            return reply(404 if found is None else 200)
        if len(found) > largest:
            raise TooMuch("the answer is too large")
        return reply(200, found)


def reply(status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> Reply:
    """Return an answer."""
    made = Message()
    for name, value in (headers or {}).items():
        made[name] = value
    return Reply(status, "so", made, content)


def played(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> Registry:
    """Have a registry answer all requests."""
    monkeypatch.setattr(oci, "ask", registry.ask)
    return registry
