"""Whose fault a failed check is. docs/checks.md has the table."""

from __future__ import annotations

import time
from pathlib import Path

from harness.cell.steps import describe
from harness.errors import Blame, HarnessBug, VmatrixError
from harness.kube.failures import ApiFailure, Unreachable
from harness.kube.tunnels import lost_since
from harness.until import TimedOut

RECENT_SECONDS = 10.0  # looks back, not a wait: a tunnel that failed this recently explains a silent API


def of_the_guest(error: BaseException | None, *, asserted: bool) -> bool:
    """Tell whether a check found the failure in the guest.

    It did so by its assertion, because it waited there in vain, or because the guest's API, the only one that checks
    ask, refused it or did not answer.
    """
    return asserted or isinstance(error, TimedOut | ApiFailure | Unreachable)


def blame_of(error: BaseException | None, *, asserted: bool, own: bool = False, check: str = "a check") -> Blame:
    """Return whose fault a failed check is while machines and the way to them are what they were.

    Args:
        asserted: whether the check itself found the failure.
        own: whether the error came out of the project's own code.
    """
    if of_the_guest(error, asserted=asserted):
        return Blame.PRODUCT
    if own and not isinstance(error, VmatrixError | BaseExceptionGroup):
        return Blame.USER
    return Blame(str(describe(error or HarnessBug(check))["blame"]))


def cut_off(tunnels: Path | None) -> str:
    """Say why the way to the machines was just cut; "" where it was not."""
    broken = lost_since(tunnels, time.time() - RECENT_SECONDS)
    return f"the tunnel to a machine broke: {broken[-1].why}" if broken else ""
