"""The server by itself, asked as a runner asks: who gets a job, what becomes of it, what follows, what is refused."""

from __future__ import annotations

import base64
import io
import json
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.gitlab.server.model import KnownRunner, NotSpoken, Pipeline, Project, State, Variable
from tests.gitlab.server.projects import add_project, add_runner
from tests.gitlab.server.rules import true
from tests.gitlab.server.serve import RunningServer, serving

SECONDS = 30.0
ABLE = {"features": {"cancel_gracefully": True}}
Begin = Callable[..., Pipeline]


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        """Return the body's JSON."""
        return json.loads(self.body)


@dataclass
class Asking:
    """A runner as this test plays it."""

    server: RunningServer
    runner: KnownRunner

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask for an address of the API."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        given = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(f"{self.server.url}{path}", data, given, method=method)  # noqa: S310 - ours
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - ours
                return Answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read(), dict(error.headers))

    def take(self) -> Any:
        """Ask for a job; None without one."""
        answer = self.ask("POST", "/api/v4/jobs/request", {"token": self.runner.token, "info": ABLE})
        return answer.data if answer.status == 201 else None

    def end(self, job: Mapping[str, Any], state: str = "success", **more: Any) -> Answer:
        """Say how a job ended."""
        return self.ask("PUT", f"/api/v4/jobs/{job['id']}", {"token": job["token"], "state": state, **more})

    def trace(self, job: Mapping[str, Any], start: int, text: str) -> Answer:
        """Send a part of a job's trace."""
        headers = {"JOB-TOKEN": job["token"], "Content-Range": f"{start}-{start + len(text) - 1}"}
        return self.ask("PATCH", f"/api/v4/jobs/{job['id']}/trace", text.encode(), headers)

    def upload(self, job: Mapping[str, Any], content: bytes, kind: str = "archive", packed: str = "zip") -> Answer:
        """Send an artifact."""
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="artifacts.zip"\r\n\r\n'
        where = f"/api/v4/jobs/{job['id']}/artifacts?artifact_type={kind}&artifact_format={packed}"
        headers = {"JOB-TOKEN": job["token"], "Content-Type": "multipart/form-data; boundary=x"}
        return self.ask("POST", where, head + content + b"\r\n--x--\r\n", headers)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serving(poll_seconds=0) as found:
        yield found


@pytest.fixture
def asking(server: RunningServer) -> Asking:
    return Asking(server, add_runner(server, "vmatrix"))


@pytest.fixture
def project(server: RunningServer, tmp_path: Path) -> Project:
    return add_project(server, "team/small", tmp_path)


@pytest.fixture
def begin(server: RunningServer, project: Project) -> Begin:
    def made(text: str, *, ref: str = "main", source: str = "push", **more: Any) -> Pipeline:
        merged = {"stages": ["build", "test", "report"], **yaml.safe_load(text)}
        number = server.call(lambda forge: next(forge.numbers))
        pipeline = Pipeline(number, project, "a" * 40, ref, source, merged, **more)
        return server.call(lambda forge: forge.begin(pipeline))

    return made


def states(server: RunningServer, pipeline: Pipeline) -> dict[str, State]:
    return server.call(lambda _: {one.name: one.state for one in pipeline.latest})


