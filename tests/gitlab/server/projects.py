"""Projects on the server, and pipelines of their commits, from a test's checkouts."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.gitlab.checkout import Checkout
from tests.gitlab.server import predefined
from tests.gitlab.server.children import keep_commit
from tests.gitlab.server.forge import Forge
from tests.gitlab.server.model import KnownRunner, Pipeline, Project, Variable
from tests.gitlab.server.serve import RunningServer

SECONDS = 120.0  # against hanging: git on a local disk
MERGE_REQUEST, PUSH, SCHEDULE = "merge_request_event", "push", "schedule"


def add_project(server: RunningServer, path: str, folder: Path, variables: Sequence[Variable] = ()) -> Project:
    """Make an empty project; its repository is in a folder."""
    bare = folder / f"{path.replace('/', '-')}.git"
    _git("init", "--quiet", "--bare", "--initial-branch", "main", str(bare))
    number = server.call(lambda forge: len(forge.projects) + 1)
    project = Project(number, path, bare, list(variables))
    server.call(lambda forge: forge.projects.append(project))
    return project


def add_runner(server: RunningServer, *tags: str, untagged: bool = True) -> KnownRunner:
    """Create a runner, as in GitLab's pages, and return it with its token."""

    def make(forge: Forge) -> KnownRunner:
        number = len(forge.runners) + 1
        forge.runners.append(KnownRunner(number, f"glrt-runner{number:010}", frozenset(tags), untagged))
        return forge.runners[-1]

    return server.call(make)


def begin(
    server: RunningServer,
    project: Project,
    checkout: Checkout,
    *,
    source: str = PUSH,
    ref: str = "main",
    merge_request: str = "",
    fork: str = "",
    variables: Mapping[str, str] | None = None,
) -> Pipeline:
    """Push a checkout's last commit, and begin its pipeline; NotSpoken when the file asks for what is not spoken."""
    pipeline = Pipeline(
        id=server.call(lambda forge: next(forge.numbers)),
        project=project,
        sha=checkout.head,
        ref=ref,
        source=source,
        merged={},
        variables=dict(variables or {}),
        merge_request=merge_request,
        fork=fork,
        base=_base(checkout),
        root=checkout.directory,
    )
    checkout.git("push", "--quiet", "--force", str(project.bare), f"HEAD:refs/heads/{ref}")
    keep_commit(pipeline)
    known = {**predefined.of_pipeline(pipeline, server.url), **pipeline.variables}
    told = {name: value for name, value in known.items() if name not in ("CI", "GITLAB_CI", "CI_SERVER")}
    pipeline.merged = checkout.merged(told)
    return server.call(lambda forge: forge.begin(pipeline))


def _base(checkout: Checkout) -> str:
    """Return the commit before the last one, "" where there is none."""
    return checkout.git("rev-list", "--max-count=1", "--skip=1", "HEAD").strip()


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, timeout=SECONDS, capture_output=True)  # noqa: S607
