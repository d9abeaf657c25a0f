"""What goes wrong between a client and a Kubernetes API, as exceptions: refusals, trouble that passes, no answer."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import urllib3.exceptions

from harness.errors import EXIT_INFRA, InfraError, InfraRetriable
from harness.http_client import reason

LOOK_SECONDS = 5.0  # for one more handshake, to read the dates that the failed one does not tell
# https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/#error-codes
NOT_YET, EXPIRED = 9, 10
OTHER_NAME = frozenset({62, 64})  # host name, address
SELF_SIGNED = frozenset({18, 19})


def mistrust(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return what is wrong with a certificate among an error and its causes, None when it is something else."""
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        reason = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = reason or error.__cause__ or error.__context__
    return None


def explained(error: ssl.SSLCertVerificationError, server: str) -> tuple[str, str]:
    """Return what is wrong with a server's certificate, and what to do about it."""
    code = error.verify_code
    host = urlsplit(server).hostname or server
    if code in (EXPIRED, NOT_YET):
        return _out_of_time(server, expired=code == EXPIRED)
    if code in OTHER_NAME:
        return (
            f"its certificate is not for {host}",
            "use one of the certificate's names as `server` in the kubeconfig, or set `tls-server-name` to one: "
            f"openssl s_client -connect {_address(server)} </dev/null | openssl x509 -noout -ext subjectAltName",
        )
    if code in SELF_SIGNED:
        return (
            "its certificate is signed by an authority that is not the kubeconfig's",
            "put that authority into the kubeconfig as `certificate-authority-data`; the cluster's owner has it",
        )
    return (
        f"its certificate is not believed: {error.verify_message or error.reason}",
        "the kubeconfig's certificate authority did not sign the certificate of this address: get a kubeconfig of this "
        "cluster",
    )


def _out_of_time(server: str, *, expired: bool) -> tuple[str, str]:
    dates = _dates(server)
    since, until = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in dates) if dates else ("", "")
    if expired:
        valid = f"; it was valid until {until}" if until else ""
        renew = "renew the API server's certificate (kubeadm: `kubeadm certs renew apiserver`)"
        return f"its certificate, or one that it rests on, has expired{valid}", f"{renew}, or set this host's clock"
    valid = f"; it is valid from {since}" if since else ""
    return f"its certificate is not valid yet{valid}", "set the clock of this host, or of who made the certificate"


def _dates(server: str) -> tuple[datetime, datetime] | None:
    """Return since when and until when the server's own certificate is valid; None when it cannot be read."""
    from cryptography import x509  # each SSH connection through the API starts a process with this module

    parts = urlsplit(server)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent; only the certificate is looked at
    with contextlib.suppress(OSError, ValueError):
        address = (parts.hostname or "", parts.port or 443)
        with (
            socket.create_connection(address, timeout=LOOK_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            certificate = x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
        return certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return None


def _address(server: str) -> str:
    parts = urlsplit(server)
    return f"{parts.hostname}:{parts.port or 443}"


# https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "WATCH": "watch"}
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/?]+"
    r"(?:/namespaces/(?P<namespace>[^/?]+)(?=/))?"
    r"/(?P<plural>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<subresource>[^/?]+))?"
)
ROLES = "deploy/README.md has the roles, and `vmatrix doctor --kubeconfig PATH` lists all that is missing with commands"


def right_of(request: str) -> str:
    """Return the right that a request needs, as `kubectl auth can-i` takes it; "" when it needs none on an object.

    Args:
        request: "METHOD PATH".
    """
    method, _, path = request.partition(" ")
    match = PATH.match(path)
    if match is None:
        return ""
    verb = VERBS.get(method) or ("get" if match["name"] else "list")
    kind = match["plural"] + (f".{match['group']}" if match["group"] else "")
    inside = f" -n {match['namespace']}" if match["namespace"] else ""
    below = f"/{match['subresource']}" if match["subresource"] else ""
    return f"{verb} {kind}{below}{inside}"