def archive(**files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return packed.getvalue()


def test_a_runner_with_another_token_gets_nothing(server: RunningServer, asking: Asking) -> None:
    assert asking.ask("POST", "/api/v4/runners/verify", {"token": asking.runner.token}).status == 200
    assert asking.ask("POST", "/api/v4/runners/verify", {"token": "glrt-other"}).status == 403
    assert asking.ask("POST", "/api/v4/jobs/request", {"token": "glrt-other"}).status == 403


def test_a_job_waits_for_a_runner_with_its_tags(server: RunningServer, asking: Asking, begin: Begin) -> None:
    begin("big: {stage: test, script: [x], tags: [vmatrix, big]}")
    assert asking.take() is None
    asking.runner = add_runner(server, "vmatrix", "big")
    assert asking.take()["job_info"]["name"] == "big"


def test_a_runner_without_untagged_jobs_gets_none(server: RunningServer, begin: Begin) -> None:
    begin("any: {stage: test, script: [x]}")
    assert Asking(server, add_runner(server, "vmatrix", untagged=False)).take() is None
    assert Asking(server, add_runner(server)).take() is not None


def test_stages_follow_each_other_and_a_failure_skips_what_follows(
    server: RunningServer, asking: Asking, begin: Begin
) -> None:
    pipeline = begin(
        "a: {stage: build, script: [x]}\nb: {stage: test, script: [x]}\n"
        "c: {stage: report, script: [x], when: always}\nd: {stage: test, script: [x], when: on_failure}"
    )
    first = asking.take()
    assert first["job_info"]["name"] == "a"
    assert asking.take() is None
    asking.end(first, "failed", failure_reason="script_failure", exit_code=1)
    assert states(server, pipeline) == {
        "a": State.FAILED, "b": State.SKIPPED, "c": State.CREATED, "d": State.PENDING,
    }  # fmt: skip
    asking.end(asking.take())
    assert states(server, pipeline)["c"] is State.PENDING


def test_a_job_with_needs_does_not_wait_for_stages(server: RunningServer, asking: Asking, begin: Begin) -> None:
    pipeline = begin(
        "a: {stage: build, script: [x]}\nslow: {stage: build, script: [x]}\n"
        "b: {stage: test, script: [x], needs: [{job: a}]}\nc: {stage: report, script: [x], needs: []}"
    )
    assert states(server, pipeline)["c"] is State.PENDING
    asking.end(asking.take())
    assert states(server, pipeline)["b"] is State.PENDING


@pytest.mark.parametrize(
    ("failure", "again"),
    [
        ({"failure_reason": "script_failure", "exit_code": 75}, True),
        ({"failure_reason": "script_failure", "exit_code": 1}, False),
        ({"failure_reason": "runner_system_failure"}, True),
        ({"failure_reason": "job_execution_timeout"}, False),
    ],
)
def test_a_failure_is_tried_again_by_its_reason_or_exit_code_and_once(
    server: RunningServer, asking: Asking, begin: Begin, failure: dict[str, Any], again: bool
) -> None:
    pipeline = begin("a: {stage: test, script: [x], retry: {max: 1, when: [runner_system_failure], exit_codes: [75]}}")
    first = asking.take()
    asking.end(first, "failed", **failure)
    second = asking.take()
    assert (second is not None) == again
    if again:
        assert second["id"] != first["id"]
        asking.end(second, "failed", **failure)
        assert asking.take() is None
    assert pipeline.state is State.FAILED


def test_one_job_at_a_time_has_a_resource_group(server: RunningServer, asking: Asking, begin: Begin) -> None:
    text = "a: {stage: test, script: [x], resource_group: one}\nb: {stage: test, script: [x], resource_group: one}"
    begin(text)
    first = asking.take()
    assert asking.take() is None
    asking.end(first)
    assert asking.take() is not None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("interruptible", State.CANCELING), ("conservative", State.RUNNING), ("none", State.RUNNING)],
)
def test_a_newer_commit_takes_the_place_of_jobs_that_may_be_interrupted(
    server: RunningServer, asking: Asking, begin: Begin, mode: str, expected: State
) -> None:
    text = (
        "workflow: {rules: [{if: '$CI', auto_cancel: {on_new_commit: %s}}]}\n"
        "a: {stage: test, script: [x], interruptible: true}\nb: {stage: test, script: [x]}"
    )
    old = begin(text % mode)
    assert asking.take() is not None
    assert asking.take() is not None
    begin(text % mode)
    assert states(server, old) == {"a": expected, "b": State.RUNNING}


def test_a_job_that_is_cancelled_is_told_so_and_its_token_is_void(
    server: RunningServer, asking: Asking, begin: Begin
) -> None:
    pipeline = begin("a: {stage: test, script: [x], after_script: [y]}\nb: {stage: report, script: [x]}")
    job = asking.take()
    package = "/api/v4/projects/1/packages/generic/h/1/f"
    assert asking.ask("PUT", package, b"x", {"JOB-TOKEN": job["token"]}).status == 201
    server.call(lambda forge: forge.cancel_all(pipeline))
    assert asking.trace(job, 0, "x").headers["Job-Status"] == "canceling"
    assert asking.ask("PUT", package, b"x", {"JOB-TOKEN": job["token"]}).status == 401
    assert asking.upload(job, archive(a="1")).status == 201, "its artifacts are still taken"
    asking.end(job, "failed", failure_reason="script_failure")
    assert states(server, pipeline) == {"a": State.CANCELED, "b": State.CANCELED}
    assert asking.trace(job, 1, "x").status == 403


def test_a_trace_has_no_holes_and_an_end(server: RunningServer, asking: Asking, begin: Begin) -> None:
    pipeline = begin("a: {stage: test, script: [x]}")
    job = asking.take()
    assert asking.trace(job, 0, "one ").status == 202
    refused = asking.trace(job, 9, "three")
    assert (refused.status, refused.headers["Range"]) == (416, "0-4")
    assert asking.trace(job, 4, "two").status == 202
    good = {"checksum": f"crc32:{zlib.crc32(b'one two'):08x}", "bytesize": 7}
    assert asking.end(job, output={**good, "bytesize": 8}).status == 412
    assert asking.trace(job, 0, "one two").status == 202, "after a wrong sum the whole is sent again"
    assert asking.end(job, output=good).status == 200
    assert pipeline.state is State.SUCCESS


def test_a_trace_beyond_the_limit_ends_the_job(server: RunningServer, asking: Asking, begin: Begin) -> None:
    server.site.forge.trace_limit = 10
    pipeline = begin("a: {stage: test, script: [x]}")
    job = asking.take()
    assert asking.trace(job, 0, "x" * 11).status == 403
    assert pipeline.jobs[0].failure_reason == "trace_size_exceeded"


