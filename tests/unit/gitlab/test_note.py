"""The note on a merge request, against an HTTP server that answers as GitLab's API does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.errors import InfraError
from harness.gitlab import note
from harness.gitlab.note import MergeRequest, put

TOKEN = "glpat-secret"
NOTES = "/api/v4/projects/12/merge_requests/7/notes"


@dataclass
class Forge:
    """The notes of one merge request, who asked what, and what is refused: status by method."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    address: str = ""

    @property
    def where(self) -> MergeRequest:
        """Return the merge request."""
        return MergeRequest(f"{self.address}/api/v4", "12", "7")


class Handler(BaseHTTPRequestHandler):
    """GitLab's notes API as far as it is used."""

    forge: ClassVar[Forge]

    def do_GET(self) -> None:
        """List a page of notes."""
        query = parse_qs(urlsplit(self.path).query)
        size, page = int(query["per_page"][0]), int(query["page"][0])
        self._answer(200, self.forge.notes[(page - 1) * size : page * size])

    def do_POST(self) -> None:
        """Add a note."""
        self.forge.notes.append({"id": 100 + len(self.forge.notes), "system": False, **self._body()})
        self._answer(201, self.forge.notes[-1])

    def do_PUT(self) -> None:
        """Change a note."""
        (found,) = (n for n in self.forge.notes if n["id"] == int(self.path.rpartition("/")[2]))
        found.update(self._body())
        self._answer(200, found)

    def _body(self) -> dict[str, str]:
        self.raw = self.rfile.read(int(self.headers["Content-Length"]))
        read: dict[str, str] = json.loads(self.raw)
        return read

    def _answer(self, status: int, content: Any) -> None:
        self.forge.asked.append((self.command, urlsplit(self.path).path))
        self.forge.tokens.add(self.headers.get("PRIVATE-TOKEN", ""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def parse_request(self) -> bool:
        """Refuse what the test wants refused, before it changes anything."""
        if not super().parse_request():
            return False
        status = self.forge.refused.get(self.command)
        if status is None:
            return True
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        if status in (301, 302, 307):
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()
        return False

    def log_message(self, *_: Any) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def forge() -> Iterator[Forge]:
    """Return a running server."""
    made = Forge()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"forge": made}))
    made.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_first_pipeline_writes_it_and_the_next_renews_it(forge: Forge) -> None:
    forge.notes.append({"id": 1, "body": "looks good", "system": False})
    assert put(forge.where, "one failed", mark="vmatrix", token=TOKEN) == "written"
    assert put(forge.where, "all passed", mark="vmatrix", token=TOKEN) == "updated"
    assert [n["body"] for n in forge.notes] == ["looks good", "<!-- vmatrix -->\nall passed"]
    assert forge.tokens == {TOKEN}


def test_a_text_that_bears_the_mark_bears_it_once(forge: Forge) -> None:
    put(forge.where, "<!-- vmatrix -->\nall passed", mark="vmatrix", token=TOKEN)
    assert forge.notes[0]["body"] == "<!-- vmatrix -->\nall passed"


def test_it_is_found_behind_many_others(forge: Forge) -> None:
    forge.notes += [{"id": n, "body": "+1", "system": False} for n in range(250)]
    forge.notes.append({"id": 999, "body": "<!-- vmatrix -->\nold", "system": False})
    assert put(forge.where, "new", mark="vmatrix", token=TOKEN) == "updated"
    assert len(forge.notes) == 251


def test_somebody_elses_note_with_the_mark_is_left_and_a_new_one_is_written(forge: Forge) -> None:
    forge.notes.append({"id": 1, "body": "<!-- vmatrix -->\nof another token", "system": False})
    forge.refused["PUT"] = 403
    assert put(forge.where, "mine", mark="vmatrix", token=TOKEN) == "written"
    assert len(forge.notes) == 2


@pytest.mark.parametrize(("method", "status"), [("GET", 401), ("GET", 302), ("POST", 403), ("GET", 500)])
def test_a_refusal_says_what_is_needed_and_never_the_token(forge: Forge, method: str, status: int) -> None:
    forge.refused[method] = status
    with pytest.raises(InfraError) as failed:
        put(forge.where, "text", mark="vmatrix", token=TOKEN)
    assert str(status) in failed.value.summary
    refused = status in (401, 403, 404)
    assert ("MATRIX_NOTE_TOKEN" if refused else "CI_API_V4_URL") in failed.value.hint
    assert TOKEN not in f"{failed.value.summary}{failed.value.hint}{failed.value.detail}"


def test_a_server_that_is_not_there_is_said(forge: Forge) -> None:
    with pytest.raises(InfraError, match=r"GET http://127\.0\.0\.1:9/api/v4/projects/12"):
        put(MergeRequest("http://127.0.0.1:9/api/v4", "12", "7"), "text", mark="vmatrix", token=TOKEN)


def test_a_text_that_gitlab_would_refuse_is_cut(forge: Forge) -> None:
    put(forge.where, "x" * (note.MOST + 5000), mark="vmatrix", token=TOKEN)
    body = forge.notes[0]["body"]
    assert len(body) < 1_000_000
    assert body.endswith("see the job's artifacts)\n")
