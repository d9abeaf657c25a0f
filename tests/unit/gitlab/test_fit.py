"""What a job is told of GitLab, runner, tags, time-outs and image, and what of it does not fit."""

from __future__ import annotations

import pytest

from harness.errors import BadInput
from harness.gitlab.fit import findings, refuse_other_release

GOOD = {
    "CI_SERVER_VERSION": "18.2.0",
    "CI_RUNNER_VERSION": "17.5.5",
    "CI_RUNNER_TAGS": '["big", "vmatrix"]',
    "CI_JOB_TIMEOUT": "15000",
    "RUNNER_SCRIPT_TIMEOUT": "230m",
    "RUNNER_AFTER_SCRIPT_TIMEOUT": "12m",
}


def said(**changed: str) -> list[tuple[str, str, bool]]:
    found = findings(GOOD | changed, tag="vmatrix", version="1.2.0")
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
