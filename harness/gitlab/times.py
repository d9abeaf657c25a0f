"""How long a cell's job may take: the harness gives its verdict first, and GitLab's cut is the last resort.

GitLab skips after_script and the artifacts of a job that exceeds its `timeout`. The runner's own two limits end its
script and its after_script in order, so the job's limit has to be longer than both together.
https://docs.gitlab.com/ci/runners/configure_runners/#set-script-and-after_script-timeouts
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.model import Cell
from harness.spec.models import Timeouts
from harness.spec.suites import IDEMPOTENCE, UPSTREAM

PACE = 3.0  # a slow night: times the usual duration, before the one step that is stuck meets its own deadline
DEPLOY_DEADLINES = ("golden_image", "clone", "machine_address", "ssh", "cloud_init", "phase_deploy", "conformance")
LATER_DEADLINE = "phase_later"


@dataclass(frozen=True)
class JobTimes:
    """Limits of a job, in whole minutes: its script (before_script included), its after_script, all of it."""

    script: int
    after: int
    job: int


def job_times(cell: Cell, suites: Collection[str], timeouts: Timeouts, expected_seconds: float) -> JobTimes:
    """Return the limits of a cell's job from the scaled timeouts, its suites, and what the cell usually takes."""
    names = DEPLOY_DEADLINES + ((LATER_DEADLINE,) if len(cell.phases) > 1 else ())
    stuck = max(getattr(timeouts, name) for name in names)
    end = timeouts.collect + timeouts.teardown
    usual = PACE * expected_seconds + sum(_not_expected(cell, suites, timeouts))
    script = timeouts.job_prepare + timeouts.admission + usual + stuck + end
    after = 2 * end + timeouts.job_end  # the run's own end is waited for, then what it left is collected and removed
    return JobTimes(
        _minutes(script), _minutes(after), _minutes(script) + _minutes(after) + _minutes(timeouts.job_start)
    )


def _not_expected(cell: Cell, suites: Collection[str], timeouts: Timeouts) -> Iterator[float]:
    """Yield the deadlines of what takes long and no estimate knows: those runs may have been another tier's."""
    for number, phase in enumerate(cell.phases):
        if phase.cluster:
            whole_set = timeouts.upstream_specs + timeouts.conformance_overrun
            yield whole_set * len(UPSTREAM.intersection(suites))
        if phase.idempotent and IDEMPOTENCE in suites:
            yield timeouts.phase_later if number else timeouts.phase_deploy


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60)
