"""An OCI registry over HTTP: manifests and blobs of one repository, with the log-in of container tools.

Sources: https://github.com/opencontainers/distribution-spec/blob/main/spec.md (referrers included),
https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import quote, urlencode, urljoin, urlsplit

from harness.errors import Blame, VmatrixError
from harness.http_client import NoAnswer, Reply, WebRequest, ask
from harness.until import Deadline

MANIFEST, CONFIG = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFESTS = (MANIFEST, INDEX, "application/vnd.docker.distribution.manifest.v2+json", DOCKER_LIST)
DOCKER_CONFIG = ".dockerconfigjson"  # key of a Secret of the type kubernetes.io/dockerconfigjson
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")
CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"')
REQUEST_SECONDS = 30.0  # of one request
LARGEST_MANIFEST = 4 * 1024 * 1024
LARGEST_BLOB = 64 * 1024 * 1024  # that is kept in memory
DAMAGED = "check the registry's storage, and build the revision again"  # hint


class RegistryFailed(VmatrixError):
    """A registry did not do what was asked for; `reason` is the word for a condition."""

    reason: ClassVar[str] = "RegistryFailed"
    blame = Blame.USER


class RegistryRefused(RegistryFailed):
    """The registry refuses the log-in, or what this user may do is less."""

    reason = "PushRefused"


class NotInRegistry(RegistryFailed):
    """The registry has no such image, or does not show it."""

    reason = "ImageNotFound"


class RegistryUnavailable(RegistryFailed):
    """The registry does not answer, or fails; a later attempt may succeed."""

    reason = "RegistryUnavailable"
    blame = Blame.INFRA

    @property
    def passing(self) -> bool:
        """Tell that the next attempt may succeed."""
        return True


def digest_of(content: bytes) -> str:
    """Return the digest of a blob."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptor(media_type: str, content: bytes, **more: Any) -> dict[str, Any]:
    """Return the descriptor of a blob."""
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content), **more}


def document(content: Mapping[str, Any]) -> bytes:
    """Return JSON in the one form whose digest is always the same."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def split(image: str) -> tuple[str, str, str]:
    """Return the registry, the repository, and the digest or tag ("" without) of an image's name."""
    registry, _, rest = image.partition("/")
    name, at, digest = rest.partition("@")
    repository, colon, tag = name.rpartition(":")
    return registry, repository if colon else name, digest if at else tag if colon else ""


def login_of(docker_config: bytes | None, registry: str) -> str:
    """Return what `Authorization: Basic` has for a registry, "" without a log-in.

    Raises:
        RegistryRefused: it is not the configuration of container tools.
    """
    if not docker_config:
        return ""
    try:
        auths = json.loads(docker_config).get("auths", {})
        entries = {urlsplit(key).netloc or key.partition("/")[0]: entry for key, entry in auths.items()}
        entry = entries.get(registry) or {}
        whole = entry.get("auth") or ""
        if not whole and "username" in entry:
            whole = base64.b64encode(f"{entry['username']}:{entry.get('password', '')}".encode()).decode()
        if whole:
            base64.b64decode(whole, validate=True)
        return str(whole)
    except (ValueError, AttributeError, TypeError, binascii.Error) as error:
        hint = f"create it by `kubectl create secret docker-registry`; its key is {DOCKER_CONFIG}"
        raise RegistryRefused("build.pushSecretRef is not a log-in of container tools", hint=hint) from error


