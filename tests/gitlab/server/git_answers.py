"""Repositories over HTTP: git's own `http-backend`, for whoever has the token of a job that runs, or a person's."""

from __future__ import annotations

import asyncio
import subprocess

from aiohttp import web

from tests.gitlab.server.answers import Site, password, running_tokens

BACKEND = ("git", "http-backend")
HEADERS = {"Content-Encoding": "HTTP_CONTENT_ENCODING", "Git-Protocol": "HTTP_GIT_PROTOCOL", "Accept": "HTTP_ACCEPT"}


def routes(site: Site) -> list[web.RouteDef]:
    """Return the addresses of this module."""

    async def answer(request: web.Request) -> web.Response:
        given = password(request)
        if given != site.person_token and given not in set(running_tokens(site)):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="GitLab"'})
        project = next((one for one in site.forge.projects if one.path == request.match_info["project"]), None)
        if project is None:
            return web.Response(status=404)
        environment = {
            **site.environment,
            "GIT_PROJECT_ROOT": str(project.bare),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{request.match_info['rest']}",
            "QUERY_STRING": request.query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            **{name: request.headers[header] for header, name in HEADERS.items() if header in request.headers},
        }
        return await asyncio.to_thread(_answered, environment, await request.read())

    address = "/{project:[^?]+?}.git/{rest:(info/refs|git-upload-pack)}"
    return [web.get(address, answer), web.post(address, answer)]


def _answered(environment: dict[str, str], body: bytes) -> web.Response:
    sent = environment | {"CONTENT_LENGTH": str(len(body))}
    done = subprocess.run(BACKEND, env=sent, input=body, capture_output=True, check=False, timeout=120)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    lines = (line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    headers = dict(lines)
    status = int(headers.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=headers, body=content)
