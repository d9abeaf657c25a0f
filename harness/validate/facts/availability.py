"""Whether addresses answered all through a phase: read from the lines that on_node_availability.py printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.validate.judge.mismatch import Mismatch

# A question may be late when the host is busy. What is asked later than this after the one before has not been watched.
UNWATCHED_SECONDS = 10.0


@dataclass(frozen=True)
class TimedRequest:
    """One question: when it was asked (seconds since the first), how long it took, and why it got no good answer."""

    at: float
    took: float
    why: str


@dataclass(frozen=True)
class Availability:
    """What one address answered during a phase.

    outage: the longest time, in seconds, from the first question without a good answer to the next good answer.
    lasts: whether an outage goes on at the end.  seconds: from the first question to the end of the last.
    unwatched: the longest time without any question, 0 when that is tolerable.
    """

    name: str
    asked: int
    failed: int
    outage: float
    why: str
    seconds: float
    unwatched: float
    lasts: bool

    def told(self, bound: float | None) -> str:
        """Say it in one line, as reports do; without a bound (seconds) that none is judged by."""
        allowed = "no bound, there is one node" if bound is None else f"at most {bound:.0f} s"
        why = f"; the longest began with: {self.why}" if self.failed else ""
        why += f"; not asked for {self.unwatched:.0f} s, the host was busy" if self.unwatched else ""
        return (
            f"{self.name}: longest outage {self.outage:.1f} s ({allowed}), "
            f"{self.failed} of {self.asked} questions without a good answer in {self.seconds:.0f} s{why}"
        )


def read_answers(text: str) -> dict[str, Availability]:
    """Return what the lines come to, by name."""
    found: dict[str, list[TimedRequest]] = {}
    for name, row in read_rows(text):
        found.setdefault(name, []).append(row)
    return {name: summed_up(name, rows) for name, rows in found.items()}


def read_rows(text: str) -> list[tuple[str, TimedRequest]]:
    """Read the lines; words that ssh or Python printed among them, and a last line that was cut off, do not count."""
    found: list[tuple[str, TimedRequest]] = []
    whole, _, _ = text.rpartition("\n")
    for line in whole.splitlines():
        try:
            row = json.loads(line)
            found.append((row["of"], TimedRequest(float(row["at"]), float(row["took"]), row["why"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def summed_up(name: str, rows: Sequence[TimedRequest]) -> Availability:
    """Return what the questions of one name come to. There is at least one."""
    longest, why, began = 0.0, "", None
    unwatched, last = 0.0, rows[0]
    for row in rows:
        gap = row.at - (last.at + last.took)
        unwatched = max(unwatched, gap if gap > UNWATCHED_SECONDS else 0.0)
        last = row
        end = row.at + row.took
        if row.why and began is None:
            began = row
        if began is not None and end - began.at > longest:
            longest, why = end - began.at, began.why
        if not row.why:
            began = None
    return Availability(
        name=name,
        asked=len(rows),
        failed=sum(bool(row.why) for row in rows),
        outage=longest,
        why=why,
        seconds=last.at + last.took - rows[0].at,
        unwatched=unwatched,
        lasts=began is not None,
    )


def interrupted(answers: Availability, *, phase_seconds: float, bound: float | None) -> list[Mismatch]:
    """Return what speaks against an address having been there all through a phase.

    Args:
        phase_seconds: how long the phase took; the questions must cover it.
        bound: the longest outage that is allowed, in seconds; None where nothing could be there all the time.
    """
    name = answers.name
    if answers.asked == answers.failed:
        return [Mismatch(name, "good answers during the phase", answers.told(bound))]
    found: list[Mismatch] = []
    if answers.seconds < phase_seconds:
        seen = f"{answers.seconds:.0f} s"
        found.append(Mismatch(name, f"to have been asked all through the {phase_seconds:.0f} s of the phase", seen))
    if answers.lasts:
        found.append(Mismatch(name, "an answer after the phase", f"none for {answers.outage:.1f} s; {answers.why}"))
    if bound is not None and answers.unwatched > bound:
        found.append(Mismatch(name, f"a question at least every {bound:.0f} s", f"none for {answers.unwatched:.0f} s"))
    if bound is not None and answers.outage > bound:
        found.append(Mismatch(name, f"no outage longer than {bound:.0f} s", answers.told(bound)))
    return found
