"""Which jobs of a pipeline may begin: stages, needs, `when`, resource groups; and which failures are tried again."""

from __future__ import annotations

from collections.abc import Iterable

from tests.gitlab.server.model import AT_WORK, Pipeline, PipelineJob, State

FAILED = frozenset({State.FAILED, State.CANCELED})


def needs(job: PipelineJob) -> list[str] | None:
    """Return the names of the jobs that a job waits for; None when it waits for all earlier stages."""
    if "needs" not in job.definition:
        return None
    found = [{"job": one} if isinstance(one, str) else one for one in job.definition["needs"]]
    return [str(one["job"]) for one in found if "job" in one and "pipeline" not in one]


def before(job: PipelineJob) -> list[PipelineJob]:
    """Return the jobs that a job waits for."""
    named = needs(job)
    if named is not None:
        return [other for other in job.pipeline.latest if other.name in named]
    stages = list(job.pipeline.merged["stages"])
    at = stages.index(job.stage)
    return [other for other in job.pipeline.latest if stages.index(other.stage) < at]


def decided(job: PipelineJob) -> State | None:
    """Return what becomes of a job that was created; None while it waits."""
    waited_for = before(job)
    if not all(other.state.done for other in waited_for):
        return None
    failed = any(other.state in FAILED and not other.allow_failure for other in waited_for)
    skipped = needs(job) is not None and any(other.state is State.SKIPPED for other in waited_for)
    match job.when:
        case "always":
            return State.PENDING
        case "manual":
            return State.MANUAL
        case "on_failure":
            return State.PENDING if failed else State.SKIPPED
        case _:
            return State.SKIPPED if failed or skipped else State.PENDING


def has_room(job: PipelineJob, pipelines: Iterable[Pipeline]) -> bool:
    """Return whether no other job holds the job's resource group."""
    group = job.definition.get("resource_group")
    if group is None:
        return True
    others = (one for pipeline in pipelines if pipeline.project is job.pipeline.project for one in pipeline.jobs)
    return not any(
        other.definition.get("resource_group") == group and other.state in AT_WORK for other in others if other != job
    )


def tried_again(job: PipelineJob) -> bool:
    """Return whether GitLab starts a failed job once more.

    https://docs.gitlab.com/ci/yaml/#retry: without `when` and `exit_codes`, after every failure.
    """
    wish = job.definition.get("retry", 0)
    given = wish if isinstance(wish, dict) else {"max": wish}
    if job.state is not State.FAILED or job.tries > int(given.get("max", 0)):
        return False
    reasons, codes = ([one] if not isinstance(one, list) else one for one in _lists(given))
    if not reasons and not codes:
        return True
    return job.failure_reason in reasons or "always" in reasons or job.exit_code in codes


def _lists(given: dict[str, object]) -> tuple[object, object]:
    return given.get("when", []), given.get("exit_codes", [])
