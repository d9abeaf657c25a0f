"""What a job is told of GitLab, runner, tags, time-outs and image, and what of it does not fit."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from harness.errors import BadInput
from harness.gitlab.doctor import clock_findings, job_findings, refuse_other_release, token_findings, upload_findings

GOOD = {
    "CI_SERVER_VERSION": "18.2.0",
    "CI_RUNNER_VERSION": "17.5.5",
    "CI_RUNNER_TAGS": '["big", "vmatrix"]',
    "CI_JOB_TIMEOUT": "15000",
    "RUNNER_SCRIPT_TIMEOUT": "230m",
    "RUNNER_AFTER_SCRIPT_TIMEOUT": "12m",
}


def said(**changed: str) -> list[tuple[str, str, bool]]:
    found = job_findings(GOOD | changed, tag="vmatrix", version="1.2.0")
    return [(one.what, one.remedy, one.fatal) for one in found]


def test_a_job_that_fits_lacks_nothing() -> None:
    assert said() == []
    assert said(CI_RUNNER_TAGS="big, vmatrix") == [], "as old GitLab writes it"


@pytest.mark.parametrize(
    ("changed", "what", "remedy", "fatal"),
    [
        ({"CI_SERVER_VERSION": "18.1.9"}, "this is GitLab 18.1.9", "update GitLab to 18.2", True),
        ({"CI_RUNNER_VERSION": "17.4.2"}, "this is GitLab Runner 17.4.2", "update GitLab Runner to 17.5", True),
        ({"CI_RUNNER_VERSION": ""}, "CI_RUNNER_VERSION is ''", "use GitLab Runner 17.5 or later", False),
        ({"CI_RUNNER_TAGS": "[]"}, "this job's runner has no tags", "add the tag vmatrix to the runner", True),
        ({"CI_RUNNER_TAGS": '["a"]'}, "this job's runner has the tags a", "or set the input runner_tag", True),
        (
            {"CI_JOB_TIMEOUT": "3600"},
            "may take 60 minutes, its script and after_script 242",
            "maximum job timeout",
            True,
        ),
        ({"RUNNER_SCRIPT_TIMEOUT": "soon"}, "'soon' is not a number of minutes", "whole minutes", True),
        (
            {"VMATRIX_REVISION": "abc", "MATRIX_REF": "v1.3.0"},
            "the image has vmatrix 1.2.0, the pipeline is of 1.3.0",
            "set the input image to vmatrix's image with the tag v1.3.0",
            True,
        ),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "MATRIX_NAMESPACE": "cells", "POD_NAME": "a", "POD_UID": "b"},
            "POD_NAMESPACE is not set in the job's pod",
            "configure the runner as deploy/runner does",
            False,
        ),
    ],
)
def test_what_does_not_fit_is_said_with_its_remedy(
    changed: dict[str, str], what: str, remedy: str, fatal: bool
) -> None:
    ((found, cure, weight),) = said(**changed)
    assert what in found
    assert remedy in cure
    assert weight is fatal


def test_an_image_of_the_same_version_or_of_a_branch_fits() -> None:
    assert said(VMATRIX_REVISION="abc", MATRIX_REF="v1.2.0") == []
    assert said(VMATRIX_REVISION="abc", MATRIX_REF="main") == []


def test_an_image_of_another_release_is_refused() -> None:
    with pytest.raises(BadInput, match=r"the image has vmatrix 1\.2\.0, the pipeline is of 1\.3\.0"):
        refuse_other_release({"VMATRIX_REVISION": "abc", "MATRIX_REF": "v1.3.0"}, version="1.2.0")
    for ref in ("v1.2.0", "main"):
        refuse_other_release({"VMATRIX_REVISION": "abc", "MATRIX_REF": ref}, version="1.2.0")


NOW = 1_900_000_000.0


class Clock(BaseHTTPRequestHandler):
    """Refuses everybody, at a known time."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(401)
        self.end_headers()

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the time of the answer."""
        return formatdate(NOW, usegmt=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@contextmanager
def gitlab() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Clock)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/v4"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("apart", "said"),
    [(0.0, ""), (29.0, ""), (90.0, "90 s ahead of GitLab's"), (-3600.0, "3600 s behind GitLab's")],
)
def test_clocks_that_are_apart_are_reported(apart: float, said: str) -> None:
    with gitlab() as api:
        found = list(clock_findings({"CI_API_V4_URL": api}, now=NOW + apart))
    assert bool(found) == bool(said)
    for one in found:
        assert said in one.what
        assert "timedatectl set-ntp true" in one.remedy
        assert one.fatal


def test_a_gitlab_that_does_not_answer_is_advice() -> None:
    with gitlab() as api:
        """It is gone now."""
    (found,) = clock_findings({"CI_API_V4_URL": api}, now=time.time())
    assert "does not answer" in found.what
    assert not found.fatal


def test_without_gitlab_nothing_is_asked() -> None:
    assert list(clock_findings({})) == []


@pytest.mark.parametrize("api", ["https://[", "https://h:port/", "https://", "http://é\udce9", "https://a b"])
def test_an_address_that_cannot_be_asked_is_a_finding(api: str) -> None:
    (found,) = clock_findings({"CI_API_V4_URL": api}, now=0.0)
    assert "does not answer" in found.what


TOKEN_NOW = 1000.0
CLAIMS = {"aud": "vmatrix", "iss": "https://gitlab.example.org", "exp": 2000}


def token(**changed: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(CLAIMS | changed).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def token_words(given: str, **more: str) -> list[str]:
    environment = {"MATRIX_API_SERVER": "https://api", "CI_SERVER_URL": "https://gitlab.example.org", **more}
    return [
        f"{one.what}; {one.remedy}" for one in token_findings(environment | {"MATRIX_ID_TOKEN": given}, now=TOKEN_NOW)
    ]


@pytest.mark.parametrize("audience", ["vmatrix", ["other", "vmatrix"]])
def test_a_good_token_lacks_nothing(audience: object) -> None:
    assert token_words(token(aud=audience)) == []


def test_a_job_without_a_server_needs_no_token() -> None:
    assert token_words("", MATRIX_API_SERVER="") == []


@pytest.mark.parametrize(
    ("given", "what", "remedy"),
    [
        ("", "MATRIX_ID_TOKEN is not set", "{aud: vmatrix}"),
        ("a.b", "is not a token", "{aud: vmatrix}"),
        ("a.!.c", "is not a token", "{aud: vmatrix}"),
        (token(aud="vault"), "is for the audience 'vault'", "change the job's id_tokens"),
        (token(iss="http://inside"), "issued by 'http://inside'", "external URL"),
        (token(exp=900), "expired 100 s ago", "longer `timeout`"),
        (token(exp=None), "expired", "longer `timeout`"),
    ],
)
def test_what_is_wrong_with_a_token_is_said(given: str, what: str, remedy: str) -> None:
    (found,) = token_words(given)
    assert what in found
    assert remedy in found


def test_files_that_are_no_artifacts_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "runs" / "r1" / "cell" / "logs").mkdir(parents=True)
    (tmp_path / "runs" / "r1" / "cell" / "id_ed25519").write_bytes(b"x" * 2**21)
    assert list(upload_findings(tmp_path, limit_mib=1)) == []


def test_artifacts_above_the_limit_are_reported_once(tmp_path: Path) -> None:
    logs = tmp_path / "runs" / "r1" / "cell" / "logs"
    logs.mkdir(parents=True)
    (logs / "deploy.log").write_bytes(b"x" * 2**20)
    (logs.parent.parent / "junit.xml").write_bytes(b"x" * 2**20)
    (logs / "link").symlink_to(logs / "deploy.log")
    assert list(upload_findings(tmp_path, limit_mib=2)) == []
    (found,) = upload_findings(tmp_path, limit_mib=1)
    assert "2 MiB" in found.what
    assert "--artifacts-limit" in found.remedy
