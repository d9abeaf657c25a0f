"""Objects that a quota refuses for the moment: it is being computed, or somebody else's things are still going."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.kube.client import ApiFailure
from harness.until import Deadline, NotYet, until

T = TypeVar("T")
# Kubernetes' quota admission: the quota's controller has not counted yet, or there is no room left.
PASSING = ("status unknown for quota", "exceeded quota")


def admitted(create: Callable[[], T], *, what: str, seconds: float) -> T:
    """Create something, again and again while a quota refuses it.

    Args:
        create: does it; what is already there is not its failure.
        what: for a person.
        seconds: how long a quota may refuse.

    Raises:
        TimedOut: a quota still refuses.  ApiFailure: any other refusal.
    """

    def probe() -> tuple[T] | NotYet:
        try:
            return (create(),)
        except ApiFailure as failure:
            if failure.forbidden and any(words in failure.message for words in PASSING):
                return NotYet(failure.message)
            raise

    deadline = Deadline.after(seconds)
    return until(probe, deadline=deadline, what=f"the namespace's quota to admit {what}", interval=0.5)[0]
