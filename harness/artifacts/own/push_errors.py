"""Why a registry did not take an image, from what crane said, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import BadInput, InfraError, VmatrixError
from harness.proc import CommandFailed

# HOST[:PORT][/PATH] as registries take it: https://github.com/distribution/reference (path components, domain)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?")


@dataclass(frozen=True)
class Reason:
    """A kind of failure: what crane's words look like, what it means, and what to do."""

    words: re.Pattern[str]
    kind: type[VmatrixError]
    said: str
    hint: str


REASONS = (
    Reason(
        re.compile(r"\b401\b|\b403\b|UNAUTHORIZED|DENIED"),
        BadInput,
        "the registry refused {who}",
        "check --user and --password, and whether that user may push there",
    ),
    Reason(
        re.compile(r"HTTP response to HTTPS client"),
        BadInput,
        "the registry speaks plain HTTP",
        "add --insecure",
    ),
    Reason(
        re.compile(r"x509|certificate"),
        BadInput,
        "the registry's certificate is not trusted",
        "name its authority (SSL_CERT_FILE=FILE), or add --insecure",
    ),
    Reason(
        re.compile(r"\b405\b|UNSUPPORTED"),
        BadInput,
        "the registry only serves pulls",
        "for the registries of this host's infra clusters, use --publish instead of --push",
    ),
    Reason(
        re.compile(r"\bdial tcp\b|\btimeout\b|\bEOF\b"),
        InfraError,
        "the registry does not answer",
        "check its address, and whether it runs",
    ),
)
OTHER = Reason(re.compile(""), InfraError, "the registry did not take it", "see what it answered")


def check_name(registry: str) -> None:
    """Refuse what cannot be the name of a registry. Raises BadInput."""
    if not NAME.fullmatch(registry):
        raise BadInput(
            f"{registry} is no registry",
            hint="use HOST[:PORT][/PATH] without https://, the path in lower case, such as registry.example.org/group",
        )


def explained(name: str, user: str, failed: CommandFailed) -> VmatrixError:
    """Return what to tell the person who pushes an image of a name as a user (empty: none was given)."""
    reason = next((one for one in REASONS if one.words.search(failed.detail)), OTHER)
    said = reason.said.format(who=f"user {user}" if user else "a push without --user")
    return reason.kind(f"{name} could not be pushed: {said}", detail=failed.detail, hint=reason.hint)
