"""One issue for each suspect, and a merge request that puts a flaky check into quarantine: by the nightly job.

Both are known by a mark in their description, so that nothing is opened twice and only what is ours is closed. Without
a token nothing is tried. https://docs.gitlab.com/api/issues, https://docs.gitlab.com/api/merge_requests,
https://docs.gitlab.com/api/commits, https://docs.gitlab.com/api/repository_files
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from harness.errors import BadInput
from harness.gitlab.job import number
from harness.gitlab.note import PAGE, ask_api, refused
from harness.paths import MATRIX
from harness.plan.changed import owners_of
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.nights import Night
from harness.report.markup import link, mark, marked, title
from harness.report.output.document import culprit_of
from harness.report.output.note import code
from harness.report.suspects import Explained, Suspect, flake_rates, of_night
from harness.report.words import plural
from harness.urls import wrong_token, wrong_url

TOKEN = "MATRIX_ISSUE_TOKEN"  # noqa: S105 - a variable's name
SUSPECT, QUARANTINE = "vmatrix::suspect", "vmatrix::quarantine"  # labels
BRANCH = "vmatrix-quarantine-"
FILE = f"{MATRIX}/quarantine.yml"
PASSED_NIGHTS = 10  # in a row, after which a quarantine is not needed
QUARANTINE_DAYS = 14
FEWEST_NIGHTS = 10  # below which no rate is believed
LAST_KEY = "its key `quarantine` must be the last one"
MOST_CELLS = 20  # that an issue lists
LONGEST_TITLE = 255  # characters that GitLab takes


@dataclass(frozen=True)
class Forge:
    """A project of a GitLab, by the API's address and the project's number; and its default branch."""

    api: str
    project: str
    branch: str
    token: str

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request about the project; InfraError where GitLab refuses it."""
        address = f"{self.api}/projects/{self.project}/{path}"
        status, answer = ask_api(method, address, self.token, body)
        if status >= 300:
            raise refused(method, address.partition("?")[0], status, TOKEN)
        return answer

    def marked(self, what: str, label: str, state: str = "opened") -> dict[str, dict[str, Any]]:
        """Return the issues or merge requests of a state with a mark of ours, by the mark."""
        found: dict[str, dict[str, Any]] = {}
        page = 1
        while True:
            query = f"{what}?state={state}&labels={quote(label)}&per_page={PAGE}&page={page}"
            answer = self.ask("GET", query)
            for one in answer:
                if (fields := marked(one.get("description") or "")) is not None:
                    found.setdefault(mark(fields), one)
            if len(answer) < PAGE:
                return found
            page += 1


def forge(environment: Mapping[str, str]) -> tuple[Forge | None, str]:
    """Return the job's project, or None and why; BadInput when a variable is wrong."""
    if not environment.get(TOKEN):
        return None, f"set {TOKEN} to a project access token with the scope api"
    absent = [n for n in ("CI_API_V4_URL", "CI_PROJECT_ID", "CI_DEFAULT_BRANCH") if not environment.get(n)]
    if absent:
        raise BadInput(f"{' and '.join(absent)} not set", hint="GitLab sets them in every job")
    if wrong := wrong_url(environment["CI_API_V4_URL"]):
        raise BadInput(f"CI_API_V4_URL is not a URL: {wrong}", hint="GitLab sets it in every job")
    if wrong := wrong_token(environment[TOKEN]):
        raise BadInput(f"{TOKEN} cannot be used: {wrong}", hint="a token is one word")
    project, branch = number(environment, "CI_PROJECT_ID"), environment["CI_DEFAULT_BRANCH"]
    return Forge(environment["CI_API_V4_URL"], project, branch, environment[TOKEN]), ""