def test_artifacts_go_to_the_jobs_that_need_them(server: RunningServer, asking: Asking, begin: Begin) -> None:
    begin(
        "a: {stage: build, script: [x], artifacts: {paths: [f]}}\nb: {stage: test, script: [x], needs: [{job: a}]}\n"
        "c: {stage: test, script: [x], needs: [{job: a, artifacts: false}]}"
    )
    maker = asking.take()
    content = archive(f="hello")
    assert asking.upload(maker, content).status == 201
    asking.end(maker)
    taker, other = asking.take(), asking.take()
    assert other["dependencies"] == []
    (found,) = taker["dependencies"]
    assert found["artifacts_file"]["size"] == len(content)
    where = f"/api/v4/jobs/{found['id']}/artifacts"
    assert asking.ask("GET", where, headers={"JOB-TOKEN": found["token"]}).body == content
    assert asking.ask("GET", where, headers={"JOB-TOKEN": "other"}).status == 401
    server.site.forge.artifact_limit = 3
    assert asking.upload(taker, content).status == 413


def test_variables_are_those_that_gitlab_would_give(server: RunningServer, asking: Asking, begin: Begin) -> None:
    text = "variables: {A: '1', B: '1', C: '1'}\na: {stage: test, script: [x], variables: {B: '2', C: '2'}}"
    server.call(lambda forge: forge.projects[0].variables.append(Variable("SECRET", "s", masked=True, protected=True)))
    begin(text, variables={"C": "3"})
    begin(text, ref="change", merge_request="7", source="merge_request_event")
    for expected in (True, False):
        given = {one["key"]: one for one in asking.take()["variables"]}
        assert [given[name]["value"] for name in "ABC"] == ["1", "2", "3" if expected else "2"]
        assert ("SECRET" in given) == expected, "protected variables are not for merge requests"
        assert given["CI_JOB_TOKEN"]["masked"] is True
        assert ("CI_COMMIT_BRANCH" in given) == expected
        assert ("CI_MERGE_REQUEST_IID" in given) != expected


def test_an_id_token_is_signed_with_a_key_that_anyone_can_see(
    server: RunningServer, asking: Asking, begin: Begin
) -> None:
    begin("a: {stage: test, script: [x], timeout: 2 hours, id_tokens: {MINE: {aud: vmatrix}}}")
    (token,) = (one["value"] for one in asking.take()["variables"] if one["key"] == "MINE")
    found = asking.ask("GET", "/.well-known/openid-configuration").data["jwks_uri"]
    keys = asking.ask("GET", found.removeprefix(server.url)).data["keys"]

    def plain(text: str) -> bytes:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    head, body, signature = token.split(".")
    key = rsa.RSAPublicNumbers(*(int.from_bytes(plain(keys[0][part])) for part in "en")).public_key()
    key.verify(plain(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(plain(body))
    assert (claims["aud"], claims["project_path"], claims["exp"] - claims["iat"]) == ("vmatrix", "team/small", 7200)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {stage: test, script: [x], services: [db]}", "a: services"),
        ("a: {stage: test, script: [x], secrets: {}}", "a: secrets"),
        ("a: {stage: test, script: [x], retry: {max: 1, tries: 2}}", "a: retry: tries"),
        ("a: {stage: test, script: [x], rules: [{changes: [f]}]}", "rules: changes"),
        ("a: {stage: test, script: [x], when: delayed}", "a: when: delayed"),
        ("a: {stage: test, script: [x], rules: [{if: '$A < 3'}]}", "rules: if: $A < 3"),
    ],
)
def test_what_is_not_spoken_is_refused_by_name(begin: Begin, text: str, said: str) -> None:
    with pytest.raises(NotSpoken) as refused:
        begin(text)
    assert said in str(refused.value)


def test_an_address_that_is_not_spoken_is_refused_by_name(server: RunningServer, asking: Asking) -> None:
    answer = asking.ask("GET", "/api/v4/projects/1/issues")
    assert answer.status == 501
    assert "GET /api/v4/projects/1/issues" in answer.data["message"]
    assert server.site.refused == ["GET /api/v4/projects/1/issues"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$A", True), ("$NONE", False), ('$A == "1"', True), ("$A != '1'", False), ("$NONE == null", True),
        ('$A == "1" && $B == "1"', False), ('$A == "2" || $B == "2"', True),
        ('($A == "2" || $B == "2") && $NONE', False), ("$WORD =~ /^AB/i", True), ("$WORD !~ /^x/", True),
        ('"true" == "true" && $A', True), ("$A == $A", True),
    ],
)  # fmt: skip
def test_expressions_of_rules(expression: str, expected: bool) -> None:
    assert true(expression, {"A": "1", "B": "2", "WORD": "abc"}) is expected
