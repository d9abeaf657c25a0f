"""Where a run happens, asked at its start: of GitLab's variables in a job, of git at a desk.

Only the variables that are named here are read: none of them is a secret. CI_REPOSITORY_URL, which holds a token, is
not among them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import proc
from harness.http_client import WebRequest, ask

if TYPE_CHECKING:
    from harness.history.record import RunOrigin

GIT_SECONDS = 10.0  # against hanging: one local command; without its answer the commit is unknown
CLOCK_SECONDS = 5.0  # for one answer of GitLab; without it the host's clock counts
MOST_APART = 60.0  # seconds; a Date header has whole ones, and an answer takes its time
API = "CI_API_V4_URL"
JOB = "CI_JOB_ID"
CHECKOUT = "CI_PROJECT_DIR"
# GitLab: "Predefined CI/CD variables reference". MATRIX_* are set by the job that triggers a child pipeline: the cells
# of one night may be spread over several of them.
VARIABLES: dict[str, tuple[str, ...]] = {
    "project": ("CI_PROJECT_PATH",),
    "project_url": ("CI_PROJECT_URL",),
    "commit": ("CI_COMMIT_SHA",),
    "branch": ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"),
    "merge_request": ("CI_MERGE_REQUEST_IID",),
    "pipeline": ("MATRIX_PIPELINE_ID", "CI_PIPELINE_ID"),
    "pipeline_url": ("MATRIX_PIPELINE_URL", "CI_PIPELINE_URL"),
    "job": (JOB,),
    "job_url": ("CI_JOB_URL",),
    "source": ("CI_PIPELINE_SOURCE",),
    "runner": ("CI_RUNNER_DESCRIPTION",),
    "tag": ("CI_COMMIT_TAG",),
}


def where(checkout: Path, environment: Mapping[str, str]) -> RunOrigin:
    """Return where a run happens: outside of a job, commit and branch of the checkout, unknown without git."""
    from harness.history.record import RunOrigin  # which whoever only asks for a variable's name does not need

    if environment.get(JOB):
        given = {name: [environment[n] for n in names if environment.get(n)] for name, names in VARIABLES.items()}
        found: dict[str, Any] = {name: values[0] for name, values in given.items() if values}
        return RunOrigin(**found, ahead=clock_ahead(environment))
    commit = _git(checkout, "rev-parse", "HEAD")
    return RunOrigin(
        commit=commit,
        branch=_git(checkout, "symbolic-ref", "--short", "-q", "HEAD"),
        changed=bool(commit and _git(checkout, "status", "--porcelain", "--untracked-files=no")),
    )


def clock_ahead(environment: Mapping[str, str], *, now: float | None = None) -> float:
    """Return by how many seconds this host's clock is ahead of GitLab's; 0 for little, and where GitLab does not say.

    Hosts of runners have clocks of their own, and what several of them write is compared.
    """
    api = environment.get(API, "")
    try:
        apart = (time.time() if now is None else now) - time_of(f"{api}/version", CLOCK_SECONDS)
    except (OSError, ValueError, OverflowError):
        return 0.0
    return round(apart, 1) if abs(apart) > MOST_APART else 0.0


def time_of(url: str, seconds: float) -> float:
    """Return the time at which a server answers, in seconds since 1970, whatever else it says.

    Raises:
        OSError: no answer.  ValueError: one without a time, or a wrong URL.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("is not the URL of a server")
    return parsedate_to_datetime(ask(WebRequest(url), seconds).headers.get("Date", "")).timestamp()


def root(environment: Mapping[str, str]) -> Path:
    """Return the directory that links to artifacts are relative to."""
    given = environment.get(CHECKOUT, "")
    return Path(given).resolve() if given and environment.get(JOB) else Path.cwd().resolve()


def _git(checkout: Path, *arguments: str) -> str:
    try:
        done = proc.git(checkout, *arguments, timeout=GIT_SECONDS, env={"GIT_OPTIONAL_LOCKS": "0"})
    except proc.CommandFailed:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
