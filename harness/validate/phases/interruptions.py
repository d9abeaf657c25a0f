"""Whether an address was available all through a phase."""

from __future__ import annotations

from harness.validate.facts.availability import Availability
from harness.validate.findings import Mismatch


def interrupted(seen: Availability, *, phase_seconds: float, limit: float | None) -> list[Mismatch]:
    """Return outages of an address during a phase, and what keeps the requests from proving that there were none.

    Args:
        phase_seconds: how long the phase took; the requests must cover it.
        limit: the longest outage that is allowed, in seconds; None for any.
    """
    name = seen.name
    if seen.asked == seen.failed:
        return [Mismatch(name, "successful requests during the phase", seen.summary(limit))]
    found: list[Mismatch] = []
    if seen.seconds < phase_seconds:
        took = f"{seen.seconds:.0f} s"
        found.append(Mismatch(name, f"requests during all {phase_seconds:.0f} s of the phase", took))
    if seen.lasts:
        found.append(Mismatch(name, "an answer after the phase", f"none for {seen.outage:.1f} s; {seen.why}"))
    if limit is not None and seen.unwatched > limit:
        found.append(Mismatch(name, f"a request at least every {limit:.0f} s", f"none for {seen.unwatched:.0f} s"))
    if limit is not None and seen.outage > limit:
        found.append(Mismatch(name, f"no outage longer than {limit:.0f} s", seen.summary(limit)))
    return found
