"""Every predefined variable of GitLab that we read: absent, empty, and with a value that GitLab would hardly give."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from harness.cell.place import cell_labels, own_project
from harness.errors import BadInput
from harness.gitlab import access, doctor, issues, job_end, note
from harness.gitlab.child import Tiers, scope_of
from harness.gitlab.job import Job, read_job, read_pipeline
from harness.history import origin
from harness.history.origin import root, where
from harness.history.store import open_store
from harness.paths import project_dir
from harness.spec import load_spec
from harness.spec.settings import Settings

COMMIT = "a" * 40
USUAL = {
    "CI_API_V4_URL": "https://gitlab.example.org/api/v4",
    "CI_COMMIT_BEFORE_SHA": COMMIT,
    "CI_COMMIT_REF_NAME": "main",
    "CI_COMMIT_REF_PROTECTED": "true",
    "CI_COMMIT_SHA": COMMIT,
    "CI_COMMIT_TAG": "v1.2.3",
    "CI_DEFAULT_BRANCH": "main",
    "CI_JOB_ID": "12",
    "CI_JOB_TIMEOUT": "3600",
    "CI_JOB_TOKEN": "glcbt-x",
    "CI_JOB_URL": "https://gitlab.example.org/team/x/-/jobs/12",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": COMMIT,
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_LABELS": "bug",
    "CI_MERGE_REQUEST_PROJECT_PATH": "team/x",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feature",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "fork/x",
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "",
    "CI_PIPELINE_ID": "11",
    "CI_PIPELINE_CREATED_AT": "2026-11-28T23:30:00Z",
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_PIPELINE_URL": "https://gitlab.example.org/team/x/-/pipelines/11",
    "CI_PROJECT_DIR": "/",
    "CI_PROJECT_ID": "3",
    "CI_PROJECT_PATH": "team/x",
    "CI_PROJECT_URL": "https://gitlab.example.org/team/x",
    "CI_RUNNER_DESCRIPTION": "runner one",
    "CI_RUNNER_TAGS": '["vmatrix"]',
    "CI_RUNNER_VERSION": "18.2.0",
    "CI_SERVER_HOST": "gitlab.example.org",
    "CI_SERVER_URL": "https://gitlab.example.org",
    "CI_SERVER_VERSION": "18.5.0-ee",
}
# Read by a shell script, by GitLab in `rules`, or named in a comment; GitLab's runner sets them for every job.
NOT_READ = {"CI_COMMIT_BRANCH", "CI_DEBUG_TRACE", "CI_REPOSITORY_URL", "CI_LABELS", "CI_TOPOLOGY"}
NOT_READ |= {"CI_MERGE_REQUEST_", "CI_REGISTRY_USER", "CI_REGISTRY_PASSWORD"}
BUILT = {"CI_MERGE_REQUEST_PROJECT_PATH", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH"}  # put together where they are read
STRANGE = [
    *(
        "",
        " ",
        "0",
        "-1",
        "0" * 40,
        "0" * 64,
        "f" * 40,
        "f" * 64,
        "HEAD",
        "--help",
        "../..",
        "/no/such/folder",
        "²",
        "٣",
    ),
    *(
        "9" * 5000,
        "[" * 5000,
        '{"a": 1}',
        "5",
        '"text"',
        "a\nb",
        "a b",
        "é\udce9",
        "https://[",
        "https://h:port/",
        "://",
    ),
    *("true", "$(id)", ",,", "matrix::smoke", "matrix::nope", "merge_request_event", "schedule", "parent_pipeline"),
]
WITH_SECRETS = {"MATRIX_NOTE_TOKEN": "t", "MATRIX_API_SERVER": "https://api.example.org", "MATRIX_ID_TOKEN": "a.b.c"}
OTHERS = {"RUNNER_SCRIPT_TIMEOUT": "20m", "RUNNER_AFTER_SCRIPT_TIMEOUT": "5m"} | WITH_SECRETS
SPEC = load_spec(project_dir() / "matrix")
Reader = Callable[[Mapping[str, str]], object]


def _store(environment: Mapping[str, str]) -> object:
    return open_store(Settings(report_history="package"), environment)


def _links(environment: Mapping[str, str]) -> object:
    job = Job("1", "h", environment.get("CI_JOB_URL", ""), Path("/"))
    return job_end.artifact_url(job, "runs/é x/")


def _labels(environment: Mapping[str, str]) -> dict[str, str]:
    made = cell_labels(run="aaaaaa", cell="c", attempt=1, expires_at=1.0, environment=environment)
    assert own_project(environment) == made.get("vmatrix.dev/project")
    assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value) for value in made.values()), made
    return made


READERS: dict[str, Reader] = {
    "job": lambda e: read_job(e).run,
    "pipeline": lambda e: scope_of(read_pipeline(e), Tiers("smoke", "mr", "nightly"), SPEC),
    "fit": lambda e: list(doctor.job_findings(e, tag="vmatrix", version="1.2.3")),
    "token": lambda e: list(doctor.token_findings(e)),
    "note": note.merge_request,
    "issues": lambda e: issues.forge({**e, "MATRIX_ISSUE_TOKEN": "glpat-x"}),
    "withheld": lambda e: access.without_authority(BadInput("x", hint="y"), e),
    "origin": lambda e: where(Path("/"), e),
    "root": root,
    "store": _store,
    "links": _links,
    "labels": _labels,
}


def test_the_table_has_every_variable_that_the_code_reads() -> None:
    files = [*(project_dir() / "harness").rglob("*.py"), project_dir() / "harness/gitlab/jobs.yml"]
    texts = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert set(re.findall(r"\bCI_[A-Z][A-Z0-9_]*", texts)) - NOT_READ == set(USUAL) - BUILT


@pytest.mark.parametrize("reader", READERS)
def test_a_usual_job_is_understood(reader: str) -> None:
    READERS[reader](USUAL | OTHERS)


def _refusal(read: Reader, environment: Mapping[str, str]) -> BadInput | None:
    try:
        read(environment)
    except BadInput as refused:
        return refused
    return None


def _unreachable(*_: object, **__: object) -> NoReturn:
    raise OSError("no network")


@pytest.mark.parametrize("name", USUAL)
def test_a_variable_is_understood_or_refused_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _unreachable)
    if name != "CI_API_V4_URL":  # else a request is made of it
        monkeypatch.setattr(origin, "time_of", _unreachable)
    given = USUAL | OTHERS
    absent = {other: value for other, value in given.items() if other != name}
    for environment in (absent, *(given | {name: value} for value in STRANGE)):
        for source in ("merge_request_event", "push"):
            if name != "CI_PIPELINE_SOURCE":
                environment = environment | {"CI_PIPELINE_SOURCE": source}
            for what, read in READERS.items():
                refused = _refusal(read, environment)
                named = not refused or any(word in refused.summary for word in (name, "MATRIX_SCHEDULE", "matrix::"))
                assert named, (what, refused)
                assert not refused or refused.hint, (what, refused)


@pytest.mark.parametrize(
    ("variables", "base", "why"),
    [
        ({"CI_COMMIT_BEFORE_SHA": COMMIT}, COMMIT, ""),
        ({"CI_COMMIT_BEFORE_SHA": COMMIT.upper()}, COMMIT, ""),
        ({"CI_COMMIT_BEFORE_SHA": "b" * 64}, "b" * 64, ""),
        ({"CI_COMMIT_BEFORE_SHA": "0" * 40}, "", "there is no earlier commit (CI_COMMIT_BEFORE_SHA)"),
        ({"CI_COMMIT_BEFORE_SHA": "0" * 64}, "", "there is no earlier commit (CI_COMMIT_BEFORE_SHA)"),
        ({"CI_COMMIT_BEFORE_SHA": ""}, "", "there is no earlier commit (CI_COMMIT_BEFORE_SHA)"),
        ({}, "", "there is no earlier commit (CI_COMMIT_BEFORE_SHA)"),
        ({"CI_COMMIT_BEFORE_SHA": "HEAD"}, "", "CI_COMMIT_BEFORE_SHA 'HEAD' is not a commit"),
        ({"CI_COMMIT_BEFORE_SHA": "--all"}, "", "CI_COMMIT_BEFORE_SHA '--all' is not a commit"),
    ],
)
@pytest.mark.parametrize("source", ["push", "web", "api", "trigger", "pipeline", "ondemand_dast_scan"])
def test_a_pipeline_of_a_branch_or_a_tag_compares_to_the_commit_before(
    variables: dict[str, str], base: str, why: str, source: str
) -> None:
    found = read_pipeline({"CI_PIPELINE_SOURCE": source, "CI_COMMIT_TAG": "v1"} | variables)
    assert (found.base, found.no_base) == (base, why)


@pytest.mark.parametrize(
    ("variables", "base", "why"),
    [
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": COMMIT}, COMMIT, ""),
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": COMMIT, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "b" * 40}, "b" * 40, ""),
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": ""}, "", "there is no earlier commit (CI_MERGE_REQUEST_DIFF_BASE_SHA)"),
        ({}, "", "there is no earlier commit (CI_MERGE_REQUEST_DIFF_BASE_SHA)"),
        (
            {"CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "main"},
            "",
            "CI_MERGE_REQUEST_TARGET_BRANCH_SHA 'main' is not a commit",
        ),
    ],
)
@pytest.mark.parametrize("event", ["detached", "merged_result", "merge_train", ""])
def test_a_merge_requests_pipeline_compares_to_its_target(
    variables: dict[str, str], base: str, why: str, event: str
) -> None:
    request = {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_EVENT_TYPE": event,
        "CI_COMMIT_BEFORE_SHA": "c" * 40,
    }
    found = read_pipeline(request | variables)
    assert (found.base, found.no_base) == (base, why)
