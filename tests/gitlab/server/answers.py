"""What the server answers, for all of its addresses: JSON, refusals, who asks."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.gitlab.server.forge import Forge
from tests.gitlab.server.model import PipelineJob, State
from tests.gitlab.server.payload import Payload

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """What the answers are made of.

    person_token: of a project access token with the scope `api`.  poll_seconds: how long a runner's question for a
    job is held when there is none.  notes: of merge requests, by (project, number).  packages: files by their path.
    """

    forge: Forge
    payload: Payload
    person_token: str
    poll_seconds: float
    notes: dict[tuple[int, str], list[dict[str, Any]]] = field(default_factory=dict)
    packages: dict[tuple[int, str, str, str], tuple[int, bytes]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    home: Path = Path("/nonexistent")


def refusal(status: int, why: str) -> web.Response:
    """Return a refusal as GitLab writes it."""
    return web.json_response({"message": f"{status} {why}"}, status=status)


def job_of(site: Site, request: web.Request) -> PipelineJob | None:
    """Return the job of an address, if the request has its token."""
    given = request.headers.get("JOB-TOKEN") or request.query.get("token", "")
    wanted = request.match_info["job"]
    return next((job for job in site.forge.jobs if str(job.id) == wanted and job.token == given), None)


def by_token(site: Site, request: web.Request) -> bool:
    """Return whether a request may use a project's API: by a person's token, or by that of a job that runs.

    The token of a job that is being cancelled is void at once (GitLab issue 473376).
    """
    if request.headers.get("PRIVATE-TOKEN"):
        return request.headers["PRIVATE-TOKEN"] == site.person_token
    return request.headers.get("JOB-TOKEN", "") in set(running_tokens(site))


def running_tokens(site: Site) -> Iterator[str]:
    """Yield the tokens of jobs that run."""
    return (job.token for job in site.forge.jobs if job.state is State.RUNNING)


def password(request: web.Request) -> str:
    """Return the password of a request's basic authentication, "" without one."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    return base64.b64decode(given).decode().partition(":")[2] if kind == "Basic" else ""
