"""How available an address was during a phase, from the lines that machine/availability.py prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

UNWATCHED_SECONDS = 10.0  # a busy host sends requests late; a longer gap between two of them counts as not watched


@dataclass(frozen=True)
class TimedRequest:
    """One request: when it was sent (seconds since the first), how long it took, and why it failed ("": it did not)."""

    at: float
    took: float
    why: str


@dataclass(frozen=True)
class Availability:
    """How available one address was during a phase.

    outage: the longest time, in seconds, from the first failed request to the next successful one.
    why: how the longest outage began.  lasts: whether an outage goes on at the end.
    seconds: from the first request to the end of the last.
    unwatched: the longest time without any request, 0 when that is tolerable.
    """

    name: str
    asked: int
    failed: int
    outage: float
    why: str
    seconds: float
    unwatched: float
    lasts: bool

    def summary(self, limit: float | None) -> str:
        """Return one line for reports; `limit` (seconds) is the longest outage allowed, None for any."""
        allowed = "no limit on a single node" if limit is None else f"limit {limit:.0f} s"
        why = f"; the longest outage began with: {self.why}" if self.failed else ""
        why += f"; no request was sent for {self.unwatched:.0f} s, the host was busy" if self.unwatched else ""
        return (
            f"{self.name}: longest outage {self.outage:.1f} s ({allowed}), "
            f"{self.failed} of {self.asked} requests failed in {self.seconds:.0f} s{why}"
        )


def read_availability(text: str) -> dict[str, Availability]:
    """Return the availability of each address, by its name."""
    found: dict[str, list[TimedRequest]] = {}
    for name, row in read_requests(text):
        found.setdefault(name, []).append(row)
    return {name: availability_of(name, rows) for name, rows in found.items()}


def read_requests(text: str) -> list[tuple[str, TimedRequest]]:
    """Return the requests, each with its address's name; lines of ssh and a last line that was cut off are skipped."""
    found: list[tuple[str, TimedRequest]] = []
    whole, _, _ = text.rpartition("\n")
    for line in whole.splitlines():
        try:
            row = json.loads(line)
            found.append((row["of"], TimedRequest(float(row["at"]), float(row["took"]), row["why"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def availability_of(name: str, rows: Sequence[TimedRequest]) -> Availability:
    """Sum up the requests to one address. There is at least one."""
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