OWNER = "ask the cluster's owner"
# What refuses an object that the caller may write, by Kubernetes' own words, and what to do about it; {inside} names
# the namespace to kubectl, the other names are those of the pattern's groups. The first that fits counts.
# https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
ADMISSION = tuple(
    (re.compile(words), advice)
    for words, advice in (
        (
            r"exceeded quota: (?P<quota>[^,]+)",
            "the quota {quota} is used up: `kubectl describe quota{inside}` shows it; `vmatrix reap --expired` removes "
            f"cells that nobody needs any more, or {OWNER} to raise it",
        ),
        (
            r"failed quota: (?P<quota>[^:]+): must specify",
            "the quota {quota} wants values of every pod that this one does not have: give the namespace a LimitRange "
            f"with defaults, or {OWNER} to",
        ),
        (
            r"status unknown for quota",
            "the quota was not counted yet: try again; if it stays so, kube-controller-manager does not run",
        ),
        (
            r"(minimum|maximum) [\w.-]+ usage per |limit to request ratio per ",
            f"a LimitRange refuses this size: `kubectl describe limitrange{{inside}}` shows it; {OWNER} to change it, "
            "or use another namespace",
        ),
        (
            r"violates PodSecurity \"(?P<level>[^\"]+)\"",
            "the namespace enforces Pod Security {level}: its label pod-security.kubernetes.io/enforce has to allow "
            f"what is listed; {OWNER}, or use another namespace",
        ),
        (
            r"ValidatingAdmissionPolicy '(?P<policy>[^']+)'",
            "the policy {policy} refuses this object: `kubectl get validatingadmissionpolicies {policy} -o yaml` has "
            f"the rule; {OWNER} for an exception",
        ),
        (
            r"admission webhook \"(?P<webhook>[\w.-]*kubevirt\.io)\"",
            "KubeVirt or CDI ({webhook}) does not take this object: correct the field that it names, in vm-templates/ "
            "where it is your own",
        ),
        (
            r"admission webhook \"(?P<webhook>[^\"]+)\" denied the request",
            "a rule of another program in the cluster (webhook {webhook}) refuses this object, and no right helps: "
            f"{OWNER} for an exception, as for the namespace or its labels",
        ),
        (
            r"because it is being terminated",
            "the namespace is being deleted: wait until it is gone; what keeps it is in the conditions of "
            "`kubectl get namespace NAME -o yaml`",
        ),
        (
            r"database space exceeded",
            f"the cluster's etcd is full, so nothing can be written: {OWNER} to make room there and to clear its alarm",
        ),
        (
            r"is forbidden: (?!.*\bcannot [a-z*]+ resource\b)(?!User )",
            f"admission of the cluster refuses this object, and no right helps: {OWNER} about the rule in the message",
        ),
    )
)


def admission(message: str, request: str) -> str:
    """Return what to do about an object that is refused though the caller has the right, "" for another refusal."""
    found = PATH.match(request.partition(" ")[2])
    inside = f" -n {found['namespace']}" if found is not None and found["namespace"] else ""
    for words, advice in ADMISSION:
        if (match := words.search(message)) is not None:
            return advice.format(inside=inside, **match.groupdict())
    return ""


def remedy(code: int, request: str, message: str = "") -> str:
    """Return what to do about a refusal with this code, "" where the answer itself says enough."""
    if not request.startswith("GET ") and (advice := admission(message, request)):
        return advice
    right = right_of(request)
    if code == HTTPStatus.UNAUTHORIZED:
        return "the API does not know these credentials: log in again, get a new token, or use another kubeconfig"
    if code == HTTPStatus.FORBIDDEN and right:
        return f"needed: `kubectl auth can-i {right}` must say yes; ask the cluster's owner: {ROLES}"
    if code == HTTPStatus.NOT_FOUND and right:
        return (
            "the API does not have this object or kind: is it the right cluster, with KubeVirt and CDI? "
            "`vmatrix doctor --kubeconfig PATH` checks it"
        )
    return ""


Json = dict[str, Any]
RETRIABLE_CODES = frozenset({429, 500, 502, 503, 504})
DENIED = "denied the request"  # a webhook that answered, with whatever code
QUOTA = ("status unknown for quota", "exceeded quota")  # of Kubernetes' quota admission


