"""What the server knows: projects, runners, pipelines and their jobs. Only the server's own thread changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class NotSpoken(Exception):
    """A keyword, a rule or a request that GitLab knows and this server does not: it is refused by name."""


class State(StrEnum):
    """The states of GitLab's jobs that this server knows."""

    CREATED = "created"
    PENDING = "pending"
    RUNNING = "running"
    CANCELING = "canceling"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"
    MANUAL = "manual"

    @property
    def done(self) -> bool:
        """Return whether nothing follows by itself."""
        return self in DONE


DONE = frozenset({State.SUCCESS, State.FAILED, State.CANCELED, State.SKIPPED, State.MANUAL})
AT_WORK = frozenset({State.PENDING, State.RUNNING, State.CANCELING})


@dataclass(frozen=True)
class Variable:
    """A CI/CD variable of a project, or one that the server makes."""

    key: str
    value: str
    masked: bool = False
    file: bool = False
    protected: bool = False


@dataclass
class Project:
    """A project: its path, its bare repository, its variables."""

    id: int
    path: str
    bare: Path
    variables: list[Variable] = field(default_factory=list)
    default_branch: str = "main"


@dataclass(frozen=True)
class KnownRunner:
    """A runner that was created in GitLab's pages: its token, its tags, whether it takes jobs without tags."""

    id: int
    token: str
    tags: frozenset[str]
    untagged: bool


@dataclass(eq=False)
class Pipeline:
    """A pipeline of a commit.

    variables: of a schedule, a person or the parent's trigger job; they win over the file's.
    merge_request: its number, "" of none.  fork: the project that it comes from, "" for this one.
    base: the commit that its change is compared with.
    root: a checkout in which files of child pipelines can be read.
    """

    id: int
    project: Project
    sha: str
    ref: str
    source: str
    merged: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    merge_request: str = ""
    fork: str = ""
    base: str = ""
    parent: PipelineJob | None = None
    root: Path | None = None
    on_new_commit: str = "conservative"
    jobs: list[PipelineJob] = field(default_factory=list)

    @property
    def latest(self) -> list[PipelineJob]:
        """Return the jobs without those of which there is a retry."""
        return [job for job in self.jobs if not job.retried]

    @property
    def state(self) -> State:
        """Return the state that GitLab shows of the whole."""
        counted = [job for job in self.latest if not (job.state is State.FAILED and job.allow_failure)]
        states = {job.state for job in counted}
        if not all(state.done for state in states):
            return State.RUNNING
        for state in (State.FAILED, State.CANCELED):
            if state in states:
                return state
        return State.SKIPPED if states == {State.SKIPPED} else State.SUCCESS


@dataclass(eq=False)
class PipelineJob:
    """A job, or one try at it.

    definition: merged.  trace: what the runner has sent.  artifacts: (file's name, content) by type.
    taken: by which runner.  child: the pipeline that a trigger job began.  graceful: the runner can be told to cancel.
    """

    id: int
    token: str
    name: str
    definition: Mapping[str, Any]
    pipeline: Pipeline = field(repr=False)
    when: str = "on_success"
    interruptible: bool = False
    allow_failure: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    tries: int = 1
    retried: bool = False
    state: State = State.CREATED
    trace: bytearray = field(default_factory=bytearray, repr=False)
    artifacts: dict[str, tuple[str, bytes]] = field(default_factory=dict, repr=False)
    dotenv: dict[str, str] = field(default_factory=dict)
    failure_reason: str = ""
    exit_code: int | None = None
    taken: KnownRunner | None = None
    graceful: bool = False
    child: Pipeline | None = None

    @property
    def stage(self) -> str:
        """Return the job's stage."""
        return str(self.definition.get("stage", "test"))

    @property
    def said(self) -> str:
        """Return the trace as people read it."""
        return self.trace.decode(errors="replace")
