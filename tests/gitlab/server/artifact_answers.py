"""Artifacts of jobs, up and down: archives, reports, and variables of dotenv files."""

from __future__ import annotations

import gzip
import io
import zipfile
from email import message_from_bytes
from email.policy import HTTP

from aiohttp import web

from tests.gitlab.server.answers import Site, job_of, refusal
from tests.gitlab.server.model import PipelineJob, State

KINDS = {"archive": "zip", "junit": "gzip", "annotations": "gzip", "codequality": "gzip", "dotenv": "gzip"}
DOTENV_BYTES = 5 * 1024


def routes(site: Site) -> list[web.RouteDef]:
    """Return the addresses of this module."""
    api = ArtifactAnswers(site)
    address = "/api/v4/jobs/{job:\\d+}/artifacts"
    return [web.post(address, api.upload), web.get(address, api.download)]


class ArtifactAnswers:
    """The artifacts' part of the API."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def upload(self, request: web.Request) -> web.Response:
        """Keep an artifact of a job that runs, or is being cancelled."""
        job = job_of(self.site, request)
        kind, packed = request.query.get("artifact_type", "archive"), request.query.get("artifact_format", "zip")
        found = _file(request.headers.get("Content-Type", ""), await request.read())
        if found is None:
            return refusal(400, "Bad request: file")
        name, content = found
        if job is None or job.state not in (State.RUNNING, State.CANCELING):
            return refusal(403, "Forbidden")
        if KINDS.get(kind) != packed:
            self.site.refused.append(f"artifact of type {kind} as {packed}")
            return refusal(400, f"this server does not speak artifacts of type {kind} as {packed}")
        if len(content) > self.site.forge.artifact_limit:
            return refusal(413, "Request Entity Too Large")
        if kind == "dotenv" and not _kept(job, content):
            return refusal(400, "Bad request: dotenv")
        job.artifacts[kind] = (name, content)
        return web.json_response({"message": "201 Created"}, status=201)

    async def download(self, request: web.Request) -> web.Response:
        """Give a job's archive to the jobs that need it."""
        job = job_of(self.site, request)
        if job is None:
            return refusal(401, "Unauthorized")
        if "archive" not in job.artifacts:
            return refusal(404, "Not Found")
        return web.Response(body=job.artifacts["archive"][1], content_type="application/zip")


def unpacked(job: PipelineJob, kind: str = "archive") -> dict[str, bytes]:
    """Return the files of an artifact; a report's under its own name."""
    if kind not in job.artifacts:
        return {}
    name, content = job.artifacts[kind]
    if kind != "archive":
        return {name: gzip.decompress(content)}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist() if not one.is_dir()}


def _file(kind: str, body: bytes) -> tuple[str, bytes] | None:
    """Return the name and the content of the only file of a form; None without one."""
    form = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=HTTP)
    parts = list(form.iter_parts()) if form.is_multipart() else []
    if len(parts) != 1:
        return None
    content = parts[0].get_payload(decode=True)
    return (parts[0].get_filename() or "artifacts.zip", content) if isinstance(content, bytes) else None


def _kept(job: PipelineJob, content: bytes) -> bool:
    text = gzip.decompress(content)
    lines = [line for line in text.decode().splitlines() if line.strip()]
    if len(text) > DOTENV_BYTES or not all("=" in line for line in lines):
        return False
    job.dotenv = dict(line.split("=", 1) for line in lines)
    return True
