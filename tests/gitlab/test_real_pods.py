"""The real runner in an infra cluster, with executor `kubernetes`: every job is a pod there."""

from __future__ import annotations

import pytest

from tests.gitlab.deployed import NAMESPACE_NAME
from tests.gitlab.pods_site import Site, gone, site, there
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import State
from tests.gitlab.small import ended

__all__ = ["site", "there"]
pytestmark = pytest.mark.cells


def test_a_job_is_a_pod(site: Site) -> None:
    pipeline = site.begin("""
try:
  tags: [vmatrix]
  script: ['cat .gitlab-ci.yml', 'echo "user $(id -u) in $POD_NAME of $POD_NAMESPACE"', 'vmatrix --version']
  after_script: ['echo "ended as $CI_JOB_STATUS"']
  artifacts: {paths: [.gitlab-ci.yml]}
""")
    states, done = ended(site.server, pipeline), site.job(pipeline, "try")
    assert states == {"try": State.SUCCESS}, done.said
    assert "user 65532 in runner-" in done.said
    assert f" of {NAMESPACE_NAME}" in done.said
    assert "ended as success" in done.said
    assert unpacked(done).keys() == {".gitlab-ci.yml"}
    gone(site)
