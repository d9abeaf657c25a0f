"""A played GitLab gets one issue for a suspect and one merge request for a flaky check, over three nights."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from harness.errors import BadInput, InfraError
from harness.gitlab.issues import FILE, Forge, forge, sync_quarantine, sync_suspects, with_row
from harness.history.record import Record
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.planned import Planned
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW
from tests.unit.report.hostile import TEXTS, structure

DNS, READY = "network: test_dns", "nodes: test_ready"
TODAY = date(2026, 11, 21)
CELLS = [{"ip": ip, "os": os} for ip in ("v4", "dual") for os in ("a", "b", "c", "d")]
QUARANTINE = "# known failures\nquarantine: []\n"
LIST = ("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close")
ALLOWED = {"html_block", "inline", "code_inline", "paragraph_open", "paragraph_close", *LIST}


@dataclass
class Lab:
    """A GitLab project: its issues, merge requests and commits; refused: the status of every answer, 0 for none."""

    issues: list[dict[str, Any]] = field(default_factory=list)
    merge_requests: list[dict[str, Any]] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    refused: int = 0
    refused_paths: list[str] = field(default_factory=list)
    address: str = ""

    @property
    def forge(self) -> Forge:
        return Forge(f"{self.address}/api/v4", "12", "main", "t0ken")


class Handler(BaseHTTPRequestHandler):
    """The API as far as it is used."""

    lab: ClassVar[Lab]

    def do_GET(self) -> None:
        """List open things of a label, or read the file."""
        path, query = self._parts()
        if path[0] == "repository" and self._refuses(path):
            return
        if path[0] == "repository":
            assert query == {"ref": ["main"]}
            self._answer({"content": base64.b64encode(QUARANTINE.encode()).decode()})
            return
        asked = query["state"] + query["labels"]
        self._answer([one for one in getattr(self.lab, path[0]) if [one["state"], one["labels"]] == asked])

    def do_POST(self) -> None:
        """Make something."""
        path, _ = self._parts()
        body = self._body()
        if self._refuses(path):
            return
        if path == ["repository", "commits"]:
            self.lab.commits.append(body)
            self._answer({})
            return
        rows = getattr(self.lab, path[0])
        made = {"iid": len(rows) + 1, "state": "opened", "web_url": f"https://lab.invalid/{len(rows) + 1}", **body}
        rows.append(made)
        self.lab.changes.append(f"opened {path[0]} {made['iid']}")
        self._answer(made)

    def do_PUT(self) -> None:
        """Change something."""
        path, _ = self._parts()
        body = self._body()
        (found,) = (one for one in getattr(self.lab, path[0]) if one["iid"] == int(path[1]))
        found.update({"state": "closed"} if body.get("state_event") == "close" else body)
        found.update({"labels": ""} if body.get("remove_labels") == found["labels"] else {})
        self.lab.changes.append(f"{'closed' if 'state_event' in body else 'updated'} {path[0]} {found['iid']}")
        self._answer(found)

    def _refuses(self, path: list[str]) -> bool:
        refuses = any("/".join(path).startswith(one) for one in self.lab.refused_paths)
        if refuses:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
        return refuses

    def _parts(self) -> tuple[list[str], dict[str, list[str]]]:
        assert self.headers["PRIVATE-TOKEN"] == "t0ken"
        split = urlsplit(self.path)
        return split.path.removeprefix("/api/v4/projects/12/").split("/"), parse_qs(split.query)

    def _body(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return read

    def _answer(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(self.lab.refused or 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (Handler,), {"lab": made}))
    made.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def night(number: int, failing: list[int], of: int, title: str = DNS) -> list[Record]:
    made = []
    for place, axes in enumerate(CELLS):
        bad = place in failing
        base = record(number, f"c{place}", of=of, outcome="failed" if bad else "passed", axes=axes)
        made.append(checked(base, {READY: "p", title: "f" if bad else "p"}))
    return made


def judged(*nights: list[Record]) -> Analysis:
    return analyse([r for one in nights for r in one], Planned(), RecordFilter(), NOW)


DUAL = [4, 5, 6, 7]


def test_a_suspect_has_one_issue_that_is_opened_updated_and_closed(lab: Lab) -> None:
    nights = [night(0, [], 4), night(1, DUAL, 4), night(2, DUAL, 4), night(3, [], 4)]
    for number in (1, 2, 2, 3, 4, 4):
        sync_suspects(lab.forge, judged(*nights[:number]), "https://pages.invalid/")
    assert lab.changes == ["opened issues 1", "closed issues 1"]
    (issue,) = lab.issues
    assert issue["title"] == "ip dual: network: test_dns fails"
    assert '<!-- vmatrix {"ip": "dual"} -->' in issue["description"]
    assert "4 of 4 cells with it failed, 0 of 4 others" in issue["description"]


def test_an_open_issue_is_updated_where_the_evidence_changed(lab: Lab) -> None:
    sync_suspects(lab.forge, judged(night(0, [], 3), night(1, DUAL, 3)), "")
    more = [*night(2, DUAL, 3), checked(record(2, "c9", of=3, axes={"ip": "v4", "os": "e"}), {DNS: "p"})]
    sync_suspects(lab.forge, judged(night(0, [], 3), night(1, DUAL, 3), more), "")
    assert lab.changes == ["opened issues 1", "updated issues 1"]


def test_an_issue_stays_open_in_a_night_that_says_nothing(lab: Lab) -> None:
    sync_suspects(lab.forge, judged(night(0, DUAL, 2)), "")
    others = [r for r in night(1, [], 2) if r.axes["ip"] != "dual"]
    sync_suspects(lab.forge, judged(night(0, DUAL, 2), others), "")
    assert lab.changes == ["opened issues 1"]


def flaky(of: int, last_failing: int) -> list[list[Record]]:
    """Return nights in each of which one cell fails, up to one."""
    return [night(n, [n % len(CELLS)] if n < last_failing else [], of) for n in range(of)]


def test_a_flaky_check_has_one_merge_request_that_is_closed_once_it_passes(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "CODEOWNERS").write_text("tests/cells/network/ @net\n", encoding="utf-8")
    nights = flaky(of=30, last_failing=20)
    for number in (9, 20, 21, 30, 30):
        sync_quarantine(lab.forge, judged(*nights[:number]), rate=0.05, project=tmp_path, today=TODAY)
    assert lab.changes == ["opened issues 1", "opened merge_requests 1", "closed merge_requests 1"]
    (commit,) = lab.commits
    assert (commit["start_branch"], commit["actions"][0]["file_path"]) == ("main", FILE)
    (row,) = yaml.safe_load(commit["actions"][0]["content"])["quarantine"]
    assert (row["cell"], row["check"], row["issue"]) == ("*", DNS, "https://lab.invalid/1")
    assert row["until"] == date(2026, 12, 5)
    assert row["reason"].endswith("% of its runs; owner @net")


def test_a_merge_request_that_a_person_closed_is_not_proposed_again(lab: Lab, tmp_path: Path) -> None:
    def propose(nights: list[list[Record]]) -> list[str]:
        return sync_quarantine(lab.forge, judged(*nights), rate=0.05, project=tmp_path, today=TODAY)

    nights = flaky(of=30, last_failing=30)
    propose(nights[:20])
    lab.merge_requests[0]["state"] = "closed"
    assert propose(nights[:21]) == []
    lab.merge_requests[0]["labels"] = ""
    assert len(propose(nights[:22])) == 1


def test_what_is_refused_halfway_opens_no_second_issue(lab: Lab, tmp_path: Path) -> None:
    nights = judged(*flaky(20, 20))
    for refused in (["repository/files"], ["repository/commits"], ["merge_requests"], []):
        lab.refused_paths = refused
        with suppress(InfraError):
            sync_quarantine(lab.forge, nights, rate=0.05, project=tmp_path, today=TODAY)
    assert lab.changes == ["opened issues 1", "opened merge_requests 1"]


@pytest.mark.parametrize("mark", ["{bad}", "{}", '{"ip": 4}', '{"other": "x"}'])
def test_a_mark_that_somebody_edited_is_passed_over(mark: str, lab: Lab, tmp_path: Path) -> None:
    edited = {"iid": 1, "state": "opened", "description": f"<!-- vmatrix {mark} -->"}
    lab.issues.append({**edited, "labels": "vmatrix::suspect"})
    lab.merge_requests.append({**edited, "labels": "vmatrix::quarantine"})
    nights = judged(night(0, [], 2), night(1, [], 2))
    assert sync_suspects(lab.forge, nights, "") == []
    assert sync_quarantine(lab.forge, nights, rate=0.05, project=tmp_path, today=TODAY) == []


def test_a_check_below_the_rate_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    sync_quarantine(lab.forge, judged(*flaky(20, 20)), rate=0.5, project=tmp_path, today=TODAY)
    sync_quarantine(lab.forge, judged(*flaky(5, 5)), rate=0.01, project=tmp_path, today=TODAY)
    assert lab.changes == []


def test_what_gitlab_refuses_is_said_without_the_token(lab: Lab) -> None:
    lab.refused = 403
    with pytest.raises(InfraError, match="GitLab answered 403") as caught:
        sync_suspects(lab.forge, judged(night(0, DUAL, 1)), "")
    assert "MATRIX_ISSUE_TOKEN must be" in caught.value.hint
    assert "t0ken" not in str(caught.value)


SET = {"CI_API_V4_URL": "https://x.invalid/api/v4", "CI_PROJECT_ID": "12", "CI_DEFAULT_BRANCH": "main"}


@pytest.mark.parametrize(
    ("environment", "wrong"),
    [
        ({"MATRIX_ISSUE_TOKEN": "a"}, "CI_API_V4_URL and CI_PROJECT_ID and CI_DEFAULT_BRANCH not set"),
        ({**SET, "MATRIX_ISSUE_TOKEN": "a b"}, "MATRIX_ISSUE_TOKEN cannot be used"),
        ({**SET, "MATRIX_ISSUE_TOKEN": "a", "CI_API_V4_URL": "x"}, "CI_API_V4_URL is not a URL"),
    ],
)
def test_a_wrong_variable_is_refused(environment: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong):
        forge(environment)


def test_without_a_token_nothing_is_tried() -> None:
    assert forge(SET) == (None, "set MATRIX_ISSUE_TOKEN to a project access token with the scope api")


@pytest.mark.parametrize(
    "text",
    [
        QUARANTINE,
        "quarantine:\n  - cell: a\n    check: 'x: y'\n    issue: https://x.invalid\n    reason: z\n",
        "# a\nquarantine:   []  \n# b\n",
    ],
)
def test_a_row_is_added_and_the_rest_stays(text: str) -> None:
    row = {"cell": "*", "check": "a: [b]", "until": TODAY}
    made = with_row(text, row)
    before = yaml.safe_load(text)["quarantine"] or []
    assert yaml.safe_load(made)["quarantine"] == [*before, row]
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in made.splitlines() if line.startswith("#")
    ]


@pytest.mark.parametrize("text", ["quarantine: []\nother: 1\n", "a: [\n", "other: 1\n", "quarantine: [{cell: a}]\n"])
def test_a_file_that_takes_no_row_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="takes no further row"):
        with_row(text, {"cell": "*"})


@pytest.mark.parametrize("text", TEXTS)
def test_any_name_has_one_issue_and_one_merge_request(text: str, lab: Lab, tmp_path: Path) -> None:
    def with_name(one: Record) -> Record:
        return replace(one, axes={key: text if value == "dual" else value for key, value in one.axes.items()})

    for _ in range(2):
        sync_suspects(lab.forge, judged(*([*map(with_name, n)] for n in (night(0, [], 2), night(1, DUAL, 2)))), text)
        nights = [night(n, [n % len(CELLS)], 20, title=f"network: {text}") for n in range(20)]
        sync_quarantine(lab.forge, judged(*nights), rate=0.05, project=tmp_path, today=TODAY)
    assert lab.changes == ["opened issues 1", "opened issues 2", "opened merge_requests 1"]
    for made in (*lab.issues, *lab.merge_requests):
        assert {kind for kind, *_ in structure(made["description"])} <= ALLOWED
        assert made["title"] == made["title"].replace("\n", " ").replace("@all", "").replace("g/p#1", "")
    assert "\n" not in lab.commits[0]["commit_message"]


def test_a_mark_of_an_earlier_release_is_found_again(lab: Lab) -> None:
    nights = [
        [replace(r, axes={**r.axes, "ip": r.axes["ip"].replace("v4", "a--b")}) for r in night(0, [0, 1, 2, 3], 1)]
    ]
    earlier = {"iid": 1, "state": "opened", "labels": "vmatrix::suspect"}
    lab.issues.append({**earlier, "description": '<!-- vmatrix {"ip": "a--b"} -->\n'})
    sync_suspects(lab.forge, judged(*nights), "")
    assert lab.changes == ["updated issues 1"]