class ApiFailure(InfraError):
    """The API answered with an error.

    Attributes: code (HTTP), reason (machine readable, may be empty), message, causes ({reason, message, field} each).
    """

    def __init__(self, code: int, reason: str, message: str, causes: list[Json], *, request: str) -> None:
        super().__init__(f"{request}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after: float | None = None  # seconds that the API asks to be left alone for

    @property
    def forbidden(self) -> bool:
        """Tell whether the API knows who asks and does not let them (403)."""
        return self.code == HTTPStatus.FORBIDDEN

    @property
    def refused(self) -> bool:
        """Tell whether another try gets the same answer, unless another object or a right changes."""
        return self.code in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)

    @property
    def by_quota(self) -> bool:
        """Tell whether a quota refuses: there is no room left, or its controller has not counted yet."""
        return self.forbidden and any(words in self.message for words in QUOTA)

    @property
    def not_found(self) -> bool:
        """Tell whether there is no such object, or no such kind (404)."""
        return self.code == HTTPStatus.NOT_FOUND

    @property
    def conflict(self) -> bool:
        """Tell whether the object is there already, or has changed since it was read (409)."""
        return self.code == HTTPStatus.CONFLICT

    @property
    def exists(self) -> bool:
        """Tell whether an object of that name exists already."""
        return self.conflict and self.reason == "AlreadyExists"

    @property
    def terminating(self) -> bool:
        """Tell whether nothing can be made any more because the namespace is being deleted."""
        return any(cause.get("reason") == "NamespaceTerminating" for cause in self.causes)

    @property
    def passing(self) -> bool:
        """Tell whether the same request may succeed a moment later; a wait goes on in spite of it."""
        return self.code in RETRIABLE_CODES and DENIED not in self.message


class Overwhelmed(ApiFailure, InfraRetriable):
    """The API answered that it cannot answer now: overloaded, without its webhooks, or not there behind a proxy."""


class Unreachable(InfraRetriable):
    """Nobody answers at the API's address."""

    @property
    def passing(self) -> bool:
        """Tell that a wait goes on: connections come back."""
        return True


class Untrusted(Unreachable):
    """Whoever answers at the API's address cannot prove to be it."""

    exit_code = EXIT_INFRA

    @property
    def passing(self) -> bool:
        """Tell that no wait helps."""
        return False


@dataclass(frozen=True)
class Answer:
    """A raw answer: HTTP status, decoded body (dict, list, text, None), the Warning headers, Retry-After in seconds.

    location, content_type: these headers, "" without them.
    """

    code: int
    body: Any
    warnings: tuple[str, ...]
    retry_after: float | None = None
    location: str = ""
    content_type: str = ""


@contextmanager
def told(request: str, server: str) -> Iterator[None]:
    """Turn what the HTTP library raises into one of our errors."""
    try:
        yield
    except (urllib3.exceptions.HTTPError, OSError) as error:
        method, _, path = request.partition(" ")
        wrong = mistrust(error)
        if wrong is not None:
            why, hint = explained(wrong, server)
            raise Untrusted(f"{method} {server}{path}: {why}", hint=hint) from error
        raise Unreachable(
            f"{method} {server}{path}: {_why(error)}",
            hint="is the cluster up? an instance on this host: `vmatrix infra status`; another: `kubectl cluster-info`",
        ) from error


def _why(error: BaseException) -> str:
    """Say what happened on the way in words; a time-out in particular, whose own text names an object's address."""
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "the API server accepted the request but did not answer in time"
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # which is a ConnectTimeoutError, too
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not refused:
        return "no connection in time"
    return reason(error)


def decode(data: bytes) -> Any:
    """Decode a body: JSON where it is JSON, text otherwise, None when empty."""
    if not data:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


def seconds_of(header: str | None) -> float | None:
    """Read Retry-After; a date in it (which no API server sends) is left out."""
    return float(header) if header is not None and header.isdigit() else None


def failure_of(answer: Answer, request: str) -> ApiFailure:
    """Turn an error answer into an exception: one that passes, if it does."""
    made = plain_failure(answer, request)
    if made.passing:
        down = "the infra cluster's API server, or one of its webhooks, is overloaded or down; see its logs"
        advice = made.hint or down
        made = Overwhelmed(answer.code, made.reason, made.message, made.causes, request=request)
        made.hint = advice
    made.hint = made.hint or "these are the API's own words; its log may have more"
    details = (answer.body.get("details") or {}) if isinstance(answer.body, dict) else {}
    asked = answer.retry_after if answer.retry_after is not None else details.get("retryAfterSeconds")
    made.retry_after = float(asked) if asked is not None else None
    return made


def plain_failure(answer: Answer, request: str) -> ApiFailure:
    """Turn an error answer into an exception; the body is a Status object, or text of a proxy on the way."""
    status: Json = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body or "")[:500]}
    causes = (status.get("details") or {}).get("causes") or []
    made = ApiFailure(answer.code, status.get("reason") or "", status.get("message") or "", causes, request=request)
    made.hint = remedy(answer.code, request, made.message)
    return made
