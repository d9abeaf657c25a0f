"""How a kubeconfig's user logs in: what its requests carry, whose certificate is shown, and when either is had anew.

The order is client-go's (transport and plugin/pkg/client/auth/exec): a token or the file that it is replaced in, a name
with a password, a certificate; a credential program only where there is none of these; nobody logs in without TLS. Whom
a user acts as goes along with every request. A token that is a file is read again every minute: a pod's is replaced
under a running cell (https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken).
"""

from __future__ import annotations

import base64
import json
import math
import os
import string
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from harness import proc
from harness.errors import BadInput
from harness.kube.failures import Json
from harness.kube.kubeconfig import EXEC_API, KubeconfigEntry, KubeContext, material, token_in
from harness.urls import wrong_token

TOKEN_SECONDS = 60.0  # a kubelet replaces a token at 80 % of its life, minutes before it ends
PROGRAM_SECONDS = 30.0  # policy: it asks one server for a token; what waits for a person is to be run by one before
EARLY = timedelta(minutes=1)  # before its end a token is asked for again: a request may wait in a queue
CERTIFICATES = ("client-certificate", "client-certificate-data")
KIND = "ExecCredential"
OF_THE_PROGRAM = f"{EXEC_API}/exec"  # the cluster's extension that its program is told
IN_HEADER_NAMES = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")  # RFC 9110, 5.6.2, without %
Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class ClientCertificate:
    """A client's certificate with its chain, and its key, both in PEM. user: who has them.  program: that gave them."""

    chain: bytes
    key: bytes = field(repr=False)
    user: KubeconfigEntry = field(repr=False)
    program: str = ""

    def wrong(self) -> BadInput:
        """Return the error of a certificate that cannot be shown with its key."""
        why = "certificate and key are not PEM, or do not belong together, or the key wants a password"
        if self.program:
            return self.user.wrong("exec", f"the credential program {self.program}'s {why}", "log in with it again")
        key = next(key for key in CERTIFICATES if self.user.content[key])
        return self.user.wrong(key, f"the user's {why}", "get both anew from the cluster's owner")


class ApiLogin:
    """What a user's requests carry; thread-safe."""

    def __init__(self, kubeconfig: KubeContext | None = None) -> None:
        self._impersonation = impersonation(kubeconfig.user.content) if kubeconfig is not None else []
        self._authorization: Callable[[], str] = str
        self._program: _Program | None = None
        self.certificate: ClientCertificate | None = None
        if kubeconfig is not None and kubeconfig.secure:
            self._log_in(kubeconfig)

    def _log_in(self, kubeconfig: KubeContext) -> None:
        user = kubeconfig.user
        settings = user.content
        if any(settings[key] for key in CERTIFICATES):
            self.certificate = ClientCertificate(
                material(user, "client-certificate"), material(user, "client-key"), user
            )
        if settings["token"] or settings["tokenFile"]:
            self._authorization = _Token(user)
        elif settings["username"]:
            basic = base64.b64encode(f"{settings['username']}:{settings['password']}".encode()).decode()
            self._authorization = lambda: f"Basic {basic}"
        elif settings["exec"] is not None and self.certificate is None:
            self._program = _Program(kubeconfig)
            self._authorization = self._program
            self.certificate = self._program.certificate

    def headers(self) -> Headers:
        """Return the headers of a request; names may be there several times.

        Raises:
            BadInput: a credential program is asked again and gives nothing.
        """
        authorization = self._authorization()
        if self._program is not None:
            self.certificate = self._program.certificate
        return [*([("Authorization", authorization)] if authorization else []), *self._impersonation]

    def refused(self) -> None:
        """Have a credential program asked again before the next request: the API did not know the user (401)."""
        if self._program is not None:
            self._program.forget()


def impersonation(user: Json) -> Headers:
    """Return the headers that say whom a user acts as; none where it acts as itself.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    """
    if not user["as"]:
        return []
    uid = [("Impersonate-Uid", user["as-uid"])] if user["as-uid"] else []
    groups = [("Impersonate-Group", group) for group in user["as-groups"]]
    extra = [(f"Impersonate-Extra-{_escaped(k)}", value) for k, vs in user["as-user-extra"].items() for value in vs]
    return [("Impersonate-User", user["as"]), *uid, *groups, *extra]


def _escaped(key: str) -> str:
    return "".join(chr(byte) if chr(byte) in IN_HEADER_NAMES else f"%{byte:02X}" for byte in key.encode())


class _Token:
    """A token; the one in a file counts before the one in the kubeconfig, as long as the file can be read."""

    def __init__(self, user: KubeconfigEntry) -> None:
        self._user = user
        self._token = str(user.content["token"])
        self._read_at = -math.inf
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            if self._user.content["tokenFile"] and time.monotonic() - self._read_at >= TOKEN_SECONDS:
                self._read_at = time.monotonic()
                self._token = self._replaced() or self._token
            return f"Bearer {self._token}"

    def _replaced(self) -> str:
        """Return the token in the file, "" where there is none now: the last one is used until there is."""
        try:
            token = token_in(self._user)
        except BadInput:
            return ""
        return "" if wrong_token(token) else token


