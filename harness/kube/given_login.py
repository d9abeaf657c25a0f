"""What a kubeconfig says to log in with, judged before it is used: files that end, a token that a header can have."""

from __future__ import annotations

from harness.errors import BadInput
from harness.kube.chosen import Chosen, unusable
from harness.kube.failures import Json
from harness.reading import read_bytes, read_text
from harness.urls import wrong_token

FILES = ("certificate-authority", "client-certificate", "client-key")
TOKEN_FILE = "tokenFile"  # noqa: S105 - a key's name
REMOVED = "auth-provider"  # of Kubernetes before 1.26


def refuse_unreadable(chosen: Chosen) -> None:
    """Refuse files that could not be read, or not to an end.

    Raises:
        BadInput: which, and why.
    """
    for entry in (chosen.cluster, chosen.user):
        for name in (*FILES, TOKEN_FILE):
            given = entry.get(name)
            if not given or entry.get(f"{name}-data") or (name == TOKEN_FILE and entry.get("token")):
                continue
            try:
                read_bytes(chosen.folder / str(given))
            except BadInput as error:
                raise unusable(chosen.file, f"{name}: {error.summary}", error.hint) from error
    if REMOVED in chosen.user and not chosen.user.get("token"):
        raise unusable(chosen.file, f"{REMOVED} is not supported", "use a credential program: `exec`")


def refuse_token(chosen: Chosen, user: Json) -> None:
    """Refuse a token that no header can have; it is not shown. `user`: with what its credential program gave."""
    token = user.get("token") or (
        read_text(chosen.folder / str(user[TOKEN_FILE])).strip() if TOKEN_FILE in user else ""
    )
    if wrong := wrong_token(str(token)):
        raise unusable(chosen.file, f"the token: {wrong}", "a token is one word")
