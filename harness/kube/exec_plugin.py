"""Credentials that a program gives: run once with an end, its answer checked, and never done without.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness import proc
from harness.errors import BadInput
from harness.kube.chosen import Chosen
from harness.kube.failures import Json

SECONDS = 30.0  # policy: it asks one server for a token; who has to wait for a person is to be run by one before
EARLY = timedelta(minutes=1)  # before its end a token is asked for again: a request may wait in a queue
KIND = "ExecCredential"


def status_of(chosen: Chosen) -> Json:
    """Run the program of a kubeconfig's user and return the credentials that it gives.

    Raises:
        BadInput: it is missing, fails, does not end, or gives none.
    """
    told: Any = chosen.user.get("exec")
    if not isinstance(told, dict) or not isinstance(told.get("command"), str) or not told["command"]:
        raise _failed(chosen, "", "has no `command`", "check `exec` of the user in the file")
    words, version = _words(chosen.folder, told), str(told.get("apiVersion", ""))
    if told.get("interactiveMode") == "Always":
        raise _failed(chosen, words[0], "wants a terminal (interactiveMode: Always)", _login(words))
    info = {"apiVersion": version, "kind": KIND, "spec": {"interactive": False, **_cluster(chosen, told)}}
    variables = {str(v["name"]): str(v.get("value", "")) for v in told.get("env") or [] if isinstance(v, dict)}
    try:
        done = proc.run(words, timeout=SECONDS, env={**variables, "KUBERNETES_EXEC_INFO": json.dumps(info)})
    except proc.CommandFailed as error:
        why = error.summary.rpartition("` ")[2]
        install = str(told.get("installHint") or "").strip()
        missing = error.done.returncode == 127
        raise _failed(chosen, words[0], why, install if missing and install else _login(words), error.detail) from error
    return _status(chosen, words, version, done.stdout)


def name_of(chosen: Chosen) -> str:
    """Return the name of the program that gives a user's credentials."""
    return str(chosen.user["exec"]["command"])


def _words(folder: Path, told: Json) -> list[str]:
    """Return the command; a path in it that is not absolute starts at the kubeconfig, as for kubectl."""
    command = str(told["command"])
    program = str(folder / command) if os.sep in command else command
    return [program, *map(str, told.get("args") or [])]


def _cluster(chosen: Chosen, told: Json) -> Json:
    return (
        {"cluster": {k: v for k, v in chosen.cluster.items() if k != "extensions"}}
        if told.get("provideClusterInfo")
        else {}
    )


def _status(chosen: Chosen, words: list[str], version: str, output: str) -> Json:
    """Return the credentials in the program's answer."""
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or answer.get("kind") != KIND or not isinstance(status, dict):
        said = " ".join(output.split())[:40]
        raise _failed(chosen, words[0], f"gives no {KIND}, but {said!r}", _login(words))
    if answer.get("apiVersion") != version:
        why = f"answers in apiVersion {answer.get('apiVersion')!r}, not {version!r}"
        raise _failed(chosen, words[0], why, "name the version that the program speaks in `exec` of the user")
    pair = isinstance(status.get("clientCertificateData"), str) and isinstance(status.get("clientKeyData"), str)
    if not pair and not (isinstance(status.get("token"), str) and status["token"]):
        raise _failed(chosen, words[0], "gives neither a token nor a certificate with its key", _login(words))
    return status


def ends_at(status: Json) -> datetime | None:
    """Return when credentials have to be asked for again, None when they do not say."""
    try:
        ends = datetime.fromisoformat(str(status["expirationTimestamp"]))
    except (KeyError, ValueError):
        return None
    return (ends if ends.tzinfo is not None else ends.replace(tzinfo=UTC)) - EARLY


def _login(words: list[str]) -> str:
    return f"run it by hand, and log in with it: {proc.pasteable(words)}"


def _failed(chosen: Chosen, program: str, why: str, hint: str, detail: str = "") -> BadInput:
    named = f"program {program} " if program else "`exec` of the user "
    return BadInput(f"kubeconfig {chosen.file}: the credential {named}{why}", hint=hint, detail=detail)
