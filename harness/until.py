"""The one way to wait: probe until there is a value, until it can never come right, or until the deadline.

Only transitions are logged: a reason that stays the same is said once. A failure that passes (an API that is
overloaded, cut off or frozen) is one more reason to wait on, and the last thing that is said when time is up.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from harness.errors import InfraRetriable, VmatrixError

log = logging.getLogger(__name__)
T = TypeVar("T")
DESCRIBE_SECONDS = 15.0  # for all that is asked once time is up
GROWTH = 1.2
LONGEST_TROUBLED_PAUSE = 2.0  # between probes that fail


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


_WAITING: ContextVar[Deadline | None] = ContextVar("the deadline of the wait around this call", default=None)


def time_left() -> float | None:
    """Return the seconds that the wait around this call still has, None outside of every wait.

    Whoever asks something over a network inside a probe lets the answer take no longer than this.
    """
    deadline = _WAITING.get()
    return None if deadline is None else deadline.remaining()


@contextmanager
def _within(deadline: Deadline) -> Iterator[None]:
    outer = _WAITING.get()
    token = _WAITING.set(deadline if outer is None else Deadline(min(outer.at, deadline.at)))
    try:
        yield
    finally:
        _WAITING.reset(token)


def until(
    probe: Callable[[], T | NotYet],
    *,
    deadline: Deadline,
    what: str,
    describe: Callable[[], str] | None = None,
    interval: float = 0.5,
    slowest: float | None = None,
) -> T:
    """Probe until the probe returns a value.

    Args:
        probe: returns a value, or NotYet(reason); raises for what can never come right. An error that says of itself
            that it passes is as good as NotYet.
        deadline: when to give up.
        what: the thing waited for, as a sentence: "VM cp-0 has an address".
        describe: asked for more detail (last conditions, last events) only when time is up.
        interval: seconds between probes.
        slowest: up to which the interval grows, by a fifth from probe to probe; None for one that stays. What comes
            soon is seen soon, and what takes long costs an API few requests.

    Raises:
        TimedOut: with `what`, the last reason, and what `describe` said.
    """
    reasons: list[str] = []
    troubles = 0
    current = interval

    def attempt() -> T | NotYet:
        nonlocal troubles
        try:
            with _within(deadline):
                answer = probe()
            troubles = 0
        except VmatrixError as error:
            if not error.passing:
                raise
            troubles += 1
            answer = NotYet(error.summary)
        if isinstance(answer, NotYet) and (not reasons or reasons[-1] != answer.reason):
            reasons.append(answer.reason)
            log.info("waiting until %s: %s", what, answer.reason)
        return answer

    def pause() -> float:
        nonlocal current
        wanted = current if not troubles else grown(max(interval, 0.1), troubles, LONGEST_TROUBLED_PAUSE)
        current = min(current * GROWTH, slowest) if slowest is not None else interval
        return min(wanted, deadline.remaining() + 0.001)

    began = time.monotonic()
    retrying: tenacity.Retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda answer: isinstance(answer, NotYet)),
        stop=lambda _: deadline.remaining() <= 0,
        wait=lambda _: pause(),
        retry_error_callback=lambda _: NotYet(""),
        sleep=time.sleep,
    )
    answer = retrying(attempt)
    if isinstance(answer, NotYet):
        waited = time.monotonic() - began
        raise TimedOut(
            f"gave up after {waited:.0f} s waiting until {what}: {_last_words(reasons, troubled=troubles > 0)}",
            detail=_described(describe),
        )
    return answer


def _last_words(reasons: list[str], *, troubled: bool) -> str:
    """Return why a wait failed; behind a trouble, which may be the deadline's own, what was said before it."""
    if not reasons:
        return "no answer"
    return f"{reasons[-1]} (before that: {reasons[-2]})" if troubled and len(reasons) > 1 else reasons[-1]


def _described(describe: Callable[[], str] | None) -> str:
    """Return the detail of a wait that failed; who cannot be asked for it does not hide the failure itself."""
    if describe is None:
        return ""
    try:
        with _within(Deadline.after(DESCRIBE_SECONDS)):
            return describe()
    except VmatrixError as error:
        return f"no more detail could be had: {error.summary}"


def persist(
    attempt: Callable[[], T], *, deadline: Deadline, most: int, pause: Callable[[BaseException, int], float | None]
) -> T:
    """Try until it succeeds, a bounded number of times.

    Args:
        deadline: no attempt begins after it.
        most: attempts.
        pause: given an attempt's error and its number from 1 on, returns the seconds before the next one, None when
            there is to be none.

    Raises:
        Exception: the last attempt's.
    """

    def again(state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        if error is None:
            return False
        seconds = pause(error, state.attempt_number)
        if seconds is None or state.attempt_number >= most or seconds > deadline.remaining():
            return False
        pauses[0] = seconds
        return True

    pauses = [0.0]
    retrying: tenacity.Retrying = tenacity.Retrying(
        retry=again, wait=lambda _: pauses[0], reraise=True, sleep=time.sleep
    )
    return retrying(attempt)


def grown(first: float, times: int, longest: float) -> float:
    """Return a pause that has doubled with every failure, up to `longest`, half to once and a half of it by chance.

    Clients that failed at the same moment do not come back at the same moment.
    """
    doubled = first * 2.0 ** min(times - 1, 30)
    return float(min(longest, doubled) * random.uniform(0.5, 1.5))  # noqa: S311 - spreads requests, keeps no secret
