"""Which Jobs of operations that ended are kept, by the object's policy."""

from __future__ import annotations

from collections.abc import Iterable

from harness.kube.client import Json
from harness.kube.objects import deleting, is_condition
from harness.operator.controllers.execution_end import COMPLETE, ended_at, has_ended


def surplus(jobs: Iterable[Json], *, keep_failed: int, keep_succeeded: int) -> list[Json]:
    """Return the Jobs to delete: of those that ended well and of the others, all but the latest few.

    Args:
        jobs: of one cluster that no operation runs of.
    """
    ended = [job for job in jobs if has_ended(job) and not deleting(job)]
    good = [job for job in ended if is_condition(job, COMPLETE, "True")]
    bad = [job for job in ended if not is_condition(job, COMPLETE, "True")]
    return [*_oldest(good, keep_succeeded), *_oldest(bad, keep_failed)]


def _oldest(jobs: list[Json], keep: int) -> list[Json]:
    return sorted(jobs, key=lambda job: ended_at(job) or "", reverse=True)[keep:]