class _Program:
    """Credentials that a program gives: run once with an end, its answer checked, and never done without.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """

    def __init__(self, kubeconfig: KubeContext) -> None:
        self._kubeconfig = kubeconfig
        self._lock = threading.Lock()
        self._forgotten = False
        self._ask()

    def __call__(self) -> str:
        with self._lock:
            if self._forgotten or (self._ends is not None and datetime.now(UTC) >= self._ends):
                self._ask()
            return f"Bearer {self._token}" if self._token else ""

    def forget(self) -> None:
        self._forgotten = True

    def _ask(self) -> None:
        status = status_of(self._kubeconfig)
        self._token = str(status.get("token") or "")
        if wrong := wrong_token(self._token):
            words = _words(self._kubeconfig.user)
            raise _failed(self._kubeconfig, words[0], f"gives a token that is not one: {wrong}", _by_hand(words))
        self._ends = ends_at(status)
        self._forgotten = False
        chain, key = status.get("clientCertificateData"), status.get("clientKeyData")
        user = self._kubeconfig.user
        pair = (str(chain).encode(), str(key).encode(), user, str(user.content["exec"]["command"]))
        self.certificate = ClientCertificate(*pair) if chain and key else None


def status_of(kubeconfig: KubeContext) -> Json:
    """Run the credential program of a kubeconfig's user and return what it gives.

    Raises:
        BadInput: it is missing, fails, does not end, or gives none.
    """
    command = kubeconfig.user.content["exec"]
    words = _words(kubeconfig.user)
    if command["interactiveMode"] == "Always":
        raise _failed(kubeconfig, words[0], "wants a terminal (interactiveMode: Always)", _by_hand(words))
    cluster = {"cluster": _told(kubeconfig.cluster)} if command["provideClusterInfo"] else {}
    info = {"apiVersion": command["apiVersion"], "kind": KIND, "spec": {"interactive": False, **cluster}}
    variables = {variable["name"]: variable["value"] for variable in command["env"]}
    try:
        done = proc.run(words, timeout=PROGRAM_SECONDS, env={**variables, "KUBERNETES_EXEC_INFO": json.dumps(info)})
    except proc.CommandFailed as error:
        why = error.summary.rpartition("` ")[2]
        install = "".join(c if c.isprintable() else " " for c in command["installHint"]).strip()
        missing = error.done.returncode == 127
        hint = install if missing and install else _by_hand(words)
        raise _failed(kubeconfig, words[0], why, hint, error.detail) from error
    return _status(kubeconfig, words, done.stdout)


def _words(user: KubeconfigEntry) -> list[str]:
    """Return the command; a path in it that is not absolute starts at the kubeconfig, as for kubectl."""
    given: Json = user.content["exec"]
    command = str(given["command"])
    program = str(user.file.parent.absolute() / command) if os.sep in command else command
    return [program, *given["args"]]


def _told(cluster: KubeconfigEntry) -> Json:
    """Return what a program is told of the cluster, as its API has it."""
    settings = cluster.content
    keys = ("tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
    authority = base64.b64encode(material(cluster, "certificate-authority")).decode()
    known = {"certificate-authority-data": authority, **{key: settings[key] for key in keys}}
    config = settings["extensions"].get(OF_THE_PROGRAM)
    return {"server": settings["server"], **{key: value for key, value in known.items() if value}, "config": config}


def _status(kubeconfig: KubeContext, words: list[str], output: str) -> Json:
    """Return the credentials in the program's answer."""
    version = kubeconfig.user.content["exec"]["apiVersion"]
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        answer = None
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or answer.get("kind") != KIND or not isinstance(status, dict):
        raise _failed(kubeconfig, words[0], f"gives no {KIND}, but {_shape(output, answer)}", _by_hand(words))
    if answer.get("apiVersion") != version:
        why = f"answers in apiVersion {answer.get('apiVersion')!r}, not {version!r}"
        raise _failed(kubeconfig, words[0], why, "name the version that the program speaks in `exec` of the user")
    parts = [_text(status, key) for key in ("token", "clientCertificateData", "clientKeyData")]
    if not any(parts):
        raise _failed(kubeconfig, words[0], "gives neither a token nor a certificate with its key", _by_hand(words))
    if bool(parts[1]) != bool(parts[2]):
        raise _failed(kubeconfig, words[0], "gives a certificate or a key, and not both", _by_hand(words))
    return status


def _text(status: Json, key: str) -> str:
    value = status.get(key)
    return value if isinstance(value, str) else ""


def _shape(output: str, answer: Any) -> str:
    """Return what a program printed, without what may be a secret in it."""
    if not output.strip():
        return "nothing"
    if answer is None:
        return f"{len(output.encode())} bytes that are not JSON"
    return f"JSON of kind {answer.get('kind')!r}" if isinstance(answer, dict) else f"a JSON {type(answer).__name__}"


def ends_at(status: Json) -> datetime | None:
    """Return when credentials are to be asked for again, None when they do not say; the year 1, Go's zero, is never."""
    try:
        ends = datetime.fromisoformat(str(status["expirationTimestamp"]))
        return (ends if ends.tzinfo is not None else ends.replace(tzinfo=UTC)) - EARLY
    except (KeyError, ValueError, OverflowError):
        return None


def _by_hand(words: list[str]) -> str:
    return f"run it by hand, and log in with it: {proc.pasteable(words)}"


def _failed(kubeconfig: KubeContext, program: str, why: str, hint: str, detail: str = "") -> BadInput:
    return kubeconfig.user.wrong("exec", f"the credential program {program} {why}", hint, detail)
