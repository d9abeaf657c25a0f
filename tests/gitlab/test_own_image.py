"""The job `own image`, as its pipeline runs it: the image is in a registry that asks for a log-in, or the job fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts.own import push as pushing
from harness.artifacts.product.images import crane
from harness.artifacts.store import Store
from tests.embedded.artifacts.given_registries import PASSWORD, USER, registry
from tests.gitlab.checkout import PUSH, Checkout

pytestmark = pytest.mark.cells  # it installs packages, and makes the image, as root
SECONDS = 1800.0
JOB = "own image"
COMMAND_SECONDS = 60.0


@pytest.fixture
def job(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the variables of a job on the default branch of a project whose registry guards itself."""
    with registry(tmp_path, guarded=True) as address:
        yield {
            **PUSH,
            "CI_COMMIT_BRANCH": "main",
            "CI_DEFAULT_BRANCH": "main",
            "CI_COMMIT_REF_SLUG": "main",
            "CI_REGISTRY_IMAGE": f"{address}/team/vmatrix",
            "CI_REGISTRY_USER": USER,
            "CI_REGISTRY_PASSWORD": PASSWORD,
            "SSL_CERT_FILE": str(tmp_path / "certificate.pem"),
        }


def test_the_image_is_in_the_projects_registry(
    project: Checkout, job: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = project.call(JOB, variables=job, seconds=SECONDS)
    assert ended.code == 0, ended.said
    (digest,) = set(re.findall(r"digest +(sha256:[0-9a-f]{64})", ended.said))
    (reference,) = set(re.findall(r"reference +(\S+)", ended.said))
    where = job["CI_REGISTRY_IMAGE"]
    monkeypatch.setenv("SSL_CERT_FILE", job["SSL_CERT_FILE"])
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    pushing.logged_in(where.partition("/")[0], pushing.Login(USER, PASSWORD), tmp_path)
    for name in (reference, f"{where}/vmatrix:main"):
        found = proc.run([crane(Store()), "digest", name], timeout=COMMAND_SECONDS)
        assert found.stdout.strip() == digest
    assert PASSWORD not in ended.said.replace(where, "").split()


def test_a_refused_log_in_fails_the_job_with_what_to_do(project: Checkout, job: dict[str, str]) -> None:
    ended = project.call(JOB, variables={**job, "CI_REGISTRY_PASSWORD": "wrong"}, seconds=SECONDS)
    assert ended.code != 0
    assert f"the registry refused user {USER}" in ended.said
    assert "check --user and --password" in ended.said
