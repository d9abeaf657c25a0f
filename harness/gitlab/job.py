"""A job: what GitLab says to it about itself and its pipeline, its project and its settings.

Settings (VMATRIX_*) are not read here, but where every command reads them. Predefined variables:
https://docs.gitlab.com/ci/variables/predefined_variables/
"""

from __future__ import annotations

import hashlib
import os
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import proc, providers
from harness.cell.place import is_label_value
from harness.errors import BadInput
from harness.gitlab.access import job_kubeconfig
from harness.paths import project_dir
from harness.plan.goal import profile_in
from harness.rundir import RunDir
from harness.spec import load_spec
from harness.spec.loader import load_part, load_timeouts
from harness.spec.models import Infra, QuarantineEntry, Timeouts
from harness.spec.project import Project, matrix_dir
from harness.spec.settings import Settings, load_settings
from harness.streams import tell_once

MERGE_REQUEST, SCHEDULE = "merge_request_event", "schedule"
AT_A_DESK = "`vmatrix gitlab` is for jobs of a GitLab pipeline; elsewhere, use `vmatrix run`"
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")  # SHA-1, SHA-256
NO_COMMIT = re.compile("0*")  # what GitLab gives as the commit before a branch's first push, and in other pipelines
NUMBER = re.compile("[0-9]{1,20}")
TARGET, DIFF_BASE, BEFORE = (
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA",
    "CI_COMMIT_BEFORE_SHA",
)
IID = "CI_MERGE_REQUEST_IID"
NAMESPACE, PROFILE = "MATRIX_NAMESPACE", "MATRIX_INFRA"
PREFIX = "ci-"  # of the names of jobs' own embedded infrastructures
RUN_ALPHABET = string.ascii_lowercase + string.digits
RUN_LENGTH = 6
PREFIXED = "MATRIX_PREFIX"
OF_THE_TEMPLATE = re.compile("([A-Za-z0-9][-A-Za-z0-9_ ]{0,29})?")  # as the template's input `prefix`
RUNS = "VMATRIX_RUNS"
OF_ONE_JOB = ("MATRIX_CELL", "MATRIX_TIER", "MATRIX_WHY")  # which the plan gives to each job of its own
INPUTS = "MATRIX_INPUTS"  # the template's inputs as NAME=VALUE, one a line
GIT_SECONDS = 20  # one local command
THEIRS = "from the CI/CD variables of project, group, schedule and pipeline"


