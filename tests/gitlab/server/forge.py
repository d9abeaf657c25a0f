"""What GitLab decides: which pipeline has which jobs, which runner gets one, what becomes of it, what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.gitlab.server import predefined
from tests.gitlab.server.model import AT_WORK, KnownRunner, NotSpoken, Pipeline, PipelineJob, Project, State
from tests.gitlab.server.order import decided, has_room, tried_again
from tests.gitlab.server.reading import on_new_commit, planned

TRACE_LIMIT = 100 * 2**20  # bytes: GitLab's own
ENDED_BY_CHILD = ("depend", "mirror")


@dataclass
class Forge:
    """The whole state of the server.

    on_trigger: called with a trigger job that begins; it calls `begin` for the child, or `fail`.
    trace_limit, artifact_limit: in bytes.
    """

    url: str
    on_trigger: Callable[[PipelineJob], None]
    trace_limit: int = TRACE_LIMIT
    artifact_limit: int = TRACE_LIMIT
    projects: list[Project] = field(default_factory=list)
    runners: list[KnownRunner] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def jobs(self) -> Iterator[PipelineJob]:
        """Yield every job of every pipeline, the oldest first."""
        return (job for pipeline in self.pipelines for job in pipeline.jobs)

    def begin(self, pipeline: Pipeline) -> Pipeline:
        """Make a pipeline's jobs and start those that wait for nothing; NotSpoken when it asks for something else."""
        given = {**predefined.of_pipeline(pipeline, self.url), **pipeline.variables}
        mode = on_new_commit(pipeline.merged, given)
        if mode is None:
            raise NotSpoken("the rules of `workflow` make no pipeline: GitLab shows none")
        pipeline.on_new_commit = mode
        for one in planned(pipeline.merged, given):
            self._add(
                pipeline,
                name=one.name,
                definition=one.definition,
                when=one.when,
                interruptible=one.interruptible,
                allow_failure=one.allow_failure,
                variables=one.variables,
            )
        if not pipeline.jobs:
            raise NotSpoken("the pipeline has no job: GitLab refuses it")
        self._replace_older(pipeline)
        self.pipelines.append(pipeline)
        self.settle()
        return pipeline

    def _add(self, pipeline: Pipeline, **given: Any) -> None:
        number = next(self.numbers)
        pipeline.jobs.append(PipelineJob(id=number, token=f"glcbt-64_{number:020}", pipeline=pipeline, **given))

    def _replace_older(self, new: Pipeline) -> None:
        for old in self.pipelines:
            same = (old.project, old.ref, old.source) == (new.project, new.ref, new.source)
            if not same or old.parent is not None or old.state.done or new.on_new_commit == "none":
                continue
            every = [job for one in (old, *self._children(old)) for job in one.latest]
            started = [job for job in every if job.state not in (State.CREATED, State.PENDING)]
            if new.on_new_commit == "conservative" and not all(job.interruptible for job in started):
                continue
            for job in every:
                if job.interruptible and not job.state.done:
                    self.cancel(job)

    def _children(self, pipeline: Pipeline) -> list[Pipeline]:
        return [job.child for job in pipeline.jobs if job.child is not None]

    def settle(self) -> None:
        """Let every job begin that may, and every job end whose child pipeline has ended."""
        while any(self._promoted(job) for pipeline in list(self.pipelines) for job in pipeline.latest):
            """One that moved may let others move."""

    def _promoted(self, job: PipelineJob) -> bool:
        if job.state is State.RUNNING and job.child is not None and job.child.state.done:
            job.state = job.child.state
            return True
        if job.state is not State.CREATED:
            return False
        becomes = decided(job)
        if becomes is None or (becomes is State.PENDING and not has_room(job, self.pipelines)):
            return False
        job.state = becomes
        if becomes is State.PENDING and "trigger" in job.definition:
            job.state = State.RUNNING
            self.on_trigger(job)
        return True

    def began_child(self, job: PipelineJob, child: Pipeline) -> None:
        """Tie a child pipeline to the trigger job that began it."""
        self.begin(child)
        if job.definition["trigger"].get("strategy") in ENDED_BY_CHILD:
            job.child = child
        else:
            job.state = State.SUCCESS
        self.settle()

    def take(self, runner: KnownRunner, features: Mapping[str, Any]) -> PipelineJob | None:
        """Return the next job for a runner, which then has it."""
        for job in self.jobs:
            tags = set(job.definition.get("tags") or [])
            if job.state is State.PENDING and tags <= runner.tags and (tags or runner.untagged):
                job.state, job.taken = State.RUNNING, runner
                job.graceful = bool(features.get("cancel_gracefully"))
                return job
        return None

    def append(self, job: PipelineJob, start: int, content: bytes) -> int:
        """Add to a trace; return the status of the answer: 202, 403 when the job was ended, 416 for another place."""
        if start + len(content) > self.trace_limit:
            self.fail(job, "trace_size_exceeded")
            return 403
        if start != len(job.trace):
            return 416
        job.trace += content
        return 202

    def end(self, job: PipelineJob, *, succeeded: bool, reason: str = "", code: int | None = None) -> None:
        """Set what a runner says of a job's end."""
        if job.state is State.CANCELING:
            job.state = State.CANCELED
        elif job.state is State.RUNNING and succeeded:
            job.state = State.SUCCESS
        elif job.state is State.RUNNING:
            job.exit_code = code
            self.fail(job, reason or "unknown_failure")
        self.settle()

    def fail(self, job: PipelineJob, reason: str) -> None:
        """End a job as failed, and start it once more if its `retry` says so."""
        job.state, job.failure_reason = State.FAILED, reason
        if tried_again(job):
            job.retried = True
            self._add(
                job.pipeline,
                name=job.name,
                definition=job.definition,
                when=job.when,
                interruptible=job.interruptible,
                allow_failure=job.allow_failure,
                variables=job.variables,
                tries=job.tries + 1,
            )
        self.settle()

    def cancel(self, job: PipelineJob) -> None:
        """Cancel a job: a runner that can is told so and runs after_script, any other loses the job."""
        if job.child is not None:
            for one in job.child.latest:
                self.cancel(one)
        if job.state is State.RUNNING and job.graceful:
            job.state = State.CANCELING
        elif job.state in AT_WORK | {State.CREATED, State.MANUAL} and job.state is not State.CANCELING:
            job.state = State.CANCELED
        self.settle()

    def cancel_all(self, pipeline: Pipeline) -> None:
        """Cancel a pipeline and its children; jobs that did not begin never do."""
        for job in sorted(pipeline.latest, key=lambda job: job.state is not State.CREATED):
            self.cancel(job)