def sync_suspects(where: Forge, analysis: Analysis, url: str) -> list[str]:
    """Open an issue for each named suspect, renew open ones, close those that no longer fail; say what was done.

    Args:
        url: of the report, "" without one.
    """
    night = analysis.last
    if night is None or night.outage:
        return []
    named = {mark(dict(s.values)): (one, s) for one in analysis.suspects if (s := one.named) is not None}
    known, done = where.marked("issues", SUSPECT), []
    for comment, (found, suspect) in named.items():
        text = _description(analysis, comment, found, suspect, url)
        if comment not in known:
            made = where.ask(
                "POST", "issues", {"title": _title(found, suspect), "description": text, "labels": SUSPECT}
            )
            done.append(f"issue #{made['iid']} opened: {suspect.said}")
        elif known[comment].get("description") != text:
            where.ask("PUT", f"issues/{known[comment]['iid']}", {"description": text})
            done.append(f"issue #{known[comment]['iid']} updated: {suspect.said}")
    for comment, issue in known.items():
        if comment not in named and _passes(night, marked(comment) or {}):
            where.ask("PUT", f"issues/{issue['iid']}", {"state_event": "close"})
            done.append(f"issue #{issue['iid']} closed: it no longer fails")
    return done


def _passes(night: Night, values: Mapping[str, str]) -> bool:
    """Tell whether a night had cells with some values, none of which failed."""
    own = [one for one in of_night(night) if values.items() <= one.values.items()]
    return bool(own) and not any(one.failed for one in own)


def _title(found: Explained, suspect: Suspect) -> str:
    return title(f"{suspect.said}: {found.keys[0][0]} fails", LONGEST_TITLE)


def _description(analysis: Analysis, comment: str, found: Explained, suspect: Suspect, url: str) -> str:
    culprit = culprit_of(analysis, found) or {}
    lines = [comment, f"{code(suspect.said)}: {suspect.evidence}.", ""]
    lines += [f"- fails: {code(name)}" for name, _ in found.keys[:MOST_CELLS]]
    lines += [f"- cell {code(cell)}" for cell in found.cells[:MOST_CELLS]]
    lines += [f"- since {code(culprit['title'])}, {code(culprit['author'])}"] if culprit else []
    lines += [f"- owners: {code(culprit['owners'])}"] if culprit.get("owners") else []
    return "\n".join([*lines, *([f"- {link('report', url)}"] if url else [])]) + "\n"


def sync_quarantine(where: Forge, analysis: Analysis, *, rate: float, project: Path, today: date) -> list[str]:
    """Propose a quarantine of checks that fail by chance above a rate, withdraw it once they pass; say what was done.

    A merge request adds a row to the file of the default branch: for all cells, with an issue, owners and a last day.
    One that a person closed is an answer: as long as it has its label, the check is not proposed again.

    Args:
        rate: of cell runs, from 0 to 1.  project: the checkout, whose CODEOWNERS say whose a check is.
    """
    nights = [night for night in analysis.nights if not night.outage]
    known, done = where.marked("merge_requests", QUARANTINE), []
    for comment, request in known.items():
        check = (marked(comment) or {}).get("check", "")
        if check and _passed_nights(nights, check) >= PASSED_NIGHTS:
            withdrawn = {"state_event": "close", "remove_labels": QUARANTINE}  # no answer of a person
            where.ask("PUT", f"merge_requests/{request['iid']}", withdrawn)
            done.append(f"merge request !{request['iid']} closed: {check} passed {PASSED_NIGHTS} nights")
    excused = {entry.entry.check for entry in analysis.quarantine}
    flaky = [(mark({"check": check}), check, share) for check, share in _flaky(analysis, nights, rate)]
    declined = where.marked("merge_requests", QUARANTINE, "closed") if flaky else {}
    for comment, check, share in flaky:
        if comment not in known and comment not in declined and _glob(check) not in excused:
            done.append(_propose(where, check, share, comment, project, today))
    return done


