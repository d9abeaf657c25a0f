"""The one way to wait: probe until there is a value, until it can never come right, or until the deadline.

Only transitions are logged: a reason that stays the same is said once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from harness.errors import InfraRetriable

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class NotYet:
    """A probe's answer while the thing waited for is not there: why."""

    reason: str


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock; passed down, so that nested waits share one budget."""

    at: float

    @staticmethod
    def after(seconds: float) -> Deadline:
        """Return the deadline that lies `seconds` from now."""
        return Deadline(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left, never less than 0."""
        return max(0.0, self.at - time.monotonic())

    def sooner(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))


class TimedOut(InfraRetriable):
    """What was waited for did not come before the deadline."""


def until(
    probe: Callable[[], T | NotYet],
    *,
    deadline: Deadline,
    what: str,
    describe: Callable[[], str] | None = None,
    interval: float = 0.5,
) -> T:
    """Probe until the probe returns a value.

    Args:
        probe: returns a value, or NotYet(reason); raises for what can never come right.
        deadline: when to give up.
        what: the thing waited for, as a sentence: "VM cp-0 has an address".
        describe: asked for more detail (last conditions, last events) only when time is up.
        interval: seconds between probes.

    Raises:
        TimedOut: with `what`, the last reason, and what `describe` said.
    """
    reasons: list[str] = []

    def attempt() -> T | NotYet:
        answer = probe()
        if isinstance(answer, NotYet) and (not reasons or reasons[-1] != answer.reason):
            reasons.append(answer.reason)
            log.info("waiting until %s: %s", what, answer.reason)
        return answer

    began = time.monotonic()
    retrying: tenacity.Retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda answer: isinstance(answer, NotYet)),
        stop=lambda _: deadline.remaining() <= 0,
        wait=lambda _: min(interval, deadline.remaining() + 0.001),
        retry_error_callback=lambda _: NotYet(""),
        sleep=time.sleep,
    )
    answer = retrying(attempt)
    if isinstance(answer, NotYet):
        waited = time.monotonic() - began
        raise TimedOut(
            f"gave up after {waited:.0f} s waiting until {what}: {reasons[-1] if reasons else 'no answer'}",
            detail=describe() if describe is not None else "",
        )
    return answer
