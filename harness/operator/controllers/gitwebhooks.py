"""Git webhooks: git servers tell of pushes, and the Delivery that is meant looks at its repository at once.

Nothing of a request is believed but that there is news: which revision is the newest, git says. So whoever could forge
or repeat one would cause a look that comes anyway. A request is refused all the same where it is not signed with the
Delivery's Secret, and the same one has no effect twice.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any

from harness.errors import BadInput, VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.informer import Key
from harness.kube.objects import deleting, dig
from harness.kube.resources import SECRET
from harness.kube.serving import AnsweringHandler
from harness.operator.api.delivery import GitSource, Provider, read_delivery
from harness.operator.api.resources import DELIVERY, PUSHED_BY_ANNOTATION, RECONCILE_ANNOTATION
from harness.operator.context import OperatorContext

log = logging.getLogger(__name__)
PATH = re.compile(r"/deliveries/([a-z0-9][a-z0-9-]{0,62})/([a-z0-9][a-z0-9-]{0,62})")
NUMBER = re.compile(r"[0-9]{1,12}")
MOST_BYTES = 5 << 20  # of a request: a push of a thousand commits has less than half of it
SILENT_SECONDS = 10.0  # of whoever sends a request
MOST_AGE_SECONDS = 300.0  # of a request that says when it was signed, as Standard Webhooks recommends
REMEMBERED = 4096  # requests
Headers = Mapping[str, str]  # by name in lower-case letters


@dataclass(frozen=True)
class GitRequest:
    """One request. headers: by their names in lower-case letters."""

    headers: Headers
    body: bytes

    @property
    def digest(self) -> str:
        """Return what a repetition has in common with it: only what is signed, so not the headers."""
        return hashlib.sha256(self.body).hexdigest()[:32]


def _hub(request: GitRequest, secret: bytes, header: str) -> bool:
    """Tell whether a header has the HMAC of the body."""
    signature = "sha256=" + hmac.new(secret, request.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(signature.encode(), request.headers.get(header, "").encode("utf-8", "replace"))


def signed_by_github(request: GitRequest, secret: bytes, _: float) -> bool:
    """https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries"""
    return _hub(request, secret, "x-hub-signature-256")


def signed_by_bitbucket(request: GitRequest, secret: bytes, _: float) -> bool:
    """https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/ and Data Center's are signed alike."""
    return _hub(request, secret, "x-hub-signature")


def signed_by_gitlab(request: GitRequest, secret: bytes, now: float) -> bool:
    """https://docs.gitlab.com/user/project/integrations/webhooks/: a signing token, or the older secret token.

    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    """
    headers = request.headers
    if "webhook-signature" not in headers:
        return hmac.compare_digest(secret, headers.get("x-gitlab-token", "").encode("utf-8", "replace"))
    stamp = headers.get("webhook-timestamp", "")
    if not NUMBER.fullmatch(stamp) or abs(now - int(stamp)) > MOST_AGE_SECONDS:
        return False
    text = b".".join((headers.get("webhook-id", "").encode(), stamp.encode(), request.body))
    made = base64.b64encode(hmac.new(_standard_key(secret), text, hashlib.sha256).digest())
    signature = b"v1," + made
    signatures = headers["webhook-signature"].encode("utf-8", "replace").split()
    return any(hmac.compare_digest(signature, candidate) for candidate in signatures)


def _standard_key(secret: bytes) -> bytes:
    if secret.startswith(b"whsec_"):
        try:
            return base64.b64decode(secret.removeprefix(b"whsec_"), validate=True)
        except binascii.Error:
            return secret
    return secret


SIGNED: Mapping[Provider, Callable[[GitRequest, bytes, float], bool]] = {
    "GitHub": signed_by_github,
    "GitLab": signed_by_gitlab,
    "Bitbucket": signed_by_bitbucket,
}
# What tells of new commits: the header with the name of the event, and its values.
EVENTS: Mapping[Provider, tuple[str, tuple[str, ...]]] = {
    "GitHub": ("x-github-event", ("push", "create")),
    "GitLab": ("x-gitlab-event", ("Push Hook", "Tag Push Hook", "System Hook")),
    "Bitbucket": ("x-event-key", ("repo:push", "repo:refs_changed")),
}
# Where it stands who pushed.
AUTHORS: Mapping[Provider, tuple[tuple[str, ...], ...]] = {
    "GitHub": (("pusher", "name"), ("sender", "login")),
    "GitLab": (("user_username",), ("user_name",)),
    "Bitbucket": (("actor", "nickname"), ("actor", "display_name"), ("actor", "name")),
}


def author_of(provider: Provider, content: Json) -> str:
    """Return who pushed, as far as the request says it."""
    names = (dig(content, *path) for path in AUTHORS[provider])
    return next((str(name)[:200] for name in names if name), provider)


def refs_of(provider: Provider, content: Json) -> list[str]:
    """Return the full names of the refs that were pushed; none where the request does not say it."""
    if provider != "Bitbucket":
        return [content["ref"]] if isinstance(content.get("ref"), str) else []
    return list(_bitbucket_refs(content))


def _bitbucket_refs(content: Json) -> Iterator[str]:
    for change in dig(content, "push", "changes") or ():  # of the cloud
        new = dig(change, "new") or {}
        if new.get("name"):
            yield f"refs/{'tags' if new.get('type') == 'tag' else 'heads'}/{new['name']}"
    for change in content.get("changes") or ():  # of the Data Center
        if dig(change, "ref", "id"):
            yield str(change["ref"]["id"])


