"""One note on a merge request, renewed by each pipeline: found by a mark in it, never a second one.

CI_JOB_TOKEN cannot write notes (GitLab issue 464591), so this needs a project access token with the scope `api`.
https://docs.gitlab.com/api/notes/#merge-requests
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import BadInput, InfraError
from harness.gitlab.job import IID, number
from harness.http_client import WebRequest, ask
from harness.urls import wrong_token, wrong_url

SECONDS = 20.0  # for one answer of GitLab; without a note nothing fails
WHOLE_SECONDS = 40.0  # one answer as a whole: a page of notes
PAGE = 100
PAGES = 20  # 2000 notes; beyond these a second note is the lesser evil
MOST = 900_000  # characters; GitLab takes a million
GONE = (403, 404)
TOKEN = "MATRIX_NOTE_TOKEN"  # noqa: S105 - a variable's name


@dataclass(frozen=True)
class MergeRequest:
    """A merge request, by the API's address and its numbers there."""

    api: str
    project: str
    number: str

    @property
    def notes(self) -> str:
        """Return the address of its notes."""
        return f"{self.api}/projects/{self.project}/merge_requests/{self.number}/notes"


def merge_request(environment: Mapping[str, str]) -> tuple[MergeRequest | None, str]:
    """Return the merge request of a job's note, or None and why there is none; BadInput when a variable is wrong."""
    if not environment.get(IID):
        return None, ""
    if not environment.get(TOKEN):
        return None, f"set {TOKEN} to a project access token with the scope api (CI_JOB_TOKEN cannot write notes)"
    absent = [name for name in ("CI_API_V4_URL", "CI_PROJECT_ID") if not environment.get(name)]
    if absent:
        raise BadInput(f"{' and '.join(absent)} not set", hint="GitLab sets them in every job")
    api, project = environment["CI_API_V4_URL"], number(environment, "CI_PROJECT_ID")
    if wrong := wrong_url(api):
        raise BadInput(f"CI_API_V4_URL {api!r} is not a URL: {wrong}", hint="GitLab sets it in every job")
    if wrong := wrong_token(environment[TOKEN]):
        raise BadInput(f"{TOKEN} cannot be used: {wrong}", hint="a token is one word")
    return MergeRequest(api, project, number(environment, IID)), ""


def put(where: MergeRequest, text: str, *, mark: str, token: str) -> str:
    """Write the note anew where there is one, else write it; return "updated" or "written".

    Args:
        mark: what tells this note from others; stands in an HTML comment at its beginning.

    Raises:
        InfraError: GitLab refused, or cannot be reached. The token is in no message.
    """
    head = f"<!-- {mark} -->\n"
    whole = head + text.removeprefix(head)
    body = whole if len(whole) <= MOST else whole[:MOST] + "\n\n(shortened; see the job's artifacts)\n"
    found = _find(where, head, token)
    if found is not None:
        answer, _ = ask_api("PUT", f"{where.notes}/{found}", token, {"body": body})
        if answer < 300:
            return "updated"
        if answer not in GONE:  # somebody else's note, or one that was deleted meanwhile: a new one is written
            raise refused("PUT", f"{where.notes}/{found}", answer)
    answer, _ = ask_api("POST", where.notes, token, {"body": body})
    if answer >= 300:
        raise refused("POST", where.notes, answer)
    return "written"


def _find(where: MergeRequest, head: str, token: str) -> int | None:
    for page in range(1, PAGES + 1):
        address = f"{where.notes}?per_page={PAGE}&page={page}&sort=asc&order_by=created_at"
        answer, notes = ask_api("GET", address, token)
        if answer >= 300 or not isinstance(notes, list):
            raise refused("GET", where.notes, answer)
        for note in notes:
            if str(note.get("body", "")).startswith(head) and not note.get("system"):
                return int(note["id"])
        if len(notes) < PAGE:
            return None
    return None


def ask_api(method: str, address: str, token: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
    """Ask GitLab's API; return the status, and the answer where that is ok. InfraError without an answer."""
    headers = {"PRIVATE-TOKEN": token, "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    try:
        request = WebRequest(address, method, headers=headers, content=content, redirects=False)
        reply = ask(request, WHOLE_SECONDS, silence=SECONDS)
        return reply.status, json.loads(reply.content or b"null") if reply.ok else None
    except (OSError, ValueError) as error:
        raise InfraError(
            f"{method} {address.partition('?')[0]}: {error}", hint="check that the runner can reach GitLab"
        ) from None


def refused(method: str, address: str, status: int, variable: str = TOKEN) -> InfraError:
    """Return the error of a request that GitLab refused; `variable` is the one that has the token."""
    return InfraError(
        f"GitLab answered {status} to {method} {address}",
        hint=f"{variable} must be a project access token with the scope api and the role Reporter or more"
        if status in (401, *GONE)
        else "is CI_API_V4_URL GitLab's API, and is GitLab up?",
    )
