"""Every predefined variable of GitLab that we read: absent, empty, and with a value that GitLab would hardly give."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from harness.cell.place import cell_labels, own_project
from harness.errors import BadInput
from harness.gitlab import access, doctor, issues, job_end, note
from harness.gitlab.child import Tiers, scope_of
from harness.gitlab.job import (
    Job,
    job_context,
    read_job,
    read_pipeline,
    refuse_other_checkout,
    refuse_overridden,
)
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


INPUTS = "MATRIX_PREFIX={0}\nMATRIX_PRODUCT=ci/a b.yml\nMATRIX_INFRA=kubevirt\nMATRIX_NAMESPACE=\n"
AS_GIVEN = {"MATRIX_PRODUCT": "ci/a b.yml", "MATRIX_INFRA": "kubevirt"}


@pytest.mark.parametrize(
    ("prefix", "variables", "refused", "lines"),
    [
        ("", {}, "", []),
        ("ours-", {}, "", []),
        ("cells ", {}, "", []),
        ("", {"MATRIX_CELL": "k1363"}, "MATRIX_CELL", []),
        ("", {"MATRIX_TIER": "mr"}, "MATRIX_TIER", []),
        ("ours-", {"MATRIX_WHY": "x"}, "MATRIX_WHY", []),
        ("", {"MATRIX_PRODUCT": "b.yml"}, "", ["MATRIX_PRODUCT is 'b.yml' in place of the input's 'ci/a b.yml'"]),
        ("", {"MATRIX_NAMESPACE": "x"}, "", ["MATRIX_NAMESPACE is 'x' in place of the input's ''"]),
        ("ours-", {"MATRIX_PRODUCT": "b.yml"}, "MATRIX_PRODUCT", []),
        ("ours-", {"MATRIX_INFRA": ""}, "MATRIX_INFRA", []),
        ("ours-", {"MATRIX_PREFIX": "theirs-"}, "MATRIX_PREFIX", []),
        ("", {"MATRIX_PREFIX": "theirs-"}, "MATRIX_PREFIX", []),
    ],
)
def test_a_variable_of_the_project_does_not_override_an_inclusion_unseen(
    prefix: str, variables: dict[str, str], refused: str, lines: list[str]
) -> None:
    given = {"MATRIX_INPUTS": INPUTS.format(prefix), "MATRIX_PREFIX": prefix, **AS_GIVEN, **variables}
    if not refused:
        assert refuse_overridden(given) == lines
        return
    with pytest.raises(BadInput) as error:
        refuse_overridden(given)
    assert error.value.summary.startswith(f"{refused} is ")
    assert f"remove {refused} from the CI/CD variables" in error.value.hint


@pytest.mark.parametrize("prefix", ["../x", "-", "$(id)", "[x]", "a\nb", "x" * 31, " ", "\u00e9"])
def test_a_prefix_that_the_template_refuses_is_refused(prefix: str) -> None:
    with pytest.raises(BadInput, match="MATRIX_PREFIX"):
        read_job({"CI_JOB_ID": "1", "CI_PROJECT_DIR": "/", "MATRIX_PREFIX": prefix})


@pytest.mark.parametrize("runs", ["/tmp/x", "runs/", "ours-runs", "./runs"])
def test_a_folder_of_runs_that_no_artifact_has_is_refused(tmp_path: Path, runs: str) -> None:
    job = {"CI_JOB_ID": "1", "CI_PROJECT_DIR": str(tmp_path)}
    with pytest.raises(BadInput, match="VMATRIX_RUNS is "):
        job_context(job | {"VMATRIX_RUNS": runs}, infra=False)
    assert job_context(job | {"VMATRIX_RUNS": "runs"}, infra=False).artifacts.path == Path("runs") / read_job(job).run
    prefixed = job | {"VMATRIX_RUNS": "ours-runs", "MATRIX_PREFIX": "ours-"}
    assert job_context(prefixed, infra=False).artifacts.path.parts[0] == "ours-runs"


def _git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    argv = ["/usr/bin/git", *author, "-C", str(folder), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def test_a_checkout_of_another_commit_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "team x"
    checkout.mkdir()
    with pytest.raises(BadInput, match="has no checkout of the commit"):  # GIT_STRATEGY: none
        refuse_other_checkout({"CI_COMMIT_SHA": COMMIT}, checkout)
    _git(checkout, "init", "-q")
    refuse_other_checkout({"CI_COMMIT_SHA": COMMIT}, checkout)  # git cannot tell: nothing is claimed
    _git(checkout, "commit", "-q", "--allow-empty", "-m", "One")
    head = _git(checkout, "rev-parse", "HEAD")
    with pytest.raises(BadInput) as refused:  # GIT_CHECKOUT: false
        refuse_other_checkout({"CI_COMMIT_SHA": COMMIT}, checkout)
    assert f"has the commit {head[:12]}, and the pipeline is of {COMMIT[:12]}" in refused.value.summary
    assert "GIT_CHECKOUT" in refused.value.hint
    for commit in (head, head.upper(), "", "HEAD", "main"):
        refuse_other_checkout({"CI_COMMIT_SHA": commit}, checkout)
    monkeypatch.setenv("PATH", str(tmp_path))
    refuse_other_checkout({"CI_COMMIT_SHA": COMMIT}, checkout)


def test_a_file_that_is_given_as_its_content_is_named() -> None:
    given = {"MATRIX_API_SERVER": "https://api.example.org", "MATRIX_ID_TOKEN": "a.b.c"}
    for content in ("-----BEGIN CERTIFICATE-----\nMIIB", "x" * 5000):
        with pytest.raises(BadInput, match="MATRIX_API_CA") as refused:
            access.job_kubeconfig("aaaaaa", given | {"MATRIX_API_CA": content})
        assert refused.value.hint == "make it a CI/CD variable of type File"


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
@pytest.mark.parametrize("source", ["merge_request_event", "parent_pipeline"])
@pytest.mark.parametrize("event", ["detached", "merged_result", "merge_train", ""])
def test_a_merge_requests_pipeline_compares_to_its_target(
    variables: dict[str, str], base: str, why: str, event: str, source: str
) -> None:
    request = {
        "CI_PIPELINE_SOURCE": source,
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_EVENT_TYPE": event,
        "CI_COMMIT_BEFORE_SHA": "c" * 40,
    }
    found = read_pipeline(request | variables)
    assert (found.base, found.no_base) == (base, why)