@dataclass
class Repository:
    """One repository in a registry.

    Attributes: insecure (plain HTTP), login (base64 of USER:PASSWORD, "" for none), deadline (of all requests).
    """

    registry: str
    name: str
    deadline: Deadline
    insecure: bool = False
    login: str = ""
    _token: str = field(default="", repr=False)

    def manifest(self, reference: str) -> tuple[dict[str, Any], str] | None:
        """Return a manifest by tag or digest, and its digest; None where it is not there. Raises as `content`."""
        raw = self.content(reference)
        if raw is None:
            return None
        return self._object(raw, f"manifest {reference}"), digest_of(raw)

    def content(self, reference: str) -> bytes | None:
        """Return a manifest as the registry has it, by tag or digest; None where it is not there.

        Raises:
            RegistryFailed: by its kind; also where it has another digest than was asked for.
        """
        accepted = {"Accept": ", ".join(MANIFESTS)}
        reply = self._send("GET", f"manifests/{reference}", headers=accepted, largest=LARGEST_MANIFEST)
        if reply.status == HTTPStatus.NOT_FOUND:
            return None
        self._require(reply, f"manifest {reference}")
        digest = digest_of(reply.content)
        if DIGEST.match(reference) and digest != reference:
            raise RegistryFailed(f"{self}@{reference}: the registry sent another manifest, {digest}", hint=DAMAGED)
        return reply.content

    def blob(self, digest: str, *, largest: int = LARGEST_BLOB) -> bytes:
        """Return a blob. Raises RegistryFailed by its kind; TooMuch where it is larger."""
        reply = self._send("GET", f"blobs/{digest}", largest=largest)
        self._require(reply, f"blob {digest}")
        if digest_of(reply.content) != digest:
            raise RegistryFailed(f"{self}@{digest}: the registry sent another blob", hint=DAMAGED)
        return reply.content

    def put_blob(self, content: bytes) -> None:
        """Upload a blob unless it is there."""
        digest = digest_of(content)
        if self._send("HEAD", f"blobs/{digest}").ok:
            return
        begun = self._send("POST", "blobs/uploads/", content=b"")
        self._require(begun, "an upload")
        where = urljoin(self._url("blobs/uploads/"), begun.headers.get("Location", ""))
        whole = f"{where}{'&' if '?' in where else '?'}digest={quote(digest)}"
        headers = {"Content-Type": "application/octet-stream"}
        self._require(self._send("PUT", whole, content=content, headers=headers), f"blob {digest}")

    def put_content(self, reference: str, content: bytes, media_type: str) -> Reply:
        """Write a manifest as it is, under a tag or by its digest."""
        headers = {"Content-Type": media_type}
        reply = self._send("PUT", f"manifests/{reference}", content=content, headers=headers)
        self._require(reply, f"manifest {reference}")
        return reply

    def attach(self, subject: Mapping[str, Any], kind: str, media_type: str, content: bytes, made: str) -> str:
        """Attach a document to an image as its referrer; return the digest of what refers.

        A registry that does not know `subject` gets the index by which referrers are found without it.

        Args:
            subject: descriptor of the image.  kind: artifact type.  media_type: of the document.
            made: moment of RFC 3339, the same for the same image.
        """
        empty = b"{}"
        for blob in (empty, content):
            self.put_blob(blob)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": kind,
            "config": descriptor(EMPTY, empty),
            "layers": [descriptor(media_type, content)],
            "subject": dict(subject),
            "annotations": {"org.opencontainers.image.created": made},
        }
        raw = document(manifest)
        if "OCI-Subject" not in self.put_content(digest_of(raw), raw, MANIFEST).headers:
            entry = descriptor(MANIFEST, raw, artifactType=kind, annotations=manifest["annotations"])
            self._index(referrers_tag(str(subject["digest"])), entry)
        return digest_of(raw)

    def _index(self, tag: str, entry: Mapping[str, Any]) -> None:
        """Add an entry to the index of a tag, in the place of one of its type: builds of one image have one of each."""
        index_before = self.manifest(tag)
        entries = index_before[0].get("manifests", []) if index_before is not None else []
        others = [other for other in entries if other.get("artifactType") != entry["artifactType"]]
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, dict(entry)]}
        self.put_content(tag, document(index), INDEX)

    def referrers(self, digest: str) -> Sequence[Mapping[str, Any]]:
        """Return the descriptors of what refers to an image."""
        reply = self._send("GET", f"referrers/{digest}", largest=LARGEST_MANIFEST)
        if reply.ok:
            return list(self._object(reply.content, "list of referrers").get("manifests", []))
        index = self.manifest(referrers_tag(digest))
        return list(index[0].get("manifests", [])) if index is not None else []

    def __str__(self) -> str:
        """Return the name of its images without tag."""
        return f"{self.registry}/{self.name}"

    def _url(self, path: str) -> str:
        return f"{'http' if self.insecure else 'https'}://{self.registry}/v2/{self.name}/{path}"

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        largest: int = 1024 * 1024,
    ) -> Reply:
        """Send one request, once more with a token where the registry asks for one."""
        url = path if path.startswith(("http://", "https://")) else self._url(path)
        reply = self._ask(WebRequest(url, method, headers or {}, self._secrets(), content), largest)
        if reply.status == HTTPStatus.UNAUTHORIZED and self._challenged(reply.headers.get("WWW-Authenticate", "")):
            reply = self._ask(WebRequest(url, method, headers or {}, self._secrets(), content), largest)
        return reply

    def _ask(self, request: WebRequest, largest: int) -> Reply:
        seconds = min(REQUEST_SECONDS, max(self.deadline.remaining(), 0.1))
        try:
            return ask(request, seconds, largest=largest)
        except NoAnswer as error:
            message = f"the registry {self.registry} does not answer: {error}"
            raise RegistryUnavailable(message, hint="check its name, and whether it runs") from error

    def _secrets(self) -> dict[str, str]:
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return {"Authorization": f"Basic {self.login}"} if self.login else {}

    def _challenged(self, challenge: str) -> bool:
        """Get a token as the registry says; tell whether there is one now."""
        scheme, _, rest = challenge.partition(" ")
        values = dict(CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in values or self._token:
            return False
        if urlsplit(values["realm"]).scheme not in ("https", "http" if self.insecure else "https"):
            return False
        words = {key: values[key] for key in ("service", "scope") if key in values}
        words["scope"] = f"repository:{self.name}:pull,push"
        secrets = {"Authorization": f"Basic {self.login}"} if self.login else {}
        reply = self._ask(WebRequest(f"{values['realm']}?{urlencode(words)}", secrets=secrets), LARGEST_MANIFEST)
        if not reply.ok:
            return False
        answer = self._object(reply.content, "token")
        self._token = str(answer.get("token") or answer.get("access_token") or "")
        return bool(self._token)

    def _object(self, raw: bytes, what: str) -> dict[str, Any]:
        """Return what an answer has as a JSON object. Raises RegistryFailed where it is something else."""
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            hint = f"is {self.registry} a registry, or a proxy in front of it?"
            raise RegistryFailed(f"{self}: the answer for {what} is not a JSON object", hint=hint)
        return answer

    def _require(self, reply: Reply, what: str) -> None:
        """Raise what an answer means that is not the one that was asked for."""
        if reply.ok:
            return
        status = f"{reply.status} {reply.reason}"
        if reply.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED):
            hint = "check build.pushSecretRef, and that this user may push there"
            raise RegistryRefused(f"the registry {self.registry} refuses {self.name}: {status}", hint=hint)
        if reply.status == HTTPStatus.NOT_FOUND:
            raise NotInRegistry(f"{self} has no {what}", hint="it may have been deleted: build the revision again")
        kind = (
            RegistryUnavailable
            if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status == 429
            else RegistryFailed
        )
        raise kind(f"the registry {self.registry} answers {status} for {what} of {self.name}", hint="see its log")


def referrers_tag(digest: str) -> str:
    """Return the tag of the index of an image's referrers, where a registry has no list of them."""
    return digest.replace(":", "-")


def opened(image: str, *, docker_config: bytes | None, insecure: bool, deadline: Deadline) -> tuple[Repository, str]:
    """Return the repository of an image's name, and its digest or tag."""
    registry, name, reference = split(image)
    return Repository(registry, name, deadline, insecure, login_of(docker_config, registry)), reference


def layers_of(repository: Repository, manifest: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the descriptors of an image's layers, lowest first; of an index, those of its first image."""
    if manifest.get("mediaType") in (INDEX, DOCKER_LIST):
        image = repository.manifest(str(manifest["manifests"][0]["digest"]))
        manifest = image[0] if image is not None else {}
    return list(manifest.get("layers", []))
