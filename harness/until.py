"""The one way to wait: probe until there is a value, until it can never come right, or until the deadline.

Only transitions are logged: a reason that stays the same is logged once. A failure that passes (an API that is
overloaded, cut off or frozen) is one more reason to wait, and is reported when time is up.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from harness.errors import InfraRetriable, VmatrixError
from harness.pressure import this_host

log = logging.getLogger(__name__)
T = TypeVar("T")
DESCRIBE_SECONDS = 15.0  # for all that is asked once time is up
GROWTH = 1.2
LONGEST_TROUBLED_PAUSE = 2.0  # between probes that fail
_UNDER_WAY: dict[int, _Wait[Any]] = {}  # every wait of this process


@dataclass(frozen=True)
class NotYet:
    """A probe's answer while there is still something to wait for: why."""

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


class TimedOut(InfraRetriable):
    """What was waited for did not come before the deadline."""


class Ground(Protocol):
    """What every wait of this process stands on, such as the programs of an infra cluster on this host."""

    def lost(self) -> VmatrixError | None:
        """Return why waiting is in vain, None where it is not. Asked at each probe."""

    def trouble(self) -> str:
        """Return what is wrong now, in lines, to be said when time is up; "" for nothing."""


_GROUNDS: list[Ground] = []


def stand_on(ground: Ground) -> None:
    """Let all waits of this process end when a ground is lost, and say what is wrong with it when time is up."""
    if ground not in _GROUNDS:
        _GROUNDS.append(ground)


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
        what: the thing waited for, as a phrase after "waiting for": "VM cp-0 to have an address".
        describe: asked for more detail (last conditions, last events) only when time is up.
        interval: seconds between probes.
        slowest: seconds up to which the interval grows, by a fifth from probe to probe; None for a constant one.

    Raises:
        TimedOut: with `what`, the last reason, what `describe` said, and what is wrong with the grounds.
        VmatrixError: a ground is lost.
    """
    import tenacity  # which commands that wait for nothing do not need

    wait = _Wait(probe, deadline, what, interval, slowest)
    retrying: tenacity.Retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda answer: isinstance(answer, NotYet)),
        stop=lambda _: deadline.remaining() <= 0,
        wait=lambda _: wait.pause(),
        retry_error_callback=lambda _: NotYet(""),
        sleep=time.sleep,
    )
    _UNDER_WAY[id(wait)] = wait
    try:
        answer = retrying(wait.attempt)
    finally:
        del _UNDER_WAY[id(wait)]
    if isinstance(answer, NotYet):
        waited = time.monotonic() - wait.began
        troubles = [said for ground in _GROUNDS if (said := ground.trouble())]
        why = "; ".join([wait.last_words(), *(said.splitlines()[0] for said in troubles)])
        summary = f"timed out after {waited:.0f} s waiting for {what}: {why}"
        host = this_host()
        hint = f"{host.busy}; {host.option} stretches every wait" if host.busy else ""
        raise TimedOut(summary, detail="\n".join(filter(None, [_described(describe), *troubles])), hint=hint)
    return answer


@dataclass
class _Wait(Generic[T]):
    """One wait under way: its arguments (see `until`), the reasons seen so far, and how many probes in a row failed."""

    probe: Callable[[], T | NotYet]
    deadline: Deadline
    what: str
    interval: float
    slowest: float | None
    reasons: list[str] = field(default_factory=list)
    troubles: int = 0

    def __post_init__(self) -> None:
        self.current = self.interval
        self.began = time.monotonic()

    def attempt(self) -> T | NotYet:
        """Probe once; log a reason that is new."""
        try:
            with _within(self.deadline):
                answer = self.probe()
            self.troubles = 0
        except VmatrixError as error:
            if not error.passing:
                raise
            self.troubles += 1
            answer = NotYet(error.summary)
        if isinstance(answer, NotYet) and (not self.reasons or self.reasons[-1] != answer.reason):
            self.reasons.append(answer.reason)
            log.info("waiting for %s: %s", self.what, answer.reason)
        if isinstance(answer, NotYet):
            for lost in filter(None, (ground.lost() for ground in _GROUNDS)):
                raise lost
        return answer

    def pause(self) -> float:
        """Return the seconds until the next probe, which is never later than the deadline."""
        wanted = self.current
        if self.troubles:
            wanted = grown(max(self.interval, 0.1), self.troubles, LONGEST_TROUBLED_PAUSE)
        if self.slowest is not None:
            self.current = min(self.current * GROWTH, self.slowest)
        return min(wanted, self.deadline.remaining() + 0.001)

    def last_words(self) -> str:
        """Return why the wait failed; after a failed probe, perhaps cut off by the deadline, also the reason before."""
        if not self.reasons:
            return "no answer"
        if self.troubles and len(self.reasons) > 1:
            return f"{self.reasons[-1]} (before that: {self.reasons[-2]})"
        return self.reasons[-1]

    def __str__(self) -> str:
        """Return what is waited for, since when, and why it is not there yet."""
        reason = f": {self.reasons[-1]}" if self.reasons else ""
        return f"waiting for {self.what} ({time.monotonic() - self.began:.0f} s){reason}"


def under_way() -> str:
    """Return what this process waits for: the wait that began first, and how many more; "" for nothing."""
    waits = sorted(_UNDER_WAY.values(), key=lambda wait: wait.began)
    more = f"; and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"{waits[0]}{more}" if waits else ""


@contextmanager
def heartbeat(say: Callable[[str], object], *, every: float, doing: Callable[[], str] = under_way) -> Iterator[None]:
    """Say at intervals what is being done while the body runs; `doing` returns "" when nothing is to be said."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(every):
            if text := doing():
                say(text)

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _described(describe: Callable[[], str] | None) -> str:
    """Return the detail of a wait that failed; who cannot be asked for it does not hide the failure itself."""
    if describe is None:
        return ""
    try:
        with _within(Deadline.after(DESCRIBE_SECONDS)):
            return describe()
    except VmatrixError as error:
        return f"no more detail: {error.summary}"


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
    number = 1
    while True:
        try:
            return attempt()
        except Exception as error:
            seconds = pause(error, number)
            if seconds is None or number >= most or seconds > deadline.remaining():
                raise
        time.sleep(seconds)
        number += 1


def grown(first: float, times: int, longest: float) -> float:
    """Return a pause that has doubled with every failure, up to `longest`, half to once and a half of it by chance.

    Clients that failed at the same moment do not come back at the same moment.
    """
    doubled = first * 2.0 ** min(times - 1, 30)
    return float(min(longest, doubled) * random.uniform(0.5, 1.5))  # noqa: S311 - spreads requests, keeps no secret
