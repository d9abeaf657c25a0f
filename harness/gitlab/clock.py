"""Whether this host's clock and GitLab's agree: tokens are valid from one moment to another."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime

from harness.conversation import opened, within
from harness.infra.findings import Finding

SECONDS = 20.0  # for one answer of GitLab
MOST_SECONDS = 30.0  # a Date header has whole seconds, and an answer takes its time


def findings(environment: Mapping[str, str], *, now: float | None = None) -> Iterator[Finding]:
    """Yield what does not fit; nothing where no GitLab is known."""
    api = environment.get("CI_API_V4_URL", "")
    if not api.startswith(("https://", "http://")):
        return
    try:
        theirs = _date(f"{api}/version")
    except (OSError, ValueError, http.client.HTTPException) as error:
        remedy = "let the runner's jobs reach GitLab: proxy, network policy, DNS"
        yield Finding(f"{api} does not answer: {error}", "jobs keep their history and notes there", remedy, False)
        return
    apart = (time.time() if now is None else now) - theirs
    if abs(apart) > MOST_SECONDS:
        what = f"this host's clock is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} GitLab's"
        why = "the infra cluster may find the job's token not valid yet, or expired"
        yield Finding(what, why, "synchronise the clock of the runner's host: timedatectl set-ntp true")


def _date(url: str) -> float:
    """Return the time of an answer, whatever else it says; ValueError without one."""
    request = urllib.request.Request(url)  # noqa: S310 - GitLab's own, by CI_API_V4_URL
    try:
        with within(SECONDS), opened(request, SECONDS) as answer:
            said = answer.headers.get("Date", "")
    except urllib.error.HTTPError as error:
        with error:
            said = error.headers.get("Date", "")
    return parsedate_to_datetime(said).timestamp()
