"""What GitLab says to a job about itself and its pipeline, from predefined variables and those of the pipeline files.

Does not cover settings (VMATRIX_*): they are read where they are read at a desk, too.
https://docs.gitlab.com/ci/variables/predefined_variables/
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput

MERGE_REQUEST, SCHEDULE = "merge_request_event", "schedule"
AT_A_DESK = "`vmatrix gitlab` is for jobs of a GitLab pipeline; elsewhere, use `vmatrix run`"
NO_COMMIT = "0" * 40  # what GitLab gives as the commit before a branch's first push
RUN_ALPHABET = string.ascii_lowercase + string.digits
RUN_LENGTH = 6


@dataclass(frozen=True)
class Job:
    """The job that this process is a part of.

    id: differs between a job and its retry.  url: its page, "" where there is none.
    directory: the checkout, absolute.
    """

    id: str
    host: str
    url: str
    directory: Path

    @property
    def run(self) -> str:
        """Return the id of the job's run of cells: the same in its script and its after_script, another in a retry."""
        number = int.from_bytes(hashlib.sha256(f"{self.host}/{self.id}".encode()).digest(), "big")
        base = len(RUN_ALPHABET)
        return "".join(RUN_ALPHABET[number // base**place % base] for place in range(RUN_LENGTH))


@dataclass(frozen=True)
class Pipeline:
    """The pipeline that a job plans for.

    source: what started it.  merge_request: its number within the project, "" of none.  labels: of the merge request.
    base: the revision to which the change is compared, "" where there is none.
    schedule: what the schedule is for.  tier: what a person asked for when starting the pipeline.
    """

    source: str
    merge_request: str = ""
    labels: tuple[str, ...] = ()
    base: str = ""
    schedule: str = ""
    tier: str = ""


def read_job(environment: Mapping[str, str]) -> Job:
    """Read the job's variables; BadInput names all that every job has and that are missing."""
    _require(environment, "CI_JOB_ID", "CI_PROJECT_DIR")
    return Job(
        id=environment["CI_JOB_ID"],
        host=environment.get("CI_SERVER_HOST", ""),
        url=environment.get("CI_JOB_URL", ""),
        directory=Path(environment["CI_PROJECT_DIR"]).resolve(),
    )


def read_pipeline(environment: Mapping[str, str]) -> Pipeline:
    """Read the pipeline's variables; BadInput when one is missing that the pipeline of this kind has."""
    _require(environment, "CI_PIPELINE_SOURCE")
    source = environment["CI_PIPELINE_SOURCE"]
    if source == MERGE_REQUEST:
        _require(environment, "CI_MERGE_REQUEST_IID", "CI_MERGE_REQUEST_DIFF_BASE_SHA")
    return Pipeline(
        source=source,
        merge_request=environment.get("CI_MERGE_REQUEST_IID", ""),
        labels=tuple(w for w in environment.get("CI_MERGE_REQUEST_LABELS", "").split(",") if w),
        base=_base(environment, source),
        schedule=environment.get("MATRIX_SCHEDULE", ""),
        tier=environment.get("MATRIX_WANT_TIER", ""),
    )


def _base(environment: Mapping[str, str], source: str) -> str:
    """Return what the change is compared to.

    A merged-results pipeline runs on a merge with the target branch's head: compared to the merge request's base, all
    that others have merged meanwhile would look changed.
    """
    if source == MERGE_REQUEST:
        return environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA") or environment["CI_MERGE_REQUEST_DIFF_BASE_SHA"]
    before = environment.get("CI_COMMIT_BEFORE_SHA", "")
    return "" if before == NO_COMMIT else before


def _require(environment: Mapping[str, str], *names: str) -> None:
    missing = [name for name in names if not environment.get(name)]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise BadInput(f"{' and '.join(missing)} {are} not set", hint=AT_A_DESK)
