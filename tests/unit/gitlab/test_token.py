"""A job's ID token, judged without its issuer's key."""

from __future__ import annotations

import base64
import json

import pytest

from harness.gitlab.token import findings

NOW = 1000.0
CLAIMS = {"aud": "vmatrix", "iss": "https://gitlab.example.org", "exp": 2000}


def token(**changed: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(CLAIMS | changed).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def said(given: str, **more: str) -> list[str]:
    environment = {"MATRIX_API_SERVER": "https://api", "CI_SERVER_URL": "https://gitlab.example.org", **more}
    return [f"{one.what}; {one.remedy}" for one in findings(environment | {"MATRIX_ID_TOKEN": given}, now=NOW)]


@pytest.mark.parametrize("audience", ["vmatrix", ["other", "vmatrix"]])
def test_a_good_token_lacks_nothing(audience: object) -> None:
    assert said(token(aud=audience)) == []


def test_a_job_without_a_server_needs_no_token() -> None:
    assert said("", MATRIX_API_SERVER="") == []


@pytest.mark.parametrize(
    ("given", "what", "remedy"),
    [
        ("", "MATRIX_ID_TOKEN is not set", "{aud: vmatrix}"),
        ("a.b", "is no token", "{aud: vmatrix}"),
        ("a.!.c", "is no token", "{aud: vmatrix}"),
        (token(aud="vault"), "is for the audience 'vault'", "change the job's id_tokens"),
        (token(iss="http://inside"), "issued by 'http://inside'", "external URL"),
        (token(exp=900), "expired 100 s ago", "longer `timeout`"),
        (token(exp=None), "expired", "longer `timeout`"),
    ],
)
def test_what_is_wrong_with_a_token_is_said(given: str, what: str, remedy: str) -> None:
    (found,) = said(given)
    assert what in found
    assert remedy in found
