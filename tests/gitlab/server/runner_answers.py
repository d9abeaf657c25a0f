"""What a runner asks for: is my token valid, is there a job, here is its trace, this is how it ended."""

from __future__ import annotations

import asyncio
import re
import zlib
from typing import Any

from aiohttp import web

from harness.until import Deadline
from tests.gitlab.server.answers import Site, job_of, refusal
from tests.gitlab.server.model import KnownRunner, NotSpoken, PipelineJob, State

LOOK_SECONDS = 0.2  # between two looks for a job while a runner waits
TRACE_SECONDS = "1"  # how often a runner is asked to send; GitLab says 3, or 60 when nobody looks
RANGE = re.compile(r"(\d+)-(\d+)")
LATEST = "X-GitLab-Last-Update"


def routes(site: Site) -> list[web.RouteDef]:
    """Return the addresses of this module."""
    api = RunnerAnswers(site)
    return [
        web.post("/api/v4/runners/verify", api.verify),
        web.delete("/api/v4/runners", api.unregister),
        web.delete("/api/v4/runners/managers", api.unregister),
        web.post("/api/v4/jobs/request", api.request_job),
        web.patch("/api/v4/jobs/{job:\\d+}/trace", api.trace),
        web.put("/api/v4/jobs/{job:\\d+}", api.update),
    ]


class RunnerAnswers:
    """The runner's part of the API."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def verify(self, request: web.Request) -> web.Response:
        """Say whether a runner's token is valid."""
        runner = self._runner(await request.json())
        if runner is None:
            return refusal(403, "Forbidden")
        return web.json_response({"id": runner.id, "token": runner.token, "token_expires_at": None})

    async def unregister(self, request: web.Request) -> web.Response:
        """Forget a manager of a runner; the runner itself stays, as one that was created in GitLab's pages does."""
        return web.Response(status=204) if self._runner(await request.json()) else refusal(403, "Forbidden")

    async def request_job(self, request: web.Request) -> web.Response:
        """Give a job to a runner; without one, hold the question for a while, as GitLab's Workhorse does."""
        given = await request.json()
        runner = self._runner(given)
        if runner is None:
            return refusal(403, "Forbidden")
        features = given.get("info", {}).get("features", {})
        deadline = Deadline.after(self.site.poll_seconds)
        while (job := self.site.forge.take(runner, features)) is None and deadline.remaining() > 0:
            await asyncio.sleep(LOOK_SECONDS)
        if job is None:
            return web.Response(status=204, headers={LATEST: str(len(list(self.site.forge.jobs)))})
        try:
            return web.json_response(self.site.payload.of(job), status=201)
        except NotSpoken as why:
            self.site.refused.append(str(why))
            self.site.forge.fail(job, "unmet_prerequisites")
            return web.Response(status=204)

    async def trace(self, request: web.Request) -> web.Response:
        """Add to a job's trace."""
        job = job_of(self.site, request)
        content = await request.read()
        place = RANGE.fullmatch(request.headers.get("Content-Range", ""))
        if job is None or job.state not in (State.RUNNING, State.CANCELING):
            return self._closed(job)
        if place is None:
            return refusal(400, "Bad request: Content-Range")
        status = self.site.forge.append(job, int(place[1]), content)
        return web.Response(status=status, headers=_headers(job) | {"Range": f"0-{len(job.trace)}"})

    async def update(self, request: web.Request) -> web.Response:
        """Take note of how a job does, or of its end."""
        given = await request.json()
        job = next((one for one in self.site.forge.jobs if str(one.id) == request.match_info["job"]), None)
        if job is None or given.get("token") != job.token:
            return refusal(403, "Forbidden")
        if job.state not in (State.RUNNING, State.CANCELING):
            return self._closed(job)
        if given["state"] == State.RUNNING:
            return web.json_response("200", headers=_headers(job))
        if not _whole(job, given.get("output") or {}):
            return web.Response(status=412, headers=_headers(job))
        code = given.get("exit_code")
        self.site.forge.end(
            job, succeeded=given["state"] == "success", reason=given.get("failure_reason", ""), code=code
        )
        return web.json_response("200", headers={"Job-Status": str(job.state)})

    def _runner(self, given: dict[str, Any]) -> KnownRunner | None:
        return next((one for one in self.site.forge.runners if one.token == given.get("token")), None)

    def _closed(self, job: PipelineJob | None) -> web.Response:
        if job is None:
            return refusal(403, "Forbidden")
        answer = refusal(403, "Forbidden - Job is not running")
        answer.headers["Job-Status"] = str(job.state)
        return answer


def _headers(job: PipelineJob) -> dict[str, str]:
    return {"Job-Status": str(job.state), "X-GitLab-Trace-Update-Interval": TRACE_SECONDS}


def _whole(job: PipelineJob, output: dict[str, Any]) -> bool:
    """Return whether the trace that was sent is the one that the runner has."""
    if "checksum" not in output:
        return True
    same = (output["checksum"], output["bytesize"]) == (f"crc32:{zlib.crc32(job.trace):08x}", len(job.trace))
    if not same:
        job.trace.clear()  # the runner begins again
    return same
