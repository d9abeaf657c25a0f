"""What vmatrix's own jobs ask of a project: notes on a merge request, and generic packages for the history.

https://docs.gitlab.com/api/notes/, https://docs.gitlab.com/user/packages/generic_packages/
"""

from __future__ import annotations

from itertools import count, groupby
from typing import Any

from aiohttp import web

from tests.gitlab.server.answers import Site, by_token, refusal

PROJECT = "/api/v4/projects/{project:\\d+}"


def routes(site: Site) -> list[web.RouteDef]:
    """Return the addresses of this module."""
    api = ProjectAnswers(site)
    file = f"{PROJECT}/packages/generic/{{name}}/{{version}}/{{file}}"
    notes = f"{PROJECT}/merge_requests/{{number:\\d+}}/notes"
    return [
        web.get(notes, api.list_notes),
        web.post(notes, api.add_note),
        web.put(f"{notes}/{{note:\\d+}}", api.change_note),
        web.put(file, api.put_file),
        web.get(file, api.get_file),
        web.get(f"{PROJECT}/packages", api.list_packages),
        web.get(f"{PROJECT}/packages/{{package:\\d+}}/package_files", api.list_files),
    ]


class ProjectAnswers:
    """A project's part of the API. A page is everything: no test has more than a hundred of anything."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.numbers = count(1)

    def _notes(self, request: web.Request) -> list[dict[str, Any]] | None:
        """Return the notes; None for whoever may not see them: a job's own token may not write any."""
        if request.headers.get("PRIVATE-TOKEN") != self.site.person_token:
            return None
        return self.site.notes.setdefault((int(request.match_info["project"]), request.match_info["number"]), [])

    async def list_notes(self, request: web.Request) -> web.Response:
        """Answer with a merge request's notes."""
        notes = self._notes(request)
        if notes is None:
            return refusal(401, "Unauthorized")
        return web.json_response(notes if request.query.get("page", "1") == "1" else [])

    async def add_note(self, request: web.Request) -> web.Response:
        """Add a note."""
        notes = self._notes(request)
        if notes is None:
            return refusal(401, "Unauthorized")
        given = await request.json()
        notes.append({"id": next(self.numbers), "body": given["body"], "system": False})
        return web.json_response(notes[-1], status=201)

    async def change_note(self, request: web.Request) -> web.Response:
        """Change a note's text."""
        for note in self._notes(request) or []:
            if str(note["id"]) == request.match_info["note"]:
                note["body"] = (await request.json())["body"]
                return web.json_response(note)
        return refusal(404, "Not found")

    async def put_file(self, request: web.Request) -> web.Response:
        """Keep a file of a package."""
        content = await request.read()
        if not by_token(self.site, request):
            return refusal(401, "Unauthorized")
        self.site.packages[_key(request)] = (next(self.numbers), content)
        return web.json_response({"message": "201 Created"}, status=201)

    async def get_file(self, request: web.Request) -> web.Response:
        """Answer with a file of a package."""
        if not by_token(self.site, request):
            return refusal(401, "Unauthorized")
        found = self.site.packages.get(_key(request))
        return refusal(404, "Not found") if found is None else web.Response(body=found[1])

    def _packages(self, request: web.Request) -> list[tuple[int, tuple[str, str], list[tuple[str, int]]]]:
        project = int(request.match_info["project"])
        files = sorted((key[1:], found[0]) for key, found in self.site.packages.items() if key[0] == project)
        grouped = groupby(files, key=lambda one: one[0][:2])
        listed = [(package, [(key[2], number) for key, number in inside]) for package, inside in grouped]
        return [(at, package, inside) for at, (package, inside) in enumerate(listed, 1)]

    async def list_packages(self, request: web.Request) -> web.Response:
        """Answer with the packages."""
        if not by_token(self.site, request):
            return refusal(401, "Unauthorized")
        found = [{"id": at, "name": package[0], "version": package[1]} for at, package, _ in self._packages(request)]
        return web.json_response(found if request.query.get("page", "1") == "1" else [])

    async def list_files(self, request: web.Request) -> web.Response:
        """Answer with the files of a package."""
        if not by_token(self.site, request):
            return refusal(401, "Unauthorized")
        wanted = int(request.match_info["package"])
        inside = next((files for at, _, files in self._packages(request) if at == wanted), [])
        shown = [{"id": number, "file_name": name} for name, number in inside]
        return web.json_response(shown if request.query.get("page", "1") == "1" else [])


def _key(request: web.Request) -> tuple[int, str, str, str]:
    found = request.match_info
    return int(found["project"]), found["name"], found["version"], found["file"]