def _flaky(analysis: Analysis, nights: Sequence[Night], rate: float) -> Iterator[tuple[str, float]]:
    """Yield the checks that fail by chance above a rate, and how often; not those that a named suspect explains."""
    if len(nights) < FEWEST_NIGHTS:
        return
    named = {check for one in analysis.suspects if one.named is not None for check, _ in one.keys}
    for check, share in sorted(flake_rates(nights).items()):
        if share > rate and check not in named and ": " in check and _passed_nights(nights, check) < PASSED_NIGHTS:
            yield check, share


def _passed_nights(nights: Sequence[Night], check: str) -> int:
    """Return in how many last nights a check passed wherever it was judged; nights without it do not count."""
    passed = 0
    for night in reversed(nights):
        seen = of_night(night)
        if any(key[0] == check for one in seen for key in one.failed):
            return passed
        passed += any(check in one.passed for one in seen)
    return passed


def _propose(where: Forge, check: str, share: float, comment: str, project: Path, today: date) -> str:
    suite = check.partition(": ")[0]
    owners = owners_of(project, [f"tests/cells/{suite}/x.py", f"checks/{suite}/x.py"])
    owner = f"; owner {' '.join(owners)}" if owners else ""
    said = f"fails by chance in {100 * share:.0f} % of its runs"
    raw = where.ask("GET", f"repository/files/{quote(FILE, safe='')}?ref={quote(where.branch, safe='')}")
    with_row(_decoded(raw), {})  # refused before there is an issue about it
    known = where.marked("issues", QUARANTINE).get(comment)  # of a night in which GitLab refused what follows
    text = f"{comment}\n{code(check)} {said}.\n"
    issue = {"title": title(f"{check} is flaky", LONGEST_TITLE), "description": text, "labels": QUARANTINE}
    ticket = known or where.ask("POST", "issues", issue)
    until = today + timedelta(days=QUARANTINE_DAYS)
    row = {"cell": "*", "check": _glob(check), "issue": ticket["web_url"], "reason": said + owner, "until": until}
    branch = BRANCH + hashlib.sha256(check.encode()).hexdigest()[:8]
    action = {"action": "update", "file_path": FILE, "content": with_row(_decoded(raw), row)}
    message = title(f"Put {check} into quarantine", LONGEST_TITLE)
    where.ask(
        "POST",
        "repository/commits",
        {"branch": branch, "start_branch": where.branch, "force": True, "commit_message": message, "actions": [action]},
    )
    description = f"{comment}\n{code(check)} {said}: {ticket['web_url']}.\n"
    made = where.ask(
        "POST",
        "merge_requests",
        {
            "source_branch": branch,
            "target_branch": where.branch,
            "title": message,
            "description": description,
            "labels": QUARANTINE,
            "remove_source_branch": True,
        },
    )
    return f"merge request !{made['iid']} opened: {check} {said}, in {plural(QUARANTINE_DAYS, 'day')} it ends"


def _glob(title: str) -> str:
    """Return a glob that fits a title alone."""
    return re.sub(r"([*?[])", r"[\1]", title)


def _decoded(answer: Mapping[str, Any]) -> str:
    return base64.b64decode(answer["content"]).decode()


def with_row(text: str, row: Mapping[str, Any]) -> str:
    """Return quarantine.yml with one more row; its comments and rows stay as they are.

    Raises:
        BadInput: the file is written in a way to which no row can be added.
    """
    added = yaml.safe_dump([dict(row)], sort_keys=False, allow_unicode=True, width=1000)
    rows = "".join(f"  {line}\n" for line in added.splitlines())
    emptied = re.sub(r"(?m)^quarantine:[ \t]*\[\][ \t]*$", "quarantine:", text)
    made = f"{emptied.rstrip()}\n{rows}"
    try:
        before, after = yaml.safe_load(text)["quarantine"], yaml.safe_load(made)["quarantine"]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise BadInput(f"{FILE} takes no further row: {error}", hint=LAST_KEY) from error
    if after != [*(before or []), dict(row)]:
        raise BadInput(f"{FILE} takes no further row", hint=LAST_KEY)
    return made
