"""Whether a job's ID token fits, as far as can be told without the key: audience, issuer, lifetime."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from harness.gitlab.access import SERVER, TOKEN
from harness.infra.findings import Finding

AUDIENCE = "vmatrix"  # of deploy/authentication and harness/gitlab/jobs.yml
WISH = f"`id_tokens: {{{TOKEN}: {{aud: {AUDIENCE}}}}}`"


def findings(environment: Mapping[str, str], *, now: float | None = None) -> Iterator[Finding]:
    """Yield what does not fit; nothing where the job logs in otherwise."""
    if not environment.get(SERVER):
        return
    claims = _claims(environment.get(TOKEN, ""))
    if claims is None:
        yield Finding(
            f"{TOKEN} is not set, or is no token", "the infra cluster refuses the job", f"add {WISH} to the job"
        )
        return
    heard = claims.get("aud")
    if AUDIENCE not in (heard if isinstance(heard, list) else [heard]):
        what = f"{TOKEN} is for the audience {heard!r}"
        yield Finding(
            what, "the infra cluster trusts tokens for vmatrix alone", f"change the job's id_tokens to {WISH}"
        )
    url = environment.get("CI_SERVER_URL", "")
    if url and claims.get("iss") != url:
        what = f"{TOKEN} was issued by {claims.get('iss')!r}, not by {url}"
        remedy = "use GitLab's external URL as the issuer in deploy/authentication"
        yield Finding(what, "the infra cluster trusts one issuer", remedy, False)
    left = _number(claims.get("exp")) - (time.time() if now is None else now)
    if left <= 0:
        remedy = "give the job a longer `timeout`: the token lives as long"
        yield Finding(f"{TOKEN} expired {-left:.0f} s ago", "the infra cluster refuses the job", remedy)


def _claims(token: str) -> dict[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