def concerns(source: GitSource, refs: list[str]) -> bool:
    """Tell whether a push of refs may have brought a revision that a Delivery is to have."""
    if source.revision is not None:
        return False
    ref_of_source = (
        f"refs/tags/{source.tag}" if source.tag else f"refs/heads/{source.branch}" if source.branch else None
    )
    named = {ref if ref.startswith("refs/") else f"refs/heads/{ref}" for ref in refs}
    return ref_of_source is None or not named or ref_of_source in named


@dataclass(frozen=True)
class GitAnswer:
    """What a request is answered with."""

    status: HTTPStatus
    text: str


REFUSED = GitAnswer(HTTPStatus.FORBIDDEN, "it is not signed by what the Delivery of this path expects")
IGNORED = GitAnswer(HTTPStatus.OK, "nothing of it concerns the Delivery")
REPEATED = GitAnswer(HTTPStatus.OK, "it was known already")
TAKEN = GitAnswer(HTTPStatus.ACCEPTED, "the repository is looked at")


class GitReceiver:
    """Judges requests, and has Deliveries looked at. clock: seconds since 1970."""

    def __init__(self, cluster: Cluster, namespace: str | None, clock: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._clock = clock
        self._known: OrderedDict[tuple[Key, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, key: Key, request: GitRequest) -> GitAnswer:
        """Answer a request about a Delivery; whoever may not tell of it does not learn whether there is one."""
        obj = self._cluster.get(DELIVERY, key[1], key[0]) if self._namespace in (None, key[0]) else None
        delivery = read_delivery(obj, creating=False)[0] if obj is not None and not deleting(obj) else None
        webhook = delivery.spec.source.webhook if delivery is not None else None
        secret = self._secret(key[0], webhook.secret_ref.name, webhook.secret_ref.key) if webhook is not None else None
        if delivery is None or webhook is None or not secret:
            return REFUSED
        if not SIGNED[webhook.provider](request, secret, self._clock()):
            return REFUSED
        content = _content(request.body)
        header, events = EVENTS[webhook.provider]
        refs = refs_of(webhook.provider, content)
        if request.headers.get(header) not in events or not concerns(delivery.spec.source, refs):
            return IGNORED
        if self._repeated(key, request.digest):
            return REPEATED
        author = f"{author_of(webhook.provider, content)} {request.digest}"
        told = {RECONCILE_ANNOTATION: request.digest, PUSHED_BY_ANNOTATION: author}
        try:
            self._cluster.merge(DELIVERY, key[1], {"metadata": {"annotations": told}}, key[0])
        except VmatrixError:
            self._forget(key, request.digest)  # whoever sends it once more is heard
            raise
        return TAKEN

    def _secret(self, namespace: str, name: str, entry: str) -> bytes:
        encoded = dig(self._cluster.get(SECRET, name, namespace), "data", entry)
        return base64.b64decode(encoded).strip() if encoded else b""

    def _repeated(self, key: Key, digest: str) -> bool:
        with self._lock:
            if (key, digest) in self._known:
                return True
            self._known[key, digest] = None
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return False

    def _forget(self, key: Key, digest: str) -> None:
        with self._lock:
            self._known.pop((key, digest), None)


def _content(body: bytes) -> Json:
    try:
        content = json.loads(body)
    except ValueError:  # of a form: what it says is left aside, and the repository is looked at
        return {}
    return content if isinstance(content, dict) else {}


class _GitHandler(AnsweringHandler):
    protocol_version = "HTTP/1.0"  # nobody keeps a connection
    timeout = SILENT_SECONDS

    def __init__(self, receiver: GitReceiver, *connection: Any) -> None:
        self._receiver = receiver
        super().__init__(*connection)

    def do_POST(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer what a git server tells."""
        told = self._judged()
        log.info("%s: %d %s", self.path[:200], told.status, told.text)
        self.answer(told.status, f"{told.text}\n".encode(), "text/plain; charset=utf-8")

    def _judged(self) -> GitAnswer:
        match, length = PATH.fullmatch(self.path.partition("?")[0]), self.headers.get("Content-Length", "")
        if match is None:
            return GitAnswer(HTTPStatus.NOT_FOUND, "the path is /deliveries/NAMESPACE/NAME")
        if not NUMBER.fullmatch(length):
            return GitAnswer(HTTPStatus.LENGTH_REQUIRED, "say how long the request is")
        if int(length) > MOST_BYTES:
            return GitAnswer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BYTES >> 20} MiB")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return GitAnswer(HTTPStatus.BAD_REQUEST, "it is shorter than it says")
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            return self._receiver.answer((match[1], match[2]), GitRequest(headers, body))
        except VmatrixError as error:
            log.warning("%s: %s", self.path[:200], error)
            return GitAnswer(HTTPStatus.SERVICE_UNAVAILABLE, "the API of the cluster does not answer")


def served(receiver: GitReceiver, port: int) -> ThreadingHTTPServer:
    """Begin to answer on a port (0: any free one), on threads of its own. Raises BadInput: it cannot be had."""
    try:
        server = ThreadingHTTPServer(("", port), partial(_GitHandler, receiver))
    except OSError as error:
        raise BadInput(f"cannot listen on port {port}: {error.strerror}", hint="choose another: --git-port") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="gitwebhooks", daemon=True).start()
    return server


def start(context: OperatorContext) -> None:
    """Begin to answer git servers, until the manager ends."""
    server = served(GitReceiver(context.cluster, context.namespace), context.options.git_port)
    log.info("git webhooks on port %d", server.server_port)
    context.on_stop(server.server_close)
    context.on_stop(server.shutdown)