@dataclass(frozen=True)
class Job:
    """The job that this process is a part of.

    id: differs between a job and its retry.  url: its page, "" where there is none.
    directory: the checkout, absolute.  prefix: of all names that a second product of the project would share.
    """

    id: str
    host: str
    url: str
    directory: Path
    prefix: str = ""

    @property
    def run(self) -> str:
        """Return the id of the job's run of cells: the same in its script and its after_script, another in a retry."""
        name = f"{self.host}/{self.id}".encode(errors="surrogateescape")
        number = int.from_bytes(hashlib.sha256(name).digest(), "big")
        base = len(RUN_ALPHABET)
        return "".join(RUN_ALPHABET[number // base**place % base] for place in range(RUN_LENGTH))


@dataclass(frozen=True)
class Pipeline:
    """The pipeline that a job plans for.

    source: what started it.  merge_request: its number within the project, "" of none.  labels: of the merge request.
    base: the commit to which the change is compared, "" where there is none; then no_base says why.
    schedule: what the schedule is for.  tier: what a person asked for when starting the pipeline.
    created: the date (UTC) on which it was, None where GitLab does not say: a job that is retried has the same night.
    """

    source: str
    merge_request: str = ""
    labels: tuple[str, ...] = ()
    base: str = ""
    no_base: str = ""
    schedule: str = ""
    tier: str = ""
    created: str | None = None


@dataclass(frozen=True)
class JobContext:
    """The job, and what it takes to end it: the settings with which it runs cells, and little of the matrix.

    own_infra: whether the embedded infrastructure is this job's alone, and goes with it.
    """

    job: Job
    settings: Settings
    timeouts: Timeouts
    quarantine: tuple[QuarantineEntry, ...]
    own_infra: bool

    @property
    def files(self) -> RunDir:
        """The run's directory, by an absolute path."""
        return RunDir.of(self.settings.runs, self.job.run)

    @property
    def artifacts(self) -> RunDir:
        """The run's directory among the job's artifacts: relative to the checkout."""
        return RunDir(self.settings.runs / self.job.run)


@dataclass(frozen=True)
class CellContext(JobContext):
    """The job, and the project whose cells it plans or runs."""

    project: Project


def job_context(environment: Mapping[str, str], *, infra: bool = True) -> CellContext:
    """Read everything that a job's command needs which plans or runs cells.

    Args:
        infra: whether the command uses the infra cluster; if not, no access to it is looked for.

    Raises:
        BadInput: a variable is missing, a setting or the matrix is wrong, or the infra cluster cannot be accessed.
    """
    job = _read_job(environment)
    spec = load_spec(matrix_dir())
    settings, own_infra = _settings_of(job, environment, spec.infras, infra=infra)
    project = Project(project_dir(), spec, settings)
    return CellContext(job, settings, project.timeouts, spec.quarantine, own_infra, project)


def ending_context(environment: Mapping[str, str]) -> JobContext:
    """Read what a job's command needs which cleans up; no mistake in other files of matrix/ keeps it from that.

    Without a quarantine that can be read, all failures count in the reports of a run that was killed.

    Raises:
        BadInput: a variable is missing, a setting, timeouts.yml or the infra profile is wrong, or the infra cluster
            cannot be accessed.
    """
    job, directory = _read_job(environment), matrix_dir()
    infras: Mapping[str, Infra] = load_part(directory, "infras") if environment.get(PROFILE) else {}
    timeouts = load_timeouts(directory)
    settings, own_infra = _settings_of(job, environment, infras)
    try:
        quarantine: tuple[QuarantineEntry, ...] = load_part(directory, "quarantine")
    except BadInput as error:
        tell_once(f"warning: no failure is in quarantine: {error.summary}")
        quarantine = ()
    return JobContext(job, settings, timeouts.scaled(settings.timeout_scale), quarantine, own_infra)


def _read_job(environment: Mapping[str, str]) -> Job:
    job = read_job(environment)
    if environment.get(RUNS, "") not in ("", f"{job.prefix}runs"):
        raise BadInput(
            f"{RUNS} is {environment[RUNS]!r}, and the artifacts of jobs are those below {job.prefix}runs",
            hint=f"remove {RUNS} from the CI/CD variables: it overrides what the pipeline's file says",
        )
    return job


def _settings_of(
    job: Job, environment: Mapping[str, str], infras: Mapping[str, Infra], *, infra: bool = True
) -> tuple[Settings, bool]:
    """Return a job's settings, and whether the embedded infrastructure is its alone."""
    options: dict[str, Any] = {}
    profile = environment.get(PROFILE, "")
    if profile:
        options = {"infra_profile": profile, "provider": profile_in(infras, profile).provider}
    if namespace := environment.get(NAMESPACE):
        if not is_label_value(namespace):
            raise BadInput(
                f"{NAMESPACE} {namespace!r} is not a namespace: at most 63 lower-case letters, digits and '-'",
                hint="it is the template's input `namespace`",
            )
        options["namespace"] = namespace
    own = not environment.get("VMATRIX_INFRA_NAME")
    if own:
        options["infra_name"] = PREFIX + job.run
    settings = load_settings(job.directory, environment=environment, options=options).settings
    per_job = providers.of(settings).per_job
    if infra and not per_job and settings.kubeconfig is None:
        options["kubeconfig"] = job_kubeconfig(job.run, environment)
        settings = load_settings(job.directory, environment=environment, options=options).settings
    return settings, own and per_job


def read_job(environment: Mapping[str, str]) -> Job:
    """Read the job's variables; BadInput names all that every job has and that are missing."""
    _require(environment, "CI_JOB_ID", "CI_PROJECT_DIR")
    return Job(
        id=environment["CI_JOB_ID"],
        host=environment.get("CI_SERVER_HOST", ""),
        url=environment.get("CI_JOB_URL", ""),
        directory=_checkout(environment["CI_PROJECT_DIR"]),
        prefix=_prefix(environment.get(PREFIXED, "")),
    )


def refuse_overridden(environment: Mapping[str, str]) -> list[str]:
    """Judge, in the job that plans, which variables of the pipeline's file CI/CD variables override.

    Theirs come first in GitLab, and they reach the jobs of every inclusion of the template.

    Returns:
        What overrides an input of the only inclusion: it holds, in words for the job's log.

    Raises:
        BadInput: every job would run the same cell, or several inclusions would test the same product.
    """
    for name in OF_ONE_JOB:
        if environment.get(name):
            raise BadInput(
                f"{name} is {environment[name]!r} in every job, so that each of them would run the same",
                hint=f"remove {name} {THEIRS}; MATRIX_WANT_TIER asks for a tier",
            )
    pairs = [line.strip().partition("=") for line in environment.get(INPUTS, "").splitlines() if "=" in line]
    others = [(name, value) for name, _, value in pairs if environment.get(name, "").strip() != value]
    for name, value in others:
        if name == PREFIXED or environment.get(PREFIXED):
            raise BadInput(
                f"{name} is {environment.get(name, '')!r}, and this inclusion of the template says {value!r}",
                hint=f"remove {name} {THEIRS}: it reaches the jobs of every inclusion",
            )
    return [f"{name} is {environment.get(name, '')!r} in place of the input's {value!r}" for name, value in others]


def refuse_other_checkout(environment: Mapping[str, str], directory: Path) -> None:
    """Refuse to plan or run what is not the pipeline's commit; nothing where git cannot tell.

    Raises:
        BadInput: there is no checkout, or one of another commit.
    """
    commit = environment.get("CI_COMMIT_SHA", "").lower()
    if not COMMIT.fullmatch(commit):
        return
    remedy = "remove GIT_STRATEGY and GIT_CHECKOUT from the CI/CD variables: jobs need a checkout of the commit"
    if not (directory / ".git").exists():
        raise BadInput(f"{directory} (CI_PROJECT_DIR) has no checkout of the commit {commit[:12]}", hint=remedy)
    try:
        done = proc.git(directory, "rev-parse", "HEAD", timeout=GIT_SECONDS)
    except proc.CommandFailed:
        return
    head = done.stdout.strip()
    if done.returncode == 0 and COMMIT.fullmatch(head) and head != commit:
        raise BadInput(
            f"{directory} (CI_PROJECT_DIR) has the commit {head[:12]}, and the pipeline is of {commit[:12]}",
            hint=remedy,
        )


def _prefix(value: str) -> str:
    if not OF_THE_TEMPLATE.fullmatch(value):
        raise BadInput(
            f"{PREFIXED} {value!r} is not a prefix: at most 30 letters, digits, '-', '_' and spaces",
            hint="it is the template's input `prefix`: do not set it yourself",
        )
    return value


def read_pipeline(environment: Mapping[str, str]) -> Pipeline:
    """Read the pipeline's variables; BadInput when one is missing that the pipeline of this kind has."""
    _require(environment, "CI_PIPELINE_SOURCE")
    source = environment["CI_PIPELINE_SOURCE"]
    if source == MERGE_REQUEST:
        _require(environment, IID)
    base, no_base = _base(environment)
    return Pipeline(
        source=source,
        merge_request=number(environment, IID),
        labels=tuple(w for w in environment.get("CI_MERGE_REQUEST_LABELS", "").split(",") if w),
        base=base,
        no_base=no_base,
        schedule=environment.get("MATRIX_SCHEDULE", ""),
        tier=environment.get("MATRIX_WANT_TIER", ""),
        created=_day(environment.get("CI_PIPELINE_CREATED_AT", "")),
    )


def _base(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return what the change is compared to, or "" and why there is nothing.

    A merge request's number is also in the child pipelines that its pipeline triggers, whose source is another.

    A merged-results pipeline runs on a merge with the target branch's head: compared to the merge request's base, all
    that others have merged meanwhile would look changed.
    """
    name = BEFORE
    if environment.get(IID):
        name = TARGET if environment.get(TARGET) else DIFF_BASE
    commit = environment.get(name, "").strip().lower()
    if NO_COMMIT.fullmatch(commit):
        return "", f"there is no earlier commit ({name})"
    if not COMMIT.fullmatch(commit):
        return "", f"{name} {environment[name]!r} is not a commit"
    return commit, ""


def number(environment: Mapping[str, str], name: str) -> str:
    """Return a variable's number, "" where it is not set; BadInput for anything else, which would end up in names."""
    value = environment.get(name, "")
    if value and not NUMBER.fullmatch(value):
        raise BadInput(f"{name} {value!r} is not a number", hint="GitLab sets it: do not set it yourself")
    return value


def _day(moment: str) -> str | None:
    """Return the date in UTC of an RFC 3339 moment, None of anything else."""
    try:
        return datetime.fromisoformat(moment).astimezone(UTC).date().isoformat()
    except (ValueError, OverflowError):
        return None


def _checkout(value: str) -> Path:
    if not os.path.isdir(value):  # unlike Path.is_dir, it takes a name of any length
        raise BadInput(f"CI_PROJECT_DIR {value!r} is not a directory", hint=AT_A_DESK)
    return Path(value).resolve()


def _require(environment: Mapping[str, str], *names: str) -> None:
    missing = [name for name in names if not environment.get(name)]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise BadInput(f"{' and '.join(missing)} {are} not set", hint=AT_A_DESK)
