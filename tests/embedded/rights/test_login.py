"""deploy/authentication: which tokens of an issuer open the API, as whom, and which do not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from harness.infra.cluster.access import WHO_AM_I, subject
from tests.embedded.rights.conftest import PROJECT, Ground

HOUR = 3600


def test_a_job_logs_in_as_its_project(ground: Ground) -> None:
    job = ground.job(PROJECT, "platform/deep/app")

    answer = job.cluster.request(
        "POST", WHO_AM_I.path(), body={"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind}
    )

    seen = answer["status"]["userInfo"]
    assert seen["username"] == "gitlab:platform/deep/app"
    assert set(seen["groups"]) == {"vmatrix:jobs", "vmatrix:project:1001", "system:authenticated"}
    assert seen["extra"] == {"vmatrix.dev/job": ["77"], "vmatrix.dev/pipeline": ["7"], "vmatrix.dev/ref": ["main"]}
    assert subject(job.cluster).user == "gitlab:platform/deep/app"


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("strangers/app", {}),
        ("platform-not/app", {}),
        ("platform/app", {"aud": "another-cluster"}),
        ("platform/app", {"iss": "https://127.0.0.1:1"}),
        ("platform/app", {"iat": int(time.time()) - 2 * HOUR, "exp": int(time.time()) - HOUR}),
        ("platform/app", {"nbf": int(time.time()) + HOUR, "exp": int(time.time()) + 2 * HOUR}),
        ("platform/app", {"exp": int(time.time()) + 48 * HOUR}),
        ("platform/app", {"project_id": "1001', 'system:masters"}),
    ],
    ids=[
        "foreign-group",
        "group-that-begins-alike",
        "audience",
        "issuer",
        "expired",
        "not-yet",
        "too-long",
        "injected",
    ],
)
def test_a_token_that_is_not_for_us_opens_nothing(ground: Ground, path: str, claims: Mapping[str, Any]) -> None:
    stranger = ground.job(PROJECT, path, **claims)

    assert stranger.cluster.send("GET", "/api/v1/namespaces").code == 401


def test_a_token_signed_by_another_key_opens_nothing(ground: Ground) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = ground.issuer.claims(PROJECT, "platform/app")

    forged = ground.with_token("", ground.issuer.token(claims, key=key))

    assert forged.cluster.send("GET", "/api/v1/namespaces").code == 401
    assert ground.with_token("", ground.issuer.token(claims)).cluster.send("GET", "/api/v1/namespaces").code == 200
