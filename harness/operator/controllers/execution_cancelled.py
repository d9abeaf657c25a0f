"""Operations that a person stops, by an annotation that names the number of the one that runs; pure."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import Blame
from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.resources import CANCEL_ANNOTATION
from harness.operator.execute.termination import Termination

HINT = "it is not tried again before the object changes"


def is_cancelled(deployment: Json | None, operation: Json) -> bool:
    """Tell whether somebody wants an operation to be stopped. A number of another operation counts for nothing."""
    asked = dig(deployment, "metadata", "annotations", CANCEL_ANNOTATION)
    return asked is not None and asked == str(operation["sequence"])


def cancelled(end: Termination | None = None) -> Termination:
    """Return the end of an operation that was stopped; one that had succeeded before that has succeeded.

    Args:
        end: what its executor said; None if it never began.
    """
    if end is not None and end.outcome == "succeeded":
        return end
    summary = "somebody stopped it by annotation"
    said = f"{summary}; {end.summary}" if end is not None and end.summary else summary
    return replace(end or Termination("cancelled"), outcome="cancelled", blame=Blame.USER, summary=said, hint=HINT)
