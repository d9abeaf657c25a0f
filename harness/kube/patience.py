"""How long one request may take, and when the same is sent again.

An API server that is overloaded, being replaced, or cut off by what lies between answers 429, 5xx, or nothing. Such
trouble passes: a client with patience asks again, with growing and jittered pauses, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from harness.kube.failures import ApiFailure, Unreachable
from harness.until import Deadline, grown, persist, time_left

if TYPE_CHECKING:  # each SSH connection through the API starts a process with this module: pydantic would delay it
    from harness.spec.models import Timeouts

T = TypeVar("T")
# Refused before anything was done; after every other trouble the request may have been carried out all the same.
NOTHING_DONE_CODES = frozenset({429, 503})
MOST_ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.2  # pauses double from here to the longest
LONGEST_PAUSE_SECONDS = 5.0  # pacing: an API server that is back is noticed within it
LEAST_SECONDS = 0.05  # urllib3 refuses a time-out of 0


@dataclass(frozen=True)
class Patience:
    """How long one request may take, and for how long it is repeated while the API has trouble.

    connect_seconds: for the connection, TLS included.  read_seconds: the longest silence while an answer is awaited.
    watch_silence_seconds: the longest silence of a watch; the API server sends bookmarks about once a minute.
    whole_seconds: the longest whole answer, however often something of it comes; not of a watch, which does not end.
    again_seconds: after which no further attempt begins; 0 for a single attempt.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    watch_silence_seconds: float = 90.0
    whole_seconds: float = 40.0
    again_seconds: float = 0.0

    @staticmethod
    def of(limits: Timeouts) -> Patience:
        """Return the patience with an infra cluster that a site's timeouts.yml asks for."""
        return Patience(
            limits.api_connect, limits.api_read, whole_seconds=limits.api_whole, again_seconds=limits.api_again
        )

    def once(self) -> Patience:
        """Return the same without another attempt."""
        return replace(self, again_seconds=0.0)


HASTY = Patience()  # of controllers and probes, which have their own way to try again
PATIENT = Patience(again_seconds=30.0)  # of commands that need no matrix; others have Patience.of


def timeouts(patience: Patience, read_seconds: float | None = None) -> tuple[float, float]:
    """Return the connect and read time-outs of an attempt; none is longer than the wait around it has left."""
    read = patience.read_seconds if read_seconds is None else read_seconds
    left = time_left()
    if left is None:
        return patience.connect_seconds, read
    return max(LEAST_SECONDS, min(patience.connect_seconds, left)), max(LEAST_SECONDS, min(read, left))


def whole(patience: Patience, read_seconds: float | None = None) -> float:
    """Return how long an attempt's whole answer may take: no less than a silence in it, and no longer than a wait."""
    seconds = max(patience.whole_seconds, read_seconds or 0.0)
    left = time_left()
    return seconds if left is None else max(LEAST_SECONDS, min(seconds, left))


def with_patience(attempt: Callable[[], T], patience: Patience, *, repeatable: bool) -> T:
    """Make an attempt at a request, and more while trouble passes and patience lasts.

    Args:
        attempt: raises ApiFailure or Unreachable.
        repeatable: whether it does no harm to do again what may have been done already.

    Raises:
        ApiFailure, Unreachable: the last attempt's; the summary says how often it was tried.
    """
    tries = 0

    def counted() -> T:
        nonlocal tries
        tries += 1
        return attempt()

    def pause(error: BaseException, number: int) -> float | None:
        if not isinstance(error, (ApiFailure, Unreachable)) or not error.passing:
            return None
        nothing_done = isinstance(error, ApiFailure) and error.code in NOTHING_DONE_CODES
        if not (repeatable or nothing_done):
            return None
        wanted = grown(FIRST_PAUSE_SECONDS, number, LONGEST_PAUSE_SECONDS)
        asked = error.retry_after if isinstance(error, ApiFailure) else None
        return wanted if asked is None else asked + min(wanted, 1.0)

    left = time_left()
    seconds = patience.again_seconds if left is None else min(patience.again_seconds, left)
    most = MOST_ATTEMPTS if patience.again_seconds > 0 else 1
    try:
        return persist(counted, deadline=Deadline.after(seconds), most=most, pause=pause)
    except (ApiFailure, Unreachable) as error:
        if tries > 1 and error.passing:
            error.summary = f"{error.summary} (tried {tries} times)"
            error.args = (error.summary,)
        raise


def repeatable(method: str, body: Any) -> bool:
    """Tell whether a request may be made again after an answer was lost.

    A repeated create of a name is "already there"; one without a name would make a twin, unless it only asks.
    """
    if method != "POST":
        return True
    given: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    return bool((given.get("metadata") or {}).get("name")) or str(given.get("kind", "")).endswith("Review")
